"""To recall, to measure again, and to undo: what becomes of the runs, and what is refused."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from evalcore.engine import VERSION
from leaderboard import recalls
from leaderboard.models import ItemAnalysis, Recall, Run, Suite, TaskVersion, User, Variant
from leaderboard.queue import claims
from leaderboard.snapshot import OWN, published
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db

REASON = "question 7 had the wrong key"


@pytest.fixture
def suite() -> Suite:
    return make.make_suite("workshop", benchmarks=("facts", "sums"), styles=("cloze",))


@pytest.fixture
def heron(suite: Suite) -> Variant:
    return make.evaluated("workshop/heron", suite, {"cloze": 0.6}, n=20)


def run_of(variant: Variant, task: str = "facts", **fields: object) -> Run:
    return variant.runs.get(task__name=task, **fields)


def numbers_on(suite: Suite) -> int:
    make.publish(suite)
    board = published.newest(suite, OWN)
    assert board is not None
    return sum(
        board.score(row, column) is not None
        for row in range(len(board.models))
        for column in range(len(board.columns))
    )


def test_a_look_changes_nothing_and_says_what_would_be_taken(heron: Variant) -> None:
    found = recalls.look("engine", [VERSION])
    assert [run.pk for run in found.stand] == [run_of(heron).pk, run_of(heron, "sums").pk]
    assert found.words == "2 results of 1 model that stand"
    assert Recall.objects.count() == 0
    assert set(heron.runs.values_list("state", flat=True)) == {"done"}


@pytest.mark.parametrize("by", ["run", "record", "task"])
def test_what_is_named_is_recalled_and_nothing_else(heron: Variant, by: str) -> None:
    run = run_of(heron)
    kind, name = {
        "run": ("runs", str(run.pk)),
        "record": ("runs", run.artifacts.get(kind="record").sha256),
        "task": ("task", "facts@1.0"),
    }[by]
    made, taken = recalls.recall(kind, [name], reason=REASON, by="ada")
    run.refresh_from_db()
    assert (run.state, run.recall, made.results, len(taken.stand)) == ("recalled", made, 1, 1)
    assert run_of(heron, "sums").state == "done"
    assert run.events.last().why == REASON


def test_it_is_measured_again_and_the_new_number_stands(suite: Suite, heron: Variant) -> None:
    old = run_of(heron)
    _, taken = recalls.recall("runs", [str(old.pk)], reason=REASON, by="ada")
    assert taken.queued == 1
    assert numbers_on(suite) == 1
    new = run_of(heron, state="queued")
    assert new.replaces == old
    make.finish(new, skill=0.9, n=20, seed=4)
    assert numbers_on(suite) == 2
    old.refresh_from_db()
    assert (old.state, old.superseded_by, old.recall is None) == ("superseded", new, False)
    (submission,) = heron.submissions.all()
    assert set(submission.runs.values_list("state", flat=True)) == {"done"}


def test_a_rerun_that_fails_leaves_the_cell_recalled_and_can_be_tried_again(
    suite: Suite, heron: Variant
) -> None:
    old = run_of(heron)
    recalls.recall("runs", [str(old.pk)], reason=REASON, by="ada")
    new = run_of(heron, state="queued")
    make.fail(new, "ModelError", "no tokenizer any more")
    assert numbers_on(suite) == 1
    assert claims.retry(new, by="ada")


def test_what_an_old_worker_measures_with_a_recalled_version_is_recalled_at_once(
    suite: Suite, heron: Variant
) -> None:
    made, _ = recalls.recall("engine", [VERSION], reason=REASON, by="ada")
    new = run_of(heron, state="queued")
    make.finish(new, skill=0.9, n=20)  # records of these tests are by VERSION
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
    assert recalls.undo(made, reason="the key was right after all", by="bo") == 2
    assert numbers_on(suite) == before
    assert not heron.runs.filter(recall__isnull=False).exists()
    assert set(heron.runs.exclude(state="done").values_list("state", flat=True)) == {"cancelled"}
    assert (made.undone_by, made.results, made.stands) == ("bo", 2, False)
    with pytest.raises(recalls.Refused, match="was undone before"):
        recalls.undo(made, reason="once more", by="bo")


def test_what_two_recalls_name_stays_recalled_when_one_is_undone(
    suite: Suite, heron: Variant
) -> None:
    run = run_of(heron)
    first, _ = recalls.recall("runs", [str(run.pk)], reason=REASON, by="ada")
    second, taken = recalls.recall("engine", [VERSION], reason="all of it was wrong", by="ada")
    assert len(taken.stand) == 1
    make.publish(suite)
    Recall.objects.update(settled=timezone.now())
    assert recalls.undo(first, reason="a mistake", by="ada") == 0
    run.refresh_from_db()
    assert (run.state, run.recall) == ("recalled", second)
    assert numbers_on(suite) == 0
    second.refresh_from_db()
    assert second.settled is None, "boards that knew of it did not know of this run"


def test_a_replaced_result_is_marked_and_its_successor_stands(suite: Suite, heron: Variant) -> None:
    from leaderboard.queue import reruns

    old = run_of(heron)
    (new,) = reruns.rerun([old], by="ada", reason="to see").queued
    make.finish(new, skill=0.9, n=20)
    made, taken = recalls.recall("runs", [str(old.pk)], reason=REASON, by="ada")
    assert (len(taken.stand), taken.past, made.results) == (0, 1, 1)
    old.refresh_from_db()
    assert (old.state, old.recall) == ("superseded", made)
    assert numbers_on(suite) == 2


def test_the_analysis_of_a_columns_questions_goes_with_its_numbers(heron: Variant) -> None:
    key = run_of(heron).results.get(subset="", metric="acc").comparability_key
    ItemAnalysis.objects.create(
        comparability_key=key, docs_digest="d" * 64, models_n=10, detectable=None,
        built=timezone.now(), data_version="10 10", sha256="e" * 64,
    )  # fmt: skip
    recalls.recall("runs", [str(run_of(heron).pk)], reason=REASON, by="ada")
    assert not ItemAnalysis.objects.exists()


def test_the_database_refuses_a_result_that_stands_and_is_recalled(heron: Variant) -> None:
    made, _ = recalls.recall("runs", [str(run_of(heron).pk)], reason=REASON, by="ada")
    for change in ({"state": "done"}, {"recall": None}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Run.objects.filter(recall=made).update(**change)


@pytest.mark.parametrize(
    ("kind", "named", "reason", "said"),
    [
        ("engine", ["9.9"], REASON, f"engine: no result is by version '9.9', only {VERSION}"),
        ("task", ["facts"], REASON, "write NAME@VERSION"),
        ("task", ["facts@7"], REASON, "facts has no version '7', only 1.0"),
        ("task", ["nothing@1"], REASON, "nothing has no version '1', nor has it any other"),
        ("runs", ["abc"], REASON, "runs: 'abc' is neither the ID of a run nor the SHA-256"),
        ("runs", ["f" * 64], REASON, "there is no file with the digest"),
        ("runs", [], REASON, "runs: name at least one"),
        ("engine", [VERSION], " ", "reason: say in one sentence what is wrong"),
        ("engine", [VERSION], "x" * 300, "reason: 300 characters"),
    ],
)
def test_what_cannot_be_recalled_is_named_with_its_remedy(
    heron: Variant, kind: str, named: list[str], reason: str, said: str
) -> None:
    assert heron
    with pytest.raises(recalls.Refused, match=said.replace("(", r"\(")):
        recalls.recall(kind, named, reason=reason, by="ada")
    assert not Recall.objects.exists()


def test_a_run_without_numbers_cannot_be_recalled(suite: Suite) -> None:
    waits = make.queued_run(make.make_variant(), suite.entries.first())
    with pytest.raises(recalls.Refused, match="is queued: it has no numbers"):
        recalls.recall("runs", [str(waits.pk)], reason=REASON, by="ada")


def test_all_that_is_recalled_already_is_refused_and_leaves_no_trace(heron: Variant) -> None:
    recalls.recall("engine", [VERSION], reason=REASON, by="ada")
    with pytest.raises(recalls.Refused, match="recalled already"):
        recalls.recall("runs", [str(run_of(heron, state="recalled").pk)], reason=REASON, by="bo")
    assert Recall.objects.count() == 1


def said_by(*args: str) -> str:
    out = StringIO()
    call_command("recall", *args, stdout=out)
    return out.getvalue()


def test_the_command_lists_recalls_and_undoes(heron: Variant) -> None:
    told = said_by("--engine", VERSION, "--dry-run")
    assert str(run_of(heron).pk) in told
    assert "nothing was changed" in told
    assert "2 results of 1 model" in said_by("--engine", VERSION, "--reason", REASON)
    number = str(Recall.objects.get().pk)
    assert "holds 2 results" in said_by("--undo", number, "--dry-run")
    assert "stand again: 2" in said_by("--undo", number, "--reason", "a mistake")
    for args, message in (
        (("--undo", "99"), "there is no recall 99"),
        (("--engine", VERSION), "--reason: say in one sentence"),
        (("--again", number), "was undone; there is nothing"),
    ):
        with pytest.raises(CommandError, match=message):
            said_by(*args)


def test_the_log_says_what_why_and_how_far(client: Client, heron: Variant) -> None:
    assert "Nothing was recalled yet" in client.get("/recalls").text
    made, _ = recalls.recall("engine", [VERSION], reason=REASON, by="ada")
    page = client.get("/recalls").text
    assert REASON in page
    assert "2 in the queue" in page
    assert f"<code>{VERSION}</code>" in page
    own = client.get(f"/recalls/{made.pk}").text
    assert own.count("in the queue") == 3
    assert "workshop/" in own
    recalls.undo(made, reason="a mistake", by="ada")
    assert "a mistake" in client.get("/recalls").text
    assert "its results stand again" in client.get(f"/recalls/{made.pk}").text
    assert client.get("/recalls/99").status_code == 404


def test_an_operator_looks_first_and_then_recalls_in_the_administration(
    client: Client, heron: Variant
) -> None:
    operator = User.objects.create_superuser("op")
    client.force_login(operator)
    form = {"kind": "engine", "names": f"{VERSION}\n", "reason": REASON}
    seen = client.post("/admin/leaderboard/recall/add/", {**form, "only_look": "on"})
    assert "Concerned: 2 results of 1 model that stand" in seen.text
    assert not Recall.objects.exists()
    assert client.post("/admin/leaderboard/recall/add/", form).status_code == 302
    made = Recall.objects.get()
    assert (made.by, made.results) == ("op", 2)
    action = {"action": "undo", "_selected_action": [made.pk], "reason": "a mistake"}
    client.post("/admin/leaderboard/recall/", action)
    made.refresh_from_db()
    assert made.undone_why == "a mistake"
    wrong = client.post("/admin/leaderboard/recall/add/", {**form, "names": "7"})
    assert "no result is by version" in wrong.text
    assert run_of(heron, state="done")
    assert TaskVersion.objects.exists()
