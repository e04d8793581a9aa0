"""Cloze beside MMLU-style: the table, what the style does to the order, and what is not claimed."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from leaderboard.models import (
    Artifact,
    BoardSnapshot,
    HubModel,
    QuestionSet,
    ScoreVector,
    Suite,
    Variant,
)
from leaderboard.samples import store as artifacts
from leaderboard.samples import vectors
from leaderboard.snapshot import EVERY, Board, published
from leaderboard.snapshot.columns import ColumnCells
from leaderboard.snapshot.style_facts import with_facts
from leaderboard.stats import variance_shares
from leaderboard.styles import view as styles_view
from tests.leaderboard import boards
from tests.leaderboard import factories as make

TEXTS = {"cloze": 0.9, "mmlu": 0.2, "hybrid": 0.5}
LETTERS = {"cloze": 0.2, "mmlu": 0.9, "hybrid": 0.5}
STYLES = ("cloze", "mmlu", "hybrid")
MIDDLE = {"cloze": 0.6, "mmlu": 0.6, "hybrid": 0.6}


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts", "sums"))


@pytest.fixture
def three(db: None, settings: Any) -> Suite:
    """A suite with a benchmark more than the table shows by itself."""
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts", "sums", "tools"))


def get(client: Client, address: str = "/styles") -> str:
    response = client.get(address)
    assert response.status_code == 200, (address, response.get("Location"))
    return response.content.decode()


def names(html: str) -> list[str]:
    """Model IDs in the order of the table's rows."""
    table = html[html.index('class="tbl stackable bystyle"') :]
    return re.findall(r'<a class="mid" href="/models/([^"]+)"', table[: table.index("</table>")])


def text_of(html: str) -> str:
    """What is read, without markup and with single spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def cells(html: str, label: str) -> list[str]:
    """What stands in the table's cells with this label, without markup."""
    found = re.findall(rf'<td role="cell"[^>]*data-l="{label}">(.*?)</td>', html, re.DOTALL)
    texts = [re.sub(r"<svg.*?</svg>|<b.*?</b>", "", cell, flags=re.DOTALL) for cell in found]
    return [" ".join(re.sub(r"<[^>]+>", " ", text).split()) for text in texts]


def board_of(suite: Suite) -> Board:
    board = published.newest(suite, EVERY)
    assert board is not None
    return board


def test_benchmarks_stand_side_by_side_with_their_styles_under_them(
    client: Client, suite: Suite
) -> None:
    variant = make.evaluated("lab/one", suite, TEXTS)
    make.publish(suite)
    html = get(client)
    heads = re.findall(r'scope="colgroup" colspan="(\d)"><b>([^<]+)', html)
    # Three scores, the difference, the spread and the best of them.
    assert heads == [("6", "Facts"), ("6", "Sums")]
    for run in variant.runs.all():
        result = run.results.get(metric="acc", subset="")
        assert f'<a href="/runs/{run.pk}" title="{result.value!r}, 95% interval' in html
    first = variant.runs.get(task__name="facts").results.get(metric="acc", subset="")
    half = max(first.high - first.value, first.value - first.low)
    assert cells(html, "Cloze")[0] == f"{100 * first.value:.1f} ±{100 * half:.1f}"


def test_other_benchmarks_are_shown_on_demand(client: Client, three: Suite) -> None:
    make.evaluated("lab/one", three, TEXTS)
    make.publish(three)
    assert "<b>Tools</b>" not in get(client)
    assert "<b>Tools</b>" in get(client, "/styles?cols=tools")
    every = get(client, "/styles?cols=all")
    assert all(f"<b>{title}</b>" in every for title in ("Facts", "Sums", "Tools"))


