"""Who asks too much of the site or of the Hub waits; everybody else does not notice."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from leaderboard.models import Submission, Suite, User
from leaderboard.web import throttle
from tests.hub import Orders
from tests.leaderboard.conftest import worker

Fail = Callable[[Orders], None]
TINY = "awkward/tiny-llama"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _anew(settings: Any, one_minute: None) -> None:
    settings.PLUMBLINE_CHECKS_PER_MINUTE = 3
    settings.PLUMBLINE_SIGN_INS_PER_MINUTE = 3
    settings.PLUMBLINE_OPEN_SUBMIT = True


@pytest.fixture
def opened(hub: Fail, suite: Suite) -> Suite:
    worker(16 * 10**9)
    return suite


def from_(address: str) -> Client:
    return Client(REMOTE_ADDR=address)


def test_too_many_checks_have_to_wait_and_keep_what_was_typed(opened: Suite, hub: Fail) -> None:
    address = f"/submit?model={TINY}&revision=v1&dtype=float16"
    client = from_("192.0.2.1")
    for _ in range(3):
        assert client.get(address).status_code == 200
    hub([{"match": "*", "status": 500}])
    with CaptureQueriesContext(connection) as queries:
        refused = client.get(address)
    assert all(query["sql"].startswith("SELECT") for query in queries)
    html = refused.content.decode()
    assert refused.status_code == 429
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert "Not now." in html
    assert "answered with an error" not in html, "the Hub is not asked"
    assert f'value="{TINY}"' in html
    assert 'value="v1"' in html
    assert '<option value="float16" selected' in html
    assert "Our fault" not in html
    assert "What will be run" not in html
    hub([])
    assert from_("192.0.2.2").get(address).status_code == 200
    assert client.get("/submit").status_code == 200


def test_submitting_counts_as_a_check(opened: Suite) -> None:
    client = from_("192.0.2.1")
    for _ in range(3):
        client.get(f"/submit?model={TINY}")
    refused = client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    assert refused.status_code == 429
    assert f'value="{TINY}"' in refused.content.decode()
    assert not Submission.objects.exists()


def test_submitting_again_counts_as_a_check(opened: Suite) -> None:
    client = from_("192.0.2.1")
    client.post("/submit", {"model": TINY, "revision": "main", "dtype": ""})
    address = f"{Submission.objects.get().get_absolute_url()}/again"
    assert [client.post(address).status_code for _ in range(3)] == [409, 409, 429]
    assert "Check again in" in client.post(address).content.decode()


def test_one_visitor_cannot_take_the_quota_of_all(opened: Suite, settings: Any) -> None:
    settings.PLUMBLINE_CHECKS_PER_MINUTE = 0
    settings.PLUMBLINE_VISITOR_QUOTA, settings.PLUMBLINE_OPEN_QUOTA = 2, 3
    typed = {"model": TINY, "revision": "main"}
    greedy, other = from_("2001:db8:1:2::1"), from_("192.0.2.9")
    assert greedy.post("/submit", {**typed, "dtype": ""}).status_code == 302
    neighbour = from_("2001:db8:1:2:ffff::9")
    assert neighbour.post("/submit", {**typed, "dtype": "float16"}).status_code == 302
    refused = greedy.post("/submit", {**typed, "dtype": "bfloat16"})
    assert refused.status_code == 429
    assert 86_000 < int(refused["Retry-After"]) <= 86_400
    html = refused.content.decode()
    assert "The limit for one visitor without an account is 2 submissions in 24 hours." in html
    assert '<option value="bfloat16" selected' in html
    assert other.post("/submit", {**typed, "dtype": "bfloat16"}).status_code == 302
    assert from_("192.0.2.8").post("/submit", {**typed, "revision": "v1"}).status_code == 429
    Submission.objects.update(created=timezone.now() - timedelta(days=2))
    assert greedy.post("/submit", {**typed, "revision": "v1"}).status_code == 302
    assert not any("2001" in found.visitor for found in Submission.objects.all())


def test_signing_in_too_often_has_to_wait_even_with_the_right_password(ada: User) -> None:
    ada.set_password("plumb and line")
    ada.save()
    client = from_("192.0.2.1")
    account = {"login": "ada", "password": "plumb and line"}
    for _ in range(3):
        assert client.post("/accounts/login", {**account, "password": "x"}).status_code == 200
    refused = client.post("/accounts/login", account)
    html = refused.content.decode()
    assert refused.status_code == 429
    assert 1 <= int(refused["Retry-After"]) <= 60
    assert re.search(r"Sign in again in \d+ s", html)
    assert 'value="ada"' in html
    assert "plumb and line" not in html
    assert "aria-invalid" not in html
    assert "_auth_user_id" not in client.session
    assert from_("192.0.2.2").post("/accounts/login", account).status_code == 302


def test_the_admin_has_no_form_of_its_own_to_sign_in_by(client: Client) -> None:
    response = client.get("/admin/", follow=True)
    assert response.redirect_chain[-1][0] == "/accounts/login?next=%2Fadmin%2F"
    assert client.post("/admin/login/", {"username": "a", "password": "b"}).status_code == 302


@pytest.mark.parametrize(
    ("proxies", "peer", "passed_on", "expected"),
    [
        (0, "192.0.2.1", "198.51.100.7", "192.0.2.1"),
        (1, "10.0.0.1", "203.0.113.5, 198.51.100.7", "198.51.100.7"),
        (2, "10.0.0.1", "1.1.1.1, 203.0.113.5, 198.51.100.7", "203.0.113.5"),
        (2, "10.0.0.1", "198.51.100.7", "10.0.0.1"),
        (1, "10.0.0.1", "", "10.0.0.1"),
        (1, "10.0.0.1", "nonsense", "10.0.0.1"),
        (1, "10.0.0.1", "198.51.100.7:4321", "198.51.100.7"),
        (1, "10.0.0.1", "[2001:db8::7]:4321", "2001:db8::/64"),
        (0, "2001:db8:1:2:3:4:5:6", "", "2001:db8:1:2::/64"),
        (0, "::ffff:192.0.2.1", "", "192.0.2.1"),
        (0, "fe80::1%eth0", "", "fe80::/64"),
        (0, "", "", "unknown"),
    ],
)
def test_a_visitor_is_an_address_that_nobody_can_choose(
    settings: Any, proxies: int, peer: str, passed_on: str, expected: str
) -> None:
    settings.PLUMBLINE_PROXIES = proxies
    headers = {"x-forwarded-for": passed_on} if passed_on else {}
    request = RequestFactory().get("/", headers=headers, REMOTE_ADDR=peer)
    assert throttle.visitor_of(request) == expected
