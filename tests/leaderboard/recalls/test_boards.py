"""A recalled number is ranked, averaged, shown and downloaded nowhere without its mark."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboard import recalls
from leaderboard.models import BoardSnapshot, Recall, Run, Suite, Variant
from leaderboard.snapshot import OWN, Board, Standing, published
from leaderboard.snapshot.recalled import without
from leaderboard.stats import among
from tests.leaderboard import engine_runs
from tests.leaderboard import factories as make
from tests.leaderboard.boards import synthetic_board

pytestmark = pytest.mark.django_db

REASON = "the tokenizer lost every full stop"
NAMES = ("workshop/heron", "workshop/crane", "workshop/stork")


@pytest.fixture
def suite(settings) -> Suite:
    settings.PLUMBLINE_SUITE = "workshop"
    return make.make_suite("workshop", benchmarks=("facts", "sums"), styles=("cloze", "mmlu"))


@pytest.fixture
def models(suite: Suite) -> list[Variant]:
    skills = (0.9, 0.7, 0.4)
    return [
        make.evaluated(name, suite, {"cloze": skill, "mmlu": skill - 0.25}, n=60)
        for name, skill in zip(NAMES, skills, strict=True)
    ]


def board_of(suite: Suite) -> Board:
    board = published.newest(suite, OWN)
    assert board is not None
    return board


def recall_first(models: list[Variant]) -> tuple[Recall, Run]:
    """The best model’s number on one benchmark."""
    run = models[0].runs.get(task__name="facts")
    made, _ = recalls.recall("runs", [str(run.pk)], reason=REASON, by="ada")
    run.refresh_from_db()
    return made, run


def standing_of(board: Board, name: str) -> tuple[int, int]:
    """The rank of a model, and its row."""
    row = board.models.values("repo_id").index(name)
    return int(board.ranks.rank[row]), row


@pytest.mark.parametrize("rebuilt", [False, True], ids=["before the next board", "on the next"])
def test_a_recalled_number_is_neither_ranked_nor_averaged(
    suite: Suite, models: list[Variant], rebuilt: bool
) -> None:
    make.publish(suite)
    assert standing_of(board_of(suite), NAMES[0])[0] == 1
    recall_first(models)
    if rebuilt:
        make.publish(suite)
    board = board_of(suite)
    rank, row = standing_of(board, NAMES[0])
    assert rank == 0
    assert np.isnan(board.average.value[row])
    place = [column.benchmark for column in board.columns].index("facts")
    assert board.score(row, place) is None
    assert board.standing_of(row, place) is Standing.RECALLED
    assert board.why[row, place] == REASON
    assert board.score(row, 1 - place) is not None, "its other number stands"
    assert [standing_of(board, name)[0] for name in NAMES[1:]] == [1, 2]
    assert board.averaged == board.ranked == 2


def test_boards_between_recall_and_rebuilding_are_those_that_are_then_built(
    suite: Suite, models: list[Variant]
) -> None:
    make.publish(suite)
    recall_first(models)
    between = {style: published.newest(suite, style) for style in published.styles_of(suite)}
    make.publish(suite)
    for style, early in between.items():
        late = published.newest(suite, style)
        assert early is not None
        assert late is not None
        assert early.models.values("repo_id") == late.models.values("repo_id")
        for one, other in zip(
            (*early.scores.sides, *early.average.sides, early.standing, early.ranks.rank),
            (*late.scores.sides, *late.average.sides, late.standing, late.ranks.rank),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)
        assert dict(early.why) == dict(late.why)
        for one, other in zip((*early.gaps, *early.best), (*late.gaps, *late.best), strict=True):
            ours, theirs = (getattr(x, "difference", None) or x.score for x in (one, other))
            np.testing.assert_array_equal(ours.value, theirs.value)


def test_a_board_of_a_past_day_does_not_show_it_either(
    client: Client, suite: Suite, models: list[Variant]
) -> None:
    make.publish(suite)
    then = timezone.now() - timedelta(days=3)
    BoardSnapshot.objects.update(built=then)
    made, run = recall_first(models)
    make.publish(suite)
    Recall.objects.update(settled=timezone.now())
    value = f"{100 * run.results.get(subset='', metric='acc').value:.1f}"
    day = then.date().isoformat()
    page = client.get("/", {"at": day}).text
    assert "recalled" in page
    assert "is left out" in page
    past = published.at(suite, OWN, timezone.now() - timedelta(days=2))
    assert past is not None
    assert standing_of(past, NAMES[0])[0] == 0
    rows = csv.DictReader(io.StringIO(text_of(client, f"/board.csv?at={day}")))
    heron = next(row for row in rows if row["model"] == NAMES[0])
    assert (heron["facts.cloze"], heron["facts.cloze.standing"]) == ("", "recalled")
    assert value  # what is not to be found
    recalls.undo(made, reason="it had lost none", by="ada")
    past = published.at(suite, OWN, timezone.now() - timedelta(days=2))
    assert past is not None
    assert standing_of(past, NAMES[0])[0] == 1


def text_of(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200, url
    return b"".join(response).decode()


@pytest.mark.parametrize("rebuilt", [False, True])
@pytest.mark.parametrize("page", ["board", "styles", "compare", "charts-by-size"])
def test_no_form_of_a_download_has_the_number(
    client: Client, suite: Suite, models: list[Variant], page: str, rebuilt: bool
) -> None:
    make.publish(suite)
    _, run = recall_first(models)
    if rebuilt:
        make.publish(suite)
    value = run.results.get(subset="", metric="acc").value
    query = f"?m={models[0].pk},{models[1].pk}" if page == "compare" else ""
    in_csv, in_json = (text_of(client, f"/{page}.{form}{query}") for form in ("csv", "json"))
    parquet = b"".join(client.get(f"/{page}.parquet{query}"))
    table = pq.read_table(io.BytesIO(parquet)).to_pylist()
    rows = [row for row in table if NAMES[0] in map(str, row.values())]
    # Of the same model alone, and where no other number of it is equal.
    assert not models[0].runs.filter(results__value=value).exclude(pk=run.pk).exists()
    own = [line for line in in_csv.splitlines() if NAMES[0] in line]
    assert not any(str(value) in line for line in own)
    others = [
        row for rows in json.loads(in_json).values() if isinstance(rows, list) for row in rows
    ]
    for row in (*rows, *(row for row in others if NAMES[0] in map(str, row.values()))):
        assert value not in _numbers(row)
    if page == "board":
        assert "recalled" in in_csv
        assert "recalled" in in_json
        assert rows[0]["rank"] is None
        assert rows[0]["average"] is None


def _numbers(found: object) -> set[float]:
    if isinstance(found, dict):
        return {n for value in found.values() for n in _numbers(value)}
    if isinstance(found, list):
        return {n for value in found for n in _numbers(value)}
    return {found} if isinstance(found, float) else set()


def test_pages_say_recalled_in_the_place_of_the_number(
    client: Client, suite: Suite, models: list[Variant]
) -> None:
    make.publish(suite)
    made, run = recall_first(models)
    board = client.get("/").text
    assert "1 result was recalled and counts nowhere" in board
    assert REASON in board
    model = client.get(f"/models/{NAMES[0]}").text
    assert "recalled" in model
    compared = client.get("/compare", {"m": f"{models[0].pk},{models[1].pk}"}).text
    assert "recalled" in compared
    by_run = client.get("/compare", {"run": f"{run.pk},{models[1].runs.get(task=run.task).pk}"})
    assert f"was recalled: {REASON}" in by_run.text
    page = client.get(f"/runs/{run.pk}").text
    assert f"Recalled: {REASON}" in page
    assert f"/recalls/{made.pk}" in page
    counted = client.get(f"/runs/{run.pk}/recount").text
    assert f"Recalled: {REASON}" in counted
    submission = client.get(models[0].submissions.get().get_absolute_url()).text
    assert "1 result of this model" in submission
    assert "was recalled" in submission
    task = client.get(run.task.get_absolute_url())
    assert task.status_code == 200


def test_files_of_a_recalled_run_bear_the_mark_and_are_asked_for_anew(
    client: Client, tmp_path: Path
) -> None:
    (run,) = engine_runs.finished(tmp_path, ["toy_choice"]).values()
    files = ("record.json", "samples.parquet", "results.json", "samples.jsonl")
    files += ("every_eval_ever.json", "every_eval_ever_samples.jsonl")
    before = {file: client.get(f"/runs/{run.pk}/{file}") for file in files}
    made, _ = recalls.recall("runs", [str(run.pk)], reason=REASON, by="ada")
    told = f"recall {made.pk}: {REASON}"
    for file in files:
        assert "X-Plumbline-Recalled" not in before[file]
        etag = before[file]["ETag"]
        response = client.get(f"/runs/{run.pk}/{file}", headers={"if-none-match": etag})
        assert response.status_code == 200, "a copy without the mark is not confirmed"
        assert response["X-Plumbline-Recalled"] == told
        assert 'filename="RECALLED_' in response["Content-Disposition"]
        if file not in ("record.json", "samples.parquet"):
            assert told in b"".join(response).decode()


def test_the_picture_of_a_board_is_without_it(
    client: Client, suite: Suite, models: list[Variant]
) -> None:
    make.publish(suite)
    before = client.get("/og/workshop.png").content
    recall_first(models)
    early = client.get("/og/workshop.png").content
    assert early != before


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.data())
def test_the_others_keep_what_was_shown_of_them(seed: int, data: st.DataObject) -> None:
    board = synthetic_board(30, 3, seed)
    cells = [
        (row, column)
        for row in range(len(board.models))
        for column in range(len(board.columns))
        if board.score(row, column) is not None
    ]
    gone = data.draw(st.sets(st.sampled_from(cells), min_size=1, max_size=40))
    reasons = {bytes(board.run[cell]): "wrong" for cell in gone if any(bytes(board.run[cell]))}
    left = without(board, reasons)
    rows = {row for row, column in cells if bytes(board.run[row, column]) in reasons}
    assert sorted(left.models.values("variant")) == sorted(board.models.values("variant"))
    averages = left.average.value[: left.averaged]
    assert (np.diff(averages) <= 0).all()
    assert np.isnan(left.average.value[left.averaged :]).all()
    ranked = left.ranks.rank[left.ranks.rank > 0]
    assert (np.diff(ranked) >= 0).all()
    assert not len(ranked) or ranked[0] == 1
    for variant, new in left.row_of.items():
        old = board.row_of[variant]
        if old in rows:
            assert left.ranks.rank[new] == 0
            assert left.average_of(new) is None
        else:
            assert left.average_of(new) == board.average_of(old)
            assert (left.ranks.rank[new] > 0) == (board.ranks.rank[old] > 0)
        for column in range(len(board.columns)):
            score = left.score(new, column)
            assert score is None or score == board.score(old, column)
            if bytes(board.run[old, column]) in reasons:
                assert score is None


def by_hand(better: np.ndarray, left: list[int]) -> np.ndarray:
    """Every claim between two that are left, by pair of models."""
    n, reach = better.shape
    claims = np.zeros((n, n), np.bool_)
    for j in range(n):
        for d in range(min(reach, n - 1 - j)):
            claims[j, j + 1 + d] = better[j, d]
    return claims[np.ix_(left, left)]


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(1, 60), st.integers(0, 999), st.data())
def test_claims_between_those_that_are_left_are_the_same(
    n: int, reach: int, seed: int, data: st.DataObject
) -> None:
    reach = min(reach, n - 1)
    draw = np.random.default_rng(seed)
    better = draw.random((n, reach)) < 0.4
    left = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=2)))
    found = among(better, np.array(left))
    claims = by_hand(better, left)
    for j in range(len(left)):
        for d in range(found.reach):
            if j + 1 + d < len(left):
                assert found.better[j, d] == claims[j, j + 1 + d]
    if reach == n - 1:
        assert found.reach == len(left) - 1
        np.testing.assert_array_equal(found.ranges[:, 0], 1 + claims.sum(axis=0))
        np.testing.assert_array_equal(found.ranges[:, 1], len(left) - claims.sum(axis=1))
