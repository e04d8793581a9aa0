"""A name that lm-evaluation-harness has, too, means the same task here."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from evalcore.task.library.load import TaskLibrary
from tests.tasks.shared_names import differences, libraries, shared, stand_ins

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

KNOWN = {
    "coqa": (
        "theirs cannot be asked, ['num_fewshot']",
        "its function fails on training rows, which have no further people's answers",
    ),
    "toxigen": (
        "theirs cannot be asked, ['num_fewshot']",
        "its function gives the answer as a number of numpy, which lm-eval refuses in examples",
    ),
    "mgsm_direct": (
        "only ours [], only theirs ['mgsm_direct_es_spanish_bench']",
        "a tag there, of which another collection makes use for its copy of the Spanish task",
    ),
}
"""By name the difference that remains, and why it is none of the task's."""

SLICES = 4
"""Parts of the list, for several processes."""


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[TaskLibrary, TaskLibrary]]:
    with stand_ins():
        yield libraries()


def told(both: tuple[TaskLibrary, TaskLibrary], names: list[str]) -> list[str]:
    wrong = []
    for name in names:
        found = differences(*both, name)
        known, _ = KNOWN.get(name, ("", ""))
        wrong += [
            f"{name}: {difference}" for difference in found if not known or known not in difference
        ]
        if known and not any(known in difference for difference in found):
            wrong.append(f"{name}: the difference that KNOWN lists is gone")
    return wrong


@pytest.mark.parametrize("number", range(SLICES))
def test_a_shared_name_means_the_same_task(
    both: tuple[TaskLibrary, TaskLibrary], number: int
) -> None:
    names = shared(*both)
    assert len(names) > 900
    assert KNOWN.keys() <= set(names)
    assert not told(both, names[number::SLICES])
