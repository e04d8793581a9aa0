"""What holds on every page: policy, errors, sign-in, and that reading writes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.contrib.staticfiles import finders
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import connection
from django.test import Client, RequestFactory
from django.views.defaults import bad_request, permission_denied, server_error

from leaderboard.models import Submission, Suite, User
from leaderboard.snapshot import published
from tests.leaderboard import factories as make


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    settings.PLUMBLINE_OPEN_SUBMIT = True
    return make.make_suite(benchmarks=("facts",))


@pytest.fixture
def addresses(suite: Suite) -> list[str]:
    """Every page that can be read, in a state that has something to show."""
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    done, running, failed = submission.runs.order_by("task__name")
    make.finish(done)
    make.fail(failed, "ModelError", "no vector")
    make.start(running, 3, 90)
    waiting = make.queued_run(make.make_variant("lab/two"), suite.entries.all()[0])
    for style in published.styles_of(suite):
        published.build(suite, style)
    run = f"/runs/{done.pk}"
    return [
        *("/", "/?style=mmlu", "/?q=one", "/styles", "/submit", "/submit?model=no+model", "/queue"),
        *("/models/lab/one", f"/submissions/{submission.pk}", "/accounts/login", "/healthz"),
        *("/suites", "/suites/demo", "/suites/demo/cite.bib", "/og/demo.png", "/pool", "/method"),
        *("/backends", "/charts", "/charts-by-size.csv", f"{run}/recount"),
        *("/about", "/changelog", "/tasks/facts", "/sitemap.xml", "/sitemap-models.xml"),
        *(run, f"{run}?outcome=wrong", f"{run}?doc=3", f"{run}/progress", "/robots.txt"),
        *(f"{run}/record.json", f"{run}/samples.jsonl", f"{run}/samples.parquet"),
        *(f"/runs/{other.pk}" for other in (running, failed, waiting)),
    ]


@pytest.fixture
def read_only() -> Iterator[Any]:
    """Makes the database refuse every write from then on."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            yield lambda: cursor.execute("PRAGMA query_only = ON")
            cursor.execute("PRAGMA query_only = OFF")
        else:
            yield lambda: cursor.execute("SET TRANSACTION READ ONLY")


def test_reading_writes_nothing(client: Client, addresses: list[str], read_only: Any) -> None:
    read_only()
    for address in addresses:
        response = client.get(address)
        assert response.status_code == 200, address
        assert b"".join(response), address
        assert "sessionid" not in response.cookies, address


