"""The board as its readers see it: order, ranges, bands, cells, ways on, and what is sent again."""

from __future__ import annotations

import gzip
import io
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from django.test import Client

from leaderboard.board.query import BoardQuery
from leaderboard.board.view import View, view_of
from leaderboard.models import Artifact, Run, Suite, SuiteEntry, Variant
from leaderboard.snapshot import Board, Scores
from leaderboard.web import kept
from tests.leaderboard import factories as make
from tests.leaderboard.boards import publish, synthetic_board
from tests.leaderboard.pages import csv_rows, download, get, json_file, model_names, row_of, text_of
from tests.leaderboard.rows import once_per_module

BOARD = synthetic_board(130, 12, uncounted=1)


@once_per_module
def synthetic_rows() -> Suite:
    suite = make.make_suite("synthetic")
    publish(BOARD, suite)
    return suite


@pytest.fixture(autouse=True)
def synthetic(synthetic_rows: Suite, db: None, settings: Any) -> Suite:
    """The suite of the made-up board, which the site shows unless a test has another."""
    settings.PLUMBLINE_SUITE = "synthetic"
    return synthetic_rows


STRONG = {"cloze": 0.9, "mmlu": 0.3}
MIDDLE = {"cloze": 0.6, "mmlu": 0.6}
WEAK = {"cloze": 0.3, "mmlu": 0.9}


@once_per_module
def measured() -> dict[str, Variant]:
    """By name models that were measured, in part or whole, on the suite that the site shows."""
    notice = "Scores mean nothing beyond the demo."
    suite = make.make_suite(notice=notice, styles=("cloze", "mmlu"))
    models = {
        name: make.evaluated(f"lab/{name}", suite, skill)
        for name, skill in (("weak", WEAK), ("strong", STRONG), ("middle", MIDDLE))
    }
    models["perfect"] = make.evaluated("lab/perfect", suite, {**STRONG, "cloze": 1.0})
    exact = models["perfect"].runs.get(task__name="facts").results.filter(metric="acc")
    exact.update(value=1.0, low=0.984, high=1.0)
    models["other"] = make.evaluated("lab/other", suite, STRONG, n=30)
    part = make.make_submission(make.make_variant("lab/part"), suite)
    make.finish(part.runs.get(task__name="facts"), skill=1.0)
    broken = make.make_submission(make.make_variant("lab/broken"), suite)
    make.fail(broken.runs.get(task__name="facts"), "ModelError", "no vector for token 9")
    failed = make.make_submission(make.make_variant("lab/failed"), suite)
    for run in failed.runs.all():
        make.fail(run, "ModelError", "no vector for token 9")
    old_version = make.task_version("facts", "cloze", "0.9")
    entry = SuiteEntry.objects.get(suite=suite, benchmark="facts", style="cloze")
    models["old"] = make.make_variant("lab/old")
    make.finish(make.queued_run(models["old"], entry, task=old_version, run_key="f" * 64))
    make.publish(suite)
    return models | {one.variant.hub_model.name: one.variant for one in (part, broken, failed)}


@pytest.fixture
def models(measured: dict[str, Variant], db: None, settings: Any) -> dict[str, Variant]:
    settings.PLUMBLINE_SUITE = "demo"
    return measured


@pytest.fixture
def other_suite(db: None, settings: Any) -> Suite:
    """A suite of which no board was built, shown by the site."""
    settings.PLUMBLINE_SUITE = "other"
    return make.make_suite("other", benchmarks=("letters", "riddles"), styles=("cloze", "mmlu"))


# Order, ranks and bands


def test_models_stand_in_the_order_of_their_average_those_without_one_last(
    client: Client, models: dict[str, Variant]
) -> None:
    html = get(client)
    ranked = ["lab/perfect", "lab/strong", "lab/middle", "lab/weak"]
    assert model_names(html)[:4] == ranked
    assert set(model_names(html)[4:]) == {"lab/other", "lab/part", "lab/broken", "lab/old"}
    unranked = text_of(html[html.index("<b>Not ranked</b>") :])
    part = text_of(row_of(html, models["part"].pk))
    assert "— no rank La part" in unranked
    assert "— no average" in part
    assert "— queued" in part


