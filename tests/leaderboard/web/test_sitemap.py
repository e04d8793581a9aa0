"""The sitemap: every public address, each of which can be read; nothing that is kept offline."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.sitemaps import Sitemap
from django.test import Client

from leaderboard.models import Suite
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite(settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    make.make_suite(version="1.0")
    suite = make.make_suite(version="1.1")
    make.evaluated("lab/one", suite, {"cloze": 0.8, "mmlu": 0.5, "hybrid": 0.5})
    make.make_submission(make.make_variant("lab/waiting"), suite)
    return suite


def addresses(client: Client) -> list[str]:
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


def test_it_has_pages_suites_tasks_and_measured_models(client: Client, suite: Suite) -> None:
    found = addresses(client)
    assert len(set(found)) == len(found)
    for address in ("/", "/method", "/suites/demo", "/suites/demo@1.0", "/tasks/facts_mmlu"):
        assert address in found
    assert "/models/lab/one" in found
    assert "/models/lab/waiting" not in found
    assert not [address for address in found if "/runs/" in address or "/submissions/" in address]


def test_every_address_of_it_is_a_page_that_may_be_indexed(client: Client, suite: Suite) -> None:
    kept_out = re.findall(r"Disallow: (\S+)", client.get("/robots.txt").content.decode())
    for address in addresses(client):
        response = client.get(address)
        assert response.status_code == 200, address
        html = response.content.decode()
        assert "noindex" not in html
        assert f'<link rel="canonical" href="http://testserver{address}">' in html
        assert not [start for start in kept_out if address.startswith(start)]


def test_a_long_list_is_cut_into_files(
    client: Client, suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sorted(addresses(client))
    monkeypatch.setattr(Sitemap, "limit", 2)
    assert "sitemap-tasks.xml?p=3" in client.get("/sitemap.xml").content.decode()
    assert sorted(addresses(client)) == whole


@pytest.mark.parametrize("address", ["/sitemap-nosuch.xml", "/sitemap-tasks.xml?p=99"])
def test_a_file_that_is_not_there_is_not_found(client: Client, suite: Suite, address: str) -> None:
    assert client.get(address).status_code == 404


def test_robots_are_told_where_it_is(client: Client) -> None:
    assert "Sitemap: http://testserver/sitemap.xml" in client.get("/robots.txt").content.decode()
