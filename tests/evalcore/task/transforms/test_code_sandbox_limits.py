"""The sandbox by limits alone, which a machine without namespaces takes, refuses the same."""

from __future__ import annotations

import pytest

from evalcore.task.transforms.code_sandbox import Isolation, isolation
from tests.evalcore.task.transforms.test_code_sandbox import (  # noqa: F401
    are_counted,
    mark,
    test_a_fork_bomb_is_bounded_and_leaves_no_process,
    test_a_program_without_end_is_ended,
    test_memory_files_and_descriptors_are_limited,
    test_the_environment_is_empty,
    test_the_environment_of_the_parent_cannot_be_read,
    test_threads_may_be_started_where_they_can_be_counted,
)


@pytest.fixture(scope="module")
def how() -> Isolation:
    alone = Isolation("limits alone", (), isolation().change_user)
    if not are_counted(alone):
        pytest.skip("limits alone are refused here: Linux does not count our processes")
    return alone
