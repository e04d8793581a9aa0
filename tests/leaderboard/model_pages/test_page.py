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

from leaderboard.model_pages import pictures, standing
from leaderboard.model_pages.standing import Place, Verdict, extremes, positions_of
from leaderboard.models import (
    Artifact,
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
from tests.leaderboard.pages import download, get, text_of
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


def portrait(html: str) -> str:
    """What the first screen says of average and rank."""
    start = html.index('aria-label="Portrait"')
    return words(html[start : html.index("</section>", start)])


def part(client: Client, tab: str = "", model: str = ONE) -> str:
    """The HTML of one of the page's parts."""
    html = get(client, f"{model}?tab={tab}" if tab else model)
    return html[html.index('<section id="parts"') : html.index("</main>")]


def rows(html: str) -> list[str]:
    """What the lines of tables say, heads left out."""
    lines = re.findall(r"<tr>.*?</tr>", html, re.S)
    return [text_of(line) for line in lines if 'scope="row"' in line]


def test_average_and_rank_are_ranges_in_the_field(
    client: Client, models: dict[str, Variant], suite: Suite
) -> None:
    board = make.board(suite)
    row = board.row_of[models["one"].pk]
    low, high = board.ranks.low[row], board.ranks.high[row]
    assert (low, high) == (1, 2)
    average = board.average_of(row)
    html = get(client, ONE)
    said = portrait(html)
    assert f"Rank {board.ranks.rank[row]} of 3, between {low} and {high}" in said
    assert f"{100 * average.value:.1f}" in said
    assert f"{100 * average.low:.1f}–{100 * average.high:.1f}" in said
    assert "Averages of 3 models" in html
    assert "Asked three ways" in said
    assert re.search(r"Cloze.*rank \d \(\d–\d\).*MMLU-style.*Hybrid", said)


def test_every_benchmark_stands_in_every_style_with_its_interval_its_run_and_its_spread(
    client: Client, models: dict[str, Variant]
) -> None:
    scores = part(client)
    for run in models["one"].runs.all():
        result = run.results.get(metric="acc", subset="")
        assert f'href="/runs/{run.pk}"' in scores
        number = f"<b>{100 * result.value:.1f}</b>"
        bounds = f"{100 * result.low:.1f}–{100 * result.high:.1f}"
        assert f'{number}<span class="iv">{bounds}</span>' in scores
    assert 'href="/tasks/facts"' in scores
    lines = rows(scores)
    assert len(lines) == 2
    assert scores.count(" own") == 2, "one style of each benchmark counts"
    for line in lines:
        assert re.search(r"\+[\d.]+ [−\d.]+ to [\d.]+ \d \d–\d", line), line


def test_what_has_no_number_says_why_and_leads_to_its_run(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/part"), suite)
    by_task = {run.task.name: run for run in submission.runs.all()}
    make.finish(by_task["facts"], n=N)
    make.fail(by_task["facts_mmlu"], "TaskError", "column answer is missing")
    make.publish(suite)
    html = get(client, "/models/lab/part")
    assert "Not ranked Sums is queued. An average takes all 2 benchmarks." in text_of(html)
    assert f'href="/runs/{by_task["facts_mmlu"].pk}"><b>failed</b>' in html
    assert f'href="/runs/{by_task["sums"].pk}"><b>queued</b>' in html
    runs = part(client, "runs", "/models/lab/part")
    assert "column answer is missing" in runs
    assert "All 6 Queued 4 Done 1 Failed 1" in words(runs)
    only = part(client, "runs&state=failed", "/models/lab/part")
    assert "column answer is missing" in only
    assert len(rows(only)) == 1


def test_the_newest_complete_commit_of_a_precision_is_ranked_and_the_page_says_so(
    client: Client, small: Suite
) -> None:
    older = make.evaluated("lab/commits", small, SKILL, n=12, commit="a" * 40)
    newer = make.evaluated("lab/commits", small, SKILL, n=12, commit="b" * 40)
    unfinished = make.make_variant("lab/commits", commit="c" * 40)
    make.make_submission(unfinished, small)
    other = make.evaluated("lab/commits", small, SKILL, n=12, commit="d" * 40, dtype="bfloat16")
    make.publish(small)
    assert "one of 4 versions" in get(client, "/models/lab/commits")
    versions = part(client, "versions", "/models/lab/commits")
    assert "the newest that was submitted and has all its numbers is ranked" in words(versions)
    told = rows(versions)
    assert [row.split()[0] for row in told] == [letter * 12 for letter in "dcba"]
    assert "bbbbbbb is newer" in told[3]
    assert "2 columns without a number" in told[1]
    assert not any("—" in told[row] for row in (0, 2))
    assert f"<code>{newer.commit}</code>" in versions or f"<code>{other.commit}</code>" in versions
    before = f"/models/lab/commits?variant={older.pk}"
    assert "the newer commit bbbbbbb is ranked in its place" in portrait(get(client, before))
    assert f"<code>{older.commit}</code>" in get(client, f"{before}&tab=versions")


def test_ranks_in_other_styles_stand_beside(client: Client, small: Suite) -> None:
    make.evaluated("lab/texts", small, SKILL, n=100)
    make.evaluated("lab/letters", small, {"cloze": 0.2, "mmlu": 0.9}, n=100)
    make.publish(small)
    said = portrait(get(client, "/models/lab/texts"))
    assert "Asked two ways" in said
    assert re.search(r"Cloze.*rank 1 \(1–1\).*MMLU-style.*rank 2 \(2–2\)", said)
    places = [row for row in rows(part(client, "field", "/models/lab/texts")) if "Small" in row]
    assert all(row.startswith("Small 1.0") for row in places)
    assert "Cloze 1 1–1 of 2" in places[1]
    assert "MMLU-style 2 2–2 of 2" in places[2]


def test_a_rank_on_an_older_version_of_the_suite_is_kept_apart(client: Client) -> None:
    newer = make.make_suite(benchmarks=("facts", "riddles"), version="2.0")
    make.publish(newer)
    assert "Riddles is not measured" in words(get(client, ONE))
    field = part(client, "field")
    (older,) = [row for row in rows(field) if "an older version: not comparable" in row]
    assert "Workshop 1.0" in older
    assert 'href="/?suite=demo%401.0' in field


def test_a_flagged_model_has_its_reason_no_rank_and_no_place_in_the_field(
    client: Client, suite: Suite
) -> None:
    HubModel.objects.update(flag_reason="trained on the test questions")
    make.publish(suite)
    html = get(client, ONE)
    assert "Flagged: trained on the test questions" in html
    assert "No rank: it is flagged" in portrait(html)
    assert "so it has no place in the field" in words(part(client, "field"))


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
        assert re.search(r"Rank [12]\b", portrait(html))
        assert ('href="/models/lab/two"' in html) == (state == "renamed")
        assert (">On the Hub</a>" in html) == (state == "renamed")
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
    told = part(client, "family", "/models/lab/first")
    assert "Family of org/base" in words(told)
    tries = "3 commits or precisions of 2 models of this family, in 3 submissions"
    assert f"ada has submitted {tries}" in words(told)
    assert "bo has" not in told
    for name in (base.hub_model.repo_id, "lab/two", "lab/three"):
        assert f'href="/models/{name}"' in told


def test_facts_are_those_of_the_hub_and_without_a_number_the_page_says_so(client: Client) -> None:
    make.make_variant("lab/bare")
    assert "No board has a number of this commit yet." in words(get(client, "/models/lab/bare"))
    variant = make.make_variant("lab/new", parameters=14_000_000_000)
    Variant.objects.filter(pk=variant.pk).update(
        kind="chat", base_model="org/base", moe=True, chat_template_digest="e" * 64
    )
    html = get(client, "/models/lab/new")
    tags = text_of(html.split('<p class="tags">')[1].split("</p>")[0])
    assert tags.startswith("14B parameters, mixture of experts chat apache-2.0 float32")
    assert "fits 24 GB in 8-bit" in tags
    hub_link = f'/lab/new/tree/{variant.commit}" rel="nofollow noreferrer">On the Hub</a>'
    assert hub_link in html
    facts = part(client, "versions", "/models/lab/new")
    folded = facts[facts.index("<details") :]
    assert variant.commit in folded
    assert "e" * 64 in folded
    assert variant.commit not in facts[: facts.index("<details")]
    assert "Type Chat" in text_of(facts)
    assert "Base org/base on the Hub" in text_of(facts)


def test_it_can_be_compared_and_downloaded(client: Client, models: dict[str, Variant]) -> None:
    html = get(client, ONE)
    assert f'href="/compare?m={models["one"].pk}"' in html
    (address,) = re.findall(r'href="(/board\.csv[^"]*)"', html)
    lines = download(client, html_module.unescape(address)).decode().splitlines()
    assert sum("lab/one" in line for line in lines) == 1


def test_a_run_of_it_can_be_counted_again_from_its_page(
    client: Client, models: dict[str, Variant]
) -> None:
    html = get(client, ONE)
    (run,) = set(re.findall(r'hx-get="/runs/([0-9a-f-]+)/recount"', html))
    counted = models["one"].runs.get(pk=run)
    assert counted.task.style == "cloze", "the style that counts"
    assert html.count('id="counted"') == 1
    Artifact.objects.filter(run__variant=models["one"]).delete()
    forget()
    assert "recount" not in get(client, ONE), "no answers are stored"


def test_markup_in_names_and_messages_stays_text(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/new"), suite)
    for number, run in enumerate(submission.runs.order_by("pk")):
        if number == 0:
            make.fail(run, "TaskError", "<i>column</i> is missing")
        else:
            make.finish(run)
    suite.entries.update(title='"><b>Facts</b>')
    make.publish(suite)
    for tab in ("", "field", "size", "family", "runs", "versions"):
        html = get(client, f"/models/lab/new?tab={tab}".removesuffix("?tab="))
        assert "<b>Facts" not in html
        assert "<i>column" not in html
    assert "&gt;&lt;b&gt;Facts&lt;/b&gt;" in get(client, "/models/lab/new")
    assert "<b>Facts" not in get(client, "/embed/models/lab/new")


def test_an_unknown_model_is_not_found_and_a_variant_of_another_not_shown(client: Client) -> None:
    make.make_variant("lab/heron-7b")
    response = client.get("/models/lab/heron-70b")
    html = response.content.decode()
    assert response.status_code == 404
    assert 'href="/models/lab/heron-7b"' in html
    assert 'href="/submit?model=lab/heron-70b"' in html
    stranger = make.make_variant("lab/two")
    asked = client.get(f"/models/lab/one?variant={stranger.pk}&suite=none&state=x&tab=y")
    assert asked["Location"] == "/models/lab/one"


def test_many_runs_are_shown_in_pages_and_an_earlier_address_of_one_leads_to_its_part(
    client: Client, suite: Suite
) -> None:
    entry = suite.entries.all()[0]
    for number in range(20):
        make.queued_run(make.make_variant("lab/one", commit=f"{number:040x}"), entry)
    assert "1–20 of 26" in get(client, f"{ONE}?tab=runs")
    assert "21–26 of 26" in get(client, f"{ONE}?tab=runs&runs=2")
    assert client.get(f"{ONE}?runs=2")["Location"] == f"{ONE}?tab=runs&runs=2"


def first_row(board: Board, *, flagged: bool = False) -> int:
    return next(row for row, model in enumerate(board.models) if model.flagged == flagged)


def claimed_board(models: int, reach: int, seed: int) -> Board:
    """One whose claims are drawn by a coin."""
    board = synthetic_board(models, 2, seed=seed)
    better = np.random.default_rng(seed).random((board.ranked, reach)) < 0.5
    ranks = replace(board.ranks, better=np.packbits(better, axis=1), reach=reach)
    return replace(board, ranks=ranks)


NUMBERS = 'FROM "leaderboard_result"'


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
    assert NUMBERS in asked
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
        assert found.models == len(values)
        assert found.rank == 1 + sum(value > board.scores.value[row, at] for value in values)
        assert found.low <= found.rank <= found.high
        assert 0 <= found.bounds[0] <= found.at <= found.bounds[1] <= 1
    board = synthetic_board(50, 4, uncounted=1)
    assert [p.column.metric for p in positions_of(board, first_row(board))] == ["acc"] * 3


def test_a_shade_says_how_far_a_score_is_behind_the_best_that_the_board_may_rank():
    board = synthetic_board(300, 4, seed=2, uncounted=1)
    heat, places = positions.heat_of(board), positions.of_board(board)
    members = board.comparable
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
        found = standing.verdicts(board, row)
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
    claims = standing.verdicts(board, row)
    found = standing.not_told_apart(Place(board, row, True), claims)
    open_rows = [other for other, verdict in claims.items() if verdict is Verdict.OPEN]
    nearest = sorted(open_rows, key=lambda other: (abs(other - row), other))[: standing.NAMED]
    named = [board.models[other].repo_id for other in sorted(nearest)]
    assert [one.repo_id for one in found.nearest] == named
    assert len(named) == standing.NAMED < found.count == len(open_rows)


def test_similar_models_share_family_or_size_and_say_how_many_there_are():
    board = synthetic_board(300, 2)
    row = next(r for r in range(board.averaged) if board.models[r].base_model)
    own, place = board.models[row], Place(board, row, True)
    family, n_family = standing.of_family(place, own.base_model, {})
    for one in family:
        other = board.models[board.row_of[one.variant]]
        assert own.base_model in (other.base_model, other.repo_id)
        assert not other.flagged
    near, n_near, n_below = standing.of_size(place, {})
    for one in near:
        assert 1 / 1.25 <= one.parameters / own.parameters <= 1.25
    assert own.variant not in [one.variant for one in (*family, *near)]
    assert n_family >= len(family)
    sizes = [
        board.average_of(r).value
        for r, other in enumerate(board.models)
        if r != row
        and not other.flagged
        and board.average_of(r)
        and 1 / 1.25 <= other.parameters / own.parameters <= 1.25
    ]
    assert n_near == len(sizes)
    assert n_below == sum(value < board.average_of(row).value for value in sizes)


def test_strong_and_weak_is_called_only_what_lies_wholly_on_one_side_of_the_fields_middle():
    board = synthetic_board(200, 9, seed=5)
    seen = set()
    for row in np.flatnonzero(board.ranks.rank > 0).tolist():
        found = positions_of(board, row)
        picked = extremes(found)
        if picked is None:
            continue
        seen.add((picked.strong, picked.weak))
        above = [position for position in found if position.bounds[0] > 0.5]
        below = [position for position in found if position.bounds[1] < 0.5]
        assert picked.strong == bool(above)
        assert picked.weak == bool(below)
        if above:
            assert all(position in above for position in picked.highest)
        if below:
            assert all(position in below for position in picked.lowest)
        assert not set(map(id, picked.highest)) & set(map(id, picked.lowest))
    assert len(seen) > 2
    assert extremes(positions_of(synthetic_board(50, 2), 0)) is None, "of two benchmarks"


def test_the_fields_bins_hold_every_average_and_ten_thousand_models_are_a_small_picture():
    board = synthetic_board(10_000, 2)
    row = first_row(board)
    place, field = Place(board, row, True), pictures.field_of(board)
    assert sum(field.counts) == int((~np.isnan(board.average.value[board.comparable])).sum())
    assert field.low < place.average.low
    assert len(pictures.field_picture(place, 690)) < 4_000
    chart = pictures.size_picture(place)
    assert len(chart) < 160_000
    dots = re.findall(r"M(\d+) (\d+)h0", chart)
    assert len(dots) == len(set(dots)) > 1000
    ((x, y),) = re.findall(r'class="me" cx="([\d.]+)" cy="([\d.]+)"', chart)
    assert any(abs(int(left) - float(x)) <= 0.6 and abs(int(top) - float(y)) <= 0.6
               for left, top in dots)  # fmt: skip


def test_the_page_names_whom_it_cannot_be_told_apart_from_and_who_is_like_it(
    client: Client, models: dict[str, Variant]
) -> None:
    one, like = models["one"], models["like"]
    html = get(client, ONE)
    fold = html.split("1 model is not told apart from it")[1].split("</details>")[0]
    assert 'href="/models/lab/like"' in fold
    assert "/models/lab/worse" not in fold
    assert f'href="/compare?m={one.pk},{like.pk}"' in fold
    size = part(client, "size")
    assert "Averages of 3 models against their parameters" in size
    assert "shown to be worse" in words(size)


@pytest.mark.parametrize(
    ("benchmarks", "apart", "heads"),
    [
        (2, 1.0, []),
        (3, 0.1, ["Highest ranks", "Lowest ranks"]),
        (3, 1.0, ["Strongest, against the field", "Weakest, against the field"]),
    ],
)
def test_a_benchmark_is_called_strong_or_weak_where_its_range_does_not_hold_the_middle(
    client: Client, settings: Any, benchmarks: int, apart: float, heads: list[str]
) -> None:
    settings.PLUMBLINE_SUITE = "few"
    names = ("letters", "words", "lines")[:benchmarks]
    suite = make.make_suite("few", benchmarks=names, styles=("cloze",))
    skills = ((0.9, 0.5, 0.1), (0.6, 0.6, 0.4), (0.1, 0.4, 0.9), (0.2, 0.3, 0.8))
    for model, by_benchmark in enumerate(skills):
        variant = make.make_variant(f"lab/m{model}")
        entries = suite.entries.filter(own=True).order_by("position")
        for entry, skill in zip(entries, by_benchmark, strict=False):
            answers = make.Answers(skill=0.5 + apart * (skill - 0.5), n=200, seed=model)
            make.finish(make.queued_run(variant, entry), answers)
    make.publish(suite)
    html = get(client, "/models/lab/m0")
    found = [
        head for head in re.findall(r"<h2>([^<]*)</h2>", html) if "rank" in head or "," in head
    ]
    assert found == heads
    assert ("so none is called strong or weak" in words(html)) == (heads[:1] == ["Highest ranks"])
    assert ("Strongest on Letters" in html) == (heads[:1] == ["Strongest, against the field"])


def test_a_board_of_one_model_and_one_benchmark_has_no_field(client: Client, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "alone"
    suite = make.make_suite("alone", benchmarks=("letters",))
    make.evaluated("lab/alone", suite, SKILL)
    make.publish(suite)
    html = get(client, "/models/lab/alone")
    assert "Strongest" not in html
    assert "not told apart from it" not in html
    assert "so there is no field to place it in" in words(
        part(client, "field", "/models/lab/alone")
    )
    assert "there is nothing to draw" in words(part(client, "size", "/models/lab/alone"))


def numbers(html: str) -> list[tuple[str, str]]:
    """Each score of the table with its run."""
    return re.findall(r'<a href="(/runs/[^"]+)"[^>]*>(<b>.*?</span>)', html)


def test_what_is_on_the_board_is_not_read_again_and_the_numbers_are_the_same() -> None:
    html, asked = page("lab/one")
    assert NUMBERS not in asked
    assert len(numbers(html)) == 6
    assert numbers(html) == numbers(page_from_tables("lab/one"))


def test_a_run_that_ended_since_the_board_is_there_at_once(suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/late"), suite)
    last, *others = submission.runs.order_by("task__name")
    for run in others:
        make.finish(run, n=N)
    make.publish(suite)
    assert f'href="/runs/{last.pk}"><b>queued</b>' in page("lab/late")[0]
    make.finish(last, n=N)
    html, _ = page("lab/late")
    assert f'href="/runs/{last.pk}"><b>queued</b>' not in html
    assert numbers(html) == numbers(page_from_tables("lab/late"))


def test_a_number_in_whose_place_another_run_ended_is_not_taken_from_the_board(
    suite: Suite,
) -> None:
    variant = Variant.objects.get(hub_model__repo_id="lab/one")
    old = Run.objects.filter(variant=variant, task__style="cloze")[0]
    Run.objects.filter(pk=old.pk).update(state=Run.State.CANCELLED)
    entry = SuiteEntry.objects.get(suite=suite, run_key=old.run_key)
    new = make.finish(make.queued_run(variant, entry), make.Answers(skill=0.2, n=N, seed=1))
    html, _ = page("lab/one")
    found = dict(numbers(html))
    assert f"/runs/{new.pk}" in found
    assert f"/runs/{old.pk}" not in found
    assert numbers(html) == numbers(page_from_tables("lab/one"))
