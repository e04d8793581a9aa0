"""How hard each question of a benchmark is, and whether it tells models apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from leaderboard.charts.chart import Cell, Chart, Choice, Group
from leaderboard.models import Run, SuiteEntry
from leaderboard.tasks import Table
from leaderboard.templatetags.figures import decimals, percent, plural

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_DOTS, SEED = 3_000, 0
"""Of more questions so many are drawn: all likely wrong keys, and others by chance."""
GROUPS = (
    Group("Question", "circle", "k-base"),
    Group("Key likely wrong", "triangle-down", "k-tune"),
)


def questions(
    entry: SuiteEntry, columns: Mapping[str, str], table: Table, run: Run | None
) -> Chart:
    """Of one column of a suite; `columns` has the title by task of every one that was analysed.
    The questions can be read in `run`, where any file is at hand."""
    # Those with the lowest discrimination first; without one last, the hardest first.
    order = np.lexsort((table.difficulty, table.discrimination, ~table.defined))
    suspects, defined = int(table.suspicious.sum()), int(table.defined.sum())
    hard, task = int((table.difficulty < 0.5).sum()), entry.task
    lede = [f"{plural(suspects, 'key')} likely wrong"] if suspects else []
    lede += [f"{table.n - defined:,} that all models answer alike"] if defined < table.n else []
    title = entry.title or entry.benchmark
    counts = (table.n - suspects, suspects)
    return Chart(
        title=f"Questions of {columns[task.name]}",
        finding=(
            f"Most models miss {hard:,} of the {plural(table.n, 'question')} of {title}",
            f"{'; '.join(lede)}.".capitalize() if lede else "",
        ),
        name=f"{task.name}-questions",
        about={
            "benchmark": task.name,
            "benchmark_version": task.version,
            "comparability_key": table.row.comparability_key,
        },
        counts={"models": table.row.models_n},
        heads=("Question", "Models right", "Discrimination", "Key"),
        rows=table.n,
        lines=lambda part: [_line(table, run, place) for place in order[part].tolist()],
        batches=table.batches,
        figure=(lambda _: _figure(table, run)) if defined else None,
        rows_are="questions",
        legend=[group._replace(n=n) for group, n in zip(GROUPS, counts, strict=True)],
        choices=[Choice("task", "Benchmark", columns, task.name)],
        notes={"defined": defined, "drawn": min(defined, max(MOST_DOTS, suspects)),
               "run": run, "built": table.row.built},
    )  # fmt: skip


def _line(table: Table, run: Run | None, place: int) -> list[Cell]:
    url = f"{run.get_absolute_url()}?doc={table.label(place)}#question" if run else ""
    found = Cell("—", "all alike")
    if table.defined[place]:
        found = Cell(decimals(float(table.discrimination[place])))
    return [
        Cell(table.in_words(place), "", url),
        Cell(percent(float(table.difficulty[place]))),
        found,
        Cell("likely wrong" if table.suspicious[place] else ""),
    ]


def _figure(table: Table, run: Run | None) -> Figure:
    from plotly.graph_objects import Figure

    figure = Figure()
    figure.update_xaxes(title="the better models are right")
    figure.update_yaxes(title="models right, %")
    suspects = np.flatnonzero(table.defined & table.suspicious)
    others = np.flatnonzero(table.defined & ~table.suspicious)
    room = max(MOST_DOTS - len(suspects), 0)
    if len(others) > room:
        others = np.sort(np.random.default_rng(SEED).choice(others, room, replace=False))
    for number, places in enumerate((others, suspects)):
        cards = [_line(table, run, place) for place in places.tolist()]
        x, y = (side[places].astype(float) for side in (table.discrimination, table.difficulty))
        look = {"opacity": 1 if number else 0.5, "x": np.round(x, 3), "y": np.round(100 * y, 2)}
        GROUPS[number].add_dots(figure, number, cards, 10 if number else 7, **look)
    figure.add_vline(0, line={"color": "var(--brass-fill)", "width": 2})
    return figure
