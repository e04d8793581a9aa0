"""The court's list: each question once, with what people say, and all its rulings below a fold."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from leaderboard import court
from leaderboard.court import log, order
from leaderboard.court.bench import bench
from leaderboard.models import Ruling, Suite, User
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def suite(settings: Any, one_minute: None) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts", "sums"), styles=("cloze", "mmlu"))
    make.evaluated("lab/one", suite, {"cloze": 0.9, "mmlu": 0.7})
    make.publish(suite)
    return suite


@pytest.fixture
def people() -> list[User]:
    return [User.objects.create_user(f"person-{number}") for number in range(13)]


def rules(by: User, label: str, verdict: str = "wrong") -> Ruling:
    said = {"verdict": verdict, "answer": "", "reason": f"{by} says so", "source": ""}
    return court.rule(bench(label.split(":")[0]).question(label), **said, by=by)


def listed(address: str = "/court") -> list[str]:
    """The rows of the list of questions, as HTML."""
    page = Client().get(address).text
    _, _, table = page.partition('<h2 id="rulings">')
    return re.findall(r'<tr role="row">\s*<th role="rowheader".*?</tr>', table, re.DOTALL)


def names(rows: list[str]) -> list[str]:
    return [re.findall(r'<a class="mid nm"[^>]*>([^<]*)</a>', row)[0] for row in rows]


def test_a_question_is_listed_once_with_what_people_say_and_why(people: list[User]) -> None:
    rules(people[0], "facts:3")
    rules(people[1], "sums:0", "right")
    rules(people[1], "facts:3", "ambiguous")
    rules(people[2], "facts:3", "right")
    first, second = listed()
    assert names([first, second]) == ["Facts, cloze: question 4", "Sums, cloze: question 1"]
    assert "disputed" in first
    assert "1 wrong, 1 ambiguous, 1 right" in first
    assert "0 wrong, 0 ambiguous, 1 right" in second
    folded = re.findall(r"<details.*?</details>", first, re.DOTALL)
    assert len(folded) == 1
    assert "3 rulings" in folded[0]
    said = re.findall(r"(person-\d) says so", folded[0])
    assert said == ["person-2", "person-1", "person-0"], "the newest first"


def test_the_question_with_the_newest_ruling_is_the_first(people: list[User]) -> None:
    for label in ("facts:1", "facts:2", "sums:1"):
        rules(people[0], label)
    rules(people[1], "facts:1", "right")
    assert names(listed()) == [
        f"{title}, cloze: question {number}"
        for title, number in (("Facts", 2), ("Sums", 2), ("Facts", 3))
    ]
    assert names(listed("/court?task=sums")) == ["Sums, cloze: question 2"]
    assert 'rulings on <bdi class="nm">Sums, cloze</bdi>' in Client().get("/court?task=sums").text


def test_only_what_stands_is_counted_and_what_ended_stays_readable(people: list[User]) -> None:
    court.withdraw(rules(people[0], "facts:3"), by=people[0])
    (row,) = listed()
    assert "no ruling stands" in row
    assert "1 ruling<" in row
    assert "person-0 says so" in row
    rules(people[1], "facts:3")
    User.objects.filter(pk=people[1].pk).update(is_active=False)
    rules(people[2], "facts:3", "right")
    (row,) = listed()
    assert "0 wrong, 0 ambiguous, 1 right" in row, "a closed account does not count"


def test_of_many_rulings_those_that_stand_are_unfolded_and_a_link_has_the_rest(
    people: list[User],
) -> None:
    for by in people[:2]:
        rules(by, "facts:3")
    for by in people[2:]:
        court.withdraw(rules(by, "facts:3"), by=by)
    (row,) = listed()
    said = re.findall(r"(person-\d+) says so", row)
    assert len(said) == log.AT_ONCE
    assert said[:3] == ["person-1", "person-0", "person-12"]
    ((link, more),) = re.findall(r'<a href="([^"]*#said)">(\d+) more</a>', row)
    assert int(more) == len(people) - log.AT_ONCE
    page = Client().get(link.replace("&amp;", "&").removesuffix("#said")).text
    assert 'id="said"' in page
    assert len(set(re.findall(r"person-\d+ says so", page))) == len(people)


def test_the_list_is_in_pages_and_its_queries_do_not_grow(
    people: list[User], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "RULINGS", 100)

    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            Client().get("/court")
        return len(found)

    rules(people[0], "facts:0")
    few = queries()
    for number in range(26):
        rules(people[1], f"{('facts', 'sums')[number % 2]}:{number // 2}")
    assert queries() == few
    first, second = listed(), listed("/court?page=2")
    assert (len(first), len(second)) == (25, 1)
    assert len(set(names(first + second))) == 26
    assert Client().get("/court?page=3")["Location"] == "/court?page=2"


def test_questions_of_other_data_or_another_version_are_questions_of_their_own(
    people: list[User],
) -> None:
    rules(people[0], "facts:3")
    old = rules(people[1], "facts:3")
    Ruling.objects.filter(pk=old.pk).update(docs_digest="0" * 64, doc_digest="1" * 64)
    first, second = listed()
    assert names([first, second]) == ["Facts, cloze: question 4"] * 2
    assert "person-1 says so" in first
    assert "person-0 says so" in second
    (link,) = re.findall(r'<a class="mid nm" href="([^"]*)"', first)
    answer = Client().get(link.replace("&amp;", "&"))
    assert answer.status_code == 404, "it does not lead to what is asked under its number by now"
