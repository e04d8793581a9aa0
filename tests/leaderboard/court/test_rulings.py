"""The key court: people rule on keys, two who are against one dispute it, all of it in public."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from leaderboard import court, disputed
from leaderboard.court import order
from leaderboard.court.bench import Bench, bench
from leaderboard.models import DisputedSet, Role, Ruling, Suite, User, give
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db

FORM = {"verdict": "wrong", "answer": "B", "reason": "See page 12", "source": "https://e.org/p"}


@pytest.fixture(autouse=True)
def suite(settings: Any, one_minute: None) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze", "mmlu"))
    make.evaluated("lab/one", suite, {"cloze": 0.9, "mmlu": 0.7})
    make.publish(suite)
    return suite


@pytest.fixture
def mo() -> User:
    """A moderator."""
    mo = User.objects.create_user("mo")
    give(mo, Role.MODERATOR)
    return mo


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def ruled(by: User, verdict: str = "wrong", label: str = "facts:3") -> Ruling:
    said = {"verdict": verdict, "answer": "", "reason": f"{by} says so", "source": ""}
    return court.rule(bench("facts").question(label), **said, by=by)


def disputed_now() -> list[list[Any]]:
    current = DisputedSet.objects.filter(current=True)
    return [question for one in current for question in one.questions]


def people(n: int) -> list[User]:
    return [User.objects.create_user(f"person-{number}") for number in range(n)]


def test_a_ruling_goes_from_the_benchmarks_page_to_the_public_log(ada: User) -> None:
    client = Client()
    assert 'href="/tasks/facts/keys"' in client.get("/tasks/facts").text
    assert "Nobody has ruled yet" in client.get("/court").text
    page = client.get("/tasks/facts/keys/question?doc=facts:3").text
    assert "Sign in to rule" in page
    assert 'name="verdict"' not in page
    signed_in = of(ada)
    answer = signed_in.post("/tasks/facts/keys/rule?doc=facts:3", FORM)
    made = Ruling.objects.get()
    assert answer["Location"] == f"/tasks/facts/keys/question?doc=facts:3#ruling-{made.pk}"
    assert (made.task.name, made.part, made.doc_id) == ("facts", "facts", 3)
    assert made.question.startswith("Which tool number 3 hangs beside")
    for address in ("/court", "/court?task=facts", "/tasks/facts/keys/question?doc=facts:3"):
        page = client.get(address).text
        assert "See page 12" in page, "the kept page is made anew"
        assert "ada" in page
        assert 'href="https://e.org/p" rel="nofollow"' in page
    assert "1 wrong, 0 ambiguous, 0 right" in client.get("/tasks/facts/keys").text


@pytest.mark.parametrize(
    ("verdicts", "follows"),
    [
        (["wrong"], False),
        (["wrong", "wrong"], True),
        (["wrong", "ambiguous"], True),
        (["wrong", "right"], False),
        (["wrong", "wrong", "right"], True),
        (["wrong", "wrong", "right", "right"], False),
        (["right", "right", "right"], False),
    ],
)
def test_two_people_dispute_a_key_where_they_are_more_than_those_for_it(
    verdicts: list[str], follows: bool
) -> None:
    for by, verdict in zip(people(len(verdicts)), verdicts, strict=True):
        ruled(by, verdict)
    assert disputed_now() == ([["facts", 3]] if follows else [])


def test_a_person_counts_once_and_the_log_keeps_what_was_said_before(ada: User, bo: User) -> None:
    ruled(ada, "wrong")
    ruled(ada, "ambiguous")
    assert disputed_now() == []
    first, second = Ruling.objects.order_by("pk")
    assert (first.ending, second.ended) == ("changed", None)
    with pytest.raises(court.Refused, match="already"):
        ruled(ada, "ambiguous")
    with pytest.raises(IntegrityError), transaction.atomic():
        Ruling.objects.filter(pk=first.pk).update(ended=None, ending="")
    ruled(bo, "wrong")
    assert disputed_now() == [["facts", 3]]
    assert "changed" in Client().get("/tasks/facts/keys/question?doc=facts:3").text


def test_what_is_withdrawn_counts_no_more_and_stays_listed(ada: User, bo: User) -> None:
    mine, _ = ruled(ada), ruled(bo)
    assert of(bo).post(f"/court/{mine.pk}/end").status_code == 403
    of(ada).post(f"/court/{mine.pk}/end")
    assert disputed_now() == []
    assert "ada says so" in Client().get("/court").text
    assert of(ada).post(f"/court/{mine.pk}/end").status_code == 409, "it has ended already"


def test_an_account_that_is_gone_or_closed_counts_no_more(ada: User, bo: User) -> None:
    ruled(ada)
    ruled(bo)
    User.objects.filter(pk=bo.pk).update(is_active=False)
    disputed.compute_due()
    assert disputed_now() == []
    User.objects.filter(pk=bo.pk).update(is_active=True)
    disputed.compute_due()
    assert disputed_now() == [["facts", 3]]
    ada.delete()
    disputed.compute_due()
    assert disputed_now() == []
    assert "a deleted account" in Client().get("/court").text


def test_a_moderator_strikes_abuse_with_a_reason_and_its_text_is_withheld(
    ada: User, bo: User, mo: User
) -> None:
    bad, _ = ruled(ada), ruled(bo)
    address = f"/court/{bad.pk}/end"
    assert of(bo).post(address, {"words": "I differ"}).status_code == 403
    assert "Say why in one sentence" in of(mo).post(address).text
    of(mo).post(address, {"words": "advertising"})
    assert disputed_now() == []
    for page in ("/court", "/tasks/facts/keys/question?doc=facts:3"):
        text = Client().get(page).text
        assert "ada says so" not in text
        assert "advertising" in text
    assert "ada says so" not in "".join(
        part.decode() for part in Client().get("/court.csv").streaming_content
    )
    assert "ada says so" in of(mo).get("/tasks/facts/keys/question?doc=facts:3").text


def test_no_moderator_strikes_what_contradicts_a_ruling_of_their_own(ada: User, mo: User) -> None:
    theirs = ruled(ada, "right")
    ruled(mo, "wrong")
    assert not order.may_strike(theirs, mo)
    assert of(mo).post(f"/court/{theirs.pk}/end", {"words": "no"}).status_code == 403
    assert Ruling.objects.get(pk=theirs.pk).ended is None


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"reason": " \u202e "}, "Say why"),
        ({"reason": "x" * 501}, "501 characters"),
        ({"verdict": "maybe"}, "Choose what you say"),
        ({"verdict": "right"}, "Another answer is named with a wrong key only"),
        ({"source": "javascript:alert(1)"}, "is no address of a page"),
        ({"source": "https://"}, "is no address of a page"),
        ({"source": "https://user@e.org"}, "is no address of a page"),
        ({"source": "http://[broken"}, "is no address of a page"),
        ({"reason": "a\0b"}, "null character"),
    ],
)
def test_a_form_says_what_is_wrong_and_keeps_what_was_typed(
    ada: User, wrong: dict[str, str], told: str
) -> None:
    answer = of(ada).post("/tasks/facts/keys/rule?doc=facts:3", {**FORM, **wrong})
    assert answer.status_code == 422
    assert told in answer.text
    assert "See page 12" in answer.text or "reason" in wrong
    assert not Ruling.objects.exists()


def test_what_strangers_write_is_text_on_every_page_and_harmless_in_a_file(ada: User) -> None:
    hostile = '=HYPERLINK("http://e.org")<script>alert(1)</script>\u202e'
    of(ada).post("/tasks/facts/keys/rule?doc=facts:3", {**FORM, "reason": hostile, "answer": "<b>"})
    for address in ("/court", "/tasks/facts/keys/question?doc=facts:3"):
        page = Client().get(address).text
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page
        assert "\u202e" not in page
    lines = "".join(part.decode() for part in Client().get("/court.csv").streaming_content)
    (row,) = csv.DictReader(lines.splitlines())
    assert row["reason"].startswith("'=HYPERLINK")
    assert (row["by"], row["verdict"], row["doc_id"]) == ("ada", "wrong", "3")


def test_an_account_has_so_many_rulings_in_a_day(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "RULINGS", 2)
    ruled(ada, label="facts:1")
    ruled(ada, label="facts:2")
    with pytest.raises(court.Refused, match="2 rulings in 24 hours"):
        ruled(ada, label="facts:3")


def test_a_changed_data_set_carries_no_ruling_to_another_question(
    ada: User, bo: User, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    ruled(ada)
    ruled(bo)
    other = make.make_variant("lab/later")
    entry = suite.entries.get(task__name="facts")
    questions = ["Another question under the same number?"]
    make.finish(make.queued_run(other, entry), questions=questions, seed=5)
    disputed.compute_due()
    changed = Bench(entry.task, "", entry, other.runs.get(), _file_of(other))
    assert changed.docs_digest != bench("facts").docs_digest
    question = changed.question("facts:3")
    assert not question.rulings.exists()
    assert disputed.counts_of(entry.task, changed.docs_digest) == {}
    result = other.runs.get().results.get(subset="", metric="acc")
    assert disputed.of_results([result.pk]) == {}, "nor is anything left out of other data"
    link = f"/tasks/facts/keys/question?doc=facts:3&digest={question.doc_digest[:12]}"
    answer = Client().get(link)
    assert answer.status_code == 404, "a run of other data does not lead to this question"


def _file_of(variant: Any) -> str:
    return str(variant.runs.get().artifacts.get(kind="samples").sha256)


@pytest.mark.parametrize("doc", ["", "facts:999", "nosuch:1", "x", "9" * 40])
def test_a_question_that_is_not_there_is_not_found(ada: User, doc: str) -> None:
    assert Client().get(f"/tasks/facts/keys/question?doc={doc}").status_code == 404
    assert of(ada).post(f"/tasks/facts/keys/rule?doc={doc}", FORM).status_code == 404


def test_a_benchmark_without_runs_has_a_page_that_says_so(suite: Suite) -> None:
    entry = make.make_suite("other", benchmarks=("sums",), styles=("cloze",)).entries.get()
    page = Client().get(f"/tasks/{entry.task.name}/keys").text
    assert "no questions to rule on" in page


def test_rulings_are_of_their_task_version_alone(ada: User, bo: User) -> None:
    ruled(ada)
    ruled(bo)
    assert "0 wrong" not in Client().get("/tasks/facts_mmlu/keys").text
    assert "Ruled on (0)" in Client().get("/tasks/facts_mmlu/keys").text
    assert "Disputed (1)" in Client().get("/tasks/facts/keys?show=disputed").text
