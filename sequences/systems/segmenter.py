"""Sentences found in a sequence of words without boundaries."""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sequences.data.stories import boundaries, word_stream
from sequences.data.types import Stories, Story, Words
from sequences.errors import SequenceError

MARGIN = 0.1
WIDTH = 20
INITIAL_STD = 0.1
LR = 0.01
STEPS = 400


class Segmenter(nn.Module):
    r"""Tells of the words since the last boundary whether they are a sentence.

    $\mathrm{seg}(c) = W^T U \Phi(c)$, where $\Phi$ is a bag of words with a vocabulary of its own
    (Weston, Chopra and Bordes 2015, Memory Networks, word sequences as input). It is a sentence if
    the score is above 0. The paper asks for more than the margin, which the scores of sentences
    only just reach in training.

    Args:
        words: vocabulary. Other words have the score 0.
        width: of the embeddings, 1 or more.
        generator: random number generator of the weights.
    """

    def __init__(self, words: Sequence[str], *, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self._index = {word: i for i, word in enumerate(words)}
        self.embeddings = nn.Parameter(
            torch.empty(len(words), width).normal_(0, INITIAL_STD, generator=generator)
        )
        self.direction = nn.Parameter(
            torch.empty(width).normal_(0, INITIAL_STD, generator=generator)
        )

    def bags(self, segments: Sequence[Words]) -> Float[Tensor, "segments vocabulary"]:
        """Counts of words."""
        counts = torch.zeros(len(segments), len(self._index))
        for row, segment in enumerate(segments):
            for word in segment:
                if word in self._index:
                    counts[row, self._index[word]] += 1
        return counts

    def forward(self, bags: Float[Tensor, "segments vocabulary"]) -> Float[Tensor, " segments"]:
        """Scores of bags of words."""
        return bags @ (self.embeddings @ self.direction)

    @torch.no_grad()
    def boundaries(self, words: Words) -> tuple[int, ...]:
        """Index after the last word of every sentence that is found, from the first word on."""
        scores = (self.embeddings @ self.direction).tolist()
        ends, total = [], 0.0
        for place, word in enumerate(words):
            total += scores[self._index[word]] if word in self._index else 0.0
            if total > 0:
                ends.append(place + 1)
                total = 0.0
        return tuple(ends)


@dataclass(frozen=True)
class BoundaryScores:
    """How well boundaries are found.

    Attributes:
        precision: share of the boundaries found that are right, in [0, 1]; 1 if none are found.
        recall: share of the boundaries that are found, in [0, 1].
    """

    precision: float
    recall: float


def fit_segmenter(stories: Stories, generator: torch.Generator) -> Segmenter:
    """Learn from the sentences of the training stories.

    Sentences are to score above the margin, and their beginnings below its negative. A beginning
    that is another sentence is left out.

    Args:
        stories: with sentences of two words or more.
        generator: random number generator of the weights.

    Raises:
        SequenceError: If no sentence has a beginning to tell it from.
    """
    sentences = sorted(
        {sentence for task in stories.tasks for story in task.train for sentence in story.sentences}
    )
    begun = {sentence[:end] for sentence in sentences for end in range(1, len(sentence))}
    beginnings = sorted(begun - set(sentences))
    if not beginnings:
        raise SequenceError(
            f"{stories.name} has no sentences of two words or more to learn boundaries from"
        )
    vocabulary = sorted({word for sentence in sentences for word in sentence})
    segmenter = Segmenter(vocabulary, width=WIDTH, generator=generator)
    bags = segmenter.bags([*sentences, *beginnings])
    signs = torch.cat([torch.ones(len(sentences)), -torch.ones(len(beginnings))])
    optimizer = torch.optim.Adam(segmenter.parameters(), lr=LR)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (MARGIN - signs * segmenter(bags)).clamp(min=0).mean()
        loss.backward()
        optimizer.step()
    return segmenter


def boundary_scores(segmenter: Segmenter, stories: Iterable[Story]) -> BoundaryScores:
    """Precision and recall over all words of the stories."""
    found = right = true = 0
    for story in stories:
        ends = set(segmenter.boundaries(word_stream(story)))
        truth = set(boundaries(story))
        found, true, right = found + len(ends), true + len(truth), right + len(ends & truth)
    return BoundaryScores(right / found if found else 1.0, right / true if true else 1.0)


def resegmented(segmenter: Segmenter, story: Story) -> Story:
    """The same words in the sentences that are found.

    A supporting fact becomes the sentence that has its last word. Words after the last boundary
    are a sentence too.
    """
    words = word_stream(story)
    ends = list(segmenter.boundaries(words))
    if words and (not ends or ends[-1] < len(words)):
        ends.append(len(words))
    sentences = [words[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    last = boundaries(story)
    supporting = tuple(bisect.bisect_left(ends, last[fact]) for fact in story.supporting)
    return replace(story, sentences=tuple(sentences), supporting=supporting)