def test_every_rank_has_its_range(client: Client) -> None:
    ranks = BOARD.ranks
    for page in (get(client), get(client, "/?page=3")):
        for name in model_names(page):
            row = BOARD.models.values("repo_id").index(name)
            text = text_of(row_of(page, BOARD.models[row].variant))
            if ranks.rank[row]:
                assert text.startswith(f"{ranks.rank[row]} {ranks.low[row]}–{ranks.high[row]} ")
            else:
                assert "no rank" in text


def test_the_number_to_check_is_counted_again_only_where_its_answers_are_stored(
    client: Client, models: dict[str, Variant]
) -> None:
    stored = get(client)
    assert "Check a number" in stored
    (run,) = set(re.findall(r'hx-get="/runs/([0-9a-f-]+)/recount"', stored))
    assert models["perfect"].runs.filter(pk=run).exists()
    Artifact.objects.filter(run=run, kind=Artifact.Kind.SAMPLES).delete()
    kept.forget()
    lost = get(client)
    assert f'href="/runs/{run}">See the run</a>' in lost
    assert "recount" not in lost


def show(suite: Suite, **changes: Any) -> None:
    """Show the made-up board with these changes."""
    later = BOARD.built + timedelta(hours=1)
    publish(replace(BOARD, built=later, data_version="changed", **changes), suite)


def test_a_range_that_ends_where_nobody_was_compared_says_that_it_may_go_on(
    client: Client, synthetic: Suite
) -> None:
    cut = BOARD.ranks.rank > 0
    show(synthetic, ranks=replace(BOARD.ranks, cut_low=cut, cut_high=cut, reach=100))
    assert "≤1–≥3" in text_of(get(client))


def heads_of_bands(html: str) -> list[tuple[str, int]]:
    """The leader of each band on a page, and how many models it is not told apart from."""
    found = re.findall(r"<b>(\S+)</b> (?:and (\d+) models? not told apart from it|alone)", html)
    return [(leader, int(others or 0)) for leader, others in found]


@pytest.mark.parametrize("view", ["/", "/?q=llama"])
def test_a_band_is_named_by_the_first_of_those_that_the_filters_leave(
    client: Client, view: str
) -> None:
    page = get(client, view)
    listed = BOARD.models.values("repo_id")
    better = np.unpackbits(BOARD.ranks.better, axis=1, count=BOARD.ranks.reach)
    place = BOARD.place_among_ranked
    bands: list[list[int]] = []
    word = view.partition("q=")[2]
    for row in np.flatnonzero(BOARD.ranks.rank > 0).tolist():
        if word not in listed[row].lower():
            continue
        first = bands[-1][0] if bands else row
        apart = int(place[row] - place[first])
        proven = apart > BOARD.ranks.reach or (apart and better[place[first], apart - 1])
        if not bands or proven:
            bands.append([])
        bands[-1].append(row)
    expected = [(listed[band[0]].partition("/")[2], len(band) - 1) for band in bands]
    shown = heads_of_bands(page)
    assert len(shown) > 3
    assert shown == expected[: len(shown)]


def test_a_filtered_board_says_the_place_among_those_shown_where_one_points_at_a_rank(
    client: Client,
) -> None:
    assert " shown" not in get(client)
    ranked = [
        (int(rank), model.variant)
        for model, rank in zip(BOARD.models, BOARD.ranks.rank, strict=True)
        if rank and "llama" in model.repo_id.lower()
    ]
    for view in ("/?q=llama", "/?q=llama&sort=bench_03"):
        page = get(client, view)
        for place, (rank, variant) in enumerate(sorted(ranked)[:3], start=1):
            ending = ("st", "nd", "rd")[place - 1]
            line = row_of(page, variant)
            assert text_of(line).startswith(f"{rank} ")
            assert f'title="{place}{ending} of the {len(ranked)} shown"' in line


