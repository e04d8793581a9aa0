"""Sisters: pairs of columns, analysed in the background, and the page that tells of them."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from django.test import Client

from leaderboard import recalls
from leaderboard.models import (
    HubModel,
    Result,
    ScoreVector,
    SisterAnalysis,
    SisterGap,
    Suite,
    Variant,
)
from leaderboard.samples import vectors
from leaderboard.tasks import items, sisters
from tests.leaderboard import factories as make
from tests.leaderboard.pages import csv_rows, get, json_file, text_of
from tests.leaderboard.rows import clear_site, forget, once_per_module

N = 150
"""Questions."""
DIFFERS = "the same questions under letters"


def make_suite(name: str = "demo") -> Suite:
    """Facts as a cloze, whose sister are the same under letters; sums have none."""
    suite = make.make_suite(name, benchmarks=("facts", "sums"), styles=("cloze", "mmlu"))
    suite.sisters = [{"task": "facts", "sister": "facts_mmlu", "differs": DIFFERS}]
    suite.save()
    return suite


def measure(suite: Suite, models: int, *, start: int = 0, n: int = N) -> list[Variant]:
    """Models of rising skill, alike on both."""
    found = []
    for number in range(start, start + models):
        skill = 0.15 + 0.7 * (number % 12) / 12
        variant = make.make_variant(f"lab/m{number:02}")
        for entry in suite.entries.filter(benchmark="facts"):
            make.finish(make.queued_run(variant, entry), skill=skill, n=n, seed=number)
        found.append(variant)
    return found


def lift(variant: Variant, share: float) -> None:
    """Let the model be right on so many of the questions of facts that it got wrong."""
    vector = ScoreVector.objects.get(
        result=Result.objects.get(
            run__variant=variant, run__task__name="facts", subset="", metric="acc"
        )
    )
    scores = vectors.unpack_values(bytes(vector.values), N).astype(np.float64)
    wrong = np.flatnonzero(scores == 0)
    scores[wrong[: round(share * len(wrong))]] = 1.0
    vector.values = vectors.pack_values(scores)
    vector.save()


def an_hour_later() -> None:
    """Every pair may be looked at again."""
    sisters._looked.clear()


@once_per_module
def analysed_suite() -> Suite:
    """Of fourteen models of rising skill, alike on both, the third was lifted on the benchmark."""
    suite = make_suite()
    lift(measure(suite, 14)[2], 0.6)
    sisters.analyse_due()
    make.publish(suite)
    return suite


@pytest.fixture
def analysed(analysed_suite: Suite, db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    an_hour_later()
    return analysed_suite


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    """A suite with a pair of sisters on a site on which nothing was measured."""
    clear_site()
    settings.PLUMBLINE_SUITE = "demo"
    return make_suite()


def keys(suite: Suite) -> tuple[str, str]:
    (pair,) = sisters.pairs_of([suite])
    assert pair.keys
    return pair.keys


def gaps() -> dict[str, SisterGap]:
    rows = SisterGap.objects.select_related("variant__hub_model")
    return {gap.variant.hub_model.name: gap for gap in rows}


def text(client: Client, address: str) -> str:
    """What the page says, without its tags."""
    return text_of(get(client, address))


def models(client: Client, address: str) -> list[str]:
    html = client.get(address).content.decode()
    return re.findall(r'<th role="rowheader" scope="row"><a href="/models/lab/(m\d\d)', html)


def test_each_models_score_on_both_columns_and_what_was_expected_are_kept(analysed: Suite) -> None:
    found = gaps()
    assert len(found) == 14
    assert [name for name, gap in found.items() if gap.stands_out] == ["m02"]
    assert found["m02"].gap > 0.2
    for name, gap in found.items():
        for side, task in (("score", "facts"), ("sister", "facts_mmlu")):
            result = Result.objects.get(
                run__variant=gap.variant, run__task__name=task, subset="", metric="acc"
            )
            lifted = (name, side) == ("m02", "score")
            assert (getattr(gap, side) == pytest.approx(result.value, abs=1e-6)) != lifted
        others = [one for one in found.values() if one.variant_id != gap.variant_id]
        x, y = (np.array([getattr(one, side) for one in others]) for side in ("sister", "score"))
        slope, start = np.polyfit(x, y, 1)
        assert gap.expected == pytest.approx(start + slope * gap.sister, abs=1e-6)
        assert gap.score == pytest.approx(gap.expected + gap.gap)


def test_a_model_counts_once_whatever_its_commits_names_and_flags(analysed: Suite) -> None:
    entries = analysed.entries.filter(benchmark="facts")
    again = make.make_variant("lab/m00", commit="f" * 40)
    for entry in entries:
        make.finish(make.queued_run(again, entry), n=N)
    make.finish(make.queued_run(make.make_variant("lab/half"), entries[0]), n=N)
    Variant.objects.filter(hub_model__repo_id__in=("lab/m01", "lab/m02")).update(
        weights_digest="d" * 64
    )
    HubModel.objects.filter(repo_id="lab/m03").update(flag_reason="trained on the test")
    sisters.analyse(keys(analysed), "again")
    found = gaps()
    assert found["m00"].variant == again
    assert sorted(found) == ["m00", "m02", *(f"m{number:02}" for number in range(4, 14))]


def test_a_pair_is_analysed_again_when_it_has_more_runs_and_has_rested(analysed: Suite) -> None:
    assert sisters.analyse_due() == 0
    measure(analysed, 1, start=14)
    assert sisters.analyse_due() == 0
    an_hour_later()
    assert sisters.analyse_due() == 1
    assert SisterAnalysis.objects.get().models_n == 15


def test_a_recall_takes_the_gaps_of_its_columns_with_it(analysed: Suite) -> None:
    recalls.recall("task", ["facts_mmlu@1.0"], reason="a wrong key", by="a test")
    assert not SisterAnalysis.objects.exists()


def test_the_benchmarks_the_models_and_the_boards_page_lead_to_it(
    client: Client, analysed: Suite
) -> None:
    items.analyse_due()
    for task in ("facts", "facts_mmlu"):
        html = " ".join(client.get(f"/tasks/{task}").content.decode().split())
        assert '1 <span class="pm">above</span> 0 <span class="pm">below</span>' in html
        assert "/sisters?suite=demo&amp;pair=facts%3Afacts_mmlu" in html
    assert "Beside a sister" not in client.get("/tasks/sums").content.decode()
    told = text(client, "/models/lab/m02")
    assert "It answers Facts, cloze better than its answers on Facts, MMLU-style let one" in told
    assert "Within what models scatter." in text(client, "/models/lab/m05")
    assert "does a score generalise?" in client.get("/").content.decode()
    Suite.objects.update(sisters=[])
    assert "does a score generalise?" not in client.get("/?cols=all").content.decode()


def test_who_stands_out_is_said_in_a_sentence_that_accuses_nobody(
    client: Client, analysed: Suite
) -> None:
    told = text(client, "/sisters")
    assert "m02 answers Facts, cloze better than its answers on Facts, MMLU-style let one" in told
    assert "Of 14 models, 1 stands out above and 0 below" in told
    assert DIFFERS in told
    for word in ("cheat", "contaminat", "leak", "memoris", "memoriz"):
        assert word not in told.lower()
    SisterGap.objects.update(stands_out=False)
    forget()
    assert "No model answers Facts, cloze better than its answers on" in text(client, "/sisters")


def test_each_row_has_its_numbers_and_a_mark_where_they_are(
    client: Client, analysed: Suite
) -> None:
    html = client.get("/sisters").content.decode()
    first = re.search(r'<tr role="row" class="ahead">.*?</tr>', html, flags=re.S)
    gap = SisterGap.objects.get(stands_out=True)
    cells = re.findall(r'<td role="cell" class="num" data-l="\w+">\s*([\d.]+)', first[0])
    assert cells == [f"{100 * number:.1f}" for number in (gap.sister, gap.expected, gap.score)]
    assert f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}" in first[0]
    assert f"p {gap.p_value:.3g}, adjusted for all models" in first[0]
    line = re.search(r'class="i" x1="([\d.]+)%" x2="([\d.]+)%"', first[0])
    low, high = map(float, line.groups())
    scale = 48 / max(abs(end) for row in SisterGap.objects.all() for end in (row.low, row.high))
    assert (low, high) == pytest.approx((50 + scale * gap.low, 50 + scale * gap.high), abs=0.01)


def test_rows_are_ordered_as_asked_and_paged(
    client: Client, analysed: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_gap = [
        gap.variant.hub_model.name
        for gap in SisterGap.objects.select_related("variant__hub_model").order_by("-gap")
    ]
    assert models(client, "/sisters") == by_gap
    assert models(client, "/sisters?order=worse") == by_gap[::-1]
    assert models(client, "/sisters?order=name") == sorted(by_gap)
    monkeypatch.setattr("leaderboard.sisters.page.PER_PAGE", 5)
    assert models(client, "/sisters?order=worse&page=3") == by_gap[::-1][10:]
    assert client.get("/sisters?order=better&pair=nosuch").headers["Location"] == "/sisters"


def test_files_hold_every_model_in_full_precision(client: Client, analysed: Suite) -> None:
    for ending in ("csv", "json", "parquet"):
        response = client.get(f"/sisters.{ending}?order=name")
        (name,) = re.findall('filename="(.*)"', response["Content-Disposition"])
        assert "-beside-" in name
        assert ":" not in name, "no name of a file on every system"
    rows = csv_rows(client, "/sisters.csv?order=name")
    stored = {
        gap.variant.hub_model.repo_id: gap
        for gap in SisterGap.objects.select_related("variant__hub_model")
    }
    assert [row["model"] for row in rows] == sorted(stored)
    for row in rows:
        gap = stored[row["model"]]
        assert [float(row[name]) for name in ("gap", "low", "high", "expected")] == pytest.approx(
            [gap.gap, gap.low, gap.high, gap.expected], rel=1e-12
        )
    told = json_file(client, "/sisters.json?order=name")
    assert told["about"]["sister_task"] == "facts_mmlu"
    assert told["about"]["differs"] == DIFFERS
    assert [row["stands_out"] for row in told["models"]].count(True) == 1
    assert pq.read_table(io.BytesIO(b"".join(response))).to_pylist() == told["models"]


def test_before_there_is_a_suite_or_a_pair_the_page_says_so(
    client: Client, db: None, settings: Any
) -> None:
    clear_site()
    assert "This site has no suite yet" in text(client, "/sisters")
    settings.PLUMBLINE_SUITE = "demo"
    make.make_suite()
    assert sisters.analyse_due() == 0
    assert "No sister in Workshop 1.0" in text(client, "/sisters")
    assert client.get("/sisters.csv").status_code == 404


def test_too_few_models_and_too_few_questions_are_said(client: Client, suite: Suite) -> None:
    waits = f"Facts, cloze is held beside Facts, MMLU-style: {DIFFERS}"
    assert f"Nothing to compare yet {waits}" in text(client, "/sisters")
    measure(suite, 9, n=12)
    sisters.analyse_due()
    said = text(client, "/sisters")
    assert "9 models have answers to every question of both" in said
    assert "with fewer than 10" in said
    an_hour_later()
    measure(suite, 3, start=9, n=12)
    sisters.analyse_due()
    assert "The questions are too few to say" in text(client, "/sisters")
    told = json_file(client, "/sisters.json")
    assert (told["about"]["unanswered"], told["models"]) == ("noise", [])
    assert not SisterGap.objects.exists()
    assert client.get("/sisters?suite=nosuch").status_code == 404