def test_a_benchmark_in_many_styles_stands_alone_unless_others_are_asked_for(
    client: Client, db: None, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "robust"
    styles = ("cloze", "mmlu", "hybrid", "cloze-bare", "mmlu-bare", "mmlu-digits")
    suite = make.make_suite("robust", benchmarks=("facts", "sums"), styles=styles)
    make.evaluated("lab/one", suite, dict.fromkeys(styles, 0.6), n=12)
    make.publish(suite)
    html = get(client)
    assert "<b>Facts</b>" in html
    assert "<b>Sums</b>" not in html
    assert "Cloze, no label" in html
    assert "<b>Sums</b>" in get(client, "/styles?cols=all")


def test_a_form_that_sends_the_usual_choice_leads_to_the_short_address(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/one", suite, TEXTS)
    make.publish(suite)
    sent = "cols=facts&cols=sums&suite=demo&benchmark=average&a=cloze&b=mmlu&q=&sort=facts.cloze"
    response = client.get(f"/styles?{sent}&page=9&unknown=1")
    assert (response.status_code, response["Location"]) == (302, "/styles")


def test_the_difference_spread_and_best_are_those_of_the_board(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/one", suite, TEXTS)
    make.publish(suite)
    board, html = board_of(suite), get(client)
    gap, best = board.gaps[0], board.best[0]
    difference = 100 * gap.difference.value[0]
    half = 100 * max(
        gap.difference.high[0] - gap.difference.value[0],
        gap.difference.value[0] - gap.difference.low[0],
    )
    assert cells(html, "Cloze − MMLU-style")[0] == f"{difference:+.1f} ±{half:.1f}"
    scores = 100 * board.scores.value[0, :3]
    lowest, highest = scores.min(), scores.max()
    assert cells(html, "Spread")[0] == f"{highest - lowest:.1f} {lowest:.1f}–{highest:.1f}"
    assert cells(html, "Best, derived")[0].startswith(f"{100 * best.score.value[0]:.1f} ±")
    assert cells(html, "Best, derived")[0].endswith("Cloze")
    assert "derived, never ranked" in html


def test_another_pair_of_styles_can_be_compared_and_turned_round(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/one", suite, TEXTS)
    make.publish(suite)
    (one, *_) = cells(get(client, "/styles?b=hybrid"), "Cloze − Hybrid")
    (other, *_) = cells(get(client, "/styles?a=hybrid"), "Hybrid − Cloze")
    value, _, half = one.partition(" ")
    assert other == f"{value.replace('+', '−')} {half}"


def test_the_best_of_the_styles_orders_nothing(client: Client, suite: Suite) -> None:
    make.evaluated("lab/one", suite, TEXTS)
    make.publish(suite)
    assert 'id="by-facts.spread"' in get(client)
    assert 'id="by-facts.best"' not in get(client)
    assert client.get("/styles?sort=facts.best")["Location"] == "/styles"


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("", ["lab/texts", "lab/middle", "lab/letters"]),
        ("facts.mmlu", ["lab/letters", "lab/middle", "lab/texts"]),
        ("-facts.mmlu", ["lab/texts", "lab/middle", "lab/letters"]),
        ("facts.change", ["lab/texts", "lab/middle", "lab/letters"]),
        ("model", ["lab/letters", "lab/middle", "lab/texts"]),
        ("-model", ["lab/texts", "lab/middle", "lab/letters"]),
    ],
)
def test_rows_are_sorted_by_any_column(
    client: Client, suite: Suite, sort: str, expected: list[str]
) -> None:
    for name, skill in (("lab/letters", LETTERS), ("lab/texts", TEXTS), ("lab/middle", MIDDLE)):
        make.evaluated(name, suite, skill)
    make.publish(suite)
    assert names(get(client, f"/styles?sort={sort}" if sort else "/styles")) == expected


def test_a_model_without_a_score_in_the_sorted_column_comes_last(
    client: Client, suite: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/a"), suite)
    make.finish(submission.runs.get(task__name="facts_mmlu"))
    make.evaluated("lab/b", suite, LETTERS)
    make.publish(suite)
    assert names(get(client)) == ["lab/b", "lab/a"]
    assert names(get(client, "/styles?sort=-facts.cloze")) == ["lab/b", "lab/a"]


def test_search_leaves_models_out_and_never_changes_a_rank(client: Client, suite: Suite) -> None:
    make.evaluated("lab/texts", suite, TEXTS)
    make.evaluated("lab/letters", suite, LETTERS)
    make.publish(suite)
    html = get(client, "/styles?q=letters")
    assert names(html) == ["lab/letters"]
    assert "Rows 1–1 of 1" in html
    assert re.search(r'>letters<tspan dx="10">2</tspan', html), "second in cloze among all"
    assert ">texts<" not in html


def test_a_search_that_finds_nothing_says_so_and_leads_back(client: Client, suite: Suite) -> None:
    make.evaluated("lab/texts", suite, TEXTS)
    make.evaluated("lab/letters", suite, LETTERS)
    make.publish(suite)
    html = get(client, "/styles?q=nobody")
    assert "No model matches “nobody”" in html
    assert 'href="/styles#table">Drop the search</a>' in html
    assert "None of the models that the search finds was measured in both styles." in html


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/styles?q=@nothing:1", "Nothing was searched: “@nothing:1”"),
        ("/styles?cols=poetry", "“poetry” is no benchmark that this suite asks in several styles"),
        ("/styles?model=lab/nobody", "“lab/nobody” is not among this suite’s models"),
        ("/styles?model=" + "9" * 200, "is not among this suite’s models"),
    ],
)
def test_what_cannot_be_done_is_said_with_its_remedy(
    client: Client, suite: Suite, address: str, said: str
) -> None:
    make.evaluated("lab/one", suite, TEXTS)
    make.publish(suite)
    assert said in get(client, address)


@pytest.mark.parametrize(
    ("asked", "short"),
    [
        ("?benchmark=nothing", ""),
        ("?a=nothing&b=nothing", ""),
        ("?a=mmlu&b=mmlu", "?a=mmlu"),
        ("?draw=everything", ""),
        ("?page=0", ""),
        ("?page=" + "9" * 5000, ""),
    ],
)
def test_an_unknown_choice_leads_to_the_short_address(
    client: Client, suite: Suite, asked: str, short: str
) -> None:
    make.evaluated("lab/one", suite, TEXTS)
    make.publish(suite)
    response = client.get(f"/styles{asked}")
    assert (response.status_code, response["Location"]) == (302, f"/styles{short}")


def test_a_pair_that_turns_round_beyond_chance_is_named(client: Client, suite: Suite) -> None:
    make.evaluated("lab/texts", suite, TEXTS, n=100)
    make.evaluated("lab/letters", suite, LETTERS, n=100)
    make.publish(suite)
    html = get(client)
    assert "2 of 2 models change places beyond chance from Cloze to MMLU-style" in text_of(html)
    assert "texts leads in Cloze, letters in MMLU-style." in html
    assert '<g class="up mmlu">' in html
    assert '<g class="down cloze">' in html
    beside = text_of(html[html.index("<aside") :])
    assert "Pairs of models that change places 100.0% " in beside
    assert "Pairs of models that change places beyond chance 1 of 1 pair " in beside


def test_a_change_of_places_within_the_noise_is_drawn_faint(client: Client, suite: Suite) -> None:
    for name in ("lab/texts", "lab/letters"):
        make.evaluated(name, suite, MIDDLE, n=40)
    make.publish(suite)
    html = get(client)
    assert "Pairs of models that change places beyond chance 0 of 1 pair" in text_of(html)
    assert '<g class="up' not in html
    assert '<g class="down' not in html
    assert "leads in Cloze" not in html


def test_the_chart_draws_ranks_on_one_axis_and_those_that_move_beyond_chance(
    client: Client, suite: Suite
) -> None:
    # Four steady models between one that falls from the first to the last place and one that rises.
    for place, skill in enumerate((0.72, 0.64, 0.56, 0.48)):
        make.evaluated(f"lab/steady-{place}", suite, dict.fromkeys(STYLES, skill), n=400)
    make.evaluated("lab/falls", suite, {**dict.fromkeys(STYLES, 0.95), "mmlu": 0.2}, n=400)
    make.evaluated("lab/rises", suite, {**dict.fromkeys(STYLES, 0.2), "mmlu": 0.95}, n=400)
    make.publish(suite)
    html = get(client)
    assert "2 of 6 models change places beyond chance" in text_of(html)
    lines = r'<g class="(\w*)[^"]*">\s*<line x1="35%" x2="65%" y1="(\d+)" y2="(\d+)"'
    drawn = re.findall(lines, html)
    assert {kind for kind, *_ in drawn} == {"up", "down"}
    every = re.findall(lines, get(client, "/styles?draw=leaders"))
    assert len(every) == 6
    for found in (drawn, every):
        places = {kind: (int(left), int(right)) for kind, left, right in found if kind}
        assert places["down"] == places["up"][::-1]
        first, last = places["down"]
        assert last - first > 100
    steady = sorted((int(left), int(right)) for kind, left, right in every if not kind)
    assert all(left == right for left, right in steady)


def test_orders_that_agree_are_said_to(client: Client, suite: Suite) -> None:
    for name, skill in (("lab/best", 0.9), ("lab/next", 0.6), ("lab/last", 0.3)):
        make.evaluated(name, suite, dict.fromkeys(("cloze", "mmlu", "hybrid"), skill), n=100)
    make.publish(suite)
    html = get(client)
    assert "Cloze and MMLU-style put the models in the same order" in html
    assert re.search(r'class="big">\s*1\.00', html)
    assert "Largest movers" not in html


def test_the_order_can_be_of_one_benchmark(client: Client, suite: Suite) -> None:
    make.evaluated("lab/texts", suite, TEXTS, n=100)
    make.evaluated("lab/letters", suite, LETTERS, n=100)
    make.publish(suite)
    html = get(client, "/styles?benchmark=sums")
    assert "Ranks of 2 models on Sums, the same questions in both styles." in html
    assert "by the suite’s average" in get(client)


def test_without_averages_the_order_is_of_the_first_benchmark_and_says_so(
    client: Client, suite: Suite
) -> None:
    for name in ("lab/one", "lab/two"):
        submission = make.make_submission(make.make_variant(name), suite)
        for task in ("facts", "facts_mmlu"):
            make.finish(submission.runs.get(task__name=task))
    make.publish(suite)
    html = get(client)
    assert "Ranks of 2 models on Facts" in html
    assert "Averages cannot be compared yet" in html


def test_averages_over_different_benchmarks_are_not_taken_for_the_same(
    client: Client, suite: Suite
) -> None:
    suite.entries.filter(benchmark="sums", style="mmlu").delete()
    for name in ("lab/one", "lab/two"):
        make.evaluated(name, suite, MIDDLE)
    make.publish(suite)
    html = get(client)
    assert "2 are asked in Cloze, 1 in MMLU-style" in " ".join(html.split())
    assert cells(html, "Cloze − MMLU-style") == cells(
        get(client, "/styles?cols=facts"), "Cloze − MMLU-style"
    )
    assert client.get("/styles?benchmark=sums")["Location"] == "/styles", "not asked in both"


def test_flagged_models_are_shown_and_have_no_rank(client: Client, suite: Suite) -> None:
    for name in ("lab/one", "lab/two", "lab/three"):
        make.evaluated(name, suite, MIDDLE)
    HubModel.objects.filter(repo_id="lab/two").update(flag_reason="Trained on the questions")
    make.publish(suite)
    html = get(client)
    assert "! Flagged: Trained on the questions" in html
    assert "Ranks of 2 models" in html
    assert len(names(html)) == 3


def test_a_model_measured_in_one_style_says_what_is_missing(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    make.finish(submission.runs.get(task__name="facts"))
    make.publish(suite)
    html = get(client)
    assert cells(html, "MMLU-style")[0] == "queued"
    assert cells(html, "Cloze − MMLU-style")[0] == "one is missing"
    assert cells(html, "Spread")[0] == "a style is missing"
    assert cells(html, "Best, derived")[0] == "a style is missing"
    assert "No order to compare yet" in html


def test_unpaired_differences_and_a_best_without_questions_say_so(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/one", suite, TEXTS)
    ScoreVector.objects.filter(result__task_name="facts").update(weighting="none", questions=None)
    make.publish(suite)
    html = get(client)
    assert cells(html, "Cloze − MMLU-style")[0].endswith("unpaired")
    assert not cells(html, "Cloze − MMLU-style")[1].endswith("unpaired")
    assert cells(html, "Best, derived")[0] == "not by question"


def answers(variant: Variant, benchmark: str) -> np.ndarray:
    """Whether each question was answered rightly, shape (styles, questions)."""
    rows = []
    for run in variant.runs.filter(task__benchmark=benchmark).order_by("task__name"):
        digest = run.artifacts.get(kind=Artifact.Kind.SAMPLES).sha256
        rows.append(pq.read_table(artifacts.path_of(digest)).column("correct").to_pylist())
    return np.array(rows)


def test_the_variance_of_a_chosen_models_answers_is_split(client: Client, suite: Suite) -> None:
    variant = make.evaluated("lab/one", suite, TEXTS)
    make.publish(suite)
    assert f'href="/styles?model={variant.pk}#split"' in get(client)
    html = get(client, f"/styles?model={variant.pk}")
    assert "Where one’s answers differ" in html
    for place, benchmark in enumerate(("facts", "sums")):
        shares = variance_shares(answers(variant, benchmark))
        for label in ("question", "style", "residual"):
            word = {"question": "Question", "style": "Style", "residual": "Rest"}[label]
            assert cells(html, word)[place] == f"{100 * getattr(shares, label):.1f}%"
    assert "Where one’s answers differ" in get(client, "/styles?model=lab/one")


def test_what_cannot_be_split_says_why(client: Client, three: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), three)
    for task, n in (("facts", 40), ("sums", 40), ("sums_mmlu", 30), ("tools", 40)):
        make.finish(submission.runs.get(task__name=task), n=n)
    make.finish(submission.runs.get(task__name="tools_mmlu"), n=40)
    ScoreVector.objects.filter(result__task_name="tools").update(weighting="none", questions=None)
    make.publish(three)
    html = get(client, f"/styles?cols=all&model={submission.variant_id}")
    assert "Measured in fewer than two styles." in html
    assert "Its styles did not ask the same questions." in html
    assert "A score here is no mean over questions." in html


FILES = ("csv", "json", "parquet")


def rows_of(client: Client, ending: str, query: str = "") -> list[dict[str, Any]]:
    response = client.get(f"/styles.{ending}{query}")
    assert response.status_code == 200, response.content
    content = b"".join(response.streaming_content)  # type: ignore[arg-type]
    if ending == "csv":
        return list(csv.DictReader(io.StringIO(content.decode())))
    if ending == "json":
        listed: list[dict[str, Any]] = json.loads(content)["models"]
        return listed
    return list(pq.read_table(io.BytesIO(content)).to_pylist())


@pytest.mark.parametrize("ending", FILES)
def test_a_file_has_what_the_page_shows_in_full(client: Client, suite: Suite, ending: str) -> None:
    make.evaluated("lab/texts", suite, TEXTS)
    make.evaluated("lab/letters", suite, LETTERS)
    make.publish(suite)
    board = board_of(suite)
    page = get(client, "/styles?b=hybrid&q=t&sort=sums.change&cols=sums")
    link = re.search(rf'href="/styles\.{ending}\?([^"]+)" download', page)
    assert link
    found = rows_of(client, ending, "?" + link[1].replace("&amp;", "&"))
    assert [row["model"] for row in found] == names(page) == ["lab/texts", "lab/letters"]
    row = board.row_of[Variant.objects.get(hub_model__repo_id="lab/texts").pk]
    place = [column.benchmark for column in board.columns].index("sums")
    gap = next(g for g in board.gaps if (g.first, g.second) == (place, place + 2))
    best = next(best for best in board.best if best.benchmark == "sums")
    expected = {
        "sums.cloze": board.scores.value[row, place],
        "sums.cloze.low": board.scores.low[row, place],
        "sums.cloze.n": board.n[row, place],
        "sums.change": gap.difference.value[row],
        "sums.change.high": gap.difference.high[row],
        "sums.spread": np.ptp(board.scores.value[row, place : place + 3]),
        "sums.median": np.median(board.scores.value[row, place : place + 3]),
        "sums.best": best.score.value[row],
        "sums.best.low": best.score.low[row],
    }
    for name, value in expected.items():
        assert float(found[0][name]) == pytest.approx(float(value), rel=1e-12), name
    assert found[0]["sums.best.style"] == "cloze"
    assert found[0]["sums.cloze.run"].endswith(f"/runs/{board.run_id(row, place)}")
    assert not any(name.startswith("facts") for name in found[0])


def test_a_file_leaves_empty_what_was_not_measured(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    make.finish(submission.runs.get(task__name="facts"))
    make.publish(suite)
    (row,) = rows_of(client, "json")
    assert row["facts.mmlu"] is None
    assert row["facts.mmlu.standing"] == "queued"
    assert row["facts.change"] is None
    assert row["facts.change.paired"] is None
    assert row["facts.spread"] is None
    assert row["facts.best.style"] is None


def test_a_file_says_what_it_is_of(client: Client, suite: Suite) -> None:
    make.evaluated("lab/one", suite, TEXTS)
    make.publish(suite)
    response = client.get("/styles.json?b=hybrid")
    today = board_of(suite).built.date().isoformat()
    about = json.loads(b"".join(response.streaming_content))["about"]  # type: ignore[arg-type]
    assert (about["first_style"], about["second_style"]) == ("cloze", "hybrid")
    assert about["address"] == (f"http://testserver/styles?suite=demo%401.0&at={today}&b=hybrid")
    assert "never" in about["note"]
    unchanged = client.get("/styles.json?b=hybrid", headers={"if-none-match": response["ETag"]})
    assert unchanged.status_code == 304


@pytest.mark.parametrize("ending", FILES)
def test_a_file_of_what_cannot_be_read_is_refused(
    client: Client, suite: Suite, ending: str
) -> None:
    make.evaluated("lab/one", suite, TEXTS)
    assert client.get(f"/styles.{ending}").status_code == 404, "no board yet"
    make.publish(suite)
    response = client.get(f"/styles.{ending}?q=@nothing:1")
    assert response.status_code == 400
    assert "@nothing:1" in response.content.decode()


def test_before_the_first_board_the_page_explains_the_styles(client: Client, suite: Suite) -> None:
    html = get(client)
    assert "Why you cannot compare across styles" in html
    assert "within a minute of its first result" in html


def test_a_board_without_models_explains_the_styles(client: Client, suite: Suite) -> None:
    make.publish(suite)
    html = get(client)
    assert "Why you cannot compare across styles" in html
    assert "as soon as two models are measured in both" in " ".join(html.split())


def test_a_suite_of_one_style_has_nothing_side_by_side(client: Client, suite: Suite) -> None:
    plain = make.make_suite("plain", benchmarks=("facts",), styles=("cloze",))
    make.evaluated("lab/one", plain, TEXTS)
    make.publish(plain)
    html = get(client, "/styles?suite=plain")
    assert "asks every benchmark in one style only" in " ".join(html.split())
    assert client.get("/styles.csv?suite=plain").status_code == 404


def test_a_site_without_a_suite_still_explains_the_styles(client: Client, db: None) -> None:
    assert "This site has no suite yet." in get(client)
    assert client.get("/styles?suite=nothing").status_code == 404


def large(models: int) -> Board:
    """A board of every style without its facts of many models: two benchmarks in two styles."""
    board = boards.synthetic_board(models, 4, style=EVERY)
    styles = [("one", "cloze"), ("one", "mmlu"), ("two", "cloze"), ("two", "mmlu")]
    columns = [
        replace(column, benchmark=name, title=name.title(), style=style)
        for column, (name, style) in zip(board.columns, styles, strict=True)
    ]
    bare = replace(board, columns=tuple(columns))
    return with_facts(bare, [ColumnCells.of((), {}) for _ in columns])


@pytest.mark.parametrize("address", ["", "?q=llama", "?benchmark=one&draw=leaders", "?model=3"])
def test_the_number_of_queries_does_not_grow_with_the_models(
    client: Client, db: None, settings: Any, address: str
) -> None:
    counts = []
    for name, models in (("few", 10), ("many", 400)):
        suite = make.make_suite(name, benchmarks=("one", "two"), styles=("cloze", "mmlu"))
        boards.publish(large(models), suite)
        settings.PLUMBLINE_SUITE = name
        get(client, f"/styles{address}")
        with CaptureQueriesContext(connection) as queries:
            get(client, f"/styles{address}")
        counts.append(len(queries))
    assert counts[0] == counts[1]


def past_and_now(suite: Suite) -> None:
    """A model on 5 January 2025, another since 8 January, and the boards of each day."""
    for number, (day, name) in enumerate((("05", "lab/texts"), ("08", "lab/letters"))):
        make.evaluated(name, suite, (TEXTS, LETTERS)[number])
        make.publish(suite)
        built = datetime.fromisoformat(f"2025-01-{day}T12:00:00+00:00")
        found = [published.newest(suite, style) for style in published.styles_of(suite)]
        BoardSnapshot.objects.filter(built__gt=built).delete()
        for board in found:
            assert board is not None
            boards.publish(replace(board, built=built), suite)


def test_a_day_in_the_past_shows_the_boards_of_that_day(client: Client, suite: Suite) -> None:
    past_and_now(suite)
    assert names(get(client)) == ["lab/texts", "lab/letters"]
    past = get(client, "/styles?at=2025-01-06")
    assert names(past) == ["lab/texts"]
    said = " ".join(re.sub(r"<[^>]+>", " ", past).split())
    assert "The board as it stood on 6 Jan 2025" in said
    assert "Built 5 Jan 2025 12:00 UTC" in said
    assert "No order to compare yet" in said, "the boards of single styles are of that day, too"
    assert 'href="/styles?at=2025-01-08">Later: ' in past
    assert 'href="/styles">See it as it is now</a>' in past
    later = get(client, "/styles?at=2025-01-08")
    assert names(later) == ["lab/texts", "lab/letters"]
    assert 'href="/styles?at=2025-01-05">Earlier: ' in later


def test_the_file_of_a_past_day_is_of_that_day(client: Client, suite: Suite) -> None:
    past_and_now(suite)
    page = get(client, "/styles?at=2025-01-06")
    link = re.search(r'href="/styles\.json(\?[^"]+)" download', page)
    assert link
    assert [row["model"] for row in rows_of(client, "json", link[1])] == ["lab/texts"]
    assert len(rows_of(client, "json")) == 2


def test_a_day_before_the_first_board_leads_to_the_boards_there_are(
    client: Client, suite: Suite
) -> None:
    past_and_now(suite)
    html = " ".join(get(client, "/styles?at=2020-01-01").split())
    assert "There was no board on" in html
    assert "The first one that was kept is of" in html
    assert 'href="/styles">See it as it is now</a>' in html
    assert client.get("/styles.csv?at=2020-01-01").status_code == 404


def test_what_is_no_date_is_said_and_the_newest_is_shown(client: Client, suite: Suite) -> None:
    make.evaluated("lab/one", suite, TEXTS)
    make.publish(suite)
    html = get(client, "/styles?at=yesterday")
    assert "“yesterday” is no date. Write it as 2025-01-31." in html
    assert names(html) == ["lab/one"]
    assert client.get("/styles.csv?at=yesterday").status_code == 400


def test_the_best_of_a_mean_over_parts_is_shown_with_its_interval(
    client: Client, suite: Suite
) -> None:
    variant = make.evaluated("lab/one", suite, TEXTS, n=60)
    part = (np.arange(60) < 12).astype(np.int32)
    for questions in list(QuestionSet.objects.all()):
        layout = vectors.layouts_of([questions.digest])[questions.digest]
        parted = replace(layout, tasks=("large", "small"), task=part)
        own = ScoreVector.objects.filter(questions=questions)
        own.update(questions=vectors.questions_row(parted), weighting="parts")
    make.publish(suite)
    asked = answers(variant, "facts")
    means = np.mean([asked[:, part == half].mean(axis=1) for half in range(2)], axis=0)
    best = board_of(suite).best[0].score
    ends = f"{100 * best.low[0]:.1f}–{100 * best.high[0]:.1f}"  # one side is much longer
    shown = cells(get(client), "Best, derived")[0]
    assert shown.startswith(f"{100 * means.max():.1f} {ends}")


def test_a_table_of_very_many_columns_has_fewer_rows_on_a_page(
    client: Client, db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PLUMBLINE_SUITE = "broad"
    suite = make.make_suite("broad", benchmarks=("one", "two"), styles=("cloze", "mmlu"))
    boards.publish(large(61), suite)
    monkeypatch.setattr(styles_view, "CELLS", 100)
    pages = [names(get(client, f"/styles?sort=model{page}")) for page in ("", "&page=2", "&page=6")]
    assert [len(page) for page in pages] == [10, 10, 10]
    assert "Rows 11–20 of" in get(client, "/styles?sort=model&page=2")
    listed = names(get(client, "/styles?sort=model&cols=one"))
    assert listed == [*pages[0], *pages[1]]


def test_many_models_are_shown_in_pages(client: Client, db: None, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "many"
    suite = make.make_suite("many", benchmarks=("one", "two"), styles=("cloze", "mmlu"))
    boards.publish(large(60), suite)
    pages = [names(get(client, f"/styles?sort=model{page}")) for page in ("", "&page=2", "&page=3")]
    assert [len(page) for page in pages] == [25, 25, 10]
    listed = [name for page in pages for name in page]
    assert listed == sorted(listed, key=str.lower)
    assert len(rows_of(client, "csv")) == 60
