"""docs/benchmarks.md is what the files of docs/benchmarks/ give."""

from __future__ import annotations

from pathlib import Path

from bench.backends.__main__ import DOCUMENTS, median, together
from bench.backends.page import HEADS, section
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
    assert "| 39.60 s | 9.04 s (plain 4, shared 44) | **4.4** |" in text
    assert "| 44.15 / 45.66 s | **0.97** |" in text  # theirs first


def test_how_time_grows_tells_what_was_not_run():
    text = section(FOLDER)
    for title in HEADS.values():
        assert text.count(title) == 1
    line = "| 10,000 | about 615.77 s | 303.54 s | about 2.0 | about 582.93 s | about 555.57 s |"
    assert f"{line} about 1.0 | 0 of 0 |" in text
    assert "| 100 | 64.49 s | 6.06 s | **10.6** |" in text


def test_what_is_measured_again_takes_the_place_of_what_was_and_leaves_the_rest():
    before = {"model": "old", "workloads": {"gsm8k_stops": 1, "arc_25_shot": 2}}
    again = {"model": "new", "workloads": {"arc_25_shot": 3}, "growth": {"shots": 4}}
    found = together(before, again)
    assert found["workloads"] == {"arc_25_shot": 3, "gsm8k_stops": 1}
    assert (found["model"], found["growth"]) == ("new", {"shots": 4})


def test_where_no_backend_was_measured_nothing_is_said_of_them(tmp_path: Path):
    assert section(tmp_path) == ""


def test_of_several_runs_each_workload_is_that_of_its_median():
    def run(start: float, one: float, other: float) -> object:
        return {"start": start, "workloads": {"a": {"seconds": one}, "b": {"seconds": other}}}

    found = median([run(3.0, 1.0, 9.0), run(1.0, 8.0, 2.0), run(2.0, 4.0, 5.0)])
    assert found == run(2.0, 4.0, 5.0)
