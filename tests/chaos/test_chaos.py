"""Whatever happens to the runners, no evaluation is lost, done twice, or comes to other numbers.

Each kind of fault strikes once, at a moment drawn by a fixed seed. `make chaos` plays as many
rounds as one likes, at other moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any

import pytest

from tests.chaos import kinds, rounds
from tests.chaos.arena import Arena, opened
from tests.runners import place
from tests.services import missing

SEED = 20_261_125
TRIES = 4
"""Rounds of a kind until it has found something to strike."""

pytestmark = pytest.mark.services

Playing = tuple[Arena, list[Any], float, Iterator[int]]
ROUNDS = [(embedded, kind) for embedded in (False, True) for kind in kinds.of(embedded=embedded)]


@contextmanager
def playing(tmp_path_factory: pytest.TempPathFactory, embedded: bool) -> Iterator[Playing]:
    """The arena, what an undisturbed model scores and how long it takes, and numbers of models."""
    folder = tmp_path_factory.mktemp("chaos")
    tasks = place.write_tasks(tmp_path_factory.mktemp("tasks") / "tasks")
    models = TRIES * len(kinds.of(embedded=embedded)) + 2
    with opened(folder, models, tasks, embedded=embedded) as arena:
        expected, _ = rounds.undisturbed(arena, 0)
        _, seconds = rounds.undisturbed(arena, 1)  # with warm caches
        yield arena, expected, seconds, iter(range(2, models))


@pytest.fixture(scope="module")
def enter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bool], Playing]]:
    """Opens an arena, or gives the one that is open; there is one at a time."""
    now: dict[bool, Playing] = {}
    with ExitStack() as stack:

        def enter_one(embedded: bool) -> Playing:
            if embedded not in now:
                now.clear()
                stack.close()
                now[embedded] = stack.enter_context(playing(tmp_path_factory, embedded))
            return now[embedded]

        yield enter_one


@pytest.mark.parametrize(
    ("embedded", "kind"),
    ROUNDS,
    ids=[f"{'embedded' if embedded else 'services'}: {kind}" for embedded, kind in ROUNDS],
)
def test_nothing_is_lost_when(enter: Callable[[bool], Playing], embedded: bool, kind: str) -> None:
    arena, expected, seconds, numbers = enter(embedded)
    if not kinds.can_play(arena, kind):
        missing(f"NOT PLAYED: {kind}: it takes {kinds.NEEDS[kind]}")
    strike = kinds.of(embedded=embedded)[kind]
    rng = Random(f"{SEED} {kind}")
    for _ in range(TRIES):
        if rounds.play(arena, next(numbers), kind, strike, expected, rng, seconds).struck:
            return
    pytest.fail(f"{kind}: found nothing to strike in {TRIES} rounds")
