"""The questions on which two sides part: filtered, sorted, paged, with the first words of each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaderboard.samples import (
    NO_PICK,
    OPENING_LENGTH,
    Damaged,
    Facts,
    Layout,
    Vector,
    facts_of,
    is_withheld,
    letter,
    path_of,
    question_in,
    rows_in,
)
from leaderboard.snapshot import Floats
from leaderboard.stats import Places
from leaderboard.web import Address, Part, page_links, page_number


class Outcome(IntEnum):
    ALIKE = 0
    BASE = 1
    """The baseline did better."""
    OTHER = 2
    WRONG = 3
    """Neither is right, and they picked different choices."""


DECIDE = "decide"
SHOWN = {
    "all": None,
    "base": Outcome.BASE,
    "other": Outcome.OTHER,
    "wrong": Outcome.WRONG,
    DECIDE: None,
}
"""What an address may ask for."""
SORTS = {"size": "Largest disagreement first", "file": "Order of the file"}


@dataclass(frozen=True, eq=False)
class Half:
    """One side's answers; without its sample file only the scores are known."""

    vector: Vector
    path: Path | None = None
    answers: Facts | None = None


@dataclass(frozen=True, eq=False)
class Partings:
    """Two sides' answers to the questions of one task; arrays have one entry for each."""

    base: Half
    other: Half
    higher_is_better: bool
    part: int | None = None
    """Place of the only part whose questions are listed; None for all."""
    deciding: Places | None = None
    """Of the questions that the lead hangs on; None where there is none."""

    @property
    def halves(self) -> tuple[Half, Half]:
        return self.base, self.other

    @property
    def layout(self) -> Layout:
        """That both have."""
        return self.base.vector.layout

    @cached_property
    def _ahead(self) -> Floats:
        """By how much the other side's score is the higher one."""
        return self.other.vector.scores - self.base.vector.scores

    @cached_property
    def outcome(self) -> NDArray[np.int8]:
        """Of each question, an Outcome."""
        ahead = self._ahead if self.higher_is_better else -self._ahead
        found = np.zeros(len(ahead), np.int8)
        found[ahead < 0], found[ahead > 0] = Outcome.BASE, Outcome.OTHER
        if self.base.answers and self.other.answers:
            picks = self.base.answers.pick, self.other.answers.pick
            picked = (picks[0] != NO_PICK) & (picks[1] != NO_PICK) & (picks[0] != picks[1])
            wrong = (self.base.vector.scores < 1) & (self.other.vector.scores < 1)
            found[picked & wrong & (ahead == 0)] = Outcome.WRONG
        return found

    @cached_property
    def counts(self) -> dict[str, int]:
        """By what an address may ask for how many questions that is."""
        return {name: int(self._shown(name).sum()) for name in SHOWN}

    @cached_property
    def distance(self) -> Floats:
        """How far the margins of the two lie apart, in nats; NaN where there are none."""
        if self.base.answers is None or self.other.answers is None:
            return np.full(len(self.outcome), np.nan)
        with np.errstate(invalid="ignore"):  # both found something impossible
            return np.asarray(np.abs(self.base.answers.margin - self.other.answers.margin))

    def places(self, shown: str, sort: str) -> NDArray[np.intp]:
        """Places in the file of the questions where they part, in the order asked for."""
        found = np.flatnonzero(self._shown(shown))
        if sort == "file":
            return found
        apart = np.abs(self._ahead[found])
        distance = np.nan_to_num(self.distance[found], nan=-1.0)
        return found[np.lexsort((found, -distance, -apart))]

    def _shown(self, shown: str) -> NDArray[np.bool_]:
        of = SHOWN[shown]
        if shown == DECIDE:
            found = np.zeros(len(self.outcome), np.bool_)
            found[[] if self.deciding is None else self.deciding] = True
        else:
            found = self.outcome > 0 if of is None else self.outcome == of
        return found if self.part is None else found & (self.layout.part == self.part)


PAGE = 12


@dataclass(frozen=True)
class Answer:
    """What one side made of one question."""

    pick: str
    """Letter of the choice; empty where there are none."""
    score: float

    @property
    def right(self) -> bool | None:
        """None for a score between wrong and right."""
        return bool(self.score) if self.score in (0.0, 1.0) else None


@dataclass(frozen=True)
class Listed:
    """A question in the list."""

    name: str
    url: str
    current: bool
    text: str
    withheld: bool
    answers: tuple[Answer, Answer]
    gold: str
    outcome: Outcome
    distance: float | None
    """How far the margins of the two lie apart, in nats."""


@dataclass(frozen=True)
class Questions:
    """The list with its filters and orders."""

    filters: list[tuple[str, str, int, bool]]
    """Name in the address, address, how many, whether it is in force."""
    sorts: list[tuple[str, str, bool]]
    listed: list[Listed]
    part: Part
    places: NDArray[np.intp]
    """Of all of them in their files, in the order of the list."""
    has_choices: bool


