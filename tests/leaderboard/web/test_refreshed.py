"""Values that are dear to make: quick ones are of this moment, slow ones nobody waits for."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from leaderboard.web import refreshed
from leaderboard.web.refreshed import Refreshed


class Counter:
    """Gives 1, 2, 3 …; as slow as `seconds` of computing say, held up by `gate`."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.calls = seconds, 0
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self) -> int:
        self.calls += 1
        number = self.calls
        assert self.gate.wait(10)
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            pass
        return number


QUICK = refreshed.QUICK


@pytest.fixture
def clock(monkeypatch: Any) -> Any:
    """Moves the time by which values grow old; what they cost is computed for real."""
    monkeypatch.setattr(refreshed, "QUICK", QUICK)  # other tests have nothing kept
    past = [0.0]
    really = time.monotonic

    def move(seconds: float) -> None:
        past[0] += seconds

    monkeypatch.setattr(refreshed.time, "monotonic", lambda: really() + past[0])
    return move


def test_what_is_made_quickly_is_of_this_moment() -> None:
    value = Refreshed(Counter())
    assert [value.get() for _ in range(3)] == [1, 2, 3]


@pytest.mark.django_db
def test_nobody_waits_for_what_is_slow_but_the_first(clock: Any) -> None:
    made = Counter(0.1)
    value = Refreshed(made)
    assert [value.get() for _ in range(3)] == [1, 1, 1]
    made.gate.clear()
    clock(refreshed.REST * 0.1 + 1)
    assert [value.get() for _ in range(3)] == [1, 1, 1], "the next one is being made"
    made.gate.set()
    deadline = time.monotonic() + 20
    while value.get() == 1:
        assert time.monotonic() < deadline
    assert made.calls == 2


def test_what_is_too_old_is_given_to_nobody(clock: Any) -> None:
    value = Refreshed(Counter(0.1))
    assert value.get() == 1
    clock(refreshed.OLDEST + 1)
    assert value.get() == 2


@pytest.mark.django_db
def test_what_keeps_for_longer_is_given_while_the_next_is_made(clock: Any) -> None:
    made = Counter(0.1)
    value = Refreshed(made, oldest=3600)
    assert value.get() == 1
    made.gate.clear()
    clock(refreshed.OLDEST + 1)
    assert value.get() == 1
    made.gate.set()
    clock(3600 + 1)
    assert value.get() > 1


@pytest.mark.django_db
def test_a_value_that_rests_for_longer_is_not_made_meanwhile(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Counter(0.1)
    value = Refreshed(made, oldest=3600, rest=200)
    assert value.get() == 1
    clock(0.1 * 200 - 1)
    assert value.get() == 1
    time.sleep(refreshed.AFTER + 0.3)
    assert made.calls == 1
    monkeypatch.setattr(refreshed, "AFTER", 1.0)
    clock(10)
    assert value.get() == 1
    time.sleep(0.2)
    assert made.calls == 1, "the page of who asks is made first"
    deadline = time.monotonic() + 20
    while value.get() == 1:
        assert time.monotonic() < deadline
    assert made.calls == 2
