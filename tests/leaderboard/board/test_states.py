"""Where the board has no table to show, and what it says of other versions and days."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from leaderboard.models import Suite
from leaderboard.snapshot import published
from tests.leaderboard import factories as make
from tests.leaderboard.board.test_page import BOARD, MIDDLE, get, get_built, text_of
from tests.leaderboard.boards import publish, synthetic_board


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(notice="Scores mean nothing beyond the demo.")


@pytest.fixture
def synthetic(db: None, settings: Any) -> Suite:
    """A suite whose board is made up: 130 models, 12 columns."""
    settings.PLUMBLINE_SUITE = "synthetic"
    suite = make.make_suite("synthetic")
    publish(BOARD, suite)
    return suite


# Where there is no table


def test_a_suite_of_which_no_board_was_built_says_that_it_is_on_its_way(
    client: Client, suite: Suite
) -> None:
    html = get(client)
    assert "This board is being built" in html
    assert 'href="/queue"' in html


def test_an_empty_board_says_so_and_leads_to_the_form(client: Client, suite: Suite) -> None:
    html = get_built(client, suite)
    assert "No models yet" in html
    assert 'href="/submit"' in html


def test_a_site_without_its_suite_says_so_without_a_command(
    client: Client, db: None, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "missing"
    html = get(client)
    assert "set to show the suite <code>missing</code>" in html
    assert "manage.py" not in html


def test_an_unknown_suite_is_not_found(client: Client, suite: Suite) -> None:
    assert client.get("/?suite=nothing").status_code == 404


def test_the_suites_notice_stands_on_the_board(client: Client, suite: Suite) -> None:
    assert "Scores mean nothing beyond the demo." in get_built(client, suite)


# Versions and days


def test_an_older_version_says_that_there_is_a_newer_one(client: Client, synthetic: Suite) -> None:
    assert "has taken this one’s place" not in get(client)
    make.publish(make.make_suite("synthetic", version="2.0"))
    old = get(client, "/?suite=synthetic%401.0")
    assert "Version 2.0 of this suite has taken this one’s place" in old
    assert 'href="/"' in old[old.index("taken this one’s place") :][:600]
    assert "has taken this one’s place" not in get(client)


def test_a_day_in_the_past_shows_the_board_of_that_day(client: Client, synthetic: Suite) -> None:
    fewer = synthetic_board(20, 12)
    publish(replace(fewer, built=BOARD.built - timedelta(days=30), data_version="old"), synthetic)
    day = (BOARD.built - timedelta(days=10)).date()
    past = get(client, f"/?at={day}")
    assert "of 20" in text_of(past[past.index('class="bar"') :][:400])
    assert f"The board as it stood on {day.day} {day:%b %Y}" in text_of(past)
    assert f"Later: {BOARD.built.day}" in text_of(past)
    title = f"Synthetic 1.0 on {day.day} {day:%b %Y}"
    assert f"<title>{title} · Plumbline</title>" in past
    assert f'property="og:title" content="{title}: ' in past, "with who was first then"
    assert "of 130" in text_of(get(client))


def test_before_the_first_board_there_is_a_way_to_the_newest(
    client: Client, synthetic: Suite
) -> None:
    html = get(client, "/?at=2020-01-01")
    assert "There was no board on 2020-01-01" in html
    assert f"{BOARD.built.day} {BOARD.built:%b %Y}" in html


def test_the_board_says_when_it_was_built(client: Client, suite: Suite) -> None:
    make.evaluated("lab/one", suite, MIDDLE)
    html = get_built(client, suite)
    board = published.newest(suite, "own")
    assert board is not None
    assert f'<time datetime="{board.built.isoformat(timespec="seconds")}"' in html
