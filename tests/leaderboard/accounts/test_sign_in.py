"""Accounts with a password, and signing in at an OpenID provider, whose answer can be wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from allauth.socialaccount.models import SocialAccount
from cryptography.hazmat.primitives.asymmetric import rsa
from django.core import mail
from django.core.cache import cache
from django.test import Client

from leaderboard.models import Role, User, role_of
from tests.leaderboard.accounts.provider import CLIENT, Provider, serve, settings_of
from tests.services import free_port

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]

ADA = {"username": "ada", "email": "ada@example.org", "password1": "a long pass phrase"}
SIGN_IN = {"login": "ada", "password": "a long pass phrase"}


@pytest.fixture(autouse=True)
def _mail(settings: Any) -> None:
    settings.PLUMBLINE_MAIL_URL = "smtp://mail.example.org"
    cache.clear()


def link() -> str:
    """The address in the newest message."""
    found = re.search(r"http://testserver(\S+)", str(mail.outbox[-1].body))
    assert found, mail.outbox[-1].body
    return found[1]


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_an_account_is_used_only_once_its_address_is_confirmed(client: Client) -> None:
    assert client.post("/accounts/new", ADA)["Location"] == "/accounts/confirm"
    assert not signed_in(client)
    assert client.post("/accounts/login", SIGN_IN)["Location"] == "/accounts/confirm"
    assert not signed_in(client)
    assert (mail.outbox[0].to, mail.outbox[0].subject) == (
        ["ada@example.org"],
        "[Plumbline] Confirm your address",
    )
    page = client.get(link())
    assert "<b>ada@example.org</b> belongs to the account ada" in page.text
    client.post("/accounts/login", SIGN_IN)
    assert not signed_in(client), "to look at the link confirms nothing"
    assert client.post(link())["Location"] == "/accounts/login"
    assert client.post("/accounts/login", SIGN_IN)["Location"] == "/"
    assert signed_in(client)
    page = client.get("/account").text
    assert "ada@example.org" in page
    assert "not confirmed" not in page


def test_what_is_wrong_with_a_new_account_stands_at_its_field(client: Client) -> None:
    User.objects.create_user("ada")
    for fields, said in (
        ({"username": "bo@example.org"}, "A name has 2 to 40 letters"),
        ({"username": "Ada"}, "already exists"),
        ({"email": "nonsense"}, "valid email"),
        ({"password1": "12345678"}, "too common"),
    ):
        answer = client.post("/accounts/new", {**ADA, "username": "bo", **fields})
        assert answer.status_code == 200
        assert said in answer.text
    assert User.objects.count() == 1


def test_nobody_learns_from_the_form_who_has_an_account(client: Client) -> None:
    client.post("/accounts/new", ADA)
    client.post(link())
    cache.clear()  # mail to one address goes out once in three minutes
    again = client.post("/accounts/new", {**ADA, "username": "bo"})
    assert again["Location"] == "/accounts/confirm"
    assert User.objects.count() == 1
    assert "There is one already" in str(mail.outbox[-1].body)
    for address in ("ada@example.org", "nobody@example.org"):
        answer = client.post("/accounts/password", {"email": address})
        assert answer["Location"] == "/accounts/password/sent"


def test_a_forgotten_password_is_chosen_anew_once(client: Client) -> None:
    client.post("/accounts/new", ADA)
    client.post(link())
    client.post("/accounts/password", {"email": "ada@example.org"})
    reset = link()
    form = client.get(reset, follow=True)
    chosen = {"password1": "another pass phrase", "password2": "another pass phrase"}
    done = client.post(form.redirect_chain[-1][0], chosen, follow=True)
    assert "The password is changed" in done.text
    assert "This link is used up" in Client().get(reset, follow=True).text
    assert not User.objects.get().check_password("a long pass phrase")
    client.post("/accounts/login", {**SIGN_IN, "password": "another pass phrase"})
    assert signed_in(client)


def test_one_account_is_not_tried_with_many_passwords(client: Client) -> None:
    User.objects.create_user("ada", password="a long pass phrase")
    for number in range(5):
        client.post("/accounts/login", {**SIGN_IN, "password": f"wrong {number}"})
    # From elsewhere, with the right one: it is the account that is tried too often.
    elsewhere = Client(REMOTE_ADDR="192.0.2.7")
    answer = elsewhere.post("/accounts/login", SIGN_IN)
    assert "Too many failed login attempts" in answer.text
    assert not signed_in(elsewhere)


def test_without_mail_no_account_is_made_here(client: Client, settings: Any) -> None:
    settings.PLUMBLINE_MAIL_URL, settings.DEBUG = "", False
    assert "made by whoever runs this site" in client.get("/accounts/login").text
    assert "No new accounts" in client.get("/accounts/new").text
    assert "No new accounts" in client.post("/accounts/new", ADA).text
    assert not User.objects.exists()


@pytest.fixture
def no_mail(settings: Any) -> None:
    """The server of mail cannot be reached."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()


