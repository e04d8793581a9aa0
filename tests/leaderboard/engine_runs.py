"""Finished runs that the engine really made: small tasks of every kind, answered by a toy model.

Unlike the runs of `factories.py` these can be verified and written in every form.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from evalcore.evaluation import Evaluation
from evalcore.library import evaluate
from evalcore.model.fake import FakeLM
from evalcore.record import RunRecord
from leaderboard.models import Run, TaskVersion, Variant
from leaderboard.models.run import Artifact
from leaderboard.queue import claims
from leaderboard.samples import store as artifacts
from tests import tiny
from tests.drawn import drawn, encoded, write_rows
from tests.evalcore.toys import evaluated, write_toys
from tests.leaderboard import factories as make
from tests.senses import sound_file, sound_keys, tone

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
        _published(tasks, publish)
    return {name: stored(evaluated(tasks, name)[0], repo_id) for name in names}


def thinking(folder: Path, *, publish: str = "full", **arguments: Any) -> Run:
    """A finished run of `toy_written` by a real model that writes at random, whose thoughts end at
    `</think>`; `arguments` are told it besides."""
    model = tiny.make(folder / "model")
    tasks = write_toys(folder)
    if publish != "full":
        _published(tasks, publish)
    (done,) = evaluate(
        "hf",
        "toy_written",
        model_args={"pretrained": str(model), "think_end_token": "</think>", **arguments},
        include_path=tasks,
        device="cpu",
        bootstrap_iters=0,
    )
    return stored(done, "lab/thinker")


def _published(tasks: Path, publish: str) -> None:
    for file in tasks.glob("*.yaml"):
        keys = yaml.safe_load(file.read_text())
        if "output_type" in keys:
            about = {"benchmark": keys["task"], "version": 1, **keys.get("metadata", {})}
            keys["metadata"] = {**about, "publish_samples": publish}
            file.write_text(yaml.safe_dump(keys))


def seen(folder: Path, *, publish: str = "full") -> Run:
    """A finished run on questions with images: a small one, a large one that lets its surroundings
    through, two at once, and two of which the second is missing."""
    sizes = ((40, 24), (900, 640), (64, 64), (50, 30))
    rows = [
        {
            "question": f"What is on picture {number}?",
            "answer": "a line",
            "first": encoded(drawn(number, mode="RGBA" if number == 1 else "RGB", size=size)),
            "second": encoded(drawn(number + 9)) if number == 2 else None,
        }
        for number, size in enumerate(sizes)
    ]
    file = write_rows(folder / "test.parquet", rows, "first", "second")
    keys = {
        "task": "pictures",
        "dataset_path": "parquet",
        "dataset_kwargs": {
            "data_files": {"test": str(file)},
            "cache_dir": str(folder / "cache"),
        },
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "<image>{% if second %}<image>{% endif %}{{question}}",
        "doc_to_target": "answer",
        "doc_to_image": ["first", "second"],
        "generation_kwargs": {"until": ["\n"]},
        "metric_list": [{"metric": "exact_match"}],
        "metadata": {"benchmark": "pictures", "version": 1, "publish_samples": publish},
    }
    (folder / "pictures.yaml").write_text(yaml.safe_dump(keys))
    (evaluation,) = evaluate(FakeLM(lambda *_: "a line"), "pictures", include_path=folder)
    return stored(evaluation, "lab/seeing")


def heard(folder: Path) -> Run:
    """A finished run on two questions with sounds, whose text stays offline."""
    rows = [
        {"question": f"What is sound {number}?", "answer": "x", "clip": sound_file(tone(number))}
        for number in range(2)
    ]
    keys = {
        **sound_keys(folder, rows, "clip"),
        "task": "sounds",
        "metadata": {"benchmark": "sounds", "version": 1, "publish_samples": "ids"},
    }
    (folder / "sounds.yaml").write_text(yaml.safe_dump(keys))
    (evaluation,) = evaluate(FakeLM(lambda *_: "x"), "sounds", include_path=folder)
    return stored(evaluation, "lab/hearing")


def stored(evaluation: Evaluation, repo_id: str) -> Run:
    """A finished run of what the engine made."""
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
    task, _ = TaskVersion.objects.get_or_create(
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
