"""Cloze beside MMLU-style: the table, what the style does to the order, and what is not claimed."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from django.test import Client

from leaderboard.models import BoardSnapshot, HubModel, ScoreVector, Suite, Variant, edition
from leaderboard.snapshot import EVERY, Board, published
from leaderboard.snapshot.columns import ColumnCells
from leaderboard.snapshot.style_facts import with_facts
from leaderboard.stats import variance_shares
from leaderboard.styles import view as styles_view
from tests.leaderboard import boards, pages
from tests.leaderboard import factories as make
from tests.leaderboard.pages import csv_rows, download, json_file, text_of
from tests.leaderboard.rows import clear_site, forget, once_per_module

TEXTS = {"cloze": 0.9, "mmlu": 0.2, "hybrid": 0.5}
LETTERS = {"cloze": 0.2, "mmlu": 0.9, "hybrid": 0.5}
MIDDLE = {"cloze": 0.6, "mmlu": 0.6, "hybrid": 0.6}
FILES = ("csv", "json", "parquet")


@once_per_module
def three_models() -> dict[str, Variant]:
    """By name: one that is better at texts, one at letters, one equally good at both."""
    suite = make.make_suite(benchmarks=("facts", "sums"))
    skills = {"texts": TEXTS, "letters": LETTERS, "middle": MIDDLE}
    found = {
        name: make.evaluated(f"lab/{name}", suite, skill, n=100) for name, skill in skills.items()
    }
    make.publish(suite)
    return found


@pytest.fixture
def models(three_models: dict[str, Variant], db: None, settings: Any) -> dict[str, Variant]:
    settings.PLUMBLINE_SUITE = "demo"
    return three_models


@pytest.fixture
def suite(models: dict[str, Variant]) -> Suite:
    return Suite.objects.get(name="demo")


@once_per_module
def suite_of_two_days() -> Suite:
    """A model on 5 January 2025, another since 8 January, and the boards of each day."""
    suite = make.make_suite("past", benchmarks=("riddles",), styles=("cloze", "mmlu"))
    for day, name, skill in (("05", "lab/texts", TEXTS), ("08", "lab/letters", LETTERS)):
        make.evaluated(name, suite, skill, commit=f"{day:0>40}")
        make.publish(suite)
        built = datetime.fromisoformat(f"2025-01-{day}T12:00:00+00:00")
        found = [make.board(suite, style) for style in published.styles_of(suite)]
        BoardSnapshot.objects.filter(suite=suite, built__gt=built).delete()
        for board in found:
            boards.publish(replace(board, built=built), suite)
    return suite


@pytest.fixture
def two_days(suite_of_two_days: Suite, db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "past"
    return suite_of_two_days


@pytest.fixture
def other(db: None, settings: Any) -> Suite:
    """A suite of one benchmark in two styles on which nothing was measured, shown by the site."""
    settings.PLUMBLINE_SUITE = "other"
    return make.make_suite("other", benchmarks=("letters",), styles=("cloze", "mmlu"))


@pytest.fixture
def wide(db: None, settings: Any) -> Suite:
    """A suite with a benchmark more than the table shows by itself."""
    settings.PLUMBLINE_SUITE = "wide"
    return make.make_suite("wide", benchmarks=("facts", "sums", "tools"), styles=("cloze", "mmlu"))


def build_anew(suite: Suite) -> None:
    """Build the boards without help of those there are."""
    BoardSnapshot.objects.filter(suite=suite).delete()
    edition.note("data")
    make.publish(suite)


def get(client: Client, address: str = "/styles") -> str:
    return pages.get(client, address)


def table(html: str) -> str:
    """The table of scores."""
    part = html[html.index('class="bystyle"') :]
    return part[: part.index("</table>")]


def names(html: str) -> list[str]:
    """Model IDs in the order of the table's rows."""
    return pages.model_names(table(html))


def cells(html: str, kind: str) -> list[str]:
    """What stands in the derived cells of this kind, without markup."""
    found = re.findall(rf'<td role="cell" class="n {kind}[^"]*">(.*?)</td>', html, re.DOTALL)
    return [text_of(one) for one in found]


def scores(html: str) -> list[str]:
    """What stands in the cells of single styles, row by row."""
    drawn = r'<td role="cell" class="n(?! (?:gap|spread|won))[^"]*">(.*?)</td>'
    return [text_of(one) for one in re.findall(drawn, table(html), re.DOTALL)]


