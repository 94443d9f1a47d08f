"""Trained tables, memory networks, and the schemes that lead to sinusoids."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from docs.naive import (
    Requirements,
    binary_codes,
    check_requirements,
    index_codes,
    normalized_index_codes,
    sinusoidal_codes,
)
from nerf_posenc_attention import LearnedPositionEncoder, MemN2NPositionEncoder
from tests.optional import needs


@pytest.mark.parametrize("std", [0.02, 0.1])
def test_learned_codes_start_normal(std: float) -> None:
    codes = LearnedPositionEncoder(1000, 200, std=std).codes.detach()
    assert float(codes.std()) == pytest.approx(std, rel=0.02)
    assert abs(float(codes.mean())) < 0.02 * std


def test_learned_codes_are_looked_up_and_trained() -> None:
    encoder = LearnedPositionEncoder(10, 4)
    positions = torch.tensor([[0, 3], [9, 3]])
    assert torch.equal(encoder(positions), encoder.codes[positions])
    assert torch.equal(encoder.table(4, offset=2), encoder.codes[2:6])
    encoder(positions).sum().backward()
    assert encoder.codes.grad is not None
    assert encoder.codes.grad.sum(1).tolist() == [4, 0, 0, 8, 0, 0, 0, 0, 0, 4]


@pytest.mark.usefixtures("unchecked")
def test_learned_codes_take_integers_of_any_type_and_nothing_else() -> None:
    encoder = LearnedPositionEncoder(10, 4)
    positions = torch.tensor([[0, 3], [9, 3]])
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert torch.equal(encoder(positions.to(dtype)), encoder.codes[positions])
    assert torch.equal(torch.vmap(encoder)(positions), encoder.codes[positions])
    with pytest.raises(TypeError, match=r"positions must be integers.*float32"):
        encoder(positions.float())
    with pytest.raises(TypeError, match=r"torch\.from_numpy"):
        encoder(positions.numpy())


def test_stretched_codes_meet_at_the_ends_and_lie_on_lines() -> None:
    encoder = LearnedPositionEncoder(5, 3)
    stretched = encoder.table(9, interpolate=True)
    torch.testing.assert_close(stretched[::2], encoder.codes)
    middle = (encoder.codes[1:] + encoder.codes[:-1]) / 2
    torch.testing.assert_close(stretched[1::2], middle)
    assert torch.equal(encoder.table(5, interpolate=True), encoder.codes)
    assert torch.equal(encoder.table(1, interpolate=True), encoder.codes[:1])
    assert encoder.table(0, offset=5).shape == (0, 3)


@pytest.mark.usefixtures("unchecked")
def test_positions_without_a_code_are_named() -> None:
    encoder = LearnedPositionEncoder(10, 4)
    for call, message in (
        (lambda: encoder(torch.tensor([3, 10])), r"positions must be 0 to 9; got 3 to 10"),
        (lambda: encoder(torch.tensor([-1])), r"got -1 to -1"),
        (lambda: encoder.table(11), "interpolate=True"),
        (lambda: encoder.table(5, offset=6), "positions 6 to 10 are not all"),
        (lambda: encoder.table(5, offset=2, interpolate=True), "no offset"),
        (lambda: encoder.table(0, interpolate=True), "length of 1 or more"),
        (lambda: encoder.table(-1), "positions 0 to -2"),
        (lambda: encoder.table(2, offset=-1), "positions -1 to 0"),
        (lambda: LearnedPositionEncoder(0, 4), "max_length must be 1 or more"),
        (lambda: LearnedPositionEncoder(4, 4, std=0.0), "std must be finite and positive"),
        (lambda: MemN2NPositionEncoder(0), "dim must be 1 or more"),
        (lambda: MemN2NPositionEncoder(3)(torch.zeros(2, 4)), r"\(\*batch, length, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert encoder(torch.zeros(0, dtype=torch.long)).shape == (0, 4)


def test_memory_network_weights_are_the_papers() -> None:
    length, dim = 6, 5
    table = MemN2NPositionEncoder(dim).table(length)
    for j in range(1, length + 1):
        for k in range(1, dim + 1):
            expected = (1 - j / length) - (k / dim) * (1 - 2 * j / length)
            assert float(table[j - 1, k - 1]) == pytest.approx(expected, abs=1e-6)
    words = torch.rand(2, length, dim)
    torch.testing.assert_close(MemN2NPositionEncoder(dim)(words), words * table)


EMBEDDINGS = torch.rand(4, 6, generator=torch.Generator().manual_seed(0))
MODULES = [
    pytest.param(lambda: LearnedPositionEncoder(9, 6), (torch.tensor([0, 8, 3]),), id="learned"),
    pytest.param(lambda: MemN2NPositionEncoder(6), (EMBEDDINGS,), id="memn2n"),
]


def flat(outputs: object) -> torch.Tensor:
    """One tensor of an encoder's one or two."""
    parts = outputs if isinstance(outputs, tuple | list) else (outputs,)
    return torch.cat([torch.as_tensor(part) for part in parts])


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("make", "inputs"), MODULES)
def test_they_compile_export_copy_and_run_in_onnxruntime(
    make: Callable[[], nn.Module], inputs: tuple[torch.Tensor, ...], tmp_path: Path
) -> None:
    needs("onnx", "onnxscript", "onnxruntime")
    import onnxruntime

    torch.compiler.reset()
    encoder = make()
    expected = flat(encoder(*inputs)).detach()
    compiled = torch.compile(encoder, fullgraph=True, backend="aot_eager")
    fresh = make()
    fresh.load_state_dict(encoder.state_dict())
    program = torch.export.export(encoder, inputs)
    for other in (compiled, fresh, copy.deepcopy(encoder), program.module()):
        torch.testing.assert_close(flat(other(*inputs)).detach(), expected)
    torch.onnx.export(encoder, inputs, tmp_path / "e.onnx", dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "e.onnx", providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    feed = {name: x.numpy() for name, x in zip(names, inputs, strict=True)}
    torch.testing.assert_close(flat(session.run(None, feed)), expected)


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (sinusoidal_codes, Requirements(True, True, True, True, True, True, True)),
        # The index grows without bound, in one column.
        (index_codes, Requirements(True, False, True, True, True, True, False)),
        # Divided by the length, a position and a step mean another thing in each sentence.
        (normalized_index_codes, Requirements(True, True, False, False, True, True, False)),
        # From 7 to 8 four bits change, from 8 to 9 one; 16 bits end at 65,535.
        (binary_codes, Requirements(True, True, False, True, True, False, False)),
    ],
)
def test_each_naive_scheme_fails_where_theory_says(scheme, expected: Requirements) -> None:  # type: ignore[no-untyped-def]
    assert check_requirements(scheme) == expected


def test_a_scheme_that_repeats_itself_is_found_out() -> None:
    repeating = check_requirements(lambda length: (torch.arange(length) % 7)[:, None] / 7)
    assert not repeating.distinct
    with pytest.raises(ValueError, match="two lengths or more"):
        check_requirements(index_codes, lengths=(10, 15))
    with pytest.raises(ValueError, match="4 bits tell 16 positions apart, not 17"):
        binary_codes(17, num_bits=4)


def test_a_trained_table_is_added_as_sinusoids_are() -> None:
    encoder, words = LearnedPositionEncoder(10, 4), torch.randn(2, 6, 4)
    torch.testing.assert_close(encoder.add_to(words), words + encoder.table(6))
    torch.testing.assert_close(encoder.add_to(words, offset=4), words + encoder.table(6, offset=4))
    with pytest.raises(ValueError, match="are not all among the 10 learned ones"):
        encoder.add_to(words, offset=5)
    assert encoder.add_to(words.half()).dtype == torch.float16
