"""Beside the board: leads that questions decide, models that change places, answers cut short."""

from __future__ import annotations

import html as html_module
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client

from evalcore.lengths import NAMES, Lengths
from leaderboard.models import HubModel, Result, Suite
from leaderboard.snapshot import EVERY, OWN, Board, Scores
from leaderboard.snapshot.style_facts import clearest
from tests.leaderboard import engine_runs
from tests.leaderboard import factories as make
from tests.leaderboard.boards import publish, synthetic_board
from tests.leaderboard.pages import csv_rows, get, row_of, text_of
from tests.leaderboard.rows import once_per_module

N = 40


@once_per_module
def nine_models() -> Suite:
    """A suite on which nine models of rising skill were measured, and its board."""
    suite = make.make_suite(benchmarks=("facts", "sums"), styles=("cloze",))
    for number in range(9):
        variant = make.make_variant(f"lab/m{number}")
        for entry in suite.entries.all():
            make.finish(
                make.queued_run(variant, entry), skill=0.2 + 0.08 * number, n=N, seed=number
            )
    make.built(suite)
    return suite


@pytest.fixture
def suite(nine_models: Suite, db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return nine_models


MANY = 300


@pytest.fixture
def styled(styled_suite: Suite, db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "styled"
    return styled_suite


def measure(suite: Suite, **skills: tuple[float, float]) -> None:
    """By model its skill as a cloze and in letters."""
    for name, of_styles in skills.items():
        variant = make.make_variant(f"lab/{name}")
        for skill, style in zip(of_styles, ("cloze", "mmlu"), strict=True):
            run = make.queued_run(variant, suite.entries.get(style=style))
            make.finish(run, skill=skill, n=MANY)
    for style in (OWN, EVERY):
        make.built(suite, style)


@once_per_module
def styled_suite() -> Suite:
    """Of which two models change places with the style."""
    suite = make.make_suite("styled", benchmarks=("riddles",), styles=("cloze", "mmlu"))
    measure(suite, ada=(0.8, 0.3), bo=(0.4, 0.75), cy=(0.6, 0.6))
    return suite


def head(client: Client, address: str = "/") -> str:
    page = get(client, address)
    return text_of(page[page.index('id="main"') : page.index('id="bar"')])


def equal_in_truth(seed: int) -> Board:
    """Two columns of one benchmark in which 200 models differ by chance alone."""
    board = synthetic_board(models=200, columns=2, style=EVERY)
    columns = tuple(replace(column, benchmark="one") for column in board.columns)
    draw = np.random.default_rng(seed)
    value = draw.binomial(1000, 0.5, board.scores.value.shape) / 1000
    half = 1.96 * np.sqrt(value * (1 - value) / 1000)
    return replace(board, columns=columns, scores=Scores(value, value - half, value + half))


def test_the_first_page_tells_of_two_models_that_change_places(
    client: Client, styled: Suite
) -> None:
    shown = head(client)
    assert "Same questions of Riddles, other style" in shown
    assert re.search(r"(ada leads bo|bo leads ada) by \d+\.\d points", shown)
    board = make.board(styled, EVERY)
    rows = [board.row_of[v] for v in (board.crossing.ahead, board.crossing.behind)]
    lead = np.diff(board.scores.value[rows, board.crossing.first])[0]
    assert f"by {-100 * lead:.1f} points asked one way" in shown
    (link,) = re.findall(r'href="([^"]+)">What the style does', get(client))
    told = client.get(html_module.unescape(link), follow=True).content.decode()
    assert "Both leads were shown (95%)" in told


def test_other_views_of_the_board_and_flagged_models_have_no_story(
    client: Client, styled: Suite
) -> None:
    make.built(styled, "mmlu")
    for address in ("/?style=mmlu", "/?q=ada", "/?sort=riddles"):
        assert "What the style does" not in head(client, address)
    others = HubModel.objects.filter(repo_id__in=("lab/bo", "lab/cy"))
    others.update(flag_reason="trained on the test")
    for style in (OWN, EVERY):
        make.built(styled, style)
    assert "What the style does" not in head(client)


def test_chance_alone_makes_no_story_and_of_several_the_widest_gap_is_told() -> None:
    found = [clearest(equal_in_truth(seed)) for seed in range(100)]
    assert sum(case is not None for case in found) <= 2
    board = equal_in_truth(0)
    rows = board.comparable_rows[:6].tolist()
    # The last two lie farthest apart, but one leads in both styles.
    scores = [(0.8, 0.2), (0.2, 0.8), (0.7, 0.4), (0.4, 0.7), (0.95, 0.9), (0.1, 0.05)]
    for row, of_styles in zip(rows, scores, strict=True):
        for column, value in enumerate(of_styles):
            board.scores.value[row, column] = value
            board.scores.low[row, column] = value - 0.03
            board.scores.high[row, column] = value + 0.03
    case = clearest(board)
    assert {board.row_of[case.ahead], board.row_of[case.behind]} == set(rows[:2])


# How much of its answers and prompts was cut short stands beside each number


SKILL = dict.fromkeys(("cloze", "mmlu", "hybrid"), 0.6)
CUT_OFTEN = Lengths(requests=200, answers=200, by_length=30, still_thinking=4)
CUT_SELDOM = Lengths(requests=200, answers=200, by_length=3, prompts_cut=1)
LEGEND = "† At least 5 % of its answers were stopped by their length, or of its prompts cut"


def with_lengths(board: Board, cells: dict[tuple[int, int], Lengths]) -> Board:
    """The board with these counts, and as many requests in all other cells."""
    counts = np.zeros_like(board.lengths)
    counts[..., 0] = 200
    for cell, lengths in cells.items():
        counts[cell] = [getattr(lengths, name) for name in NAMES]
    return replace(board, lengths=counts, data_version=f"with {sorted(cells)}")


def shown(client: Client, settings: Any, board: Board, address: str = "/") -> str:
    settings.PLUMBLINE_SUITE = "synthetic"
    publish(board, make.make_suite("synthetic"))
    return get(client, address)


def titles(html: str, variant: int) -> list[str]:
    """Of the scores of a row; empty where there is nothing to tell."""
    cells = re.findall(
        r'<td role="cell" class="n[^"]*"><a href="[^"]*"([^>]*)>', row_of(html, variant)
    )
    return [cell.removeprefix(' title="').removesuffix('"') for cell in cells]


@pytest.mark.parametrize("columns", [4, 12], ids=["narrow", "wide"])
def test_pointing_at_a_number_tells_and_a_large_share_is_marked(
    client: Client, db: None, settings: Any, columns: int
) -> None:
    board = synthetic_board(20, columns)
    scored = [row for row in range(20) if not np.isnan(board.scores.value[row, :2]).any()]
    row = scored[0]
    board = with_lengths(board, {(row, 0): CUT_OFTEN, (row, 1): CUT_SELDOM})
    html = shown(client, settings, board)
    variant = board.models[row].variant
    first, second, *others = titles(html, variant)
    assert first == "stopped by length: 30 of 200 answers (15.0 %), 4 still thinking"
    assert second == (
        "stopped by length: 3 of 200 answers (1.5 %); prompts cut: 1 of 200 prompts (0.5 %)"
    )
    assert set(others) <= {""}
    assert row_of(html, variant).count("<sup>†</sup>") == html.count("<sup>†</sup>") == 1
    assert LEGEND in text_of(html)


def test_a_share_is_large_from_five_percent_on() -> None:
    assert Lengths(requests=400, answers=40, by_length=2).is_large
    assert not Lengths(requests=400, answers=40, by_length=1, prompts_cut=19).is_large
    assert Lengths(requests=400, answers=40, prompts_cut=20).is_large


def test_from_the_record_to_the_board_and_the_page_of_the_model(
    client: Client, suite: Suite
) -> None:
    cut = make.evaluated("lab/cut", suite, SKILL, cut=10)
    whole = make.evaluated("lab/whole", suite, SKILL)
    result = Result.objects.get(run__variant=cut, run__task__name="facts", metric="acc", subset="")
    assert result.lengths == Lengths(requests=160, prompts_cut=40)
    assert Result.objects.filter(run__variant=whole, requests=None).exists()
    make.publish(suite)
    board = make.board(suite)
    found = board.score(board.row_of[cut.pk], 0)
    assert found.lengths == result.lengths
    words = "prompts cut: 40 of 160 prompts (25.0 %)"
    html = get(client)
    assert titles(html, cut.pk)[0].endswith(words)
    assert words not in titles(html, whole.pk)[0]
    page = get(client, "/models/lab/cut")
    assert page.count(words) == 2
    assert get(client, "/models/lab/cut?tab=runs").count(words) == 2
    assert page.count("<sup>†</sup>") == 2
    assert LEGEND in text_of(page)
    for address in ("/models/lab/whole", f"/runs/{whole.runs.get(task__name='facts').pk}"):
        other = get(client, address).lower()
        assert "†" not in other
        assert "prompts cut" not in other
        assert "stopped by length" not in other


@pytest.mark.parametrize("budget", [None, 6])
def test_the_page_of_a_run_says_it_among_its_facts(
    client: Client, tmp_path: Path, db: None, budget: int | None
) -> None:
    run = engine_runs.thinking(tmp_path, **({"thinking_budget": budget} if budget else {}))
    result = run.results.filter(metric="exact_match", subset="").first()
    lengths = result.lengths
    assert lengths.by_length > 0
    html = get(client, f"/runs/{run.pk}")
    facts = text_of(html)
    assert f"Stopped by length: {lengths.by_length} of {lengths.answers} answers" in facts
    assert f"Prompts cut none of {lengths.requests}" in facts
    assert ("still thinking" in facts) == (budget is None)
    assert ("Thoughts ended by their budget" in facts) == (budget is not None)


def test_the_board_as_a_file_has_every_count(client: Client, db: None, settings: Any) -> None:
    board = synthetic_board(6, 3)
    (row, *_) = np.flatnonzero(~np.isnan(board.scores.value[:, 0])).tolist()
    counted = with_lengths(board, {(row, 0): CUT_OFTEN})
    name = f"{board.columns[0].benchmark}.{board.columns[0].style}"
    shown(client, settings, counted)
    (found,) = [
        one for one in csv_rows(client, "/board.csv") if one["model"] == board.models[row].repo_id
    ]
    assert [found[f"{name}.{what}"] for what in NAMES] == ["200", "0", "200", "30", "4", "0"]
