"""A suite of invented benchmarks with every run of every invented model: the whole story.

Tables are filled column by column, one benchmark in one style at a time, so that memory holds the
answers to one column and no more. All of it is one transaction: stopped half-way it leaves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from demo.generated.answers import Answers
from demo.generated.benchmarks import METRIC, STYLES, VERSION, Benchmark, Column
from demo.generated.population import Population
from demo.generated.runs import WORKERS, Asked, Runs
from demo.generated.standings import cells
from demo.generated.tables import insert, next_key, reset_sequences, without_indexes
from evalcore.digest import digest_of
from leaderboard.models import (
    HubModel,
    Result,
    Run,
    RunCost,
    ScoreVector,
    Submission,
    Suite,
    SuiteEntry,
    TaskVersion,
    Variant,
    Worker,
)

SUITE = "generated"
NOTICE = (
    "Everything in this suite is invented: models, questions and answers. Nothing was measured."
)
OF_MODEL = ("repo_id", "official", "flag_reason", "hub_state", "renamed_to")
OF_VARIANT = (
    *("commit", "dtype", "architecture", "model_type", "parameters", "licence", "kind"),
    *("base_model", "merged", "moe", "weights_digest"),
)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Filled:
    """What now lies in the database."""

    suite: Suite
    columns: Sequence[Column]
    variants: Sequence[int]
    """Primary keys in the population's order."""
    runs: int
    """Finished ones."""


def fill(
    population: Population, benchmarks: Sequence[Benchmark], *, seed: int, until: datetime, say: Say
) -> Filled:
    """Insert everything; `say` hears of every benchmark that is done."""
    columns = [Column(asked, style) for asked in benchmarks for style in STYLES]
    with transaction.atomic():
        suite, tasks = _catalogue(columns)
        variants = _variants(population)
        submissions = _submissions(population, variants, suite)
        _workers(until)
        runs = Runs(population, variants, submissions, seed)
        kinds = cells(len(population), columns, seed=seed)
        with without_indexes(Run, RunCost, Result, ScoreVector, Asked):
            for number, asked in enumerate(benchmarks):
                answers = Answers(asked, population, seed)
                for at, column in enumerate(columns):
                    if column.benchmark is asked:
                        runs.insert(column, tasks[column.name], answers, kinds[:, at])
                say(f"{number + 1}/{len(benchmarks)} {asked.title}: {asked.n} questions")
            say("indexes and keys")
        reset_sequences(HubModel, Variant, Result, Asked)
    return Filled(suite, columns, variants, runs.finished)


def _catalogue(columns: Sequence[Column]) -> tuple[Suite, dict[str, TaskVersion]]:
    suite = Suite.objects.create(
        name=SUITE,
        version=VERSION,
        title="Generated board",
        description=f"{len(columns)} invented columns for a look at a board of full size.",
        notice=NOTICE,
        changelog={VERSION: "first version"},
        digest=digest_of([column.run_key for column in columns]),
    )
    tasks = {column.name: TaskVersion.objects.create(**_task(column)) for column in columns}
    SuiteEntry.objects.bulk_create(
        SuiteEntry(
            suite=suite,
            position=position,
            benchmark=column.benchmark.name,
            title=column.benchmark.title,
            style=column.style,
            own=column.style == column.benchmark.own,
            task=tasks[column.name],
            shots=column.benchmark.shots,
            metric=METRIC,
            people=column.benchmark.people,
            people_source="invented" if column.benchmark.people else "",
            run_key=column.run_key,
            comparability_key=column.comparability_key(column.layout),
        )
        for position, column in enumerate(columns)
    )
    return suite, tasks


def _task(column: Column) -> dict[str, object]:
    asked = column.benchmark
    return {
        "name": column.name,
        "version": VERSION,
        "benchmark": asked.name,
        "style": column.style,
        "config_digest": column.config_digest,
        "primary_metric": METRIC,
        "chance": asked.chance,
        "dataset": f"generated/{asked.name}",
        "changelog": {VERSION: "first version"},
        "known_gaps": "Its questions are invented and mean nothing.",
        "dataset_commit": digest_of([asked.name, "data"])[:40],
    }


def _variants(population: Population) -> list[int]:
    """Insert models and their variants; the variants' keys in the population's order."""
    repositories: dict[str, int] = {}
    key = next_key(HubModel)
    rows = []
    for made in population.models:
        if made.repo_id not in repositories:
            repositories[made.repo_id] = key
            released = made.added - timedelta(days=len(made.repo_id))
            rows.append(
                (key, made.added, made.added, released, *(getattr(made, of) for of in OF_MODEL))
            )
            key += 1
    insert(HubModel, ("id", "first_seen", "hub_checked", "released", *OF_MODEL), rows)
    first = next_key(Variant)
    numbered = enumerate(population.models, first)
    insert(
        Variant,
        ("id", "hub_model_id", "created", *OF_VARIANT),
        (
            (at, repositories[made.repo_id], made.added, *(getattr(made, of) for of in OF_VARIANT))
            for at, made in numbered
        ),
    )
    return list(range(first, first + len(population)))


def _submissions(population: Population, variants: Sequence[int], suite: Suite) -> list[UUID]:
    keys = [_uuid([made.repo_id, made.commit, made.dtype]) for made in population.models]
    insert(
        Submission,
        ("id", "created", "variant_id"),
        zip(keys, (made.added for made in population.models), variants, strict=True),
        requested_revision="main",
        suite_id=suite.pk,
    )
    return keys


def _workers(until: datetime) -> None:
    for name in WORKERS:
        about = {"device": "invented GPU", "memory_bytes": 80 * 10**9, "started": until}
        Worker.objects.get_or_create(name=name, defaults={**about, "seen": until})


def _uuid(of: Sequence[str]) -> UUID:
    return UUID(hex=digest_of(of)[:32], version=4)