def test_a_flagged_model_and_one_that_left_the_hub_keep_their_rows_and_say_why(
    client: Client,
) -> None:
    row = next(row for row in range(BOARD.averaged) if BOARD.models[row].flagged)
    model = BOARD.models[row]
    line = row_of(get(client, f"/?at_model={model.variant}"), model.variant)
    assert 'class="row flagged marked"' in line
    assert "Flagged: Trained on the questions" in line
    assert "no rank" in line
    average = BOARD.average_of(row)
    assert f">{100 * average.value:.1f}</b>" in line
    model = next(model for model in BOARD.models if model.hub_state == "gone")
    line = row_of(get(client, f"/?at_model={model.variant}"), model.variant)
    assert "No longer on the Hub" in line


# Cells


def test_equal_weights_under_two_names_are_one_row_with_both_averages(
    client: Client, models: dict[str, Variant]
) -> None:
    copied, original, left = models["middle"], models["strong"], models["weak"]
    same = Variant.objects.filter(pk__in=(copied.pk, original.pk))
    same.update(weights_digest="d" * 64)
    left_alone = Variant.objects.filter(pk=left.pk)
    left_alone.update(weights_digest="e" * 64)
    suite = Suite.objects.get(name="demo")
    make.publish(suite)
    kept.forget()
    html = get(client)
    average = make.board(suite).average_of(make.board(suite).row_of[copied.pk])
    line = text_of(row_of(html, original.pk))
    assert f"The same weights: lab/middle {100 * average.value:.1f}" in line
    assert html.count("The same weights") == 1
    assert "lab/middle" not in model_names(html)
    assert f'id="m{original.pk}"' in get(client, "/?at_model=lab/middle")
    assert " marked" in row_of(get(client, "/?at_model=lab/middle"), original.pk)
    assert model_names(get(client, "/?q=middle")) == ["lab/middle"], "a filter leaves it alone"
    assert [row["model"] for row in csv_rows(client, "/board.csv")].count("lab/middle") == 1
    same.filter(pk=copied.pk).update(adapter_base="lab/weak", adapter_base_commit="a" * 40)
    make.publish(suite)
    kept.forget()
    assert "The same weights" not in get(client), "an adapter on another model"


def test_a_cell_has_its_range_and_its_run_or_says_why_there_is_no_number(
    client: Client, models: dict[str, Variant]
) -> None:
    html = get(client)
    line = row_of(html, models["perfect"].pk)
    assert '<b>100.0</b><span class="iv">98.4–100.0</span>' in line
    for run in models["middle"].runs.filter(task__style="cloze"):
        result = run.results.get(metric="acc", subset="")
        (value, interval) = re.search(
            rf'<a href="/runs/{run.pk}"><b>([^<]+)</b><span class="iv">([^<]+)</span></a>', html
        ).groups()
        assert value == f"{100 * result.value:.1f}"
        assert interval == f"{100 * result.low:.1f}–{100 * result.high:.1f}"
    why = "other questions than this column’s (n = 30)"
    other = row_of(html, models["other"].pk)
    assert "not comparable" in other
    assert f' title="{why}">' in other
    assert f'<span class="sr">: {why}</span>' in other
    assert "task version 0.9, this column is 1.0" in row_of(html, models["old"].pk)
    run = models["broken"].runs.get(state=Run.State.FAILED)
    broken = row_of(html, models["broken"].pk)
    assert "failed" in text_of(re.search(rf'<a href="/runs/{run.pk}">.*?</a>', broken)[0])
    assert "lab/failed" not in html
    page = get(client, "/models/lab/failed")
    assert f'href="/runs/{models["failed"].runs.all()[0].pk}"' in page


