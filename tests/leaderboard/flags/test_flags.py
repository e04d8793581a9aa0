"""Flags: anybody signed in raises one, its author answers, a moderator decides, all read it."""

from __future__ import annotations

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client

from leaderboard import flags
from leaderboard.flags.order import cleaned
from leaderboard.models import Flag, HubModel, Role, Suite, User, give
from leaderboard.snapshot import OWN, published
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db

WORDS = {"reason": "It was trained on the questions", "evidence": "See https://example.org/paper"}


@pytest.fixture(autouse=True)
def suite(settings: Any, one_minute: None) -> Suite:
    """lab/one ranked before lab/two."""
    settings.PLUMBLINE_SUITE = "demo"
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
    settings.OIDC_ID = "huggingface"
    lab = User.objects.create_user("lab-here")
    SocialAccount.objects.create(
        user=lab, provider="huggingface", uid="7", extra_data={"name": "Lab"}
    )
    return lab


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def raised(by: User, model: str = "lab/one") -> Flag:
    return flags.raise_flag(HubModel.objects.get(repo_id=model), **WORDS, by=by)


def mark(model: str = "lab/one") -> str:
    return HubModel.objects.get(repo_id=model).flag_reason


def test_a_flag_goes_from_the_models_page_to_the_public_log(ada: User, client: Client) -> None:
    page = client.get("/models/lab/one").text
    assert 'href="/flags/new?model=lab%2Fone"' in page
    assert client.get("/flags/new?model=lab%2Fone")["Location"].startswith("/accounts/login?")
    assert "There are no such flags" in client.get("/flags").text
    signed_in = of(ada)
    assert signed_in.get("/flags/new?model=lab/one").status_code == 200
    answer = signed_in.post("/flags/new?model=lab/one", WORDS)
    made = Flag.objects.get()
    assert answer["Location"] == f"/flags/{made.pk}"
    assert WORDS["reason"] in client.get("/flags").text, "the kept page is made anew"
    page = client.get(f"/flags/{made.pk}").text
    assert '<a href="https://example.org/paper" rel="nofollow">' in page
    assert "by ada" in page
    assert "not decided yet" in page
    assert mark() == "", "one person's word changes nothing"


def test_an_upheld_flag_marks_the_model_and_its_row_stays(
    ada: User, mo: User, client: Client, suite: Suite
) -> None:
    make.publish(suite)
    made = raised(ada)
    words = "its card names the test set"
    answer = of(mo).post(f"/flags/{made.pk}/decide", {"state": "upheld", "words": words})
    assert answer["Location"] == f"/flags/{made.pk}"
    assert mark() == words
    ranked_still = client.get("/models/lab/one").text
    assert "Rank <b>" in ranked_still
    assert "from the next board on, has no rank" in ranked_still
    make.publish(suite)
    board = published.newest(suite, OWN)
    assert board is not None
    row = board.models.values("repo_id").index("lab/one")
    assert board.ranks.rank[row] == 0
    page = client.get("/").text
    assert f"Flagged: {words}" in page
    assert 'class="flagged"' in page
    assert "lab/" in page
    model = client.get("/models/lab/one").text
    assert f"Flagged: {words}" in model
    assert "it has no rank" in model
    log = client.get("/flags?model=lab/one").text
    assert words in log
    assert "upheld" in log
    assert "There are no such flags" in client.get("/flags?model=lab/two").text


def test_a_lifted_flag_takes_its_mark_away_and_stays_listed(
    ada: User, bo: User, mo: User, client: Client
) -> None:
    first, second = raised(ada), raised(bo)
    flags.decide(first, "upheld", "copied answers", by=mo)
    flags.decide(second, "upheld", "copied weights", by=mo)
    assert mark() == "copied weights"
    flags.decide(second, "lifted", "the weights are its own", by=mo)
    assert mark() == "copied answers", "the other one stands"
    flags.decide(first, "lifted", "and the answers", by=mo)
    assert mark() == ""
    assert "the weights are its own" in client.get("/flags").text


def test_lifting_leaves_a_mark_that_an_operator_wrote(ada: User, mo: User) -> None:
    made = raised(ada)
    flags.decide(made, "upheld", "copied", by=mo)
    HubModel.objects.filter(repo_id="lab/one").update(flag_reason="by the operator")
    flags.decide(made, "lifted", "not copied", by=mo)
    assert mark() == "by the operator"


def test_a_dismissed_flag_changes_nothing_and_a_withheld_one_shows_no_text(
    ada: User, bo: User, mo: User, client: Client
) -> None:
    first, second = raised(ada), raised(bo)
    flags.decide(first, "dismissed", "the paper is about another model", by=mo)
    flags.decide(second, "withheld", "it insults people", by=mo)
    assert mark() == ""
    for address in (f"/flags/{second.pk}", "/flags?state=withheld"):
        page = client.get(address).text
        assert "withheld" in page
        assert WORDS["reason"] not in page
        assert "example.org" not in page
    assert WORDS["reason"] in of(mo).get(f"/flags/{second.pk}").text
    assert WORDS["reason"] in client.get(f"/flags/{first.pk}").text


def test_what_is_final_is_decided_once(ada: User, mo: User) -> None:
    made = raised(ada)
    flags.decide(made, "dismissed", "no", by=mo)
    again = of(mo).post(f"/flags/{made.pk}/decide", {"state": "upheld", "words": "yes"})
    assert again.status_code == 409
    assert mark() == ""
    stale = Flag.objects.get(pk=made.pk)
    stale.state = "open"
    with pytest.raises(flags.Refused, match="meanwhile"):
        flags.decide(stale, "upheld", "yes", by=mo)
    assert mark() == ""


