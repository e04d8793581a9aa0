"""The sample browser of a run page: a filtered list of questions and one of them in full."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.http import Http404

from leaderboard.runs.peers import Peers, counted
from leaderboard.samples import (
    LONGEST_TEXT,
    MARGINS,
    OUTCOMES,
    QUESTIONS_ON_PAGE,
    SORTS,
    Facts,
    Line,
    Samples,
    Search,
    read_question,
)
from leaderboard.web import Address

FIELDS = {
    "q": "",
    "whole": "",
    "outcome": "all",
    "subset": "",
    "margin": "any",
    "from": "",
    "to": "",
    "sort": "file",
    "spaces": "",
    "page": "",
    "doc": "",
    "parts": "",
}
"""The browser's state in the address, each field with what it says when it is not there."""

_MOST_DIGITS = 7
_NEEDS_CHOICES = ("close", "wrong")

Option = tuple[str, str, bool]
"""Value, label, and whether it is chosen."""


@dataclass(frozen=True)
class Listed:
    """A line of the list with its address."""

    line: Line
    url: str
    current: bool


@dataclass(frozen=True)
class Segment:
    """An outcome to choose, with how many questions have it under the other filters."""

    label: str
    count: int
    url: str
    current: bool


@dataclass(frozen=True)
class Filter:
    """A filter in force, the address without it, and how many questions that would leave."""

    label: str
    url: str
    count: int


def browse(
    path: Path, address: Address, *, searchable: bool, peers: Peers | None = None
) -> dict[str, Any]:
    """What the address asks for: filters, page and question; without one where none is left.

    `searchable`: whether there is text to search; without it that filter leaves all questions. A
    question without a page in the address brings its own page along. Raises Http404 for a question
    that the run does not have.
    """
    search, problems = _search(address, searchable)
    with Samples.open(path, search) as samples:
        facts = samples.facts
        asked = _asked(address["doc"], facts) if address["doc"] else None
        place = None if asked is None else samples.stands(asked)
        if address["page"]:
            number = address.number("page", last=samples.pages)
        else:
            number = (place.number - 1) // QUESTIONS_ON_PAGE + 1 if place else 1
        lines = samples.page(number)
        shown = lines[0].place if asked is None and lines else asked
        return {
            "total": facts.n,
            "count": samples.count,
            "outcomes": list(_segments(address, samples)),
            "in_sheet": len(set(samples.filters) - {"text", "outcome"}) + (search.sort != "file"),
            "parts": [(name, name, name == address["subset"]) for name in samples.parts],
            "margins": _options(MARGINS, address["margin"]) if facts.has_choices else [],
            "sorts": [
                option
                for option in _options(SORTS, address["sort"])
                if facts.has_choices or option[0] not in _NEEDS_CHOICES
            ],
            "filters": list(_filters(address, search, samples)),
            "problems": problems,  # by field of the form; such a field filters nothing
            "lines": [
                Listed(line, _url(facts, line.place, address), line.place == shown)
                for line in lines
            ],
            "asked": asked is not None,
            "page": number,
            "pages": samples.pages,
            "previous_page": _page_url(number - 1, samples.pages, address),
            "next_page": _page_url(number + 1, samples.pages, address),
            **({} if shown is None else _question(samples, shown, address, peers)),
        }


def _question(
    samples: Samples, shown: int, address: Address, peers: Peers | None
) -> dict[str, Any]:
    facts, sample, place = samples.facts, samples.one(shown), samples.stands(shown)
    label = facts.label(shown)
    # In a group the part says more than the task.
    part = sample["subset"] or (sample["task"] if len(facts.tasks) > 1 else "")
    key = sample["task"], sample["doc_id"]
    beside = (place.before, place.after) if place else (None, None)
    before, after = (
        None if one is None else (str(facts.key(one)[1] + 1), _url(facts, one, address))
        for one in beside
    )
    return {
        "name": str(sample["doc_id"] + 1),  # counted from 1
        "doc": label,  # counted from 0, as addresses and files call it
        "doc_digest": sample["doc_digest"],
        "place": shown,
        "part": part,
        "permalink": address.url(**{**FIELDS, "doc": label}, fragment="question"),
        "spaces_url": address.url(
            spaces="" if address["spaces"] else "1", doc=label, page="", fragment="question"
        ),
        "question": read_question(sample),
        "peers": counted(peers, *key, sample["correct"]) if peers else None,
        "in_list": place is not None,  # else the filters leave it out
        "number": place.number if place else 0,
        "before": before,
        "after": after,
    }


def _url(facts: Facts, place: int, address: Address) -> str:
    return address.url("question", doc=facts.label(place), page="")


def _search(address: Address, searchable: bool) -> tuple[Search, dict[str, str]]:
    """The search that the address asks for, and what is wrong with its fields."""
    for switch in ("whole", "spaces"):
        address.choice(switch, ("", "1"))
    problems: dict[str, str] = {}
    if searchable and len(address["q"]) > LONGEST_TEXT:
        problems["q"] = f"These are more than {LONGEST_TEXT} letters. Search for fewer."
    search = Search(
        outcome=address.choice("outcome", OUTCOMES),
        subset=address["subset"],
        text=" ".join(address["q"].split()) if searchable and "q" not in problems else "",
        whole_prompt=bool(address["whole"]),
        margin=address.choice("margin", MARGINS),
        at_least=_tokens(address["from"], "from", problems),
        at_most=_tokens(address["to"], "to", problems),
        sort=address.choice("sort", SORTS),
    )
    return search, problems


def _tokens(text: str, field: str, problems: dict[str, str]) -> int | None:
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    shown = text if len(text) <= 20 else f"{text[:20]}…"
    problems[field] = f"“{shown}” is not a number of tokens. Write one such as 500, or nothing."
    return None


def _options(labels: dict[str, str], chosen: str) -> list[Option]:
    return [(name, label, name == chosen) for name, label in labels.items()]


def _segments(address: Address, samples: Samples) -> Iterator[Segment]:
    """All outcomes; what has no score of its own only where there is such a question."""
    for name, label in OUTCOMES.items():
        count, current = samples.outcomes[name], name == address["outcome"]
        if count or current or name != "unmeasured":
            url = address.url(fragment="questions", outcome=name, page="", doc="")
            yield Segment(label, count, url, current)


def _filters(address: Address, search: Search, samples: Samples) -> Iterator[Filter]:
    """Each filter in force, in the order of the form."""
    fields = {
        "text": (f"“{search.text}”", {"q": "", "whole": ""}),
        "outcome": (OUTCOMES[search.outcome], {"outcome": "all"}),
        "subset": (search.subset, {"subset": ""}),
        "margin": (MARGINS[search.margin], {"margin": "any"}),
        "at_least": (f"from {search.at_least} tokens", {"from": ""}),
        "at_most": (f"up to {search.at_most} tokens", {"to": ""}),
    }
    for name in samples.filters:
        label, without = fields[name]
        url = address.url(fragment="questions", page="", doc="", **without)
        yield Filter(label, url, samples.count_without(name))


def _asked(doc: str, facts: Facts) -> int:
    place = facts.called(doc)
    if place is None and doc.isdigit() and len(facts.tasks) > 1:
        raise Http404(f"this run has several tasks: doc={doc} is not enough, name its task too")
    if place is None:
        raise Http404(f"this run has no question with doc={doc}")
    return place


def _page_url(number: int, pages: int, address: Address) -> str:
    if not 1 <= number <= pages:
        return ""
    return address.url(fragment="questions", page=number if number > 1 else "", doc="")
