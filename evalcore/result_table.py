"""The table at the end of a run: Markdown that can be pasted, in lines that fit the terminal.

Value and standard error are those of the results file, rounded to four decimals as
lm-evaluation-harness prints them. Columns that do not fit are left out, names are never broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from evalcore.remarks import marks_of

if TYPE_CHECKING:
    from evalcore.record import ResultRow, RunRecord

NOT_AVAILABLE = "N/A"
"""What lm-evaluation-harness says where there is no standard error."""

LONGEST_PLAIN = 1e6
"""Perplexities of poor models reach far beyond what can be read without an exponent."""

TASK, METRIC, VALUE, STDERR = "Task", "Metric", "Value", "Stderr"
INTERVAL, SHOTS, N, VERSION, CLEAN, CLEAN_N = "95 %", "n-shot", "n", "Version", "Clean", "Clean n"
ORDER = (TASK, VERSION, SHOTS, METRIC, VALUE, STDERR, INTERVAL, N, CLEAN, CLEAN_N)
NEEDED = (TASK, METRIC, VALUE, STDERR)
OPTIONAL = (CLEAN, CLEAN_N, INTERVAL, SHOTS, N, VERSION)
"""The columns that are left out where it is narrow, the last first."""
TEXTS = (TASK, METRIC)
NARROWEST = 2
"""Markdown's rule over numbers is `-:`; a colon alone would make the table plain text."""
SHORT_NAME, USUAL_NAME = 24, 36
"""Room for the names of tasks: columns of less importance leave more of it. A longer name has a
line to itself."""

Cells = dict[str, str]


def number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < LONGEST_PLAIN else f"{value:.4e}"


def result_table(records: Sequence[RunRecord], width: int = 80) -> str:
    """The numbers of all records, a line for each, of at most `width` characters.

    Only a name that is longer than that makes a longer line.
    """
    rows = list(_named_once([row for record in records for row in _rows(record)]))
    if not rows:
        return ""
    searched = any(record.clean_results for record in records)
    optional = [name for name in OPTIONAL if searched or name not in (CLEAN, CLEAN_N)]
    widths = {name: max(len(name), NARROWEST, *(len(row[name]) for row in rows)) for name in ORDER}
    columns = list(NEEDED)

    def room_for_names() -> int:
        others = (widths[name] + 1 for name in columns if name != TASK)
        return width - sum(others) - len("||")

    for name in optional:
        columns.append(name)
        needed = USUAL_NAME if name in (SHOTS, N, VERSION) else SHORT_NAME
        if room_for_names() < min(widths[TASK], needed):
            columns.pop()
    widths[TASK] = max(min(widths[TASK], room_for_names()), len(TASK))
    columns.sort(key=ORDER.index)
    text = "".join(_markdown(rows, {name: widths[name] for name in columns}))
    if left_out := [name for name in ORDER if name in optional and name not in columns]:
        text += f"\n(no room for {', '.join(left_out)} in {width} columns: the record has all)\n"
    return text


def _rows(record: RunRecord) -> Iterator[Cells]:
    """A task or group before its parts; a part that is the whole is no part."""
    clean = {row.place: row for row in record.clean_results}
    whole = {(row.metric, row.filter): row.n for row in record.own_results()}
    for row in record.results:
        own = row.task == record.task
        if own and row.subset and row.n == whole.get((row.metric, row.filter)):
            continue
        twin = clean.get(row.place)
        shots = record.shots if isinstance(record.shots, int) else record.shots.get(row.task, "")
        name = row.subset if own and row.subset else row.task
        is_whole = own and not row.subset
        yield {
            TASK: name if is_whole else f"- {name}",
            VERSION: record.version if is_whole else "",
            SHOTS: str(shots),
            METRIC: _metric(row),
            VALUE: number(row.value),
            STDERR: NOT_AVAILABLE if row.compat_stderr is None else number(row.compat_stderr),
            INTERVAL: "" if row.interval == "none" else f"{number(row.low)}–{number(row.high)}",
            N: str(row.n),
            CLEAN: number(twin.value) if twin else "",
            CLEAN_N: str(twin.n) if twin else "",
        }


def _metric(row: ResultRow) -> str:
    """As the results file names it, but for the filter that does nothing; with `marks_of` it."""
    name = row.metric if row.filter == "none" else f"{row.metric},{row.filter}"
    marks = marks_of(row)
    return f"{name} {'↑' if row.higher_is_better else '↓'}{' ' if marks else ''}{marks}"


def _named_once(rows: Sequence[Cells]) -> Iterator[Cells]:
    """The name of a task stands at its first metric, with what is said of the task."""
    last = None
    for row in rows:
        again = row[TASK] == last
        last = row[TASK]
        yield {**row, TASK: "", VERSION: ""} if again else row


def _markdown(rows: Sequence[Cells], widths: Mapping[str, int]) -> Iterator[str]:
    yield _line({name: name for name in widths}, widths)
    rules = (
        "-" * width if name in TEXTS else "-" * (width - 1) + ":" for name, width in widths.items()
    )
    yield f"|{'|'.join(rules)}|\n"
    for row in rows:
        if len(row[TASK]) > widths[TASK]:
            yield f"|{row[TASK]}{'|' * len(widths)}\n"
            row = {**row, TASK: ""}
        yield _line(row, widths)


def _line(cells: Cells, widths: Mapping[str, int]) -> str:
    padded = (
        cells[name].ljust(width) if name in TEXTS else cells[name].rjust(width)
        for name, width in widths.items()
    )
    return f"|{'|'.join(padded)}|\n"
