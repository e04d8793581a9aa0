"""A task as a column of a suite: who does best and worst, and how good its questions are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from leaderboard.board import BoardQuery, column_keys
from leaderboard.models import Artifact, ItemAnalysis, Run, Suite, SuiteEntry, TaskVersion
from leaderboard.models.task import Style, is_share
from leaderboard.samples import excerpts
from leaderboard.snapshot import OWN, Board, Column, Model, Score, adjusted, published
from leaderboard.tasks import items
from leaderboard.tasks.items import Table
from leaderboard.web import Address, Part, part

HEIGHT, TOP, BOTTOM = 320, 18, 44
"""Pixels: of the chart, above its plot and below."""
LEFT, RIGHT = 9.0, 98.0
"""Percent: the ends of the plot."""
ACROSS, DOWN = 72, 36
"""Cells of the grid in which near questions are counted together."""
SMALLEST, LARGEST = 2.2, 9.0
"""Radius in pixels."""
_SUSPECT = ' class="suspect"'


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    radius: float
    n: int
    suspicious: bool


@dataclass(frozen=True)
class Chart:
    """The questions of a column: how hard each is, and whether it tells models apart.

    In percent across and pixels down, so that text keeps its size at any width. Near dots are one
    dot: its area says how many questions it stands for.
    """

    dots: list[Dot]
    zero: float
    """Where the plumb line hangs: questions left of it are got wrong by the better models."""
    ticks: list[tuple[float, str]]
    levels: list[tuple[float, str]]
    alike: int
    """Questions that all models answer alike; they have no place."""
    height: int = HEIGHT
    bottom: int = HEIGHT - BOTTOM

    @property
    def circles(self) -> SafeString:
        """All dots, the largest first: hundreds, which a template would take its time over."""
        drawn = (
            f'<circle{_SUSPECT if dot.suspicious else ""} cx="{dot.x:.2f}%" '
            f'cy="{dot.y:.1f}" r="{dot.radius:.1f}"/>'
            for dot in self.dots
        )
        return mark_safe("\n".join(drawn))  # noqa: S308 numbers of our own


def chart(table: Table) -> Chart:
    shown = table.defined
    discrimination = table.discrimination[shown]
    low = min(-0.2, float(np.floor(10 * discrimination.min(initial=0.0)) / 10))
    high = max(0.6, float(np.ceil(10 * discrimination.max(initial=0.0)) / 10))
    steps = np.arange(np.ceil(low * 5), np.floor(high * 5) + 1) / 5
    return Chart(
        dots=_dots(discrimination, table.difficulty[shown], table.suspicious[shown], low, high),
        zero=_x(0.0, low, high),
        ticks=[(_x(float(step), low, high), f"{step:.1f}".replace("-", "−")) for step in steps],
        levels=[(_y(share), f"{100 * share:.0f}%") for share in (0.0, 0.25, 0.5, 0.75, 1.0)],
        alike=int((~shown).sum()),
    )


def _dots(
    discrimination: np.ndarray[tuple[int], np.dtype[np.float32]],
    difficulty: np.ndarray[tuple[int], np.dtype[np.float32]],
    suspicious: np.ndarray[tuple[int], np.dtype[np.bool_]],
    low: float,
    high: float,
) -> list[Dot]:
    across = np.clip(((discrimination - low) / (high - low) * ACROSS).astype(int), 0, ACROSS - 1)
    down = np.clip((difficulty * DOWN).astype(int), 0, DOWN - 1)
    cells = (suspicious * DOWN + down) * ACROSS + across
    found, counts = np.unique(cells, return_counts=True)
    most = counts.max(initial=1)
    dots = []
    for cell, n in zip(found.tolist(), counts.tolist(), strict=True):
        row, column = divmod(cell, ACROSS)
        wrong, level = divmod(row, DOWN)
        x = low + (column + 0.5) / ACROSS * (high - low)
        radius = max(SMALLEST, LARGEST * (n / most) ** 0.5)
        dots.append(Dot(_x(x, low, high), _y((level + 0.5) / DOWN), radius, n, bool(wrong)))
    return sorted(dots, key=lambda dot: -dot.radius)


def _x(value: float, low: float, high: float) -> float:
    return LEFT + (RIGHT - LEFT) * (value - low) / (high - low)


def _y(share: float) -> float:
    return TOP + (HEIGHT - BOTTOM - TOP) * (1 - share)


ENDS = 5
"""Models at each end."""
SUSPICIOUS = 15
"""Questions of likely wrong keys on a page."""
DOCUMENTS = 3
STYLES_BESIDE = (Style.CLOZE, Style.MMLU, Style.HYBRID)
"""The styles in which the first question is shown side by side."""
TRIED = 5
"""Runs whose files are looked for: the store may have lost one."""


@dataclass(frozen=True)
class Placed:
    """A model with its score in the column."""

    model: Model
    score: Score
    url: str
    second: str
    """HTML: without the questions whose keys are disputed; empty where none are."""

    @property
    def name(self) -> str:
        return self.model.repo_id.rpartition("/")[2]

    @property
    def owner(self) -> str:
        return self.model.repo_id.rpartition("/")[0] or self.model.repo_id


@dataclass(frozen=True)
class Standings:
    """Both ends of a column, of the models that may have a rank."""

    column: Column
    best: list[Placed]
    worst: list[Placed]
    n: int
    url: str
    """The board sorted by this column."""
    csv_url: str
    """This column of it, every model, as a file."""


def entries_of(name: str) -> list[SuiteEntry]:
    """Of each suite that asks a version of the task; a column's further draws are left out."""
    return entries_by_name([name]).get(name, [])


