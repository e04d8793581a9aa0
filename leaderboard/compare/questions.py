"""The questions on which two sides part: counted, filtered, sorted, paged, with both answers.

The list is of one task, or of all tasks one after the other. That of one task knows how sure both
were of each question and sorts by it; the numbers for that are read from the stored files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import IntEnum
from functools import cached_property
from itertools import islice
from math import exp, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaderboard.compare.differences import ByQuestion, Crosstab, Difference, Pair
from leaderboard.compare.table import Lineup, Number, Task, stored_files
from leaderboard.models import Artifact
from leaderboard.models.run import run_url
from leaderboard.samples import (
    NO_PICK,
    OPENING_LENGTH,
    Choice,
    Damaged,
    Facts,
    Layout,
    Question,
    Unavailable,
    Vector,
    facts_of,
    is_withheld,
    letter,
    path_of,
    question_in,
    read_question,
    rows_in,
)
from leaderboard.snapshot import Floats
from leaderboard.web import Address, Part, kept, page_links, page_number

ON_PAGE = 12
PREVIEW = 3
"""Questions, and tasks that they are from, where nobody asked for the list."""
LONGEST_ANSWER = 90
"""Letters of an answer in the list."""
_COLUMNS = (
    *("doc", "prompt", "choices", "gold", "pick"),
    *(f"responses.list.element.{name}" for name in ("loglikelihood", "text")),
)


class Outcome(IntEnum):
    ALIKE = 0
    FIRST = 1
    """The first side did better."""
    SECOND = 2
    WRONG = 3
    """Neither is right, and they picked different choices."""


DECIDE = "decide"
SHOWN = {
    "all": None,
    "base": Outcome.FIRST,
    "other": Outcome.SECOND,
    "wrong": Outcome.WRONG,
    DECIDE: None,
}
"""What an address may ask for."""
SORTS = {"size": "Largest disagreement first", "file": "Order of the file"}


@dataclass(frozen=True, eq=False, kw_only=True)
class Partings:
    """Two sides' answers to the questions of one task; arrays have one entry for each question."""

    task: Task
    numbers: tuple[Number, Number]
    by_question: ByQuestion
    files: tuple[str | None, str | None]
    """Digests of the sample files."""
    part: int | None = None
    """Place of the only part whose questions are listed; None for all."""

    @property
    def vectors(self) -> tuple[Vector, Vector]:
        """Of several draws of examples the first."""
        return self.by_question.vectors[0]

    @property
    def layout(self) -> Layout:
        return self.vectors[0].layout

    @cached_property
    def paths(self) -> tuple[Path | None, Path | None]:
        """The sample files, None where the store does not have one or does not answer.

        Without texts while it does not: who was right is known from the database.
        """
        try:
            first, second = (path_of(digest) if digest else None for digest in self.files)
        except Unavailable:
            kept.only_for_now()
            return None, None
        return _at_hand(first), _at_hand(second)

    @cached_property
    def facts(self) -> tuple[Facts | None, Facts | None]:
        first, second = (facts_at(path, self.layout.n) for path in self.paths)
        return first, second

    @cached_property
    def _ahead(self) -> Floats:
        """By how much the first side's score is the higher one."""
        first, second = self.vectors
        return first.scores - second.scores

    @cached_property
    def parting(self) -> NDArray[np.int8]:
        """Of each question an Outcome, as far as scores alone tell it."""
        ahead = self._ahead if self.task.higher_is_better else -self._ahead
        outcome = np.zeros(len(ahead), np.int8)
        outcome[ahead > 0], outcome[ahead < 0] = Outcome.FIRST, Outcome.SECOND
        return outcome

    @cached_property
    def outcome(self) -> NDArray[np.int8]:
        """Of each question an Outcome; reads the files."""
        outcome = self.parting.copy()
        first, second = self.facts
        if first and second:
            picked = (first.pick != NO_PICK) & (second.pick != NO_PICK)
            wrong = (self.vectors[0].scores < 1) & (self.vectors[1].scores < 1)
            outcome[picked & (first.pick != second.pick) & wrong & (outcome == 0)] = Outcome.WRONG
        return outcome

    @cached_property
    def distance(self) -> Floats:
        """How far the margins of the two lie apart, in nats; NaN where there are none."""
        first, second = self.facts
        if first is None or second is None:
            return np.full(len(self.parting), np.nan)
        with np.errstate(invalid="ignore"):  # both found something impossible
            return np.asarray(np.abs(first.margin - second.margin))

    def count(self, shown: str, *, read_files: bool) -> int:
        """Of how many questions that holds which an address may ask for."""
        return int(self._shown(shown, read_files=read_files).sum())

    def places(self, shown: str, sort: str, *, read_files: bool) -> NDArray[np.intp]:
        """Places in the file of the questions where they part, in the order asked for."""
        places = np.flatnonzero(self._shown(shown, read_files=read_files))
        if sort == "file":
            return places
        apart = np.abs(self._ahead[places])
        distance = np.nan_to_num(self.distance[places], nan=-1.0)
        return places[np.lexsort((places, -distance, -apart))]

    def _shown(self, shown: str, *, read_files: bool) -> NDArray[np.bool_]:
        wanted = SHOWN[shown]
        outcome = self.outcome if read_files else self.parting
        if shown == DECIDE:
            mask = np.zeros(self.layout.n, np.bool_)
            deciding = self.by_question.deciding
            mask[[] if deciding is None else deciding] = True
        else:
            mask = outcome > 0 if wanted is None else outcome == wanted
        return mask if self.part is None else mask & (self.layout.part == self.part)

    def name(self, place: int) -> str:
        """Its label for readers: from 1, with the part of a group, which says more to them."""
        layout = self.layout
        number = int(layout.doc_id[place]) + 1
        if len(layout.tasks) == 1:
            return str(number)
        by_part = len(layout.parts) >= len(layout.tasks)
        part = layout.parts[int(layout.part[place])]
        return f"{part if by_part else layout.tasks[int(layout.task[place])]} {number}"


