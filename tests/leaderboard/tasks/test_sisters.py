"""Pairs of columns, analysed in the background: over which models, when, and what is forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from django.test import Client

from leaderboard import recalls
from leaderboard.models import HubModel, Result, SisterAnalysis, SisterGap, Suite, Variant
from leaderboard.tasks import sisters
from tests.leaderboard import factories as make
from tests.leaderboard.sisters import made


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    made.an_hour_later()
    return made.make_suite()


def keys(suite: Suite) -> tuple[str, str]:
    (pair,) = sisters.pairs_of([suite])
    assert pair.keys
    return pair.keys


def gaps() -> dict[str, SisterGap]:
    rows = SisterGap.objects.select_related("variant__hub_model")
    return {gap.variant.hub_model.name: gap for gap in rows}


def test_each_models_score_on_both_columns_and_what_was_expected_are_kept(suite: Suite) -> None:
    models = made.measure(suite, 12)
    assert sisters.analyse_due() == 1
    found = gaps()
    assert len(found) == 12
    for variant in models:
        gap = found[variant.hub_model.name]
        for name, task in (("score", "facts"), ("sister", "facts_mmlu")):
            result = Result.objects.get(
                run__variant=variant, run__task__name=task, subset="", metric="acc"
            )
            assert getattr(gap, name) == pytest.approx(result.value, abs=1e-6)
        others = [one for one in found.values() if one.variant_id != variant.pk]
        x, y = (np.array([getattr(one, side) for one in others]) for side in ("sister", "score"))
        slope, start = np.polyfit(x, y, 1)
        assert gap.expected == pytest.approx(start + slope * gap.sister, abs=1e-6)
        assert gap.score == pytest.approx(gap.expected + gap.gap)


def test_a_model_that_was_lifted_on_the_benchmark_stands_out_above(suite: Suite) -> None:
    models = made.measure(suite, 14)
    made.lift(models[2], 0.6)
    sisters.analyse_due()
    found = gaps()
    assert [name for name, gap in found.items() if gap.stands_out] == ["m02"]
    assert found["m02"].gap > 0.2


def test_a_model_counts_once_whatever_its_commits_names_and_flags(suite: Suite) -> None:
    made.measure(suite, 14)
    entries = suite.entries.filter(benchmark="facts")
    again = make.make_variant("lab/m00", commit="f" * 40)
    for entry in entries:
        make.finish(make.queued_run(again, entry), n=made.N)
    make.finish(make.queued_run(make.make_variant("lab/half"), entries[0]), n=made.N)
    Variant.objects.filter(hub_model__repo_id__in=("lab/m01", "lab/m02")).update(
        weights_digest="d" * 64
    )
    HubModel.objects.filter(repo_id="lab/m03").update(flag_reason="trained on the test")
    sisters.analyse_due()
    found = gaps()
    assert found["m00"].variant == again
    assert sorted(found) == ["m00", "m02", *(f"m{number:02}" for number in range(4, 14))]


def test_of_too_few_models_it_is_said_and_no_number_is_kept(suite: Suite) -> None:
    made.measure(suite, 9)
    assert sisters.analyse_due() == 1
    assert SisterAnalysis.objects.get().unanswered == "few models"
    assert not SisterGap.objects.exists()


def test_of_too_few_questions_it_is_said_and_no_number_is_kept(suite: Suite) -> None:
    made.measure(suite, 12, n=12)
    sisters.analyse_due()
    assert SisterAnalysis.objects.get().unanswered == "noise"
    assert not SisterGap.objects.exists()


def test_a_pair_is_analysed_again_when_it_has_more_runs_and_has_rested(suite: Suite) -> None:
    made.measure(suite, 10)
    assert sisters.analyse_due() == 1
    assert sisters.analyse_due() == 0
    made.measure(suite, 1, start=10)
    assert sisters.analyse_due() == 0
    made.an_hour_later()
    assert sisters.analyse_due() == 1
    assert SisterAnalysis.objects.get().models_n == 11
    made.an_hour_later()
    assert sisters.analyse_due() == 0


def test_a_board_of_many_models_is_read_in_parts_with_the_same_numbers(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.measure(suite, 12)
    sisters.analyse_due()
    whole = {name: (gap.gap, gap.low, gap.high) for name, gap in gaps().items()}
    monkeypatch.setattr(sisters, "AT_ONCE", 5 * made.N)
    sisters.analyse(keys(suite), "again")
    parts = {name: (gap.gap, gap.low, gap.high) for name, gap in gaps().items()}
    assert {name: pytest.approx(told, abs=1e-4) for name, told in whole.items()} == parts


def test_a_recall_takes_the_gaps_of_its_columns_with_it(suite: Suite) -> None:
    made.measure(suite, 12)
    sisters.analyse_due()
    recalls.recall("task", ["facts_mmlu@1.0"], reason="a wrong key", by="a test")
    assert not SisterAnalysis.objects.exists()


def test_a_suite_without_sisters_is_passed_by(db: None) -> None:
    made.an_hour_later()
    make.make_suite()
    assert sisters.analyse_due() == 0


def test_the_benchmarks_page_says_how_many_stand_out_and_leads_to_them(
    client: Client, suite: Suite
) -> None:
    from leaderboard.tasks import items

    items._looked.clear()
    models = made.measure(suite, 14)
    made.lift(models[2], 0.6)
    sisters.analyse_due()
    items.analyse_due()
    for task in ("facts", "facts_mmlu"):
        html = " ".join(client.get(f"/tasks/{task}").content.decode().split())
        assert '1 <span class="pm">above</span> 0 <span class="pm">below</span>' in html
        assert "/sisters?suite=demo&amp;pair=facts%3Afacts_mmlu" in html
    assert "Beside a sister" not in client.get("/tasks/sums").content.decode()
