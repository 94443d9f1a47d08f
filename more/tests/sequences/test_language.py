"""Language models: what they can see, how they are scored, and what encodings do."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nerf_posenc_sequences.data.types import Text
from nerf_posenc_sequences.errors import SequenceError
from nerf_posenc_sequences.layers.attention import Attention
from nerf_posenc_sequences.layers.language_models import ConvolutionalLM, TransformerLM
from nerf_posenc_sequences.layers.positions import ADDED, ENCODINGS
from nerf_posenc_sequences.layers.symbol_loss import IGNORED
from nerf_posenc_sequences.system import System, SystemOptions
from nerf_posenc_sequences.systems.language import LanguageSystem
from nerf_posenc_sequences.task import TaskKind, TaskOptions
from tests.fits import fitted
from tests.texts import made_text


def system(model: str = "transformer", **options: int) -> LanguageSystem:
    text = Text("made", "made.txt", [made_text()], [made_text(seed=1)])
    small: dict[str, Any] = {"width": 16, "depth": 1, "heads": 2, "context": 16, **options}
    return LanguageSystem(text, SystemOptions(model=model, **small))


def model_with(encoding: str, *, is_causal: bool, num_symbols: int = 11) -> TransformerLM:
    return TransformerLM(
        num_symbols,
        encoding,
        torch.Generator().manual_seed(0),
        width=16,
        depth=2,
        num_heads=2,
        max_length=64,
        is_causal=is_causal,
    ).eval()


def first_attention(model: nn.Module) -> Attention:
    return next(module for module in model.modules() if isinstance(module, Attention))


def symbols(length: int = 12) -> Tensor:
    return torch.randint(11, (3, length), generator=torch.Generator().manual_seed(1))


def test_a_language_system_is_a_system() -> None:
    assert isinstance(system(), System)


def test_attention_without_positions_is_blind_to_order() -> None:
    model, x = model_with("none", is_causal=False), symbols()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(model(x[:, order]), model(x)[:, order], rtol=0, atol=1e-5)


@pytest.mark.parametrize("encoding", [name for name in ENCODINGS if name not in ("none", "xpos")])
def test_with_positions_attention_sees_order(encoding: str) -> None:
    model, x = model_with(encoding, is_causal=False), symbols()
    # Moved to another order, not only reversed: a bias by distance cannot tell a reversal.
    order = torch.tensor([5, 0, 7, 2, 9, 11, 1, 3, 10, 4, 8, 6])
    with torch.no_grad():
        difference = (model(x[:, order]) - model(x)[:, order]).abs().max()
    assert difference > 1e-4


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_causal_transformer_sees_no_later_symbol(encoding: str) -> None:
    model, x = model_with(encoding, is_causal=True), symbols()
    changed = x.clone()
    changed[:, 7] = (changed[:, 7] + 1) % 11
    torch.testing.assert_close(model(changed)[:, :7], model(x)[:, :7])
    assert not torch.allclose(model(changed)[:, 7:], model(x)[:, 7:])


@pytest.mark.parametrize("encoding", ADDED)
def test_a_convolutional_model_sees_no_later_symbol(encoding: str) -> None:
    model = ConvolutionalLM(
        11, encoding, torch.Generator().manual_seed(0), width=8, depth=2, max_length=64
    )
    x = symbols()
    changed = x.clone()
    changed[:, 7] = (changed[:, 7] + 1) % 11
    torch.testing.assert_close(model(changed)[:, :7], model(x)[:, :7])
    assert not torch.allclose(model(changed)[:, 7], model(x)[:, 7])


@pytest.mark.parametrize("encoding", ["rotary", "alibi", "t5", "kerple", "fire"])
def test_relative_encodings_give_a_shifted_window_the_same_output(encoding: str) -> None:
    # A causal model with relative positions does not know where a window begins, so the same
    # symbols attend to each other alike wherever they stand.
    model, x = model_with(encoding, is_causal=True), symbols(10)
    attention = first_attention(model)
    embedded = model.embedding(x)
    alone = attention(embedded)
    padded = torch.cat([torch.zeros_like(embedded[:, :5]), embedded], dim=1)
    may_attend = torch.ones(1, 15, 15, dtype=torch.bool)
    may_attend[:, :, :5] = False
    shifted = attention(padded, mask=may_attend)[:, 5:]
    torch.testing.assert_close(shifted, alone, rtol=0, atol=1e-5)


def test_attention_is_the_softmax_of_scaled_products() -> None:
    attention = first_attention(model_with("none", is_causal=False))
    x = torch.rand(2, 5, 16, generator=torch.Generator().manual_seed(3))
    q = attention.queries(x).reshape(2, 5, 2, 8).permute(0, 2, 1, 3)
    k, v = (
        part.reshape(2, 5, 2, 8).permute(0, 2, 1, 3)
        for part in attention.keys_values(x).split(16, dim=-1)
    )
    mixed = F.scaled_dot_product_attention(q, k, v).permute(0, 2, 1, 3).reshape(2, 5, 16)
    torch.testing.assert_close(attention(x), attention.output(mixed))


def test_masked_batches_hide_what_is_to_be_predicted_and_nothing_else() -> None:
    made = system()
    inputs, targets = made.batches("none", 400, seed=0)(3)
    hidden = targets != IGNORED
    assert (inputs[hidden] == made.num_symbols - 1).all()
    assert (inputs[~hidden] < len(made.alphabet)).all()
    assert hidden.any(-1).all()
    assert float(hidden.float().mean()) == pytest.approx(0.15, abs=0.015)
    restored = torch.where(hidden, targets, inputs)
    text = "".join(made.alphabet[i] for i in made.train)
    for row in restored[:20].tolist():
        assert "".join(made.alphabet[i] for i in row) in text


def test_causal_targets_are_the_next_symbols() -> None:
    inputs, targets = system("causal").batches("none", 5, seed=0)(0)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


def test_batches_depend_on_seed_and_step_alone() -> None:
    first, second = system(), system()
    for step in (0, 7):
        for a, b in zip(
            first.batches("none", 4, 5)(step), second.batches("alibi", 4, 5)(step), strict=True
        ):
            assert torch.equal(a, b)
    assert not torch.equal(first.batches("none", 4, 5)(0)[0], first.batches("none", 4, 6)(0)[0])


class _Uniform(nn.Module):
    """Gives every symbol the same probability."""

    def __init__(self, num_symbols: int) -> None:
        super().__init__()
        self.num_symbols = num_symbols

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros(*x.shape, self.num_symbols)


@pytest.mark.parametrize("model", ["causal", "conv"])
def test_a_uniform_guess_costs_the_logarithm_of_the_number_of_symbols(model: str) -> None:
    made = system(model)
    if model == "causal":
        made.depth = 0  # No attention is there to be shown.
        evaluated = made._losses(_Uniform(made.num_symbols), 16)
        assert float(evaluated[0].nanmean()) == pytest.approx(math.log2(made.num_symbols))
        return
    scores = made.evaluate(_Uniform(made.num_symbols), "none").scores
    assert scores["bits_per_character"] == pytest.approx(math.log2(made.num_symbols))
    assert scores["perplexity"] == pytest.approx(made.num_symbols)


def test_a_character_that_training_lacks_is_counted_and_shown() -> None:
    text = Text("made", "made.txt", [made_text()], [made_text(seed=1).replace("w", "W")])
    made = LanguageSystem(text, SystemOptions(model="conv", context=16, width=8, depth=1))
    assert int(made.test.max()) == len(made.alphabet)
    passage = made.passage(made.build("none", torch.Generator().manual_seed(0)), "none")
    assert any(token.truth == "?" for token in passage.tokens)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"context": 5000}, "needs 20,001 for a context of 5000"),
        ({"width": 10}, "--width must be an even multiple of --heads"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, int], expected: str) -> None:
    with pytest.raises(SequenceError, match=expected):
        system("transformer", **options)


def scores_of(encoding: str, num_seeds: int = 1, steps: int = 150) -> dict[str, float]:
    kind = TaskKind(TaskOptions(), system(width=32, context=32))
    result = fitted(kind, encoding, steps=steps, batch_size=32, num_seeds=num_seeds)
    assert len(result.evaluation.by_seed) == num_seeds
    return dict(result.scores)


@pytest.mark.slow
def test_positions_let_a_masked_model_read() -> None:
    without, rotary = scores_of("none", steps=300), scores_of("rotary", steps=300)
    assert rotary["perplexity"] < without["perplexity"] / 1.5
    assert rotary["accuracy_percent"] > without["accuracy_percent"] + 20


def test_text_is_encoded_and_decoded() -> None:
    made = system()
    text = "octave wave\n"
    assert made.decode(made.encode(text)) == text
    assert made.decode(made.encode("sine#")) == "sine?"
