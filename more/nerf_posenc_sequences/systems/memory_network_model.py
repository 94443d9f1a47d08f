"""Memory networks: supporting facts found one after the other, and an answer from them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nerf_posenc_sequences.systems.sentences import SentenceEncoder
from nerf_posenc_sequences.systems.story_batches import StoryInputs

INITIAL_STD = 0.1

FactInputs = tuple[Tensor, Tensor, Tensor, Tensor]
"""Words of the memories, words of the question, ages of the memories, and slots of the supporting
facts of each hop, -1 for none."""


class MemoryNetwork(nn.Module):
    r"""Finds supporting memories by their scores, then the word that scores best with them.

    Both scores are $s(x, y) = \Phi_x(x)^T U^T U \Phi_y(y)$, with a matrix $U$ for memories and one
    for answers (Weston, Chopra and Bordes 2015, Memory Networks, section 3.1). Every word has three
    columns in $U$: as part of the question, of a memory that was found, and of y. With
    write time, $s(x, y, y')$ compares two memories by the difference of their bags and by three
    features of their ages (section 3.4, modeling write time).

    Each hop may also find no memory, which is the last slot; its embedding is learned. It ends the
    search of questions with fewer supporting facts than others.

    Args:
        num_words: size of the vocabulary without padding.
        width: rows of U, 2 or more.
        hops: memories that are found, 1 or more.
        max_words: most words in a sentence.
        position_scale: factor of position weights of words; None is a bag of words.
        write_time: compare memories by their ages too.
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
        max_words: int,
        position_scale: int | float | None,
        write_time: bool,
        generator: torch.Generator,
    ) -> None:
        if width < 2 or hops < 1:
            raise ValueError(f"width must be 2 or more and hops 1 or more; got {width} and {hops}")
        super().__init__()
        self.hops = hops

        def matrix(rows: int) -> nn.Parameter:
            return nn.Parameter(
                torch.empty(rows, width).normal_(0, INITIAL_STD, generator=generator)
            )

        # The three blocks of columns of U of the memories, and of U of the answers.
        self.fact_question, self.fact_found, self.fact_sought = (matrix(num_words) for _ in "123")
        self.answer_question, self.answer_found, self.answers = (matrix(num_words) for _ in "123")
        self.no_memory = matrix(1)
        self.older = matrix(3) if write_time else None
        self.sentences = SentenceEncoder(width, max_words, position_scale)

    def forward(
        self, inputs: FactInputs
    ) -> tuple[Float[Tensor, "batch hops slots directions"], Float[Tensor, "batch words"]]:
        """Scores by which training ranks, given the true facts of the hops before.

        Returns:
            How much the supporting fact of a hop is preferred to each other slot; with write time
            in both orders of the pair. Infinite where there is nothing to rank: padding, the fact
            itself, and hops after the first that finds no memory. And the scores of all words.
        """
        memories, questions, ages, facts = inputs
        found, sought, by_answer = self._embedded(memories)
        state, answer_state = self._questions(questions)
        times = _times(ages)
        none = ages.shape[1]
        slots = torch.arange(none + 1, device=ages.device)
        exists = torch.cat([ages > 0, torch.ones_like(ages[:, :1], dtype=torch.bool)], 1)
        time, is_open = torch.zeros_like(facts[:, :1]), torch.ones_like(facts[:, :1]) > 0
        preferences = []
        for hop in range(self.hops):
            slot = torch.where(facts[:, hop, None] < 0, none, facts[:, hop, None])
            scores = (sought @ state[..., None])[..., 0]
            lead = scores.gather(1, slot) - scores
            own = times.gather(1, slot)
            pairs = [lead + self._by_age(state, time, own, times)]
            if self.older is not None:
                pairs.append(lead - self._by_age(state, time, times, own))
            is_ranked = exists & (slots != slot) & is_open
            ranked = torch.stack(pairs, -1)
            preferences.append(torch.where(is_ranked[..., None], ranked, torch.inf))
            state, answer_state = state + _at(found, slot), answer_state + _at(by_answer, slot)
            time = torch.where(slot == none, time, own)
            is_open = is_open & (slot != none)
        return torch.stack(preferences, 1), answer_state @ self.answers.T

    def answer(
        self, inputs: StoryInputs
    ) -> tuple[Float[Tensor, "batch words"], Int[Tensor, "batch hops"]]:
        """Scores of the answers, and the slots of the memories found, the last for none."""
        memories, questions, ages = inputs
        found, sought, by_answer = self._embedded(memories)
        state, answer_state = self._questions(questions)
        times = _times(ages)
        none = ages.shape[1]
        time = torch.zeros_like(ages[:, :1])
        is_open = torch.ones_like(time) > 0
        chosen = []
        for _ in range(self.hops):
            scores = (sought @ state[..., None])[..., 0]
            slot = torch.full_like(time, none)
            for i in range(none):
                # The memory that has won so far against the next: algorithm 1 of the paper.
                lead = scores[:, i, None] - scores.gather(1, slot)
                own = times[:, i, None]
                lead = lead + self._by_age(state, time, own, times.gather(1, slot))
                slot = torch.where((lead > 0) & (ages[:, i, None] > 0) & is_open, i, slot)
            state, answer_state = state + _at(found, slot), answer_state + _at(by_answer, slot)
            time = torch.where(slot == none, time, times.gather(1, slot))
            is_open = is_open & (slot != none)
            chosen.append(slot[:, 0])
        return answer_state @ self.answers.T, torch.stack(chosen, 1)

    def _embedded(self, memories: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Memories as found, as sought, and for the answer; then the slot of no memory."""
        found, sought, by_answer = self.sentences(
            memories, self.fact_found, self.fact_sought, self.answer_found
        )
        none = self.no_memory.expand(len(memories), 1, -1)
        empty = torch.zeros_like(none)
        return (
            torch.cat([found, empty], 1),
            torch.cat([sought, none], 1),
            torch.cat([by_answer, empty], 1),
        )

    def _questions(self, questions: Tensor) -> tuple[Tensor, Tensor]:
        first, second = self.sentences(questions, self.fact_question, self.answer_question)
        return first, second

    def _by_age(self, state: Tensor, x: Tensor, y: Tensor, other: Tensor) -> Tensor:
        """Part of s(x, y, y') that depends on when x, y and y' were written."""
        if self.older is None:
            return torch.zeros_like(state[:, :1])
        weights = state @ self.older.T
        older = torch.broadcast_tensors(x < y, x < other, y < other)
        features = 2 * torch.stack(older, -1).to(state) - 1
        return (features @ weights[..., None])[..., 0]


def _times(ages: Tensor) -> Tensor:
    """When each slot was written: below 0, which is the question's time; no memory is oldest."""
    return torch.cat([-ages, torch.full_like(ages[:, :1], -(1 << 30))], 1)


def _at(table: Tensor, slot: Tensor) -> Tensor:
    """Row of each story's table."""
    return table.gather(1, slot[..., None].expand(-1, -1, table.shape[-1]))[:, 0]