def shares(html: str, label: str) -> list[str]:
    """The split's cells with this label."""
    return re.findall(rf'data-l="{label}">(.*?)</td>', html)


def answers(variant: Variant, benchmark: str) -> np.ndarray:
    """Whether each question was answered rightly, shape (styles, questions)."""
    runs = variant.runs.filter(task__benchmark=benchmark).order_by("task__name")
    sheets = [make.samples_of(run) for run in runs]
    return np.array([[sample["correct"] for sample in sheet] for sheet in sheets])


def rows_of(client: Client, ending: str, query: str = "") -> list[dict[str, Any]]:
    address = f"/styles.{ending}{query}"
    if ending == "csv":
        return list(csv_rows(client, address))
    if ending == "json":
        return list(json_file(client, address)["models"])
    return list(pq.read_table(io.BytesIO(download(client, address))).to_pylist())


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


# The table


def test_benchmarks_stand_side_by_side_with_their_styles_under_them(
    client: Client, models: dict[str, Variant]
) -> None:
    html = get(client)
    heads = re.findall(r'scope="colgroup" colspan="(\d)"><b>([^<]+)', html)
    # Three scores, the difference, the spread and the best of them.
    assert heads == [("6", "Facts"), ("6", "Sums")]
    for run in models["texts"].runs.all():
        result = run.results.get(metric="acc", subset="")
        assert f'<a href="/runs/{run.pk}"><b>{100 * result.value:.1f}</b>' in html
    first = models["texts"].runs.get(task__name="facts").results.get(metric="acc", subset="")
    bounds = f"{100 * first.low:.1f}–{100 * first.high:.1f}"
    assert scores(html)[0] == f"{100 * first.value:.1f} {bounds}"
    assert 'class="n h5 best"' in table(html), "shaded as on the board"


def test_other_benchmarks_are_shown_on_demand(client: Client, wide: Suite) -> None:
    make.evaluated("lab/one", wide, TEXTS, n=12)
    make.publish(wide)
    assert "<b>Tools</b>" not in get(client)
    assert "<b>Tools</b>" in get(client, "/styles?cols=tools")
    every = get(client, "/styles?cols=all")
    assert all(f"<b>{title}</b>" in every for title in ("Facts", "Sums", "Tools"))


def test_the_difference_spread_and_best_are_those_of_the_board_for_each_pair_of_styles(
    client: Client, models: dict[str, Variant], suite: Suite
) -> None:
    board, html = make.board(suite, EVERY), get(client)
    row = board.row_of[models["texts"].pk]
    gap, best = board.gaps[0], board.best[0]
    low, value, high = (
        100 * getattr(gap.difference, side)[row] for side in ("low", "value", "high")
    )
    assert cells(html, "gap")[0] == f"{value:+.1f} {low:.1f}–{high:.1f}"
    of_styles = 100 * board.scores.value[row, :3]
    lowest, highest = of_styles.min(), of_styles.max()
    assert cells(html, "spread")[0] == f"{highest - lowest:.1f} {lowest:.1f}–{highest:.1f}"
    assert cells(html, "won")[0].startswith(f"Cloze {100 * best.score.value[row]:.1f} ")
    assert "derived, never ranked" in html
    (one, *_) = cells(get(client, "/styles?b=hybrid"), "gap")
    (other, *_) = cells(get(client, "/styles?a=hybrid"), "gap")
    low, high = one.split()[1].split("–")
    assert other == f"{one.split()[0].replace('+', '−')} −{high} to −{low}"


def test_rows_are_sorted_by_any_column_but_the_best_of_the_styles(
    client: Client, models: dict[str, Variant]
) -> None:
    for sort, expected in {
        "facts.mmlu": ["letters", "middle", "texts"],
        "-facts.mmlu": ["texts", "middle", "letters"],
        "facts.change": ["texts", "middle", "letters"],
        "model": ["letters", "middle", "texts"],
        "-model": ["texts", "middle", "letters"],
    }.items():
        listed = names(get(client, f"/styles?sort={sort}"))
        assert listed == [f"lab/{name}" for name in expected], sort
    html = get(client)
    assert names(html) == ["lab/texts", "lab/middle", "lab/letters"]
    assert 'id="by-facts.spread"' in html
    assert 'id="by-facts.best"' not in html
    assert client.get("/styles?sort=facts.best")["Location"] == "/styles"


