"""The site's part of the page of results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.site.results import Load, Results, Times

FILE = "site.json"
THREE = "p50 / p95 / p99"
HEAVIEST = 100_000
"""Bytes of a board page, at most."""
BUILT_IN = 60.0
"""Seconds until a board shows that a run has ended, at most."""
NOTES = "site-notes.md"
"""What is to be said of the run, if anything."""

INTRODUCTION = """\
## The site

`make bench-site` fills a database of its own in PostgreSQL with invented answers
(`demo/generated`), starts the site as `make run` does and asks it for pages over HTTP, on the same
machine. It writes this part from `docs/benchmarks/site.json`.

- A time is from when a request was due until its last byte, over a connection that is kept open:
  server, database and transfer. The pages of the first tables were asked for one after the other.
- “Cold”: each address once, from a process of the server that has shown nothing but the board's
  first page. Of that page itself: the slowest of thirty requests in the three seconds after each of
  several new snapshots. “Repeated”: the same addresses again. The site keeps what it has rendered
  until the board changes, so that pages differ in the two.
- “After a run ended”: the run of the model in the middle of the board is queued and ends once more;
  boards are built one after the other by a process that has built them before, while nothing else
  works. A process that has just started reads all columns first.
- “Beside a worker”: the same requests while a process on the same machine evaluates a model of 30
  million parameters by the engine, on all cores. Of the errors, so many were told at once to come
  again (503).
- Bytes are of the largest answer as sent. Queries are the most that a cold page makes.
"""


def section(folder: Path) -> str:
    """Empty where the site was never measured."""
    file = folder / FILE
    if not file.is_file():
        return ""
    notes = folder / NOTES
    said = [notes.read_text().rstrip()] if notes.is_file() else []
    return "\n\n".join([*_section(Results.read(file)), *said])


def _section(found: Results) -> Iterator[str]:
    yield INTRODUCTION.strip()
    yield f"Measured on {found.machine}."
    yield _conditions(found)
    yield "### Goals\n\n" + _table(["goal", "measured", ""], list(_goals(found)))
    yield "### Pages one after the other\n\n" + _table(
        [
            "page",
            "addresses",
            "cold, p50 / p95 / p99",
            "repeated, p50 / p95 / p99",
            "KB",
            "queries",
            "errors",
        ],
        [
            [
                row.kind,
                str(row.cold.n),
                _three(row.cold),
                _three(row.repeated),
                f"{row.bytes / 1000:.0f}{'' if row.compressed else ' (not compressed)'}",
                str(row.queries),
                str(row.errors),
            ]
            for row in found.kinds
        ],
    )
    yield _starts(found.after_start)
    yield "### Under load\n\n" + _loads(found.loads, found.beside_worker)
    yield "### Boards after a run has ended\n\n" + _table(
        ["board", "shows it after", "after a start of the process"],
        [
            [style, f"{seconds:.1f} s", f"{found.boards_after_start[style]:.1f} s"]
            for style, seconds in found.boards_after_run.items()
        ],
    )
    yield "### How long it takes to get there\n\n" + _table(
        ["work", "seconds"],
        [[what, f"{seconds:,.1f}"] for what, seconds in found.generation.items()],
    )


def _conditions(found: Results) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in found.versions.items())
    settings = ", ".join(f"{name} {value}" for name, value in found.postgresql.items())
    counts = ", ".join(f"{count:,} {table}" for table, count in found.rows.items())
    return (
        f"{found.date}; {found.minutes:.0f} minutes without making the data. {found.models:,} "
        f"models in {found.columns} columns; {counts}. The server: {found.server}. PostgreSQL on "
        f"the same machine: {settings}. {versions}. The site's processes held "
        f"{found.memory / 1e6:,.0f} MB after all of it."
    )


def _goals(found: Results) -> Iterator[list[str]]:
    for row in found.kinds:
        if row.goal is None:
            continue
        for name, asked in (("cold", row.cold), ("repeated", row.repeated)):
            yield [
                f"{row.kind} in {_ms(row.goal)}, {name}",
                f"p95 {_ms(asked.p95)}" + (f", {asked.errors} errors" if asked.errors else ""),
                _met(asked.p95 <= row.goal and not asked.errors),
            ]
    boards = [row for row in found.kinds if row.kind.startswith("board, ")]
    heaviest = max(boards, key=lambda row: row.bytes)
    yield [
        f"a board page in {HEAVIEST // 1000} KB, compressed",
        f"{heaviest.bytes / 1000:.0f} KB ({heaviest.kind})",
        _met(heaviest.bytes <= HEAVIEST and heaviest.compressed),
    ]
    until = list(found.boards_after_run.values())
    for which, seconds in (("the suite's own board", until[0]), ("all its boards", until[-1])):
        yield [f"{which} in 60 s after a run ended", f"{seconds:.0f} s", _met(seconds <= BUILT_IN)]
    load = found.loads[-1]
    yield [
        f"{load.rate:.0f} requests a second without an error",
        f"{load.times.errors} errors of {load.times.n:,}; {_kept_up(load)}",
        _met(not load.times.errors and _keeps_up(load)),
    ]
    for row in found.kinds[:2]:
        times = load.by_kind[row.kind]
        yield [
            f"{row.kind} in {_ms(row.goal or 0)} at {load.rate:.0f} requests a second",
            f"p95 {_ms(times.p95)}",
            _met(times.p95 <= (row.goal or 0) and not times.errors),
        ]


def _keeps_up(load: Load) -> bool:
    """Whether the last answer came within a second of the last request."""
    return load.seconds <= load.times.n / load.rate + 1


def _kept_up(load: Load) -> str:
    return "kept up" if _keeps_up(load) else f"answered {load.times.n / load.seconds:.0f} a second"


def _starts(start: Times) -> str:
    return (
        f"The first page that a server shows after its start, {start.n} times: median "
        f"{_ms(start.median)}, at most {_ms(start.longest)}."
    )


def _loads(loads: Sequence[Load], beside: Load | None) -> str:
    """All rates in a line each, and the last by kind of page."""
    last = loads[-1]
    rates = [_rate(f"{load.rate:.0f}", load) for load in loads]
    if beside:
        rates.append(_rate(f"{beside.rate:.0f}, beside a worker", beside))
    kinds = [
        [kind, f"{last.shares[kind]} %", *_line(times)] for kind, times in last.by_kind.items()
    ]
    measured = ["requests", THREE, "longest", "errors"]
    return (
        f"Each rate for {last.times.n / last.rate:.0f} seconds, requests due at even distances "
        "whether or not earlier ones were answered.\n\n"
        + _table(["requests a second", *measured, "shares of all cores"], rates)
        + f"\n\nThe mix, and what came of it at {last.rate:.0f} requests a second:\n\n"
        + _table(["page", "share", *measured], kinds)
    )


def _rate(name: str, load: Load) -> list[str]:
    *measured, errors = _line(load.times)
    told = f"{errors} ({load.refused:,} told at once)" if load.refused else errors
    cores = ", ".join(f"{who} {share:.0%}" for who, share in load.cores.items())
    return [name, *measured, told, cores]


def _line(times: Times) -> list[str]:
    return [f"{times.n:,}", _three(times), _ms(times.longest), str(times.errors)]


def _met(met: bool) -> str:
    return "met" if met else "**missed**"


def _three(times: Times) -> str:
    return " / ".join(_ms(seconds) for seconds in (times.median, times.p95, times.p99))


def _ms(seconds: float) -> str:
    milliseconds = seconds * 1000
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:,.0f} ms"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
