"""Checkpoints: what is saved comes back, and what is damaged is refused by name."""

import errno
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from nerf_posenc.training import checkpoints
from nerf_posenc.training.checkpoints import CheckpointError, load_checkpoint, save_checkpoint


def sample() -> dict[str, Any]:
    weights = torch.randn(4, 3)
    return {
        "tensors": {
            "half": weights.bfloat16(),
            "transposed": weights.T,
            "shared": weights,
            "complex": torch.view_as_complex(torch.randn(3, 2)),
            "bits": weights > 0,
            "empty": torch.zeros(0, 3),
            "scalar": torch.tensor(2.5),
            "strided": torch.tensor([1.0, 2.0, 3.0])[::3],
            "infinite": torch.full((2,), torch.inf),
        },
        "numbers": [0, -1, 2**53, 0.1, 1e-300, True, None, "caf\udce9 日本"],
        "by_index": {0: {"step": torch.tensor(3.0)}, 7: []},
    }


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def test_everything_comes_back_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    values = sample()
    save_checkpoint(path, values)
    assert same(load_checkpoint(path), values)
    assert [file.name for file in tmp_path.iterdir()] == ["a.safetensors"]


def test_names_that_join_alike_are_told_apart(tmp_path: Path) -> None:
    values: dict[Any, Any] = {
        "a": {"b": torch.zeros(1)},
        "a.b": torch.ones(1),
        1: torch.full((1,), 2.0),
    }
    values["1"] = torch.full((1,), 3.0)
    save_checkpoint(tmp_path / "a.safetensors", values)
    assert load_checkpoint(tmp_path / "a.safetensors") == values


def test_tensors_are_left_on_the_disk_if_only_the_rest_is_asked_for(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "a", sample())
    values = load_checkpoint(tmp_path / "a", with_tensors=False)
    assert set(values["tensors"].values()) == {None}
    assert same(values["numbers"], sample()["numbers"])


@pytest.mark.parametrize("seed", range(4))
def test_any_damage_is_refused_by_the_name_of_the_file(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, sample())
    whole, rng = path.read_bytes(), random.Random(seed)
    for _ in range(50):
        damaged = bytearray(whole)
        at = rng.randrange(len(whole))
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged if rng.random() < 0.7 else whole[:at])
        with pytest.raises(CheckpointError, match=r"a\.safetensors"):
            load_checkpoint(path)


def test_files_of_other_programs_and_versions_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "other.safetensors"
    safetensors.torch.save_file({"w": torch.zeros(2)}, path, {"format": "pt"})
    with pytest.raises(CheckpointError, match="of nerf_posenc: its format is 'pt'"):
        load_checkpoint(path)
    monkeypatch.setattr(checkpoints, "VERSION", 99)
    save_checkpoint(path, sample())
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="version '99', and this nerf_posenc reads version 1"):
        load_checkpoint(path)
    path.write_bytes(b"PK\x03\x04 a pickle of torch.save")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        load_checkpoint(path)
    with pytest.raises(CheckpointError, match="it is no regular file"):
        load_checkpoint(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no checkpoint at .*missing"):
        load_checkpoint(tmp_path / "missing")


def test_a_write_that_fails_leaves_the_last_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, {"step": 1})

    def full(file: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "synchronize", full)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(path, {"step": 2})
    assert load_checkpoint(path) == {"step": 1}
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_it_is_renamed_only_when_it_is_whole_and_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, order = tmp_path / "a.safetensors", []
    synchronize, replace = checkpoints.synchronize, Path.replace

    def noted_synchronize(file: Path) -> None:
        order.append(f"synchronize {file.name}")
        synchronize(file)

    def noted_replace(self: Path, target: Path) -> Path:
        order.append(f"rename {self.name}")
        assert load_checkpoint(self) == {"step": 1}
        return replace(self, target)

    monkeypatch.setattr(checkpoints, "synchronize", noted_synchronize)
    monkeypatch.setattr(Path, "replace", noted_replace)
    save_checkpoint(path, {"step": 1}, token="0f")
    partial = ".0f.partial.a.safetensors"
    assert order == [f"synchronize {partial}", f"rename {partial}", f"synchronize {tmp_path.name}"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_lacks_is_refused(tmp_path: Path, value: float) -> None:
    with pytest.raises(ValueError, match=r"loss is (nan|inf)"):
        save_checkpoint(tmp_path / "a", {"loss": value})


def test_other_types_are_refused_by_their_place(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"fit\.0 is a PosixPath"):
        save_checkpoint(tmp_path / "a", {"fit": [Path("x").absolute()]})


def test_the_header_is_json_that_other_programs_can_read(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_checkpoint(path, {"model": {"weight": torch.eye(2)}, "step": 3})
    with safetensors.safe_open(str(path), "pt") as file:
        assert torch.equal(file.get_tensor(".model.weight"), torch.eye(2))
        content = json.loads(file.metadata()["content"])
    assert ["step", 3] in content["items"]


@pytest.mark.parametrize(
    ("message", "number", "shown"),
    [
        ("I/O error: (os error 28)", errno.ENOSPC, os.strerror(errno.ENOSPC)),
        ("no\n  number", None, "no number"),
    ],
)
def test_a_checkpoint_that_cannot_be_written_gives_the_system_s_error(
    message: str, number: int | None, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise safetensors.SafetensorError(message)

    monkeypatch.setattr(safetensors.torch, "save_file", fail)
    with pytest.raises(OSError, match=shown) as caught:
        save_checkpoint(tmp_path / "a", {"w": torch.zeros(2)})
    assert caught.value.errno == number


def test_a_checkpoint_in_a_folder_that_is_not_there_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        save_checkpoint(tmp_path / "missing" / "a", {"w": torch.zeros(2)})


def test_a_checkpoint_can_be_read_by_others_and_is_of_version_1(tmp_path: Path) -> None:
    # The version that the files of users have.
    assert checkpoints.VERSION == 1
    save_checkpoint(tmp_path / "a", {"step": 1})
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
    assert load_checkpoint(tmp_path / "a") == {"step": 1}
