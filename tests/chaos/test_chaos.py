"""Whatever happens to the runners, no evaluation is lost, done twice, or comes to other numbers.

Thirty rounds: each kind of fault strikes at a moment drawn by a fixed seed, and those that may come
at any moment of a run strike twice. `make chaos` plays as many rounds as one likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.chaos import faults, rounds
from tests.chaos.arena import Arena, opened
from tests.runners import place
from tests.services import missing

SEED = 20_261_125
TRIES = 4
"""Rounds of a kind until it has found something to strike."""

pytestmark = pytest.mark.services

Opened = tuple[Arena, list[Any], float, Iterator[int]]


@pytest.fixture(scope="module")
def playing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """The arena, what an undisturbed model scores and how long it takes, and numbers of models."""
    folder = tmp_path_factory.mktemp("chaos")
    tasks = place.write_tasks(tmp_path_factory.mktemp("tasks") / "tasks")
    with opened(folder, TRIES * len(ROUNDS) + 2, tasks) as arena:
        expected, _ = rounds.undisturbed(arena, 0)
        _, seconds = rounds.undisturbed(arena, 1)  # with warm caches
        yield arena, expected, seconds, iter(range(2, TRIES * len(ROUNDS) + 2))


ALL = (*faults.ALWAYS, *faults.NEEDS)
AGAIN = (
    *("worker killed", "child killed", faults.WHILE_IT_ANSWERS, "supervisor killed"),
    *("worker stopped beyond its lease", "worker asked to stop", "Redis killed and flushed"),
    *("PostgreSQL restarted", "connections cut", "disk full"),
)
"""What may strike at any moment of a run: once more, at another one."""

ROUNDS = [*((kind, 1) for kind in ALL), *((kind, 2) for kind in AGAIN)]


@pytest.mark.parametrize(("kind", "time"), ROUNDS, ids=[f"{k}-{time}" for k, time in ROUNDS])
def test_nothing_is_lost_when(kind: str, time: int, playing: Opened) -> None:
    arena, expected, seconds, numbers = playing
    strike = faults.kinds(arena).get(kind)
    if strike is None:
        missing(f"NOT PLAYED: {kind}: it takes {faults.NEEDS[kind]}")
    rng = Random(f"{SEED} {kind}" if time == 1 else f"{SEED} {kind} {time}")
    for _ in range(TRIES):
        if rounds.play(arena, next(numbers), kind, strike, expected, rng, seconds).struck:
            return
    pytest.fail(f"{kind}: found nothing to strike in {TRIES} rounds")