def test_every_page_keeps_its_content_policy_in_its_own_markup(
    client: Client, addresses: list[str]
) -> None:
    for address in addresses:
        response = client.get(address)
        policy = response["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        if response["Content-Type"].startswith("text/html"):
            html = response.content.decode()
            for forbidden in (" style=", " onclick=", "javascript:", "data:image", "<style"):
                assert forbidden not in html, (address, forbidden)


@pytest.fixture
def pages(client: Client, addresses: list[str]) -> dict[str, str]:
    """The HTML of every whole page by its address."""
    responses = {address: client.get(address) for address in addresses}
    return {
        address: response.content.decode()
        for address, response in responses.items()
        if response["Content-Type"].startswith("text/html") and not address.endswith("/progress")
    }


def test_every_page_has_ordered_headings_a_description_and_a_way_past_the_navigation(
    pages: dict[str, str],
) -> None:
    for address, html in pages.items():
        levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", html)]
        assert (levels[0], levels.count(1)) == (1, 1), address
        assert all(after <= before + 1 for before, after in pairwise(levels)), (address, levels)
        assert re.search(r'name="description"\s+content="\s*\w', html), address
        assert '<a class="skip" href="#main">' in html, address


def test_no_two_pages_have_the_same_title(pages: dict[str, str]) -> None:
    titles: dict[str, str] = {}
    for address, html in pages.items():
        found = re.search(r"<title>(.+?) · Plumbline</title>", html, re.S)
        assert found, address
        # What is searched for and which question is open do not make another page.
        page = address if "style=" in address else address.partition("?")[0]
        titles[page] = " ".join(found[1].split())
    assert len(set(titles.values())) == len(titles), titles


def test_robots_are_kept_from_the_questions(client: Client) -> None:
    assert "Disallow: /runs/" in client.get("/robots.txt").content.decode()


def test_an_unknown_address_is_a_page_of_ours(client: Client, db: None) -> None:
    response = client.get("/no/such/page")
    assert response.status_code == 404
    assert "Nothing hangs here" in response.content.decode()


def test_a_suite_that_is_not_there_is_named(client: Client, suite: Suite) -> None:
    response = client.get("/?suite=nosuch")
    assert response.status_code == 404
    assert "No suite nosuch." in response.content.decode()
    assert "There is no page" not in response.content.decode()


@pytest.mark.parametrize(
    ("address", "meant"),
    [("/tasks/fact_mmlu", "/tasks/facts_mmlu"), ("/suites/demmo", "/suites/demo")],
)
def test_a_mistyped_task_or_suite_leads_to_the_one_meant(
    client: Client, suite: Suite, address: str, meant: str
) -> None:
    html = client.get(address).content.decode()
    assert "Close by:" in html
    assert f'href="{meant}"' in html


def test_an_unknown_run_has_no_sentence_of_the_framework(client: Client, suite: Suite) -> None:
    html = client.get("/runs/00000000-0000-4000-8000-000000000000").content.decode()
    assert "There is no page at" in html
    assert "matches the given query" not in html


def test_a_slash_at_the_end_leads_to_the_address_without(client: Client, suite: Suite) -> None:
    make.make_variant("lab/one")
    for address, leads_to in (
        ("/queue/", "/queue"),
        ("/models/lab/one/", "/models/lab/one"),
        ("/styles/?suite=demo", "/styles?suite=demo"),
    ):
        response = client.get(address)
        assert (response.status_code, response["Location"]) == (301, leads_to)
    assert client.get("/nosuch/").status_code == 404
    assert client.get("/admin/nosuch/").status_code != 301


def test_the_address_for_signing_out_shows_the_button_to_who_is_signed_in(
    client: Client, suite: Suite
) -> None:
    assert client.get("/accounts/logout")["Location"] == "/"
    client.force_login(User.objects.create_user("ada"))
    html = client.get("/accounts/logout").content.decode()
    assert "You are signed in as ada" in html
    client.get("/accounts/logout")
    assert "Sign out" in client.get("/").content.decode()


def test_a_fault_of_ours_is_a_page_of_ours(suite: Suite, settings: Any) -> None:
    client = Client(raise_request_exception=False)
    settings.PLUMBLINE_SUITE = 7  # a setting that no code expects
    response = client.get("/")
    assert response.status_code == 500
    assert "The line broke" in response.content.decode()


@pytest.mark.parametrize(
    ("view", "said"), [(server_error, "The line broke"), (bad_request, "cannot be read")]
)
def test_a_fault_is_told_without_the_database(rf: RequestFactory, view: Any, said: str) -> None:
    # Without a database fixture every query of this test would fail it.
    response = view(rf.get("/"), *([BadRequest()] if view is bad_request else []))
    html = response.content.decode()
    assert said in html
    assert '<meta name="robots" content="noindex">' in html
    assert 'rel="canonical"' not in html


def test_what_is_not_allowed_is_told_in_our_voice(client: Client, db: None, rf: Any) -> None:
    request = rf.get("/")
    request.user = AnonymousUser()
    html = permission_denied(request, PermissionDenied("This needs another account.")).content
    assert b"Not yours to do" in html
    assert b"This needs another account." in html


def test_a_form_without_its_token_is_refused_in_our_voice(suite: Suite) -> None:
    client = Client(enforce_csrf_checks=True)
    response = client.post("/submit", {"model": "lab/one"})
    assert response.status_code == 403
    assert "This form has expired" in response.content.decode()
    assert not Submission.objects.exists()


def test_signing_in_leads_back_to_the_form(client: Client, suite: Suite) -> None:
    User.objects.create_user("ada", password="a long pass phrase")
    address = "/accounts/login?next=/submit%3Fmodel%3Dlab/one"
    assert 'value="/submit?model=lab/one"' in client.get(address).content.decode()
    fields = {"login": "ada", "password": "a long pass phrase", "next": "/submit?model=lab/one"}
    assert client.post("/accounts/login", fields)["Location"] == "/submit?model=lab/one"
    assert "Sign out" in client.get("/").content.decode()
    client.post("/accounts/logout")
    assert "Sign out" not in client.get("/").content.decode()


def test_a_wrong_password_says_so_and_leads_nowhere_else(client: Client, suite: Suite) -> None:
    fields = {"login": "ada", "password": "wrong", "next": "https://elsewhere.example/"}
    html = client.post("/accounts/login", fields).content.decode()
    assert "Not signed in." in html
    assert 'role="alert"' in html


def test_the_fonts_are_our_own_small_and_licensed() -> None:
    sizes = 0
    for font in ("inter-latin-opsz-normal", "jetbrains-mono-latin-wght-normal"):
        path = finders.find(f"fonts/{font}.woff2")
        assert isinstance(path, str)
        data = Path(path).read_bytes()
        assert data[:4] == b"wOF2"
        sizes += len(data)
    assert sizes < 250_000
    for name in ("Inter", "JetBrainsMono"):
        assert finders.find(f"fonts/LICENSE-{name}.txt")
