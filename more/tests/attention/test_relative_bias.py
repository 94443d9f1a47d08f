"""Biases of attention scores by offset."""

import itertools
import math

import pytest
import torch
from torch import nn

from more.tools.library_numbers import arrays
from nerf_posenc_attention import (
    ClippedRelativeBias,
    FireBias,
    KerpleBias,
    LogCPBBias,
    T5RelativeBias,
    WindowBias,
    alibi_bias,
    alibi_slopes,
    deberta_buckets,
)
from nerf_posenc_attention.relative_bias import relative_positions
from tests.optional import needs


def test_queries_are_the_last_of_the_keys() -> None:
    offsets = relative_positions(2, 5)
    assert offsets.tolist() == [[-3, -2, -1, 0, 1], [-4, -3, -2, -1, 0]]


def test_kerples_power_with_exponent_1_is_alibi() -> None:
    bias = KerpleBias(4, kind="power")
    with torch.no_grad():
        bias.scale.copy_(alibi_slopes(4))
        bias.shape.fill_(1.0)
    # ALiBi's smallest slope of 4 heads, 2^-8, lies below KERPLE's least scale of 0.01.
    expected = alibi_bias(4, 6)[:3]
    torch.testing.assert_close(bias(6)[:3], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(bias(6)[3, 0, 1], torch.tensor(-0.01))


def test_kerples_logarithm_is_its_equation() -> None:
    bias = KerpleBias(2)
    with torch.no_grad():
        bias.scale.copy_(torch.tensor([1.5, 0.5]))
        bias.shape.copy_(torch.tensor([0.2, 0.7]))
    for head, (scale, shape) in enumerate([(1.5, 0.2), (0.5, 0.7)]):
        for i, j in ((0, 0), (3, 1), (7, 2)):
            expected = -scale * math.log(1 + shape * abs(i - j))
            assert float(bias(8)[head, i, j].detach()) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("kind", "most"), [("log", 1.0), ("power", 2.0)])
def test_kerple_starts_within_the_ranges_of_its_kernel(kind: str, most: float) -> None:
    generator = torch.Generator().manual_seed(0)
    bias = KerpleBias(2000, kind=kind, generator=generator)  # type: ignore[arg-type]
    assert 0.95 * most < bias.shape.max().item() <= most
    assert 1.9 < bias.scale.max().item() <= 2


