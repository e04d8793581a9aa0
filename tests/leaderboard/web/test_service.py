"""What holds on every page: policy, errors, sign-in, sitemap, and that reading writes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import connection, transaction
from django.test import Client, RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext
from django.views.defaults import bad_request, permission_denied, server_error

from leaderboard.models import User
from tests.leaderboard import factories as make
from tests.leaderboard.rows import once_per_module

SHOWN: dict[str, Any] = {"PLUMBLINE_SUITE": "demo", "PLUMBLINE_OPEN_SUBMIT": True}

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _shown(settings: Any) -> None:
    settings.PLUMBLINE_SUITE, settings.PLUMBLINE_OPEN_SUBMIT = SHOWN.values()


@once_per_module
def site() -> dict[str, Any]:
    """Every page that can be read, by its address, in a state that has something to show."""
    suite = make.make_suite(benchmarks=("facts",))
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    done, running, failed = submission.runs.order_by("task__name")
    make.finish(done)
    make.evaluated("lab/three", suite, {"cloze": 0.7, "mmlu": 0.4, "hybrid": 0.5})
    make.fail(failed, "ModelError", "no vector")
    make.start(running, 3, 90)
    waiting = make.queued_run(make.make_variant("lab/two"), suite.entries.all()[0])
    make.publish(suite)
    run = f"/runs/{done.pk}"
    addresses = [
        *("/", "/?style=mmlu", "/?q=one", "/styles", "/submit", "/submit?model=no+model", "/queue"),
        *("/models/lab/one", f"/submissions/{submission.pk}", "/accounts/login", "/healthz"),
        *("/suites", "/suites/demo", "/suites/demo/cite.bib", "/og/demo.png", "/pool", "/method"),
        *("/backends", "/charts", "/charts-by-size.csv", f"{run}/recount"),
        *("/compare?m=lab%2Fone%2Clab%2Fthree", "/compare?m=lab%2Fone%2Clab%2Fthree&doc=3"),
        *("/about", "/changelog", "/tasks/facts", "/sitemap.xml", "/sitemap-models.xml"),
        *(run, f"{run}?outcome=wrong", f"{run}?doc=3", f"{run}/progress", "/robots.txt"),
        *(f"{run}/record.json", f"{run}/samples.jsonl", f"{run}/samples.parquet"),
        *(f"/runs/{other.pk}" for other in (running, failed, waiting)),
    ]
    with override_settings(**SHOWN):
        return {address: Client().get(address) for address in addresses}


@pytest.fixture
def pages(site: dict[str, Any]) -> dict[str, str]:
    """The HTML of every whole page by its address."""
    return {
        address: response.content.decode()
        for address, response in site.items()
        if response["Content-Type"].startswith("text/html") and not address.endswith("/progress")
    }


@pytest.fixture
def read_only() -> Iterator[Any]:
    """Makes the database refuse every write from then on."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            yield lambda: cursor.execute("PRAGMA query_only = ON")
            cursor.execute("PRAGMA query_only = OFF")
        else:
            before = transaction.savepoint()
            yield lambda: cursor.execute("SET TRANSACTION READ ONLY")
            transaction.savepoint_rollback(before)


def test_reading_writes_nothing(client: Client, site: dict[str, Any], read_only: Any) -> None:
    read_only()
    for address in site:
        response = client.get(address)
        assert response.status_code == 200, address
        assert b"".join(response), address
        assert "sessionid" not in response.cookies, address


