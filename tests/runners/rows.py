"""Rows to begin with: a worker, a variant, and runs of it in the queue."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

from django.db.models.functions import Now

from evalcore.engine import VERSION
from evalcore.record import ResultRow, RunRecord, SampleFile, write_samples
from leaderboard.models import HubModel, Run, Suite, SuiteEntry, TaskVersion, Variant, Worker
from leaderboard.queue import claims
from leaderboard.samples import StoredFile
from leaderboard.samples import store as artifacts

GIB = 2**30


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


def key_of(name: str, shots: int = 0) -> str:
    return hashlib.sha256(f"{name}/{shots}".encode()).hexdigest()


def unsaved(task_name: str = "arc", **fields: Any) -> Run:
    of = fields.pop("variant", None) or variant()
    shots = fields.pop("shots", 0)
    fields.setdefault("run_key", key_of(task_name, shots))
    fields.setdefault("needed_bytes", of.needed_bytes)
    return Run(variant=of, task=task(task_name), shots=shots, **fields)


def queued(*task_names: str, **fields: Any) -> list[Run]:
    return claims.enqueue([unsaved(name, **fields) for name in task_names], by="a visitor")


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
        "subset": "",
        "metric": "acc",
        "filter": "none",
        "value": 0.5,
        "stderr": 0.05,
        "low": 0.4,
        "high": 0.6,
        "interval": "normal",
        "n": 100,
        "higher_is_better": True,
        "comparability_key": "k" * 64,
    }
    return ResultRow(**{**given, **fields})


def record(run: Run, *results: ResultRow, **fields: Any) -> RunRecord:
    given: dict[str, Any] = {
        "task": run.task.name,
        "version": run.task.version,
        "benchmark": run.task.benchmark,
        "style": "cloze",
        "primary_metric": "acc",
        "chance": 0.25,
        "shots": run.shots,
        "shot_rule": "none",
        "shot_seed": None,
        "mode": run.mode,
        "limit": None,
        "config_digest": "c" * 64,
        "docs_digest": "d" * 64,
        "run_key": run.run_key,
        "results": list(results) or [result(run.task.name)],
        "samples": SampleFile(file="samples.parquet", sha256="5" * 64, rows=100),
        "engine": {"name": "evalcore", "version": VERSION},
        "model": {
            "repository": run.variant.hub_model.repo_id,
            "commit": run.variant.commit,
            "dtype": run.variant.dtype,
        },
        "datasets": {run.task.name: {"path": "plumbline/demo", "commit": "e" * 40}},
        "settings": {},
        "environment": {"python": "3.11"},
        "requests": {"total": 400, "journalled": 0, "truncated": 0},
        "paths": {"plain": 400},
        "started": "2026-11-01T00:00:00+00:00",
        "seconds": 1.0,
    }
    return RunRecord(**{**given, **fields})


def files() -> list[StoredFile]:
    """A record that nobody reads again, and real samples of a hundred questions, half right."""
    scores = ({"metric": "acc", "filter": "none", "value": float(n % 2)} for n in range(100))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "samples.parquet")
        write_samples(
            path,
            (
                {"task": "arc", "doc_id": n, "doc_digest": f"{n:064}", "scores": [score]}
                for n, score in enumerate(scores)
            ),
        )
        samples = artifacts.store(path, kind="samples", rows=100)
    return [StoredFile(kind="record", sha256="1" * 64, bytes=10, rows=None), samples]