def half_of(vector: Vector, sha256: str | None) -> Half:
    """With the sample file of this digest, where the store has it and it is of these questions."""
    path, answers = path_of(sha256) if sha256 else None, None
    with suppress(Damaged):
        answers = facts_of(path) if path and path.is_file() else None
    same = answers is not None and answers.n == vector.layout.n
    return Half(vector, path, answers) if same else Half(vector)


def list_of(partings: Partings, doc: int | None, address: Address) -> Questions:
    """The page of the list that the address asks for, or the one that has the question `doc`."""
    shown, sort = address["show"], address["sort"]
    places = partings.places(shown, sort)
    chosen = _part(places, doc, address)
    on_page = places[chosen.slice].tolist()
    texts = _texts(partings, on_page)
    return Questions(
        filters=[
            (name, address.url("questions", show=name, page="", doc=""), count, name == shown)
            for name, count in partings.counts.items()
            if count or name not in ("wrong", DECIDE)
        ],
        sorts=[
            (label, address.url("questions", sort=name, page="", doc=""), name == sort)
            for name, label in SORTS.items()
        ],
        listed=[
            _listed(partings, place, texts.get(place, ""), address, current=place == doc)
            for place in on_page
        ],
        part=chosen,
        places=places,
        has_choices=any(half.answers.has_picks for half in partings.halves if half.answers),
    )


def _part(places: NDArray[np.intp], doc: int | None, address: Address) -> Part:
    pages = max(1, -(-len(places) // PAGE))
    number = page_number(address["page"], last=pages)
    if doc is not None and not address["page"] and doc in places:
        number = int(np.flatnonzero(places == doc)[0]) // PAGE + 1
    links = page_links(number, pages, address.at(doc=""), heading="questions")
    return Part(PAGE, number, len(places), links)


def _texts(partings: Partings, places: Sequence[int]) -> dict[int, str]:
    """By place how each question begins; a withheld one says nothing."""
    path = partings.base.path or partings.other.path
    if path is None or not places:
        return {}
    docs = rows_in(path, places, ["doc"])
    texts = {
        place: "" if is_withheld(row["doc"]) else question_in(row["doc"])
        for place, row in docs.items()
    }
    # Prompts are long: they are read only where the document does not say what is asked.
    unsaid = [p for p, row in docs.items() if not texts[p] and not is_withheld(row["doc"])]
    prompts = rows_in(path, unsaid, ["prompt"]) if unsaid else {}
    texts |= {p: row["prompt"].strip().rpartition("\n\n")[2] for p, row in prompts.items()}
    return {place: " ".join(text.split())[:OPENING_LENGTH] for place, text in texts.items()}


def _listed(
    partings: Partings, place: int, text: str, address: Address, *, current: bool
) -> Listed:
    known = partings.base.answers or partings.other.answers
    distance = float(partings.distance[place])
    return Listed(
        name=name_of(partings, place),
        url=address.url("question", doc=partings.layout.label(place), page=""),
        current=current,
        text=text,
        withheld=known is not None and not text,
        answers=answers_to(partings, place),
        gold=", ".join(map(letter, known.gold_of(place))) if known and known.has_picks else "",
        outcome=Outcome(int(partings.outcome[place])),
        distance=distance if np.isfinite(distance) else None,
    )


def answers_to(partings: Partings, place: int) -> tuple[Answer, Answer]:
    picks = [half.answers.pick[place] if half.answers else NO_PICK for half in partings.halves]
    first, second = (
        Answer("" if pick == NO_PICK else letter(int(pick)), float(half.vector.scores[place]))
        for pick, half in zip(picks, partings.halves, strict=True)
    )
    return first, second


def name_of(partings: Partings, place: int) -> str:
    """Its label for readers: from 1, with the part of a group, which says more to them."""
    layout = partings.layout
    number = int(layout.doc_id[place]) + 1
    if len(layout.tasks) == 1:
        return str(number)
    by_part = len(layout.parts) >= len(layout.tasks)
    part = layout.parts[int(layout.part[place])]
    return f"{part if by_part else layout.tasks[int(layout.task[place])]} {number}"


def neighbour(
    partings: Partings, questions: Questions, doc: int, step: int, address: Address
) -> tuple[str, str] | None:
    """Name and address of the question before or after one in the list."""
    here = np.flatnonzero(questions.places == doc)
    beside = int(here[0]) + step if len(here) else -1
    if not 0 <= beside < len(questions.places):
        return None
    place = int(questions.places[beside])
    label = partings.layout.label(place)
    return name_of(partings, place), address.url("question", doc=label, page="")
