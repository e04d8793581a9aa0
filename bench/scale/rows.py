"""A queue as long as is asked for, written in bulk: models of three sizes, asked for by many."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from django.db import connection
from django.utils import timezone

from leaderboard.models import HubModel, Run, TaskVersion, Variant, Worker
from leaderboard.queue import fairness

PARAMETERS = ((1 * 10**9, 0.6), (8 * 10**9, 0.3), (70 * 10**9, 0.1))
"""Sizes of models and their shares."""
BYTES_PER_PARAMETER = 2
MEMORY = 200 * 10**9
"""Of each worker: every model fits."""
BATCH = 5000
GREEDY = "greedy"
ARRIVALS = timedelta(hours=24)
"""All is asked for within a day."""


def fill(runs: int, runs_per_model: int, submitters: int, rng: Random) -> set[int]:
    """Queue this many runs. One submitter asks for half of all models at once, at the beginning;
    the others for the rest, in the course of a day. Turns are by the rule of `queue.fairness`.

    The variants of the one who asked for so many.
    """
    tasks = [_task(number) for number in range(runs_per_model)]
    models = runs // runs_per_model
    began = timezone.now() - ARRIVALS
    hub_models = HubModel.objects.bulk_create(
        [HubModel(repo_id=f"scale/m{number}") for number in range(models)], batch_size=BATCH
    )
    sizes = rng.choices(*zip(*PARAMETERS, strict=True), k=models)
    variants = Variant.objects.bulk_create(
        [
            Variant(hub_model=model, commit=f"{number:040x}", dtype="bfloat16", parameters=size)
            for number, (model, size) in enumerate(zip(hub_models, sizes, strict=True))
        ],
        batch_size=BATCH,
    )
    asked = [
        (GREEDY, began)
        if number < models // 2
        else (f"s{rng.randrange(submitters)}", began + rng.random() * ARRIVALS)
        for number in range(models)
    ]
    queued: list[Run] = []
    next_turn: dict[str, datetime] = {}
    for number in sorted(range(models), key=lambda number: asked[number][1]):
        who, when = asked[number]
        due = max(when, next_turn.get(who, when))
        next_turn[who] = due + fairness.gap(sizes[number])
        queued += [
            Run(
                variant=variants[number], task=task, shots=0, run_key=f"{place:064x}",
                needed_bytes=sizes[number] * BYTES_PER_PARAMETER, due=due, created=when,
            )
            for place, task in enumerate(tasks)
        ]  # fmt: skip
    Run.objects.bulk_create(queued, batch_size=BATCH)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return {variants[number].pk for number in range(models // 2)}


def _task(number: int) -> TaskVersion:
    return TaskVersion.objects.create(
        name=f"scale{number}", version="1.0", benchmark=f"scale{number}", style="cloze",
        config_digest="c" * 64, primary_metric="acc",
    )  # fmt: skip


def workers(count: int) -> list[Worker]:
    now = timezone.now()
    return Worker.objects.bulk_create(
        Worker(
            name=f"w{number}", device="made up", memory_bytes=MEMORY,
            dtypes=["bfloat16"], started=now, seen=now,
        )
        for number in range(count)
    )  # fmt: skip
