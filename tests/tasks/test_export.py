"""All our tasks as files: lm-evaluation-harness finds them all, and reads in each what we read."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from evalcore.task.functions import FunctionRef
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from tests import warm
from tests.hub import ROOT

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

THEIRS = """
import json, sys
import yaml
yaml.SafeLoader = yaml.CSafeLoader
from lm_eval.tasks import TaskManager
manager = TaskManager(include_path=sys.argv[1], include_defaults=False)
entries = manager._index.values()
names = {entry.name: [entry.kind.name, sorted(entry.tags)] for entry in entries}
keys = {entry.name: entry.cfg for entry in entries if entry.cfg}
json.dump([names, keys, manager.all_tags and sorted(manager.all_tags)], sys.stdout, default=str)
"""


@pytest.fixture(scope="module")
def theirs(exported: Path) -> Any:
    """What lm-evaluation-harness makes of the export: names, each file's keys, tags."""
    done = warm.run(["-c", THEIRS, exported], cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_json(part: Any) -> Any:
    """As it stands in JSON; a function by its name, as does theirs before it is imported."""
    return json.loads(json.dumps(part, default=_plain))


def _plain(value: Any) -> Any:
    return f"!{value.name}" if isinstance(value, FunctionRef) else str(value)


def without_places(part: Any, exported: Path) -> Any:
    """Their function is a path, of which only the name is the file's."""
    if isinstance(part, str) and part.startswith(f"{exported}/"):
        return f"!{Path(part).name}"
    if isinstance(part, dict):
        return {key: without_places(value, exported) for key, value in part.items()}
    return [without_places(one, exported) for one in part] if isinstance(part, list) else part


def test_it_finds_every_task_group_and_tag(theirs: Any) -> None:
    names, _, tags = theirs
    library = TaskLibrary([OWN_TASKS])
    kinds = {
        kind: [n for n, (one, _) in names.items() if one == kind] for kind in ("TASK", "GROUP")
    }
    assert sorted(kinds["TASK"]) == library.tasks
    assert sorted(kinds["GROUP"]) == library.groups
    assert tags == library.tags
    assert len(library.tasks) > 3000


def test_it_reads_in_each_what_we_read_in_the_lists(theirs: Any, exported: Path) -> None:
    _, keys, _ = theirs
    library = TaskLibrary([OWN_TASKS])
    wrong = []
    for name in (*library.tasks, *library.groups):
        path, _ = library.place_of(name)
        assert path is not None
        ours = as_json(library.files.named(path, name).values)
        if ours != without_places(keys[name], exported):
            wrong.append((name, ours, keys[name]))
    assert len(keys) >= len(library.tasks)
    assert not wrong
