"""Sample files and records of a few models, which agree with their numbers in the database."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.db import transaction

from demo.generated.benchmarks import METRIC, MODE, STYLES, Column
from demo.generated.fill import Filled
from demo.generated.samples import Samples
from evalcore import __version__
from evalcore.building import task_of
from evalcore.digest import digest_of
from evalcore.keys import run_key
from evalcore.model.base import SCORING_VERSION
from evalcore.record import ResultRow, RunRecord, SampleFile, write_samples
from evalcore.score.numbers.aggregate import aggregate
from evalcore.score.sample import Sample
from evalcore.score.scoring import of_samples
from evalcore.task.asking.shot_rule import draws_at_random, shot_rule
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.identity.digest import json_ready, resolved_config
from leaderboard.models import Artifact, Result, Run
from leaderboard.models.run import State
from leaderboard.samples import StoredFile, vectors
from leaderboard.samples import store as artifacts

IN_EVERY_STYLE = 2
"""So many of the models have files in every style; the others in the benchmark's own."""


def write_files(filled: Filled, *, models: int) -> int:
    """Files of the largest benchmark's runs of the first so many models; how many runs."""
    largest = max((column.benchmark for column in filled.columns), key=lambda asked: asked.n)
    of_style = {column.style: column for column in filled.columns if column.benchmark is largest}
    chosen = _complete(filled, list(of_style.values()))[:models]
    runs = 0
    for place, variant in enumerate(chosen):
        styles = STYLES if place < IN_EVERY_STYLE else (largest.own,)
        for style in styles:
            column = of_style[style]
            _write(Run.objects.get(variant=variant, run_key=column.run_key), column)
            runs += 1
    return runs


def _complete(filled: Filled, columns: Sequence[Column]) -> list[int]:
    """Variants with a comparable result in each of the columns, in order."""
    done = [
        set(
            Run.objects.filter(
                state=State.DONE, run_key=column.run_key, docs_digest=column.layout.docs_digest
            ).values_list("variant_id", flat=True)
        )
        for column in columns
    ]
    return [variant for variant in filled.variants if all(variant in having for having in done)]


def _write(run: Run, column: Column) -> None:
    """Write samples and record of a run, and store what they say of its parts."""
    found = vectors.matrix([run.results.get(subset="").pk])
    if found is None:
        raise ValueError(f"{run}: its result has no scores by question")
    samples = list(Samples(column, found.scores[0], name=run.variant.hub_model.repo_id))
    results = _results(column, samples)
    with tempfile.TemporaryDirectory() as folder:
        file, record = Path(folder, "samples.parquet"), Path(folder, "record.json")
        written = write_samples(file, samples)
        _record(run, column, results, written).write(record)
        stored = [
            artifacts.store(record, kind=Artifact.Kind.RECORD),
            artifacts.store(file, kind=Artifact.Kind.SAMPLES, rows=written.rows),
        ]
    _store(run, results, stored)


def _results(column: Column, samples: Sequence[Sample]) -> list[ResultRow]:
    """As the engine makes them of these samples."""
    by_task: dict[str, list[Sample]] = {}
    for sample in samples:
        by_task.setdefault(sample["task"], []).append(sample)
    leaves = list(column.spec.leaves())
    scored = [of_samples(task_of(leaf, mode=MODE), by_task[leaf.name]) for leaf in leaves]
    keys = {
        spec.name: run_key(spec, shots=column.benchmark.shots, mode=MODE)
        for spec in (column.spec, *leaves)
    }
    rows, _ = aggregate(column.spec, scored, keys, mode=MODE)
    return rows


@transaction.atomic
def _store(run: Run, rows: Sequence[ResultRow], stored: Sequence[StoredFile]) -> None:
    Result.objects.bulk_create(
        Result(
            run=run,
            task_name=row.task,
            subset=row.subset,
            metric=row.metric,
            filter=row.filter,
            value=row.value,
            stderr=row.stderr,
            low=row.low,
            high=row.high,
            n=row.n,
            higher_is_better=row.higher_is_better,
            comparability_key=row.comparability_key,
        )
        for row in rows
        if row.subset
    )
    Artifact.objects.bulk_create(
        Artifact(run=run, kind=file.kind, sha256=file.sha256, bytes=file.bytes, rows=file.rows)
        for file in stored
    )


def _record(run: Run, column: Column, results: list[ResultRow], samples: SampleFile) -> RunRecord:
    asked, variant, spec = column.benchmark, run.variant, column.spec
    rule = shot_rule(spec, asked.shots, mode=MODE)
    requests = asked.n * asked.choices
    started = run.started or run.created
    finished = run.finished or started
    return RunRecord(
        task=column.name,
        version=spec.version,
        benchmark=asked.name,
        style=column.style,
        primary_metric=METRIC,
        chance=asked.chance,
        shots=asked.shots,
        shot_rule=rule,
        shot_seed=run.fewshot_seed if draws_at_random(rule) else None,
        mode=MODE,
        limit=None,
        config_digest=column.config_digest,
        docs_digest=run.docs_digest,
        run_key=column.run_key,
        results=results,
        samples=samples,
        engine={"name": "evalcore", "version": __version__, "scoring_version": SCORING_VERSION},
        model={
            "repository": variant.hub_model.repo_id,
            "commit": variant.commit,
            "dtype": variant.dtype,
            "tokenizer_digest": digest_of("invented tokenizer"),
            "bos_policy": "tokenizer",
            "max_length": 8192,
        },
        datasets={
            task: {
                "path": run.task.dataset,
                "name": None,
                "split": "test",
                "commit": run.task.dataset_commit,
                "documents": asked.n,
            }
            for task in column.tasks
        },
        settings={"mode": MODE, "num_fewshot": asked.shots, "fewshot_seed": run.fewshot_seed},
        environment=run.environment,
        requests={"total": requests, "journalled": 0, "truncated": 0},
        paths={"packed": requests},
        started=started.isoformat(timespec="seconds"),
        seconds=(finished - started).total_seconds(),
        configs={leaf.name: resolved_config(leaf) for leaf in spec.leaves()},
        groups=_groups(spec),
    )


def _groups(spec: TaskSpec | GroupSpec) -> dict[str, Any]:
    if isinstance(spec, TaskSpec):
        return {}
    return {
        spec.name: {
            "alias": spec.alias,
            "version": spec.version,
            "members": [member.name for member in spec.members],
            "aggregate_metric_list": json_ready(spec.aggregate_metric_list),
        }
    }
