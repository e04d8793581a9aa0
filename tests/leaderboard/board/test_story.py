"""Two models that change places with the style, on the page that a new visitor sees first."""

from __future__ import annotations

import html as html_module
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from django.test import Client

from leaderboard.models import HubModel, Suite
from leaderboard.snapshot import EVERY, OWN, Board, Scores, published
from leaderboard.snapshot.crossing import clearest
from tests.leaderboard import factories as make
from tests.leaderboard.boards import synthetic_board

N = 300


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts",), styles=("cloze", "mmlu"))


def measure(suite: Suite, **skills: tuple[float, float]) -> None:
    """By model its skill as a cloze and in letters."""
    for name, of_styles in skills.items():
        variant = make.make_variant(f"lab/{name}")
        for skill, style in zip(of_styles, ("cloze", "mmlu"), strict=True):
            run = make.queued_run(variant, suite.entries.get(style=style))
            make.finish(run, skill=skill, n=N)
    for style in (OWN, EVERY):
        published.build(suite, style)


def head(client: Client, address: str = "/") -> str:
    page = client.get(address).content.decode()
    part = page[page.index('id="suite-head"') : page.index('id="guide"')]
    return " ".join(html_module.unescape(re.sub(r"<[^>]+>", " ", part)).split())


def test_the_first_page_tells_of_two_models_that_change_places(
    client: Client, suite: Suite
) -> None:
    measure(suite, ada=(0.8, 0.3), bo=(0.4, 0.75), cy=(0.6, 0.6))
    shown = head(client)
    assert re.search(r"(ada leads bo|bo leads ada) on Facts by \d+\.\d points", shown)
    board = published.newest(suite, EVERY)
    assert board is not None
    assert board.crossing is not None
    rows = [board.row_of[v] for v in (board.crossing.ahead, board.crossing.behind)]
    lead = np.diff(board.scores.value[rows, board.crossing.first])[0]
    assert f"by {-100 * lead:.1f} points when asked in" in shown
    (link,) = re.findall(r'href="([^"]+)">What the style does', client.get("/").content.decode())
    told = client.get(html_module.unescape(link), follow=True).content.decode()
    assert "Both leads were shown (95%)" in told


def test_other_views_of_the_board_do_not_tell_it_again(client: Client, suite: Suite) -> None:
    measure(suite, ada=(0.8, 0.3), bo=(0.4, 0.75))
    published.build(suite, "mmlu")
    for address in ("/?style=mmlu", "/?q=ada", "/?sort=facts"):
        assert "What the style does" not in head(client, address)


def test_models_that_both_do_worse_in_letters_are_no_story(client: Client, suite: Suite) -> None:
    measure(suite, ada=(0.8, 0.6), bo=(0.5, 0.3))
    assert "What the style does" not in head(client)


def test_a_flagged_model_is_in_no_story(client: Client, suite: Suite) -> None:
    measure(suite, ada=(0.8, 0.3), bo=(0.4, 0.75))
    HubModel.objects.filter(repo_id="lab/bo").update(flag_reason="trained on the test")
    for style in (OWN, EVERY):
        published.build(suite, style)
    assert "What the style does" not in head(client)


def equal_in_truth(seed: int) -> Board:
    """Two columns of one benchmark in which 200 models differ by chance alone."""
    board = synthetic_board(models=200, columns=2, style=EVERY)
    columns = tuple(replace(column, benchmark="one") for column in board.columns)
    draw = np.random.default_rng(seed)
    value = draw.binomial(1000, 0.5, board.scores.value.shape) / 1000
    half = 1.96 * np.sqrt(value * (1 - value) / 1000)
    return replace(board, columns=columns, scores=Scores(value, value - half, value + half))


def test_chance_alone_makes_no_story() -> None:
    found = [clearest(equal_in_truth(seed)) for seed in range(100)]
    assert sum(case is not None for case in found) <= 2


def test_of_several_cases_the_one_with_the_widest_gap_is_told() -> None:
    board = equal_in_truth(0)
    rows = board.comparable_rows[:4].tolist()
    for row, (first, second) in zip(
        rows, [(0.8, 0.2), (0.2, 0.8), (0.7, 0.4), (0.4, 0.7)], strict=True
    ):
        board.scores.value[row] = first, second
        board.scores.low[row], board.scores.high[row] = (
            (first - 0.03, second - 0.03),
            (first + 0.03, second + 0.03),
        )
    case = clearest(board)
    assert case is not None
    assert {board.row_of[case.ahead], board.row_of[case.behind]} == set(rows[:2])
