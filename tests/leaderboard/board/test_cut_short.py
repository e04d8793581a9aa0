"""Beside each number stands how much of its answers and prompts was cut short."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from evalcore.lengths import LARGE, NAMES, Lengths
from leaderboard.models import Result, Suite
from leaderboard.snapshot import OWN, Board, published
from leaderboard.snapshot import file as snapshot_file
from tests.leaderboard import engine_runs
from tests.leaderboard import factories as make
from tests.leaderboard.board.test_page import get, row_of, text_of
from tests.leaderboard.boards import publish, synthetic_board
from tests.leaderboard.runs.test_page import text

SKILL = dict.fromkeys(("cloze", "mmlu", "hybrid"), 0.6)
MANY = Lengths(requests=200, answers=200, by_length=30, still_thinking=4)
FEW = Lengths(requests=200, answers=200, by_length=3, prompts_cut=1)
LEGEND = "† At least 5 % of its answers were stopped by their length, or of its prompts cut"


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts",))


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
    return re.findall(r'class="score" data-l="[^"]*"><a href="[^"]*" title="([^"]*)"',
                      row_of(html, variant))  # fmt: skip


@pytest.mark.parametrize("columns", [4, 12], ids=["narrow", "wide"])
def test_pointing_at_a_number_tells_and_a_large_share_is_marked(
    client: Client, db: None, settings: Any, columns: int
) -> None:
    board = synthetic_board(20, columns)
    scored = [row for row in range(20) if not np.isnan(board.scores.value[row, :2]).any()]
    row = scored[0]
    board = with_lengths(board, {(row, 0): MANY, (row, 1): FEW})
    html = shown(client, settings, board)
    variant = board.models[row].variant
    first, second, *others = titles(html, variant)
    assert first.endswith("; stopped by length: 30 of 200 answers (15.0 %), 4 still thinking")
    assert second.endswith(
        "; stopped by length: 3 of 200 answers (1.5 %); prompts cut: 1 of 200 prompts (0.5 %)"
    )
    assert not [title for title in others if "stopped" in title or "cut" in title]
    assert row_of(html, variant).count("<sup>†</sup>") == html.count("<sup>†</sup>") == 1
    assert LEGEND in text_of(html)


def test_a_board_of_which_nothing_was_counted_or_cut_is_what_it_was(
    client: Client, db: None, settings: Any
) -> None:
    board = synthetic_board(20, 4)
    before = shown(client, settings, board)
    Suite.objects.all().delete()
    after = shown(client, settings, with_lengths(board, {}))

    def table(html: str) -> str:
        return html[html.index("<table") : html.index("</table>")]

    assert table(before) == table(after)
    assert "†" not in before
    assert "†" not in after


@given(
    st.builds(
        Lengths,
        requests=st.just(400),
        answers=st.integers(1, 400),
        by_length=st.integers(0, 60),
        prompts_cut=st.integers(0, 60),
    )
)
def test_a_share_is_large_from_five_percent_on(counts: Lengths) -> None:
    expected = counts.by_length / counts.answers >= LARGE or counts.prompts_cut / 400 >= LARGE
    assert counts.is_large == expected


def test_a_snapshot_keeps_the_counts_and_one_from_before_has_none(tmp_path: Path) -> None:
    board = with_lengths(synthetic_board(5, 3), {(2, 1): MANY})
    snapshot_file.write(board, tmp_path / "board.npz")
    with np.load(tmp_path / "board.npz") as stored:
        before = {name: stored[name] for name in stored if name != "lengths"}
    np.savez_compressed(tmp_path / "before.npz", **before)
    for name in ("board", "before"):
        snapshot_file.unpack(tmp_path / f"{name}.npz", tmp_path / name)
    now, then = (snapshot_file.mapped(tmp_path / name) for name in ("board", "before"))
    assert (now.lengths == board.lengths).all()
    score = now.score(2, 1)
    assert score is None or score.lengths == MANY
    assert then.lengths.shape == board.lengths.shape
    assert not then.lengths.any()
    scores = [then.score(row, column) for row in range(5) for column in range(3)]
    assert all(score.lengths is None for score in scores if score)


def test_from_the_record_to_the_board_and_the_page_of_the_model(
    client: Client, suite: Suite
) -> None:
    cut = make.evaluated("lab/cut", suite, SKILL, cut=10)
    whole = make.evaluated("lab/whole", suite, SKILL)
    result = Result.objects.get(run__variant=cut, run__task__name="facts", metric="acc", subset="")
    assert result.lengths == Lengths(requests=160, prompts_cut=40)
    assert Result.objects.filter(run__variant=whole, requests=None).exists()
    make.publish(suite)
    board = published.newest(suite, OWN)
    assert board is not None
    found = board.score(board.row_of[cut.pk], 0)
    assert found is not None
    assert found.lengths == result.lengths
    words = "prompts cut: 40 of 160 prompts (25.0 %)"
    html = get(client)
    assert titles(html, cut.pk)[0].endswith(words)
    assert words not in titles(html, whole.pk)[0]
    page = get(client, "/models/lab/cut")
    assert page.count(words) >= 4  # its scores and its runs
    assert page.count("<sup>†</sup>") == 3
    assert LEGEND in text(page)
    other = get(client, "/models/lab/whole")
    assert "†" not in other
    assert "prompts cut" not in other


def test_a_mean_over_draws_counts_all_of_them(client: Client, suite: Suite) -> None:
    first = suite.entries.get(style="cloze")
    again = suite.entries.create(
        position=9, benchmark=first.benchmark, title=first.title, style=first.style, own=True,
        task=first.task, shots=first.shots, metric="acc", run_key="a" * 64, draw=1,
    )  # fmt: skip
    variant = make.make_variant("lab/drawn")
    for entry, cut in ((first, 4), (again, 6)):
        make.finish(make.queued_run(variant, entry), cut=cut)
    make.publish(suite)
    board = published.newest(suite, OWN)
    assert board is not None
    (score,) = (board.score(row, 0) for row in range(len(board.models)))
    assert score is not None
    assert score.draws == 2
    assert score.lengths == Lengths(requests=320, prompts_cut=40)
    assert "prompts cut: 40 of 320 prompts (12.5 %)" in get(client, "/models/lab/drawn")


@pytest.mark.parametrize("budget", [None, 6])
def test_the_page_of_a_run_says_it_among_its_facts(
    client: Client, tmp_path: Path, db: None, budget: int | None
) -> None:
    run = engine_runs.thinking(tmp_path, **({"thinking_budget": budget} if budget else {}))
    result = run.results.filter(metric="exact_match", subset="").first()
    assert result is not None
    lengths = result.lengths
    assert lengths is not None
    assert lengths.by_length > 0
    html = get(client, f"/runs/{run.pk}")
    facts = text(html[html.index('<dl class="facts ruled">') : html.index("</dl>")])
    assert f"Stopped by length {lengths.by_length} of {lengths.answers} answers" in facts
    assert f"Prompts cut none of {lengths.requests}" in facts
    assert ("still thinking" in facts) == (budget is None)
    assert ("Thoughts ended by their budget" in facts) == (budget is not None)


def test_a_run_of_which_nothing_was_counted_says_nothing(client: Client, suite: Suite) -> None:
    submission = make.make_submission(make.make_variant("lab/old"), suite)
    run = make.finish(submission.runs.get(task__name="facts"))
    html = get(client, f"/runs/{run.pk}")
    assert "Stopped by length" not in html
    assert "<dt>Prompts cut</dt>" not in html


def test_the_board_as_a_file_has_every_count(client: Client, db: None, settings: Any) -> None:
    board = synthetic_board(6, 3)
    (row, *_) = np.flatnonzero(~np.isnan(board.scores.value[:, 0])).tolist()
    counted = with_lengths(board, {(row, 0): MANY})
    name = f"{board.columns[0].benchmark}.{board.columns[0].style}"
    shown(client, settings, counted)
    response: Any = client.get("/board.csv")
    rows = list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode())))
    (found,) = [one for one in rows if one["model"] == board.models[row].repo_id]
    assert [found[f"{name}.{what}"] for what in NAMES] == ["200", "0", "200", "30", "4", "0"]
