"""Reports on keys: two people who are against one dispute it, all of it in public.

Then every score has a second figure, without the disputed questions, computed as the first.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from hypothesis import given
from hypothesis import strategies as some

from evalcore.score.numbers import uncertainty
from leaderboard.corrections import questions, reports, rulings, second_figures
from leaderboard.corrections.questions import TaskQuestions, questions_of_task
from leaderboard.corrections.reports import Refused
from leaderboard.corrections.second_figures import Counts
from leaderboard.models import (
    DisputedSet,
    Report,
    Result,
    Role,
    SecondFigure,
    Suite,
    TaskVersion,
    User,
    Variant,
    give,
)
from leaderboard.samples import Layout, Vector
from leaderboard.snapshot import adjusted
from tests.leaderboard import factories as make
from tests.leaderboard.pages import client_of, csv_rows, download
from tests.leaderboard.rows import once_per_module

pytestmark = pytest.mark.django_db

QUESTION = "/tasks/facts/keys/question?doc=facts:3"
SEND = "/tasks/facts/keys/report?doc=facts:3"
FORM = {"verdict": "wrong", "answer": "B", "reason": "See page 12", "evidence": "https://e.org/p"}


@pytest.fixture(autouse=True)
def _shown(suite: Suite, settings: Any, one_minute: None) -> None:
    settings.PLUMBLINE_SUITE = "demo"


@once_per_module
def suite() -> Suite:
    """Four models, each with at least ten right and ten wrong answers."""
    suite = make.make_suite(benchmarks=("facts", "sums"), styles=("cloze", "mmlu"))
    for number, skill in enumerate((0.7, 0.6, 0.5, 0.4)):
        make.evaluated(f"lab/m{number}", suite, {"cloze": skill, "mmlu": skill}, n=80)
    make.publish(suite)
    return suite


@pytest.fixture
def mo() -> User:
    """A moderator."""
    mo = User.objects.create_user("mo")
    give(mo, Role.MODERATOR)
    return mo


def reported(by: User, label: str = "facts:3", verdict: str = "wrong") -> Report:
    said = {"verdict": verdict, "answer": "", "reason": f"{by} says so", "evidence": ""}
    return reports.report_key(questions_of_task(label.split(":")[0]).question(label), **said, by=by)


def disputed_now() -> list[list[Any]]:
    current = DisputedSet.objects.filter(current=True)
    return [question for one in current for question in one.questions]


def people(n: int) -> list[User]:
    return [User.objects.create_user(f"person-{number}") for number in range(n)]


def test_a_report_goes_from_the_benchmarks_page_to_the_public_log(ada: User) -> None:
    client = Client()
    assert 'href="/tasks/facts/keys"' in client.get("/tasks/facts").text
    assert "There is nothing of this kind" in client.get("/corrections?kind=key").text
    page = client.get(QUESTION).text
    assert "Sign in to report" in page
    assert 'name="verdict"' not in page
    signed_in = client_of(ada)
    answer = signed_in.post(SEND, FORM)
    made = Report.objects.get()
    assert answer["Location"] == made.get_absolute_url()
    assert client.get(made.get_absolute_url()).status_code == 200
    assert (made.task.name, made.part, made.doc_id) == ("facts", "facts", 3)
    assert made.question.startswith("Which tool number 3 hangs beside")
    for address in ("/corrections", "/corrections?task=facts", QUESTION):
        page = client.get(address).text
        assert "See page 12" in page, "the kept page is made anew"
        assert "ada" in page
    assert '<a href="https://e.org/p" rel="nofollow">' in page
    assert "1 wrong, 0 ambiguous, 0 right" in client.get("/tasks/facts/keys").text


def test_two_people_dispute_a_key_where_they_are_more_than_those_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accounts = people(4)
    for doc, (verdicts, follows) in enumerate(
        (
            (["wrong"], False),
            (["wrong", "wrong"], True),
            (["wrong", "ambiguous"], True),
            (["wrong", "right"], False),
            (["wrong", "wrong", "right"], True),
            (["wrong", "wrong", "right", "right"], False),
            (["right", "right", "right"], False),
        )
    ):
        for by, verdict in zip(accounts, verdicts, strict=False):
            reported(by, f"facts:{doc}", verdict)
        assert (["facts", doc] in disputed_now()) is follows, verdicts
    monkeypatch.setattr(reports, "MAX_KEY_REPORTS", 8)
    reported(accounts[0], "facts:7")
    with pytest.raises(Refused, match="8 reports on keys in 24 hours"):
        reported(accounts[0], "facts:8")


def test_a_person_counts_once_and_the_log_keeps_what_was_said_before(ada: User, bo: User) -> None:
    reported(ada, verdict="wrong")
    reported(ada, verdict="ambiguous")
    assert disputed_now() == []
    first, second = Report.objects.order_by("pk")
    assert (first.state, second.state) == ("changed", "open")
    with pytest.raises(Refused, match="already"):
        reported(ada, verdict="ambiguous")
    with pytest.raises(IntegrityError), transaction.atomic():
        Report.objects.filter(pk=first.pk).update(state="open", closed=None)
    reported(bo, verdict="wrong")
    assert disputed_now() == [["facts", 3]]
    assert "changed" in Client().get(QUESTION).text


def test_what_is_withdrawn_counts_no_more_and_stays_listed(ada: User, bo: User) -> None:
    mine, _ = reported(ada), reported(bo)
    assert client_of(bo).post(f"/corrections/keys/{mine.pk}/end").status_code == 403
    client_of(ada).post(f"/corrections/keys/{mine.pk}/end")
    assert disputed_now() == []
    assert "ada says so" in Client().get("/corrections").text
    assert client_of(ada).post(f"/corrections/keys/{mine.pk}/end").status_code == 409, (
        "it has ended already"
    )


def test_an_account_that_is_gone_or_closed_counts_no_more(ada: User, bo: User) -> None:
    reported(ada)
    reported(bo)
    User.objects.filter(pk=bo.pk).update(is_active=False)
    second_figures.compute_due()
    assert disputed_now() == []
    User.objects.filter(pk=bo.pk).update(is_active=True)
    second_figures.compute_due()
    assert disputed_now() == [["facts", 3]]
    ada.delete()
    second_figures.compute_due()
    assert disputed_now() == []
    assert "a deleted account" in Client().get("/corrections").text


def test_a_moderator_strikes_abuse_with_a_reason_and_its_text_is_withheld(
    ada: User, bo: User, mo: User
) -> None:
    bad, _ = reported(ada), reported(bo)
    address = f"/corrections/keys/{bad.pk}/end"
    assert client_of(bo).post(address, {"words": "I differ"}).status_code == 403
    assert "Say why in one sentence" in client_of(mo).post(address).text
    client_of(mo).post(address, {"words": "advertising"})
    assert disputed_now() == []
    for page in ("/corrections", QUESTION):
        text = Client().get(page).text
        assert "ada says so" not in text
        assert "advertising" in text
    assert "ada says so" not in download(Client(), "/corrections-keys.csv").decode()
    assert "ada says so" in client_of(mo).get(QUESTION).text


def test_no_moderator_strikes_what_contradicts_a_report_of_their_own(ada: User, mo: User) -> None:
    theirs = reported(ada, verdict="right")
    reported(mo, verdict="wrong")
    assert not rulings.may_strike(theirs, mo)
    assert (
        client_of(mo).post(f"/corrections/keys/{theirs.pk}/end", {"words": "no"}).status_code == 403
    )
    assert Report.objects.get(pk=theirs.pk).state == "open"


def test_a_form_says_what_is_wrong_and_keeps_what_was_typed(ada: User) -> None:
    client = client_of(ada)
    changes: list[tuple[dict[str, str], str]] = [
        ({"reason": " \u202e "}, "Say why"),
        ({"reason": "x" * 501}, "501 characters"),
        ({"verdict": "maybe"}, "Choose what you say"),
        ({"verdict": "right"}, "Another answer is named with a wrong key only"),
        ({"evidence": "javascript:alert(1)"}, "is no address of a page"),
        ({"evidence": "https://"}, "is no address of a page"),
        ({"evidence": "https://user@e.org"}, "is no address of a page"),
        ({"evidence": "http://[broken"}, "is no address of a page"),
        ({"reason": "a\0b"}, "null character"),
    ]
    for wrong, told in changes:
        answer = client.post(SEND, {**FORM, **wrong})
        assert answer.status_code == 422, wrong
        assert told in answer.text
        assert "See page 12" in answer.text or "reason" in wrong
    assert not Report.objects.exists()


def test_what_strangers_write_is_text_on_every_page_and_harmless_in_a_file(ada: User) -> None:
    hostile = '=HYPERLINK("http://e.org")<script>alert(1)</script>\u202e'
    client_of(ada).post(SEND, {**FORM, "reason": hostile, "answer": "<b>"})
    for address in ("/corrections", QUESTION):
        page = Client().get(address).text
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page
        assert "\u202e" not in page
    (row,) = csv_rows(Client(), "/corrections-keys.csv")
    assert row["reason"].startswith("'=HYPERLINK")
    assert (row["by"], row["verdict"], row["doc_id"]) == ("ada", "wrong", "3")


def test_a_changed_data_set_carries_no_report_to_another_question(
    ada: User, bo: User, suite: Suite
) -> None:
    reported(ada)
    reported(bo)
    other = make.make_variant("lab/later")
    entry = suite.entries.get(task__name="facts")
    questions = ["Another question under the same number?"]
    make.finish(make.queued_run(other, entry), questions=questions, seed=5)
    second_figures.compute_due()
    file = other.runs.get().artifacts.get(kind="samples").sha256
    changed = TaskQuestions(entry.task, "", entry, other.runs.get(), file)
    assert changed.docs_digest != questions_of_task("facts").docs_digest
    question = changed.question("facts:3")
    assert not question.reports.exists()
    assert second_figures.counts_of(entry.task, changed.docs_digest) == {}
    result = other.runs.get().results.get(subset="", metric="acc")
    assert adjusted.of_results([result.pk]) == {}, "nor is anything left out of other data"
    link = f"/tasks/facts/keys/question?doc=facts:3&digest={question.doc_digest[:12]}"
    answer = Client().get(link)
    assert answer.status_code == 404, "a run of other data does not lead to this question"


def test_a_question_that_is_not_there_is_not_found(ada: User) -> None:
    for doc in ("", "facts:999", "nosuch:1", "x", "9" * 40):
        assert Client().get(f"/tasks/facts/keys/question?doc={doc}").status_code == 404
        assert client_of(ada).post(f"/tasks/facts/keys/report?doc={doc}", FORM).status_code == 404


def test_reports_are_of_their_task_version_alone(ada: User, bo: User) -> None:
    reported(ada)
    reported(bo)
    assert "Reported (0)" in Client().get("/tasks/facts_mmlu/keys").text
    assert "Disputed (1)" in Client().get("/tasks/facts/keys?show=disputed").text
    entry = make.make_suite("other", benchmarks=("letters",), styles=("cloze",)).entries.get()
    page = Client().get(f"/tasks/{entry.task.name}/keys").text
    assert "no questions to report" in page


@pytest.mark.parametrize(
    ("tasks", "part", "called"),
    [
        (["exam_logic", "exam_law"], "exam_logic", "logic 14"),
        (["exam_logic", "law"], "law", "law 14"),
        (["exam"], "exam", "14"),
    ],
)
def test_a_question_is_called_by_its_leaf_task_without_the_groups_name(
    tasks: list[str], part: str, called: str
) -> None:
    found = TaskQuestions(TaskVersion(name="exam"), "Exam", None, None, "")
    facts: Any = SimpleNamespace(tasks=tasks)
    found.__dict__.update(facts=facts, docs_digest="of its questions")
    with patch.object(questions, "counts_of", lambda *_: {(part, 13): Counts()}):
        (line,) = questions.lines(found)
    assert (line.called, line.label) == (called, f"{part}:13")


# The second figure


@pytest.fixture
def both(ada: User, bo: User) -> list[User]:
    return [ada, bo]


def dispute(both: list[User], *docs: int) -> None:
    for doc in docs:
        for by in both:
            reported(by, f"facts:{doc}")
    second_figures.compute_due()


def result_of(model: str, task: str = "facts") -> Result:
    variant = Variant.objects.get(hub_model__repo_id=model)
    return Result.objects.get(run__variant=variant, run__task__name=task, subset="", metric="acc")


def from_the_samples(result: Result, without: set[int]) -> uncertainty.Measured:
    """Counted anew from the stored answers, by other code than the site's."""
    samples = make.samples_of(result.run)
    return uncertainty.measure([row["correct"] for row in samples if row["doc_id"] not in without])


