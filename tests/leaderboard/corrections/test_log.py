"""The log of corrections: everything that was said, once, with what became of it; and its feed."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from xml.etree import ElementTree

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from leaderboard.corrections import recalls, reports, rulings
from leaderboard.corrections.questions import questions_of_task
from leaderboard.models import HubModel, Recall, Report, Role, Run, Suite, User, give
from tests.leaderboard import factories as make
from tests.leaderboard.pages import client_of, text_of
from tests.leaderboard.rows import once_per_module

pytestmark = pytest.mark.django_db
ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(autouse=True)
def _shown(suite: Suite, settings: Any, one_minute: None) -> None:
    settings.PLUMBLINE_SUITE = "demo"


@once_per_module
def suite() -> Suite:
    suite = make.make_suite(benchmarks=("facts", "sums"), styles=("cloze",))
    for number, skill in enumerate((0.7, 0.5)):
        make.evaluated(f"lab/m{number}", suite, {"cloze": skill}, n=30)
    make.publish(suite)
    return suite


@pytest.fixture
def mo() -> User:
    """A moderator."""
    mo = User.objects.create_user("mo")
    give(mo, Role.MODERATOR)
    return mo


@pytest.fixture
def one_of_each(ada: User, mo: User) -> Recall:
    """A report on numbers, one on a key, an author's wish and a recall, in this order."""
    on_numbers("lab/m0", by=ada)
    on_key("facts:3", by=ada)
    rulings.take_out(HubModel.objects.get(repo_id="lab/m1"), "a draft", by=mo)
    run = Run.objects.filter(variant__hub_model__repo_id="lab/m0").order_by("pk")[0]
    return recalls.recall("runs", [str(run.pk)], reason="cut off", by="op")[0]


def on_numbers(model: str, *, by: User) -> Any:
    named = HubModel.objects.get(repo_id=model)
    said = {"kind": "number", "reason": "copied answers", "evidence": "look"}
    return reports.report(reports.Target(named), **said, by=by)


def on_key(label: str, *, by: User) -> Any:
    question = questions_of_task(label.split(":")[0]).question(label)
    said = {"verdict": "wrong", "answer": "", "reason": f"page {label}", "evidence": ""}
    return reports.report_key(question, **said, by=by)


def listed(address: str = "/corrections") -> list[str]:
    """The rows of the log, as text."""
    rows = re.findall(r'<tr role="row" id=.*?</tr>', Client().get(address).text, re.DOTALL)
    return [text_of(row) for row in rows]


def kinds(address: str = "/corrections") -> list[str]:
    words = ("Wrong number", "Wrong key", "Author’s wish", "Recall")
    return [next(word for word in words if row.startswith(word)) for row in listed(address)]


def test_the_log_has_everything_once_and_what_changed_last_first(
    one_of_each: Recall, ada: User, mo: User
) -> None:
    assert kinds() == ["Recall", "Author’s wish", "Wrong key", "Wrong number"]
    recall, wish, key, number = listed()
    assert "cut off" in recall
    assert "1 result recalled" in recall
    assert "a draft" in wish
    assert "out of the ranking" in wish
    assert "Facts, cloze: question 4" in key
    assert "The key is wrong. page facts:3" in key
    assert "lab/ m0" in number
    assert "waits for a ruling" in number
    waiting = Report.objects.get(kind="number")
    rulings.rule(waiting, "dismiss", "it is its own", by=mo)
    assert kinds()[0] == "Wrong number", "what changed last"
    assert "it is its own" in listed()[0]


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("kind=number", ["Wrong number"]),
        ("kind=key", ["Wrong key"]),
        ("kind=wish", ["Author’s wish"]),
        ("kind=recall", ["Recall"]),
        ("state=open", ["Wrong number"]),
        ("state=in-force", ["Recall", "Author’s wish", "Wrong key"]),
        ("state=closed", []),
        ("kind=recall&state=in-force", ["Recall"]),
        ("model=lab/m0", ["Wrong number"]),
        ("model=lab/m1", ["Author’s wish"]),
        ("task=facts", ["Wrong key"]),
        ("task=sums", []),
        ("kind=number&task=facts", []),
    ],
)
@pytest.mark.usefixtures("one_of_each")
def test_it_is_filtered_by_kind_state_model_and_benchmark(query: str, left: list[str]) -> None:
    found = kinds(f"/corrections?{query.replace('/', '%2F')}")
    assert found == left
    if not left:
        assert "There is nothing of this kind" in Client().get(f"/corrections?{query}").text


