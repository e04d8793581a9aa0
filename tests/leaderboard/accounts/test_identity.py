"""Signing in at a real OpenID provider, and each way in which its answer can be wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from allauth.socialaccount.models import SocialAccount
from django.core.cache import cache
from django.test import Client

from leaderboard.models import Role, User, role_of
from tests.leaderboard.accounts.provider import CLIENT, SECRET, Served, serve

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]

LOGIN = "/accounts/identity/login"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serve(
        tmp_path_factory.mktemp("provider"), "http://testserver/accounts/identity/callback"
    ) as served:
        yield served


@pytest.fixture
def provider(running: Served, settings: Any) -> Served:
    settings.PLUMBLINE_OIDC_CLIENT_ID = CLIENT
    settings.OIDC_ID, settings.OIDC_NAME = "identity", "The identity"
    settings.SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {
            **settings.SOCIALACCOUNT_PROVIDERS["openid_connect"],
            "APPS": [
                {
                    "provider_id": "identity",
                    "name": "The identity",
                    "client_id": CLIENT,
                    "secret": SECRET,
                    "settings": {"server_url": running.url, "scope": ["openid", "profile"]},
                }
            ],
        }
    }
    running.sign()
    running.tell()
    (running.home / "asked").write_text("")
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


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_who_the_provider_knows_has_an_account_here_and_is_led_back(
    client: Client, provider: Served
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
    client: Client, provider: Served
) -> None:
    """As Hugging Face tells them: a role only where she lets this site know it."""
    provider.tell(
        orgs=[
            {"sub": "1", "name": "The Lab", "preferred_username": "lab", "roleInOrg": "write"},
            {"sub": "2", "name": "Readers", "preferred_username": "readers", "roleInOrg": "read"},
            {"sub": "3", "name": "Not granted", "preferred_username": "hidden"},
        ],
        email="ada@example.org",
    )
    client.get(at_the_provider(leave(client)))
    assert signed_in(client)
    told = SocialAccount.objects.get()
    assert told.extra_data == {"name": "ada", "organisations": ["lab"]}
    # She left the organisation: the next signing in forgets it.
    provider.tell(orgs=[])
    again = Client()
    again.get(at_the_provider(leave(again)))
    told.refresh_from_db()
    assert told.extra_data == {"name": "ada"}


def test_a_name_that_is_taken_here_is_not_taken_over(client: Client, provider: Served) -> None:
    here = User.objects.create_user("ada", email="ada@example.org", password="a long pass phrase")
    client.get(at_the_provider(leave(client)))
    came = User.objects.get(pk=client.session["_auth_user_id"])
    assert came.pk != here.pk
    assert came.username != "ada"


def test_an_attempt_is_asked_with_state_nonce_and_pkce(client: Client, provider: Served) -> None:
    asked = parse_qs(urlsplit(leave(client)).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert len(asked["code_challenge"][0]) == 43
    assert len(asked["nonce"][0]) == 43
    assert len(asked["state"][0]) >= 16
    assert asked["redirect_uri"] == ["http://testserver/accounts/identity/callback"]


def test_the_address_widens_neither_what_is_asked_for_nor_how(
    client: Client, provider: Served
) -> None:
    query = "?scope=email,write-repos&auth_params=prompt%3Dnone%26nonce%3Dmine&state=mine"
    asked = parse_qs(urlsplit(leave(client, query)).query)
    assert sorted(asked["scope"][0].split()) == ["openid", "profile"]
    assert "prompt" not in asked
    assert asked["nonce"] != ["mine"]
    assert asked["state"] != ["mine"]


def test_a_link_to_the_address_signs_nobody_in(client: Client, provider: Served) -> None:
    assert client.get(LOGIN)["Location"] == "/accounts/login"
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
    ],
    ids=lambda wrong: "-".join(wrong),
)
def test_an_answer_that_is_wrong_signs_nobody_in(
    client: Client, provider: Served, wrong: dict[str, Any]
) -> None:
    provider.sign(**wrong)
    answer = client.get(at_the_provider(leave(client)))
    assert answer.status_code == 401
    assert "Nothing was changed" in answer.text
    assert not signed_in(client)
    assert not User.objects.exists()


def test_an_answer_counts_once_and_in_the_browser_that_asked(
    client: Client, provider: Served
) -> None:
    back = at_the_provider(leave(client))
    stranger = Client()
    assert stranger.get(back).status_code == 401
    assert not signed_in(stranger)
    client.get(back)
    assert signed_in(client)
    assert client.get(back).status_code == 401


def test_a_code_without_its_verifier_is_worth_nothing(client: Client, provider: Served) -> None:
    """The provider compares the challenge; a code that was seen on the way cannot be used."""
    code = parse_qs(urlsplit(at_the_provider(leave(client))).query)["code"][0]
    found = requests.post(
        f"{provider.url}/identity/o/api/token",
        {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": "http://testserver/accounts/identity/callback",
            "client_id": CLIENT,
            "client_secret": SECRET,
            "code_verifier": "x" * 43,
        },
        timeout=20,
    )
    assert found.status_code == 400


def test_who_does_not_allow_it_is_told_so(client: Client, provider: Served) -> None:
    state = parse_qs(urlsplit(leave(client)).query)["state"][0]
    address = f"/accounts/identity/callback?error=access_denied&state={state}"
    assert "You did not allow it" in client.get(address, follow=True).text
    assert not signed_in(client)


def test_a_provider_that_does_not_answer_is_told_and_not_an_error_of_ours(
    client: Client, provider: Served, settings: Any
) -> None:
    app = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]
    app["settings"] = {**app["settings"], "server_url": "http://127.0.0.1:9"}
    answer = client.post(LOGIN)
    assert answer.status_code == 401
    assert "did not answer" in answer.text


def test_without_a_provider_there_is_no_such_address(client: Client, tmp_path: Path) -> None:
    assert "Sign in with" not in client.get("/accounts/login").text
    assert client.post("/accounts/huggingface/login").status_code == 404
    assert client.get("/accounts/huggingface/callback").status_code == 404