SAID = "mail server takes no messages at the moment"


@pytest.mark.usefixtures("no_mail")
def test_where_no_mail_goes_out_nothing_is_made_and_what_was_typed_stays(
    client: Client, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    answer = client.post("/accounts/new", ADA)
    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0
    assert SAID in answer.text
    assert 'value="ada"' in answer.text
    assert 'value="ada@example.org"' in answer.text
    assert "a long pass phrase" not in answer.text
    assert not User.objects.exists()
    assert "PLUMBLINE_MAIL_URL, ConnectionRefusedError" in caplog.text
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    client.post("/accounts/new", ADA)
    assert [message.to for message in mail.outbox] == [["ada@example.org"]], "at the next try"


def test_where_no_mail_goes_out_nobody_learns_who_has_an_account(
    client: Client, request: pytest.FixtureRequest
) -> None:
    client.post("/accounts/new", ADA)
    cache.clear()
    request.getfixturevalue("no_mail")
    unconfirmed = client.post("/accounts/login", SIGN_IN)
    assert unconfirmed.status_code == 503
    assert SAID in unconfirmed.text
    assert not signed_in(client)
    client.post(link())
    cache.clear()
    of_ada = client.post("/accounts/new", {**ADA, "username": "bo"})
    of_nobody = client.post("/accounts/new", {**ADA, "username": "bo", "email": "bo@example.org"})
    assert of_ada.status_code == of_nobody.status_code == 503
    assert User.objects.count() == 1
    for email in ("ada@example.org", "cy@example.org"):
        forgotten = client.post("/accounts/password", {"email": email})
        assert forgotten.status_code == 503
        assert SAID in forgotten.text
        assert f'value="{email}"' in forgotten.text


def test_who_signs_in_goes_on_with_the_page_that_led_there(client: Client) -> None:
    User.objects.create_user("ada", password="a long pass phrase")
    for before, after in (
        ("http://testserver/queue?state=done#a", "/queue?state=done"),
        ("http://testserver/accounts/password/changed", "/"),
        ("http://elsewhere.example/queue", "/"),
        ("http://testserver//elsewhere.example/", "/"),
        ("http://testserver@elsewhere.example/queue", "/"),
        ("", "/"),
    ):
        page = client.get("/accounts/login", headers={"referer": before}).text
        found = re.search(r'name="next" value="([^"]*)"', page)
        answer = client.post("/accounts/login", {**SIGN_IN, "next": found[1]})
        assert answer["Location"] == after, before
        client.logout()
        cache.clear()


# At a provider


LOGIN = "/accounts/identity/login"


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with serve("http://testserver/accounts/identity/callback") as running:
        yield running


@pytest.fixture
def provider(running: Provider, settings: Any) -> Provider:
    settings.PLUMBLINE_OIDC_CLIENT_ID = CLIENT
    settings.OIDC_ID, settings.OIDC_NAME = "identity", "The identity"
    settings.SOCIALACCOUNT_PROVIDERS = settings_of(running, settings.SOCIALACCOUNT_PROVIDERS)
    running.reset()
    cache.clear()
    return running


def leave(client: Client, query: str = "") -> str:
    """Press the button; where it leads to."""
    answer = client.post(LOGIN + query, {"next": "/queue"})
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "no-store"
    (refresh,) = re.findall(r'http-equiv="refresh" content="0; url=([^"]+)"', answer.text)
    assert f'<a href="{refresh}">' in answer.text
    return unescape(refresh)


def at_the_provider(address: str) -> str:
    """Be there as ada; the path and query by which one comes back."""
    answer = requests.get(address, allow_redirects=False, timeout=20)
    assert answer.status_code == 302, answer.text
    back = urlsplit(answer.headers["Location"])
    assert back.path == "/accounts/identity/callback"
    return f"{back.path}?{back.query}"


def test_who_the_provider_knows_has_an_account_here_and_is_led_back(
    client: Client, provider: Provider
) -> None:
    assert "Sign in with The identity" in client.get("/accounts/login").text
    answer = client.get(at_the_provider(leave(client)))
    assert answer["Location"] == "/queue"
    ada = User.objects.get()
    assert (ada.username, ada.email, role_of(ada)) == ("ada", "", Role.SUBMITTER)
    assert not ada.has_usable_password()
    # Another time it is the same account.
    other = Client()
    other.get(at_the_provider(leave(other)))
    assert signed_in(other)
    assert User.objects.count() == 1
    assert SocialAccount.objects.get().extra_data == {"name": "ada"}
    assert "With The identity, as ada" in other.get("/account").text


def test_of_organisations_those_are_kept_that_let_her_write(
    client: Client, provider: Provider
) -> None:
    """As Hugging Face tells them: a role only where she lets this site know it."""
    provider.told = {
        "orgs": [
            {"sub": "1", "name": "The Lab", "preferred_username": "lab", "roleInOrg": "write"},
            {"sub": "2", "name": "Readers", "preferred_username": "readers", "roleInOrg": "read"},
            {"sub": "3", "name": "Not granted", "preferred_username": "hidden"},
        ],
        "email": "ada@example.org",
    }
    client.get(at_the_provider(leave(client)))
    assert signed_in(client)
    told = SocialAccount.objects.get()
    assert told.extra_data == {"name": "ada", "organisations": ["lab"]}
    # She left the organisation: the next signing in forgets it.
    provider.told = {}
    again = Client()
    again.get(at_the_provider(leave(again)))
    told.refresh_from_db()
    assert told.extra_data == {"name": "ada"}


def test_a_name_that_is_taken_here_is_not_taken_over(client: Client, provider: Provider) -> None:
    here = User.objects.create_user("ada", email="ada@example.org", password="a long pass phrase")
    client.get(at_the_provider(leave(client)))
    came = User.objects.get(pk=client.session["_auth_user_id"])
    assert came.pk != here.pk
    assert came.username != "ada"


def test_an_attempt_is_asked_with_state_nonce_and_pkce_whatever_the_address_says(
    client: Client, provider: Provider
) -> None:
    query = "?scope=email,write-repos&auth_params=prompt%3Dnone%26nonce%3Dmine&state=mine"
    asked = parse_qs(urlsplit(leave(client, query)).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert len(asked["code_challenge"][0]) == 43
    assert len(asked["nonce"][0]) == 43
    assert len(asked["state"][0]) >= 16
    assert asked["redirect_uri"] == ["http://testserver/accounts/identity/callback"]
    assert sorted(asked["scope"][0].split()) == ["openid", "profile"]
    assert "prompt" not in asked
    assert client.get(LOGIN)["Location"] == "/accounts/login", "a link signs nobody in"
    assert Client(enforce_csrf_checks=True).post(LOGIN).status_code == 403


@pytest.mark.parametrize(
    "wrong",
    [
        {"nonce": "of another attempt"},
        {"nonce": None},
        {"aud": "another-site"},
        {"iss": "https://elsewhere.example"},
        {"exp": int(time.time()) - 60},
        {"sub": "somebody-else"},
        {},
    ],
    ids=lambda wrong: "-".join(wrong) or "key",
)
def test_an_answer_that_is_wrong_signs_nobody_in(
    client: Client, provider: Provider, wrong: dict[str, Any]
) -> None:
    """A claim, or the key that it is signed with."""
    provider.signed = wrong
    if not wrong:
        provider.signs_with = rsa.generate_private_key(65537, 2048)
    answer = client.get(at_the_provider(leave(client)))
    assert answer.status_code == 401
    assert "Nothing was changed" in answer.text
    assert not signed_in(client)
    assert not User.objects.exists()


def test_an_answer_counts_once_and_in_the_browser_that_asked(
    client: Client, provider: Provider
) -> None:
    back = at_the_provider(leave(client))
    stranger = Client()
    assert stranger.get(back).status_code == 401
    assert not signed_in(stranger)
    client.get(back)
    assert signed_in(client)
    assert client.get(back).status_code == 401


def test_who_does_not_allow_it_and_a_provider_that_does_not_answer_are_told(
    client: Client, provider: Provider, settings: Any
) -> None:
    state = parse_qs(urlsplit(leave(client)).query)["state"][0]
    address = f"/accounts/identity/callback?error=access_denied&state={state}"
    assert "You did not allow it" in client.get(address, follow=True).text
    assert not signed_in(client)
    app = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]
    app["settings"] = {**app["settings"], "server_url": "http://127.0.0.1:9"}
    answer = client.post(LOGIN)
    assert answer.status_code == 401, "no error of ours"
    assert "did not answer" in answer.text


def test_without_a_provider_there_is_no_such_address(client: Client) -> None:
    assert "Sign in with" not in client.get("/accounts/login").text
    assert client.post("/accounts/huggingface/login").status_code == 404
    assert client.get("/accounts/huggingface/callback").status_code == 404