def test_the_second_figure_is_the_score_of_the_questions_that_are_left(both: list[User]) -> None:
    dispute(both, 3, 7, 11)
    for model in ("lab/m0", "lab/m3"):
        result = result_of(model)
        second = adjusted.of_results([result.pk])[result.pk]
        told = from_the_samples(result, {3, 7, 11})
        assert (second.removed, second.score.n, told.n) == (3, 77, 77)
        assert second.score.interval == told.interval
        before = Result.objects.get(pk=result.pk)
        assert (before.value, before.n) == (result.value, 80), "the first stays as it was"
    other = result_of("lab/m0", "sums")
    assert adjusted.of_results([other.pk]) == {}, "other benchmarks have none"


def test_the_second_figure_comes_and_goes_with_the_reports_and_with_new_results(
    suite: Suite, both: list[User]
) -> None:
    result, odd = result_of("lab/m0"), result_of("lab/m1")
    Result.objects.filter(pk=odd.pk).update(high=odd.high + 0.01)
    dispute(both, 3)
    assert result.pk in adjusted.of_results([result.pk])
    assert adjusted.of_results([odd.pk]) == {}, "it is not the result of its answers"
    assert second_figures.compute_due() == 0, "nothing is computed twice"
    make.evaluated("lab/new", suite, {"cloze": 0.5, "mmlu": 0.5}, n=80)
    new = result_of("lab/new")
    assert new.pk not in adjusted.of_results([new.pk])
    second_figures.compute_due()
    assert new.pk in adjusted.of_results([new.pk])
    mine = both[0].reports.get(state="open")
    reports.withdraw(mine, by=both[0])
    assert adjusted.of_results([result.pk]) == {}, "at once, before anything is computed"
    second_figures.compute_due()
    assert not SecondFigure.objects.exists()


