"""The model page: which commit is ranked, its numbers, its place in the field, its fate."""

from __future__ import annotations

import html as html_module
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboard.model_pages import neighbours
from leaderboard.model_pages.field import positions_of
from leaderboard.model_pages.neighbours import Verdict
from leaderboard.model_pages.places import Place
from leaderboard.model_pages.size_chart import TALL, WIDE, size_chart
from leaderboard.models import (
    BoardSnapshot,
    HubModel,
    Run,
    Submission,
    Suite,
    SuiteEntry,
    User,
    Variant,
)
from leaderboard.snapshot import EVERY, Board, positions
from leaderboard.web import kept
from tests.leaderboard import factories as make
from tests.leaderboard.boards import shown_better, synthetic_board
from tests.leaderboard.pages import download, get, section, text_of
from tests.leaderboard.rows import forget, once_per_module

SKILL = {"cloze": 0.8, "mmlu": 0.4, "hybrid": 0.6}
N = 60
ONE = "/models/lab/one"


@once_per_module
def three_models() -> dict[str, Variant]:
    suite = make.make_suite(benchmarks=("facts", "sums"))
    skills = {"one": SKILL, "like": SKILL, "worse": dict.fromkeys(SKILL, 0.05)}
    models = {
        name: make.evaluated(f"lab/{name}", suite, skill, n=N) for name, skill in skills.items()
    }
    make.publish(suite)
    return models


@pytest.fixture(autouse=True)
def models(three_models: dict[str, Variant], db: None, settings: Any) -> dict[str, Variant]:
    settings.PLUMBLINE_SUITE = "demo"
    return three_models


@pytest.fixture
def suite(models: dict[str, Variant]) -> Suite:
    return Suite.objects.get()


@pytest.fixture
def small(db: None, settings: Any) -> Suite:
    """Another suite, on which nothing was measured, as the site's."""
    settings.PLUMBLINE_SUITE = "small"
    return make.make_suite("small", benchmarks=("letters", "riddles"), styles=("cloze", "mmlu"))


def words(html: str) -> str:
    return text_of(html, between="")


def lede(html: str) -> str:
    return words(html.split('<p class="lede">')[1].split("</p>")[0])


def test_the_rank_is_a_range_and_says_who_is_told_apart(
    client: Client, models: dict[str, Variant], suite: Suite
) -> None:
    board = make.board(suite)
    row = board.row_of[models["one"].pk]
    low, high = board.ranks.low[row], board.ranks.high[row]
    assert (low, high) == (1, 2)
    average = board.average_of(row)
    said = lede(get(client, ONE))
    assert f"Rank {board.ranks.rank[row]} ({low}–{high}) of 3" in said
    assert f"an average of {100 * average.value:.1f} ±" in said
    assert "shown to be better than 1 model and worse than none; 1 cannot be told apart" in said


def test_every_benchmark_stands_in_every_style_with_its_interval_its_run_and_their_spread(
    client: Client, models: dict[str, Variant]
) -> None:
    scores = section(get(client, ONE), "scores")
    for run in models["one"].runs.all():
        result = run.results.get(metric="acc", subset="")
        assert f'href="/runs/{run.pk}"' in scores
        assert f">{100 * result.value:.1f}</a>" in scores
    assert scores.count("<svg") == 6
    assert 'href="/tasks/facts"' in scores
    spreads = re.findall(r"Spread over styles [^|]*?questions", words(scores))
    assert len(spreads) == 2
    for spread in spreads:
        assert re.search(r"[\d.]+ ±[\d.]+ points, Cloze over MMLU-style", spread)
    assert "on the same questions" in spreads[0]


