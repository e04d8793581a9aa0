"""Finished runs that the engine really made: small tasks of every kind, answered by a toy model.

Unlike the runs of `factories.py` these can be verified and written in every form.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from evalcore.evaluation import Evaluation
from evalcore.record import RunRecord
from leaderboard.models import Run, TaskVersion, Variant
from leaderboard.models.run import Artifact
from leaderboard.queue import claims
from leaderboard.samples import store as artifacts
from tests.evalcore.toys import evaluated, write_toys
from tests.leaderboard import factories as make

ALL = ("toy_choice", "toy_shots", "toy_likely", "toy_rolling", "toy_written", "toy_group")


def finished(
    folder: Path,
    names: Sequence[str] = ALL,
    *,
    publish: str = "full",
    repo_id: str = "lab/toy",
) -> dict[str, Run]:
    """By task a finished run of one model; `publish` is what the tasks say of their samples."""
    tasks = write_toys(folder)
    if publish != "full":
        for file in tasks.glob("*.yaml"):
            keys = yaml.safe_load(file.read_text())
            if "output_type" in keys:
                about = {"benchmark": keys["task"], "version": 1, **keys.get("metadata", {})}
                keys["metadata"] = {**about, "publish_samples": publish}
                file.write_text(yaml.safe_dump(keys))
    return {name: _stored(evaluated(tasks, name)[0], repo_id) for name in names}


def _stored(evaluation: Evaluation, repo_id: str) -> Run:
    variant = Variant.objects.filter(hub_model__repo_id=repo_id).first()
    variant = variant or make.make_variant(repo_id)
    with tempfile.TemporaryDirectory() as folder:
        path, samples = evaluation.write(Path(folder), evaluation.record.task)
        record = _of_the_site(RunRecord.read(path), variant)
        record.write(path)
        run = _queued(variant, record)
        held = make.claimed(run)
        stored = [
            artifacts.store(path, kind=Artifact.Kind.RECORD),
            artifacts.store(samples, kind=Artifact.Kind.SAMPLES, rows=record.samples.rows),
        ]
        claims.complete(held.claim.token, run, record, stored)
    return held.release_companions()


def _of_the_site(record: RunRecord, variant: Variant) -> RunRecord:
    """The record as a worker would have it: of a model on the Hub, its data read from a commit."""
    model = {
        **record.model,
        "repository": variant.hub_model.repo_id,
        "commit": variant.commit,
        "dtype": variant.dtype,
    }
    datasets = {task: {**pins, "commit": "c" * 40} for task, pins in record.datasets.items()}
    return replace(record, model=model, datasets=datasets)


def _queued(variant: Variant, record: RunRecord) -> Run:
    task = TaskVersion.objects.create(
        name=record.task,
        version=record.version,
        benchmark=record.benchmark or record.task,
        style=record.style or ("generate" if record.generation else "cloze"),
        config_digest=record.config_digest,
        primary_metric=record.primary_metric,
        chance=record.chance,
        dataset="toys",
    )
    run = Run(
        variant=variant,
        task=task,
        shots=record.shots if isinstance(record.shots, int) else 0,
        mode=record.mode,
        run_key=record.run_key,
        needed_bytes=variant.needed_bytes,
    )
    claims.enqueue([run], by="a visitor")
    return run
