"""Programs where there are no namespaces: Landlock and seccomp refuse the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalcore.sandbox.confinement import LANDLOCK, why_not
from evalcore.task.transforms import code_sandbox
from evalcore.task.transforms.code_sandbox import Isolation
from tests.evalcore.task.transforms.test_code_sandbox import (  # noqa: F401
    mark,
    test_a_fork_bomb_is_bounded_and_leaves_no_process,
    test_a_program_ends_though_nobody_is_left_to_end_it,
    test_a_program_without_end_is_ended,
    test_it_cannot_get_privileges_back,
    test_memory_files_and_descriptors_are_limited,
    test_nothing_but_the_system_and_python_can_be_read,
    test_nothing_outside_its_folder_can_be_written,
    test_the_environment_is_empty,
    test_the_environment_of_the_parent_cannot_be_read,
    test_there_is_no_network,
    test_threads_may_be_started_where_they_can_be_counted,
)
from tests.runners.programs import SYSTEM_PYTHON
from tests.services import missing


@pytest.fixture(scope="module")
def how() -> Iterator[Isolation]:
    is_root = os.geteuid() == 0
    alone = Isolation(LANDLOCK, change_user=is_root)
    with pytest.MonkeyPatch.context() as patch:
        if is_root and Path(SYSTEM_PYTHON).exists():
            patch.setattr(sys, "executable", SYSTEM_PYTHON)
        why_not.cache_clear()
        try:
            if why := code_sandbox._unfit(alone):
                missing(f"NO PROGRAMS BY LANDLOCK: {why}")
            yield alone
        finally:
            why_not.cache_clear()
