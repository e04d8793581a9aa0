"""The tests of quantised models with torchao, in a process that has it.

Wherever torchao is installed transformers imports it, a second of each process, so it lies in a
folder of its own beside the tests' environment (`make setup-dev`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.hub import ROOT
from tests.quantised import TORCHAO
from tests.services import missing

PLACE = Path(sys.prefix) / "torchao"
FILES = ("tests/evalcore/model/hf/test_quantised.py", "tests/parity/test_quantised.py")


def test_models_that_torchao_quantised_pass_the_tests_of_all_others() -> None:
    if not PLACE.is_dir():
        missing(f"NO TORCHAO: {PLACE} is no folder; `make setup-dev` makes it")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-k", "torchao"]
    done = subprocess.run(
        [*command, *FILES],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": str(PLACE)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, done.stdout
    assert int(passed[1]) > 3 * len(TORCHAO)
    assert "skipped" not in done.stdout.splitlines()[-1]
