"""One question as both sides were asked it and answered it, side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

import numpy as np

from leaderboard.compare.questions import Answer, Partings, QuestionList, listed_questions, share_of
from leaderboard.models.run import run_url
from leaderboard.samples import Choice, Question, read_question, rows_in
from leaderboard.web import Address


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
