"""In compat both engines ask, take and score the same, told the same recorded responses.

lm-evaluation-harness runs in a process of its own with an LM that answers from a table; evalcore is
told what is in the table, in a process that never imports lm-evaluation-harness.
"""

from __future__ import annotations

import importlib.util
from collections import Counter

import pytest

from tests.parity.both import DRAWN_PART, NOT_RUN_BY_LM_EVAL, Pair
from tests.parity.census import DRAWN, Candidate, Census
from tests.parity.compare import Kind
from tests.parity.orders import SETTINGS

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]


def differences(pairs: list[Pair], kind: Kind) -> list[str]:
    return [
        f"{pair}: {difference}"
        for pair in pairs
        if pair.compared
        for difference in pair.compared.differences
        if difference.kind == kind
    ]


def test_two_hundred_of_lm_evals_own_files_are_drawn_from_all_folders_with_data(
    census: Census, drawn: list[Candidate], pairs: list[Pair]
) -> None:
    assert len(drawn) == DRAWN
    strata = {(candidate.folder, candidate.output_type) for candidate in census.candidates}
    left_out = {(candidate.folder, candidate.output_type) for candidate in census.candidates} - {
        (candidate.folder, candidate.output_type) for candidate in drawn
    }
    assert left_out == {
        (candidate.folder, candidate.output_type)
        for candidate in census.candidates
        if candidate.name in NOT_RUN_BY_LM_EVAL
    }
    assert len(strata) > 30
    largest = Counter((candidate.folder, candidate.output_type) for candidate in drawn).most_common(
        1
    )[0]
    assert largest[1] < DRAWN / 10, largest
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


def test_no_metric_of_a_task_is_lost(pairs: list[Pair]) -> None:
    """A group may name a metric that none of its tasks has, as one of lm-eval's own does."""
    lost = [
        f"{pair}: {failure}"
        for pair in pairs
        for failure in pair.ours.get("failures", [])
        if "no task of the group" not in failure
    ]
    assert lost == []


def test_every_argument_of_every_request_is_the_same_to_the_letter(pairs: list[Pair]) -> None:
    assert differences(pairs, "text") == []
    assert sum(pair.compared.requests for pair in pairs if pair.compared) > 20_000


def test_documents_targets_and_all_hashes_are_the_same(pairs: list[Pair]) -> None:
    assert differences(pairs, "hash") == []


def test_filters_make_the_same_of_every_response(pairs: list[Pair]) -> None:
    assert differences(pairs, "response") == []


def test_every_document_scores_the_same(pairs: list[Pair]) -> None:
    assert differences(pairs, "score") == []


def test_every_aggregate_and_standard_error_is_the_same(pairs: list[Pair]) -> None:
    assert differences(pairs, "aggregate") == []
    assert sum(pair.compared.numbers for pair in pairs if pair.compared) > 5_000


def test_scores_move_in_every_setting(pairs: list[Pair]) -> None:
    """Agreement on nothing but zeros would prove little."""
    for setting in SETTINGS:
        values = {
            value
            for pair in pairs
            if pair.setting == setting.name and pair.compared
            for scores in pair.theirs["results"].values()
            for name, value in scores.items()
            if "stderr" not in name and isinstance(value, float)
        }
        assert len(values) > 10, setting.name
