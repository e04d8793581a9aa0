"""What is asked for: the kinds of pages that readers open, with many addresses of each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from urllib.parse import urlencode

from django.urls import reverse

from leaderboard.board import BoardQuery, view_of
from leaderboard.models import Artifact, HubModel, Run, Suite, TaskVersion
from leaderboard.models.run import State
from leaderboard.samples import QUESTIONS_ON_PAGE
from leaderboard.snapshot import OWN, Board, published

SOUGHT = ("sextant", "third lock", "glazier", "narrower", "bell founder", "quern", "in the dark",
          "second survey", "tenon 17", "no such word")  # fmt: skip
"""Searched for in the text of questions: some stand in many, some in none."""


@dataclass(frozen=True)
class Kind:
    """Pages that are made alike."""

    name: str
    addresses: Sequence[str]
    share: int
    """Of the mix under load, in percent."""
    goal: float | None = None
    """Seconds that its 95th percentile may take, cold and repeated."""


def kinds(suite: Suite, *, filters: int, models: int, seed: int = 0) -> list[Kind]:
    """Every kind, with so many different filters and models."""
    draw = random.Random(f"addresses/{seed}")
    board = published.newest(suite, OWN)
    if board is None:
        raise ValueError(f"{suite} has no board")
    files = _with_files()
    styles = [style for style in board.styles if style != OWN]
    return [
        Kind("board, first page", [reverse("board")], 30, 0.05),
        Kind("board, any filter", list(_filters(board, filters, draw)), 32, 0.05),
        Kind("board, another style", [BoardQuery(style=style).url() for style in styles], 8, 0.05),
        Kind("board, all columns", _all_columns(board), 4, 0.05),
        Kind("board as CSV", [BoardQuery(cols="all", q="7b").url(to="board-csv")], 1),
        Kind("styles", list(_styles(board)), 4),
        Kind("model", [model.get_absolute_url() for model in _models(draw, models)], 8),
        Kind("task", [task.get_absolute_url() for task in _tasks()], 4),
        Kind("run without files", [_run(pk) for pk in _without_files()], 1),
        Kind("samples", list(_sample_pages(files, draw)), 3, 0.1),
        Kind("samples, text search", [_run(pk, q=q) for pk in files for q in SOUGHT], 1, 0.3),
        Kind("comparison of two files", list(_of_runs(list(files))), 1, 0.3),
        Kind("comparison of two models", list(_of_models(board)), 1),
        Kind("queue", [reverse("queue")], 1),
        Kind("suite, method, about", [_suite(), reverse("method"), reverse("about")], 1),
    ]


def mix(kinds: Sequence[Kind], count: int, *, seed: int = 0) -> list[tuple[str, str]]:
    """So many requests in the kinds' shares, in a random order."""
    draw = random.Random(f"mix/{seed}")
    chosen = draw.choices(kinds, [kind.share for kind in kinds], k=count)
    return [(kind.name, draw.choice(kind.addresses)) for kind in chosen]


def _filters(board: Board, count: int, draw: random.Random) -> Iterator[str]:
    """Different views of the board: filters, searches, sorting and further pages."""
    values = {
        "type": sorted({model.kind for model in board.models} - {""}),
        "precision": sorted({model.dtype for model in board.models}),
        "arch": sorted({model.architecture for model in board.models}),
        "licence": sorted({model.licence for model in board.models} - {""}),
        "size": ["-3", "1-10", "7-15", "60-", "0.1-0.8", "13-80"],
        "official": ["only", "hide"],
        "merged": ["only", "hide"],
        "moe": ["only", "hide"],
        "gone": ["hide"],
        "q": [*("instruct", "merge;dpo", "@author:a", "/-(7|8)b/", "scholar", "@size:<3B")],
        "score": ["chance"],
        "sort": [column.benchmark for column in board.columns[:10]],
        "page": [str(page) for page in range(2, 8)],
    }
    seen = {reverse("board")}
    while len(seen) <= count:
        fields = draw.sample(list(values), draw.randrange(1, 4))
        wanted = BoardQuery(**{name: draw.choice(values[name]) for name in fields})
        address = view_of(board, wanted).query.url()
        if address not in seen:
            seen.add(address)
            yield address


def _all_columns(board: Board) -> list[str]:
    wanted = (BoardQuery(cols="all", page=str(page)) for page in range(1, 11))
    return list(dict.fromkeys(view_of(board, one).query.url() for one in wanted))


def _styles(board: Board) -> Iterator[str]:
    yield reverse("styles")
    for column in board.columns[:20]:
        yield f"{reverse('styles')}?{urlencode({'benchmark': column.benchmark})}"


def _with_files() -> dict[str, int]:
    """Runs with a file of samples, and how many pages the list of them has."""
    files = Artifact.objects.filter(kind=Artifact.Kind.SAMPLES, run__task__style="mmlu")
    found = files.order_by("run__created", "run").values_list("run", "rows")
    return {str(run): (rows or 0) // QUESTIONS_ON_PAGE for run, rows in found}


def _without_files() -> list[object]:
    runs = Run.objects.filter(artifacts=None, state=State.DONE)
    return list(runs.order_by("pk").values_list("pk", flat=True)[:20])


def _models(draw: random.Random, models: int) -> list[HubModel]:
    return draw.sample(list(HubModel.objects.order_by("pk")), models)


def _tasks() -> list[TaskVersion]:
    return list(TaskVersion.objects.filter(entries__own=True).order_by("pk")[:20])


def _run(pk: object, **fields: object) -> str:
    return reverse("run", args=[pk]) + (f"?{urlencode(fields)}" if fields else "")


def _sample_pages(files: Mapping[str, int], draw: random.Random) -> Iterator[str]:
    for pk, pages in files.items():
        yield _run(pk)
        yield _run(pk, outcome="wrong")
        yield from (_run(pk, page=page) for page in draw.sample(range(2, pages), 8))


def _of_runs(files: Sequence[str]) -> Iterator[str]:
    return (_comparison("run", *pair) for pair in permutations(files, 2))


def _of_models(board: Board) -> Iterator[str]:
    """Of neighbours on the board, over all of its benchmarks."""
    variants = [str(model.variant) for model in board.models[:21]]
    return (_comparison("m", *pair) for pair in pairwise(variants))


def _comparison(of: str, *two: str) -> str:
    return f"{reverse('compare')}?{urlencode({of: ','.join(two)})}"


def _suite() -> str:
    return reverse("suite", args=["generated"])
