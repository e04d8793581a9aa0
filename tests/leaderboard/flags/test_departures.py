"""An author takes a model out of the ranking and brings it back; all else stays readable."""

from __future__ import annotations

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import AnonymousUser
from django.test import Client

from leaderboard.accounts.told import kept_of
from leaderboard.flags import departures
from leaderboard.flags.order import Refused
from leaderboard.models import Departure, HubModel, Role, Run, Suite, User, give
from leaderboard.models.run import State
from leaderboard.queue import claims, reruns
from leaderboard.snapshot import OWN, published
from leaderboard.submissions import submit as submissions
from leaderboard.tasks import items
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db

CHANGE = "/departures/change?model=lab/one"
WORDS = "It was a draft, and a better one is coming"


@pytest.fixture
def ranked(settings: Any, one_minute: None) -> Suite:
    """lab/one ranked before lab/two."""
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze", "mmlu"))
    make.evaluated("lab/one", suite, {"cloze": 0.9, "mmlu": 0.7})
    make.evaluated("lab/two", suite, {"cloze": 0.5, "mmlu": 0.4})
    make.publish(suite)
    return suite


@pytest.fixture
def lab(settings: Any) -> User:
    return vouched(settings, "lab-here", {"name": "Lab"})


def vouched(settings: Any, name: str, told: Any) -> User:
    """Somebody of whom Hugging Face told this."""
    settings.OIDC_ID = "huggingface"
    user = User.objects.create_user(name)
    SocialAccount.objects.create(user=user, provider="huggingface", uid=name, extra_data=told)
    return user


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def model(repo_id: str = "lab/one") -> HubModel:
    return HubModel.objects.get(repo_id=repo_id)


def ranks(suite: Suite) -> dict[str, int]:
    board = published.newest(suite, OWN)
    assert board is not None
    names = board.models.values("repo_id")
    return dict(zip(names, board.ranks.rank.tolist(), strict=True))


def test_an_author_leaves_the_ranking_and_comes_back(
    ranked: Suite, lab: User, client: Client
) -> None:
    assert ranks(ranked) == {"lab/one": 1, "lab/two": 2}
    assert "Is it yours?" in client.get("/models/lab/one").text
    assert "No author has taken a model out" in client.get("/departures").text
    author = of(lab)
    assert "Take it out" in author.get(CHANGE).text
    assert author.post(CHANGE, {"words": WORDS})["Location"] == "/models/lab/one"
    assert "from the next board on, has no rank" in client.get("/models/lab/one").text
    make.publish(ranked)
    assert ranks(ranked) == {"lab/one": 0, "lab/two": 1}
    board = client.get("/").text
    assert "Its author took it out of the ranking" in board
    assert 'class="flagged"' not in board, "nobody says that its numbers are wrong"
    page = client.get("/models/lab/one").text
    assert 'No rank: <a href="/departures">Its author took it out of the ranking</a>' in page
    assert "none: out of the ranking" in page
    log = client.get("/departures").text
    assert WORDS in log
    assert "by lab-here: its author" in log
    assert author.post(CHANGE, {"back": "1"})["Location"] == "/models/lab/one"
    make.publish(ranked)
    assert ranks(ranked) == {"lab/one": 1, "lab/two": 2}
    log = client.get("/departures?model=lab/one").text
    assert "came back" in log
    assert WORDS in log, "it stays listed"
    assert WORDS not in client.get("/departures?model=lab/two").text


def test_what_the_model_waits_for_is_stopped_and_nothing_queues_it_again(
    ranked: Suite, lab: User
) -> None:
    entries = list(ranked.entries.select_related("task"))
    variant = make.make_variant("lab/one", commit="f" * 40)
    waiting = make.queued_run(variant, entries[0])
    running = make.start(make.queued_run(variant, entries[1]), 1, 40)
    other = make.queued_run(make.make_variant("lab/other"), entries[0])
    departures.leave(model(), WORDS, by=lab)
    states = dict(Run.objects.values_list("pk", "state"))
    assert states[waiting.pk] == states[running.pk] == State.CANCELLED
    assert states[other.pk] == State.QUEUED
    assert waiting.events.latest("pk").why == departures.WHY
    assert not claims.retry(waiting, by="an operator")
    done = Run.objects.filter(state=State.DONE)
    ordered = reruns.rerun(done.select_related("variant", "task"), by="ops", reason="again")
    assert ordered.departed == 2
    assert {run.variant.hub_model.repo_id for run in ordered.queued} == {"lab/two"}
    departures.come_back(model(), by=lab)
    assert claims.retry(waiting, by="an operator")


def test_it_is_no_reference_for_questions_and_sisters(ranked: Suite, lab: User) -> None:
    (entry,) = ranked.entries.filter(task__style="cloze")
    assert items.results_of(entry.comparability_key).count() == 2
    departures.leave(model(), WORDS, by=lab)
    (left,) = items.results_of(entry.comparability_key)
    assert left.run.variant.hub_model.repo_id == "lab/two"


