"""Rows that all tests of a module share: made once, each test in a savepoint of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

import pytest
from django.apps import apps
from django.db import transaction

from leaderboard.models import Edition
from leaderboard.snapshot import published
from leaderboard.tasks import items
from leaderboard.web import kept

T = TypeVar("T")


def once_per_module(make: Callable[[], T]) -> Callable[..., Iterator[T]]:
    """A fixture of the function's name; what it writes is rolled back at the module's end.

    No test of the module may be transactional: the fixture's transaction is open meanwhile.
    """

    @pytest.fixture(scope="module", name=make.__name__)
    def made(django_db_setup: None, django_db_blocker: Any) -> Iterator[T]:
        forget()
        with ExitStack() as stack:
            with django_db_blocker.unblock():
                stack.enter_context(transaction.atomic())
                answer = make()
            yield answer
            with django_db_blocker.unblock():
                transaction.set_rollback(True)
                stack.close()

    return made


def forget() -> None:
    """What this process keeps of boards, pages and analyses: the database goes back in time."""
    kept.forget()
    published.forget()
    items._looked.clear()


def clear_site() -> None:
    """Until the test ends there is nothing on the site, whatever the module has made."""
    for model in apps.get_app_config("leaderboard").get_models(include_auto_created=True):
        rows = model._base_manager.all()
        if model is Edition:
            rows = rows.exclude(of=0)
        rows._raw_delete(using=rows.db)
    forget()