def test_what_has_no_number_says_why_and_leads_to_its_run(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/part"), suite)
    by_task = {run.task.name: run for run in submission.runs.all()}
    make.finish(by_task["facts"], n=N)
    make.fail(by_task["facts_mmlu"], "TaskError", "column answer is missing")
    make.publish(suite)
    html = get(client, "/models/lab/part")
    assert "Not ranked: Sums is queued." in lede(html)
    scores = section(html, "scores")
    assert f'href="/runs/{by_task["facts_mmlu"].pk}">failed</a>' in scores
    assert f'href="/runs/{by_task["sums"].pk}">queued</a>' in scores
    runs = section(html, "runs")
    assert "column answer is missing" in runs
    assert "All 6 Queued 4 Done 1 Failed 1" in words(runs)
    only = section(get(client, "/models/lab/part?state=failed"), "runs")
    assert "column answer is missing" in only
    assert only.count('<tr role="row">') == 2


def test_the_newest_complete_commit_of_a_precision_is_ranked_and_the_page_says_so(
    client: Client, small: Suite
) -> None:
    older = make.evaluated("lab/commits", small, SKILL, n=12, commit="a" * 40)
    newer = make.evaluated("lab/commits", small, SKILL, n=12, commit="b" * 40)
    unfinished = make.make_variant("lab/commits", commit="c" * 40)
    make.make_submission(unfinished, small)
    other = make.evaluated("lab/commits", small, SKILL, n=12, commit="d" * 40, dtype="bfloat16")
    make.publish(small)
    html = get(client, "/models/lab/commits")
    revisions = section(html, "revisions")
    assert "the newest that was submitted and has all its numbers is ranked" in words(revisions)
    told = [words(row) for row in revisions.split('<tr role="row">')[2:]]
    assert [row.split()[0] for row in told] == [letter * 12 for letter in "dcba"]
    assert "none: bbbbbbb is newer" in told[3]
    assert "2 columns without a number" in told[1]
    assert not any("none" in told[row] for row in (0, 2))
    assert f"<code>{newer.commit}</code>" in html or f"<code>{other.commit}</code>" in html
    before = get(client, f"/models/lab/commits?variant={older.pk}")
    assert "the newer commit bbbbbbb is ranked in its place" in lede(before)
    assert f"<code>{older.commit}</code>" in before


def test_ranks_in_other_styles_stand_beside(client: Client, small: Suite) -> None:
    make.evaluated("lab/texts", small, SKILL, n=100)
    make.evaluated("lab/letters", small, {"cloze": 0.2, "mmlu": 0.9}, n=100)
    make.publish(small)
    html = get(client, "/models/lab/texts")
    places = [words(row) for row in section(html, "places").split('<tr role="row">')[2:]]
    assert all(row.startswith("Small 1.0") for row in places)
    assert "Cloze 1 (1–1) of 2" in places[1]
    assert "MMLU-style 2 (2–2) of 2" in places[2]


def test_a_rank_on_an_older_version_of_the_suite_is_kept_apart(client: Client) -> None:
    newer = make.make_suite(benchmarks=("facts", "riddles"), version="2.0")
    make.publish(newer)
    html = get(client, ONE)
    assert "Riddles is not measured" in lede(html)
    (older,) = [
        words(row)
        for row in section(html, "places").split('<tr role="row">')[2:]
        if "an older version: not comparable" in row
    ]
    assert "Workshop 1.0" in older
    assert 'href="/?suite=demo%401.0' in html


def test_a_flagged_model_has_its_reason_no_rank_and_no_place_in_the_field(
    client: Client, suite: Suite
) -> None:
    HubModel.objects.update(flag_reason="trained on the test questions")
    make.publish(suite)
    html = get(client, ONE)
    assert "Flagged: trained on the test questions" in html
    assert "Flagged, so it has no rank: its average is" in lede(html)
    assert "so it has no place in the field" in words(section(html, "profile"))


def test_what_became_of_it_is_a_note_and_its_numbers_stay(client: Client) -> None:
    make.make_variant("lab/two")
    for state, note in {
        "gone": "No longer on the Hub.",
        "private": "No longer open to everybody on the Hub.",
        "renamed": "Renamed on the Hub: it is lab/two now.",
    }.items():
        HubModel.objects.filter(repo_id="lab/one").update(
            hub_state=state, renamed_to="lab/two" if state == "renamed" else ""
        )
        forget()
        html = get(client, ONE)
        assert note in words(html)
        assert re.search(r"Rank [12]\b", lede(html))
        assert ('href="/models/lab/two"' in html) == (state == "renamed")
        assert note not in get(client, "/models/lab/two")


def test_the_same_weights_under_two_names_lead_to_each_other(client: Client) -> None:
    two, three = make.make_variant("lab/two"), make.make_variant("lab/three")
    make.make_variant("lab/four")
    Variant.objects.filter(pk__in=(two.pk, three.pk)).update(weights_digest="d" * 64)
    assert f'href="/models/lab/three?variant={three.pk}"' in get(client, "/models/lab/two")
    assert f'href="/models/lab/two?variant={two.pk}"' in get(client, "/models/lab/three")
    assert "The same weights" not in get(client, "/models/lab/four")


def test_all_tries_of_a_submitter_in_one_family_are_told(client: Client, suite: Suite) -> None:
    ada, bo = User.objects.create_user("ada"), User.objects.create_user("bo")
    base = make.make_variant("org/base")
    for name, by, dtype in (
        ("lab/first", ada, "float32"),
        ("lab/first", ada, "bfloat16"),
        ("lab/two", ada, "float32"),
        ("lab/three", bo, "float32"),
    ):
        tuned = make.make_variant(name, dtype=dtype)
        Submission.objects.create(variant=tuned, suite=suite, submitter=by)
    Variant.objects.exclude(hub_model=base.hub_model).update(base_model="org/base")
    told = section(get(client, "/models/lab/first"), "family")
    assert "Family of org/base" in words(told)
    tries = "3 commits or precisions of 2 models of this family, in 3 submissions"
    assert f"ada has submitted {tries}" in words(told)
    assert "bo has" not in told
    for name in (base.hub_model.repo_id, "lab/two", "lab/three"):
        assert f'href="/models/{name}"' in told


def test_facts_are_those_of_the_hub_and_without_a_number_the_page_says_so(client: Client) -> None:
    make.make_variant("lab/bare")
    html = get(client, "/models/lab/bare")
    assert "Not ranked: no board has a number of this commit yet." in lede(html)
    assert "Nothing of it is on this board yet." in html
    variant = make.make_variant("lab/new")
    Variant.objects.filter(pk=variant.pk).update(
        kind="chat", base_model="org/base", moe=True, chat_template_digest="e" * 64
    )
    facts = words(get(client, "/models/lab/new").split('<dl class="bom">')[1].split("</dl>")[0])
    assert variant.commit in facts
    assert "0.41M, mixture of experts" in facts
    assert "Type Chat" in facts
    assert "Base org/base on the Hub" in facts
    assert "has one eeeeeeeeeeee" in facts


def test_it_can_be_compared_pinned_and_downloaded(
    client: Client, models: dict[str, Variant]
) -> None:
    html = get(client, ONE)
    assert f'href="/compare?m={models["one"].pk}"' in html
    assert f'href="/?pin={models["one"].pk}"' in html
    (address,) = re.findall(r'href="(/board\.csv[^"]*)"', html)
    rows = download(client, html_module.unescape(address)).decode().splitlines()
    assert sum("lab/one" in row for row in rows) == 1


def test_markup_in_names_and_messages_stays_text(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/new"), suite)
    for number, run in enumerate(submission.runs.order_by("pk")):
        if number == 0:
            make.fail(run, "TaskError", "<i>column</i> is missing")
        else:
            make.finish(run)
    suite.entries.update(title='"><b>Facts</b>')
    html = get(client, "/models/lab/new")
    assert "<b>Facts" not in html
    assert "<i>column" not in html
    assert html.count("&quot;&gt;&lt;b&gt;Facts&lt;/b&gt;") > 10


def test_an_unknown_model_is_not_found_and_a_variant_of_another_not_shown(client: Client) -> None:
    make.make_variant("lab/heron-7b")
    response = client.get("/models/lab/heron-70b")
    html = response.content.decode()
    assert response.status_code == 404
    assert 'href="/models/lab/heron-7b"' in html
    assert 'href="/submit?model=lab/heron-70b"' in html
    stranger = make.make_variant("lab/two")
    asked = client.get(f"/models/lab/one?variant={stranger.pk}&suite=none&state=x")
    assert asked["Location"] == "/models/lab/one"


def test_many_runs_are_shown_in_pages(client: Client, suite: Suite) -> None:
    entry = suite.entries.all()[0]
    for number in range(20):
        make.queued_run(make.make_variant("lab/one", commit=f"{number:040x}"), entry)
    assert "1–20 of 26" in get(client, ONE)
    assert "21–26 of 26" in get(client, f"{ONE}?runs=2")


def first_row(board: Board, *, flagged: bool = False) -> int:
    return next(row for row, model in enumerate(board.models) if model.flagged == flagged)


def claimed_board(models: int, reach: int, seed: int) -> Board:
    """One whose claims are drawn by a coin."""
    board = synthetic_board(models, 2, seed=seed)
    better = np.random.default_rng(seed).random((board.ranked, reach)) < 0.5
    ranks = replace(board.ranks, better=np.packbits(better, axis=1), reach=reach)
    return replace(board, ranks=ranks)


NUMBERS = ('FROM "leaderboard_result"', 'FROM "leaderboard_scorevector"')


def page(model: str) -> tuple[str, str]:
    """Its HTML, and all that the database was asked for it."""
    kept.forget()
    with CaptureQueriesContext(connection) as asked:
        response = Client().get(f"/models/{model}")
    assert response.status_code == 200
    return response.content.decode(), "\n".join(query["sql"] for query in asked)


def page_from_tables(model: str) -> str:
    """The same as if the board of every style had never been built."""
    BoardSnapshot.objects.filter(style=EVERY).delete()
    html, asked = page(model)
    assert all(table in asked for table in NUMBERS)
    return html


def test_a_position_counts_only_shares_of_models_that_the_board_may_rank():
    board = synthetic_board(200, 4)
    row = first_row(board)
    for found in positions_of(board, row):
        at = board.columns.index(found.column)
        values = [
            board.scores.value[other, at]
            for other, model in enumerate(board.models)
            if not model.flagged and not np.isnan(board.scores.value[other, at])
        ]
        assert found.of == len(values)
        assert found.rank == 1 + sum(value > board.scores.value[row, at] for value in values)
        assert found.low <= found.rank <= found.high
        assert 0 <= found.bounds[0] <= found.at <= found.bounds[1] <= 1
    board = synthetic_board(50, 4, uncounted=1)
    assert [p.column.metric for p in positions_of(board, first_row(board))] == ["acc"] * 3


def test_a_shade_says_how_far_a_score_is_behind_the_best_that_the_board_may_rank():
    board = synthetic_board(300, 4, seed=2, uncounted=1)
    heat, places = positions.heat_of(board), positions.of_board(board)
    members = positions.members(board)
    for column in range(3):
        values = board.scores.value[:, column]
        best = np.nanmax(values[members])
        for row, value in enumerate(values):
            points = 100 * (best - value)
            if np.isnan(value):
                expected = 0
            elif places.low[row, column] == 1:
                expected = positions.NOT_TOLD_APART
            else:
                expected = sum(points < bound for bound in (4, 7, 11, 16))
            assert heat[row, column] == expected
    assert not heat[:, 3].any(), "of a perplexity less is better"
    assert set(heat.ravel().tolist()) >= {0, 1, 2, 3, positions.NOT_TOLD_APART}


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 40), st.integers(1, 45), st.integers(0, 99))
def test_verdicts_on_others_are_the_claims_of_the_board(models: int, reach: int, seed: int):
    board = claimed_board(models, reach, seed)
    rows = np.flatnonzero(board.ranks.rank > 0).tolist()
    for own, row in enumerate(rows):
        found = neighbours.verdicts(board, row)
        for place, other in enumerate(rows):
            if place == own or abs(place - own) > reach:
                assert other not in found
            elif shown_better(board.ranks, min(own, place), max(own, place)):
                assert found[other] is (Verdict.BETTER if place < own else Verdict.WORSE)
            else:
                assert found[other] is Verdict.OPEN