def entries_by_name(names: Iterable[str]) -> dict[str, list[SuiteEntry]]:
    """The same of several tasks, with one query."""
    asked = SuiteEntry.objects.filter(task__name__in=names, draw=0).select_related("suite", "task")
    texts = (f"suite__{text}" for text in ("description", "notice", "changelog", "reported"))
    found: dict[str, list[SuiteEntry]] = {}
    for entry in asked.defer(*texts).order_by("position", "suite"):
        found.setdefault(entry.task.name, []).append(entry)
    return found


def columns_of(task: TaskVersion, entries: Sequence[SuiteEntry]) -> list[SuiteEntry]:
    """The newest of each suite that asks this version, the site's suite first."""
    asked = [entry for entry in entries if entry.task_id == task.pk]
    asked.sort(key=lambda entry: (entry.suite.created, entry.suite_id))
    newest = {entry.suite.name: entry for entry in asked}
    return sorted(
        newest.values(),
        key=lambda entry: (entry.suite.name != settings.PLUMBLINE_SUITE, entry.suite.title),
    )


def title_of(task: TaskVersion, entries: Sequence[SuiteEntry]) -> str:
    """The task with its style, as every page names it; `entries` of its name."""
    named = next(iter([*columns_of(task, entries), *entries]), None)
    return task.titled(named.title if named else "")


def board(entry: SuiteEntry) -> Board | None:
    """The board that shows the column."""
    return published.newest(entry.suite, OWN if entry.own else entry.style)


def standings(board: Board, entry: SuiteEntry) -> Standings | None:
    """None where the board does not show the column yet, or it has no number."""
    place = place_on(board, entry)
    if place is None:
        return None
    column, values = board.columns[place], board.scores.value[:, place]
    rows = board.comparable_rows
    rows = rows[~np.isnan(values[rows])]
    if not len(rows):
        return None
    sign = -1.0 if is_share(column.metric) else 1.0
    ordered = rows[np.argsort(sign * values[rows], kind="stable")].tolist()
    best = ordered[:ENDS]
    worst = [row for row in ordered[-ENDS:] if row not in best]
    key = column_keys(board)[place]
    wanted = BoardQuery(suite=board.suite, style=board.style, sort=key)
    seconds = adjusted.of_board(board, [*best, *worst], [place])
    of_rows = seconds[place].of_rows if place in seconds else {}
    shown = [_placed(board, row, place, of_rows.get(row)) for row in (*best, *worst)]
    return Standings(
        column,
        shown[: len(best)],
        shown[len(best) :],
        len(rows),
        wanted.url(),
        wanted.url(to="board-csv", cols=key),
    )


def place_on(board: Board, entry: SuiteEntry) -> int | None:
    asked = (entry.benchmark, entry.style)
    columns = enumerate(board.columns)
    return next((at for at, column in columns if (column.benchmark, column.style) == asked), None)


def _placed(board: Board, row: int, place: int, second: adjusted.AdjustedScore | None) -> Placed:
    score, run = board.score(row, place), board.run_id(row, place)
    if score is None:
        raise ValueError(f"row {row}: only models with a score are placed")
    url = reverse("run", args=[run]) if run else ""
    return Placed(
        board.models[row],
        score,
        url,
        adjusted.mark(second, board.columns[place].metric) if second else "",
    )