def test_pages_show_it_beside_the_first_and_no_rank_moves(suite: Suite, both: list[User]) -> None:
    client = Client()
    before = make.board(suite)
    assert "disputed" not in client.get("/").text
    dispute(both, 3, 7)
    make.publish(suite)
    after = make.board(suite)
    assert after.data_version == before.data_version, "the board is the same to the last bit"
    run = result_of("lab/m1").run
    value = 100 * from_the_samples(result_of("lab/m1"), {3, 7}).interval.value
    words = f"w/o 2: </span>{value:.1f} "
    for address in ("/", "/tasks/facts", "/models/lab/m1"):
        page = client.get(address).text
        assert "without 2 disputed questions" in page, address
        assert words in page, address
    assert "2 disputed" in client.get("/").text
    assert f"{value:.1f}" in client.get(run.get_absolute_url()).text
    assert "Without 2 disputed questions" in client.get(run.get_absolute_url()).text
    assert "disputed" not in client.get("/?score=chance").text


def test_files_have_it_in_fields_of_their_own(both: list[User]) -> None:
    client = Client()
    assert not any("without" in name for name in csv_rows(client, "/board.csv")[0])
    tag = client.get("/board.csv")["ETag"]
    dispute(both, 3)
    assert client.get("/board.csv")["ETag"] != tag
    for row in csv_rows(client, "/board.csv"):
        told = from_the_samples(result_of(row["model"]), {3})
        assert float(row["facts.cloze.without_disputed"]) == told.interval.value
        assert float(row["facts.cloze.without_disputed.low"]) == told.interval.low
        assert int(row["facts.cloze.without_disputed.n"]) == 79
        assert float(row["facts.cloze"]) == result_of(row["model"]).value
        assert "sums.cloze.without_disputed" not in row


