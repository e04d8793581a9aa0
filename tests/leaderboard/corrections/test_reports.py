"""Reports on models: what people say, what moderators rule, and how an author takes a model out.

Anybody signed in reports, the author answers, a moderator rules, all read it. An author takes a
model out of the ranking and brings it back; all else stays readable.
"""

from __future__ import annotations

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import AnonymousUser
from django.test import Client

from leaderboard.accounts.told import kept_of
from leaderboard.corrections import reports, rulings
from leaderboard.corrections.reports import Refused, Target, cleaned
from leaderboard.models import HubModel, Recall, Report, Role, Run, Suite, User, give
from leaderboard.models.run import State
from leaderboard.queue import claims, reruns
from leaderboard.submissions import submit as submissions
from leaderboard.tasks import items
from tests.leaderboard import factories as make
from tests.leaderboard.pages import client_of, text_of
from tests.leaderboard.rows import once_per_module

pytestmark = pytest.mark.django_db

REPORT = {
    "kind": "contamination",
    "reason": "It was trained on the questions",
    "evidence": "See https://example.org/paper",
}
WORDS = "It was a draft, and a better one is coming"
CHANGE = "/corrections/new?kind=wish&model=lab/one"


@pytest.fixture(autouse=True)
def _shown(ranked: Suite, settings: Any, one_minute: None) -> None:
    settings.PLUMBLINE_SUITE = "demo"


@once_per_module
def ranked() -> Suite:
    """lab/one ranked before lab/two."""
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze", "mmlu"))
    make.evaluated("lab/one", suite, {"cloze": 0.9, "mmlu": 0.7})
    make.evaluated("lab/two", suite, {"cloze": 0.5, "mmlu": 0.4})
    make.publish(suite)
    return suite


@pytest.fixture
def mo() -> User:
    """A moderator."""
    mo = User.objects.create_user("mo")
    give(mo, Role.MODERATOR)
    return mo


@pytest.fixture
def lab(settings: Any) -> User:
    """Hugging Face vouches that this account is the owner of lab/one."""
    return vouched(settings, "lab-here", {"name": "Lab"})


def vouched(settings: Any, name: str, told: Any) -> User:
    """Somebody of whom Hugging Face told this."""
    settings.OIDC_ID = "huggingface"
    user = User.objects.create_user(name)
    SocialAccount.objects.create(user=user, provider="huggingface", uid=name, extra_data=told)
    return user


def model(repo_id: str = "lab/one") -> HubModel:
    return HubModel.objects.get(repo_id=repo_id)


def ranks(suite: Suite) -> dict[str, int]:
    board = make.board(suite)
    names = board.models.values("repo_id")
    return dict(zip(names, board.ranks.rank.tolist(), strict=True))


# Numbers


def reported(by: User, repo_id: str = "lab/one") -> Report:
    return reports.report(Target(model(repo_id)), **REPORT, by=by)


def send(by: User, report: Report, ruling: dict[str, str]) -> Any:
    return client_of(by).post(f"/corrections/reports/{report.pk}/rule", ruling)


def mark() -> str:
    return model().flag_reason


def test_a_report_goes_from_the_models_page_to_the_public_log(ada: User, client: Client) -> None:
    page = client.get("/models/lab/one").text
    assert 'href="/corrections/new?model=lab%2Fone"' in page
    assert "Nothing was reported yet" in client.get("/corrections").text
    signed_in = client_of(ada)
    assert signed_in.get("/corrections/new?model=lab/one").status_code == 200
    answer = signed_in.post("/corrections/new?model=lab/one", REPORT)
    made = Report.objects.get()
    assert answer["Location"] == f"/corrections/reports/{made.pk}"
    assert REPORT["reason"] in client.get("/corrections").text, "the kept page is made anew"
    page = client.get(f"/corrections/reports/{made.pk}").text
    assert '<a href="https://example.org/paper" rel="nofollow">' in page
    assert "by ada" in text_of(page)
    assert "waits for a ruling" in page
    assert mark() == "", "one person's word changes nothing"