def draws(board: Board, entry: SuiteEntry) -> tuple[int, float] | None:
    """How often the examples are drawn, and how far a draw moves a score: median over models.

    None where they are drawn once, which says nothing of other draws.
    """
    place = place_on(board, entry)
    if place is None or board.columns[place].draws < 2:
        return None
    scored = ~np.isnan(board.scores.value[:, place])
    return board.columns[place].draws, float(np.median(board.sd_of_draws[scored, place]))


@dataclass(frozen=True)
class Suspect:
    """A question whose key is likely wrong."""

    words: str
    """Its part and number."""
    difficulty: float
    discrimination: float
    opening: str
    url: str
    """The question in one of the column's runs; empty where no run is at hand."""


@dataclass(frozen=True)
class Questions:
    """The item analysis of a column, ready to be shown; `table` None where there is none."""

    table: items.Table | None
    models: int
    """How many models have a number, where there is no analysis."""
    chart: Chart | None = None
    suspects: list[Suspect] | None = None
    suspects_part: Part | None = None


def questions(
    table: items.Table | None, models: int, run: Run | None, samples: str, address: Address
) -> Questions:
    """`run` and the digest of its `samples` lead from a question to its text."""
    if table is None:
        return Questions(None, models)
    suspicious = np.flatnonzero(table.suspicious)
    ordered = suspicious[np.argsort(table.discrimination[suspicious], kind="stable")]
    shown = part(address, "questions", len(ordered), SUSPICIOUS, "suspects")
    return Questions(
        table,
        table.row.models_n,
        chart(table),
        _suspects(table, ordered[shown.slice].tolist(), run, samples),
        shown,
    )


def _suspects(
    table: items.Table, places: Sequence[int], run: Run | None, samples: str
) -> list[Suspect]:
    keys = [table.key(place) for place in places]
    begin = excerpts.openings(samples, tuple(keys)) if samples else {}
    found = []
    for place, key in zip(places, keys, strict=True):
        found.append(
            Suspect(
                table.in_words(place),
                float(table.difficulty[place]),
                float(table.discrimination[place]),
                begin.get(key, ""),
                f"{run.get_absolute_url()}?doc={table.label(place)}#question" if run else "",
            )
        )
    return found


def analysed_column(
    suite: Suite, task: str
) -> tuple[SuiteEntry, dict[str, str], items.Table, Run | None] | None:
    """The column of a suite that `task` names, or its first, of those whose questions were
    analysed: with the titles of all those by task, its analysis, and a run in which the questions
    can be read. None where nothing was analysed yet, or the file is lost."""
    entries = suite.entries.filter(draw=0).exclude(comparability_key="")
    keys = entries.values("comparability_key")
    analysed = ItemAnalysis.objects.filter(comparability_key__in=keys).values("comparability_key")
    known = entries.filter(comparability_key__in=analysed).select_related("task")
    by_task = {entry.task.name: entry for entry in reversed(known.order_by("position"))}
    entry = by_task.get(task) or next(reversed(by_task.values()), None)
    analysis = items.newest(entry.comparability_key) if entry else None
    if entry is None or analysis is None:
        return None
    titles = {name: e.task.titled(e.title) for name, e in reversed(by_task.items())}
    return entry, titles, items.table(analysis), run_with_samples(entry.task)[0]


def run_with_samples(task: TaskVersion) -> tuple[Run | None, str]:
    """The newest finished run of which the sample file is at hand, and the file's digest."""
    files = Artifact.objects.filter(
        run__task=task, run__state=Run.State.DONE, kind=Artifact.Kind.SAMPLES
    )
    for file in files.select_related("run__task").order_by("-run__finished", "pk")[:TRIED]:
        if excerpts.there(file.sha256):
            return file.run, file.sha256
    return None, ""


@dataclass(frozen=True)
class Beside:
    """The first question as another style puts it."""

    task: TaskVersion
    run: Run
    excerpt: excerpts.Excerpt


def beside(task: TaskVersion, others: Sequence[TaskVersion], doc_digest: str) -> list[Beside]:
    """The document in the styles that are shown side by side, but for the task's own."""
    found = []
    for style in STYLES_BESIDE:
        other = next((other for other in others if other.style == style), None)
        if other is None or style == task.style:
            continue
        run, samples = run_with_samples(other)
        excerpt = excerpts.about(samples, doc_digest) if run else None
        if run and excerpt:
            found.append(Beside(other, run, excerpt))
    return found
