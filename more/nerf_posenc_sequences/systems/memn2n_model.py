"""End-to-end memory networks."""

from typing import get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nerf_posenc_attention.learned import LearnedPositionEncoder
from nerf_posenc_sequences.system import Tying
from nerf_posenc_sequences.systems.sentences import SentenceEncoder
from nerf_posenc_sequences.systems.story_batches import StoryInputs

INITIAL_STD = 0.1


class MemN2N(nn.Module):
    r"""Answers a question by attending to the memories of a story several times.

    In each hop, $p_i = \mathrm{softmax}(u^T m_i)$ over the memories $m_i = A x_i$ weighs the
    outputs $c_i = C x_i$ into $o$, and $u + o$ is the state of the next hop; $W$ scores the words
    after the last (Sukhbaatar, Szlam, Weston and Fergus 2015, End-To-End Memory Networks, sections
    2 and 4.1). Padding embeds to 0, and empty memories are attended to like others.

    Args:
        num_words: size of the vocabulary without padding.
        width: width of the embeddings, 2 or more.
        hops: 1 or more.
        max_memories: most memories in a story.
        max_words: most words in a sentence.
        position_scale: factor of the position weights of words; None is a bag of words.
        temporal: add an embedding of the age of each memory.
        tying: ``"adjacent"``: A of a hop is C of the hop before, the question is embedded by the
            first A, and W is the last C. ``"layer-wise"``: all hops share A and C, and a linear
            map H of u comes between them.
        generator: random number generator of the weights.

    Raises:
        ValueError: If a number is out of its range.
    """

    def __init__(
        self,
        num_words: int,
        *,
        width: int,
        hops: int,
        max_memories: int,
        max_words: int,
        position_scale: int | float | None,
        temporal: bool,
        tying: Tying,
        generator: torch.Generator,
    ) -> None:
        if width < 2 or hops < 1 or tying not in get_args(Tying):
            raise ValueError(
                "width must be 2 or more, hops 1 or more and tying one of "
                f"{', '.join(get_args(Tying))}; got {width}, {hops} and {tying!r}"
            )
        super().__init__()
        self.hops = hops
        self.max_memories = max_memories
        self.tying = tying
        is_adjacent = tying == "adjacent"
        tables = hops + 1 if is_adjacent else 2

        def matrix(rows: int) -> nn.Parameter:
            return nn.Parameter(
                torch.empty(rows, width).normal_(0, INITIAL_STD, generator=generator)
            )

        self.embeddings = nn.ParameterList(matrix(num_words) for _ in range(tables))
        self.ages = nn.ModuleList(
            LearnedPositionEncoder(max_memories, width, std=INITIAL_STD, generator=generator)
            for _ in range(tables if temporal else 0)
        )
        self.question_embedding = None if is_adjacent else matrix(num_words)
        self.between = None if is_adjacent else matrix(width)
        self.answers = None if is_adjacent else matrix(num_words)
        self.sentences = SentenceEncoder(width, max_words, position_scale)

    def forward(self, inputs: StoryInputs) -> Float[Tensor, "batch words"]:
        """Scores of all words of the vocabulary as the answer."""
        return self.attend(inputs)[0]

    def attend(
        self, inputs: StoryInputs
    ) -> tuple[Float[Tensor, "batch words"], Float[Tensor, "batch hops memories"]]:
        """Scores of the answers, and the weights of the memories in each hop."""
        memories, questions, ages = inputs
        embedded = self.sentences(memories, *self.embeddings)
        if self.ages:
            slots = torch.arange(1, self.max_memories + 1, device=ages.device)
            encoders = [e for e in self.ages if isinstance(e, LearnedPositionEncoder)]
            codes = torch.cat([encoder.table(len(slots)) for encoder in encoders], 1)
            aged = (ages[..., None] == slots).to(codes) @ codes
            added = aged.split(self.sentences.width, -1)
            embedded = tuple(a + b for a, b in zip(embedded, added, strict=True))
        first = self.embeddings[0] if self.question_embedding is None else self.question_embedding
        (state,) = self.sentences(questions, first)
        attention = []
        for hop in range(self.hops):
            at = hop if self.tying == "adjacent" else 0
            weights = (embedded[at] @ state[..., None])[..., 0].softmax(-1)
            output = (weights[..., None, :] @ embedded[at + 1])[..., 0, :]
            state = output + (state if self.between is None else state @ self.between)
            attention.append(weights)
        last = self.embeddings[-1] if self.answers is None else self.answers
        return state @ last.T, torch.stack(attention, -2)
