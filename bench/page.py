"""The page of results: tables of every run that is kept, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import geometric_mean

from bench.backends import page as backends
from bench.equality import ABSOLUTE, RELATIVE
from bench.profiling import KINDS, Profile
from bench.results import Results
from bench.scaling import Point
from bench.sidebyside import Row, Side
from bench.site import page as site

NO_RUNS = ("draws.json", "scale.json", "chaos.json", backends.FILE, site.FILE)
"""Files of the folder that hold something else."""

INTRODUCTION = f"""\
# Benchmarks

evalcore beside lm-evaluation-harness: the same requests to the same loaded model, in one run, in
turn. `make bench` makes this page; `python -m bench --help` lists what can be chosen. It is written
by that command from the files in `docs/benchmarks/`: edit neither.

How it is measured:

- Each engine has a process of its own, and only one of them works at a time. On a CPU a time is CPU
  time, all threads included, of one thread for both; on a GPU it is time by the clock,
  with all cores for both. Medians of
  the rounds, which alternate between the engines.
- lm-evaluation-harness's `hf` model (HFLM) runs at the best of the stated batch sizes, tried before
  on a third of the documents with one model of each vocabulary. evalcore chooses for itself.
- Both start from the same requests in text, with a model that is loaded: tokenising is in the time
  of both. The rows “whole task” start from task files and end with scores, through
  `simple_evaluate` and `evalcore.evaluate`.
- Models have random weights, drawn wide, and biases that are not zero; the tokenizer is byte-level
  BPE, trained on the bench's texts.
- |ΔLL| is the largest difference in loglikelihood (nats) from the reference: the same weights in
  float32, fed one request at a time without an engine. “beyond” counts requests that differ by more
  than {ABSOLUTE:g} + {RELATIVE:g}·|LL|. “changed” counts documents with another pick, another
  greedy flag or another text than the reference. For each: lm-evaluation-harness / evalcore.
- “check” is what evalcore does once for a loaded model: it looks at the model and its tokenizer and
  learns from the run's own requests how it can be computed. It takes as long for many documents as
  for few, so the ratio is given without it and with it; in the rows “whole task” it is in the time.
- “of ideal” is the time of the least floating-point work (each distinct token once, in its context;
  the head where something is read) at the speed of a matrix product measured in the same run, over
  evalcore's time.
- “memory” is the peak above the loaded model, “text” the share of building prompts and tokenising
  in evalcore's time, prompts included.
