"""docs/benchmarks.md is what the files of docs/benchmarks/ give."""

from __future__ import annotations

from pathlib import Path

from bench.backends.__main__ import DOCUMENTS, median
from bench.backends.page import section
from bench.page import write_page
from bench.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "benchmarks"


def test_the_page_of_results_is_what_its_files_give(tmp_path: Path):
    write_page(FOLDER, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "benchmarks.md").read_text()


def test_every_workload_of_the_backends_is_shown_beside_theirs_and_behind_servers():
    text = section(FOLDER)
    assert len(DOCUMENTS) == 4
    for name in DOCUMENTS:
        assert text.count(f"| {WORKLOADS[name].title} |") == 2
    assert "| 55.21 s | 13.32 s (plain 5, shared 43) | **4.1** |" in text
    assert "| 68.23 / 54.78 s | **1.25** |" in text  # theirs first


def test_where_no_backend_was_measured_nothing_is_said_of_them(tmp_path: Path):
    assert section(tmp_path) == ""


def test_of_several_runs_each_workload_is_that_of_its_median():
    def run(start: float, one: float, other: float) -> object:
        return {"start": start, "workloads": {"a": {"seconds": one}, "b": {"seconds": other}}}

    found = median([run(3.0, 1.0, 9.0), run(1.0, 8.0, 2.0), run(2.0, 4.0, 5.0)])
    assert found == run(2.0, 4.0, 5.0)