def test_it_is_in_pages_and_its_queries_do_not_grow(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MAX_KEY_REPORTS", 100)

    def queries() -> int:
        with CaptureQueriesContext(connection) as found:
            Client().get("/corrections")
        return len(found)

    on_key("facts:0", by=ada)
    few = queries()
    for number in range(1, 26):
        on_key(f"{('facts', 'sums')[number % 2]}:{number // 2 + 1}", by=ada)
    assert queries() == few
    first, second = listed(), listed("/corrections?page=2")
    assert (len(first), len(second), len({*first, *second})) == (25, 1, 26)
    assert Client().get("/corrections?page=3")["Location"] == "/corrections?page=2"


def test_reports_on_keys_lead_to_their_benchmarks_the_most_disputed_first(
    ada: User, bo: User
) -> None:
    for by in (ada, bo):
        on_key("sums:2", by=by)
    on_key("facts:3", by=ada)
    page = text_of(Client().get("/corrections?kind=key").text)
    assert (
        "Sums, cloze 1 disputed, 2 reports count Facts, cloze 0 disputed, 1 report counts" in page
    )


def test_the_feed_has_the_same_entries_and_a_reader_is_told_what_is_new(
    one_of_each: Recall, client: Client, ada: User, mo: User
) -> None:
    answer = client.get("/corrections.atom")
    assert answer["Content-Type"].startswith("application/atom+xml")
    entries = ElementTree.fromstring(answer.content).findall(f"{ATOM}entry")
    titles = [entry.findtext(f"{ATOM}title") for entry in entries]
    assert titles == [
        f"Recall: Runs or files: {one_of_each.named[0]}, 1 result recalled",
        "Author’s wish: lab/m1, out of the ranking",
        "Wrong key: Facts, cloze: question 4, counts",
        "Wrong number: lab/m0, waits for a ruling",
    ]
    assert len({entry.findtext(f"{ATOM}id") for entry in entries}) == 4
    known = {"if-none-match": answer["ETag"]}
    assert client.get("/corrections.atom", headers=known).status_code == 304
    rulings.rule(Report.objects.get(kind="number"), "withhold", "an insult", by=mo)
    again = client.get("/corrections.atom", headers=known)
    assert again.status_code == 200
    assert "copied answers" not in again.text, "its text is withheld"
    assert "an insult" in again.text


def test_a_reason_with_control_characters_breaks_no_feed(client: Client) -> None:
    run = Run.objects.order_by("pk")[0]
    recalls.recall("runs", [str(run.pk)], reason="cut\x07 off", by="op")
    told = ElementTree.fromstring(client.get("/corrections.atom").content).itertext()
    assert "cut off (1 result recalled: 1 not queued)" in told


def test_words_of_strangers_are_words_in_the_feed(ada: User, client: Client) -> None:
    model = HubModel.objects.get(repo_id="lab/m0")
    hostile = "<script>alert(1)</script> & ]]>"
    said = {"kind": "licence", "reason": hostile, "evidence": "look"}
    reports.report(reports.Target(model), **said, by=ada)
    answer = client.get("/corrections.atom")
    assert "<script>" not in answer.text
    summary = ElementTree.fromstring(answer.content).find(f".//{ATOM}summary")
    assert (summary.get("type"), unescape(summary.text)) == ("html", hostile)
    assert "<" not in summary.text, "a reader that shows it as HTML shows words"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("/flags", "/corrections?kind=number"),
        ("/flags?model=a/b&state=upheld", "/corrections?model=a%2Fb&kind=number&state=in-force"),
        ("/flags?state=open", "/corrections?kind=number&state=open"),
        ("/flags/7", "/corrections/reports/7"),
        ("/flags/new?model=lab/m0", "/corrections/new?model=lab%2Fm0"),
        ("/departures?model=lab/m0", "/corrections?model=lab%2Fm0&kind=wish"),
        ("/departures/change?model=lab/m0", "/corrections/new?model=lab%2Fm0&kind=wish"),
        ("/recalls", "/corrections?kind=recall"),
        ("/recalls/7", "/corrections/recalls/7"),
        ("/court", "/corrections?kind=key"),
        ("/court?task=facts&page=2", "/corrections?task=facts&kind=key"),
        ("/court.csv?task=facts", "/corrections-keys.csv?task=facts"),
        ("/court.json", "/corrections-keys.json"),
        ("/court.parquet", "/corrections-keys.parquet"),
    ],
)  # fmt: skip
def test_an_earlier_address_leads_to_its_page_for_good(
    before: str, now: str, client: Client
) -> None:
    answer = client.get(before)
    assert (answer.status_code, answer["Location"]) == (301, now)


# The form


def test_a_problem_is_reported_from_what_it_is_about(
    ada: User, client: Client, suite: Suite
) -> None:
    run = Run.objects.filter(variant__hub_model__repo_id="lab/m0").order_by("pk")[0]
    browser = client_of(ada)
    by_run = browser.get(f"/corrections/new?run={run.pk}")
    assert f'href="/runs/{run.pk}"' in by_run.text
    assert "a number of" in by_run.text
    key = client.get("/corrections/new?task=facts&doc=facts:3")
    assert key["Location"] == "/tasks/facts/keys/question?doc=facts%3A3#report"
    of_benchmark = browser.get("/corrections/new?task=facts").text
    assert "This is about the benchmark as a whole" in of_benchmark
    assert 'href="/tasks/facts/keys"' in of_benchmark
    assert client.get("/corrections/new")["Location"].startswith("/accounts/login?next=")
    assert "Which model, run or benchmark" in browser.get("/corrections/new").text
    for about, leads in (
        ("LAB/M0", "/corrections/new?model=lab%2Fm0"),
        ("https://plumbline.example/models/lab/m0?tab=runs", "/corrections/new?model=lab%2Fm0"),
        (str(run.pk), f"/corrections/new?run={run.pk}"),
        (f"https://plumbline.example/runs/{run.pk}", f"/corrections/new?run={run.pk}"),
        ("/tasks/facts", "/corrections/new?task=facts"),
        ("facts", "/corrections/new?task=facts"),
    ):
        assert browser.get("/corrections/new", {"about": about})["Location"] == leads
    for unknown in ("?about=nobody/none", "?about=http://[x", "?run=7", "?model=nobody/none"):
        answer = browser.get(f"/corrections/new{unknown}")
        assert answer.status_code == 404
        assert "is no model, run or benchmark of this site" in answer.text
