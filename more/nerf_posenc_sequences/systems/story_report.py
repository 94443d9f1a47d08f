"""Blocks of the report of answers to questions about stories."""

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor

from nerf_posenc_app.values.blocks import Curve, Evaluation, Passage, Token
from nerf_posenc_app.values.measures import Measure
from nerf_posenc_sequences.data.types import Stories, StoryTask, Words
from nerf_posenc_sequences.heat_maps import HeatMap
from nerf_posenc_sequences.systems.story_batches import StoryFormat, StoryTensors

MEASURES = (
    Measure(
        "error_percent",
        "error",
        "%",
        digits=1,
        higher_is_better=False,
        meaning="Share of test questions answered incorrectly, averaged over tasks.",
    ),
    Measure(
        "accuracy_percent",
        "accuracy",
        "%",
        digits=1,
        meaning="Share of test questions answered correctly, averaged over tasks.",
    ),
)
MAX_PASSAGES = 4
MAX_QUESTIONS = 5
MAX_MAPS = 4


def story_evaluation(
    stories: Stories,
    layout: StoryFormat,
    tests: Sequence[StoryTensors],
    answers: Sequence[Int[Tensor, " questions"]],
    maps: Sequence[HeatMap] = (),
) -> Evaluation:
    """Scores of the answers of every task, and examples.

    Args:
        stories: the data.
        layout: vocabulary.
        tests: test questions of each task.
        answers: places of the predicted answers in the vocabulary, for each task.
        maps: attention.
    """
    errors = [
        100 * float((predicted != rows.answers).float().mean())
        for predicted, rows in zip(answers, tests, strict=True)
    ]
    error = sum(errors) / len(errors)
    curves = []
    if len(errors) > 1:
        names = [task.name for task in stories.tasks]
        if all(name.isdecimal() for name in names):
            # The tasks of bAbI have numbers for names.
            curves.append(
                Curve("Error by task", "task", "error (%)", [int(name) for name in names], errors)
            )
        else:
            label = "task: " + ", ".join(f"{i} {name}" for i, name in enumerate(names, 1))
            numbers = range(1, len(names) + 1)
            curves.append(Curve("Error by task", label, "error (%)", numbers, errors))
    passages = []
    for task, predicted in list(zip(stories.tasks, answers, strict=True))[:MAX_PASSAGES]:
        words = [layout.words[int(place)] for place in predicted[:MAX_QUESTIONS]]
        passages.append(story_passage(task, words))
    scores = {"error_percent": error, "accuracy_percent": 100 - error}
    return Evaluation(scores, [*passages, *curves, *maps])


def story_passage(task: StoryTask, answers: Sequence[str]) -> Passage:
    """The first test questions of a task with predicted answers.

    Sentences that were shown with the question before are left out.

    Args:
        task: the data.
        answers: answers to as many questions.
    """
    tokens: list[Token] = []
    told: list[Words] = []
    for story, answer in zip(task.test, answers, strict=False):
        continues = told == list(story.sentences[: len(told)])
        if tokens and not continues:
            tokens.append(Token("\n"))
        new = story.sentences[len(told) if continues else 0 :]
        told = list(story.sentences)
        question = f"{' '.join(story.question)}? "
        tokens.append(Token("".join(f"{' '.join(sentence)}. " for sentence in new) + question))
        is_right = answer == story.answer
        tokens.append(
            Token(answer, "right" if is_right else "wrong", None if is_right else story.answer)
        )
        tokens.append(Token("\n"))
    return Passage(f"Answers to questions: {task.name}", tokens)


def attention_maps(
    stories: Stories, weights: Sequence[Float[Tensor, "memories columns"]], columns: Sequence[str]
) -> list[HeatMap]:
    """Weights of the memories of the first test question of each task.

    Args:
        stories: the data.
        weights: attention weights, for each task those of the slots of its first test question.
        columns: labels.
    """
    maps = []
    for task, table in list(zip(stories.tasks, weights, strict=True))[:MAX_MAPS]:
        kept = task.test[0].sentences[-len(table) :]
        rows = [" ".join(sentence) for sentence in kept]
        title = f"Attention, task {task.name}, question 1: {' '.join(task.test[0].question)}?"
        maps.append(HeatMap.of(title, table[: len(rows)].clamp(0, 1), rows, columns))
    return maps
