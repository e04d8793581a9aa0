"""Addresses of thousands of characters: no page repeats what it is asked without a bound."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from leaderboard.models import Suite
from tests.leaderboard.boards import publish, synthetic_board
from tests.leaderboard.factories import make_suite

FIELDS = {
    "/": (
        "q",
        "type",
        "arch",
        "licence",
        "cols",
        "size",
        "pin",
        "m",
        "at",
        "page",
        "suite",
        "sort",
    ),
    "/styles": ("suite", "benchmark", "page", "cols", "q", "sort"),
    "/compare": ("models", "suite", "at", "task"),
    "/queue": ("q", "fault"),
    "/submit": ("model", "revision", "dtype"),
    "/changelog": ("page",),
    "/models/a/b": ("suite",),
    "/nowhere": ("page",),
}
ROOM = 250_000
"""Bytes by which the page with the most links may grow with seven thousand characters of query."""

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def board(settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "synthetic"
    suite = make_suite("synthetic")
    publish(synthetic_board(60, 12), suite)
    return suite


@pytest.mark.parametrize("path", FIELDS)
def test_a_long_query_makes_no_longer_page(client: Client, board: Suite, path: str) -> None:
    bare = len(client.get(path).content)
    fields = FIELDS[path]
    each = [f"{name}={'z' * 7000}" for name in fields]
    together = "&".join(f"{name}={quote('é' * (1100 // len(fields)))}" for name in fields)
    listed = "&".join(f"{fields[0]}=a,{number}" for number in range(500))
    for query in (*each, together, listed):
        response = client.get(f"{path}?{query}", follow=True)
        assert response.status_code in (200, 400, 404)
        assert len(response.content) < bare + (ROOM if path == "/" else 30_000), query[:20]


def test_a_long_path_is_named_by_its_beginning(client: Client, board: Suite) -> None:
    response = client.get(f"/models/{'z' * 7000}")
    assert response.status_code == 404
    assert len(response.content) < 30_000
