"""A suite with a pair of sisters, and models measured on both."""

from __future__ import annotations

import numpy as np

from leaderboard.models import Result, ScoreVector, Suite, Variant
from leaderboard.samples import vectors
from leaderboard.tasks import sisters
from tests.leaderboard import factories as make

N = 150
"""Questions."""
DIFFERS = "the same questions under letters"


def make_suite(name: str = "demo") -> Suite:
    """Facts as a cloze, whose sister are the same under letters; sums have none."""
    suite = make.make_suite(name, benchmarks=("facts", "sums"), styles=("cloze", "mmlu"))
    suite.sisters = [{"task": "facts", "sister": "facts_mmlu", "differs": DIFFERS}]
    suite.save()
    return suite


def measure(suite: Suite, models: int, *, start: int = 0, n: int = N) -> list[Variant]:
    """Models of rising skill, alike on both."""
    found = []
    for number in range(start, start + models):
        skill = 0.15 + 0.7 * (number % 12) / 12
        variant = make.make_variant(f"lab/m{number:02}")
        for entry in suite.entries.filter(benchmark="facts"):
            make.finish(make.queued_run(variant, entry), skill=skill, n=n, seed=number)
        found.append(variant)
    return found


def lift(variant: Variant, share: float) -> None:
    """Let the model be right on so many of the questions of facts that it got wrong."""
    vector = ScoreVector.objects.get(
        result=Result.objects.get(
            run__variant=variant, run__task__name="facts", subset="", metric="acc"
        )
    )
    scores = vectors.unpack_values(bytes(vector.values), N).astype(np.float64)
    wrong = np.flatnonzero(scores == 0)
    scores[wrong[: round(share * len(wrong))]] = 1.0
    vector.values = vectors.pack_values(scores)
    vector.save()


def an_hour_later() -> None:
    """Every pair may be looked at again."""
    sisters._looked.clear()
