"""The operator's file: every mistake is one sentence with the field, the value and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from runners import launchers
from runners.launchers.kubernetes_jobs import KubernetesJobs
from runners.launchers.ray_jobs import RayJobs
from runners.launchers.slurm import Slurm
from tests.runners.place import ROOT

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
    assert (large.memory_bytes, large.price, large.idle_minutes) == (80 * 10**9, 1.9, 5.0)
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
        ({"budgets": 1}, "budgets: 1: .*no such name"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, changed: dict, said: str) -> None:
    with pytest.raises(launchers.WrongFile, match=said):
        launchers.read(write(tmp_path, **changed))


def test_no_file_and_no_yaml_are_named_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(launchers.WrongFile, match=r"PLUMBLINE_LAUNCH=.*none\.yaml: No such file"):
        launchers.read(tmp_path / "none.yaml")
    (tmp_path / "bad").write_text("engine: [")
    with pytest.raises(launchers.WrongFile, match="no YAML"):
        launchers.read(tmp_path / "bad")


def test_options_that_the_engine_does_not_take_are_refused(tmp_path: Path) -> None:
    plan = launchers.read(write(tmp_path, options={"partitions": "gpu"}))
    with pytest.raises(launchers.WrongFile, match=r"'partitions': slurm takes account.*partition"):
        launchers.launcher_of(plan)


GUIDE = (ROOT / "docs" / "launching.md").read_text()


def test_the_guide_shows_a_file_that_is_one_and_names_every_option(tmp_path: Path) -> None:
    blocks = [block.partition("```")[0] for block in GUIDE.split("```yaml\n")[1:]]
    (tmp_path / "launch.yaml").write_text(blocks[0])
    launchers.launcher_of(launchers.read(tmp_path / "launch.yaml"))
    assert all(isinstance(yaml.safe_load(block), dict) for block in blocks)
    for heading, engine in (("Slurm", Slurm), ("Kubernetes", KubernetesJobs), ("Ray", RayJobs)):
        section = GUIDE.partition(f"### {heading}\n")[2].partition("\n##")[0]
        assert [option for option in engine.OPTIONS if f"`{option}`" not in section] == []
