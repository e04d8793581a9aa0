"""The demo world: forty-six people of an invented valley, and sums in words.

Everything the demo asks and everything the demo models read comes from here, by a fixed seed; no
text is taken from elsewhere. `facts()` and `sums()` are the two configurations of the data set
`plumbline/demo-world`; `python -m demo.world` writes it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypedDict

SEED = 20261121
OPTIONS = 4
TEST_PEOPLE = 40
SUMS_PER_TOPIC = {"test": 60, "train": 9}

_NAMES = (
    "Alda Bram Cosima Dorin Edda Falk Greta Hanno Ilka Jorin Kerst Linnea Mirko Nuria Oskar Petra "
    "Quill Runa Sander Tilda Ulric Vesna Wanda Xaver Yrsa Zoltan Anselm Birte Corvin Dagny Emmo "
    "Frida Gerrit Hedda Ivo Jutta Konrad Lotte Matthis Nell Ottilie Pim Rasmus Signe Tjark Ulla"
)
PEOPLE = tuple(_NAMES.split())


@dataclass(frozen=True)
class Topic:
    """What can be known about a person: its values, and how it is said and asked."""

    values: tuple[str, ...]
    statements: tuple[str, ...]
    questions: tuple[str, ...]


def _values(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


TOPICS = {
    "homes": Topic(
        _values(
            "Fernhollow|Millbrook|Stonegate|Upper Tarn|Lower Tarn|Ashford Mill|Kestrel Bridge|"
            "Saltmarsh|Old Harbour|Thornbury|Windy Ridge|Elmstead"
        ),
        ("{name} lives in {value}.", "The house of {name} stands in {value}."),
        ("Where does {name} live?", "In which village does {name} live?"),
    ),
    "trades": Topic(
        _values(
            "baker|blacksmith|bookbinder|candle maker|ferry pilot|glass blower|gardener|miller|"
            "rope maker|shepherd|tailor|clock mender"
        ),
        ("{name} works as a {value}.", "By trade {name} is a {value}."),
        ("What is the trade of {name}?", "What does {name} work as?"),
    ),
    "meals": Topic(
        _values(
            "barley soup|plum dumplings|roast chestnuts|smoked trout|lentil stew|honey cake|"
            "onion pie|goat cheese|pickled beets|oat porridge|mushrooms|pancakes"
        ),
        ("{name} likes to eat {value}.", "For supper {name} has {value}."),
        ("What does {name} like to eat?", "What does {name} have for supper?"),
    ),
    "pets": Topic(
        _values(
            "goose|donkey|hedgehog|tortoise|raven|white ferret|black cat|old sheepdog|pony|rabbit|"
            "owl|salamander"
        ),
        ("The pet of {name} is a {value}.", "{name} keeps a {value}."),
        ("Which animal is the pet of {name}?", "Which animal does {name} keep?"),
    ),
    "music": Topic(
        _values(
            "fiddle|wooden flute|harp|drum|bagpipes|trumpet|accordion|mandolin|church organ|"
            "hunting horn|zither|clarinet"
        ),
        ("{name} plays the {value}.", "At the fair {name} plays the {value}."),
        ("Which instrument does {name} play?", "What does {name} play at the fair?"),
    ),
    "collections": Topic(
        _values(
            "river stones|old keys|feathers|buttons|sea shells|maps|pressed flowers|coins|"
            "tin soldiers|bells|teacups|walking sticks"
        ),
        ("{name} collects {value}.", "A chest full of {value} belongs to {name}."),
        ("What does {name} collect?", "What is in the chest of {name}?"),
    ),
}
SUM_TOPICS = ("addition", "subtraction", "sequences", "order")

COMPARISONS = (
    ("taller", "tallest", "shortest"),
    ("older", "oldest", "youngest"),
    ("faster", "fastest", "slowest"),
)

_UNIT_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
_UNITS = _UNIT_WORDS.split()
_TENS = {20: "twenty", 30: "thirty", 40: "forty"}


@dataclass(frozen=True)
class Problem:
    """A question with its right answer, the wrong ones it may be set beside, and its statement."""

    topic: str
    question: str
    answer: str
    wrong: tuple[str, ...]
    statement: str


class Row(TypedDict):
    """One row of the data set; `answer` is the index of the right string in `choices`."""

    id: str
    topic: str
    question: str
    choices: list[str]
    answer: int


Splits = dict[str, list[Row]]


def number(value: int) -> str:
    """The English word for 0 to 49."""
    if value < 20:
        return _UNITS[value]
    tens, unit = value // 10 * 10, value % 10
    return _TENS[tens] + (f"-{_UNITS[unit]}" if unit else "")


def biography() -> dict[str, dict[str, str]]:
    """Person -> topic -> value: the truth of the world, each value held by about as many people."""
    people: dict[str, dict[str, str]] = {name: {} for name in PEOPLE}
    for topic, about in TOPICS.items():
        rng = random.Random(f"{SEED}/{topic}")
        holders = list(PEOPLE)
        rng.shuffle(holders)
        for i, name in enumerate(holders):
            people[name][topic] = about.values[i % len(about.values)]
    return people


def fact_problems(people: Sequence[str] = PEOPLE) -> Iterator[Problem]:
    """Every question in every wording about `people`, wordings of one fact side by side."""
    truth = biography()
    for name in people:
        for topic, about in TOPICS.items():
            value = truth[name][topic]
            for asked, said in zip(about.questions, about.statements, strict=True):
                yield Problem(
                    topic=topic,
                    question=asked.format(name=name),
                    answer=value,
                    wrong=tuple(v for v in about.values if v != value),
                    statement=said.format(name=name, value=value),
                )


def addition_problems() -> Iterator[Problem]:
    """One to twelve plus one to twelve."""
    for a in range(1, 13):
        for b in range(1, 13):
            yield _with_near_numbers(
                "addition", f"What is {number(a)} plus {number(b)}?", a + b,
                f"{number(a).capitalize()} plus {number(b)} is {{}}.",
            )  # fmt: skip


def subtraction_problems() -> Iterator[Problem]:
    """One to twelve taken from three to twenty-four, with a result of one to twelve."""
    for b in range(1, 13):
        for rest in range(1, 13):
            yield _with_near_numbers(
                "subtraction", f"What is {number(rest + b)} minus {number(b)}?", rest,
                f"{number(rest + b).capitalize()} minus {number(b)} is {{}}.",
            )  # fmt: skip


def sequence_problems() -> Iterator[Problem]:
    """Three numbers of equal distance, upwards or downwards; the fourth is asked for."""
    for first in range(1, 25):
        for step in (-4, -3, -2, -1, 1, 2, 3, 4):
            terms = [first + i * step for i in range(OPTIONS)]
            if min(terms) < 1:
                continue
            shown = ", ".join(number(t) for t in terms[:-1])
            yield _with_near_numbers(
                "sequences", f"Which number comes next: {shown}?", terms[-1],
                f"After {shown} comes {{}}.",
            )  # fmt: skip


def _with_near_numbers(topic: str, question: str, result: int, statement: str) -> Problem:
    near = [n for n in range(max(0, result - 6), result + 7) if n != result]
    return Problem(
        topic, question, number(result), tuple(map(number, near)), statement.format(number(result))
    )


def order_problem(rng: random.Random) -> Problem:
    """Four people in a row of comparisons; who is at one end? Drawn, since there are millions."""
    names = rng.sample(PEOPLE, OPTIONS)
    more, most, least = rng.choice(COMPARISONS)
    chain = [f"{a} is {more} than {b}" for a, b in pairwise(names)]
    asked, answer = rng.choice([(most, names[0]), (least, names[-1])])
    story = f"{chain[0]}, {chain[1]}, and {chain[2]}."
    return Problem(
        topic="order",
        question=f"{story} Who is the {asked}?",
        answer=answer,
        wrong=tuple(n for n in names if n != answer),
        statement=f"{story} The {asked} is {answer}.",
    )


def facts() -> Splits:
    """`facts`: six questions about each person; the few-shot people are not in the test split."""
    rng = random.Random(f"{SEED}/facts")
    splits = {"train": PEOPLE[TEST_PEOPLE:], "test": PEOPLE[:TEST_PEOPLE]}
    return {
        split: _rows(f"facts-{split}", [rng.choice(pair) for pair in _pairs(people)], rng)
        for split, people in splits.items()
    }


def _pairs(people: Sequence[str]) -> list[tuple[Problem, Problem]]:
    worded = list(fact_problems(people))
    return list(zip(worded[::2], worded[1::2], strict=True))


def sums() -> Splits:
    """`sums`: as many questions of each of the four topics; no question is in both splits."""
    rng = random.Random(f"{SEED}/sums")
    need = sum(SUMS_PER_TOPIC.values())
    chosen: dict[str, list[Problem]] = {split: [] for split in SUMS_PER_TOPIC}
    drawn = {
        "addition": rng.sample(list(addition_problems()), need),
        "subtraction": rng.sample(list(subtraction_problems()), need),
        "sequences": rng.sample(list(sequence_problems()), need),
        "order": [order_problem(rng) for _ in range(need)],
    }
    for problems in drawn.values():
        chosen["test"] += problems[: SUMS_PER_TOPIC["test"]]
        chosen["train"] += problems[SUMS_PER_TOPIC["test"] :]
    return {split: _rows(f"sums-{split}", problems, rng) for split, problems in chosen.items()}


def _rows(prefix: str, problems: list[Problem], rng: random.Random) -> list[Row]:
    """Rows in mixed order; within each topic the answers are spread evenly over the positions."""
    rng.shuffle(problems)
    positions: dict[str, list[int]] = {}
    rows: list[Row] = []
    for i, problem in enumerate(problems):
        if not positions.get(problem.topic):
            positions[problem.topic] = rng.sample(range(OPTIONS), OPTIONS)
        position = positions[problem.topic].pop()
        choices = rng.sample(problem.wrong, OPTIONS - 1)
        choices.insert(position, problem.answer)
        rows.append(
            Row(
                id=f"{prefix}-{i:03d}",
                topic=problem.topic,
                question=problem.question,
                choices=choices,
                answer=position,
            )
        )
    return rows
