"""The page of sisters, in each of its states; its files; what a model's page says."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.test import Client

from leaderboard.models import SisterGap, Suite
from leaderboard.tasks import sisters
from tests.leaderboard import factories as make
from tests.leaderboard.sisters import made


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    made.an_hour_later()
    return made.make_suite()


@pytest.fixture
def analysed(suite: Suite) -> Suite:
    """Of fourteen models the third was lifted on the benchmark."""
    made.lift(made.measure(suite, 14)[2], 0.6)
    sisters.analyse_due()
    return suite


def text(client: Client, address: str) -> str:
    """What the page says, without its tags."""
    response = client.get(address)
    assert response.status_code == 200, address
    html = re.sub(r"<(script|style|head).*?</\1>", " ", response.content.decode(), flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def models(client: Client, address: str) -> list[str]:
    html = client.get(address).content.decode()
    return re.findall(r'<th role="rowheader" scope="row"><a href="/models/lab/(m\d\d)', html)


def test_who_stands_out_is_said_in_a_sentence_that_accuses_nobody(
    client: Client, analysed: Suite
) -> None:
    told = text(client, "/sisters")
    assert "m02 answers Facts, cloze better than its answers on Facts, MMLU-style let one" in told
    assert "Of 14 models, 1 stands out above and 0 below" in told
    assert made.DIFFERS in told
    for word in ("cheat", "contaminat", "leak", "memoris", "memoriz"):
        assert word not in told.lower()


def test_without_anybody_who_stands_out_that_is_said(client: Client, suite: Suite) -> None:
    made.measure(suite, 12)
    sisters.analyse_due()
    assert not SisterGap.objects.filter(stands_out=True).exists()
    assert "No model answers Facts, cloze better than its answers on" in text(client, "/sisters")


def test_each_row_has_its_numbers_and_a_mark_where_they_are(
    client: Client, analysed: Suite
) -> None:
    html = client.get("/sisters").content.decode()
    first = re.search(r'<tr role="row" class="ahead">.*?</tr>', html, flags=re.S)
    assert first
    gap = SisterGap.objects.get(stands_out=True)
    cells = re.findall(r'<td role="cell" class="num" data-l="\w+">\s*([\d.]+)', first[0])
    assert cells == [f"{100 * number:.1f}" for number in (gap.sister, gap.expected, gap.score)]
    assert f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}" in first[0]
    assert f"p {gap.p_value:.3g}, adjusted for all models" in first[0]
    line = re.search(r'class="i" x1="([\d.]+)%" x2="([\d.]+)%"', first[0])
    assert line
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
    def body(ending: str) -> bytes:
        response = client.get(f"/sisters.{ending}?order=name")
        assert response.status_code == 200
        (name,) = re.findall('filename="(.*)"', response["Content-Disposition"])
        assert "-beside-" in name
        assert ":" not in name, "no name of a file on every system"
        return b"".join(response.streaming_content)  # type: ignore[attr-defined]

    rows = list(csv.DictReader(io.StringIO(body("csv").decode())))
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
    told = json.loads(body("json"))
    assert told["about"]["sister_task"] == "facts_mmlu"
    assert told["about"]["differs"] == made.DIFFERS
    assert [row["stands_out"] for row in told["models"]].count(True) == 1
    assert pq.read_table(io.BytesIO(body("parquet"))).to_pylist() == told["models"]


def test_a_suite_without_sisters_says_where_they_are_named(
    client: Client, db: None, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    make.make_suite()
    assert "No sister in Workshop 1.0" in text(client, "/sisters")
    assert client.get("/sisters.csv").status_code == 404


def test_before_there_is_a_suite_the_page_says_so(client: Client, db: None) -> None:
    assert "This site has no suite yet" in text(client, "/sisters")


def test_a_pair_without_numbers_yet_says_what_it_will_show(client: Client, suite: Suite) -> None:
    assert (
        f"Nothing to compare yet Facts, cloze is held beside Facts, MMLU-style: {made.DIFFERS}"
        in (text(client, "/sisters"))
    )


def test_too_few_models_and_too_few_questions_are_said(client: Client, suite: Suite) -> None:
    made.measure(suite, 9, n=12)
    sisters.analyse_due()
    told = text(client, "/sisters")
    assert "9 models have answers to every question of both" in told
    assert "with fewer than 10" in told
    made.an_hour_later()
    made.measure(suite, 3, start=9, n=12)
    sisters.analyse_due()
    assert "The questions are too few to say" in text(client, "/sisters")
    told = json.loads(b"".join(client.get("/sisters.json").streaming_content))  # type: ignore[attr-defined]
    assert (told["about"]["unanswered"], told["models"]) == ("noise", [])


def test_a_suite_that_is_not_there_is_not_found(client: Client, suite: Suite) -> None:
    assert client.get("/sisters?suite=nosuch").status_code == 404


def test_a_models_page_has_its_own_gaps(client: Client, analysed: Suite) -> None:
    make.publish(analysed)
    told = text(client, "/models/lab/m02")
    assert "It answers Facts, cloze better than its answers on Facts, MMLU-style let one" in told
    assert "Within what models scatter." in text(client, "/models/lab/m05")


def test_the_boards_legend_leads_to_it_where_the_suite_has_sisters(
    client: Client, analysed: Suite
) -> None:
    make.publish(analysed)
    assert "does a score generalise?" in client.get("/").content.decode()
    Suite.objects.update(sisters=[])
    assert "does a score generalise?" not in client.get("/?cols=all").content.decode()
