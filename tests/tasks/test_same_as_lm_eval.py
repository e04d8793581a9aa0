"""lm-evaluation-harness runs our tasks as exported, and both engines say the same of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from tests.hub import TEST_DATA
from tests.parity.both import Pair
from tests.services import missing
from tests.tasks.both import pairs_of
from tests.tasks.data import has_real
from tests.tasks.intent import listed, problems
from tests.tasks.representatives import representatives

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

ONLY_OURS = ("acc_tokens",)
"""Metrics that need what the recording does not have: how many tokens were scored."""
NOT_ON_FEW_ROWS = "gives nan"
"""A figure about one kind of rows, where a part of few rows has none of them."""

GUESSES = "mmmu_val"
"""Tasks whose score is a draw where no letter is found, from a generator that whatever ran before
has used, too. Their scores are compared answer by answer in test_mmmu.py, from one seed."""


def told(pairs: list[Pair]) -> list[str]:
    """What differs, and what only one of the engines could do."""
    wrong = []
    for pair in pairs:
        if pair.compared is None:
            wrong.append(f"{pair}: {pair.ours.get('failed')} / {pair.theirs.get('failed')}")
            continue
        numbers = () if pair.name.startswith(GUESSES) else ("score", "aggregate")
        wrong += [
            f"{pair}: {difference}"
            for difference in pair.compared.differences
            if difference.kind in ("text", "hash", "response", *numbers)
        ]
        wrong += [
            f"{pair}: {failure}"
            for failure in pair.ours["failures"]
            if NOT_ON_FEW_ROWS not in failure and not any(name in failure for name in ONLY_OURS)
        ]
    return wrong


@pytest.fixture(scope="module")
def library() -> TaskLibrary:
    return TaskLibrary([OWN_TASKS])


def test_both_say_the_same_of_every_benchmark_and_style_on_rows_of_our_own(
    library: TaskLibrary, tmp_path: Path, exported: Path, index: Path
) -> None:
    names = [spec.name for spec in representatives(library)]
    assert len(names) > 300
    pairs = pairs_of(names, tmp_path, exported, index, real=False, shots=[0, 2], limit=5)
    assert len(pairs) == 2 * len(names)
    assert not told(pairs)
    asked = [pair.compared.requests for pair in pairs if pair.compared]
    assert min(asked) > 0


def test_both_say_the_same_on_real_samples_where_there_are_some(
    library: TaskLibrary, tmp_path: Path, exported: Path, index: Path
) -> None:
    if not TEST_DATA.is_dir():
        missing(f"the test data, {TEST_DATA}")
    names = [spec.name for spec in representatives(library) if has_real(spec)]
    assert len(names) > 60
    assert not told(pairs_of(names, tmp_path, exported, index, real=True, shots=[0, 3], limit=6))


@pytest.mark.parametrize("real", [False, True], ids=["our own rows", "real samples"])
def test_tasks_with_the_intent_of_lm_evals_own_ask_the_same(
    library: TaskLibrary, tmp_path: Path, real: bool
) -> None:
    intents = listed()
    if real:
        if not TEST_DATA.is_dir():
            missing(f"the test data, {TEST_DATA}")
        specs = {intent: library.select([intent.ours])[0] for intent in intents}
        intents = [
            intent
            for intent, spec in specs.items()
            if all(has_real(leaf) for leaf in spec.leaves()) and not intent.differs
        ]
    assert len(intents) > 100
    assert not list(problems(intents, tmp_path, real=real))
