"""The table at the end of a run, in terminals and files of any width."""

from __future__ import annotations

import re

import pytest

from evalcore.progress import empty_table, say

ROWS = (
    ("gsm8k", "strict-match", "exact_match ↑", "0.0123", "0.0077–0.0198", "1319"),
    ("  mmlu_high_school_world_history", "none", "acc ↑", "0.2532", "0.2016–0.3125", "237"),
)


@pytest.fixture
def shown(monkeypatch, capsys):
    def shown(*, width: int, terminal: bool) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TTY_COMPATIBLE", "1" if terminal else "0")
        table = empty_table("task", "filter", "metric", "value", "95 % interval", "n")
        for row in ROWS:
            table.add_row(*row)
        say(table)
        return [re.sub(r"\x1b\[\d*m", "", line) for line in capsys.readouterr().out.splitlines()]

    return shown


def test_a_narrow_terminal_gets_names_folded_and_every_number_whole(shown):
    lines = shown(width=62, terminal=True)
    assert max(map(len, lines)) <= 62
    for *_, value, interval, n in ROWS:
        assert any(all(part in line for part in (value, interval, n)) for line in lines)


@pytest.mark.parametrize(("width", "terminal"), [(62, False), (200, True), (20, True)])
def test_a_row_is_one_line_in_a_file_and_where_it_fits_or_nothing_helps(shown, width, terminal):
    lines = shown(width=width, terminal=terminal)
    for row in ROWS:
        assert any(all(cell in line for cell in row) for line in lines)
