"""Scores without the questions whose keys people dispute, beside a board and beside single results.

They never rank. What is disputed, and how these scores are computed, is in
`corrections/second_figures.py`; pages read here what is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Count, QuerySet
from django.utils.safestring import SafeString, mark_safe

from leaderboard import stats
from leaderboard.models import DisputedSet, SecondFigure
from leaderboard.snapshot.data import Board, Score
from leaderboard.templatetags.figures import bounds_in, exactly, in_unit, plural

_FIELDS = ("value", "low", "high", "n", "disputed__n")


@dataclass(frozen=True)
class AdjustedScore:
    """A score without the disputed questions."""

    score: Score
    removed: int
    """So many questions are disputed."""


@dataclass(frozen=True)
class AdjustedScores:
    """Of one column of a board."""

    task: str
    removed: int
    known: tuple[int, int]
    """Which set, and how many second figures of it are stored: what of it may change."""
    of_rows: dict[int, AdjustedScore] = field(default_factory=dict)
    """By row of the board; without those that are not computed yet, or cannot be."""


def sets_of(tasks: Collection[str]) -> list[DisputedSet]:
    """Of all versions of the tasks with these names what is disputed; one query."""
    current = DisputedSet.objects.filter(current=True, task__name__in=tasks)
    stored = current.select_related("task").annotate(stored=Count("figures"))
    return list(stored.order_by("made", "pk"))


def of_results(results: Iterable[int]) -> dict[int, AdjustedScore]:
    """By primary key; one query."""
    rows = SecondFigure.objects.filter(
        disputed__current=True, result__in=results, value__isnull=False
    ).values_list("result", *_FIELDS)
    return {
        pk: AdjustedScore(Score(value, low, high, n), removed)
        for pk, value, low, high, n, removed in rows
    }


ByRun = Mapping[tuple[UUID, str, str], AdjustedScore]
"""By run, metric and filter."""


def of_variants(variants: Collection[int]) -> ByRun:
    """Of all runs of these; one query."""
    return _by_run(SecondFigure.objects.filter(disputed__current=True), variants)


def _by_run(figures: QuerySet[SecondFigure], variants: Collection[int]) -> ByRun:
    rows = figures.filter(value__isnull=False, result__run__variant__in=variants).values_list(
        "result__run", "result__metric", "result__filter", *_FIELDS
    )
    return {
        (run, metric, of_filter): AdjustedScore(Score(value, low, high, n), removed)
        for run, metric, of_filter, value, low, high, n, removed in rows
    }


def of_board(
    board: Board, rows: Sequence[int], columns: Sequence[int]
) -> dict[int, AdjustedScores]:
    """By column those that have disputed questions: one query where none has, two for all."""
    named = [(place, board.columns[place]) for place in columns]
    shown = {place: (column.task, column.task_version) for place, column in named}
    sets: dict[tuple[str, str], list[DisputedSet]] = {}
    for one in sets_of({task for task, _ in shown.values()}):
        sets.setdefault((one.task.name, one.task.version), []).append(one)
    found = [one for asked in set(shown.values()) for one in sets.get(asked, ())]
    if not found:
        return {}
    variants = board.models.take(rows).values("variant")
    by_run = _by_run(SecondFigure.objects.filter(disputed__in=found), variants)
    seconds = {}
    for place, asked in shown.items():
        if asked in sets:
            cells = {row: _of_cell(board, row, place, by_run) for row in rows}
            of_rows = {row: second for row, second in cells.items() if second}
            # Of data that changed there may be two sets: the column's is that of its scores.
            removed = next((one.removed for one in of_rows.values()), sets[asked][-1].n)
            newest = sets[asked][-1]
            known = newest.pk, getattr(newest, "stored")  # noqa: B009
            seconds[place] = AdjustedScores(asked[0], removed, known, of_rows)
    return seconds


def _of_cell(board: Board, row: int, place: int, by_run: ByRun) -> AdjustedScore | None:
    """None where the cell has no number."""
    column = board.columns[place]
    if board.score(row, place) is None:
        return None
    return over_draws(
        [by_run.get((r, column.metric, column.filter)) for r in board.runs_of(row, place)]
    )


def over_draws(draws: Sequence[AdjustedScore | None]) -> AdjustedScore | None:
    """Of a score that is the mean over draws of examples, as that one is made; None where one draw
    has no second figure, or leaves out other questions."""
    known = [draw for draw in draws if draw]
    if not known or len(known) < len(draws) or len({draw.removed for draw in known}) > 1:
        return None
    if len(known) == 1:
        return known[0]
    drawn = stats.over_draws([draw.score.interval for draw in known])
    n = known[0].score.n
    score = Score(drawn.value, drawn.low, drawn.high, n, drawn.k, drawn.sd_of_draws)
    return AdjustedScore(score, known[0].removed)


def mark(second: AdjustedScore, metric: str) -> SafeString:
    """“w/o 3: 71.2 69.6–72.8”; read aloud and pointed at, it says of what it is without."""
    words = f"without {plural(second.removed, 'disputed question')}"
    value, ends = in_unit(second.score.value, metric), bounds_in(second.score, metric)
    return mark_safe(  # noqa: S308 numbers of our own
        f'<span class="second" title="{words}: {exactly(second.score)}">'
        f'<span class="sr">{words}: </span>'
        f'<span aria-hidden="true">w/o {second.removed:,}: </span>{value} {ends}</span>'
    )
