"""Rows to begin with: a worker, a variant, and runs of it in the queue; and what a worker does with
these, done in the test's own process."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import Any

from django.db.models.functions import Now

from evalcore.engine import VERSION
from evalcore.record import ResultRow, RunRecord, SampleFile, write_samples
from evalcore.task.identity.digest import docs_digest
from leaderboard.models import HubModel, Run, Suite, SuiteEntry, TaskVersion, Variant, Worker
from leaderboard.queue import claims
from leaderboard.samples import StoredFile
from leaderboard.samples import store as artifacts
from runners.engine import Keeper
from runners.evaluate import evaluate_claim
from tests.runners.standin import RECORD, ROW, key_of

GIB = 2**30
DIGESTS = [f"{n:064}" for n in range(100)]
"""Of the questions in `files`."""


def worker(name: str = "ada", memory_bytes: int = 16 * GIB) -> Worker:
    return Worker.objects.create(
        name=name,
        device="cpu",
        memory_bytes=memory_bytes,
        dtypes=["float32", "bfloat16"],
        started=Now(),
        seen=Now(),
    )


def variant(name: str = "tiny/llama", commit: str = "a" * 40, dtype: str = "float32") -> Variant:
    model, _ = HubModel.objects.get_or_create(repo_id=name)
    found, _ = Variant.objects.get_or_create(
        hub_model=model, commit=commit, dtype=dtype, defaults={"parameters": 1_000_000}
    )
    return found


def task(name: str, version: str = "1.0") -> TaskVersion:
    found, _ = TaskVersion.objects.get_or_create(
        name=name,
        version=version,
        defaults={
            "benchmark": name,
            "style": "cloze",
            "config_digest": "c" * 64,
            "primary_metric": "acc",
        },
    )
    return found


def unsaved(task_name: str = "arc", **fields: Any) -> Run:
    of = fields.pop("variant", None) or variant()
    shots = fields.pop("shots", 0)
    fields.setdefault("run_key", key_of(task_name, shots))
    fields.setdefault("needed_bytes", of.needed_bytes)
    return Run(variant=of, task=task(task_name), shots=shots, **fields)


def queued(*task_names: str, **fields: Any) -> list[Run]:
    return claims.enqueue([unsaved(name, **fields) for name in task_names], by="a visitor")


def claimed_by(worker: Worker) -> claims.Claim:
    claim = claims.claim_next(worker)
    assert claim is not None
    return claim


def evaluate_next(
    worker: Worker, stopping: threading.Event | None = None, keeper: Keeper | None = None
) -> None:
    """Claim what is next in the queue, and evaluate it."""
    claim, stops = claimed_by(worker), stopping or threading.Event()
    if keeper is not None:
        evaluate_claim(claim, worker, stops, keeper)
        return
    with Keeper() as own:
        evaluate_claim(claim, worker, stops, own)


def evaluate(
    behaviour: str,
    *tasks: str,
    by: Worker | None = None,
    stopping: threading.Event | None = None,
    **fields: Any,
) -> list[Run]:
    """Queue runs of a stand-in that behaves so, and evaluate them; the runs afterwards."""
    runs = queued(*(tasks or ("arc",)), variant=variant(f"standin/{behaviour}"), **fields)
    evaluate_next(by or worker(), stopping)
    for run in runs:
        run.refresh_from_db()
    return runs


def entry(run: Run, metric: str = "acc") -> SuiteEntry:
    suite, _ = Suite.objects.get_or_create(name="styles", version="1", defaults={"title": "Styles"})
    return SuiteEntry.objects.create(
        suite=suite,
        position=suite.entries.count(),
        benchmark=run.task.benchmark,
        title=run.task.name,
        style="cloze",
        own=True,
        task=run.task,
        shots=run.shots,
        metric=metric,
        run_key=run.run_key,
    )


def result(task_name: str, **fields: Any) -> ResultRow:
    given: dict[str, Any] = {
        "task": task_name,
        "stderr": 0.05,
        "low": 0.4,
        "high": 0.6,
        "n": 100,
        "comparability_key": "k" * 64,
    }
    return ResultRow(**{**ROW, **given, **fields})


def record(run: Run, *results: ResultRow, **fields: Any) -> RunRecord:
    given: dict[str, Any] = {
        **{"shot_rule": "none", "shot_seed": None, "config_digest": "c" * 64},
        "docs_digest": docs_digest(DIGESTS),
        "task": run.task.name,
        "version": run.task.version,
        "benchmark": run.task.benchmark,
        "shots": run.shots,
        "mode": run.mode,
        "run_key": run.run_key,
        "results": list(results) or [result(run.task.name)],
        "samples": SampleFile(file="samples.parquet", sha256=files()[1].sha256, rows=100),
        "engine": {"name": "evalcore", "version": VERSION},
        "model": {
            "repository": run.variant.hub_model.repo_id,
            "commit": run.variant.commit,
            "dtype": run.variant.dtype,
        },
        "datasets": {
            run.task.name: {
                **{"path": "plumbline/demo", "name": None, "split": "test"},
                **{"commit": "e" * 40, "documents": 100},
            }
        },
        "environment": {"python": "3.11"},
        "requests": {"total": 400, "journalled": 0, "truncated": 0},
        "paths": {"plain": 400},
    }
    return RunRecord(**{**RECORD, **given, **fields})


def files() -> list[StoredFile]:
    """A record that nobody reads again, and real samples of a hundred questions, half right."""
    scores = ({"metric": "acc", "filter": "none", "value": float(n % 2)} for n in range(100))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "samples.parquet")
        write_samples(
            path,
            (
                {"task": "arc", "doc_id": n, "doc_digest": DIGESTS[n], "scores": [score]}
                for n, score in enumerate(scores)
            ),
        )
        samples = artifacts.store(path, kind="samples", rows=100)
    return [StoredFile(kind="record", sha256="1" * 64, bytes=10, rows=None), samples]
