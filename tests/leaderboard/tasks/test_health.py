"""How good a benchmark is as an instrument: on its page, and in the legend of a board."""

from __future__ import annotations

import html as html_module
import re
from typing import Any

import numpy as np
import pytest
from django.test import Client

from evalcore.stats import block
from leaderboard.models import ItemAnalysis, Result, Suite, Variant
from leaderboard.samples import vectors
from leaderboard.snapshot import EVERY, OWN, published
from leaderboard.stats import separation
from leaderboard.tasks import items
from leaderboard.tasks.health import Health
from tests.leaderboard import factories as make

N = 40


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    items._looked.clear()
    return make.make_suite(benchmarks=("facts",), styles=("cloze", "mmlu"))


def measure(suite: Suite, skills: list[float]) -> None:
    """Models of these skills, each smaller than the next; in letters all are ten points worse."""
    for number, skill in enumerate(skills):
        variant = make.make_variant(f"lab/m{number:02}", parameters=(number + 1) * 10**8)
        for entry in suite.entries.all():
            of_style = skill if entry.own else max(0.0, skill - 0.1)
            make.finish(make.queued_run(variant, entry), skill=of_style, n=N, seed=number)
    for style in (OWN, EVERY):
        published.build(suite, style)
    items.analyse_due()


def health(suite: Suite) -> Health:
    key = suite.entries.get(own=True).comparability_key
    found = Health.of_json(ItemAnalysis.objects.get(comparability_key=key).health)
    assert found is not None
    return found


def text(client: Client, address: str, name: str) -> str:
    page = client.get(address).content.decode()
    start = page.index(name)
    section = page[start : page.index("</section>", start)]
    return " ".join(html_module.unescape(re.sub(r"<[^>]+>", " ", section)).split())


def test_the_page_tells_signal_and_noise_of_the_stored_answers(
    client: Client, suite: Suite
) -> None:
    measure(suite, [0.3 + 0.05 * number for number in range(12)])
    entry = suite.entries.get(own=True)
    results = [
        Result.objects.get(run__variant=variant, run__task=entry.task, subset="", metric="acc").pk
        for variant in Variant.objects.order_by("parameters")
    ]
    matrix = vectors.matrix(results)
    assert matrix is not None
    expected = separation(block(matrix.scores), np.arange(12))
    found = health(suite).separation
    assert expected is not None
    assert found is not None
    assert found.ratio.value == pytest.approx(expected.ratio.value, rel=1e-4)
    shown = text(client, "/tasks/facts", 'aria-labelledby="health"')
    assert f"Signal to noise {expected.ratio.value:.1f}" in shown
    assert f"{100 * expected.signal:.1f} points apart" in shown


def test_a_solved_benchmark_is_said_to_be_one_on_its_page_and_on_the_board(
    client: Client, suite: Suite
) -> None:
    measure(suite, [1.0] * 6 + [0.5] * 6)
    shown = text(client, "/tasks/facts", 'aria-labelledby="health"')
    assert "6 of 12 models have an interval that reaches 100.0" in shown
    assert "can no longer tell the best models apart" in shown
    board = client.get("/").content.decode()
    assert 'href="/tasks/facts#health">Facts</a> (its best models are at the ceiling)' in board


def test_equal_models_give_no_signal_and_the_board_says_so(client: Client, suite: Suite) -> None:
    measure(suite, [0.5] * 12)
    assert "not shown that the signal is larger" in text(client, "/tasks/facts", 'id="health"')
    assert "models of like size hardly differ beyond noise" in client.get("/").content.decode()


def test_the_board_of_a_past_day_is_not_warned_of_what_is_known_today(
    client: Client, suite: Suite
) -> None:
    measure(suite, [0.5] * 12)
    day = published.newest(suite, OWN)
    assert day is not None
    address = f"/?at={day.built:%Y-%m-%d}"
    assert "Read with care" in client.get("/").content.decode()
    assert "Read with care" not in client.get(address, follow=True).content.decode()


def test_another_style_is_named_with_what_it_moves(client: Client, suite: Suite) -> None:
    measure(suite, [0.3 + 0.05 * number for number in range(12)])
    (other,) = health(suite).styles
    board = published.newest(suite, EVERY)
    assert board is not None
    (gap,) = board.gaps
    sign = -1 if board.columns[gap.first].own else 1
    assert (other.style, other.models) == ("mmlu", 12)
    assert other.difference == pytest.approx(sign * np.median(gap.difference.value))
    shown = text(client, "/tasks/facts", 'aria-labelledby="health"')
    assert "In the style" in shown
    page = client.get("/tasks/facts").content.decode()
    (link,) = re.findall(r'href="(/styles\?[^"]*)">who moves', page)
    assert client.get(html_module.unescape(link), follow=True).status_code == 200


def test_too_few_models_have_no_section_and_no_warning(client: Client, suite: Suite) -> None:
    measure(suite, [1.0] * 9)
    assert 'aria-labelledby="health"' not in client.get("/tasks/facts").content.decode()
    assert "Read with care" not in client.get("/").content.decode()


def test_an_analysis_of_before_is_made_anew(client: Client, suite: Suite) -> None:
    measure(suite, [0.5] * 12)
    ItemAnalysis.objects.update(health={}, marks=[], data_version="12 99")
    assert client.get("/tasks/facts").status_code == 200
    items._looked.clear()
    assert items.analyse_due() == ItemAnalysis.objects.count()
    assert health(suite).models == 12