def test_every_page_keeps_its_content_policy_in_its_own_markup(site: dict[str, Any]) -> None:
    for address, response in site.items():
        policy = response["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        if response["Content-Type"].startswith("text/html"):
            html = response.content.decode()
            for forbidden in (" style=", " onclick=", "javascript:", "data:image", "<style"):
                assert forbidden not in html, (address, forbidden)


def test_no_number_has_more_figures_than_a_reader_can_use(pages: dict[str, str]) -> None:
    for address, html in pages.items():
        assert not re.findall(r'title="[^"]*\d\.\d{8,}', html), address


def test_every_page_has_a_title_of_its_own_ordered_headings_and_a_way_past_the_navigation(
    pages: dict[str, str],
) -> None:
    for address, html in pages.items():
        levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", html)]
        assert (levels[0], levels.count(1)) == (1, 1), address
        assert all(after <= before + 1 for before, after in pairwise(levels)), (address, levels)
        assert re.search(r'name="description"\s+content="\s*\w', html), address
        assert '<a class="skip" href="#main">' in html, address
    titles: dict[str, str] = {}
    for address, html in pages.items():
        found = re.search(r"<title>(.+?) · Plumbline</title>", html, re.S)
        assert found, address
        # What is searched for and which question is open do not make another page.
        page = address if "style=" in address else address.partition("?")[0]
        titles[page] = " ".join(found[1].split())
    assert len(set(titles.values())) == len(titles), titles


def test_what_is_not_there_is_named_in_our_voice(client: Client, site: dict[str, Any]) -> None:
    missing_run = "/runs/00000000-0000-4000-8000-000000000000"
    for address, said in (
        ("/no/such/page", "Nothing hangs here"),
        ("/?suite=nosuch", "No suite nosuch."),
        (missing_run, "There is no page at"),
    ):
        response = client.get(address)
        assert response.status_code == 404
        assert said in response.text
        assert 'rel="canonical"' not in response.text
        assert '<meta name="robots" content="noindex">' in response.text
        assert ("There is no page" in response.text) == ("suite" not in address)
        assert "matches the given query" not in response.text, "a sentence of the framework"
    for address, meant in (
        ("/tasks/fact_mmlu", "/tasks/facts_mmlu"),
        ("/suites/demmo", "/suites/demo"),
    ):
        html = client.get(address).text
        assert "Close by:" in html
        assert f'href="{meant}"' in html


def test_a_slash_at_the_end_leads_to_the_address_without(
    client: Client, site: dict[str, Any]
) -> None:
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
    client: Client, site: dict[str, Any]
) -> None:
    assert client.get("/accounts/logout")["Location"] == "/"
    client.force_login(User.objects.create_user("ada"))
    html = client.get("/accounts/logout").content.decode()
    assert "You are signed in as ada" in html
    client.get("/accounts/logout")
    assert "Sign out" in client.get("/").content.decode()


def test_faults_and_refusals_are_told_in_our_voice_without_the_database(rf: RequestFactory) -> None:
    with CaptureQueriesContext(connection) as queries:
        answers = (server_error(rf.get("/")), bad_request(rf.get("/"), BadRequest()))
    assert len(queries) == 0
    for page, said in zip(answers, ("The line broke", "cannot be read"), strict=True):
        html = page.content.decode()
        assert said in html
        assert '<meta name="robots" content="noindex">' in html
        assert 'rel="canonical"' not in html
    request = rf.get("/")
    request.user = AnonymousUser()
    html = permission_denied(request, PermissionDenied("This needs another account.")).content
    assert b"Not yours to do" in html
    assert b"This needs another account." in html
    client = Client(enforce_csrf_checks=True)
    response = client.post("/submit", {"model": "lab/one"})
    assert response.status_code == 403
    assert "This form has expired" in response.content.decode()


def test_a_wrong_password_signs_nobody_in_and_the_bar_says_who_is(
    client: Client, site: dict[str, Any]
) -> None:
    User.objects.create_user("ada", password="a long pass phrase")
    html = client.post("/accounts/login", {"login": "ada", "password": "wrong"}).text
    assert "Not signed in." in html
    assert 'role="alert"' in html
    client.post("/accounts/login", {"login": "ada", "password": "a long pass phrase"})
    assert "Sign out" in client.get("/").text
    client.post("/accounts/logout")
    assert ">Sign in<" in client.get("/").text, "where everybody may submit, too"


# The sitemap


def listed_addresses(client: Client) -> list[str]:
    """Every address of every file that the index names."""
    index = client.get("/sitemap.xml").content.decode()
    files = re.findall(r"<loc>(.+?)</loc>", index)
    assert all(file.startswith("http://testserver/sitemap-") for file in files)
    found = []
    for file in files:
        parts = urlsplit(file.replace("&amp;", "&"))
        page = client.get(f"{parts.path}?{parts.query}").content.decode()
        found += [urlsplit(url).path for url in re.findall(r"<loc>(.+?)</loc>", page)]
    return found


def test_the_sitemap_has_every_page_that_may_be_indexed_and_no_other(
    client: Client, site: dict[str, Any]
) -> None:
    found = listed_addresses(client)
    assert len(set(found)) == len(found)
    for address in ("/", "/method", "/suites/demo", "/suites/demo@1.0", "/tasks/facts_mmlu"):
        assert address in found
    assert "/models/lab/one" in found
    assert "/models/lab/two" not in found
    assert not [address for address in found if "/runs/" in address or "/submissions/" in address]
    kept_out = re.findall(r"Disallow: (\S+)", client.get("/robots.txt").content.decode())
    for address in listed_addresses(client):
        response = client.get(address)
        assert response.status_code == 200, address
        html = response.content.decode()
        assert "noindex" not in html
        assert f'<link rel="canonical" href="http://testserver{address}">' in html
        assert not [start for start in kept_out if address.startswith(start)]
    robots = client.get("/robots.txt").text
    assert "Sitemap: http://testserver/sitemap.xml" in robots
    assert "Disallow: /runs/" in robots
    for address in ("/sitemap-nosuch.xml", "/sitemap-tasks.xml?p=99"):
        assert client.get(address).status_code == 404
