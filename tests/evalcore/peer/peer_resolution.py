"""Run as a program: how lm-eval itself resolves every name of its tasks folder, as JSON.

No task code runs and no data are loaded: a function is written as the path that names it, and a
task stands for its configuration.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lm_eval.api.group import Group
from lm_eval.api.task import Task
from lm_eval.config import group as group_config
from lm_eval.config.task import TaskConfig
from lm_eval.tasks import TaskManager, _factory, _yaml_loader

from tests.parity.quick_start import keep_index, start_quickly


class Configured(Task):  # type: ignore[misc]
    """A task that is nothing but its configuration."""

    def __init__(self, config: dict[str, Any]) -> None:
        if "class" not in config:
            TaskConfig(**copy.deepcopy(config))  # refuses what lm-eval refuses
        self.values = config

    @property
    def task_name(self) -> Any:
        return self.values["task"]


Configured.__abstractmethods__ = frozenset()


@functools.cache
def read(path: Path) -> dict[str, Any]:
    return dict(_yaml_loader.load_yaml(path, resolve_func=False))


def read_for(manager: TaskManager) -> Callable[..., dict[str, Any]]:
    """A file's keys, each time anew; the manager has read most files already."""
    known = {entry.yaml_path: copy.deepcopy(entry.cfg) for entry in manager.task_index.values()}

    def keys(path: Path | str, **_: Any) -> dict[str, Any]:
        return copy.deepcopy(known.get(Path(path)) or read(Path(path)))

    return keys


def build_task(factory: Any, entry: Any, overrides: dict[str, Any] | None) -> Configured:
    values = factory._load_full_config(entry, overrides)
    for key in ("tag", "group", "task_list"):
        values.pop(key, None)
    return Configured(values)


def resolve() -> dict[str, Any]:
    _factory.ConfigurableTask = Configured
    _factory.TaskFactory._build_task = build_task
    # A group's own aggregation is a function only where functions are loaded.
    check = group_config.AggMetricConfig.__post_init__
    group_config.AggMetricConfig.__post_init__ = lambda entry: (
        None if "/" in str(entry.aggregation) else check(entry)
    )
    manager = TaskManager()
    _factory.load_yaml = read_for(manager)
    configs: dict[str, Any] = {}

    def tree(found: Any) -> Any:
        if isinstance(found, Group):
            entries = [vars(entry) for entry in found.aggregate_metric_list or []]
            return {
                "group": found.name,
                "version": found.version,
                "members": [tree(member) for member in found],
                "aggregate": [str(entry["metric"]) for entry in entries],
            }
        text = json.dumps(found.values, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()
        configs[digest] = json.loads(text)
        return {"task": found.task_name, "config": digest}

    names: dict[str, Any] = {}
    for name in manager.all_tasks:
        try:
            found = manager._load_spec(name)
            names[name] = [tree(one) for one in (found if isinstance(found, list) else [found])]
        except Exception as error:
            names[name] = f"{type(error).__name__}: {error}"
    kinds = {name: entry.kind.name for name, entry in manager.task_index.items()}
    return {"names": names, "kinds": kinds, "configs": configs}


if __name__ == "__main__":
    start_quickly()
    keep_index()
    Path(sys.argv[1]).write_text(json.dumps(resolve()))