def test_the_nearest_of_those_not_told_apart_are_named_in_order_of_rank():
    board = claimed_board(120, 60, 3)
    row = int(np.flatnonzero(board.ranks.rank > 0)[50])
    claims = neighbours.verdicts(board, row)
    named = neighbours.not_told_apart(Place(board, row, True), claims)
    open_rows = [other for other, verdict in claims.items() if verdict is Verdict.OPEN]
    nearest = sorted(open_rows, key=lambda other: (abs(other - row), other))[: neighbours.NAMED]
    assert [one.repo_id for one in named] == [board.models[o].repo_id for o in sorted(nearest)]
    assert len(named) == neighbours.NAMED


def test_similar_models_share_family_or_size_and_say_how_many_there_are():
    board = synthetic_board(300, 2)
    row = next(r for r in range(board.averaged) if board.models[r].base_model)
    own = board.models[row]
    found = neighbours.similar(Place(board, row, True), own.base_model, {})
    for one in found.family:
        other = board.models[board.row_of[one.variant]]
        assert own.base_model in (other.base_model, other.repo_id)
        assert not other.flagged
    for one in found.size:
        assert 1 / 1.25 <= one.parameters / own.parameters <= 1.25
    assert own.variant not in [one.variant for one in (*found.family, *found.size)]
    sizes = [
        other
        for r, other in enumerate(board.models)
        if r != row
        and not other.flagged
        and board.average_of(r)
        and 1 / 1.25 <= other.parameters / own.parameters <= 1.25
    ]
    assert found.n_size == len(sizes)