def _at_hand(path: Path | None) -> Path | None:
    return path if path and path.is_file() else None


def facts_at(path: Path | None, n: int) -> Facts | None:
    """The columns of a sample file, where it can be read and is of `n` questions."""
    with suppress(Damaged):
        facts = facts_of(path) if path and path.is_file() else None
        return facts if facts and facts.n == n else None
    return None


def partings_of(lineup: Lineup, pair: Pair) -> list[Partings]:
    """One for each task on which both sides have scores by question, the farthest apart first."""
    files = stored_files((number.run for number in lineup.numbers), Artifact.Kind.SAMPLES)
    distances: list[tuple[bool, float, Partings]] = []
    for task, result in zip(lineup.tasks, pair.by_task, strict=True):
        first, second = task.numbers[pair.first], task.numbers[pair.second]
        if isinstance(result, Difference) and result.questions and first and second:
            partings = Partings(
                task=task,
                numbers=(first, second),
                by_question=result.questions,
                files=(files.get(first.run), files.get(second.run)),
            )
            distances.append((task.drawn_to_scale, abs(result.value), partings))
    distances.sort(key=lambda one: one[:2], reverse=True)
    return [partings for _, _, partings in distances]


def crosstab_of(pair: Pair) -> Crosstab | None:
    """Who was right on the questions of all tasks whose scores are right or wrong."""
    tables = [result.questions.crosstab for result in pair.differences if result.questions]
    known = [table for table in tables if table]
    return Crosstab(*map(sum, zip(*known, strict=True))) if known else None


@dataclass(frozen=True)
class Answer:
    """What one side made of one question."""

    pick: str
    """Letter of the choice; empty where there are none."""
    text: str
    """Of the choice, or what was written; empty where it is withheld or not at hand."""
    sure: float | None
    """The pick's share of the likelihood of all choices."""
    score: float

    @property
    def right(self) -> bool | None:
        """None for a score between wrong and right."""
        return bool(self.score) if self.score in (0.0, 1.0) else None


