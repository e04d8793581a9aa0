"""The benchmark of the site, in small: every page answers, and the page of results says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.site.page import section
from bench.site.results import Results
from tests.services import postgresql

COMMAND = [sys.executable, "-m", "bench.site", "--quick", "--rate", "10", "--seconds", "3"]
ROOT = Path(__file__).resolve().parents[2]


def test_a_quick_run_measures_every_kind_of_page_without_an_error(tmp_path: Path):
    output = tmp_path / "results" / "site.json"
    with postgresql() as url:
        done = subprocess.run(
            [*COMMAND, "--output", str(output)],
            env={**os.environ, "PLUMBLINE_DATABASE_URL": url, "PLUMBLINE_HOME": str(tmp_path)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found = Results.read(output)
    assert [row.kind for row in found.kinds if row.errors] == []
    assert [load.times.errors for load in found.loads] == [0, 0, 0]
    assert found.loads[-1].times.n == 30
    assert sum(found.loads[-1].shares.values()) == 100
    assert set(found.loads[-1].cores) == {"load generator", "site", "PostgreSQL", "everything else"}
    assert found.rows["runs"] > found.rows["vectors of answers"] > 3_000
    styles = ["own", "cloze", "mmlu", "hybrid", "all"]
    assert list(found.boards_after_run) == styles
    assert sorted(found.boards_after_run.values()) == list(found.boards_after_run.values())
    text = section(output.parent)
    assert "### Boards after a run has ended" in text
    assert "10 requests a second without an error | 0 errors of 30; " in text
    assert all(row.kind in text for row in found.kinds)