def test_a_model_without_a_score_says_what_is_missing_and_comes_last(
    client: Client, suite: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/half"), suite)
    make.finish(submission.runs.get(task__name="facts_mmlu"), n=100)
    make.publish(suite)
    for address in ("/styles", "/styles?sort=-facts.cloze"):
        assert names(get(client, address))[-1] == "lab/half"
    html = get(client, "/styles?q=half")
    assert scores(html)[0] == "— queued"
    assert cells(html, "gap")[0] == "— one is missing"
    assert cells(html, "spread")[0] == "— a style is missing"
    assert cells(html, "won")[0] == "— a style is missing"
    (row,) = rows_of(client, "json", "?q=half")
    assert row["facts.cloze.standing"] == "queued"
    for name in ("cloze", "change", "change.paired", "spread", "best.style"):
        assert row[f"facts.{name}"] is None


def test_search_leaves_models_out_never_changes_a_rank_and_leads_back(
    client: Client, models: dict[str, Variant]
) -> None:
    html = get(client, "/styles?q=letters")
    assert names(html) == ["lab/letters"]
    assert "Rows 1–1 of 1" in html
    assert re.search(r'>letters<tspan dx="10">3</tspan', html), "third in cloze among all"
    assert ">texts<" not in html
    html = get(client, "/styles?q=nobody")
    assert "No model matches “nobody”" in html
    assert 'href="/styles#table">Drop the search</a>' in html
    assert "None of the models that the search finds was measured in both styles." in html


def test_what_cannot_be_done_is_said_with_its_remedy(
    client: Client, models: dict[str, Variant]
) -> None:
    for query, said in {
        "q=@nothing:1": "Nothing was searched: “@nothing:1”",
        "cols=poetry": "“poetry” is no benchmark that this suite asks in several styles",
        "model=lab/nobody": "“lab/nobody” is not among this suite’s models",
        "model=" + "9" * 200: "is not among this suite’s models",
        "at=yesterday": "“yesterday” is no date. Write it as 2025-01-31.",
    }.items():
        html = get(client, f"/styles?{query}")
        assert said in html
        assert names(html)


def test_a_form_that_sends_the_usual_or_unknown_choices_leads_to_the_short_address(
    client: Client, models: dict[str, Variant]
) -> None:
    sent = "?cols=facts&cols=sums&suite=demo&benchmark=average&a=cloze&b=mmlu&q=&sort=facts.cloze"
    for asked, short in {
        f"{sent}&page=9&unknown=1": "",
        "?benchmark=nothing": "",
        "?a=nothing&b=nothing": "",
        "?a=mmlu&b=mmlu": "?a=mmlu",
        "?draw=everything": "",
        "?page=0": "",
        "?page=" + "9" * 5000: "",
    }.items():
        response = client.get(f"/styles{asked}")
        assert (response.status_code, response["Location"]) == (302, f"/styles{short}"), asked


# What the style does to the order


def test_a_pair_that_turns_round_beyond_chance_is_named_and_the_order_can_be_of_one_benchmark(
    client: Client, models: dict[str, Variant]
) -> None:
    html = get(client)
    assert "2 of 3 models change places beyond chance from Cloze to MMLU-style" in text_of(html)
    assert "texts leads in Cloze, letters in MMLU-style." in html
    assert '<g class="up mmlu">' in html
    assert '<g class="down cloze">' in html
    beside = text_of(html[html.index("<aside") :])
    assert "Pairs of models that change places 100.0% " in beside
    assert "Pairs of models that change places beyond chance 3 of 3 pairs " in beside
    html = get(client, "/styles?benchmark=sums")
    assert "Ranks of 3 models on Sums, the same questions in both styles." in html
    assert "by the suite’s average" in get(client)


def test_the_chart_draws_ranks_on_one_axis_and_those_that_move_beyond_chance(
    client: Client, other: Suite
) -> None:
    # Four steady models between one that falls from the first to the last place and one that rises.
    for place, skill in enumerate((0.8, 0.65, 0.5, 0.35)):
        make.evaluated(f"lab/steady-{place}", other, dict.fromkeys(MIDDLE, skill), n=300)
    make.evaluated("lab/falls", other, {"cloze": 0.97, "mmlu": 0.1}, n=300)
    make.evaluated("lab/rises", other, {"cloze": 0.1, "mmlu": 0.97}, n=300)
    make.publish(other)
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


def test_orders_that_agree_are_said_to(client: Client, other: Suite) -> None:
    for name, skill in (("lab/best", 0.9), ("lab/next", 0.6), ("lab/last", 0.3)):
        make.evaluated(name, other, dict.fromkeys(MIDDLE, skill), n=100)
    make.publish(other)
    html = get(client)
    assert "Cloze and MMLU-style put the models in the same order" in html
    assert re.search(r'class="big">\s*1\.00', html)
    assert "Largest movers" not in html


def test_without_averages_the_order_is_of_the_first_benchmark_and_says_so(
    client: Client, wide: Suite
) -> None:
    for name in ("lab/one", "lab/two"):
        submission = make.make_submission(make.make_variant(name), wide)
        for task in ("facts", "facts_mmlu"):
            make.finish(submission.runs.get(task__name=task))
    make.publish(wide)
    html = get(client)
    assert "Ranks of 2 models on Facts" in html
    assert "Averages cannot be compared yet" in html


def test_averages_over_different_benchmarks_are_not_taken_for_the_same(
    client: Client, suite: Suite
) -> None:
    suite.entries.filter(benchmark="sums", style="mmlu").delete()
    build_anew(suite)
    html = get(client)
    assert "2 are asked in Cloze, 1 in MMLU-style" in " ".join(html.split())
    assert cells(html, "gap") == cells(get(client, "/styles?cols=facts"), "gap")
    assert client.get("/styles?benchmark=sums")["Location"] == "/styles", "not asked in both"


def test_flagged_models_are_shown_and_have_no_rank(client: Client, suite: Suite) -> None:
    HubModel.objects.filter(repo_id="lab/middle").update(flag_reason="Trained on the questions")
    make.publish(suite)
    html = get(client)
    assert "Flagged: Trained on the questions" in html
    assert "Ranks of 2 models" in html
    assert len(names(html)) == 3


# Answers of each question


def test_unpaired_differences_and_a_best_without_questions_say_so(
    client: Client, suite: Suite
) -> None:
    ScoreVector.objects.filter(result__task_name="facts").update(weighting="none", questions=None)
    build_anew(suite)
    html = get(client)
    assert cells(html, "gap")[0].endswith("unpaired")
    assert not cells(html, "gap")[1].endswith("unpaired")
    assert cells(html, "won")[0] == "— not by question"


def test_the_variance_of_a_chosen_models_answers_is_split(
    client: Client, models: dict[str, Variant]
) -> None:
    variant = models["texts"]
    assert f'href="/styles?model={variant.pk}#split"' in get(client)
    html = get(client, f"/styles?model={variant.pk}")
    assert "Where texts’s answers differ" in html
    for place, benchmark in enumerate(("facts", "sums")):
        found = variance_shares(answers(variant, benchmark))
        for label in ("question", "style", "residual"):
            word = {"question": "Question", "style": "Style", "residual": "Rest"}[label]
            assert shares(html, word)[place] == f"{100 * getattr(found, label):.1f}%"
    assert "Where texts’s answers differ" in get(client, "/styles?model=lab/texts")


def test_what_cannot_be_split_says_why(client: Client, wide: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/one"), wide)
    for task, n in (("facts", 40), ("sums", 40), ("sums_mmlu", 30), ("tools", 40)):
        make.finish(submission.runs.get(task__name=task), n=n)
    make.finish(submission.runs.get(task__name="tools_mmlu"), n=40)
    ScoreVector.objects.filter(result__task_name="tools").update(weighting="none", questions=None)
    make.publish(wide)
    html = get(client, f"/styles?cols=all&model={submission.variant_id}")
    assert "Measured in fewer than two styles." in html
    assert "Its styles did not ask the same questions." in html
    assert "A score here is no mean over questions." in html


# Files


@pytest.mark.parametrize("ending", FILES)
def test_a_file_has_what_the_page_shows_in_full(
    client: Client, models: dict[str, Variant], suite: Suite, ending: str
) -> None:
    board = make.board(suite, EVERY)
    page = get(client, "/styles?b=hybrid&q=t&sort=sums.change&cols=sums")
    link = re.search(rf'href="/styles\.{ending}\?([^"]+)" download', page)
    found = rows_of(client, ending, "?" + link[1].replace("&amp;", "&"))
    assert [row["model"] for row in found] == names(page) == ["lab/texts", "lab/letters"]
    row = board.row_of[models["texts"].pk]
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


def test_a_file_says_what_it_is_of_and_one_that_cannot_be_read_is_refused(
    client: Client, suite: Suite
) -> None:
    response = client.get("/styles.json?b=hybrid")
    today = make.board(suite, EVERY).built.date().isoformat()
    about = json.loads(b"".join(response))["about"]
    assert (about["first_style"], about["second_style"]) == ("cloze", "hybrid")
    assert about["address"] == (f"http://testserver/styles?suite=demo%401.0&at={today}&b=hybrid")
    assert "never" in about["note"]
    unchanged = client.get("/styles.json?b=hybrid", headers={"if-none-match": response["ETag"]})
    assert unchanged.status_code == 304
    for query in ("q=@nothing:1", "at=yesterday"):
        response = client.get(f"/styles.csv?{query}")
        assert response.status_code == 400
        assert query.partition("=")[2] in response.content.decode()


# Where there is nothing side by side


def test_before_the_first_board_and_its_first_models_the_page_explains_the_styles(
    client: Client, other: Suite
) -> None:
    html = get(client)
    assert "Why you cannot compare across styles" in html
    assert "within a minute of its first result" in html
    for ending in FILES:
        assert client.get(f"/styles.{ending}").status_code == 404
    make.publish(other)
    html = get(client)
    assert "Why you cannot compare across styles" in html
    assert "as soon as two models are measured in both" in " ".join(html.split())


def test_a_suite_of_one_style_or_no_suite_has_nothing_side_by_side(
    client: Client, db: None
) -> None:
    plain = make.make_suite("plain", benchmarks=("facts",), styles=("cloze",))
    make.evaluated("lab/one", plain, TEXTS, n=12)
    make.publish(plain)
    html = get(client, "/styles?suite=plain")
    assert "asks every benchmark in one style only" in " ".join(html.split())
    assert client.get("/styles.csv?suite=plain").status_code == 404
    clear_site()
    assert "This site has no suite yet." in get(client)
    assert client.get("/styles?suite=nothing").status_code == 404


# Past days


def test_a_day_in_the_past_shows_the_boards_and_files_of_that_day(
    client: Client, two_days: Suite
) -> None:
    assert names(get(client)) == ["lab/texts", "lab/letters"]
    past = get(client, "/styles?at=2025-01-06")
    assert names(past) == ["lab/texts"]
    said = text_of(past)
    assert "The board as it stood on 6 Jan 2025" in said
    assert "Built 5 Jan 2025 12:00 UTC" in said
    assert "No order to compare yet" in said, "the boards of single styles are of that day, too"
    assert 'href="/styles?at=2025-01-08">Later: ' in past
    assert 'href="/styles">See it as it is now</a>' in past
    link = re.search(r'href="/styles\.json(\?[^"]+)" download', past)
    assert [row["model"] for row in rows_of(client, "json", link[1])] == ["lab/texts"]
    assert len(rows_of(client, "json")) == 2
    later = get(client, "/styles?at=2025-01-08")
    assert names(later) == ["lab/texts", "lab/letters"]
    assert 'href="/styles?at=2025-01-05">Earlier: ' in later
    html = " ".join(get(client, "/styles?at=2020-01-01").split())
    assert "There was no board on" in html
    assert "The first one that was kept is of" in html
    assert 'href="/styles">See it as it is now</a>' in html
    assert client.get("/styles.csv?at=2020-01-01").status_code == 404


def test_many_models_are_shown_in_pages_and_the_fewer_the_more_columns_there_are(
    client: Client, db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PLUMBLINE_SUITE = "large"
    suite = make.make_suite("large", benchmarks=("one", "two"), styles=("cloze", "mmlu"))
    boards.publish(large(60), suite)

    def shown(*addresses: str) -> list[list[str]]:
        return [names(get(client, f"/styles?sort=model{more}")) for more in addresses]

    pages_of_few = shown("", "&page=2", "&page=3")
    assert [len(page) for page in pages_of_few] == [25, 25, 10]
    listed = [name for page in pages_of_few for name in page]
    assert listed == sorted(listed, key=str.lower)
    assert len(rows_of(client, "csv")) == 60
    monkeypatch.setattr(styles_view, "CELLS", 100)
    forget()
    pages_of_many = shown("", "&page=2", "&page=6")
    assert pages_of_many == [listed[:10], listed[10:20], listed[50:]]
    assert "Rows 11–20 of" in get(client, "/styles?sort=model&page=2")
    assert shown("&cols=one") == [listed[:20]]
