"""Each test belongs to one tier, and CI chooses groups by what a change touches."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.__main__ import LATEST, Run
from tests.tiers import GROUPS, ROOT, TURNS, choose_groups, left_out


def test_every_path_of_the_table_is_in_the_tree():
    places = [place for group in GROUPS.values() for place in (*group.tests, *group.touched_by)]
    assert [place for place in places if not [*ROOT.glob(f"{place.rstrip('/')}*")]] == []


@pytest.mark.parametrize(
    ("changed", "group"),
    [
        ("templates/board/index.html", "looks"),
        ("evalcore/score/metrics/registry.py", "peer"),
        ("evalcore/sandbox/confinement.py", "confinement"),
        ("evalcore/model/vllm/scoring.py", "backends"),
        ("tests/chaos/faults.py", "chaos"),
    ],
)
def test_a_change_makes_ci_run_the_group_of_what_it_touches(changed, group):
    chosen = [choose_groups([changed], commits) for commits in range(len(TURNS))]
    assert {names.get(group) for names in chosen} == {f"{changed} changed"}


def test_each_group_has_its_turn_once_in_five_runs_when_nothing_touches_it():
    turns = [choose_groups(["README.md"], commits) for commits in range(40, 40 + len(TURNS))]
    assert sorted(name for names in turns for name in names) == sorted(GROUPS)


def test_a_change_that_touches_many_groups_waits_for_these_alone():
    files = ["evalcore/task/config.py", "runners/child.py"]
    chosen = [choose_groups(files, commits) for commits in range(len(TURNS))]
    assert {reason for names in chosen for reason in names.values()} == {
        f"{file} changed" for file in files
    }


def test_a_group_with_a_run_of_its_own_is_not_begun_late_but_named(capsys):
    run = Run([], steps=[("make test", LATEST + 1.0)])
    run.groups(["images", "postgresql"], latest=LATEST)
    assert run.report() == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()[1:]] == [
        "LEFT OUT images",
        "LEFT OUT postgresql",
    ]


@pytest.mark.parametrize(
    ("place", "tiers"),
    [
        ("tests/evalcore/score", {"quick", "test", "all"}),
        ("tests/e2e", {"test", "all"}),
        ("tests/chaos/test_chaos.py", {"all"}),
        ("tests/backends", set()),
    ],
)
def test_a_tier_holds_those_before_it(place, tiers):
    path = ROOT / place
    assert {t for t in ("quick", "test", "all") if not left_out(path, tier=t)} == tiers


def test_a_group_runs_beside_a_tier_and_alone():
    chaos, board = ROOT / "tests/chaos/test_chaos.py", ROOT / "tests/leaderboard/board"
    assert not left_out(chaos, tier="test", groups=["chaos"])
    assert not left_out(ROOT / "tests", tier="none", groups=["chaos"])
    assert not left_out(chaos, tier="none", groups=["chaos"])
    assert left_out(board, tier="none", groups=["chaos"])
    assert not left_out(board, tier="none", groups=["postgresql"])


def test_a_test_that_never_ends_fails_alone_and_says_where_it_stands(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from tests.processes import make_scheduler as pytest_xdist_make_scheduler"
    )
    (tmp_path / "test_waiting.py").write_text(
        "import threading\n"
        "def test_before(): pass\n"
        "def test_waiting(): threading.Event().wait()\n"
        "def test_after(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:django", "-n", "2", "--dist", "loadscope"]
    limits = ["-o", "faulthandler_timeout=1", "-o", "faulthandler_exit_on_timeout=true"]
    ended = subprocess.run(
        [*command, *limits, "--rootdir", tmp_path, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "in test_waiting" in ended.stderr
    assert "1 failed, 2 passed" in ended.stdout, ended.stdout
