"""The same files, data and model through both engines' commands: the same numbers.

fp32 on the CPU, lm-eval one request at a time. The models are the demo's, which were trained: their
answers differ from choice to choice, and some of their continuations are greedy. One of them gets a
chat template.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.parity.commands import CASES, Files, chat_model, run_commands
from tests.parity.compare import MEASURED, compare
from tests.parity.likelihoods import compare_likelihoods

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]


@pytest.fixture(scope="session")
def written(
    hub: str, home: Path, exported: Path, index: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Files, Files]]:
    """By case our files and theirs."""
    talker = chat_model(tmp_path_factory.mktemp("models"))
    return run_commands(hub, home, talker, tmp_path_factory.mktemp("commands"), exported, index)


@pytest.fixture(params=[case.name for case in CASES])
def both(
    request: pytest.FixtureRequest, written: dict[str, tuple[Files, Files]]
) -> tuple[Files, Files]:
    """Ours and theirs."""
    return written[request.param]


def test_every_request_hash_and_generated_text_is_the_same(both: tuple[Files, Files]) -> None:
    ours, theirs = both
    compared = compare(ours.outcome, theirs.outcome, MEASURED)
    wrong = [
        str(difference)
        for difference in compared.differences
        if difference.kind in ("text", "hash", "response")
    ]
    assert wrong == []
    assert compared.documents >= 24
    assert ours.results["task_hashes"] == theirs.results["task_hashes"]


def test_loglikelihoods_agree_and_no_prediction_changes(
    both: tuple[Files, Files], request: pytest.FixtureRequest
) -> None:
    ours, theirs = both
    report = compare_likelihoods(ours.lines, theirs.lines)
    assert report.beyond == []
    assert report.wrongly_changed == []
    print(
        f"largest difference {report.largest:.1e} over {report.compared} loglikelihoods, "
        f"changed predictions and their margins: {report.changed or 'none'}"
    )


def test_every_score_and_standard_error_is_the_same(both: tuple[Files, Files]) -> None:
    ours, theirs = both
    compared = compare(ours.outcome, theirs.outcome, MEASURED)
    wrong = [
        str(difference)
        for difference in compared.differences
        if difference.kind in ("score", "aggregate")
    ]
    assert wrong == []
    assert compared.numbers >= 10


def test_both_say_how_the_models_conversations_are_written(
    written: dict[str, tuple[Files, Files]],
) -> None:
    ours, theirs = written["conversations"]
    for name in ("chat_template", "system_instruction", "fewshot_as_multiturn"):
        assert ours.results[name] == theirs.results[name], name