def test_the_best_of_a_column_is_bold_and_heat_tells_how_far_behind_the_others_are(
    client: Client, synthetic: Suite
) -> None:
    value = np.full_like(BOARD.scores.value, np.nan)
    ranked = np.flatnonzero(BOARD.ranks.rank > 0)[:7]
    value[ranked, 0] = [0.9, 0.899, 0.87, 0.84, 0.8, 0.75, 0.5]
    flagged = next(row for row in range(BOARD.averaged) if BOARD.models[row].flagged)
    value[flagged, 0] = 0.99
    scores = Scores(value, value - 0.004, value + 0.004)
    show(synthetic, scores=scores)
    rows = [row_of(get(client), BOARD.models[int(row)].variant) for row in ranked]
    classes = [re.search(r'class="n( [^"]*)?"', line)[1] for line in rows]
    assert classes == [" h5 best", " h5", " h4", " h3", " h2", " h1", None]
    line = row_of(
        get(client, f"/?at_model={BOARD.models[flagged].variant}"), BOARD.models[flagged].variant
    )
    assert "best" not in re.search(r'class="n( [^"]*)?"', line)[1], "it may have no rank"


@pytest.mark.parametrize("view", ["?cols=all", "?score=chance", "?rows=compact"])
def test_no_number_stands_without_its_interval(client: Client, view: str) -> None:
    body = get(client, f"/{view}")
    body = body[body.index("<tbody") : body.index("<tfoot")]
    scores = re.findall(r"<b>[\d.]+(?:<sup>†</sup>)?</b>(.{30})", body)
    assert len(scores) > 400
    for after in scores:
        assert re.match(r'<span class="(iv|range)">[−≤\d]', after), after