def test_ten_thousand_models_are_a_small_picture_and_one_of_them_is_marked():
    board = synthetic_board(10_000, 2)
    row = first_row(board)
    average = board.average_of(row)
    chart = size_chart(board, row, average)
    assert len(chart.field.path) < 120_000
    places = [tuple(map(int, dot)) for dot in re.findall(r"M(\d+) (\d+)h0", chart.field.path)]
    assert len(places) == len(set(places)) > 1000
    x, y = float(chart.x[:-1]) / 100 * WIDE, float(chart.y[:-1]) / 100 * TALL
    assert any(abs(left - x) <= 0.51 and abs(top - y) <= 0.51 for left, top in places)
    assert 0 < chart.below <= chart.near


def test_the_first_screen_names_whom_it_cannot_be_told_apart_from(
    client: Client, models: dict[str, Variant]
) -> None:
    one, like = models["one"], models["like"]
    html = get(client, ONE)
    assert "1 cannot be told apart from it" in lede(html)
    named = html.split("Not told apart from it")[1].split("</p>")[0]
    assert 'href="/models/lab/like"' in named
    assert "/models/lab/worse" not in named
    assert f'href="/compare?m={one.pk},{like.pk}"' in named
    stands = words(html.split('<dl class="facts ruled stands">')[1].split("</dl>")[0])
    assert re.search(r"Cloze \d \(\d–\d\) of 3 MMLU-style \d \(\d–\d\) of 3 Hybrid", stands)
    profile = section(html, "profile")
    assert profile.count("<tr") == 3
    assert "<title id=" in html
    assert "3 models against their parameters" in words(html)
    assert "shown to be worse" in words(html.split('id="similar"')[1])


