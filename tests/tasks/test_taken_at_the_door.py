"""What an engine writes of any task of ours is taken by the check that refuses forged files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from tests import warm
from tests.hub import ROOT, client_environment, serve
from tests.tasks.data import merged
from tests.tasks.test_same_as_lm_eval import representatives

CHECKED = """
import json, sys
from pathlib import Path
from evalcore import evaluate
from evalcore.record import RunRecord
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from evalcore.verify.validation import check
from tests.evalcore.toys import ToyLM

library, folder, wrong = TaskLibrary([OWN_TASKS]), Path(sys.argv[1]), {}
settings, names = json.loads((folder / "asked.json").read_text())
for name in names:
    (run,) = evaluate(ToyLM(), [name], confirm_run_unsafe_code=True, **settings)
    record, samples = run.write(folder, "run")
    try:
        check(RunRecord.read(record), samples, library, seed=1)
    except ValueError as problem:
        wrong[name] = str(problem)
print(json.dumps(wrong))
"""
CHAT = {"apply_chat_template": True, "system_instruction": "Be brief."}
WAYS = {
    "strict": {"mode": "strict"},
    "strict, chat": {"mode": "strict", **CHAT},
    "compat": {"mode": "compat", "bootstrap_iters": 0},
    "compat, chat": {"mode": "compat", "bootstrap_iters": 0, **CHAT},
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve([merged(tmp_path_factory.mktemp("hub"), real=False)]) as url:
        yield url


@pytest.mark.parametrize("way", WAYS)
def test_no_honest_file_is_refused(tmp_path: Path, hub: str, way: str) -> None:
    """However the task was asked; of some the description begins a conversation."""
    library = TaskLibrary([OWN_TASKS])
    groups = [name for name in library.groups if name.startswith(("mmlu", "bbh", "ceval"))]
    names = [spec.name for spec in representatives(library)] + groups
    assert len(names) > 320
    (tmp_path / "asked.json").write_text(json.dumps([WAYS[way], names]))
    done = warm.run(
        ["-c", CHECKED, tmp_path],
        cwd=ROOT,
        env=client_environment(hub, tmp_path / "hf"),
        timeout=2400,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
