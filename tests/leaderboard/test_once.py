"""What fixtures make once is for every test as if it were made for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from leaderboard.models import BoardSnapshot, Run, Suite, User
from leaderboard.samples import store
from leaderboard.snapshot import OWN, published
from tests.leaderboard import factories as make
from tests.leaderboard import once
from tests.leaderboard.once import made_once

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="made anew on other databases"),
]

calls: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "_made", {})
    calls.clear()


def one_model() -> Suite:
    calls.append("one model")
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze",))
    make.evaluated("lab/one", suite, {"cloze": 0.6}, n=20)
    return suite


def another(repo_id: str) -> None:
    calls.append(repo_id)
    make.evaluated(repo_id, Suite.objects.get(), {"cloze": 0.3}, n=20)
    make.publish(Suite.objects.get())


class RolledBack(Exception):
    """The end of one test, as it were."""


def everything() -> Any:
    """All rows of all tables, as they are stored, after what fixtures make."""
    try:
        with transaction.atomic():
            made_once(one_model)
            made_once(another, "lab/two")
            rows = once._tables(connection.connection)
            raise RolledBack
    except RolledBack:
        return rows


def test_rows_are_written_again_as_they_were() -> None:
    first, second = everything(), everything()
    assert calls == ["one model", "lab/two"]
    assert first == second
    assert sum(map(len, first.values())) > sum(
        map(len, once._tables(connection.connection).values())
    )


def test_what_is_given_back_is_each_tests_own() -> None:
    with transaction.atomic():
        first = made_once(one_model)
        first.title = "Changed by a test"
        transaction.set_rollback(True)
    second = made_once(one_model)
    assert second == Suite.objects.get()
    assert second.title == "Workshop"
    assert calls == ["one model"]


def test_a_board_of_such_rows_is_the_board() -> None:
    everything()
    suite = made_once(one_model)
    made_once(another, "lab/two")
    assert calls == ["one model", "lab/two"]
    assert Run.objects.filter(state="done").count() == 2
    board = published.newest(suite, OWN)
    assert board is not None
    assert [model.repo_id for model in board.models] == ["lab/one", "lab/two"]


def test_where_other_rows_are_it_is_made_anew() -> None:
    everything()
    User.objects.create_user("ada")
    made_once(one_model)
    assert calls == ["one model", "lab/two", "one model"]


def test_other_words_are_another_beginning() -> None:
    everything()
    made_once(one_model)
    made_once(another, "lab/three")
    assert calls == ["one model", "lab/two", "lab/three"]


@pytest.mark.parametrize(
    "harm", [store.remove, lambda digest: store.path_of(digest).write_bytes(b"a test wrote this")]
)
def test_where_a_file_is_not_as_it_was_it_is_made_anew(harm: Callable[[str], object]) -> None:
    with transaction.atomic():
        made_once(one_model)
        made_once(another, "lab/two")
        digest = BoardSnapshot.objects.latest().sha256
        transaction.set_rollback(True)
    harm(digest)
    made_once(one_model)
    made_once(another, "lab/two")
    assert calls == ["one model", "lab/two", "lab/two"]
    newest = BoardSnapshot.objects.latest().sha256
    assert store.digest(newest) == newest