"""


PROFILES = """\
Shares of evalcore's time by the clock under torch's profiler, tokenising included, for a model that
it knows. The head is a matrix product; “other operations” are norms, activations, copies,
embeddings and the softmax over the vocabulary; “outside operations” is Python and the tokenizer,
with what the profiler itself takes."""


def page(runs: Sequence[Results], notes: str = "") -> str:
    """The whole page; `notes` are sentences written by hand, and come last."""
    parts = [INTRODUCTION]
    for run in runs:
        parts += _run(run)
    if notes:
        parts.append(notes.strip())
    return "\n\n".join(part.strip() for part in parts) + "\n"


def write_page(folder: Path, target: Path) -> None:
    """From the runs kept in the folder, its `notes.md` where there is one, and the parts of
    the backends and of the site."""
    notes = folder / "notes.md"
    files = (path for path in sorted(folder.glob("*.json")) if path.name not in NO_RUNS)
    text = page(
        [Results.read(path) for path in files], notes.read_text() if notes.is_file() else ""
    )
    others = (part.section(folder) for part in (backends, site))
    target.write_text("\n".join([text, *(f"{part}\n" for part in others if part)]))


def _run(run: Results) -> Iterator[str]:
    given = run.conditions
    yield f"## {run.machine}"
    versions = ", ".join(f"{name} {number}" for name, number in run.versions.items())
    sizes = ", ".join(map(str, given.batch_sizes))
    models = ", ".join(f"{name} ({count / 1e6:.0f} M)" for name, count in run.models.items())
    made_up = "" if all(row.real for row in run.rows) else " **The texts are made up.**"
    yield (
        f"{run.date}, {given.device.partition(':')[0]}, {given.dtype}, rounds: {given.rounds}, "
        f"batch sizes tried: {sizes}; {run.minutes:.0f} minutes in all. {versions}. "
        f"Models: {models}; {_density(run.rows)}{made_up}"
    )
    by_workload: dict[str, list[Row]] = {}
    for row in run.rows:
        by_workload.setdefault(row.title, []).append(row)
    if by_workload:
        yield _table(
            ["workload", "models", "ratio, geometric mean", "lowest", "highest"],
            [
                [title, str(len(rows)), *(f"{value:.1f}" for value in _ratios(rows))]
                for title, rows in by_workload.items()
            ],
        )
    for title, rows in by_workload.items():
        yield f"### {title}\n\n" + _table(HEADINGS, [_cells(row) for row in rows])
    for (of, title), points in groupby(run.points, key=lambda point: (point.of, point.title)):
        yield f"### Time over {of}\n\n" + _points(list(points), title)
    if run.profiles:
        yield f"### Where the time goes\n\n{PROFILES}\n\n" + _profiles(run.profiles)
    if run.comparisons:
        yield "### Around the model\n\n" + _table(
            ["work", "lm-eval", "evalcore", "ratio", ""],
            [
                [
                    comparison.work,
                    f"{comparison.theirs:.2f} s",
                    f"{comparison.ours:.3f} s",
                    _of(comparison.ratio),
                    comparison.note,
                ]
                for comparison in run.comparisons
            ],
        )


def _density(rows: Sequence[Row]) -> str:
    """Of the tokenizer, over what is fed and not written."""
    known = [row for row in rows if row.characters is not None]
    if not known:
        return "no text."
    characters = sum(row.characters or 0 for row in known) / sum(row.fed for row in known)
    return f"{characters:.1f} characters to a token."


def row_line(row: Row) -> str:
    """A row as a line of text, for whom the page is too far."""
    return f"{row.title}: " + "; ".join(
        f"{heading} {cell}" for heading, cell in zip(HEADINGS, _cells(row), strict=True)
    )


HEADINGS = [
    "model", "documents", "tokens", "unique", "lm-eval (batch)", "evalcore (path)", "ratio",
    "check", "ratio with it",
    "|ΔLL|", "beyond", "changed", "of ideal", "memory, GB", "text",
]  # fmt: skip


def _cells(row: Row) -> list[str]:
    share = row.text_share
    return [
        row.model,
        str(row.documents),
        f"{row.fed:,}",
        f"{row.unique:,}",
        f"{_seconds(row.theirs)} ({row.batch})",
        f"{_seconds(row.ours)} ({', '.join(row.paths)})",
        f"**{_of(row.ratio)}**",
        "in it" if share is None else f"{row.check:.2f} s",
        _of(row.ratio_with_check),
        " / ".join(_gap(side) for side in (row.theirs, row.ours)),
        f"{row.theirs.difference.beyond} / {row.ours.difference.beyond}",
        " / ".join(_count(side.difference.changed) for side in (row.theirs, row.ours)),
        f"{row.of_ideal:.2f}",
        " / ".join(_gigabytes(side.memory) for side in (row.theirs, row.ours)),
        "in it" if share is None else f"{share:.0%}",
    ]


def _ratios(rows: Sequence[Row]) -> tuple[float, float, float]:
    ratios = [row.ratio for row in rows]
    return geometric_mean(ratios), min(ratios), max(ratios)


def _points(points: Sequence[Point], title: str) -> str:
    rows = [
        [
            str(point.value),
            f"{'not run, about ' if point.estimated else ''}{point.theirs:.2f} s",
            f"{point.ours:.2f} s",
            f"{'about ' if point.estimated else ''}{_of(point.theirs / point.ours)}",
        ]
        for point in points
    ]
    table = _table([points[0].of, "lm-eval", "evalcore", "ratio"], rows)
    return (
        f"{title}, {points[0].model}, one run each; “about” is in proportion to the text of the "
        f"longest run before.\n\n{table}"
    )


def _profiles(profiles: Sequence[Profile]) -> str:
    rows = [
        [
            profile.title,
            profile.model,
            f"{profile.seconds:.2f} s",
            *(f"{profile.shares[kind]:.0%}" for kind in KINDS),
        ]
        for profile in profiles
    ]
    return _table(["workload", "model", "evalcore", *KINDS], rows)


def _seconds(side: Side) -> str:
    return f"{side.typical:.2f} s"


def _of(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.1f}"


def _gap(side: Side) -> str:
    return "–" if side.difference.largest is None else f"{side.difference.largest:.1e}"


def _count(number: int | None) -> str:
    return "–" if number is None else str(number)


def _gigabytes(number: float | None) -> str:
    return "not measured" if number is None else f"{number / 1e9:.2f}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    # A bar within a cell would end it.
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )
