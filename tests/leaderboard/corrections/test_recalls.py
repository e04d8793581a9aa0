"""To recall, to measure again, to undo: what becomes of runs, and of the numbers on every page."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.engine import VERSION
from leaderboard.corrections import recalls
from leaderboard.corrections.reports import Refused
from leaderboard.models import (
    BoardSnapshot,
    ItemAnalysis,
    Recall,
    Run,
    ScoreVector,
    Suite,
    User,
    Variant,
)
from leaderboard.queue import claims, recalling, reruns
from leaderboard.samples import vectors
from leaderboard.snapshot import OWN, Board, Standing, published
from leaderboard.snapshot.recalled import without
from leaderboard.stats import among
from tests.leaderboard import engine_runs
from tests.leaderboard import factories as make
from tests.leaderboard.boards import synthetic_board
from tests.leaderboard.pages import csv_rows, download
from tests.leaderboard.rows import once_per_module

pytestmark = pytest.mark.django_db

REASON = "the tokenizer lost every full stop"


NAMES = ("workshop/heron", "workshop/crane", "workshop/stork")


@pytest.fixture(autouse=True)
def _shown(models: list[Variant], settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "workshop"


@once_per_module
def models() -> list[Variant]:
    """Three models, the best first, on boards that are published."""
    suite = make.make_suite("workshop", benchmarks=("facts", "sums"), styles=("cloze", "mmlu"))
    made = [
        make.evaluated(name, suite, {"cloze": skill, "mmlu": skill - 0.25}, n=60)
        for name, skill in zip(NAMES, (0.9, 0.7, 0.4), strict=True)
    ]
    make.publish(suite)
    return made


@pytest.fixture
def heron(models: list[Variant]) -> Variant:
    return models[0]


@pytest.fixture
def suite(models: list[Variant]) -> Suite:
    return Suite.objects.get(name="workshop")


def run_of(variant: Variant, task: str = "facts", **fields: object) -> Run:
    return variant.runs.get(task__name=task, **fields)


def numbers_on(suite: Suite) -> int:
    make.publish(suite)
    board = make.board(suite)
    return sum(
        board.score(row, column) is not None
        for row in range(len(board.models))
        for column in range(len(board.columns))
    )


@pytest.mark.parametrize("first", [True, False], ids=["the first", "the last"])
def test_a_result_on_other_questions_keeps_no_board_from_being_built(
    suite: Suite, models: list[Variant], client: Client, caplog: Any, first: bool
) -> None:
    """As one that was stored before all files were checked."""
    bad = run_of(models[0 if first else -1])
    vector = ScoreVector.objects.filter(result__run=bad, result__metric="acc").get()
    honest = vectors.unpack_layout(bytes(vector.questions.layout), vector.questions.docs_digest)
    vector.questions = vectors.questions_row(replace(honest, docs_digest="d" * 64))
    vector.save()
    make.evaluated("workshop/newcomer", suite, {"cloze": 0.8, "mmlu": 0.5}, n=60)
    BoardSnapshot.objects.update(built=timezone.now() - timedelta(hours=1))
    published.forget()

    recalls.build_boards()

    bad.refresh_from_db()
    assert (bad.state, bad.recall.by) == ("recalled", Recall.SITE)
    assert not bad.replacements.exists(), "nobody has said that it is to be measured again"
    assert "workshop/newcomer" in [model.repo_id for model in make.board(suite).models]
    assert make.board(suite).ranked == len(models)
    assert str(bad.pk) in caplog.text
    assert client.get("/readyz").json()["recalled_by_the_site"] == [str(bad.pk)]
    assert "has other questions" in client.get("/corrections").content.decode()


@pytest.mark.parametrize("place", range(3))
def test_a_result_whose_questions_are_all_one_cluster_stops_no_board(
    suite: Suite, models: list[Variant], place: int
) -> None:
    vector = ScoreVector.objects.get(result__run=run_of(models[place]), result__metric="acc")
    honest = vectors.unpack_layout(bytes(vector.questions.layout), vector.questions.docs_digest)
    one = np.zeros(honest.n, np.int32)
    vector.questions = vectors.questions_row(replace(honest, cluster=one))
    vector.save()
    BoardSnapshot.objects.all().delete()
    published.forget()
    assert recalls.build_boards()
    assert make.board(suite).ranked == len(models)


@pytest.mark.parametrize("by", ["run", "record", "task"])
def test_what_is_named_is_recalled_and_nothing_else(heron: Variant, by: str) -> None:
    run = run_of(heron)
    ItemAnalysis.objects.create(
        comparability_key=run.results.get(subset="", metric="acc").comparability_key,
        docs_digest="d" * 64, models_n=10, detectable=None, built=timezone.now(),
        data_version="10 10", sha256="e" * 64,
    )  # fmt: skip
    kind, name = {
        "run": ("runs", str(run.pk)),
        "record": ("runs", run.artifacts.get(kind="record").sha256),
        "task": ("task", "facts@1.0"),
    }[by]
    made, taken = recalls.recall(kind, [name], reason=REASON, by="ada")
    run.refresh_from_db()
    results = len(NAMES) if by == "task" else 1
    assert (run.state, run.recall) == ("recalled", made)
    assert made.results == taken.stand == results
    assert run_of(heron, "sums").state == "done"
    assert not ItemAnalysis.objects.exists(), "what was found of its column's questions goes too"
    assert run.events.last().why == REASON


def test_it_is_measured_again_and_the_new_number_stands(suite: Suite, heron: Variant) -> None:
    old = run_of(heron)
    made, taken = recalls.recall("runs", [str(old.pk)], reason=REASON, by="ada")
    assert taken.queued == 0, "its own result was at fault: somebody is to say so first"
    assert recalls.again(made, by="ada") == 1
    assert numbers_on(suite) == 5
    new = run_of(heron, state="queued")
    assert new.replaces == old
    make.fail(new, "ModelError", "no tokenizer any more")
    assert numbers_on(suite) == 5
    assert claims.retry(new, by="ada")
    make.finish(new, skill=0.9, n=60, seed=4)
    assert numbers_on(suite) == 6
    old.refresh_from_db()
    assert (old.state, old.superseded_by, old.recall is None) == ("superseded", new, False)
    (submission,) = heron.submissions.all()
    assert set(submission.runs.values_list("state", flat=True)) == {"done"}


def test_what_an_old_worker_measures_with_a_recalled_version_is_recalled_at_once(
    suite: Suite, heron: Variant
) -> None:
    made, _ = recalls.recall("engine", [VERSION], reason=REASON, by="ada")
    new = run_of(heron, state="queued")
    make.finish(new, skill=0.9, n=60)  # records of these tests are by VERSION
    new.refresh_from_db()
    assert (new.state, new.recall) == ("recalled", made)
    assert numbers_on(suite) == 0
    assert recalls.again(made, by="ada") == 1, "and is queued again when the operator says so"


def test_a_task_without_a_newer_version_is_not_measured_again_by_the_wrong_one(
    heron: Variant,
) -> None:
    made, taken = recalls.recall("task", ["facts@1.0"], reason=REASON, by="ada")
    assert taken.queued == 0
    assert recalls.again(made, by="ada") == 0
    assert not heron.runs.filter(state="queued").exists()


def test_undoing_lets_all_stand_as_before_and_cancels_the_reruns(
    suite: Suite, heron: Variant
) -> None:
    before = numbers_on(suite)
    made, _ = recalls.recall("engine", [VERSION], reason=REASON, by="ada")
    assert numbers_on(suite) == 0
    assert recalls.undo(made, reason="the key was right after all", by="bo") == 12
    assert numbers_on(suite) == before
    assert not heron.runs.filter(recall__isnull=False).exists()
    assert set(heron.runs.exclude(state="done").values_list("state", flat=True)) == {"cancelled"}
    assert (made.undone_by, made.results, made.stands) == ("bo", 12, False)
    with pytest.raises(Refused, match="was undone before"):
        recalls.undo(made, reason="once more", by="bo")


def test_what_two_recalls_name_stays_recalled_when_one_is_undone(
    suite: Suite, heron: Variant
) -> None:
    run = run_of(heron)
    first, _ = recalls.recall("runs", [str(run.pk)], reason=REASON, by="ada")
    second, taken = recalls.recall("engine", [VERSION], reason="all of it was wrong", by="ada")
    assert taken.stand == 11
    make.publish(suite)
    known = timezone.now()
    Recall.objects.update(settled=known)
    assert recalls.undo(first, reason="a mistake", by="ada") == 0
    run.refresh_from_db()
    assert (run.state, run.recall) == ("recalled", second)
    assert numbers_on(suite) == 0
    second.refresh_from_db()
    assert second.settled > known, "boards that knew of it did not know of this run"


def test_a_replaced_result_is_marked_and_its_successor_stands(suite: Suite, heron: Variant) -> None:
    old = run_of(heron)
    (new,) = reruns.rerun([old], by="ada", reason="to see").queued
    make.finish(new, skill=0.9, n=60)
    made, taken = recalls.recall("runs", [str(old.pk)], reason=REASON, by="ada")
    assert (taken.stand, taken.past, made.results) == (0, 1, 1)
    old.refresh_from_db()
    assert (old.state, old.recall) == ("superseded", made)
    assert numbers_on(suite) == 6


def test_what_cannot_be_recalled_is_named_with_its_remedy(heron: Variant) -> None:
    entry = Suite.objects.get().entries.all()[0]
    waits = make.queued_run(make.make_variant(), entry)
    for kind, named, reason, said in (
        ("runs", [str(waits.pk)], REASON, "is queued: it has no numbers"),
        ("engine", ["9.9"], REASON, f"engine: no result is by version '9.9', only {VERSION}"),
        ("task", ["facts"], REASON, "write NAME@VERSION"),
        ("task", ["facts@7"], REASON, "facts has no version '7', only 1.0"),
        ("task", ["nothing@1"], REASON, "nothing has no version '1', nor has it any other"),
        ("runs", ["abc"], REASON, "runs: 'abc' is neither the ID of a run nor the SHA-256"),
        ("runs", ["f" * 64], REASON, "there is no file with the digest"),
        ("runs", [], REASON, "runs: name at least one"),
        ("engine", [VERSION], " ", "reason: say in one sentence what is wrong"),
        ("engine", [VERSION], "x" * 300, "reason: 300 characters"),
    ):
        with pytest.raises(Refused, match=said):
            recalls.recall(kind, named, reason=reason, by="ada")
    assert not Recall.objects.exists()
    recalls.recall("engine", [VERSION], reason=REASON, by="ada")
    with pytest.raises(Refused, match="recalled already"):
        recalls.recall("runs", [str(run_of(heron, state="recalled").pk)], reason=REASON, by="bo")
    assert Recall.objects.count() == 1


def test_a_recall_of_many_runs_goes_in_batches_and_goes_on_where_it_stopped(
    suite: Suite, models: list[Variant], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalling, "BATCH_SIZE", 5)
    told: list[tuple[str, int, int]] = []

    def interrupted(*batch: Any) -> None:
        told.append(batch)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recalls.recall("engine", [VERSION], reason=REASON, by="ada", progress=interrupted)
    made = Recall.objects.get()
    assert (made.results, Run.objects.filter(state="done").count()) == (5, 7)
    assert numbers_on(suite) == 0, "no board shows what it names, a board built now neither"
    page = client.get(f"/corrections/recalls/{made.pk}").text
    assert "5 of 12 runs are marked so far" in page
    assert f"manage.py recall --again {made.pk}" in page
    make.finish(newcomer(suite), n=60)
    queued = recalls.again(made, by="ada", progress=lambda *batch: told.append(batch))
    assert [n for what, n, _ in told if what == "recalled"] == [5, 5, 7]
    assert [n for what, n, _ in told if what != "recalled"] == [4, 8, 13], "whole models"
    assert queued == 13
    assert not Run.objects.filter(state="done").exists(), "nor what ended meanwhile"
    made.refresh_from_db()
    assert made.results == 12
    assert "marked so far" not in client.get(f"/corrections/recalls/{made.pk}").text


def newcomer(suite: Suite) -> Run:
    return make.queued_run(make.make_variant("workshop/ibis"), suite.entries.all()[0])


def test_the_command_says_how_far_a_recall_of_many_runs_is(
    models: list[Variant], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalling, "BATCH_SIZE", 8)
    told = said_by("--engine", VERSION, "--reason", REASON).splitlines()
    assert told[:2] == ["8 of 12 runs recalled", "12 of 12 runs recalled"]
    assert told[-1] == "12 runs are queued to measure again"


def said_by(*args: str) -> str:
    out = StringIO()
    call_command("recall", *args, stdout=out)
    return out.getvalue()


def test_the_command_lists_recalls_and_undoes(heron: Variant) -> None:
    told = said_by("--engine", VERSION, "--dry-run")
    assert str(run_of(heron).pk) in told
    assert "12 results of 3 models that stand" in told
    assert "nothing was changed" in told
    assert not Recall.objects.exists()
    assert set(heron.runs.values_list("state", flat=True)) == {"done"}
    assert "12 results of 3 models" in said_by("--engine", VERSION, "--reason", REASON)
    number = str(Recall.objects.get().pk)
    assert "holds 12 results" in said_by("--undo", number, "--dry-run")
    assert "stand again: 12" in said_by("--undo", number, "--reason", "a mistake")
    for args, message in (
        (("--undo", "99"), "there is no recall 99"),
        (("--engine", VERSION), "--reason: say in one sentence"),
        (("--again", number), "was undone; there is nothing"),
    ):
        with pytest.raises(CommandError, match=message):
            said_by(*args)


def test_the_log_says_what_why_and_how_far(client: Client) -> None:
    assert "There is nothing of this kind" in client.get("/corrections?kind=recall").text
    made, _ = recalls.recall("engine", [VERSION], reason=REASON, by="ada")
    page = client.get("/corrections?kind=recall").text
    assert REASON in page
    assert "12 in the queue" in page
    assert f"Version of the engine: {VERSION}" in page
    own = client.get(f"/corrections/recalls/{made.pk}").text
    assert own.count("in the queue") == 13
    assert "workshop/" in own
    recalls.undo(made, reason="a mistake", by="ada")
    assert "a mistake" in client.get("/corrections?kind=recall").text
    assert "its results stand again" in client.get(f"/corrections/recalls/{made.pk}").text
    assert client.get("/corrections/recalls/99").status_code == 404


def test_an_operator_looks_first_and_then_recalls_in_the_administration(client: Client) -> None:
    operator = User.objects.create_superuser("op")
    client.force_login(operator)
    form = {"kind": "engine", "names": f"{VERSION}\n", "reason": REASON}
    seen = client.post("/admin/leaderboard/recall/add/", {**form, "only_look": "on"})
    assert "Concerned: 12 results of 3 models that stand" in seen.text
    assert not Recall.objects.exists()
    assert client.post("/admin/leaderboard/recall/add/", form).status_code == 302
    made = Recall.objects.get()
    assert (made.by, made.results) == ("op", 12)
    action = {"action": "undo", "_selected_action": [made.pk], "reason": "a mistake"}
    client.post("/admin/leaderboard/recall/", action)
    made.refresh_from_db()
    assert made.undone_why == "a mistake"
    wrong = client.post("/admin/leaderboard/recall/add/", {**form, "names": "7"})
    assert "no result is by version" in wrong.text


# A recalled number is ranked, averaged, shown and downloaded nowhere without its mark


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


def test_a_recalled_number_is_neither_ranked_nor_averaged(
    suite: Suite, models: list[Variant]
) -> None:
    """Before the next board; this is then as the one that is built, as the next test shows."""
    assert standing_of(make.board(suite), NAMES[0])[0] == 1
    recall_first(models)
    board = make.board(suite)
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
    recall_first(models)
    between = {style: make.board(suite, style) for style in published.styles_of(suite)}
    make.publish(suite)
    for style, early in between.items():
        late = make.board(suite, style)
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
    then = timezone.now() - timedelta(days=3)
    BoardSnapshot.objects.update(built=then)
    made, _ = recall_first(models)
    make.publish(suite)
    Recall.objects.update(settled=timezone.now())
    day = then.date().isoformat()
    page = client.get("/", {"at": day}).text
    assert "recalled" in page
    assert "is left out" in page
    past = published.at(suite, OWN, timezone.now() - timedelta(days=2))
    assert standing_of(past, NAMES[0])[0] == 0
    rows = csv_rows(client, f"/board.csv?at={day}")
    heron = next(row for row in rows if row["model"] == NAMES[0])
    assert (heron["facts.cloze"], heron["facts.cloze.standing"]) == ("", "recalled")
    recalls.undo(made, reason="it had lost none", by="ada")
    past = published.at(suite, OWN, timezone.now() - timedelta(days=2))
    assert standing_of(past, NAMES[0])[0] == 1


def test_no_form_of_a_download_has_the_number(client: Client, models: list[Variant]) -> None:
    _, run = recall_first(models)
    value = run.results.get(subset="", metric="acc").value
    # Of the same model alone, and where no other number of it is equal.
    assert not models[0].runs.filter(results__value=value).exclude(pk=run.pk).exists()
    for page in ("board", "styles", "compare", "charts-by-size"):
        query = f"?m={models[0].pk},{models[1].pk}" if page == "compare" else ""
        in_csv, in_json, parquet = (
            download(client, f"/{page}.{form}{query}") for form in ("csv", "json", "parquet")
        )
        table = pq.read_table(io.BytesIO(parquet)).to_pylist()
        rows = [row for row in table if NAMES[0] in map(str, row.values())]
        own = [line for line in in_csv.decode().splitlines() if NAMES[0] in line]
        assert not any(str(value) in line for line in own), page
        others = [
            row for rows in json.loads(in_json).values() if isinstance(rows, list) for row in rows
        ]
        for row in (*rows, *(row for row in others if NAMES[0] in map(str, row.values()))):
            assert value not in _numbers(row), page
        if page == "board":
            assert b"recalled" in in_csv
            assert b"recalled" in in_json
            assert rows[0]["rank"] is None
            assert rows[0]["average"] is None


def _numbers(found: object) -> set[float]:
    if isinstance(found, dict):
        return {n for value in found.values() for n in _numbers(value)}
    if isinstance(found, list):
        return {n for value in found for n in _numbers(value)}
    return {found} if isinstance(found, float) else set()


def test_pages_say_recalled_in_the_place_of_the_number(
    client: Client, models: list[Variant]
) -> None:
    picture = client.get("/og/workshop.png").content
    made, run = recall_first(models)
    assert client.get("/og/workshop.png").content != picture
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
    assert f"/corrections/recalls/{made.pk}" in page
    counted = client.get(f"/runs/{run.pk}/recount").text
    assert f"Recalled: {REASON}" in counted
    submission = client.get(models[0].submissions.get().get_absolute_url()).text
    assert "1 result of this model" in submission
    assert "was recalled" in submission


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
    claims = np.zeros((n, n), np.bool_)  # by hand, by pair of models
    for j in range(n):
        for d in range(min(reach, n - 1 - j)):
            claims[j, j + 1 + d] = better[j, d]
    claims = claims[np.ix_(left, left)]
    for j in range(len(left)):
        for d in range(found.reach):
            if j + 1 + d < len(left):
                assert found.better[j, d] == claims[j, j + 1 + d]
    if reach == n - 1:
        assert found.reach == len(left) - 1
        np.testing.assert_array_equal(found.ranges[:, 0], 1 + claims.sum(axis=0))
        np.testing.assert_array_equal(found.ranges[:, 1], len(left) - claims.sum(axis=1))
