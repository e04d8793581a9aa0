"""A kept model through the real engine: the same numbers, and nothing of it outlives its worker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.contrib.auth.models import AnonymousUser
from django.db.models.functions import Now

from evalcore.record import read_samples
from leaderboard.models import Run
from leaderboard.queue import claims
from leaderboard.samples import store as artifacts
from leaderboard.submissions.facts import Way
from leaderboard.submissions.submit import submit
from runners.execute import evaluate_claim
from runners.kept import Keeper
from tests.hub import serve
from tests.runners import place
from tests.runners.site import CHATTY, open_site, worker
from tests.runners.test_tree import STATES, SUBMIT
from tests.runners.test_worker import prepared


def numbers(run: Run) -> list[Any]:
    rows = run.results.order_by("metric", "filter", "subset")
    found = [[r.metric, r.filter, r.subset, r.value, r.stderr, r.low, r.high, r.n] for r in rows]
    samples = run.artifacts.get(kind="samples")
    return [found, [said(row) for row in read_samples(artifacts.path_of(samples.sha256))]]


def said(row: dict[str, Any]) -> dict[str, Any]:
    """All of a sample but the keys, which name the model."""
    return {name: value for name, value in row.items() if "key" not in name}


def engines(pid: int | None = None) -> set[int]:
    below = psutil.Process(pid).children(recursive=True)
    return {each.pid for each in below if each.name().startswith("python") and is_engine(each)}


def is_engine(process: psutil.Process) -> bool:
    words = process.cmdline()
    return "evalcore" in words and "runners.confined" not in words and "runners.child" not in words


@pytest.mark.django_db(transaction=True)
def test_a_second_claim_has_the_numbers_of_a_fresh_process_to_the_last_bit(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PLUMBLINE_KEEP_MODEL = 60
    with open_site(tmp_path, settings, monkeypatch):
        here = worker()
        kept = [*submit(place.MODEL, way=Way(), user=AnonymousUser()).runs.order_by("task__name")]
        fresh = [*submit(CHATTY, way=Way(), user=AnonymousUser()).runs.order_by("task__name")]
        with Keeper() as keeper:
            seen = []
            for run in kept:
                others = Run.objects.exclude(pk=run.pk).filter(state="queued")
                others.update(not_before=Now() + timedelta(hours=1))
                Run.objects.filter(pk=run.pk).update(not_before=None)
                claim = claims.claim_next(here)
                assert claim is not None
                assert [one.pk for one in claim.runs] == [run.pk]
                evaluate_claim(claim, here, threading.Event(), keeper)
                seen.append(engines())
            assert len(seen[0]) == 1
            assert seen[0] == seen[1]
        Run.objects.update(not_before=None)
        claim = claims.claim_next(here)
        assert claim is not None
        evaluate_claim(claim, here, threading.Event())
        assert not Run.objects.exclude(state="done").exists()
        assert [numbers(run) for run in kept] == [numbers(run) for run in fresh]
        loads = [record_of(run)["timing"]["load"] for run in kept]
        print(f"seconds to load: {loads}")
        assert loads[1] < loads[0]


def record_of(run: Run) -> dict[str, Any]:
    record = run.artifacts.get(kind="record")
    fields: dict[str, Any] = json.loads(artifacts.path_of(record.sha256).read_text())
    return fields


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve([place.write_content(tmp_path_factory.mktemp("content"), rows=12)]) as url:
        yield url


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_kept_model_ends_with_its_worker(
    tmp_path: Path, hub: str, number: signal.Signals
) -> None:
    variables, onlooker = prepared(tmp_path, hub, PLUMBLINE_KEEP_MODEL="60")
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "runners", "worker", "--devices", "cpu"],
            cwd=place.ROOT, env=variables, stderr=log,
        )  # fmt: skip
    told = (tmp_path / "log").read_text
    try:
        onlooker.ask(SUBMIT)
        onlooker.wait_for(STATES, lambda said: said == "done done", told)
        place.wait_until(lambda: len(engines(process.pid)) == 1, 60, told)
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        process.wait(10)
        assert psutil.wait_procs(below, timeout=60)[1] == []
        if number == signal.SIGTERM:
            assert process.returncode == 0, told()
            assert [*(tmp_path / "home" / "work").iterdir()] == []
    finally:
        process.kill()
        process.wait()
        onlooker.end()
