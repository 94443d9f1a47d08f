"""ALiBi's slopes and biases, against the paper and its authors' code."""

import pytest
import torch

from nerf_posenc_attention import alibi_bias, alibi_slopes


@pytest.mark.parametrize("log2_heads", range(6))
def test_powers_of_two_have_the_paper_s_geometric_slopes(log2_heads: int) -> None:
    # Press et al. 2022, section 3: from 2^(-8/n), with that ratio.
    heads = 2**log2_heads
    expected = torch.tensor([2.0 ** (-8 * i / heads) for i in range(1, heads + 1)])
    torch.testing.assert_close(alibi_slopes(heads), expected)


@pytest.mark.parametrize(("heads", "lower"), [(3, 2), (6, 4), (12, 8), (15, 8)])
def test_other_numbers_add_every_second_slope_of_the_next_power(heads: int, lower: int) -> None:
    # get_slopes of the authors' attention_with_linear_biases.
    expected = torch.cat([alibi_slopes(lower), alibi_slopes(2 * lower)[::2][: heads - lower]])
    assert torch.equal(alibi_slopes(heads), expected)


@pytest.mark.parametrize(("queries", "keys"), [(0, 0), (0, 3), (1, 1), (1, 4), (4, 4), (3, 5)])
def test_the_bias_is_minus_the_slope_times_the_distance(queries: int, keys: int) -> None:
    bias = alibi_bias(2, queries, keys)
    assert bias.shape == (2, queries, keys)
    for head, slope in enumerate((2**-4, 2**-8)):
        for i in range(queries):
            # The queries are the last of the positions.
            position = keys - queries + i
            expected = [-slope * abs(position - key) for key in range(keys)]
            assert bias[head, i].tolist() == pytest.approx(expected)
    assert torch.equal(alibi_bias(2, queries), alibi_bias(2, queries, queries))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0, 4), "num_heads"), ((2, -1, 4), "num_queries"), ((2, 5, 4), "num_queries or more")],
)
def test_numbers_that_do_not_fit_are_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        alibi_bias(*arguments)
