"""Accounts with a password: made, confirmed by mail, signed in to, and a forgotten password."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core import mail
from django.core.cache import cache
from django.test import Client

from leaderboard.models import User
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


def test_an_account_that_the_operator_made_needs_no_address(client: Client) -> None:
    User.objects.create_superuser("root", password="a long pass phrase")
    client.post("/accounts/login", {"login": "root", "password": "a long pass phrase"})
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


def test_an_account_page_is_for_who_is_signed_in(client: Client) -> None:
    assert client.get("/account")["Location"] == "/accounts/login?next=/account"


@pytest.fixture
def no_mail(settings: Any) -> None:
    """The server of mail cannot be reached."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", free_port()


SAID = "mail server takes no messages at the moment"


@pytest.mark.usefixtures("no_mail")
def test_where_no_mail_goes_out_nothing_is_made_and_what_was_typed_stays(
    client: Client, settings: Any, caplog: pytest.LogCaptureFixture
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
    assert client.get("/accounts/login").status_code == 200
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    assert client.post("/accounts/new", ADA)["Location"] == "/accounts/confirm"
    client.post(link())
    client.post("/accounts/login", SIGN_IN)
    assert signed_in(client)


def test_where_no_mail_goes_out_nobody_learns_who_has_an_account(
    client: Client, request: pytest.FixtureRequest
) -> None:
    client.post("/accounts/new", ADA)
    client.post(link())
    cache.clear()
    request.getfixturevalue("no_mail")
    of_ada = client.post("/accounts/new", {**ADA, "username": "bo"})
    of_nobody = client.post("/accounts/new", {**ADA, "username": "bo", "email": "bo@example.org"})
    assert of_ada.status_code == of_nobody.status_code == 503
    assert User.objects.count() == 1
    for email in ("ada@example.org", "cy@example.org"):
        forgotten = client.post("/accounts/password", {"email": email})
        assert forgotten.status_code == 503
        assert SAID in forgotten.text
        assert f'value="{email}"' in forgotten.text


def test_where_no_mail_goes_out_who_has_not_confirmed_is_told_so(
    client: Client, request: pytest.FixtureRequest
) -> None:
    client.post("/accounts/new", ADA)
    cache.clear()
    request.getfixturevalue("no_mail")
    answer = client.post("/accounts/login", SIGN_IN)
    assert answer.status_code == 503
    assert SAID in answer.text
    assert not signed_in(client)
    assert User.objects.count() == 1


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
        assert found is not None
        answer = client.post("/accounts/login", {**SIGN_IN, "next": found[1]})
        assert answer["Location"] == after, before
        client.logout()
        cache.clear()
