"""The sample browser of a run page: a list of questions and one of them in full."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.http import Http404

from leaderboard.pages.address import Address
from leaderboard.question import Question, read_question
from leaderboard.samples import OUTCOMES, PAGE, Line, Samples


@dataclass(frozen=True)
class Listed:
    """A line of the list with its address."""

    line: Line
    label: str
    url: str
    current: bool


@dataclass(frozen=True)
class Browser:
    """What the page shows of the samples; `question` is None where the filter leaves nothing."""

    total: int
    count: int
    outcomes: list[tuple[str, str, bool]]
    subsets: list[tuple[str, bool]]
    lines: list[Listed]
    page: int
    pages: int
    previous_page: str
    next_page: str
    label: str
    subset: str
    question: Question | None
    before: tuple[str, str] | None
    after: tuple[str, str] | None


def browse(path: Path, address: Address) -> Browser:
    """Read what the address asks for: filter, page and question. Raises Http404 for an unknown one.

    A question without a page in the address brings its own page along.
    """
    outcome = address.choice("outcome", OUTCOMES)
    with Samples.open(path, outcome=outcome, subset=address["subset"]) as samples:
        asked = _key(address["doc"], samples) if address["doc"] else None
        place = samples.place(*asked) if asked else None
        if address["page"]:
            number = address.number("page", last=samples.pages)
        else:
            number = (place.number - 1) // PAGE + 1 if place else 1
        lines = samples.page(number)
        key = asked or ((lines[0].task, lines[0].doc_id) if lines else None)
        sample = samples.one(*key) if key else None
        if asked and sample is None:
            raise Http404(f"this run has no question {address['doc']}")
        if key and place is None:
            place = samples.place(*key)
        several = len(samples.tasks) > 1
        return Browser(
            total=samples.total,
            count=samples.count,
            outcomes=[(name, label, name == outcome) for name, label in OUTCOMES.items()],
            subsets=[(name, name == address["subset"]) for name in samples.subsets],
            lines=[_listed(line, key, several, address) for line in lines],
            page=number,
            pages=samples.pages,
            previous_page=_page_url(number - 1, samples.pages, address),
            next_page=_page_url(number + 1, samples.pages, address),
            label=_label(key, several) if key else "",
            subset=str(sample["subset"] or "") if sample else "",
            question=read_question(sample) if sample else None,
            before=_neighbour(place.before if place else None, several, address),
            after=_neighbour(place.after if place else None, several, address),
        )


def _key(doc: str, samples: Samples) -> tuple[str, int]:
    """`task:number`, or the number alone where the run has one task."""
    task, _, number = doc.rpartition(":")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise Http404(f"this run has no question {doc}")
    if not task and len(samples.tasks) != 1:
        raise Http404(
            f"this run has several tasks: question {doc} is not enough, name its task too"
        )
    return task or samples.tasks[0], int(number)


def _label(key: tuple[str, int], several: bool) -> str:
    return f"{key[0]}:{key[1]}" if several else str(key[1])


def _listed(line: Line, key: tuple[str, int] | None, several: bool, address: Address) -> Listed:
    label = _label((line.task, line.doc_id), several)
    return Listed(
        line=line,
        label=label,
        url=address.url(fragment="question", doc=label, page=""),
        current=(line.task, line.doc_id) == key,
    )


def _neighbour(
    key: tuple[str, int] | None, several: bool, address: Address
) -> tuple[str, str] | None:
    if key is None:
        return None
    label = _label(key, several)
    return str(key[1]), address.url(fragment="question", doc=label, page="")


def _page_url(number: int, pages: int, address: Address) -> str:
    if not 1 <= number <= pages:
        return ""
    return address.url(fragment="questions", page=number if number > 1 else "", doc="")
