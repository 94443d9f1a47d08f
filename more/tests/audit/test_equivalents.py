"""Every line of the table of equivalents runs, and gives the numbers of its library."""

import re

import pytest
import torch
from torch import Tensor

from more.tools.library_numbers import error, evaluate, small_vectors
from nerf_posenc_audit.catalog.equivalent import Equivalent
from nerf_posenc_audit.catalog.equivalents import EQUIVALENTS

WITH_NUMBERS = [each for each in EQUIVALENTS if each.vector]
ALL = pytest.mark.parametrize(
    "equivalent", WITH_NUMBERS, ids=[f"{each.what}: {each.vector}" for each in WITH_NUMBERS]
)

# The largest band, 2 pi 2^16 of nerfstudio's mip-NeRF, multiplies the rounding of float32
# coordinates, which the library was not given.
LARGEST_BAND = 1.5e-2

# Short vectors that are no encoding, record a defect, are ragged or are not implemented; and one
# that is here twice.
ELSEWHERE = {
    "activations",
    "rotary_embedding_torch.axial_offset_cache",
    "rotary_embedding_torch.axial_pixel",
    "rotary_embedding_torch.bf16_pos",
    "x_transformers.alibi_slopes",
    "multinerf.contract",
}


@ALL
def test_in_float64_a_line_gives_the_librarys_numbers(equivalent: Equivalent) -> None:
    assert error(equivalent, torch.float64) <= equivalent.tolerance


@ALL
def test_in_float32_a_line_is_near_them(equivalent: Equivalent) -> None:
    is_short = str(equivalent.vector).startswith("encoding/")
    assert error(equivalent, torch.float32) <= (4e-6 if is_short else LARGEST_BAND)


# Shapes that the lines without numbers give five points, or widths of their encoders.
SHAPES = [
    (5, 512),  # Gaussian
    (5, 16),  # StyleGAN3
    (5, 63),  # FreeNeRF
    (5, 40),  # ZipNeRF
    (5, 128),  # Neuralangelo
    (5, 3),  # SIREN
    (5, 3),  # FINER
    (5, 3),  # WIRE
    (5, 256),  # RegTR
    (128, 768),  # BERT
    (128,),  # Phi-4
    (128,),  # OLMo 2
    (128,),  # Code Llama
    (64,),  # Llama 3.2 1B
    (128,),  # Llama 3.2 3B
    (128,),  # FLUX.3
    (128,),  # Cosmos-Predict2
    (8, 10, 10),  # T5
    (4, 49, 49),  # LeViT
    (4, 49, 49),  # Swin V2
    (128, 100, 100),  # ESMFold
    (8, 1, 100),  # BLOOM
    (16, 25, 25),  # CROMA
    (8, 100, 100),  # Kerple
    (8, 100, 100),  # FIRE
]


@pytest.mark.parametrize(
    ("equivalent", "shape"),
    list(zip([each for each in EQUIVALENTS if not each.vector], SHAPES, strict=True)),
)
def test_a_line_without_numbers_runs(equivalent: Equivalent, shape: tuple[int, ...]) -> None:
    points = torch.rand(5, 3)
    inputs = dict(points=points, pixels=points[:, :2], mask=torch.rand(63))
    inputs |= dict(matrix=torch.rand(16, 2), offsets=torch.rand(16), amplitudes=torch.rand(16))
    # Tables of 2^22 rows are made as small ones.
    line = re.sub("log2_table_size=2[12]", "log2_table_size=10", equivalent.line)
    found = evaluate(equivalent._replace(line=line), inputs, torch.float32)
    assert (found.shape if isinstance(found, Tensor) else (found.out_dim,)) == shape


def test_a_looser_tolerance_has_a_reason() -> None:
    assert all(each.remark for each in EQUIVALENTS if each.tolerance > 1e-6)


def test_no_line_is_there_twice() -> None:
    lines = [(each.what, each.line, each.vector) for each in EQUIVALENTS]
    assert len(set(lines)) == len(lines)


def test_the_short_vectors_have_lines() -> None:
    named = {each.vector for each in WITH_NUMBERS}
    assert {name for name in small_vectors() if f"encoding/{name}" not in named} == ELSEWHERE
