"""What an engine writes of any task of ours is taken by the check that refuses forged files."""

from __future__ import annotations

import json
from pathlib import Path

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
ways, names = json.loads((folder / "asked.json").read_text())
for name in names:
    for way, settings in ways.items():
        (run,) = evaluate(ToyLM(), [name], confirm_run_unsafe_code=True, **settings)
        record, samples = run.write(folder, "run")
        try:
            check(RunRecord.read(record), samples, library, seed=1)
        except ValueError as problem:
            wrong[f"{name}, {way}"] = str(problem)
print(json.dumps(wrong))
"""
CHAT = {"apply_chat_template": True, "system_instruction": "Be brief."}
WAYS = {
    "strict": {"mode": "strict"},
    "strict, chat": {"mode": "strict", **CHAT},
    "compat": {"mode": "compat", "bootstrap_iters": 0},
    "compat, chat": {"mode": "compat", "bootstrap_iters": 0, **CHAT},
}


def test_no_honest_file_is_refused(tmp_path: Path) -> None:
    """However the task was asked; of some the description begins a conversation."""
    library = TaskLibrary([OWN_TASKS])
    groups = [name for name in library.groups if name.startswith(("mmlu", "bbh", "ceval"))]
    names = [spec.name for spec in representatives(library)] + groups
    assert len(names) > 320
    (tmp_path / "asked.json").write_text(json.dumps([WAYS, names]))
    with serve([merged(tmp_path / "hub", real=False)]) as url:
        done = warm.run(
            ["-c", CHECKED, tmp_path],
            cwd=ROOT,
            env=client_environment(url, tmp_path / "hf"),
            timeout=2400,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
