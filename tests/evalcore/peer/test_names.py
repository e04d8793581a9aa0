"""lm-eval's own tasks folder: every name means here what it means there."""

from __future__ import annotations

import dataclasses
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from evalcore.errors import TaskError
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.functions import FunctionRef
from evalcore.task.library.load import TaskLibrary
from evalcore.task.parse import parse_task
from tests import warm
from tests.hub import ROOT
from tests.parity.both import kept_in

pytestmark = pytest.mark.peer

REFUSED_BY_BOTH = {
    "flan_held_in": "names 'anli_r1_prompt-0', which is no task, group or tag",
    "t0_eval": "use_prompt: there are no templates for aps/super_glue, wsc.fixed: install",
}
"""Names without a meaning in either engine, and our reason."""

ONLY_HERE = ["toksuite_abridged"]
"""It defines groups of other tasks under names that there are already; there that is an error."""

DIFFERENT = ["openllm"]
"""It names groups by `task`; there all their tasks then get the group's name, and one is left."""


@pytest.fixture(scope="module")
def folder() -> Path:
    found = find_spec("lm_eval")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "tasks"


@pytest.fixture(scope="module")
def theirs(index: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("peer") / "names.json"
    done = warm.run(
        ["-m", "tests.evalcore.peer.peer_resolution", out],
        cwd=ROOT,
        env={**os.environ, **kept_in(index)},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_every_name_is_resolved_as_lm_eval_resolves_it(
    folder: Path, theirs: dict[str, Any]
) -> None:
    library = TaskLibrary([folder])
    outcomes: dict[str, list[str]] = {}
    reasons = {}
    for name, trees in theirs["names"].items():
        there = isinstance(trees, list)
        try:
            specs = library.select([name])
        except TaskError as error:
            reasons[name] = str(error)
            outcome = "refused here" if there else "refused by both"
        else:
            equal = there and same(specs, trees, theirs["configs"], folder)
            outcome = ("equal" if equal else "different") if there else "only here"
        outcomes.setdefault(outcome, []).append(name)
    equal_names = outcomes.pop("equal")
    assert outcomes == {
        "refused by both": list(REFUSED_BY_BOTH),
        "only here": ONLY_HERE,
        "different": DIFFERENT,
    }
    assert len(equal_names) == len(theirs["names"]) - 4 > 14_000
    for name, reason in REFUSED_BY_BOTH.items():
        assert reason in reasons[name]


def test_every_name_is_known_as_what_it_is_there(folder: Path, theirs: dict[str, Any]) -> None:
    library = TaskLibrary([folder])
    kinds = {"TASK": "task", "PY_TASK": "task", "GROUP": "group", "TAG": "tag"}
    known = {name: kinds[kind] for name, kind in theirs["kinds"].items()}
    ours = {
        **dict.fromkeys(library.tasks, "task"),
        **dict.fromkeys(library.groups, "group"),
        **dict.fromkeys(library.tags, "tag"),
    }
    # Its files say `group`, which in a file of one task means `tag`; there it is passed over.
    assert ours == {**known, "scrolls": "tag"}
    assert library.unreadable == {}


def same(specs: list[Any], trees: list[Any], configs: dict[str, Any], folder: Path) -> bool:
    return len(specs) == len(trees) and all(
        _same_one(spec, tree, configs, folder) for spec, tree in zip(specs, trees, strict=True)
    )


def _same_one(
    spec: TaskSpec | GroupSpec, tree: dict[str, Any], configs: dict[str, Any], folder: Path
) -> bool:
    if isinstance(spec, TaskSpec):
        return spec.name == tree.get("task") and plain(spec) == plain(
            parsed(tree["config"], configs, folder)
        )
    aggregates = [str(entry.metric) for entry in spec.aggregate_metric_list]
    return (
        spec.name == tree.get("group")
        and len(aggregates) == len(tree["aggregate"])
        and same(list(spec.members), tree["members"], configs, folder)
    )


def plain(spec: TaskSpec) -> dict[str, Any]:
    own = ("about", "source", "tag")
    return {
        field.name: getattr(spec, field.name)
        for field in dataclasses.fields(spec)
        if field.name not in own
    }


_parsed: dict[str, TaskSpec] = {}


def parsed(digest: str, configs: dict[str, Any], folder: Path) -> TaskSpec:
    if digest not in _parsed:
        values = functions_in(configs[digest], folder)
        values["metadata"].pop("config_source", None)
        _parsed[digest] = parse_task(values, str, None)
    return _parsed[digest]


def functions_in(value: Any, folder: Path) -> Any:
    """lm-eval writes an unloaded function as the path of its folder and its name."""
    if isinstance(value, dict):
        return {key: functions_in(entry, folder) for key, entry in value.items()}
    if isinstance(value, list):
        return [functions_in(entry, folder) for entry in value]
    if isinstance(value, str) and value.startswith(f"{folder}/") and "\n" not in value:
        path = Path(value)
        return FunctionRef(path.name, path.parent)
    return value
