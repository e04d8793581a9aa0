"""One task for each benchmark and style: what is run in both engines on every test run.

The other members of a family differ from it by their list's fields only; each of them is rendered
and held to its pin, and `python -m tests.tasks.both` runs any of them in both engines.
"""

from __future__ import annotations

from pathlib import Path

from evalcore.task.config import TaskSpec
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS


def representatives(library: TaskLibrary) -> list[TaskSpec]:
    """The first task, by name, of each folder, benchmark, style and kind of scoring."""
    found: dict[tuple[object, ...], TaskSpec] = {}
    for name in library.tasks:
        spec = library.one(name)
        assert isinstance(spec, TaskSpec)
        metrics = tuple(metric.name for metric in spec.metric_list)
        folder = folder_of(spec)
        family = folder if spec.about.benchmark.startswith(folder) else spec.about.benchmark
        key = (folder, family, spec.about.style, spec.output_type, metrics, spec.description == "")
        found.setdefault(key, spec)
    return list(found.values())


def folder_of(spec: TaskSpec) -> str:
    """The benchmark's folder below `tasks/`."""
    assert spec.source is not None
    return Path(spec.source).relative_to(OWN_TASKS).parts[0]
