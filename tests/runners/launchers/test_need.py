"""The operator's file of launches, and which worker is asked for next: never more than the budget,
never one that would not help. Nothing here is in a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from leaderboard.models import Launch, Worker
from leaderboard.queue import unserved
from leaderboard.queue.launches import resting_until
from runners import launchers
from runners.launchers.kinds import Budget, Configuration, Kind
from runners.launchers.kubernetes_jobs import KubernetesJobs
from runners.launchers.need import Standing, spent, superfluous, wanted
from runners.launchers.ray_jobs import RayJobs
from runners.launchers.slurm import Slurm
from tests.runners.place import ROOT

GB = 10**9
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
GOOD = {
    "engine": "slurm",
    "budget": {"workers_at_once": 4, "gpus_at_once": 4, "money_per_day": 50},
    "kinds": [
        {"name": "a100", "gpus": 1, "memory_gb": 80, "hours": 8, "price": 1.9},
        {"name": "cpu", "gpus": 0, "memory_gb": 16, "hours": 2, "dtypes": ["float32"]},
    ],
}
FIRST = GOOD["kinds"][0]


def write(folder: Path, **changed: object) -> Path:
    file = folder / "launch.yaml"
    file.write_text(yaml.safe_dump({**GOOD, **changed}))
    return file


def test_what_is_stated_is_read_and_the_rest_is_as_documented(tmp_path: Path) -> None:
    plan = launchers.read(write(tmp_path))
    large, small = plan.kinds
    assert (large.memory_bytes, large.price, large.idle_minutes) == (80 * GB, 1.9, 5.0)
    assert (small.dtypes, small.backend, small.gpus) == (("float32",), "hf", 0)
    assert (plan.budget.money_per_day, plan.budget.gpu_hours_per_day) == (50.0, None)
    assert (plan.after_minutes, plan.show_up_minutes) == (15.0, 60.0)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"engine": "lsf"}, "engine: 'lsf': expected one of kubernetes, ray, slurm"),
        ({"budget": {}}, "budget: workers_at_once is missing: expected a whole number"),
        ({"budget": {"workers_at_once": True}}, "workers_at_once: True: expected a whole number"),
        ({"kinds": []}, "kinds: .*a list with one kind"),
        ({"kinds": [{**FIRST, "memory": 3}]}, r"kinds\[0\]: memory: 3: .*no such name"),
        ({"kinds": [{**FIRST, "hours": -1}]}, "hours: -1: expected a number from 0"),
        ({"kinds": [{**FIRST, "dtypes": ["int4"]}]}, "dtypes: .*float32, bfloat16, float16"),
        ({"kinds": [FIRST, FIRST]}, "a100, a100: give each a name of its own"),
        ({"options": {"partitions": "gpu"}}, r"'partitions': slurm takes account.*partition"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, changed: dict, said: str) -> None:
    with pytest.raises(launchers.WrongFile, match=said):
        launchers.launcher_of(launchers.read(write(tmp_path, **changed)))


def test_no_file_and_no_yaml_are_named_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(launchers.WrongFile, match=r"PLUMBLINE_LAUNCH=.*none\.yaml: No such file"):
        launchers.read(tmp_path / "none.yaml")
    (tmp_path / "bad").write_text("engine: [")
    with pytest.raises(launchers.WrongFile, match="no YAML"):
        launchers.read(tmp_path / "bad")


def test_the_guide_shows_a_file_that_is_one_and_names_every_option(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "launching.md").read_text()
    (tmp_path / "launch.yaml").write_text(guide.partition("```yaml\n")[2].partition("```")[0])
    launchers.launcher_of(launchers.read(tmp_path / "launch.yaml"))
    for heading, engine in (("Slurm", Slurm), ("Kubernetes", KubernetesJobs), ("Ray", RayJobs)):
        section = guide.partition(f"### {heading}\n")[2].partition("\n##")[0]
        assert [option for option in engine.OPTIONS if f"`{option}`" not in section] == []


def kind(name: str = "a100", gpus: int = 1, memory_gb: int = 80, hours: float = 4.0) -> Kind:
    return Kind(
        name=name,
        gpus=gpus,
        memory_bytes=memory_gb * GB,
        hours=hours,
        price=2.0 * gpus,
        idle_minutes=5.0,
        dtypes=("float32", "bfloat16"),
        quantisations=(),
        backend="hf",
        runs_code=False,
        options={},
    )


SMALL, LARGE = kind("small", 1, 24), kind("large", 2, 160)


def plan(*kinds: Kind, **budget: Any) -> Configuration:
    return Configuration(
        engine="slurm",
        options={},
        after_minutes=15.0,
        show_up_minutes=60.0,
        budget=Budget(**{"workers_at_once": 10, **budget}),
        kinds=kinds,
    )


def group(gb: int = 20, minutes: float = 1.0, dtype: str = "bfloat16") -> unserved.Group:
    return unserved.Group(gb * GB, dtype, "", "hf", "", NOW - timedelta(minutes=minutes))


def worker(gb: int) -> Worker:
    return Worker(name="live", memory_bytes=gb * GB, dtypes=["float32", "bfloat16"], backend="hf")


def launch(of: Kind, state: str, *, minutes: float = 10.0, **fields: Any) -> Launch:
    """Asked for so long ago; what is over is over now."""
    asked = NOW - timedelta(minutes=minutes)
    came = asked if state in ("up", "ended") else None
    ended = NOW if state in ("ended", "failed") else None
    told = {"asked": asked, "came": came, "ended": ended, "claims": int(state in ("up", "ended"))}
    return Launch(
        kind=of.name, state=state, gpus=of.gpus, hours=of.hours, price=of.price, **(told | fields)
    )


def standing(
    *waiting: unserved.Group,
    workers: tuple[Worker, ...] = (),
    launches: tuple[Launch, ...] = (),
    **measured: int,
) -> Standing:
    return Standing(NOW, waiting, workers, launches, measured)


def test_the_cheapest_that_holds_it_is_asked_for_where_no_live_worker_does_in_time() -> None:
    of = plan(LARGE, SMALL)
    assert wanted(standing(), of) is None
    assert wanted(standing(group(20)), of) == SMALL
    assert wanted(standing(group(100)), of) == LARGE
    assert wanted(standing(group(500)), of) is None
    assert wanted(standing(group(20, dtype="float16")), of) is None
    assert wanted(standing(group(20), workers=(worker(16),)), of) == SMALL
    assert wanted(standing(group(20, minutes=14), workers=(worker(24),)), of) is None
    assert wanted(standing(group(20, minutes=16), workers=(worker(24),)), of) == SMALL
    # What a worker of the kind found free counts, not what was stated.
    assert wanted(standing(group(24)), plan(SMALL)) == SMALL
    assert wanted(standing(group(24), small=23 * GB), plan(SMALL)) is None


def test_one_that_is_on_its_way_is_for_one_of_those_that_wait() -> None:
    coming = (launch(SMALL, "waiting"),)
    assert wanted(standing(group(), launches=coming), plan(SMALL)) is None
    assert wanted(standing(group(), group(), launches=coming), plan(SMALL)) == SMALL
    assert wanted(standing(group(), group(100), launches=coming), plan(SMALL, LARGE)) == LARGE


def test_those_that_nothing_waits_for_any_more_are_taken_back_the_newest_first() -> None:
    coming = (launch(SMALL, "waiting"), launch(LARGE, "waiting"), launch(SMALL, "up"))
    left = superfluous(standing(group(), launches=coming), plan(SMALL))
    assert [one.kind for one in left] == ["large"]
    newer, older = launch(SMALL, "waiting", minutes=1), launch(SMALL, "waiting", minutes=9)
    both = standing(group(), group(), launches=(newer, older))
    assert superfluous(both, plan(SMALL)) == []
    assert superfluous(replace(both, waiting=[group()]), plan(SMALL)) == [newer]
    # Who is being asked for, or has come and not yet said what it holds, serves one as well.
    for first in (launch(SMALL, "asking"), launch(SMALL, "up", claims=0)):
        more = replace(both, launches=(newer, older, first), arriving={first.pk})
        assert superfluous(more, plan(SMALL)) == [newer]
        assert wanted(more, plan(SMALL)) is None


def test_each_limit_of_the_budget_holds_over_the_last_day() -> None:
    asked = standing(group(), group(), launches=(launch(LARGE, "up"),))
    for limit, fits, exceeds in (
        ("workers_at_once", 2, 1),
        ("gpus_at_once", 3, 2),
        ("gpu_hours_per_day", 12.0, 11.9),
        ("money_per_day", 24.0, 23.9),
    ):
        assert wanted(asked, plan(SMALL, **{limit: fits})) == SMALL, limit
        assert wanted(asked, plan(SMALL, **{limit: exceeds})) is None, limit
    assert spent([launch(LARGE, "ended", minutes=25 * 60)], NOW) == (48.0, 96.0)
    assert spent([launch(SMALL, "up"), launch(LARGE, "failed")], NOW) == (4.0, 8.0)


def test_a_kind_that_fails_rests_twice_as_long_each_time_and_another_is_tried() -> None:
    came_for_nothing = launch(SMALL, "ended", claims=0)
    failures = (launch(SMALL, "failed"), came_for_nothing, launch(SMALL, "failed"))
    assert resting_until("small", failures[:1]) == NOW + timedelta(minutes=5)
    assert resting_until("small", failures) == NOW + timedelta(minutes=20)
    assert resting_until("small", failures * 20) == NOW + timedelta(hours=6)
    assert resting_until("small", (launch(SMALL, "ended"), *failures)) is None
    assert resting_until("large", failures) is None
    # Taken back before it came: nobody's fault.
    withdrawn = launch(SMALL, "ended", came=None, claims=0)
    assert resting_until("small", (withdrawn,)) is None

    asked = standing(group(), launches=failures)
    assert wanted(asked, plan(SMALL)) is None
    assert wanted(asked, plan(SMALL, LARGE)) == LARGE
    assert wanted(replace(asked, now=NOW + timedelta(minutes=21)), plan(SMALL)) == SMALL
