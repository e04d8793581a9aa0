"""What stands before every page: hosts, health checks, cookies, and headers of each answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(settings: Any) -> Client:
    """As in production, where an error is a page."""
    settings.DEBUG = False
    return Client(raise_request_exception=False)


@pytest.mark.parametrize("host", ["evil.example", "10.2.3.4:8000", "a b", "..", "[::2]"])
@pytest.mark.parametrize("path", ["/", "/submit", "/nowhere", "/admin/", "/static/none.css"])
def test_a_host_that_is_not_ours_is_a_bad_request(client: Client, host: str, path: str) -> None:
    response = client.get(path, headers={"host": host})
    assert response.status_code in (400, 404 if path.startswith("/static") else 400)
    assert b"Our fault" not in response.content
    assert client.post(path, headers={"host": host}).status_code == 400


@pytest.mark.parametrize("host", ["testserver", "10.2.3.4:8000", "evil.example"])
@pytest.mark.parametrize("https", [False, True])
def test_a_health_check_is_answered_by_any_address(
    client: Client, settings: Any, host: str, https: bool
) -> None:
    settings.SECURE_SSL_REDIRECT = https
    response = client.get("/healthz", headers={"host": host})
    assert (response.status_code, response.content) == (200, b"ok\n")
    readiness = client.get("/readyz", headers={"host": host})
    assert (readiness.status_code, readiness.json()["ready"]) == (503, False)
    assert client.get("/").status_code == (301 if https else 200)


@pytest.mark.parametrize("cookie", ['"a\\000b"', "a\0b"], ids=["escaped", "raw"])
@pytest.mark.parametrize("name", ["sessionid", "csrftoken", "messages", "theme"])
def test_a_cookie_with_a_null_character_is_a_bad_request(
    client: Client, name: str, cookie: str
) -> None:
    for path in ("/", "/admin/", "/submit"):
        assert client.get(path, headers={"cookie": f"{name}={cookie}"}).status_code == 400


@pytest.mark.parametrize("path", ["/", "/nowhere", "/healthz", "/submit", "/robots.txt"])
def test_every_answer_forbids_what_no_page_needs(client: Client, path: str) -> None:
    policy = client.get(path)["Permissions-Policy"]
    assert {"camera=()", "microphone=()", "geolocation=()"} <= set(policy.split(", "))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (0, False, False)),
        ({"PLUMBLINE_HTTPS": "1"}, (31_536_000, False, False)),
        ({"PLUMBLINE_HTTPS": "1", "PLUMBLINE_HSTS_SECONDS": "0"}, (0, False, False)),
        (
            {"PLUMBLINE_HTTPS": "1", "PLUMBLINE_HSTS_SUBDOMAINS": "1"},
            (31_536_000, True, False),
        ),
        (
            {"PLUMBLINE_HTTPS": "1", "PLUMBLINE_HSTS_PRELOAD": "1"},
            (31_536_000, False, True),
        ),
    ],
)
def test_what_browsers_remember_for_a_year_is_chosen_by_itself(
    variables: dict[str, str], expected: tuple[int, bool, bool]
) -> None:
    names = ("SECONDS", "INCLUDE_SUBDOMAINS", "PRELOAD")
    program = "from leaderboard import settings as s; print(({}))".format(
        ", ".join(f"s.SECURE_HSTS_{name}" for name in names)
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PLUMBLINE_DEBUG": "1", **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout.strip() == str(expected)