def test_an_upheld_report_marks_the_model_and_its_row_stays(
    ada: User, mo: User, client: Client, ranked: Suite
) -> None:
    made = reported(ada)
    words = "its card names the test set"
    answer = client_of(mo).post(
        f"/corrections/reports/{made.pk}/rule", {"ruling": "uphold", "words": words}
    )
    assert answer["Location"] == f"/corrections/reports/{made.pk}"
    assert mark() == words
    ranked_still = client.get("/models/lab/one").text
    assert 'Rank <b class="num">' in ranked_still
    assert "from the next board on, has no rank" in ranked_still
    make.publish(ranked)
    assert ranks(ranked) == {"lab/one": 0, "lab/two": 1}
    for address in ("/", "/models/lab/one"):
        assert f"Flagged: {words}" in client.get(address).text
    log = client.get("/corrections?model=lab/one").text
    assert words in log
    assert "upheld" in log
    assert "There is nothing of this kind" in client.get("/corrections?model=lab/two").text


def test_a_lifted_report_takes_its_mark_away_and_stays_listed(
    ada: User, bo: User, mo: User, client: Client
) -> None:
    first, second = reported(ada), reported(bo)
    rulings.rule(first, "uphold", "copied answers", by=mo)
    rulings.rule(second, "uphold", "copied weights", by=mo)
    assert mark() == "copied weights"
    rulings.rule(second, "lift", "the weights are its own", by=mo)
    assert mark() == "copied answers", "the other one stands"
    HubModel.objects.filter(repo_id="lab/one").update(flag_reason="by the operator")
    rulings.rule(first, "lift", "and the answers", by=mo)
    assert mark() == "by the operator", "a mark that no flag made is left"
    assert "the weights are its own" in client.get("/corrections").text


def test_a_dismissed_report_changes_nothing_and_a_withheld_one_shows_no_text(
    ada: User, bo: User, mo: User, client: Client
) -> None:
    first, second = reported(ada), reported(bo)
    rulings.rule(first, "dismiss", "the paper is about another model", by=mo)
    rulings.rule(second, "withhold", "it insults people", by=mo)
    assert mark() == ""
    for address in (f"/corrections/reports/{second.pk}", "/corrections?state=closed"):
        page = client.get(address).text
        assert "text is withheld" in page
        assert page.count(REPORT["reason"]) == ("state" in address), "that of the other one"
        assert "example.org" not in page
    assert REPORT["reason"] in client_of(mo).get(f"/corrections/reports/{second.pk}").text
    assert REPORT["reason"] in client.get(f"/corrections/reports/{first.pk}").text


def test_what_is_final_is_decided_once(ada: User, mo: User) -> None:
    made = reported(ada)
    rulings.rule(made, "dismiss", "no", by=mo)
    again = client_of(mo).post(
        f"/corrections/reports/{made.pk}/rule", {"ruling": "uphold", "words": "yes"}
    )
    assert again.status_code == 409
    stale = Report.objects.get(pk=made.pk)
    stale.state = "open"
    with pytest.raises(Refused, match="meanwhile"):
        rulings.rule(stale, "uphold", "yes", by=mo)
    assert mark() == ""


def test_nobody_decides_in_their_own_matter(lab: User, mo: User, ada: User) -> None:
    own = reported(mo)
    decision = {"ruling": "uphold", "words": "yes"}
    assert send(mo, own, decision).status_code == 403
    give(lab, Role.MODERATOR)
    of_ada = reported(ada)
    assert send(lab, of_ada, decision).status_code == 403
    assert send(ada, of_ada, decision).status_code == 403
    assert "Rule</h2>" not in client_of(mo).get(f"/corrections/reports/{own.pk}").text
    assert "Rule</h2>" in client_of(mo).get(f"/corrections/reports/{of_ada.pk}").text
    assert mark() == ""


