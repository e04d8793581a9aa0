"""Suites: which benchmarks a board shows, in which styles, at how many shots.

A suite is a YAML file with the key `suite`, in the tasks folder; as it names no task, lm-eval and
our own index pass it by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalcore.errors import TaskError
from evalcore.task.asking.shot_rule import Draw
from evalcore.task.config import TaskSpec
from evalcore.task.fields import (
    COUNT,
    COUNTS,
    FLAG,
    MAPPING,
    MAPPINGS,
    NUMBER,
    SHARE,
    TEXT,
    TEXTS,
    Kind,
    Problems,
    choice_of,
    one_of,
    optional,
)
from evalcore.task.library.load import TaskLibrary
from evalcore.task.metadata import STYLES, version_text
from evalcore.task.yaml_file import TaskFileReader


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One benchmark in one style: which task or group, and which of its numbers."""

    task: str
    metric: str
    filter: str


@dataclass(frozen=True, kw_only=True)
class People:
    """What people score on a benchmark, where somebody published it in the benchmark's metric."""

    score: float
    """A share of 1."""
    source: str
    """Who measured whom, and on which questions."""


@dataclass(frozen=True, kw_only=True)
class SuiteBenchmark:
    """A column of the board: one benchmark in its own style, and the other styles beside it."""

    benchmark: str
    title: str
    own: str
    """The style that makes the column."""
    shots: int
    styles: Mapping[str, Asked]
    counts: bool = True
    """Whether it is part of the average."""
    people: People | None = None


@dataclass(frozen=True, kw_only=True)
class Reported:
    """Figures that others published, to be shown beside ours and never mixed with them."""

    source: str
    link: str
    columns: tuple[str, ...]
    """The tasks of the suite that they are about."""
    rows: Mapping[str, tuple[tuple[float, float], ...]]
    """By model, for each column: the value in percent and half of its 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What a board shows, in the order of its columns; a change of it is a new version."""

    suite: str
    version: str
    title: str
    description: str
    benchmarks: tuple[SuiteBenchmark, ...]
    notice: str | None = None
    """What readers of the board must know first."""
    average: str = "mean"
    """The plain mean over the benchmarks that count."""
    normalisation: str = "none"
    """chance: each score is taken as its share of the way from a guesser's to 1 before averaging,
    part by part where the parts of a group have chances of their own."""
    fewshot_draw: Draw = "per-document"
    fewshot_seeds: tuple[int, ...] = (1234,)
    """One draw of examples for each; the columns show the mean over the draws."""
    changelog: Mapping[str, str] = field(default_factory=dict)
    reported_elsewhere: Reported | None = None


_SUITE_KINDS: dict[str, Kind] = {
    "suite": TEXT,
    "version": one_of(TEXT, NUMBER),
    "title": TEXT,
    "description": TEXT,
    "benchmarks": MAPPINGS,
}
_SUITE_CHOICES: dict[str, Kind] = _SUITE_KINDS | {
    "notice": optional(TEXT),
    "average": choice_of("mean"),
    "normalisation": choice_of("none", "chance"),
    "fewshot_draw": choice_of("per-document", "fixed"),
    "fewshot_seeds": COUNTS,
    "changelog": MAPPING,
    "reported_elsewhere": MAPPING,
}
_REPORTED_KINDS: dict[str, Kind] = {
    "source": TEXT,
    "link": TEXT,
    "columns": TEXTS,
    "rows": MAPPING,
}
_BENCHMARK_KINDS: dict[str, Kind] = {
    "benchmark": TEXT,
    "title": TEXT,
    "own": choice_of(*STYLES),
    "shots": COUNT,
    "metric": TEXT,
    "styles": MAPPING,
}
_BENCHMARK_CHOICES = _BENCHMARK_KINDS | {"filter": TEXT, "counts": FLAG, "people": MAPPING}
_PEOPLE_KINDS: dict[str, Kind] = {
    "score": SHARE,
    "source": Kind(
        "text of at most 300 characters", lambda value: isinstance(value, str) and len(value) <= 300
    ),
}
_STYLE_KINDS: dict[str, Kind] = {"task": TEXT, "metric": TEXT, "filter": TEXT}


def load_suite(path: Path, library: TaskLibrary) -> Suite:
    """The suite in the file at `path`, every task of it found in `library`.

    Raises TaskError with all that is wrong: keys, styles, tasks that do not exist or that say
    they are another benchmark or style, a metric or filter that a task does not have, a chance that
    nobody stated where scores are normalised by it.
    """
    file = TaskFileReader().read(path)
    values = dict(file.values)
    problems = Problems(f"The suite {path.name}", file.place_of)
    problems.check(values, _SUITE_CHOICES, needed=_SUITE_KINDS)
    seeds = values.get("fewshot_seeds", [1234])
    if isinstance(seeds, list) and (not seeds or len(set(map(str, seeds))) < len(seeds)):
        problems.expected("fewshot_seeds", "at least one number, none of them twice", seeds)
    stated = values.get("benchmarks")
    entries = [
        _Entry(entry, f"benchmarks[{number}]", library, problems)
        for number, entry in enumerate(stated if isinstance(stated, list) else [])
        if isinstance(entry, dict)
    ]
    benchmarks = [
        entry.read(normalised=values.get("normalisation") == "chance") for entry in entries
    ]
    reported = values.get("reported_elsewhere")
    if isinstance(reported, dict):
        asked = {
            reference.task for entry in benchmarks if entry for reference in entry.styles.values()
        }
        values["reported_elsewhere"] = _reported(reported, asked, problems)
    problems.settle()
    values |= {
        "version": version_text(values["version"]),
        "benchmarks": tuple(benchmark for benchmark in benchmarks if benchmark),
        "fewshot_seeds": tuple(seeds),
        "changelog": {str(key): str(text) for key, text in values.get("changelog", {}).items()},
    }
    return Suite(**values)


