"""The census: both engines, told the same recorded responses, on everything that is run in all
settings; further models asked by both engines' commands; and what of it docs/parity.md lists."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from tests.parity import NEEDS_LM_EVAL
from tests.parity.both import DRAWN_PART, NOT_RUN_BY_LM_EVAL, Pair, differences, lost_metrics
from tests.parity.census import DRAWN, SEED, Candidate, Census
from tests.parity.commands import CASES, Files, assert_same, run_commands
from tests.parity.compare import Kind
from tests.parity.report import DOCUMENT

pytestmark = [*NEEDS_LM_EVAL]


def test_two_hundred_of_lm_evals_own_files_are_drawn_from_all_folders_with_data(
    census: Census, drawn: list[Candidate], pairs: list[Pair]
) -> None:
    assert len(drawn) == DRAWN
    strata = {(candidate.folder, candidate.output_type) for candidate in census.candidates}
    of_drawn = Counter((candidate.folder, candidate.output_type) for candidate in drawn)
    assert strata - of_drawn.keys() == {
        (candidate.folder, candidate.output_type)
        for candidate in census.candidates
        if candidate.name in NOT_RUN_BY_LM_EVAL
    }
    assert len(strata) > 30
    assert max(of_drawn.values()) < DRAWN / 10
    run = {pair.name for pair in pairs if pair.part == DRAWN_PART and pair.compared}
    assert run == {candidate.name for candidate in drawn}


def test_a_task_fails_in_one_engine_only_if_it_fails_in_the_other(pairs: list[Pair]) -> None:
    failed = [pair for pair in pairs if not pair.compared]
    assert [
        f"{pair}: ours {pair.ours.get('failed', 'ran')}, theirs {pair.theirs.get('failed', 'ran')}"
        for pair in failed
        if not pair.failed_in_both
    ] == []
    assert len(failed) * 100 < len(pairs)
    assert lost_metrics(pairs) == []


@pytest.mark.parametrize("kind", get_args(Kind))
def test_no_text_hash_response_score_or_aggregate_differs(pairs: list[Pair], kind: Kind) -> None:
    assert differences(pairs, kind) == []
    assert sum(pair.compared.requests for pair in pairs if pair.compared) > 20_000
    assert sum(pair.compared.numbers for pair in pairs if pair.compared) > 5_000


def test_the_document_lists_what_is_drawn(census: Census, drawn: list[Candidate]) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    again = "write it again: python -m tests.parity.report"
    assert [one.name for one in drawn if f"`{one.name}`" not in text] == [], again
    assert f"seed {SEED}" in " ".join(text.split())
    assert f"{len(census.candidates)} have" in " ".join(text.split())


FURTHER = CASES[:-1]


@pytest.fixture(scope="module")
def files(
    hub: str, home: Path, exported: Path, index: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Files, Files]]:
    """By case our files and theirs."""
    return run_commands(hub, home, tmp_path_factory.mktemp("commands"), FURTHER, exported, index)


@pytest.mark.parametrize("case", [case.name for case in FURTHER])
def test_the_same_model_and_data_give_the_same_answers_and_numbers(
    files: dict[str, tuple[Files, Files]], case: str
) -> None:
    assert_same(*files[case])
