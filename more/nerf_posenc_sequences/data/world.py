"""A small simulated world that tells stories, asks about them and knows the facts needed.

People move between places and carry at most two things; rooms lie on a grid. Answers and
supporting facts are those of the simulated state. The kinds of questions are after Weston et al.,
"Towards AI-Complete Question Answering: A Set of Prerequisite Toy Tasks" (2015); the world and its
words are our own.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from nerf_posenc_sequences.data.types import Stories, Story, StoryTask, Words

PEOPLE = ("ada", "ines", "kofi", "noor", "tomas", "yuki")
PLACES = ("attic", "cellar", "courtyard", "greenhouse", "harbor", "library", "tower", "workshop")
THINGS = ("compass", "kettle", "lantern", "map", "scarf", "violin")

MOVES = (("walked",), ("ran",), ("hurried",), ("strolled",))
TAKES = (("took",), ("grabbed",), ("picked", "up"), ("lifted",))
DROPS = (("dropped",), ("left",), ("put", "down"), ("set", "down"))

STEPS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
"""Grid steps east and north."""

OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}

_HANDS = 2
_MAX_REPEATS = 1_000

Trip = tuple[str, str, tuple[int, ...]]


@dataclass
class _House:
    """Where people and things are, and what was told of it.

    Attributes:
        rng: random number generator of the events.
        people: people in the story.
        lies: place of every thing, whoever holds it.
        at: place of every person who has moved; nobody knows where the others are.
        hands: things held, in the order they were taken.
        sentences: told so far.
        moved: sentences of every person's moves.
        taken: sentence in which a thing was last taken.
        handled: sentences in which a person took or dropped something.
        facts: sentences that the place of a thing follows from.
        trips: trips of every thing, from where to where, and the sentences that both follow from.
    """

    rng: random.Random
    people: list[str]
    lies: dict[str, str]
    at: dict[str, str] = field(default_factory=dict)
    hands: dict[str, list[str]] = field(default_factory=dict)
    sentences: list[Words] = field(default_factory=list)
    moved: dict[str, list[int]] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    handled: dict[str, list[int]] = field(default_factory=dict)
    facts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    trips: dict[str, list[Trip]] = field(default_factory=dict)

    def tell(self, *words: str) -> int:
        """Add a sentence and return its index."""
        self.sentences.append(words)
        return len(self.sentences) - 1

    def move(self, person: str) -> None:
        goals = [place for place in PLACES if place != self.at.get(person)]
        goal = self.rng.choice(goals)
        now = self.tell(person, *self.rng.choice(MOVES), "to", "the", goal)
        for thing in self.hands.setdefault(person, []):
            before = sorted((self.moved[person][-1], self.taken[thing]))
            trip = (self.lies[thing], goal, (*before, now))
            self.trips.setdefault(thing, []).append(trip)
            self.lies[thing] = goal
            self.facts[thing] = (self.taken[thing], now)
        self.at[person] = goal
        self.moved.setdefault(person, []).append(now)

    def take(self, person: str, thing: str) -> None:
        now = self.tell(person, *self.rng.choice(TAKES), "the", thing, *self._there())
        self.hands[person].append(thing)
        self.taken[thing] = now
        self.facts[thing] = (self.moved[person][-1], now)
        self.handled.setdefault(person, []).append(now)

    def drop(self, person: str, thing: str) -> None:
        now = self.tell(person, *self.rng.choice(DROPS), "the", thing, *self._there())
        self.hands[person].remove(thing)
        self.facts[thing] = (self.moved[person][-1], now)
        self.handled[person].append(now)

    def _there(self) -> Words:
        return ("there",) if self.rng.random() < 0.25 else ()

    def step(self, *, things: bool) -> None:
        """Let somebody do something that is possible."""
        person = self.rng.choice(self.people)
        deeds: list[Callable[[], None]] = [lambda: self.move(person)]
        if things and person in self.at:
            held = [thing for hand in self.hands.values() for thing in hand]
            near = [
                thing
                for thing, place in self.lies.items()
                if place == self.at[person] and thing not in held
            ]
            if near and len(self.hands[person]) < _HANDS:
                deeds += [lambda: self.take(person, self.rng.choice(near))] * 2
            if self.hands[person]:
                deeds += [lambda: self.drop(person, self.rng.choice(self.hands[person]))]
        self.rng.choice(deeds)()


Asked = tuple[Words, str, tuple[int, ...]]
"""Question, answer and supporting sentences."""


def _where_person(house: _House) -> list[Asked]:
    return [
        (("where", "is", person), place, (house.moved[person][-1],))
        for person, place in house.at.items()
    ]


def _where_thing(house: _House) -> list[Asked]:
    return [
        (("where", "is", "the", thing), house.lies[thing], facts)
        for thing, facts in house.facts.items()
    ]


def _where_before(house: _House) -> list[Asked]:
    """Only places that the thing was in once, so that there is one answer."""
    questions: list[Asked] = []
    for thing, trips in house.trips.items():
        visited = [trips[0][0], *(goal for _, goal, _ in trips)]
        for start, goal, facts in trips:
            if visited.count(goal) == 1:
                question = ("where", "was", "the", thing, "before", "the", goal)
                questions.append((question, start, facts))
    return questions


def _carrying(house: _House) -> list[Asked]:
    """Questions about what people carry; empty hands follow from the last take and drop."""
    questions: list[Asked] = []
    for person, handled in house.handled.items():
        held = house.hands[person]
        facts = tuple(house.taken[thing] for thing in held) or tuple(handled[-2:])
        questions.append((("what", "is", person, "carrying"), ",".join(held) or "nothing", facts))
    return questions


def _house_story(
    rng: random.Random, lengths: tuple[int, int], ask: Callable[[_House], list[Asked]]
) -> Story:
    """Events, as many as drawn, or as it takes until there is something to ask about."""
    shortest, longest = lengths
    while True:
        lies = {thing: rng.choice(PLACES) for thing in rng.sample(THINGS, 5)}
        house = _House(rng, rng.sample(PEOPLE, rng.randint(2, 4)), lies)
        length = rng.randint(shortest, longest)
        while len(house.sentences) < longest:
            house.step(things=ask is not _where_person)
            asked = ask(house)
            if asked and len(house.sentences) >= length:
                question, answer, facts = rng.choice(asked)
                return Story(tuple(house.sentences), question, answer, facts)


Relation = tuple[str, str, str]
"""The first room is, in this direction, next to the last."""


def _relations(rng: random.Random, num_rooms: int) -> list[Relation]:
    """Neighbors on a grid, such that one way leads from every room to every other."""
    rooms = rng.sample(PLACES, num_rooms)
    cells = {rooms[0]: (0, 0)}
    relations = []
    for room in rooms[1:]:
        neighbor, direction, cell = rng.choice(
            [
                (neighbor, direction, (x + east, y + north))
                for neighbor, (x, y) in cells.items()
                for direction, (east, north) in STEPS.items()
                if (x + east, y + north) not in cells.values()
            ]
        )
        cells[room] = cell
        relation = (room, direction, neighbor)
        relations.append(rng.choice((relation, (neighbor, OPPOSITE[direction], room))))
    return rng.sample(relations, len(relations))


def _told(relations: list[Relation]) -> tuple[Words, ...]:
    return tuple(("the", a, "is", direction, "of", "the", b) for a, direction, b in relations)


def _two_arguments(rng: random.Random) -> Story:
    """A question whose words stand in two sentences, so that their order decides.

    To "what is north of the hall", the sentences "the attic is north of the hall" and "the hall is
    north of the bath" have the same words of the question.
    """
    while True:
        relations = _relations(rng, rng.randint(3, 4))
        questions: list[tuple[Words, str, int]] = []
        for fact, (a, direction, b) in enumerate(relations):
            if any((c, way) == (b, direction) for c, way, _ in relations):
                questions.append((("what", "is", direction, "of", "the", b), a, fact))
            if any((way, c) == (direction, a) for _, way, c in relations):
                questions.append((("what", "is", "the", a, direction, "of"), b, fact))
        if questions:
            question, answer, fact = rng.choice(questions)
            return Story(_told(relations), question, answer, (fact,))


def _directions(rng: random.Random) -> Story:
    """Two steps, through one room between."""
    relations = _relations(rng, 6)
    doors = [(b, a, step, fact) for fact, (a, step, b) in enumerate(relations)]
    doors += [(a, b, OPPOSITE[step], fact) for fact, (a, step, b) in enumerate(relations)]
    start, goal, answer, facts = rng.choice(
        [
            (start, goal, f"{first},{second}", (one, two))
            for start, middle, first, one in doors
            for middle_again, goal, second, two in doors
            if middle == middle_again and start != goal
        ]
    )
    question = ("how", "do", "you", "go", "from", "the", start, "to", "the", goal)
    return Story(_told(relations), question, answer, facts)


_TASKS: dict[str, Callable[[random.Random], Story]] = {
    "one fact": lambda rng: _house_story(rng, (2, 10), _where_person),
    "two facts": lambda rng: _house_story(rng, (6, 14), _where_thing),
    "three facts": lambda rng: _house_story(rng, (10, 20), _where_before),
    "two arguments": _two_arguments,
    "lists": lambda rng: _house_story(rng, (6, 14), _carrying),
    "directions": _directions,
}


def make_stories(num_train: int, num_test: int, seed: int) -> Stories:
    """Stories of six tasks, with a question each.

    The tasks ask where a person is (``one fact``), where a thing is (``two facts``), where a thing
    was before it came to a place (``three facts``), what is next to a room (``two arguments``),
    what a person is carrying, in the order taken (``lists``), and how to go from one room to
    another (``directions``). No training story equals one of the test.

    Args:
        num_train: training questions per task, at least 1.
        num_test: test questions per task, all different, at least 1.
        seed: random seed of the random numbers; a task's test stories do not depend on
            ``num_train``.

    Raises:
        ValueError: If a number is less than 1, or there are not so many different stories.
    """
    if num_train < 1 or num_test < 1:
        raise ValueError(f"num_train and num_test must be at least 1, got {num_train}, {num_test}")
    tasks = []
    for name, make in _TASKS.items():
        rng = random.Random(f"{seed} {name}")
        test: dict[Story, None] = {}
        for _ in range(num_test):
            test[_new_story(make, rng, test)] = None
        train = [_new_story(make, rng, test) for _ in range(num_train)]
        tasks.append(StoryTask(name=name, train=train, test=list(test)))
    return Stories(name="small world", source=f"generated stories, seed {seed}", tasks=tasks)


def _new_story(
    make: Callable[[random.Random], Story], rng: random.Random, taken: dict[Story, None]
) -> Story:
    for _ in range(_MAX_REPEATS):
        if (story := make(rng)) not in taken:
            return story
    raise ValueError(f"there are not many more than {len(taken)} different stories; make fewer")
