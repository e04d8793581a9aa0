"""Runs the comparisons and writes the page: `make bench`, or `python -m bench --help`."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.models import ARCHITECTURES, SIZES, Model
from bench.page import page, row_line, write_page
from bench.profiling import Profile
from bench.results import Results, machine, today, versions
from bench.scaling import SCALES, Point, grow
from bench.sidebyside import Conditions, Pair, Row, loaded
from bench.timing import Comparison
from bench.workloads import WHOLE, WORKLOADS, Workload

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"
COMPARISONS = ("bootstrap", "index", "prompts", "start")
VOCABULARIES = (32_000, 128_000)
REFERENCES = 6
"""Of a model on a GPU, which holds as many of all but the largest."""
SCALING = "scaling"
PROFILE = "profile"
QUICK = (*WORKLOADS, *WHOLE, SCALING, PROFILE)
NAMES = (*QUICK, *COMPARISONS)


@dataclass(frozen=True)
class Choice:
    """What to run."""

    names: Sequence[str]
    models: Sequence[Model]
    documents: int | None
    """Of every workload; None: as many as it states, times `times`."""
    times: float
    """1 on a CPU."""
    cap: float
    """Seconds of the longest run of lm-evaluation-harness in the scaling."""
    until: float = float("inf")
    """By time.monotonic(): no row is begun after it."""

    def scaled(self, workload: Workload, model: Model) -> Workload:
        """With as many documents as are asked about; of a vocabulary of 128k fewer, since
        lm-evaluation-harness takes more than twice as long there."""
        if self.documents is not None:
            return workload.with_documents(self.documents)
        share = self.times * (0.4 if model.vocabulary > 2 * VOCABULARIES[0] else 1)
        return workload.with_documents(max(2, round(workload.documents * share)))


def main(arguments: Sequence[str]) -> None:
    if importlib.util.find_spec("lm_eval") is None:
        raise SystemExit("lm_eval is not installed: pip install '.[peer]'")
    options = _options(arguments)
    choice, conditions = _choice(options)
    began = time.monotonic()
    measured = Measured()
    try:
        _measure(choice, conditions, measured)
    finally:  # a row that fails takes none of the others with it
        minutes = (time.monotonic() - began) / 60
        print(f"{minutes:.1f} minutes")
        if options.output is not None:
            results = measured.results(conditions, minutes)
            results.write(options.output)
            if options.output.resolve().parent == FOLDER:
                write_page(FOLDER, PAGE)
            else:
                options.output.with_suffix(".md").write_text(page([results]))


def _measure(choice: Choice, conditions: Conditions, measured: Measured) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if {*choice.names} - {*COMPARISONS}:
            for number, model in enumerate(choice.models):
                with loaded(model, Path(folder) / model.name, conditions) as pair:
                    measured.with_model(pair, choice, Path(folder) / str(number), first=not number)
    for name in COMPARISONS:
        if name in choice.names:
            for comparison in importlib.import_module(f"bench.{name}").compare():
                measured.comparisons.append(comparison)
                print(comparison, flush=True)


class Measured:
    """What was found so far; each line is printed as it is found."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._points: list[Point] = []
        self._profiles: list[Profile] = []
        self._parameters: dict[str, int] = {}
        self._gpu: str | None = None
        self._batches: dict[int, dict[str, int]] = {}
        self.comparisons: list[Comparison] = []

    def with_model(self, pair: Pair, choice: Choice, folder: Path, *, first: bool) -> None:
        """All rows of a model; whole tasks, scaling and profiles are of the first model alone."""
        self._parameters[pair.model.name], self._gpu = pair.parameters, pair.gpu
        pair.batches = self._batches.setdefault(pair.model.vocabulary, {})
        for name in choice.names:
            if time.monotonic() > choice.until and name in (*WORKLOADS, *WHOLE):
                print(f"{pair.model.name}, {name}: LEFT OUT, for want of time", flush=True)
            elif name in WORKLOADS:
                workload = choice.scaled(WORKLOADS[name], pair.model)
                self._add(pair.compare(workload, folder / name))
            elif name in WHOLE and first:
                parts = tuple(choice.scaled(one, pair.model) for one in WHOLE[name].workloads)
                whole = replace(WHOLE[name], workloads=parts)
                self._add(pair.compare_whole(whole, folder / name))
        if first and SCALING in choice.names:
            for scale in SCALES:
                for point in grow(pair, scale, folder, cap=choice.cap):
                    self._points.append(point)
                    print(point, flush=True)

        if first and PROFILE in choice.names:
            for workload in WORKLOADS.values():
                scaled = choice.scaled(workload, pair.model)
                self._profiles.append(pair.profile(scaled, folder / f"profile_{workload.name}"))
                print(self._profiles[-1], flush=True)

    def _add(self, row: Row) -> None:
        self._rows.append(row)
        print(row_line(row), flush=True)

    def results(self, conditions: Conditions, minutes: float) -> Results:
        return Results(
            machine=machine(self._gpu),
            versions=versions(),
            date=today(),
            minutes=minutes,
            conditions=conditions,
            models=self._parameters,
            rows=self._rows,
            points=self._points,
            profiles=self._profiles,
            comparisons=self.comparisons,
        )


def _choice(options: argparse.Namespace) -> tuple[Choice, Conditions]:
    """What the options ask for; raises SystemExit for a name that there is not."""
    unknown = sorted({*options.names} - {*NAMES})
    if unknown:
        raise SystemExit(f"nothing is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    cuda = options.device.startswith("cuda")
    cores = os.cpu_count() or 1
    size = options.size or ("1b" if cuda else "30m")
    models = [
        Model(architecture, size, vocabulary)
        for architecture in options.architecture
        for vocabulary in options.vocabulary
    ]
    choice = Choice(
        names=options.names or (QUICK if options.quick else NAMES),
        models=models[:1] if options.quick else models,
        documents=2 if options.quick and options.documents is None else options.documents,
        times=8 if cuda else 1,
        cap=2 if options.quick else 25,
        until=time.monotonic() + 60 * options.minutes if options.minutes else float("inf"),
    )
    return choice, Conditions(
        device=options.device,
        dtype=options.dtype or ("bfloat16" if cuda else "float32"),
        rounds=1 if options.quick and options.rounds is None else options.rounds or 3,
        batch_sizes=(16, 64, 128) if cuda else (1, 4, 16),
        path=options.path,
        threads=cores if cuda else 1,
        references=REFERENCES if cuda and size != "7b" else 1,
        reference_threads=cores,
    )


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"all of these by default: {', '.join(NAMES)}")
    parser.add_argument(
        "--quick", action="store_true", help="a look: one model, round, two documents"
    )
    parser.add_argument("--documents", type=int, help="of every workload")
    parser.add_argument("--rounds", type=int, help="of each engine (3)")
    parser.add_argument(
        "--minutes", type=float, help="begin no further row after so many; it is said which"
    )
    parser.add_argument("--size", choices=SIZES, help="of the models (30m; on a GPU 1b)")
    parser.add_argument("--architecture", nargs="*", choices=ARCHITECTURES, default=ARCHITECTURES)
    parser.add_argument("--vocabulary", nargs="*", type=int, default=VOCABULARIES)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dtype", help="float32; on a GPU bfloat16")
    parser.add_argument("--path", default="auto", help="how evalcore computes (auto)")
    parser.add_argument(
        "--output", type=Path, metavar="FILE.json",
        help=f"keep the results, with FILE.md; in docs/{FOLDER.name}/ they stand on the page",
    )  # fmt: skip
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