def _reported(stated: Mapping[str, Any], asked: Set[str], problems: Problems) -> Reported | None:
    """None where something is wrong, which is then noted."""
    place = "reported_elsewhere"
    problems.check(stated, _REPORTED_KINDS, place, needed=_REPORTED_KINDS)
    columns, rows = stated.get("columns"), stated.get("rows")
    if not isinstance(columns, list) or not isinstance(rows, dict):
        return None
    for unknown in sorted(set(map(str, columns)) - asked):
        problems.add(f"{place}.columns", f"{unknown} is no task of this suite")
    for model, row in rows.items():
        pairs = isinstance(row, list) and all(
            isinstance(cell, list) and len(cell) == 2 and all(map(NUMBER.accepts, cell))
            for cell in row
        )
        if not pairs or len(row) != len(columns):
            problems.expected(
                f"{place}.rows", f"[value, half width] × {len(columns)}", {model: row}
            )
    if problems.found:
        return None
    figures = {str(model): tuple((a, b) for a, b in row) for model, row in rows.items()}
    return Reported(
        source=stated["source"], link=stated["link"], columns=tuple(columns), rows=figures
    )


@dataclass(frozen=True)
class _Entry:
    """One benchmark of a suite's file, with where its problems are noted."""

    stated: Mapping[str, Any]
    place: str
    library: TaskLibrary
    problems: Problems

    def read(self, *, normalised: bool) -> SuiteBenchmark | None:
        """None where something is wrong, which is then noted."""
        self.problems.check(self.stated, _BENCHMARK_CHOICES, self.place, needed=_BENCHMARK_KINDS)
        styles = self.stated.get("styles")
        if not isinstance(styles, dict):
            return None
        own = self.stated.get("own")
        if own not in styles:
            self.problems.expected(f"{self.place}.own", f"one of {', '.join(styles)}", own)
        asked = {
            style: self._asked(style, reference, normalised and self.stated.get("counts", True))
            for style, reference in styles.items()
        }
        people = self._people()
        if self.problems.found or None in asked.values():
            return None
        shown = {
            key: self.stated[key]
            for key in ("benchmark", "title", "own", "shots", "counts")
            if key in self.stated
        }
        styles_asked = {style: reference for style, reference in asked.items() if reference}
        return SuiteBenchmark(**shown, styles=styles_asked, people=people)

    def _people(self) -> People | None:
        stated = self.stated.get("people")
        if not isinstance(stated, dict):
            return None
        place = f"{self.place}.people"
        self.problems.check(stated, _PEOPLE_KINDS, place, needed=_PEOPLE_KINDS)
        return None if self.problems.found else People(**stated)

    def _asked(self, style: str, stated: Any, normalised: bool) -> Asked | None:
        """A style is the name of a task, or a mapping that also names its metric or filter."""
        place = f"{self.place}.styles.{style}"
        own = stated if isinstance(stated, dict) else {"task": stated}
        self.problems.check(own, _STYLE_KINDS, place, needed=("task",))
        try:
            spec = self.library.one(str(own.get("task")))
        except TaskError as error:
            self.problems.add(place, str(error.args[0]))
            return None
        about = spec.about
        if (about.benchmark, about.style) != (self.stated.get("benchmark"), style):
            self.problems.add(
                place, f"{spec.name} says that it is {about.benchmark} in the style {about.style}"
            )

        def chosen(key: str, known: Sequence[str], otherwise: str | None = None) -> str:
            value = own.get(key, self.stated.get(key))
            if value is None:
                value = otherwise
            if value not in known:
                at = place if key in own else self.place
                self.problems.expected(
                    f"{at}.{key}", f"a {key} of {spec.name} ({', '.join(known)})", value
                )
            return str(value)

        extra = spec.about.extra_metrics if isinstance(spec, TaskSpec) else ()
        metric = chosen("metric", sorted({*spec.metrics, *extra}))
        if normalised and spec.about.chance is None:
            guess = next((leaf.name for leaf in spec.leaves() if leaf.about.chance is None), None)
            if guess:
                self.problems.add(place, f"{guess} states no metadata.chance to normalise by")
        every = (pipeline.name for leaf in spec.leaves() for pipeline in leaf.filter_list)
        filters = list(dict.fromkeys(every))
        filter = chosen("filter", filters, filters[0] if len(filters) == 1 else None)
        return Asked(task=spec.name, metric=metric, filter=filter)