@dataclass(frozen=True)
class Listed:
    """A question in the list."""

    task: Task
    name: str
    url: str
    current: bool
    text: str
    withheld: bool
    answers: tuple[Answer, Answer]
    gold: str
    distance: float | None
    """How far the margins of the two lie apart, in nats."""


@dataclass(frozen=True)
class QuestionList:
    """One page of the list, with its filters and orders."""

    filters: list[tuple[str, str, int, bool]]
    """Name in the address, address, how many, whether it is in force."""
    sorts: list[tuple[str, str, bool]]
    listed: list[Listed]
    part: Part
    places: NDArray[np.intp]
    """In its file of each question of the first task, in the order of the list."""


def list_of(every: Sequence[Partings], doc: int | None, address: Address) -> QuestionList:
    """The page of the list that the address asks for, or the one that has the question `doc`.

    Of several tasks the one farthest apart comes first, each in the order of its file.
    """
    alone = len(every) == 1
    shown = address["show"] or "all"
    sort = address["sort"] if alone else "file"
    places = [partings.places(shown, sort, read_files=alone) for partings in every]
    total = sum(map(len, places))
    number = page_number(address["page"], last=_pages(total))
    if doc is not None and not address["page"] and doc in places[0]:
        number = int(np.flatnonzero(places[0] == doc)[0]) // ON_PAGE + 1
    links = page_links(number, _pages(total), address.at(doc=""), heading="questions")
    part = Part(ON_PAGE, number, total, links)
    listed: list[Listed] = []
    start = part.start
    for partings, of_task in zip(every, places, strict=True):
        on_page = of_task[max(0, start) : max(0, start + ON_PAGE)]
        listed += listed_questions(partings, on_page, doc, address)
        start -= len(of_task)
    counts = {
        name: sum(partings.count(name, read_files=alone) for partings in every)
        for name in (SHOWN if alone else ("all", "base", "other"))
    }
    return QuestionList(
        filters=[
            (name, address.url("questions", show=name, page="", doc=""), count, name == shown)
            for name, count in counts.items()
            if count or name not in ("wrong", DECIDE)
        ],
        sorts=[
            (label, address.url("questions", sort=name, page="", doc=""), name == sort)
            for name, label in SORTS.items()
            if alone
        ],
        listed=listed,
        part=part,
        places=places[0],
    )


