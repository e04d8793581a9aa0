"""The questions of a task that answers suspect, and those that people ruled on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leaderboard.court.bench import Bench, begins, within
from leaderboard.court.strong import Instead, instead, strongest
from leaderboard.disputed import Counts, counts_of
from leaderboard.samples import is_withheld, letter, path_of, rows_in

Key = tuple[str, int]
LONGEST_KEY = 80
"""Letters of an answer in the list."""
ALL, SUSPECTED, RULED, DISPUTED = "", "suspected", "ruled", "disputed"
SHOWN = {ALL: "All", SUSPECTED: "Suspected", RULED: "Ruled on", DISPUTED: "Disputed"}
SUSPICION, RULINGS, NUMBER = "suspicion", "rulings", "number"
ORDERS = {SUSPICION: "Most suspicious", RULINGS: "Most rulings", NUMBER: "As asked"}


@dataclass(frozen=True)
class Line:
    """A question in the list; texts are empty where they are not known."""

    key: Key
    called: str
    label: str
    counts: Counts
    suspected: bool
    right: float | None
    """Share of the models that are right; None without an item analysis."""
    discrimination: float | None
    opening: str = ""
    answer: str = ""
    """What is marked as right."""
    instead: Instead | None = None
    instead_text: str = ""


def lines(bench: Bench) -> list[Line]:
    """Every question that is suspected or was ruled on, without its texts."""
    counts = counts_of(bench.task, bench.docs_digest) if bench.docs_digest else {}
    table = bench.items
    places = [] if table is None else np.flatnonzero(table.suspicious).tolist()
    keys = [table.key(place) for place in places] if table else []
    return [_line(bench, key, counts.get(key, Counts())) for key in dict.fromkeys([*keys, *counts])]


def line_of(bench: Bench, part: str, doc_id: int) -> Line:
    """One question, whether anybody suspects it or not."""
    counts = counts_of(bench.task, bench.docs_digest)
    line = _line(bench, (part, doc_id), counts.get((part, doc_id), Counts()))
    return with_texts(bench, [line])[0]


def _line(bench: Bench, key: Key, counts: Counts) -> Line:
    table = bench.items
    place = table.place(*key) if table else None
    several = len(bench.facts.tasks) > 1
    part = within(bench.task, key[0])
    known = table is not None and place is not None
    return Line(
        key=key,
        called=f"{part} {key[1] + 1}" if several else str(key[1] + 1),
        label=f"{key[0]}:{key[1]}",
        counts=counts,
        suspected=bool(table.suspicious[place]) if table and known else False,
        right=float(table.difficulty[place]) if table and known else None,
        discrimination=float(table.discrimination[place]) if table and known else None,
    )


def chosen(found: Sequence[Line], which: str, order: str) -> list[Line]:
    kept = [line for line in found if _shown(line, which)]
    return sorted(kept, key=lambda line: (*_place(line, order), *line.key))


def _shown(line: Line, which: str) -> bool:
    return {
        ALL: True,
        SUSPECTED: line.suspected,
        RULED: line.counts.n > 0,
        DISPUTED: line.counts.disputed,
    }[which]


def _place(line: Line, order: str) -> tuple[float, ...]:
    suspicion = (not line.suspected, line.discrimination or 0.0)
    return {
        SUSPICION: (*suspicion, -line.counts.n),
        RULINGS: (-line.counts.n, *suspicion),
        NUMBER: (),
    }[order]


def with_texts(bench: Bench, shown: Sequence[Line]) -> list[Line]:
    """Some lines with the words of question and key, and what the strongest models answer."""
    places = {line.key: bench.facts.place(*line.key) for line in shown}
    rows = rows_in(
        path_of(bench.samples),
        [place for place in places.values() if place is not None],
        ["doc", "choices", "gold", "target"],
    )
    files = strongest(bench.column)
    told = []
    for line in shown:
        place = places[line.key]
        row = rows.get(place) if place is not None else None
        told.append(_told(line, row, instead(files, *line.key)))
    return told


def _told(line: Line, row: dict[str, Any] | None, other: Instead | None) -> Line:
    if row is None:
        return line
    withheld = is_withheld(row["doc"])
    choices = [] if withheld else row["choices"] or []
    marked = [_choice(choices, place) for place in row["gold"] or [] if place >= 0]
    if not marked and not withheld:
        marked = [_short(row["target"] or "")]
    return replace(
        line,
        opening=begins(row),
        answer=" or ".join(marked),
        instead=other,
        instead_text=_choice(choices, other.place) if other else "",
    )


def _choice(choices: Sequence[str], place: int) -> str:
    text = _short(choices[place]) if place < len(choices) else ""
    return f"{letter(place)}: {text}" if text not in ("", letter(place)) else letter(place)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST_KEY else f"{words[:LONGEST_KEY]}…"
