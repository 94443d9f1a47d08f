"""Encoders inside what people build and load models with."""

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import nerf_posenc as ne
from nerf_posenc.core import SinCos
from nerf_posenc.encoders import column_order, icosahedron_basis, port_linear
from tests.optional import needs


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ne.FourierEncoder(2, 4), ne.FourierEncoder(2, 4, base=1.0)),
        (ne.FourierEncoder(2, 4), ne.FourierEncoder(2, 4, phases=("cos", "sin"))),
        (ne.FourierEncoder(2, 4), ne.FourierEncoder(2, 4, out_dtype=torch.bfloat16)),
        (ne.FourierEncoder(2, (4, 3)), ne.FourierEncoder(2, (3, 4))),
        (
            ne.FourierEncoder(3, 4, basis=icosahedron_basis(1)),
            ne.FourierEncoder(3, 4, basis=-icosahedron_basis(1)),
        ),
        (ne.SinusoidalEncoder(8), ne.SinusoidalEncoder(8, base=100.0)),
        (ne.SinusoidalEncoder(8), ne.SinusoidalEncoder(8, split=True)),
        (ne.GridSinusoidalEncoder(8), ne.GridSinusoidalEncoder(8, base_size=16)),
    ],
)
def test_encoders_that_give_other_numbers_print_otherwise(one: nn.Module, other: nn.Module) -> None:
    assert repr(one) != repr(other)
    assert "None" not in repr(one)


@pytest.mark.parametrize(
    "encoder",
    [
        ne.FourierEncoder(2, 6, out_dtype=torch.bfloat16),
        ne.FourierEncoder.preset("nerf", 2, 6, out_dtype=torch.bfloat16),
        ne.GaussianEncoder(2, 8, sigma=20.0, out_dtype=torch.bfloat16),
    ],
    ids=["octaves", "with the input", "gaussian"],
)
def test_float32_coordinates_go_into_a_bfloat16_model(encoder: ne.FourierEncoder) -> None:
    model = nn.Sequential(encoder, nn.Linear(encoder.out_dim, 3)).bfloat16()
    x = torch.rand(7, 2)
    assert model(x).dtype == torch.bfloat16
    exact = copy.deepcopy(encoder)
    exact.out_dtype = None
    assert torch.equal(encoder(x), exact(x).bfloat16())


def test_a_float64_matrix_stays_float64_and_half_checkpoints_do_not_cast_it() -> None:
    encoder = ne.GaussianEncoder(2, matrix=torch.rand(4, 2, dtype=torch.float64))
    assert encoder.half().matrix.dtype == torch.float64
    state = {name: value.half() for name, value in encoder.state_dict().items()}
    encoder.load_state_dict(state, assign=True)
    assert encoder.matrix.dtype == torch.float64


def test_data_parallel_replicas_have_the_constants() -> None:
    encoder = ne.FourierEncoder(2, (3, 5))
    replica = encoder._replicate_for_data_parallel()
    x = torch.rand(4, 2)
    assert torch.equal(encoder(x), ne.FourierEncoder(2, (3, 5))(x))
    assert replica._kept is encoder._kept


@pytest.mark.slow
def test_a_pretrained_model_of_transformers_loads_with_an_encoder_inside(tmp_path: Path) -> None:
    needs("transformers")
    import transformers

    class Config(transformers.PretrainedConfig):
        model_type = "encoded"

    class Model(transformers.PreTrainedModel):
        config_class = Config

        def __init__(self, config: Config) -> None:
            super().__init__(config)
            self.octaves = ne.FourierEncoder(2, (3, 5))
            self.random = ne.GaussianEncoder(2, 8)
            self.linear = nn.Linear(self.octaves.out_dim + self.random.out_dim, 16)
            self.post_init()

        def forward(self, x: Tensor) -> Tensor:
            features = torch.cat([self.octaves(x), self.random(x)], -1)
            output: Tensor = self.linear(features)
            return output

    torch.manual_seed(0)
    model = Model(Config())
    x = torch.rand(5, 2)
    expected = model(x)
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(Model.from_pretrained(tmp_path)(x), expected, atol=0, rtol=0)
    half = Model.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert half.random.matrix.shape == (8, 2)
    assert torch.equal(half.octaves(x), model.octaves(x))