def preview(every: Sequence[Partings], address: Address) -> list[Listed]:
    """A question from each of the tasks farthest apart, that of the last one the other way round.

    Of those whose files are at hand: without texts there is nothing to see.
    """
    stored = (partings for partings in every if all(partings.files) and all(partings.paths))
    readable = list(islice(stored, PREVIEW))
    listed: list[Listed] = []
    for turn in range(PREVIEW):
        if not readable:
            break
        partings = readable[turn % len(readable)]
        leading, trailing = Outcome.FIRST, Outcome.SECOND
        if partings.by_question.mean.mean() < 0:
            leading, trailing = trailing, leading
        wanted = trailing if turn == PREVIEW - 1 else leading
        places = np.flatnonzero(partings.parting == wanted)[turn // len(readable) :][:1]
        listed += listed_questions(partings, places, None, address)
    return listed


def _pages(total: int) -> int:
    return max(1, -(-total // ON_PAGE))


def listed_questions(
    partings: Partings, places: NDArray[np.intp], doc: int | None, address: Address
) -> list[Listed]:
    rows = [_rows(path, places) for path in partings.paths]
    scores = [vector.scores for vector in partings.vectors]
    listed = []
    for place in places.tolist():
        both = [of_side.get(place) for of_side in rows]
        row = both[0] or both[1]
        withheld = row is not None and is_withheld(row["doc"])
        first, second = (
            _answer(of_side, float(of_scores[place]), withheld)
            for of_side, of_scores in zip(both, scores, strict=True)
        )
        distance = float(partings.distance[place]) if address["task"] else np.nan
        url = address.url(
            "question", task=partings.task.key, doc=partings.layout.label(place), page=""
        )
        listed.append(
            Listed(
                task=partings.task,
                name=partings.name(place),
                url=url,
                current=place == doc,
                text="" if row is None or withheld else _opening(row),
                withheld=withheld,
                answers=(first, second),
                gold=", ".join(map(letter, (row["gold"] or []) if row and row["choices"] else [])),
                distance=distance if isfinite(distance) else None,
            )
        )
    return listed


def _rows(path: Path | None, places: NDArray[np.intp]) -> dict[int, dict[str, Any]]:
    with suppress(Damaged):
        if path and len(places):
            return rows_in(path, places.tolist(), _COLUMNS)
    return {}


def _opening(row: Mapping[str, Any]) -> str:
    """How a question begins."""
    text = question_in(row["doc"]) or row["prompt"].strip().rpartition("\n\n")[2]
    return " ".join(text.split())[:OPENING_LENGTH]


def _answer(row: Mapping[str, Any] | None, score: float, withheld: bool) -> Answer:
    if row is None:
        return Answer("", "", None, score)
    pick, choices, responses = row["pick"], row["choices"] or [], row["responses"] or []
    if pick is None or not 0 <= pick < len(choices):
        written = next((one["text"] for one in responses if one["text"]), "")
        return Answer("", "" if withheld else _cut(written), None, score)
    likelihoods = [one["loglikelihood"] for one in responses[: len(choices)]]
    text = "" if withheld else _cut(str(choices[pick]))
    sure = share_of(likelihoods, pick)
    return Answer(letter(pick), "" if text == letter(pick) else text, sure, score)


def share_of(likelihoods: Sequence[float | None], place: int) -> float | None:
    """What one choice has of the likelihood of all; loglikelihoods in nats."""
    known = [value for value in likelihoods if value is not None]
    if len(known) < len(likelihoods) or not known or not isfinite(max(known)):
        return None
    best = max(known)
    return exp(known[place] - best) / sum(exp(value - best) for value in known)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_ANSWER else f"{text[:LONGEST_ANSWER]}…"


# One question, side by side


class Piece(NamedTuple):
    text: str
    changed: bool


Sides = tuple[tuple[Piece, ...], tuple[Piece, ...]]


@dataclass(frozen=True)
class Prompt:
    """A part of what was sent; where it is the same, both sides have the one piece."""

    title: str
    sides: Sides
    continuations: tuple[str, ...] = ()
    """The texts that were scored behind it, where they are the same."""

    @property
    def same(self) -> bool:
        return not any(piece.changed for side in self.sides for piece in side)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.sides[0])


class Odds(NamedTuple):
    """How likely one side found a choice."""

    choice: Choice
    share: float | None
    """Of the likelihood of all choices."""

    @property
    def percent(self) -> str:
        return f"{100 * (self.share or 0):.2f}%"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The one question in full."""

    name: str
    part: str
    """Where its name does not say it."""
    questions: tuple[Question | None, Question | None]
    """None for a side whose file is not at hand."""
    answers: tuple[Answer, Answer]
    prompts: tuple[Prompt, ...]
    choices: tuple[tuple[Odds, Odds], ...]
    """Empty where there are none, or not the same ones."""
    number: int | None
    """Its place in the list, from 1; None where the filter leaves it out."""
    before: tuple[str, str] | None
    """Name and address."""
    after: tuple[str, str] | None
    permalink: str
    spaces_url: str
    run_urls: tuple[str, str]
    """The same question on either run's page."""

    @property
    def withheld(self) -> bool:
        return any(question.withheld for question in self.questions if question)

    @property
    def written(self) -> bool:
        """Whether either side wrote its answer itself."""
        return any(question.written for question in self.questions if question)

    @property
    def same_prompt(self) -> bool:
        return all(prompt.same for prompt in self.prompts)


def question_of(partings: Partings, questions: QuestionList, place: int, address: Address) -> Shown:
    """The question in this place of the file, with its neighbours in the list."""
    first, second = (
        read_question(rows_in(path, [place])[place]) if path and facts else None
        for path, facts in zip(partings.paths, partings.facts, strict=True)
    )
    layout = partings.layout
    label = layout.label(place)
    several = len(layout.parts) > 1 and len(layout.tasks) == 1
    here = np.flatnonzero(questions.places == place)
    number = int(here[0]) if len(here) else None
    beside = [
        _neighbour(partings, questions, number, step, address) if number is not None else None
        for step in (-1, 1)
    ]
    urls = [f"{run_url(number.run)}?doc={label}#question" for number in partings.numbers]
    (listed,) = listed_questions(partings, np.array([place]), place, address)
    return Shown(
        name=partings.name(place),
        part=layout.parts[int(layout.part[place])] if several else "",
        questions=(first, second),
        answers=listed.answers,
        prompts=tuple(_prompts(first, second)) if first and second else (),
        choices=tuple(_choices(first, second)) if first and second else (),
        number=None if number is None else number + 1,
        before=beside[0],
        after=beside[1],
        permalink=address.url(
            "question", doc=label, show="", sort="size", page="", spaces="", part=""
        ),
        spaces_url=address.url(
            "question", doc=label, page="", spaces="" if address["spaces"] else "1"
        ),
        run_urls=(urls[0], urls[1]),
    )


def _neighbour(
    partings: Partings, questions: QuestionList, number: int, step: int, address: Address
) -> tuple[str, str] | None:
    if not 0 <= number + step < len(questions.places):
        return None
    place = int(questions.places[number + step])
    label = partings.layout.label(place)
    return partings.name(place), address.url("question", doc=label, page="")


def _choices(first: Question, second: Question) -> Iterator[tuple[Odds, Odds]]:
    if [choice.text for choice in first.choices] != [choice.text for choice in second.choices]:
        return
    shares = [
        [share_of([choice.loglikelihood for choice in q.choices], n) for n in range(len(q.choices))]
        for q in (first, second)
    ]
    yield from zip(
        map(Odds, first.choices, shares[0]), map(Odds, second.choices, shares[1]), strict=True
    )


def _prompts(first: Question, second: Question) -> Iterator[Prompt]:
    both = (first, second)
    if first.requests or second.requests:
        sent = [["".join(request) for request in q.requests] or [q.asked] for q in both]
        for number in range(max(map(len, sent))):
            texts = [texts[number] if number < len(texts) else "" for texts in sent]
            yield Prompt(f"Request {number + 1}", text_differences(*texts))
        return
    if first.examples or second.examples:
        yield Prompt("Worked examples", text_differences(first.examples, second.examples))
    same = first.continuations == second.continuations
    yield Prompt(
        "Prompt as sent",
        text_differences(first.asked, second.asked),
        first.continuations if same else (),
    )


MOST_MATCHED = 4_000
"""Words that are matched with each other; of more, all between the first difference and the last
counts as changed."""
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


def text_differences(first: str, second: str) -> Sides:
    """Both texts in pieces, each of which the other has in its place or has not.

    Joined, the pieces of a side are its text.
    """
    old, new = _WORDS.findall(first), _WORDS.findall(second)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    middles = old[start : len(old) - end], new[start : len(new) - end]
    opcodes: Sequence[tuple[str, int, int, int, int]]
    opcodes = [("replace", 0, len(middles[0]), 0, len(middles[1]))]
    if max(map(len, middles)) <= MOST_MATCHED:
        opcodes = SequenceMatcher(None, *middles).get_opcodes()
    stretches = [
        (False, old[:start], new[:start]),
        *((tag != "equal", middles[0][a:b], middles[1][c:d]) for tag, a, b, c, d in opcodes),
        (False, old[len(old) - end :], new[len(new) - end :]),
    ]
    first_side, second_side = (
        tuple(
            Piece("".join(words), changed)
            for changed, words in ((changed, both[side]) for changed, *both in stretches)
            if words
        )
        for side in (0, 1)
    )
    return first_side, second_side


def _common(first: Sequence[str], second: Sequence[str]) -> int:
    """How many elements both begin with."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))