def test_a_wide_table_links_to_runs_by_model_and_column(client: Client, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = make.make_suite("shown").name
    links = re.findall(r'href="(/cells/[^"]+)"', get(client, "/?suite=synthetic&cols=all"))
    assert len(links) > 500
    row, column = 7, 11
    link = f"/cells/{BOARD.models[row].variant}/bench_11?suite=synthetic"
    assert link in links
    response = client.get(link)
    assert response.status_code == 302
    assert response["Location"] == f"/runs/{BOARD.run_id(row, column)}"
    known = f"{BOARD.models[0].variant}/bench_00?suite=synthetic"
    for wrong in ("1/bench_99", "9999/bench_00", "1/bench_00?suite=none", f"{known}&at=2001-01-01"):
        assert client.get(f"/cells/{wrong}").status_code == 404, wrong


def test_chance_and_people_stand_below_and_from_chance_guessing_is_zero(client: Client) -> None:
    html = get(client)
    foot = text_of(html[html.index("<tfoot") : html.index("</tfoot>")])
    assert "People, as published 90.0" in foot
    assert "Guessing 25.0 25.0" in foot
    assert "people 90.0 (Ada and Bo, 2024, on 100 questions)" in html
    html = get(client, "/?score=chance")
    assert "Guessing 0.0 0.0" in text_of(html)
    row = int(np.flatnonzero(~np.isnan(BOARD.normalised.value[:, 0]))[0])
    line = row_of(html, BOARD.models[row].variant)
    assert f"<b>{100 * BOARD.normalised.value[row, 0]:.1f}</b>" in line


# Chosen columns, scales and styles


def test_an_own_choice_of_columns_has_no_ranks_and_says_why(client: Client) -> None:
    html = get(client, "/?cols=bench_00%2Cbench_03")
    assert "rank ranges are computed for the suite’s own average only" in html
    assert re.findall(r'aria-sort="\w+"', html) == ['aria-sort="descending"']
    assert "— own choice" in text_of(html)
    assert not re.search(r'class="rank"[^>]*><b>\d', html)


def test_the_style_switch_shows_one_style_only(client: Client, models: dict[str, Variant]) -> None:
    html = get(client, "/?style=mmlu")
    listed = model_names(html)
    assert listed.index("lab/weak") < listed.index("lab/middle") < listed.index("lab/strong")
    head = html[html.index("<thead") : html.index("</thead>")]
    assert head.count('class="mark m"') == 2
    assert 'class="mark c"' not in head


def test_a_style_that_a_benchmark_or_the_suite_does_not_ask_is_named(
    client: Client, other_suite: Suite
) -> None:
    other_suite.entries.filter(benchmark="riddles", style="cloze").delete()
    make.publish(other_suite)
    assert "Not asked in this style: Riddles." in text_of(get(client, "/?style=cloze"))
    assert "style=hybrid" not in get(client)
    assert "Nothing is asked in this style" in get(client, "/?style=hybrid")


# Escaping


def test_what_strangers_wrote_is_text(client: Client, synthetic: Suite) -> None:
    evil = '"><script>alert(1)</script>'
    model = replace(BOARD.models[0], repo_id=f"lab/{evil}", licence=evil, flag_reason=evil)
    column = replace(BOARD.columns[0], title=evil, people_source=evil)
    publish(hostile(BOARD, model, column, evil), synthetic)
    for view in ("/", f"/?pin={model.variant}", "/?cols=all", "/gpu/80"):
        html = get(client, view)
        assert "<script>alert" not in html
        assert html.count("&lt;script&gt;alert") > 3


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


# Where there is no table, other versions and days


def test_before_there_is_a_board_and_on_an_empty_one_the_page_leads_on(
    client: Client, other_suite: Suite
) -> None:
    html = get(client)
    assert "This board is being built" in html
    assert 'href="/queue"' in html
    make.publish(other_suite)
    html = get(client)
    assert "No models yet" in html
    assert 'href="/submit"' in html
    assert client.get("/?suite=nothing").status_code == 404


def test_the_board_has_the_suites_notice_and_says_when_it_was_built(
    client: Client, models: dict[str, Variant]
) -> None:
    html = get(client)
    assert "Scores mean nothing beyond the demo." in html
    board = make.board(Suite.objects.get(name="demo"))
    assert f'<time datetime="{board.built.isoformat(timespec="seconds")}"' in html
    Suite.objects.update(notice="Under review.")
    assert "Under review." in get(client), "seen at once"


def test_an_older_version_says_that_there_is_a_newer_one(client: Client) -> None:
    assert "has taken this one’s place" not in get(client, "/?suite=synthetic%401.0")
    make.publish(make.make_suite("synthetic", version="2.0"))
    old = get(client, "/?suite=synthetic%401.0")
    assert "Version 2.0 of this suite has taken this one’s place" in old
    assert 'href="/"' in old[old.index("taken this one’s place") :][:600]
    assert "has taken this one’s place" not in get(client)


def test_a_day_in_the_past_shows_the_board_of_that_day(client: Client, synthetic: Suite) -> None:
    html = get(client, "/?at=2020-01-01")
    assert "There was no board on 2020-01-01" in html
    assert f"{BOARD.built.day} {BOARD.built:%b %Y}" in html
    fewer = synthetic_board(20, 12)
    publish(replace(fewer, built=BOARD.built - timedelta(days=30), data_version="old"), synthetic)
    day = (BOARD.built - timedelta(days=10)).date()
    past = get(client, f"/?at={day}")
    assert '<span class="many" role="status">20 models</span>' in past
    assert f"The board as it stood on {day.day} {day:%b %Y}" in text_of(past)
    assert f"Later: {BOARD.built.day}" in text_of(past)
    title = f"Synthetic 1.0 on {day.day} {day:%b %Y}"
    assert f"<title>{title} · Plumbline</title>" in past
    assert f'property="og:title" content="{title}: ' in past, "with who was first then"
    assert "130 models" in text_of(get(client))


LARGEST = 100_000
"""Bytes of a board page, compressed."""


@pytest.fixture
def packed() -> Client:
    return Client(headers={"Accept-Encoding": "gzip"})


def test_a_long_address_leads_to_the_short_one_and_every_link_somewhere(client: Client) -> None:
    response = client.get("/?style=own&q=&arch=&sort=average&suite=synthetic&page=99&utm_source=x")
    assert (response.status_code, response["Location"]) == (302, "/?page=3")
    page = get(client, "/?q=llama&sort=-bench_02&pin=5&m=7")
    links = {link.replace("&amp;", "&") for link in re.findall(r'href="(/(?:\?[^"]*)?)"', page)}
    assert len(links) > 20
    for link in sorted(links):
        assert client.get(link.partition("#")[0]).status_code == 200, link
    html = get(client, "/?q=llama&sort=model")
    for kind in ("csv", "json", "parquet"):
        assert f'href="/board.{kind}?q=llama&amp;sort=model"' in html


def test_a_search_counts_its_hits_and_offers_a_way_out_where_it_finds_nothing(
    client: Client,
) -> None:
    llamas, phis = (
        sum(word in model.repo_id.lower() for model in BOARD.models) for word in ("llama", "phi")
    )
    assert f"llama {llamas} models · phi {phis} models" in text_of(
        get(client, "/?q=llama%3B+phi&flagged=only")
    )
    html = get(client, "/?q=%40colour%3Ared")
    assert "“@colour:red”" in html[html.index('id="problems"') :][:500]
    assert "of 130" in text_of(html)
    html = get(client, "/?q=llama&arch=phi")
    assert "No model meets all 2 filters" in html
    ways = re.findall(r'href="([^"]+)"><span>Without .*?<b>(\d+)</b> model', html)
    assert len(ways) == 2
    for way, models in ways:
        assert f"{models} of 130" in text_of(get(client, way.replace("&amp;", "&")))


def test_a_search_that_finds_nothing_offers_near_ones_that_do(client: Client) -> None:
    html = get(client, "/?q=llaam-7&flagged=hide")
    (way,) = re.findall(r'Did you mean <a href="([^"]+)">Llama 7</a>\?', html)
    assert way == "/?q=Llama+7&amp;flagged=hide"
    assert "of 130" in text_of(get(client, "/?q=Llama+7&flagged=hide"))
    for text in ("llama", "zzzz", "-", "%40author%3Allaam"):
        assert "Did you mean" not in get(client, f"/?q={text}&arch=phi")


def test_pins_marks_and_ticks_are_shown_where_they_belong(client: Client) -> None:
    model = BOARD.models[int(np.flatnonzero(BOARD.ranks.rank == 40)[0])]
    html = get(client, f"/?pin={model.variant}")
    assert model_names(html)[0] == model.repo_id
    assert model_names(html).count(model.repo_id) == 1
    top = html[html.index("<b>Kept on top</b>") :].partition("</tr>")[0]
    assert 'href="/">Let go' in top
    assert text_of(row_of(html, model.variant)).startswith("40 38–42 ")
    model = BOARD.models[77]
    html = get(client, f"/?at_model={model.repo_id}")
    assert " marked" in row_of(html, model.variant)
    assert "Rows 51–100 of 130" in text_of(html)
    first = BOARD.models[0]
    here = row_of(get(client, f"/?m={first.variant}"), first.variant)
    assert re.search(
        rf'value="{first.variant}" aria-label="[^"]+" data-name="[^"]+" checked>', here
    )
    elsewhere = get(client, f"/?page=2&m={first.variant}")
    name = first.repo_id.partition("/")[2]
    assert f'<input type="hidden" name="m" value="{first.variant}" data-name="{name}">' in elsewhere


# What fits a graphics card


def test_a_card_shows_what_fits_it_ranked_among_what_fits(client: Client) -> None:
    needs = {
        model.variant: (model.parameters * {"float32": 4}.get(model.dtype, 2) * 1.2 + 2**29) / 2**30
        for model in BOARD.models
        if not model.quantisation
    }
    shown = set(map(int, re.findall(r' id="m(\d+)"', get(client, "/?gpu=8"))))
    assert shown
    assert all(needs.get(variant, 0) <= 8 for variant in shown)
    page = get(client, "/gpu/8")
    assert "Best open model for an 8 GB GPU" in page
    first = int(re.search(r' id="m(\d+)"', page)[1])
    assert text_of(row_of(page, first)).startswith("1 1–")
    assert f"{needs[first]:.1f} GB" in row_of(page, first)
    rungs = re.findall(r'<span class="big num">([\d.]+)</span>', page)
    assert rungs == sorted(rungs, key=float), "a larger card is never worse"
    wider = [int(n) for n in re.findall(r"<small>(\d+)</small>", get(client, "/?gpu=8&bits=4"))]
    usual = [int(n) for n in re.findall(r"<small>(\d+)</small>", get(client, "/?gpu=8"))]
    assert all(four >= own for four, own in zip(wider, usual, strict=True))
    assert client.get("/gpu/7").status_code == 404


# Size, queries, what is sent


def test_the_widest_page_is_at_most_100_kb(packed: Client, synthetic: Suite) -> None:
    models, columns = 200, 60
    board = synthetic_board(models, columns)
    runs = np.frombuffer(np.random.default_rng(0).bytes(models * columns * 16), "V16")
    later = BOARD.built + timedelta(hours=1)
    publish(replace(board, run=runs.reshape(models, columns), built=later), synthetic)
    default, every = packed.get("/"), packed.get("/?cols=all")
    assert gzip.decompress(every.content).count(b'href="/cells/') > 2500
    assert len(default.content) <= LARGEST
    assert len(every.content) <= LARGEST


def test_a_page_is_packed_for_those_who_take_it(client: Client) -> None:
    plain = client.get("/").content
    for takes, packs in (
        ("gzip, br", True),
        ("gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("br", False),
    ):
        response = client.get("/", headers={"Accept-Encoding": takes})
        assert ("Content-Encoding" in response) is packs
        assert (gzip.decompress(response.content) if packs else response.content) == plain
        assert "Accept-Encoding" in response["Vary"]


# As CSV, JSON and parquet: what is read back is what the page shows


QUERIES = [
    "?q=llama;@size:<3B&sort=-bench_02&flagged=hide",
    "?cols=bench_01,bench_11&pin=7,90",
    "?score=chance&sort=model",
    "?cols=all&precision=bfloat16&at=2030-01-01",
]


def parquet_table(client: Client, query: str = "") -> Any:
    return pyarrow.parquet.read_table(io.BytesIO(download(client, f"/board.parquet{query}")))


def page(query: str) -> View:
    """What the page with this query shows, pages apart."""
    fields = [part.split("=", 1) for part in query.removeprefix("?").split("&") if part]
    return view_of(BOARD, BoardQuery(**dict(fields)))


@pytest.mark.parametrize("query", QUERIES)
def test_a_file_has_the_pages_rows_columns_and_numbers(client: Client, query: str) -> None:
    shown = page(query)
    rows = [*shown.pins, *shown.rows.tolist()]
    found = json_file(client, f"/board.json{query}")["models"]
    assert [row["model"] for row in found] == [BOARD.models[row].repo_id for row in rows]
    names = [f"bench_{c:02}.{BOARD.columns[c].style}" for c in shown.columns]
    assert [key for key in found[0] if key.startswith("bench") and key.count(".") == 1] == names
    for row, told in zip(rows, found, strict=True):
        average = shown.average.value[row]
        assert told["average"] == (None if np.isnan(average) else average)
        rank = int(BOARD.ranks.rank[row])
        assert told["rank"] == (None if shown.own_choice or not rank else rank)
        assert told["pinned"] == (row in shown.pins)
        for name, column in zip(names, shown.columns, strict=True):
            value = shown.scores.value[row, column]
            if np.isnan(value):
                assert [told[name], told[f"{name}.low"], told[f"{name}.n"]] == [None] * 3
                assert told[f"{name}.standing"] == "queued"
            else:
                assert told[name] == value
                assert told[f"{name}.low"] == shown.scores.low[row, column]
                assert told[f"{name}.high"] == shown.scores.high[row, column]
                assert told[f"{name}.n"] == 1000
            run = BOARD.run_id(row, column)
            assert told[f"{name}.run"] == f"http://testserver/runs/{run}"


@pytest.mark.parametrize("query", QUERIES[:2])
def test_all_forms_say_the_same_to_the_last_digit(client: Client, query: str) -> None:
    told = json_file(client, f"/board.json{query}")
    table = parquet_table(client, query)
    rows = csv_rows(client, f"/board.csv{query}")
    assert table.column_names == list(told["models"][0])
    assert list(rows[0])[: len(table.column_names)] == table.column_names
    for of_json, of_parquet, of_csv in zip(told["models"], table.to_pylist(), rows, strict=True):
        for name, value in of_json.items():
            if name in ("added", "released") and value:
                assert of_parquet[name].isoformat() == value
                assert of_csv[name].startswith(value[:10])
                continue
            assert of_parquet[name] == value
            if value is None:
                assert of_csv[name] == ""
            elif isinstance(value, bool):
                assert of_csv[name] == str(value).lower()
            else:
                assert type(value)(of_csv[name]) == value


def test_a_file_says_what_it_is_of_and_its_address_leads_to_the_same_data(
    client: Client, synthetic: Suite
) -> None:
    query = "?cols=bench_01,bench_03&q=llama"
    about = json_file(client, f"/board.json{query}")["about"]
    assert about["suite"] == "synthetic"
    assert about["suite_version"] == "1.0"
    assert about["data_version"] == BOARD.data_version
    assert about["built"] == BOARD.built.isoformat()
    assert "no ranks" in about["note"]
    assert [column["title"] for column in about["columns"]] == ["Bench 1", "Bench 3"]
    metadata = parquet_table(client, query).schema.metadata
    row = csv_rows(client, f"/board.csv{query}")[0]
    for name in ("suite", "style", "scale", "address", "note"):
        assert metadata[name.encode()].decode() == row[name] == about[name]
    address = json_file(client, "/board.json?sort=model")["about"]["address"]
    assert address.startswith("http://testserver/?suite=synthetic%401.0&at=")
    later = synthetic_board(20, 12, seed=8)
    publish(replace(later, built=BOARD.built + timedelta(days=3)), synthetic)
    assert len(csv_rows(client, "/board.csv")) == 20
    same = address.replace("http://testserver/", "/board.csv")
    assert len(csv_rows(client, same)) == 130


def test_what_strangers_wrote_is_no_formula(client: Client, synthetic: Suite) -> None:
    hostile = replace(
        BOARD.models[0], licence="=HYPERLINK(1)", base_model="@x", architecture="-2+3"
    )
    publish(replace(BOARD, models=(hostile, *BOARD.models[1:])), synthetic)
    row = csv_rows(client, "/board.csv")[0]
    assert (row["licence"], row["base_model"], row["architecture"]) == (
        "'=HYPERLINK(1)",
        "'@x",
        "'-2+3",
    )
    assert json_file(client, "/board.json")["models"][0]["licence"] == "=HYPERLINK(1)"


def test_a_file_without_rows_has_its_fields_and_a_known_one_is_not_sent_again(
    client: Client,
) -> None:
    header = download(client, "/board.csv?q=nobody").decode().splitlines()
    assert len(header) == 1
    assert "bench_03.mmlu.run" in header[0]
    assert json_file(client, "/board.json?q=nobody")["models"] == []
    assert parquet_table(client, "?q=nobody").num_rows == 0
    first = client.get("/board.parquet?q=llama")
    name = "plumbline-synthetic-1.0-own-2025-07-20.parquet"
    assert first.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    known = {"If-None-Match": first.headers["ETag"]}
    assert client.get("/board.parquet?q=llama&page=2", headers=known).status_code == 304
    for other in ("parquet?q=phi", "parquet?q=llama&sort=model", "parquet?q=llama&pin=1"):
        assert client.get(f"/board.{other}", headers=known).status_code == 200


def test_what_cannot_be_read_or_is_not_there_gives_no_file(client: Client) -> None:
    for query in ("?q=/(/", "?size=many", "?cols=nothing", "?at=never"):
        response = client.get(f"/board.csv{query}")
        assert response.status_code == 400
        assert query.partition("=")[2] in response.content.decode()
    make.make_suite("unbuilt")
    for address in ("csv?suite=unbuilt", "csv?suite=nothing", "parquet?at=2001-01-01"):
        assert client.get(f"/board.{address}").status_code == 404
