"""Logs in both forms: one line for each event of JSON, and no secret in either."""

from __future__ import annotations

import json
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.contextvars import bound_contextvars

from leaderboard import logs

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SECRETS = st.from_regex(r"[A-Za-z0-9/+!-]{8,30}", fullmatch=True)


def record(message: str, *arguments: object, failed: Exception | None = None) -> logging.LogRecord:
    trouble = None
    if failed:
        try:
            raise failed
        except type(failed):
            trouble = sys.exc_info()
    return logging.LogRecord("site", logging.WARNING, __file__, 1, message, arguments, trouble)


@given(secret=SECRETS, before=WORDS, after=WORDS)
def test_a_secret_is_in_no_line_wherever_it_was_said(secret: str, before: str, after: str) -> None:
    said = f"{before} {secret}\n{after}"
    for formatter in (logs.Lines([secret]), logs.Json([secret])):
        with bound_contextvars(about=said, several=[said], deep={"in": said}):
            line = formatter.format(record("%s", said, failed=ValueError(said)))
        assert f" {secret}" not in line


@given(said=WORDS, bound=WORDS)
def test_an_event_is_one_line_of_json_with_all_that_was_said(said: str, bound: str) -> None:
    with bound_contextvars(run=bound):
        line = logs.Json().format(record("%s", said))
    assert len(line.split("\n")) == 1
    told = json.loads(line)
    assert (told["event"], told["run"]) == (logs.withheld(said), logs.withheld(bound))
    assert (told["level"], told["logger"]) == ("warning", "site")


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("with hf_abcdefgh12345", "with hf_(hidden)"),
        ("postgresql://ada:hush@db:5432/x", "postgresql://db:5432/x"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer (hidden)"),
        ("three of 40", "three of 40"),
    ],
)
def test_what_looks_like_a_secret_is_left_out(said: str, left: str) -> None:
    assert logs.withheld(said) == left