def test_author_moderator_and_who_reported_it_answer_and_nobody_else(
    lab: User, mo: User, ada: User, bo: User, client: Client, settings: Any
) -> None:
    made = reported(ada)
    address = f"/corrections/reports/{made.pk}/answer"
    for user, side in ((lab, "author of the model"), (mo, "moderator"), (ada, "reported it")):
        assert client_of(user).post(address, {"text": f"says {user}"}).status_code == 302
        page = text_of(client.get(f"/corrections/reports/{made.pk}").text, between="")
        assert f"{user}, {side}" in page
        assert f"says {user}" in page
    assert client_of(bo).post(address, {"text": "me too"}).status_code == 403
    settings.OIDC_ID = "identity"
    refused = client_of(lab).post(address, {"text": "x"})
    assert refused.status_code == 403, "another provider's names"


def test_an_account_reports_a_model_once_at_a_time_and_so_many_in_a_day(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(ada)
    assert client.post("/corrections/new?model=lab/one", REPORT).status_code == 302
    again = client.post("/corrections/new?model=lab/one", REPORT)
    assert again.status_code == 409
    assert "there is no ruling yet" in again.text
    assert REPORT["reason"] in again.text, "what was typed stays"
    monkeypatch.setattr("leaderboard.corrections.reports.MAX_REPORTS", 1)
    more = client.post("/corrections/new?model=lab/two", REPORT)
    assert more.status_code == 409
    assert "in 24 hours" in more.text
    for _ in range(7):
        client.post("/corrections/new?model=lab/two", REPORT)
    refused = client.post("/corrections/new?model=lab/two", REPORT)
    assert refused.status_code == 429
    assert REPORT["evidence"] in refused.text
    assert Report.objects.count() == 1


def test_what_is_wrong_with_a_report_stands_at_its_field(ada: User) -> None:
    for fields, said in (
        ({"reason": " "}, "Say in one sentence"),
        ({"evidence": "\u202e\u0007 "}, "Say what shows it"),
        ({"reason": "x" * 251}, "251 characters; say it in 250"),
        ({"evidence": "x" * 2001}, "2,001 characters; say it in 2,000"),
        ({"reason": "a\0b"}, "null character"),
    ):
        answer = client_of(ada).post("/corrections/new?model=lab/one", {**REPORT, **fields})
        assert answer.status_code == 422, fields
        assert said in answer.text
    assert not Report.objects.exists()


def test_hostile_words_are_words_everywhere_and_what_people_write_is_kept(
    ada: User, mo: User, client: Client, ranked: Suite
) -> None:
    assert cleaned("  café\r\n\tعربي – 日本 👩‍🔬  ") == "café\n عربي – 日本 👩‍🔬"
    assert cleaned("a\u202eb\u2066c\u200fd\x1b[0m\ud800") == "abc\u200fd[0m"
    evil = '<script>alert(1)</script>"><img src=x onerror=alert(1)> javascript:alert(1)'
    client_of(ada).post(
        "/corrections/new?model=lab/one",
        {
            "kind": "licence",
            "reason": f"{evil}\u202e\u0008",
            "evidence": f'{evil}\r\n\r\n\r\n\r\njavascript:alert(2) https://e.org/"onclick=x '
            + "W" * 900,
        },
    )
    made = Report.objects.get()
    assert "\u202e" not in made.reason
    assert "\u0008" not in made.reason
    client_of(mo).post(f"/corrections/reports/{made.pk}/answer", {"text": evil})
    send(mo, made, {"ruling": "uphold", "words": evil})
    make.publish(ranked)
    for address in ("/corrections", f"/corrections/reports/{made.pk}", "/", "/models/lab/one"):
        page = client.get(address).text
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert 'href="javascript:' not in page
        assert "&lt;script&gt;alert(1)" in page
    assert client.get("/corrections/new?model=%3Cscript%3E").status_code == 302
    assert client_of(ada).get("/corrections/new?model=%3Cscript%3E").status_code == 404
    for state in ("", "sideways", "open"):
        decided = client_of(mo).post(
            f"/corrections/reports/{made.pk}/rule", {"ruling": state, "words": "x"}
        )
        assert decided.status_code in (409, 422)


def test_what_it_is_about_stands_with_the_report_and_in_the_log(ada: User, client: Client) -> None:
    browser = client_of(ada)
    refused = browser.post("/corrections/new?model=lab/one", REPORT | {"kind": "wish"})
    assert refused.status_code == 422
    assert "Choose what it is about" in refused.text
    browser.post("/corrections/new?model=lab/one", REPORT | {"kind": "licence"})
    made = Report.objects.get()
    assert "Licence: lab/one" in text_of(client.get(made.get_absolute_url()).text, between="")
    assert "Licence" in client.get("/corrections?kind=licence").text
    assert REPORT["reason"] not in client.get("/corrections?kind=contamination").text


def test_a_benchmark_is_reported_as_a_whole_and_a_ruling_marks_no_model(
    ada: User, bo: User, mo: User, client: Client
) -> None:
    browser = client_of(ada)
    answer = browser.post("/corrections/new?task=facts", REPORT)
    made = Report.objects.get()
    assert (made.task.name, made.hub_model, made.kind) == ("facts", None, "contamination")
    assert answer["Location"] == made.get_absolute_url()
    again = browser.post("/corrections/new?task=facts", REPORT)
    assert (again.status_code, "there is no ruling yet" in again.text) == (409, True)
    assert client_of(bo).get(made.get_absolute_url()).status_code == 200
    page = client_of(mo).get(made.get_absolute_url()).text
    assert "it is noted here, and nothing else changes" in page
    send(mo, made, {"ruling": "uphold", "words": "true, its authors say so"})
    assert "true, its authors say so" in client.get("/corrections?task=facts").text
    assert not HubModel.objects.exclude(flag_reason="").exists()


def test_an_operator_recalls_the_run_that_was_reported_and_lifting_undoes_it(
    ada: User, mo: User, client: Client, ranked: Suite
) -> None:
    run = Run.objects.filter(variant__hub_model=model()).order_by("pk")[0]
    client_of(ada).post(f"/corrections/new?run={run.pk}", REPORT)
    made = Report.objects.get()
    assert made.run == run
    ruling = {"ruling": "recall", "words": "its answers were cut off"}
    assert send(mo, made, ruling).status_code == 409, "moderators recall nothing"
    op = User.objects.create_user("op")
    give(op, Role.OPERATOR)
    assert send(op, made, ruling).status_code == 302
    run.refresh_from_db()
    assert (run.state, run.recall.reason, run.recall.by) == ("recalled", ruling["words"], "op")
    assert made.rulings.get().recall == run.recall
    assert mark() == "", "the model keeps its name"
    page = client.get(made.get_absolute_url()).text
    assert run.recall.get_absolute_url() in page
    assert "upheld: the result is recalled" in page
    lift = {"ruling": "lift", "words": "they were whole"}
    assert send(mo, made, lift).status_code == 409
    assert send(op, made, lift).status_code == 302
    run.refresh_from_db()
    assert run.state == "done"
    assert Recall.objects.get().undone_why == "they were whole"
    page = text_of(client.get(made.get_absolute_url()).text)
    assert "its answers were cut off" in page, "nothing that was said is lost"
    assert "they were whole" in page


def test_a_ruling_that_was_too_late_leaves_no_recall(ada: User, mo: User) -> None:
    run = Run.objects.filter(variant__hub_model=model()).order_by("pk")[0]
    made = reports.report(Target(model(), run), **REPORT, by=ada)
    stale = Report.objects.select_related("run").get(pk=made.pk)
    rulings.rule(made, "dismiss", "no", by=mo)
    op = User.objects.create_user("op")
    give(op, Role.OPERATOR)
    with pytest.raises(Refused, match="meanwhile"):
        rulings.rule(stale, "recall", "yes", by=op)
    run.refresh_from_db()
    assert (run.state, Recall.objects.get().stands) == ("done", False)
    assert [one.words for one in made.rulings.all()] == ["no"]


# Authors’ wishes


def test_an_author_leaves_the_ranking_and_comes_back(
    ranked: Suite, lab: User, client: Client
) -> None:
    assert ranks(ranked) == {"lab/one": 1, "lab/two": 2}
    assert "Is it yours?" in client.get("/models/lab/one").text
    assert "There is nothing of this kind" in client.get("/corrections?kind=wish").text
    author = client_of(lab)
    assert "Take it out" in author.get(CHANGE).text
    assert author.post(CHANGE, {"words": WORDS})["Location"] == "/models/lab/one"
    assert "from the next board on, has no rank" in client.get("/models/lab/one").text
    make.publish(ranked)
    assert ranks(ranked) == {"lab/one": 0, "lab/two": 1}
    board = client.get("/").text
    assert "Its author took it out of the ranking" in board
    assert 'class="flagged"' not in board, "nobody says that its numbers are wrong"
    page = client.get("/models/lab/one").text
    assert (
        'No rank: <a href="/corrections?kind=wish">Its author took it out of the ranking</a>'
        in page
    )
    assert ">out of the ranking<" in client.get("/models/lab/one?tab=versions").text
    log = client.get("/corrections?kind=wish").text
    assert WORDS in log
    assert "by its author" in log
    assert "lab-here" in log
    assert author.post(CHANGE, {"back": "1"})["Location"] == "/models/lab/one"
    make.publish(ranked)
    assert ranks(ranked) == {"lab/one": 1, "lab/two": 2}
    log = client.get("/corrections?kind=wish&model=lab/one").text
    assert "came back" in log
    assert WORDS in log, "it stays listed"
    assert WORDS not in client.get("/corrections?kind=wish&model=lab/two").text


def test_what_the_model_waits_for_is_stopped_and_nothing_queues_it_again(
    ranked: Suite, lab: User
) -> None:
    entries = list(ranked.entries.select_related("task"))
    variant = make.make_variant("lab/one", commit="f" * 40)
    waiting = make.queued_run(variant, entries[0])
    running = make.start(make.queued_run(variant, entries[1]), 1, 40)
    other = make.queued_run(make.make_variant("lab/other"), entries[0])
    key = entries[0].comparability_key
    assert items.results_of(key).count() == 2
    rulings.take_out(model(), WORDS, by=lab)
    (left,) = items.results_of(key)
    assert left.run.variant.hub_model.repo_id == "lab/two", "it is no reference for questions"
    states = dict(Run.objects.values_list("pk", "state"))
    assert states[waiting.pk] == states[running.pk] == State.CANCELLED
    assert states[other.pk] == State.QUEUED
    assert waiting.events.latest("pk").why == rulings.STOPPED
    assert not claims.retry(waiting, by="an operator")
    done = Run.objects.filter(state=State.DONE)
    ordered = reruns.rerun(done.select_related("variant", "task"), by="ops", reason="again")
    assert ordered.departed == 2
    assert {run.variant.hub_model.repo_id for run in ordered.queued} == {"lab/two"}
    rulings.bring_back(model(), by=lab)
    assert claims.retry(waiting, by="an operator")


@pytest.mark.usefixtures("hub")
def test_nobody_can_submit_it_while_it_is_out(settings: Any, client: Client) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    author = vouched(settings, "awkward-here", {"name": "awkward"})
    tiny = "awkward/tiny-llama"
    first = submissions.submit(tiny, user=AnonymousUser())
    rulings.take_out(first.variant.hub_model, WORDS, by=author)
    with pytest.raises(submissions.NotSubmitted, match="took it out of the ranking"):
        submissions.submit(tiny, user=AnonymousUser())
    form = client.get("/submit", {"model": tiny}).text
    assert "The author of awkward/tiny-llama took it out of the ranking" in form
    assert set(first.runs.values_list("state", flat=True)) == {State.CANCELLED}
    rulings.bring_back(model(tiny), by=author)
    again = submissions.submit(tiny, user=AnonymousUser())
    assert set(again.runs.values_list("state", flat=True)) == {State.QUEUED}


@pytest.mark.usefixtures("hub")
def test_who_leaves_between_a_check_and_its_submission_is_not_submitted(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    author = vouched(settings, "awkward-here", {"name": "awkward"})
    gone = HubModel.objects.create(repo_id="awkward/tiny-llama")
    checked = submissions.precheck.check

    def check(*typed: Any, **options: Any) -> Any:
        found = checked(*typed, **options)
        rulings.take_out(gone, WORDS, by=author)
        return found

    monkeypatch.setattr(submissions.precheck, "check", check)
    with pytest.raises(submissions.NotSubmitted, match="took it out of the ranking"):
        submissions.submit("awkward/tiny-llama", user=AnonymousUser())
    assert not Run.objects.filter(variant__hub_model=gone).exists()


def test_a_moderator_acts_for_an_author_and_nobody_else_does(
    ada: User, mo: User, client: Client, settings: Any
) -> None:
    told = client_of(ada).get(CHANGE).text
    assert "Only its author can do this" in told
    assert "Take it out</button>" not in told
    assert client_of(ada).post(CHANGE, {"words": WORDS}).status_code == 403
    other = vouched(settings, "two", {"name": "laboratory"})
    assert client_of(other).post(CHANGE, {"words": WORDS}).status_code == 403
    assert not model().departed
    assert client_of(mo).post(CHANGE, {"words": WORDS}).status_code == 302
    assert "by a moderator, for its author" in client.get("/corrections?kind=wish").text
    assert client_of(ada).post(CHANGE, {"back": "1"}).status_code == 403
    assert model().departed
    with pytest.raises(PermissionError):
        rulings.bring_back(model(), by=ada)


def test_it_is_done_once_and_what_is_wrong_stands_at_its_field(lab: User) -> None:
    author = client_of(lab)
    for words, said in (
        ("", "Say why in one sentence"),
        ("x" * 251, "251 characters; say it in 250"),
        ("\u202e", "Say why in one sentence"),
    ):
        answer = author.post(CHANGE, {"words": words})
        assert answer.status_code == 422
        assert said in answer.text
    back = author.post(CHANGE, {"back": "1"})
    assert back.status_code == 409
    assert "in the ranking already" in back.text
    assert author.post(CHANGE, {"words": "<script>alert(1)</script>"}).status_code == 302
    again = author.post(CHANGE, {"words": WORDS})
    assert again.status_code == 409
    assert "out of the ranking already" in again.text
    with pytest.raises(Refused):
        rulings.take_out(model(), WORDS, by=lab)
    assert Report.objects.filter(kind="wish").count() == 1
    for address in ("/corrections?kind=wish", "/models/lab/one", CHANGE):
        page = author.get(address).text
        assert "<script>alert" not in page
    assert author.get("/corrections/new?kind=wish&model=nobody/none").status_code == 404


def test_who_may_write_for_an_organisation_is_the_author_of_its_models(settings: Any) -> None:
    for number, (told, author) in enumerate(
        (
            ({"roleInOrg": "admin"}, True),
            ({"roleInOrg": "write"}, True),
            ({"roleInOrg": "contributor"}, False),
            ({}, False),  # not granted: Hugging Face tells no role
            ({"roleInOrg": "admin", "securityRestrictions": ["mfa"]}, False),
            ({"roleInOrg": "admin", "preferred_username": "laboratory"}, False),
        )
    ):
        organisation = {"sub": "5", "name": "The Lab", "preferred_username": "Lab", **told}
        kept = kept_of({"sub": "7", "preferred_username": "ada", "orgs": [organisation]})
        user = vouched(settings, f"ada-{number}", kept)
        assert (rulings.side_in_ranking(model(), user) == "author") == author, told
    for orgs in (None, "lab", [None, "lab", 7], {"a": 1}, [{"roleInOrg": "admin"}]):
        assert kept_of({"preferred_username": "ada", "orgs": orgs}) == {"name": "ada"}


def test_a_deleted_account_leaves_its_reports_and_rulings_without_its_name(
    lab: User, client: Client
) -> None:
    made = reported(lab, "lab/two")
    rulings.take_out(model(), WORDS, by=lab)
    told = client_of(lab).get("/account/export.json").json()
    assert [one["reason"] for one in told["reports"] if one["kind"] != "wish"] == [REPORT["reason"]]
    assert [one["words"] for one in told["rulings"]] == [WORDS]
    client_of(lab).post("/account/delete", {"name": "lab-here"})
    for address in (f"/corrections/reports/{made.pk}", "/corrections?kind=wish"):
        page = client.get(address).text
        assert "a deleted account" in page
        assert "lab-here" not in page