def vector(scores: list[float], parts: list[int], *, by_part: bool) -> Vector:
    n, names = len(scores), tuple(f"part{number}" for number in range(max(parts) + 1))
    task = np.array(parts, np.int32)
    layout = Layout(
        tasks=names, task=task, doc_id=np.arange(n, dtype=np.int32), parts=names, part=task,
        docs_digest="d", cluster=None,
    )  # fmt: skip
    return Vector(layout, by_part, np.array(scores))


@given(
    some.lists(some.tuples(some.integers(0, 1), some.integers(0, 2)), min_size=30, max_size=60),
    some.sets(some.integers(0, 29), max_size=6),
    some.booleans(),
)
def test_of_a_group_it_is_the_mean_of_what_is_left_over_its_leaf_tasks(
    answers: list[tuple[int, int]], without: set[int], by_part: bool
) -> None:
    answers = [(1, 0), (0, 1), (1, 2), *answers]
    scores, parts = [float(right) for right, _ in answers], [part for _, part in answers]
    one = vector(scores, parts, by_part=by_part)
    left = second_figures.kept(one.layout, [[f"part{parts[doc]}", doc] for doc in without])
    assert (~left).nonzero()[0].tolist() == sorted(without)
    found = second_figures.measured(one, left)
    means = [
        np.mean([s for s, p, keep in zip(scores, parts, left, strict=True) if keep and p == part])
        for part in sorted({p for p, keep in zip(parts, left, strict=True) if keep})
    ]
    mean = np.mean(means) if by_part else np.array(scores)[left].mean()
    assert found.value == pytest.approx(mean)
    assert found.low <= found.value <= found.high


def test_a_question_of_the_same_number_in_another_leaf_task_stays() -> None:
    one = vector([1.0, 0.0, 1.0, 0.0], [0, 0, 1, 1], by_part=False)
    one.layout.doc_id[:] = [0, 1, 0, 1]
    assert second_figures.kept(one.layout, [["part1", 0]]).tolist() == [True, True, False, True]
