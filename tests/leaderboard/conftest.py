"""The site's surroundings in tests: a real Hub process, a small tasks folder, workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import cache, caches
from django.utils import timezone

from leaderboard.catalogue import sync as catalogue
from leaderboard.models import Suite, User, Worker
from leaderboard.snapshot import published
from leaderboard.web import kept, refreshed
from tests import awkward
from tests.hub import Orders, serve, set_faults

TASK = """\
task: {name}
dataset_path: org/questions
dataset_kwargs: {{revision: 0123456789012345678901234567890123456789}}
output_type: multiple_choice
test_split: test
doc_to_text: "Question: {{{{question}}}}\\nAnswer:"
doc_to_choice: choices
doc_to_target: answer
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0, benchmark: facts, style: {style}, chance: 0.25, primary_metric: acc}}
"""
SUITE = """\
suite: small
version: 1.0
title: Small
description: One benchmark in two styles.
notice: null
benchmarks:
  - benchmark: facts
    title: Facts
    own: cloze
    shots: 0
    metric: acc
    styles: {cloze: facts, mmlu: facts_mmlu}
"""


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test's rows are rolled back, and the next one's editions have the same numbers again.

    Nor is what took a busy machine long to make given to a later test.
    """
    kept.forget()
    published.forget()
    monkeypatch.setattr(refreshed, "QUICK", math.inf)


@pytest.fixture(scope="session")
def hub_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Hub with the awkward models; its address."""
    with serve([awkward.build(tmp_path_factory.mktemp("hub"))]) as url:
        yield url


@pytest.fixture
def hub(hub_process: str, settings: Any) -> Iterator[Callable[[Orders], None]]:
    """The site's Hub for one test; call it with faults to make it fail."""
    settings.HF_ENDPOINT = hub_process
    cache.clear()
    caches["local"].clear()

    def fail(faults: Orders) -> None:
        set_faults(hub_process, faults)

    yield fail
    fail([])


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A tasks folder with the suite `small`."""
    folder = tmp_path / "tasks"
    (folder / "suites").mkdir(parents=True)
    for name, style in (("facts", "cloze"), ("facts_mmlu", "mmlu")):
        (folder / f"{name}.yaml").write_text(TASK.format(name=name, style=style))
    (folder / "suites" / "small.yaml").write_text(SUITE)
    return folder


@pytest.fixture
def suite(db: None, tasks: Path, settings: Any) -> Suite:
    """The suite that the site runs."""
    settings.PLUMBLINE_TASKS = tasks
    settings.PLUMBLINE_SUITE = "small"
    catalogue.sync(tasks)
    return Suite.objects.get()


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def bo(db: None) -> User:
    return User.objects.create_user("bo")


def worker(
    memory_bytes: int, *, dtypes: tuple[str, ...] = ("float32", "bfloat16", "float16")
) -> Worker:
    """A worker that was seen just now."""
    now = timezone.now()
    return Worker.objects.create(
        name=f"worker-{memory_bytes}",
        device="cpu",
        memory_bytes=memory_bytes,
        dtypes=list(dtypes),
        started=now,
        seen=now,
    )