def test_nobody_decides_in_their_own_matter(lab: User, mo: User, ada: User) -> None:
    own = raised(mo)
    decision = {"state": "upheld", "words": "yes"}
    assert of(mo).post(f"/flags/{own.pk}/decide", decision).status_code == 403
    give(lab, Role.MODERATOR)
    of_ada = raised(ada)
    assert of(lab).post(f"/flags/{of_ada.pk}/decide", decision).status_code == 403
    assert of(ada).post(f"/flags/{of_ada.pk}/decide", decision).status_code == 403
    assert "Decide</h2>" not in of(mo).get(f"/flags/{own.pk}").text
    assert "Decide</h2>" in of(mo).get(f"/flags/{of_ada.pk}").text
    assert mark() == ""


def test_author_moderator_and_who_raised_it_answer_and_nobody_else(
    lab: User, mo: User, ada: User, bo: User, client: Client, settings: Any
) -> None:
    made = raised(ada)
    address = f"/flags/{made.pk}/answer"
    for user, side in ((lab, "author of the model"), (mo, "moderator"), (ada, "raised it")):
        assert of(user).post(address, {"text": f"says {user}"}).status_code == 302
        page = " ".join(client.get(f"/flags/{made.pk}").text.split())
        assert f"{user}, {side}" in page
        assert f"says {user}" in page
    assert of(bo).post(address, {"text": "me too"}).status_code == 403
    assert client.post(address, {"text": "me too"})["Location"].startswith("/accounts/login?")
    settings.OIDC_ID = "identity"
    assert of(lab).post(address, {"text": "x"}).status_code == 403, "another provider's names"


def test_an_account_flags_a_model_once_at_a_time_and_so_many_in_a_day(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = of(ada)
    assert client.post("/flags/new?model=lab/one", WORDS).status_code == 302
    again = client.post("/flags/new?model=lab/one", WORDS)
    assert again.status_code == 409
    assert "not decided yet" in again.text
    assert WORDS["reason"] in again.text, "what was typed stays"
    monkeypatch.setattr("leaderboard.flags.order.FLAGS", 1)
    more = client.post("/flags/new?model=lab/two", WORDS)
    assert more.status_code == 409
    assert "in 24 hours" in more.text
    for _ in range(7):
        client.post("/flags/new?model=lab/two", WORDS)
    refused = client.post("/flags/new?model=lab/two", WORDS)
    assert refused.status_code == 429
    assert WORDS["evidence"] in refused.text
    assert Flag.objects.count() == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reason": " "}, "Say in one sentence"),
        ({"evidence": "\u202e\u0007 "}, "Say what shows it"),
        ({"reason": "x" * 251}, "251 characters; say it in 250"),
        ({"evidence": "x" * 2001}, "2,001 characters; say it in 2,000"),
        ({"reason": "a\0b"}, "null character"),
    ],
)
def test_what_is_wrong_with_a_flag_stands_at_its_field(
    ada: User, fields: dict[str, str], said: str
) -> None:
    answer = of(ada).post("/flags/new?model=lab/one", {**WORDS, **fields})
    assert answer.status_code == 422
    assert said in answer.text
    assert not Flag.objects.exists()


def test_hostile_words_are_words_everywhere(
    ada: User, mo: User, client: Client, suite: Suite
) -> None:
    evil = '<script>alert(1)</script>"><img src=x onerror=alert(1)> javascript:alert(1)'
    of(ada).post(
        "/flags/new?model=lab/one",
        {
            "reason": f"{evil}\u202e\u0008",
            "evidence": f'{evil}\r\n\r\n\r\n\r\njavascript:alert(2) https://e.org/"onclick=x '
            + "W" * 900,
        },
    )
    made = Flag.objects.get()
    assert "\u202e" not in made.reason
    assert "\u0008" not in made.reason
    of(mo).post(f"/flags/{made.pk}/answer", {"text": evil})
    of(mo).post(f"/flags/{made.pk}/decide", {"state": "upheld", "words": evil})
    make.publish(suite)
    for address in ("/flags", f"/flags/{made.pk}", "/", "/models/lab/one"):
        page = client.get(address).text
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert 'href="javascript:' not in page
        assert "&lt;script&gt;alert(1)" in page
    assert client.get("/flags/new?model=%3Cscript%3E").status_code == 302
    assert of(ada).get("/flags/new?model=%3Cscript%3E").status_code == 404
    for state in ("", "sideways", "open"):
        decided = of(mo).post(f"/flags/{made.pk}/decide", {"state": state, "words": "x"})
        assert decided.status_code in (409, 422)


def test_cleaning_keeps_what_people_write() -> None:
    assert cleaned("  café\r\n\tعربي – 日本 👩‍🔬  ") == "café\n عربي – 日本 👩‍🔬"
    assert cleaned("a\u202eb\u2066c\u200fd\x1b[0m\ud800") == "abc\u200fd[0m"


def test_a_deleted_account_leaves_its_flags_without_its_name(
    ada: User, mo: User, client: Client
) -> None:
    made = raised(ada)
    signed_in = of(ada)
    told = signed_in.get("/account/export.json").json()
    assert [one["reason"] for one in told["flags"]] == [WORDS["reason"]]
    signed_in.post("/account/delete", {"name": "ada"})
    page = client.get(f"/flags/{made.pk}").text
    assert "a deleted account" in page
    assert "ada" not in page.split("<main")[1].split("</main>")[0].replace("leaderboard", "")
