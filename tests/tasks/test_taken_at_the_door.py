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
for name in json.loads((folder / "names.json").read_text()):
    (run,) = evaluate(ToyLM(), [name], mode="strict", confirm_run_unsafe_code=True)
    record, samples = run.write(folder, "run")
    try:
        check(RunRecord.read(record), samples, library, seed=1)
    except ValueError as problem:
        wrong[name] = str(problem)
print(json.dumps(wrong))
"""


def test_no_honest_file_is_refused(tmp_path: Path) -> None:
    library = TaskLibrary([OWN_TASKS])
    groups = [name for name in library.groups if name.startswith(("mmlu", "bbh", "ceval"))]
    names = [spec.name for spec in representatives(library)] + groups
    assert len(names) > 320
    (tmp_path / "names.json").write_text(json.dumps(names))
    with serve([merged(tmp_path / "hub", real=False)]) as url:
        done = warm.run(
            ["-c", CHECKED, tmp_path],
            cwd=ROOT,
            env=client_environment(url, tmp_path / "hf"),
            timeout=1200,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