@pytest.mark.usefixtures("hub", "suite")
def test_nobody_can_submit_it_while_it_is_out(settings: Any, client: Client) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    author = vouched(settings, "awkward-here", {"name": "awkward"})
    tiny = "awkward/tiny-llama"
    first = submissions.submit(tiny, user=AnonymousUser())
    departures.leave(first.variant.hub_model, WORDS, by=author)
    with pytest.raises(submissions.NotSubmitted, match="took it out of the ranking"):
        submissions.submit(tiny, user=AnonymousUser())
    form = client.get("/submit", {"model": tiny}).text
    assert "The author of awkward/tiny-llama took it out of the ranking" in form
    assert Run.objects.exclude(state=State.CANCELLED).count() == 0
    departures.come_back(model(tiny), by=author)
    again = submissions.submit(tiny, user=AnonymousUser())
    assert set(again.runs.values_list("state", flat=True)) == {State.QUEUED}


@pytest.mark.usefixtures("hub", "suite")
def test_who_leaves_between_a_check_and_its_submission_is_not_submitted(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    author = vouched(settings, "awkward-here", {"name": "awkward"})
    gone = HubModel.objects.create(repo_id="awkward/tiny-llama")
    checked = submissions.precheck.check

    def check(*typed: Any, **options: Any) -> Any:
        found = checked(*typed, **options)
        departures.leave(gone, WORDS, by=author)
        return found

    monkeypatch.setattr(submissions.precheck, "check", check)
    with pytest.raises(submissions.NotSubmitted, match="took it out of the ranking"):
        submissions.submit("awkward/tiny-llama", user=AnonymousUser())
    assert not Run.objects.exists()


def test_a_moderator_acts_for_an_author_and_nobody_else_does(
    ranked: Suite, ada: User, client: Client, settings: Any
) -> None:
    mo = User.objects.create_user("mo")
    give(mo, Role.MODERATOR)
    assert client.get(CHANGE)["Location"].startswith("/accounts/login?")
    told = of(ada).get(CHANGE).text
    assert "Only its author can do this" in told
    assert "Take it out</button>" not in told
    assert of(ada).post(CHANGE, {"words": WORDS}).status_code == 403
    other = vouched(settings, "two", {"name": "laboratory"})
    assert of(other).post(CHANGE, {"words": WORDS}).status_code == 403
    assert not model().departed
    assert of(mo).post(CHANGE, {"words": WORDS}).status_code == 302
    assert "a moderator, for its author" in client.get("/departures").text
    assert of(ada).post(CHANGE, {"back": "1"}).status_code == 403
    assert model().departed
    with pytest.raises(PermissionError):
        departures.come_back(model(), by=ada)


def test_it_is_done_once_and_what_is_wrong_stands_at_its_field(ranked: Suite, lab: User) -> None:
    author = of(lab)
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
    evil = '<script>alert(1)</script>"><img src=x>'
    assert author.post(CHANGE, {"words": evil}).status_code == 302
    again = author.post(CHANGE, {"words": WORDS})
    assert again.status_code == 409
    assert "out of the ranking already" in again.text
    with pytest.raises(Refused):
        departures.leave(model(), WORDS, by=lab)
    assert Departure.objects.count() == 1
    for address in ("/departures", "/models/lab/one", CHANGE):
        page = author.get(address).text
        assert "<script>alert" not in page
        assert "<img src=x" not in page
    assert author.get("/departures/change?model=nobody/none").status_code == 404


@pytest.mark.parametrize(
    ("told", "author"),
    [
        ({"roleInOrg": "admin"}, True),
        ({"roleInOrg": "write"}, True),
        ({"roleInOrg": "contributor"}, False),
        ({"roleInOrg": "read"}, False),
        ({}, False),  # not granted: Hugging Face tells no role
        ({"roleInOrg": "admin", "securityRestrictions": ["mfa"]}, False),
        ({"roleInOrg": "admin", "preferred_username": "laboratory"}, False),
    ],
    ids=lambda told: str(told),
)
def test_who_may_write_for_an_organisation_is_the_author_of_its_models(
    ranked: Suite, settings: Any, told: dict[str, Any], author: bool
) -> None:
    organisation = {"sub": "5", "name": "The Lab", "preferred_username": "Lab", **told}
    kept = kept_of({"sub": "7", "preferred_username": "ada", "orgs": [organisation]})
    user = vouched(settings, "ada-here", kept)
    assert (departures.side_of(model(), user) == "author") == author


@pytest.mark.parametrize(
    "orgs", [None, "lab", [None, "lab", 7], {"a": 1}, [{"roleInOrg": "admin"}]], ids=str
)
def test_what_no_provider_tells_makes_nobody_an_author(orgs: Any) -> None:
    assert kept_of({"preferred_username": "ada", "orgs": orgs}) == {"name": "ada"}


def test_a_deleted_account_leaves_its_departures_without_its_name(
    ranked: Suite, lab: User, client: Client
) -> None:
    departures.leave(model(), WORDS, by=lab)
    told = of(lab).get("/account/export.json").json()
    assert [one["words"] for one in told["departures"]] == [WORDS]
    of(lab).post("/account/delete", {"name": "lab-here"})
    page = client.get("/departures").text
    assert "a deleted account" in page
    assert "lab-here" not in page
