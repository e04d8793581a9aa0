"""How the board answers: addresses, what a reader can do next, what is sent again and what not."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.models import Suite, User
from leaderboard.web import Recent
from tests.leaderboard import factories as make
from tests.leaderboard.board.test_page import BOARD, get, names, row_of, text_of
from tests.leaderboard.boards import publish, synthetic_board

LARGEST = 100_000
"""Bytes of a board page, compressed."""


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "synthetic"
    suite = make.make_suite("synthetic")
    publish(BOARD, suite)
    return suite


@pytest.fixture
def packed() -> Client:
    return Client(headers={"Accept-Encoding": "gzip"})


# Addresses and links


@pytest.mark.parametrize(
    ("given", "short"),
    [
        ("/?style=own&q=&arch=&precision=&sort=average&suite=synthetic", "/"),
        ("/?q=llama&page=1&rows=normal", "/?q=llama"),
        ("/?style=nonsense", "/"),
        ("/?sort=nonsense", "/"),
        ("/?page=99", "/?page=3"),
        ("/?page=-1", "/"),
        ("/?utm_source=x", "/"),
        ("/?size=1&size=7", "/?size=1-7"),
        ("/?type=chat&type=merge", "/?type=chat%2Cmerge"),
    ],
)
def test_addresses_are_made_short(client: Client, suite: Suite, given: str, short: str) -> None:
    response = client.get(given)
    assert response.status_code == 302
    assert response["Location"] == short
    assert client.get(short).status_code == 200


def test_every_link_and_form_of_the_board_leads_somewhere(client: Client, suite: Suite) -> None:
    page = get(client, "/?q=llama&sort=-bench_02&pin=5&m=7")
    links = {link.replace("&amp;", "&") for link in re.findall(r'href="(/(?:\?[^"]*)?)"', page)}
    assert len(links) > 25
    for link in sorted(links):
        assert client.get(link.partition("#")[0]).status_code == 200, link


def test_filters_narrow_the_rows_but_not_the_ranks(client: Client, suite: Suite) -> None:
    row = int(np.flatnonzero(BOARD.ranks.rank == 40)[0])
    model = BOARD.models[row]
    html = get(client, f"/?q={model.repo_id.partition('/')[2]}")
    assert names(html) == [model.repo_id]
    assert "40 (38–42)" in text_of(row_of(html, model.variant))


def test_the_hits_of_each_term_are_counted(client: Client, suite: Suite) -> None:
    llamas, phis = (
        sum(word in model.repo_id.lower() for model in BOARD.models) for word in ("llama", "phi")
    )
    assert f"Hits: llama {llamas} phi {phis}" in text_of(get(client, "/?q=llama%3B+phi"))


def test_a_query_that_cannot_be_read_says_so_and_shows_everything(
    client: Client, suite: Suite
) -> None:
    html = get(client, "/?q=%40colour%3Ared")
    assert "“@colour:red”" in html[html.index('id="problems"') :][:500]
    assert "of 130" in text_of(html)


def test_a_search_that_finds_nothing_offers_a_way_out(client: Client, suite: Suite) -> None:
    html = get(client, "/?q=llama&arch=phi")
    assert "No model matches all 2 filters" in html
    ways = re.findall(r'href="([^"]+)">Drop ', html)
    assert len(ways) == 2
    assert all(names(get(client, way.replace("&amp;", "&"))) for way in ways)


def test_a_pinned_model_stands_on_top_with_its_true_rank(client: Client, suite: Suite) -> None:
    model = BOARD.models[int(np.flatnonzero(BOARD.ranks.rank == 40)[0])]
    html = get(client, f"/?pin={model.variant}")
    assert names(html)[0] == model.repo_id
    assert names(html).count(model.repo_id) == 1
    top = html[html.index('class="pinned') :].partition("</tbody>")[0]
    assert "40 (38–42)" in text_of(top)
    assert 'href="/">Unpin' in top


def test_a_deep_link_shows_its_row_on_the_page_where_it_is(client: Client, suite: Suite) -> None:
    model = BOARD.models[77]
    html = get(client, f"/?at_model={model.repo_id}")
    assert " marked" in row_of(html, model.variant)
    assert "Rows 51–100 of 130" in text_of(html)


def test_ticks_go_along_to_the_next_page(client: Client, suite: Suite) -> None:
    first = BOARD.models[0]
    here = row_of(get(client, f"/?m={first.variant}"), first.variant)
    assert re.search(rf'value="{first.variant}" aria-label="[^"]+" checked>', here)
    elsewhere = get(client, f"/?page=2&m={first.variant}")
    assert f'<input type="hidden" name="m" value="{first.variant}">' in elsewhere
    assert f'aria-label="Untick {first.repo_id}"' in elsewhere


def test_the_hundredth_row_stands_on_the_second_page(client: Client, suite: Suite) -> None:
    first, second = get(client), get(client, "/?page=2")
    assert len(names(first)) == len(names(second)) == 50
    assert "Rows 51–100 of 130" in text_of(second)
    assert 'href="/?page=3"' in second
    assert not set(names(first)) & set(names(second))


def test_downloads_have_the_same_query(client: Client, suite: Suite) -> None:
    html = get(client, "/?q=llama&sort=model")
    for kind in ("csv", "json", "parquet"):
        assert f'href="/board.{kind}?q=llama&amp;sort=model"' in html


# Size, queries, what is sent


def test_the_widest_page_is_at_most_100_kb(packed: Client, suite: Suite) -> None:
    models, columns = 200, 60
    board = synthetic_board(models, columns)
    runs = np.frombuffer(np.random.default_rng(0).bytes(models * columns * 16), "V16")
    later = BOARD.built + timedelta(hours=1)
    publish(replace(board, run=runs.reshape(models, columns), built=later), suite)
    default, every = packed.get("/"), packed.get("/?cols=all")
    assert gzip.decompress(every.content).count(b'href="/cells/') > 2500
    assert len(default.content) <= LARGEST
    assert len(every.content) <= LARGEST


def test_the_number_of_queries_does_not_grow_with_the_board(
    client: Client, suite: Suite, settings: Any
) -> None:
    counts = []
    for step, models in enumerate((10, 1000), start=1):
        board = synthetic_board(models, 12)
        later = BOARD.built + timedelta(hours=step)
        publish(replace(board, built=later, data_version=str(models)), suite)
        with CaptureQueriesContext(connection) as captured:
            get(client, "/?cols=all")
        counts.append(len(captured))
    assert counts[0] == counts[1] <= 6


def test_a_browser_that_has_the_page_is_not_sent_it_again(client: Client, suite: Suite) -> None:
    first = client.get("/")
    again = client.get("/", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert first["Cache-Control"] == again["Cache-Control"] == "no-cache"
    later = BOARD.built + timedelta(hours=1)
    publish(replace(synthetic_board(20, 12), built=later, data_version="new"), suite)
    changed = client.get("/", headers={"If-None-Match": first["ETag"]})
    assert changed.status_code == 200
    assert "of 20" in text_of(changed.content.decode())


def test_a_new_notice_or_version_is_seen_at_once(client: Client, suite: Suite) -> None:
    client.get("/?suite=synthetic%401.0")
    Suite.objects.filter(pk=suite.pk).update(notice="Under review.")
    assert "Under review." in get(client, "/?suite=synthetic%401.0")
    make.make_suite("synthetic", version="2.0")
    assert "taken this one’s place" in get(client, "/?suite=synthetic%401.0")


@pytest.mark.parametrize(
    ("takes", "packs"),
    [("gzip, br", True), ("gzip;q=0.5", True), ("gzip;q=0", False), ("br", False), ("", False)],
)
def test_a_page_is_packed_for_those_who_take_it(
    client: Client, suite: Suite, takes: str, packs: bool
) -> None:
    plain = client.get("/").content
    response = client.get("/", headers={"Accept-Encoding": takes})
    assert ("Content-Encoding" in response) is packs
    assert (gzip.decompress(response.content) if packs else response.content) == plain
    assert "Accept-Encoding" in response["Vary"]


def test_a_page_for_somebody_signed_in_is_made_for_them_alone(
    client: Client, packed: Client, suite: Suite
) -> None:
    assert "csrfmiddlewaretoken" not in get(client)
    for name in ("ada", "bo"):
        packed.force_login(User.objects.get_or_create(username=name)[0])
        response = packed.get("/")
        page = gzip.decompress(response.content).decode()
        assert name in text_of(page)
        assert "csrfmiddlewaretoken" in page
        assert response["Cache-Control"].startswith("private")
        assert "ETag" not in response
    assert "bo" not in text_of(get(client)).split()


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 60)), max_size=40))
def test_what_is_kept_never_outgrows_its_room_and_the_newest_stays(
    puts: list[tuple[str, int]],
) -> None:
    kept: Recent[str] = Recent(100, len)
    for key, size in puts:
        page = key * size
        kept.put(key, page)
        assert kept.get(key) == page
        found = [kept.get(key) for key in "abcdef"]
        assert sum(len(answer) for answer in found if answer) <= 100
