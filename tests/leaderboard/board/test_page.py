"""The board as its readers see it: order, ranges, bands, missing numbers, what was chosen."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.test import Client

from demo.page import Page
from leaderboard.models import Suite, SuiteEntry
from leaderboard.snapshot import Board
from tests.leaderboard import factories as make
from tests.leaderboard.boards import publish, synthetic_board

STRONG = {"cloze": 0.9, "mmlu": 0.3, "hybrid": 0.8}
MIDDLE = {"cloze": 0.6, "mmlu": 0.6, "hybrid": 0.6}
WEAK = {"cloze": 0.3, "mmlu": 0.9, "hybrid": 0.4}
BOARD = synthetic_board(130, 12, uncounted=1)


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(notice="Scores mean nothing beyond the demo.")


@pytest.fixture
def synthetic(db: None, settings: Any) -> Suite:
    """A suite whose board is made up: 130 models, 12 columns, bands of five."""
    settings.PLUMBLINE_SUITE = "synthetic"
    suite = make.make_suite("synthetic")
    publish(BOARD, suite)
    return suite


def names(html: str) -> list[str]:
    """Model IDs in the order of the table's rows."""
    return re.findall(r'<a class="mid" href="/models/([^"]+)"', html)


def text_of(html: str) -> str:
    """What is read, without markup and with single spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).replace("&nbsp;", " ").split())


def row_of(html: str, variant: int) -> str:
    found = re.search(rf'<tr role="row" id="m{variant}".*?</tr>', html, re.S)
    assert found, f"no row m{variant}"
    return found[0]


def get(client: Client, address: str = "/") -> str:
    response = client.get(address)
    assert response.status_code == 200, (address, response.status_code)
    return response.content.decode()


def get_built(client: Client, suite: Suite, address: str = "/") -> str:
    make.publish(suite)
    return get(client, address)


# Order, ranks and bands


def test_models_stand_in_the_order_of_their_average(client: Client, suite: Suite) -> None:
    make.evaluated("lab/weak", suite, WEAK)
    make.evaluated("lab/strong", suite, STRONG)
    make.evaluated("lab/middle", suite, MIDDLE)
    assert names(get_built(client, suite)) == ["lab/strong", "lab/middle", "lab/weak"]


def test_a_model_with_a_benchmark_missing_has_no_average_and_no_rank(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/whole", suite, MIDDLE)
    part = make.make_submission(make.make_variant("lab/part"), suite)
    make.finish(part.runs.get(task__name="facts"), skill=1.0)
    html = get_built(client, suite)
    assert names(html) == ["lab/whole", "lab/part"]
    unranked = text_of(html[html.index("<b>Not ranked</b>") :])
    assert "– no rank Scores of part lab/ part" in unranked
    assert "no average" in unranked
    assert "queued" in unranked


def test_every_rank_has_its_range(client: Client, synthetic: Suite) -> None:
    ranks = BOARD.ranks
    for variant, row in list(BOARD.row_of.items())[:40]:
        page = get(client, f"/?at_model={variant}")
        text = text_of(row_of(page, variant))
        if ranks.rank[row]:
            assert f"{ranks.rank[row]} ({ranks.low[row]}–{ranks.high[row]})" in text
        else:
            assert "no rank" in text


def test_the_demo_finds_the_ranked_models_in_the_page(client: Client, synthetic: Suite) -> None:
    ranked = {m.repo_id for m, rank in zip(BOARD.models, BOARD.ranks.rank, strict=True) if rank}
    html = get(client)
    assert Page(html).ranked_models() == ranked & set(names(html))


def test_a_range_that_ends_where_nobody_was_compared_says_that_it_may_go_on(
    client: Client, synthetic: Suite
) -> None:
    assert "it may go on" not in get(client)
    cut = BOARD.ranks.rank > 0
    ranks = replace(BOARD.ranks, cut_low=cut, cut_high=cut, reach=100)
    later = BOARD.built + timedelta(hours=1)
    publish(replace(BOARD, ranks=ranks, built=later, data_version="c"), synthetic)
    page = text_of(get(client))
    assert "(≤1–≥3)" in page
    assert "compared with the 100 above it and the 100 below it" in page


def test_a_band_names_its_first_and_how_many_are_in_a_tie_with_it(
    client: Client, synthetic: Suite
) -> None:
    first = BOARD.models[int(np.flatnonzero(BOARD.ranks.rank == 6)[0])]
    page = get(client)
    assert f"{first.repo_id.partition('/')[2]} and 4 models in a statistical tie" in text_of(page)
    assert page.count(' class="tie">') == page.count('class="band"')


def test_a_band_of_which_a_filter_leaves_a_part_is_named_by_a_model_that_is_left(
    client: Client, synthetic: Suite
) -> None:
    page = get(client, "/?q=llama")
    shown = {name.partition("/")[2] for name in names(page)}
    headings = re.findall(r'<tr role="row" class="band">.*?</tr>', page, re.S)
    assert "in a statistical tie with it, 0 of those here" in text_of("".join(headings))
    elsewhere = [heading for heading in headings if "<a " in heading]
    assert len(elsewhere) > 3
    for heading in elsewhere:
        named = re.search(r"<b>(\S+?)(?: and \d+ more models? here)?</b>", heading)
        first = re.search(r'<a href="/\?at_model=(\d+)#m\1">(\S+)</a>, rank (\d+)', heading)
        assert named is not None
        assert named[1] in shown
        assert first is not None
        assert first[2] not in shown
        assert BOARD.ranks.rank[BOARD.row_of[int(first[1])]] == int(first[3])


def test_a_filtered_board_says_the_place_among_those_found_beside_the_rank(
    client: Client, synthetic: Suite
) -> None:
    assert 'class="meta among"' not in get(client)
    ranked = [
        (int(rank), model.variant)
        for model, rank in zip(BOARD.models, BOARD.ranks.rank, strict=True)
        if rank and "llama" in model.repo_id.lower()
    ]
    for view in ("/?q=llama", "/?q=llama&sort=bench_03"):
        page = get(client, view)
        for place, (rank, variant) in enumerate(sorted(ranked)[:3], start=1):
            ending = ("st", "nd", "rd")[place - 1]
            said = text_of(row_of(page, variant))
            assert said.startswith(f"{rank} (")
            assert f") {place}{ending} of {len(ranked)} " in said


def test_a_band_of_one_has_a_heading_for_screen_readers_only(
    client: Client, synthetic: Suite
) -> None:
    alone = np.where(BOARD.ranks.rank > 0, BOARD.ranks.rank - 1, -1).astype(np.int32)
    ranks, later = replace(BOARD.ranks, band=alone), BOARD.built + timedelta(hours=1)
    publish(replace(BOARD, ranks=ranks, built=later, data_version="s"), synthetic)
    page = get(client)
    assert "in a statistical tie with it" not in text_of(page)
    second, leader = (int(np.flatnonzero(BOARD.ranks.rank == rank)[0]) for rank in (2, 1))
    name = BOARD.models[leader].repo_id.partition("/")[2]
    assert f'<span class="sr">1 model, told apart from {name}</span>' in page
    assert BOARD.models[second].repo_id in names(page)


@pytest.mark.parametrize(
    "view", ["?sort=bench_01", "?sort=model", "?cols=bench_01", "?score=chance"]
)
def test_bands_belong_to_the_suites_own_order(client: Client, synthetic: Suite, view: str) -> None:
    assert "in a statistical tie with" not in get(client, f"/{view}")


def test_a_flagged_model_keeps_its_place_without_a_rank_and_says_why(
    client: Client, synthetic: Suite
) -> None:
    row = next(row for row in range(BOARD.averaged) if BOARD.models[row].flagged)
    model = BOARD.models[row]
    line = row_of(get(client, f"/?at_model={model.variant}"), model.variant)
    assert 'class="flagged marked"' in line
    assert "Flagged: Trained on the questions" in line
    assert "no rank" in line
    average = BOARD.average_of(row)
    assert average is not None
    assert f">{100 * average.value:.1f}</b>" in line


def test_a_model_that_left_the_hub_stays_with_a_note(client: Client, synthetic: Suite) -> None:
    model = next(model for model in BOARD.models if model.hub_state == "gone")
    line = row_of(get(client, f"/?at_model={model.variant}"), model.variant)
    assert "no longer on the Hub" in line


# Cells


def test_a_lopsided_interval_stands_as_both_its_ends(client: Client, suite: Suite) -> None:
    variant = make.evaluated("lab/perfect", suite, {**STRONG, "cloze": 1.0}, n=200)
    run = variant.runs.get(task__name="facts")
    run.results.filter(metric="acc").update(value=1.0, low=0.984, high=1.0)
    line = row_of(get_built(client, suite), variant.pk)
    assert '>100.0</a> <span class="pm ends">98.4–100.0</span>' in line
    assert "±1.6" not in line


def test_why_a_run_is_not_comparable_is_said_without_making_its_row_higher(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/first", suite, MIDDLE, n=40)
    make.evaluated("lab/other", suite, STRONG, n=30)
    html = get_built(client, suite)
    why = "other questions than this column’s (n = 30)"
    assert f'<span class="none" title="{why}">' in html
    assert f'<span class="sr">: {why}</span>' in html


def test_a_failed_run_is_shown_as_failed_and_links_to_its_page(
    client: Client, suite: Suite
) -> None:
    submission = make.make_submission(make.make_variant("lab/broken"), suite)
    run = submission.runs.get(task__name="facts")
    make.fail(run, "ModelError", "no vector for token 9")
    assert f'<a href="/runs/{run.pk}">failed</a>' in get_built(client, suite)


def test_a_model_whose_every_run_failed_has_no_row_and_keeps_its_page(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/fine", suite, MIDDLE, n=40)
    submission = make.make_submission(make.make_variant("lab/broken"), suite)
    for run in submission.runs.all():
        make.fail(run, "ModelError", "no vector for token 9")
    html = get_built(client, suite)
    assert "lab/fine" in html
    assert "lab/broken" not in html
    page = client.get("/models/lab/broken")
    assert page.status_code == 200
    assert f'href="/runs/{run.pk}"' in page.content.decode()


def test_a_result_on_other_questions_is_not_comparable_and_says_why(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/first", suite, MIDDLE, n=40)
    make.evaluated("lab/other", suite, STRONG, n=30)
    html = get_built(client, suite)
    assert "not comparable" in html
    assert "other questions than this column’s (n = 30)" in html


def test_a_result_of_an_older_task_version_is_not_comparable_and_says_why(
    client: Client, suite: Suite
) -> None:
    entry = SuiteEntry.objects.get(suite=suite, benchmark="facts", style="cloze")
    old = make.task_version("facts", "cloze", "0.9")
    run = make.queued_run(make.make_variant("lab/old"), entry, task=old, run_key="f" * 64)
    make.finish(run)
    assert "task version 0.9, this column is 1.0" in get_built(client, suite)


def test_every_score_links_to_its_run_and_has_its_full_value_in_the_title(
    client: Client, suite: Suite
) -> None:
    variant = make.evaluated("lab/one", suite, MIDDLE)
    html = get_built(client, suite)
    for run in variant.runs.filter(task__style="cloze"):
        result = run.results.get(metric="acc", subset="")
        link = re.search(rf'<a href="/runs/{run.pk}" title="([^"]+)">([^<]+)</a>', html)
        assert link is not None
        assert repr(result.value) in link[1]
        assert link[2] == f"{100 * result.value:.1f}"


@pytest.mark.parametrize("view", ["", "?cols=all", "?score=chance", "?rows=compact"])
def test_no_number_stands_without_its_interval(client: Client, synthetic: Suite, view: str) -> None:
    body = get(client, f"/{view}")
    body = body[body.index("<tbody") : body.index("<tfoot")]
    number = r'<(?:a href="/(?:runs|cells)/[^"]+"|b) title="[^"]+">[^<]+</(?:a|b)>(.{30})'
    scores = re.findall(number, body)
    assert len(scores) > 400
    assert all(after.startswith(' <span class="pm">±') for after in scores)


def test_a_wide_table_links_to_runs_by_model_and_column(
    client: Client, synthetic: Suite, suite: Suite
) -> None:
    links = re.findall(r'href="(/cells/[^"]+)"', get(client, "/?suite=synthetic&cols=all"))
    assert len(links) > 500
    row, column = 7, 11
    link = f"/cells/{BOARD.models[row].variant}/bench_11?suite=synthetic"
    assert link in links
    response = client.get(link)
    assert response.status_code == 302
    assert response["Location"] == f"/runs/{BOARD.run_id(row, column)}"


@pytest.mark.parametrize(
    "cell", ["1/bench_99", "9999/bench_00", "1/bench_00?suite=none", "1/bench_00?at=2001-01-01"]
)
def test_a_short_address_of_no_run_is_not_found(
    client: Client, synthetic: Suite, cell: str
) -> None:
    assert client.get(f"/cells/{cell}").status_code == 404


def test_chance_and_people_are_rows_with_their_source(client: Client, synthetic: Suite) -> None:
    html = get(client)
    foot = text_of(html[html.index("<tfoot") : html.index("</tfoot>")])
    assert "People as published; sources below 90.0" in foot
    assert "Chance picking an answer at random 25.0 25.0" in foot
    assert "Bench 0: Ada and Bo, 2024, on 100 questions" in text_of(html)


def test_a_mean_over_draws_says_so_and_how_far_they_lie_apart(
    client: Client, synthetic: Suite
) -> None:
    columns = (replace(BOARD.columns[0], draws=3), *BOARD.columns[1:])
    spread, later = np.full_like(BOARD.sd_of_draws, 0.0125), BOARD.built + timedelta(hours=1)
    board = replace(BOARD, columns=columns, sd_of_draws=spread, built=later, data_version="d")
    publish(board, synthetic)
    html = get(client)
    assert "mean of 3 draws of examples, standard deviation between draws 0.0125" in html
    assert "× 3 draws" in text_of(html)


# Chosen columns, scales and styles


def test_an_own_choice_of_columns_has_no_ranks_and_says_why(
    client: Client, synthetic: Suite
) -> None:
    html = get(client, "/?cols=bench_00%2Cbench_03")
    assert "rank ranges are computed for the suite’s own average only" in html
    assert re.findall(r'aria-sort="\w+"', html) == ['aria-sort="descending"']
    assert "Rank none: own choice" in text_of(html)
    assert not re.search(r"<b>\d", html[html.index("<tbody") :].replace("<b title", ""))


def test_from_chance_guessing_is_zero(client: Client, synthetic: Suite) -> None:
    html = get(client, "/?score=chance")
    assert "Chance picking an answer at random 0.0 0.0" in text_of(html)
    row = int(np.flatnonzero(~np.isnan(BOARD.normalised.value[:, 0]))[0])
    line = row_of(html, BOARD.models[row].variant)
    assert f">{100 * BOARD.normalised.value[row, 0]:.1f}</a>" in line


def test_all_columns_are_shown_on_demand_with_the_same_ranks(
    client: Client, synthetic: Suite
) -> None:
    few, every = get(client), get(client, "/?cols=all")
    assert (few.count('id="by-bench_'), every.count('id="by-bench_')) == (10, 12)
    assert names(few) == names(every)
    assert "in a statistical tie with it" in every


def test_the_style_switch_shows_one_style_only(client: Client, suite: Suite) -> None:
    make.evaluated("lab/strong", suite, STRONG)
    make.evaluated("lab/weak", suite, WEAK)
    html = get_built(client, suite, "/?style=mmlu")
    assert names(html) == ["lab/weak", "lab/strong"]
    head = html[html.index("<thead") : html.index("</thead>")]
    assert head.count('class="sty mmlu"') == 2
    assert 'class="sty cloze"' not in head


def test_benchmarks_that_lack_the_style_are_named(client: Client, db: None, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts",))
    sums = make.task_version("sums", "mmlu")
    SuiteEntry.objects.create(
        suite=suite,
        position=9,
        benchmark="sums",
        title="Sums",
        style="mmlu",
        own=True,
        task=sums,
        shots=0,
        metric="acc",
        run_key="a" * 64,
    )
    html = get_built(client, suite, "/?style=cloze")
    assert "Not asked in this style Sums" in text_of(html)


def test_a_style_that_the_suite_does_not_ask_is_not_offered_and_says_so(
    client: Client, db: None, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(styles=("cloze", "mmlu"))
    assert 'value="hybrid"' not in get_built(client, suite)
    assert "Nothing is asked in this style" in get(client, "/?style=hybrid")


# Escaping


def test_what_strangers_wrote_is_text(client: Client, synthetic: Suite) -> None:
    evil = '"><script>alert(1)</script>'
    model = replace(BOARD.models[0], repo_id=f"lab/{evil}", licence=evil, flag_reason=evil)
    column = replace(BOARD.columns[0], title=evil, people_source=evil)
    board = hostile(BOARD, model, column, evil)
    publish(board, synthetic)
    for view in ("/", "/?rows=tall", f"/?pin={model.variant}", "/?cols=all"):
        html = get(client, view)
        assert "<script>alert" not in html
        assert html.count("&lt;script&gt;alert") > 5


def hostile(board: Board, model: Any, column: Any, evil: str) -> Board:
    """The board with markup wherever somebody else’s words may stand."""
    standing = board.standing.copy()
    standing[1, 1] = 4
    scores = replace(board.scores, value=board.scores.value.copy())
    scores.value[1, 1] = np.nan
    return replace(
        board,
        models=(model, *board.models[1:]),
        columns=(column, *board.columns[1:]),
        standing=standing,
        scores=scores,
        why={(1, 1): evil},
        built=board.built + timedelta(hours=1),
        data_version="evil",
    )