SHARDED = """
import sys, torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
import nerf_posenc as ne

rank, rendezvous = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
torch.manual_seed(0)
encoder = ne.GaussianEncoder(2, 8, sigma=3.0, trainable=True)
model = nn.Sequential(encoder, ne.FourierEncoder(16, 2), nn.Linear(64, 4))
x = torch.rand(6, 2)
expected = model(x)
expected.square().sum().backward()
wanted = encoder.matrix.grad.clone()
model.zero_grad()
mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
fully_shard(model, mesh=mesh)
output = model(x)
output.square().sum().backward()
matrix = encoder.matrix
assert isinstance(matrix, DTensor)
torch.testing.assert_close(output, expected)
torch.testing.assert_close(matrix.grad.full_tensor(), wanted)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_shard_a_model_with_encoders(tmp_path: Path) -> None:
    script = tmp_path / "sharded.py"
    script.write_text(SHARDED, encoding="utf-8")
    workers = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(tmp_path / "rendezvous")],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for worker in workers:
        _, errors = worker.communicate(timeout=90)
        assert worker.returncode == 0, errors


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ne.FourierEncoder(2)(torch.rand(3, 2).numpy()), r"torch\.from_numpy"),
        (lambda: SinCos(2, [1.0])([[0.5, 0.5]]), r"x must be a torch\.Tensor; got list"),
        (lambda: ne.FourierEncoder(3.0), "in_dim must be an integer; got 3.0"),  # type: ignore[arg-type]
        (lambda: ne.FourierEncoder(3, 4.0), "num_bands must be an integer"),  # type: ignore[arg-type]
        (lambda: ne.FourierEncoder(3, True), "num_bands must be an integer; got True"),
        (lambda: ne.GaussianEncoder(True, 8), "in_dim must be an integer; got True"),
        (lambda: ne.SinusoidalEncoder.timestep(64)(999), r"positions must be a torch\.Tensor"),
        (lambda: ne.GridSinusoidalEncoder(8).table(14), r"a size for each axis, as \(14, 14\)"),  # type: ignore[arg-type]
        (
            lambda: column_order(ne.GaussianEncoder(2), ne.FourierEncoder(2)),  # type: ignore[arg-type]
            "in a FourierEncoder; got a GaussianEncoder",
        ),
        (
            lambda: port_linear(nn.ReLU(), ne.FourierEncoder(2), ne.FourierEncoder(2)),  # type: ignore[arg-type]
            "nn.Linear or a convolution; got a ReLU",
        ),
    ],
)
def test_the_wrong_kind_of_argument_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ne.FourierEncoder(2, include_input="both"),  # type: ignore[arg-type]
            "'front' or 'back', the side",
        ),
        (lambda: ne.FourierEncoder(2, 10, frequencies=[1.0, 2.0]), "not both; got 10 and 2"),
        (lambda: ne.FourierEncoder(3)(torch.rand(2, 3, 5, 7)), r"give x\.movedim\(1, -1\)"),
        (
            lambda: ne.normalize_box(torch.rand(5, 3), ((0, 1),) * 3),  # type: ignore[arg-type]
            r"tuple\(zip\(\*bounds\)\)",
        ),
        (lambda: ne.FourierEncoder.preset("nerfstdio", 3), "did you mean nerfstudio"),
        (lambda: ne.GridSinusoidalEncoder.preset("difusers", 8), "did you mean diffusers"),
        (
            lambda: ne.SinusoidalEncoder(64)(torch.rand(2, 10, 64)),
            r"look like features of width 64; use add_to",
        ),
        (
            lambda: ne.SinusoidalEncoder(8).add_to(torch.rand(3, 8), sequence_dim=-1),
            "sequence_dim must be a dimension",
        ),
    ],
)
def test_the_wrong_value_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "arguments", "hint"),
    [
        (ne.FourierEncoder, dict(in_dim=2, bands=5), "num_bands=5"),
        (ne.FourierEncoder, dict(in_dim=2, bands=[1.0, 2.0]), "frequencies="),
        (ne.FourierEncoder, dict(in_dim=2, num_frequencies=6), "num_bands=6"),
        (
            ne.FourierEncoder.preset,
            dict(name="nerf", in_dim=2, min_freq_exp=0.0),
            r"min_octave=0\.0",
        ),
        (ne.GaussianEncoder, dict(in_dim=2, num_frequencies=6), "num_features=6"),
        (ne.GaussianEncoder, dict(in_dim=2, scale=10.0), r"sigma=10\.0"),
        (ne.GridSinusoidalEncoder, dict(dim=8, scale=6.5), r"span=6\.5"),
        (ne.SinusoidalEncoder, dict(dim=8, theta=500.0), r"base=500\.0"),
        (ne.GridSinusoidalEncoder, dict(dim=8, temperature=20), "base=20"),
        (ne.HashGridEncoder, dict(in_dim=3, per_level_scale=1.5), r"growth=1\.5"),
        (ne.HashGridEncoder, dict(in_dim=3, log2_hashmap_size=14), "log2_table_size=14"),
        (ne.SphericalHarmonicsEncoder, dict(degree=4), "num_levels=4"),
        (ne.IntegratedDirectionalEncoder, dict(degree=4), "num_degrees=4"),
        (ne.SinusoidalEncoder, dict(dim=8, max_len=512), r"call table\(512\)"),
        (ne.KPlanesEncoder, dict(in_dim=4, theta=3), "there is none like it"),
    ],
)
def test_arguments_of_other_libraries_are_answered(
    make: Any, arguments: dict[str, Any], hint: str
) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument .*{hint}"):
        make(**arguments)


def test_lists_of_numbers_are_bands() -> None:
    x = torch.rand(4, 2)
    bands = torch.tensor([1.0, 2.5], dtype=torch.float64)
    assert torch.equal(
        ne.FourierEncoder(2, frequencies=[1.0, 2.5])(x), ne.FourierEncoder(2, frequencies=bands)(x)
    )


PIXELS = torch.arange(500.0)[:, None].expand(-1, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ne.FourierEncoder(2, 10),
        lambda: ne.FourierEncoder.preset("nerf", 2, 10),
        lambda: ne.HashGridEncoder(2, 2, log2_table_size=6),
        lambda: ne.DenseGridEncoder(2, base_resolution=4),
        lambda: ne.KPlanesEncoder(2, 2, resolution=4),
    ],
)
def test_pixel_indices_are_warned_of_once(make: Callable[[], nn.Module]) -> None:
    encoder = make()
    with pytest.warns(UserWarning, match=r"go from 0 to 499, where .* Scale pixel indices"):
        encoder(PIXELS)
    encoder(PIXELS)
    # Far from 0, or with bands that are as slow, nothing is amiss.
    make()(PIXELS / 250 + 999)
    ne.FourierEncoder(2, frequencies=ne.geometric_bands(32))(PIXELS)


def test_sequence_first_embeddings_get_the_same_positions() -> None:
    encoder = ne.SinusoidalEncoder(8)
    embeddings = torch.rand(5, 3, 8)
    first = encoder.add_to(embeddings, sequence_dim=0)
    assert torch.equal(first, encoder.add_to(embeddings.transpose(0, 1)).transpose(0, 1))