def test_fire_is_a_network_of_the_distance_over_the_position() -> None:
    bias = FireBias(3, threshold=4.0, c=0.5)
    values = bias(9)
    for i, j in ((2, 1), (8, 3), (8, 8)):
        share = math.log(0.5 * (i - j) + 1) / (math.log(0.5 * max(4.0, i) + 1) + 1e-6)
        expected = bias.network(torch.tensor([share]))
        torch.testing.assert_close(values[:, i, j], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(bias(2, 9), values[:, -2:], atol=1e-6, rtol=0)


def test_t5_buckets_may_end_before_as_many_offsets_as_there_are_buckets() -> None:
    # 16 offsets of each direction have a bucket of their own, and 16 more buckets reach to 50.
    buckets = T5RelativeBias(1, num_buckets=64, max_distance=50).buckets(torch.arange(-60, 1))
    assert buckets[-17:].tolist() == list(range(16, -1, -1))
    assert buckets[:11].tolist() == [31] * 11
    wide = 16 + (math.log(30 / 16) / math.log(50 / 16)) * 16
    assert int(buckets[30]) == int(wide)


def test_t5_buckets_are_exact_for_small_offsets_and_share_for_large_ones() -> None:
    buckets = T5RelativeBias(2).buckets(torch.tensor([0, -1, -7, 1, 7, -127, -1000, 128]))
    assert buckets.tolist() == [0, 1, 7, 17, 23, 15, 15, 31]


def test_t5_bias_is_looked_up_by_offset() -> None:
    bias = T5RelativeBias(2)
    values = bias(3, 5)
    for query, key in ((0, 0), (2, 4), (0, 4)):
        bucket = bias.buckets(torch.tensor(key - (query + 2)))
        torch.testing.assert_close(values[:, query, key], bias.bias.weight[bucket])


@pytest.mark.parametrize(("entry", "window"), [("swinv2", 7), ("swinv2-pretrained", 12)])
def test_window_biases_stand_where_swin_v2_has_them(entry: str, window: int) -> None:
    index = arrays()[f"{entry}/index"]
    bias = LogCPBBias(2, width=8)
    table = 16 * torch.sigmoid(bias.network(bias.coordinates((window, window)))).flatten(0, 1)
    torch.testing.assert_close(bias((window, window)), table[index].movedim(-1, 0))


def test_swin_has_a_number_for_each_offset_in_a_window() -> None:
    bias = WindowBias(2, (3, 4))
    torch.nn.init.normal_(bias.table)
    values, table = bias(), bias.table.view(5, 7, 2)
    for query, key in ((0, 0), (0, 11), (7, 2), (11, 0)):
        rows, columns = query // 4 - key // 4, query % 4 - key % 4
        torch.testing.assert_close(values[:, query, key], table[rows + 2, columns + 3])


def test_offsets_beyond_the_ends_share_a_number() -> None:
    bias = ClippedRelativeBias(3, ends=(-2, 1))
    values, weight = bias(4, 6), bias.bias.weight
    for query, key, index in ((0, 0, 0), (0, 1, 1), (3, 5, 2), (0, 3, 3), (0, 5, 3), (3, 0, 0)):
        torch.testing.assert_close(values[:, query, key], weight[index])


def test_debertas_buckets_are_its_equation() -> None:
    offsets = torch.arange(-600, 601)
    found = deberta_buckets(offsets, num_buckets=64, max_distance=400)
    for x, bucket in zip(offsets.tolist(), found.tolist(), strict=True):
        if abs(x) <= 32:
            assert bucket == x
        else:
            wide = 32 + math.ceil(31 * math.log(abs(x) / 32) / math.log(399 / 32) - 1e-6)
            assert bucket == math.copysign(wide, x)


@pytest.mark.slow
def test_biases_have_the_values_of_transformers() -> None:
    needs("transformers")
    from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta
    from transformers.models.phi4_multimodal import configuration_phi4_multimodal as phi4_options
    from transformers.models.phi4_multimodal import modeling_phi4_multimodal as phi4
    from transformers.models.swin import modeling_swin as swin

    theirs = swin.SwinRelativePositionBias(2, (3, 4))
    torch.nn.init.normal_(theirs.relative_position_bias_table)
    window = WindowBias(2, (3, 4))
    window.load_state_dict({"table": theirs.relative_position_bias_table})
    assert torch.equal(window(), theirs()[0])
    offsets = torch.arange(-1023, 1024)
    log_buckets = deberta.make_log_bucket_position(offsets, 256, 512).long()
    assert torch.equal(deberta_buckets(offsets), log_buckets)
    config = phi4_options.Phi4MultimodalAudioConfig(bias_max_distance=4, num_attention_heads=2)
    audio = phi4.Phi4MultimodalAudioRelativeAttentionBias(config)
    clipped = ClippedRelativeBias(2, ends=(-4, 3))
    clipped.bias.load_state_dict(audio.bias_values.state_dict())
    assert torch.equal(clipped(10), audio(torch.zeros(1, 10, 2))[0])


def test_half_precision_does_not_round_distances() -> None:
    window = LogCPBBias(2, width=8)
    expected = window.coordinates((56, 48))
    assert torch.equal(window.bfloat16().coordinates((56, 48)), expected)
    assert window((3, 4)).dtype == torch.bfloat16
    # A network that gives its input, so that what it is given is seen.
    bias = FireBias(1, width=1, threshold=32.0)
    for parameter in bias.network.parameters():
        nn.init.constant_(parameter, float(parameter.ndim == 2))
    found = bias.bfloat16()(700)
    torch.testing.assert_close(found.double(), bias.double()(700), atol=1e-6, rtol=2**-8)


def test_windows_may_have_unequal_sides() -> None:
    bias = LogCPBBias(2, width=8)
    values = bias((2, 3))
    coordinates = bias.coordinates((2, 3))
    # From the patch in row 1, column 2, to that in row 0, column 0.
    expected = 16 * torch.sigmoid(bias.network(coordinates[1 + 1, 2 + 2]))
    torch.testing.assert_close(values[:, 5, 0], expected)


@pytest.mark.parametrize("make", [T5RelativeBias, KerpleBias, FireBias])
def test_every_number_of_a_bias_learns(make: type) -> None:
    bias = make(2)
    (bias(40) * torch.randn(2, 40, 40)).sum().backward()
    assert all(parameter.grad is not None for parameter in bias.parameters())


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_refused() -> None:
    for call, message in (
        (lambda: relative_positions(4, 3), "num_keys must be num_queries or more"),
        (lambda: T5RelativeBias(2, num_buckets=5), "num_buckets must be an even number"),
        (lambda: T5RelativeBias(2, num_buckets=64, max_distance=16), "max_distance above 16"),
        (lambda: T5RelativeBias(0), "num_heads must be 1 or more"),
        (lambda: WindowBias(2, (0, 3)), r"window\[0\] must be 1 or more"),
        (lambda: ClippedRelativeBias(2, ends=(3, -3)), "the smallest and the largest offset"),
        (lambda: deberta_buckets(torch.tensor([1]), max_distance=100), "above half of it"),
        (lambda: KerpleBias(2, kind="linear"), "kind must be"),  # type: ignore[arg-type]
        (lambda: FireBias(2, c=0.0), "c must be finite and positive"),
        (lambda: LogCPBBias(2)((1, 7)), r"window must be \(height, width\)"),
        (lambda: LogCPBBias(2, pretrained_window=(1, 1)), "sides of 2 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="num_queries must be an integer"):
        T5RelativeBias(2)((5, 5))


@pytest.mark.usefixtures("unchecked")
def test_real_offsets_have_no_bucket() -> None:
    for buckets in (
        T5RelativeBias(2).buckets,
        ClippedRelativeBias(2, ends=(-3, 3)).buckets,
        deberta_buckets,
    ):
        with pytest.raises(TypeError, match=r"offsets must be integers; got torch.float32"):
            buckets(torch.tensor([0.5, -3.7]))


def test_levit_has_one_number_for_an_offset_and_its_negative() -> None:
    window, heads = (3, 4), 2
    bias = WindowBias(heads, window, is_absolute=True)
    torch.nn.init.normal_(bias.table)
    # LeViT's Attention numbers absolute offsets in the order in which they come up.
    points = list(itertools.product(range(3), range(4)))
    numbers: dict[tuple[int, int], int] = {}
    index = [
        numbers.setdefault((abs(a[0] - b[0]), abs(a[1] - b[1])), len(numbers))
        for a in points
        for b in points
    ]
    expected = bias.table.T[:, index].view(heads, 12, 12)
    assert torch.equal(bias(), expected)
    assert "is_absolute=True" in repr(bias)


@pytest.mark.usefixtures("unchecked")
def test_a_window_of_three_axes_is_that_of_video_swin() -> None:
    window, heads = (2, 3, 4), 5
    bias = WindowBias(heads, window)
    torch.nn.init.normal_(bias.table)
    # The index of WindowAttention3D: offsets shifted to 0 and counted by the sizes 2 n - 1.
    grid = torch.stack(torch.meshgrid(*(torch.arange(n) for n in window), indexing="ij"))
    flat = grid.flatten(1)
    relative = (flat[:, :, None] - flat[:, None]).permute(1, 2, 0) + torch.tensor([1, 2, 3])
    index = relative @ torch.tensor([5 * 7, 7, 1])
    expected = bias.table[index.view(-1)].view(24, 24, heads).permute(2, 0, 1)
    assert torch.equal(bias(), expected)
    with pytest.raises(TypeError, match="a size for each axis"):
        WindowBias(heads, 3)  # type: ignore[arg-type]
