"""Which charts there are: the links from each of them to the others."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.urls import reverse

from leaderboard.charts.axes import AXES
from leaderboard.charts.axis import SIZE

AGREEMENT, QUESTIONS, SPREAD = "agreement", "questions", "spread"
PAGES = {
    AGREEMENT: "Agreement of benchmarks",
    QUESTIONS: "Hard and telling questions",
    SPREAD: "Prompts and draws",
}
"""Charts with a page of their own, `charts-NAME`."""


class Kind(NamedTuple):
    heading: str
    url: str
    here: bool


def kinds(suite: str, here: str, score: str = "") -> list[Kind]:
    """Of the same suite, and of the same score where one is chosen."""
    usual = {"suite": settings.PLUMBLINE_SUITE, "score": "average", "against": SIZE.key}
    axes = [
        Kind(axis.heading, _at("charts", usual, suite=suite, score=score, against=key), key == here)
        for key, axis in AXES.items()
    ]
    pages = [
        Kind(heading, _at(f"charts-{key}", usual, suite=suite), key == here)
        for key, heading in PAGES.items()
    ]
    return [*axes, *pages]


def _at(name: str, usual: dict[str, str], **chosen: str) -> str:
    query = urlencode({k: v for k, v in chosen.items() if v and v != usual[k]})
    return reverse(name) + (f"?{query}" if query else "")