def test_the_highest_and_the_lowest_rank_are_called_so_and_picked_from_three_benchmarks_or_more(
    client: Client, settings: Any
) -> None:
    """A rank is among the models of a benchmark: the lowest may be on the one with most percent."""
    settings.PLUMBLINE_SUITE = "few"
    for names, told in ((("letters", "words"), False), (("letters", "words", "lines"), True)):
        suite = make.make_suite("few", version=str(len(names)), benchmarks=names, styles=("cloze",))
        for place, name in enumerate(("one", "two", "three")):
            variant = make.make_variant(f"lab/{name}-{len(names)}")
            for number, entry in enumerate(suite.entries.filter(own=True).order_by("position")):
                # Each is last on one of the benchmarks.
                skill = 0.2 if number == place else 0.9 - 0.2 * place
                make.finish(make.queued_run(variant, entry), skill=skill, n=60)
        make.publish(suite)
        html = get(client, f"/models/lab/one-{len(names)}")
        assert "Strongest" not in html
        assert "weakest" not in html
        assert ("Highest rank" in html) == told
        assert ("Lowest rank" in html) == told
        assert ("Its highest rank is on" in html) == told


def test_a_board_of_one_model_and_one_benchmark_has_no_field(client: Client, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "alone"
    suite = make.make_suite("alone", benchmarks=("letters",))
    make.evaluated("lab/alone", suite, SKILL)
    make.publish(suite)
    html = get(client, "/models/lab/alone")
    assert "so there is no field to place it in" in words(section(html, "profile"))
    assert 'id="size"' not in html
    assert 'id="similar"' not in html
    assert "Strongest" not in html
    assert "Not told apart" not in html


def test_what_is_on_the_board_is_not_read_again_and_the_page_is_the_same() -> None:
    html, asked = page("lab/one")
    assert not any(table in asked for table in NUMBERS)
    assert html.count("on the same questions") == 2
    assert html == page_from_tables("lab/one")


def test_a_run_that_ended_since_the_board_is_there_at_once(suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/late"), suite)
    last, *others = submission.runs.order_by("task__name")
    for run in others:
        make.finish(run, n=N)
    make.publish(suite)
    assert f'href="/runs/{last.pk}">queued</a>' in page("lab/late")[0]
    make.finish(last, n=N)
    html, _ = page("lab/late")
    assert f'href="/runs/{last.pk}">queued</a>' not in html
    assert html == page_from_tables("lab/late")


def test_a_number_in_whose_place_another_run_ended_is_not_taken_from_the_board(
    suite: Suite,
) -> None:
    variant = Variant.objects.get(hub_model__repo_id="lab/one")
    old = Run.objects.filter(variant=variant, task__style="cloze")[0]
    Run.objects.filter(pk=old.pk).update(state=Run.State.CANCELLED)
    entry = SuiteEntry.objects.get(suite=suite, run_key=old.run_key)
    new = make.finish(make.queued_run(variant, entry), make.Answers(skill=0.2, n=N, seed=1))
    html, _ = page("lab/one")
    scores = html[html.index('aria-labelledby="scores"') : html.index('aria-labelledby="runs"')]
    assert f"/runs/{new.pk}" in scores
    assert f"/runs/{old.pk}" not in scores
    assert html == page_from_tables("lab/one")
