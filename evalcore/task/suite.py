"""Suites: which benchmarks a board shows, in which styles, at how many shots.

A suite is a YAML file with the key `suite`, in the tasks folder; as it names no task, lm-eval and
our own index pass it by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalcore.errors import TaskError
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.fields import (
    COUNT,
    MAPPING,
    MAPPINGS,
    NUMBER,
    TEXT,
    Kind,
    Problems,
    choice_of,
    one_of,
    optional,
)
from evalcore.task.load import TaskLibrary
from evalcore.task.metadata import STYLES
from evalcore.task.yaml_file import TaskFileReader


@dataclass(frozen=True, kw_only=True)
class SuiteBenchmark:
    """A column of the board: one benchmark in its own style, and the other styles beside it."""

    benchmark: str
    title: str
    own: str
    """The style that makes the column."""
    shots: int
    metric: str
    styles: Mapping[str, str]
    """The name of the task or group of each style."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    suite: str
    version: str
    title: str
    description: str
    notice: str | None
    """What readers of the board must know first."""
    benchmarks: tuple[SuiteBenchmark, ...]


_SUITE_KINDS: dict[str, Kind] = {
    "suite": TEXT,
    "version": one_of(TEXT, NUMBER),
    "title": TEXT,
    "description": TEXT,
    "notice": optional(TEXT),
    "benchmarks": MAPPINGS,
}

_BENCHMARK_KINDS: dict[str, Kind] = {
    "benchmark": TEXT,
    "title": TEXT,
    "own": choice_of(*STYLES),
    "shots": COUNT,
    "metric": TEXT,
    "styles": MAPPING,
}


def load_suite(path: Path, library: TaskLibrary) -> Suite:
    """The suite in the file at `path`, every task of it found in `library`.

    Raises TaskError with all that is wrong: keys, styles, tasks that do not exist or that say
    they are another benchmark or style, a metric that a task does not have.
    """
    file = TaskFileReader().read(path)
    values = {"notice": None, **file.values}
    problems = Problems(f"The suite {path.name}", file.place_of)
    _check_keys(values, _SUITE_KINDS, problems, "")
    entries = values.get("benchmarks")
    entries = entries if isinstance(entries, list) else []
    for number, entry in enumerate(entries):
        if isinstance(entry, dict):
            inside = f"benchmarks[{number}]"
            _check_keys(entry, _BENCHMARK_KINDS, problems, inside)
            _check_styles(entry, library, problems, inside)
    problems.settle()
    return Suite(
        **{
            **values,
            "version": str(values["version"]),
            "benchmarks": tuple(SuiteBenchmark(**entry) for entry in entries),
        }
    )


def _check_keys(
    values: Mapping[str, Any], kinds: Mapping[str, Kind], problems: Problems, inside: str
) -> None:
    problems.check(values, kinds, inside)
    for key in kinds.keys() - values.keys():
        problems.missing(f"{inside}.{key}" if inside else key, f"expected {kinds[key].expected}")


def _check_styles(
    entry: Mapping[str, Any], library: TaskLibrary, problems: Problems, inside: str
) -> None:
    styles = entry.get("styles")
    if not isinstance(styles, dict):
        return
    if entry.get("own") not in styles:
        problems.expected(f"{inside}.own", f"one of {', '.join(styles)}", entry.get("own"))
    for style, name in styles.items():
        place = f"{inside}.styles.{style}"
        try:
            spec = library.one(str(name))
        except TaskError as error:
            problems.add(place, str(error.args[0]))
            continue
        about = spec.about
        if (about.benchmark, about.style) != (entry.get("benchmark"), style):
            problems.add(
                place, f"{name} says that it is {about.benchmark} in the style {about.style}"
            )
        if entry.get("metric") not in _metrics_of(spec):
            problems.expected(
                f"{inside}.metric",
                f"a metric of {name} ({', '.join(sorted(_metrics_of(spec)))})",
                entry.get("metric"),
            )


def _metrics_of(spec: TaskSpec | GroupSpec) -> set[str]:
    if isinstance(spec, GroupSpec):
        return {str(aggregate.metric) for aggregate in spec.aggregate_metric_list}
    return {metric.name for metric in spec.metric_list}
