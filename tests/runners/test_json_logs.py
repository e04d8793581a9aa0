"""What the site logs as JSON, through its real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runners.served import Site, running

PASSWORD = "the-watchers-password"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def site(home: Path) -> Iterator[Site]:
    with running(home, PLUMBLINE_LOG="json", PLUMBLINE_METRICS_TOKEN=PASSWORD) as site:
        yield site


def lines(home: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home / "server.log").read_text().splitlines()]


def test_every_line_is_json_and_a_request_is_one_line(site: Site, home: Path) -> None:
    assert site.ask("GET", "/about?token=hush", X_Request_ID="from-the.proxy_1")[0] == 200
    assert site.ask("GET", f"/nothing/{PASSWORD}")[0] == 404
    assert site.ask("GET", "/healthz")[0] == 200
    logged = lines(home)
    (about,) = [line for line in logged if line.get("request") == "GET /about"]
    assert about["request_id"] == "from-the.proxy_1"
    assert (about["page"], about["code"], about["level"]) == ("about", 200, "info")
    assert 0 < about["seconds"] < 120
    (missing,) = [line for line in logged if line.get("code") == 404]
    assert missing["request"] == "GET /nothing/(hidden)"
    assert not [line for line in logged if "healthz" in json.dumps(line)]
    (_,) = [line for line in logged if "the site is at" in line["event"]]
    assert "hush" not in json.dumps(logged)


@pytest.mark.parametrize("sent", ["two words", 'a"quote', "x" * 65, "ümlaut"])
def test_an_id_that_is_none_gets_another(site: Site, sent: str) -> None:
    for headers in ({}, {"X_Request_ID": sent}):
        given = site.ask("GET", "/about", **headers)[1]["X-Request-Id"]
        assert given != sent
        assert len(given) == 32


def test_a_file_is_still_sent_by_the_server_and_not_by_a_thread(site: Site, home: Path) -> None:
    """What is logged around a download must not take it from the server (decision 0015)."""
    from django.http import FileResponse
    from django.test import RequestFactory

    from leaderboard.web.request_log import LogRequests

    file = (home / "server.log").open("rb")
    answer = LogRequests(lambda _: FileResponse(file))(RequestFactory().get("/"))
    assert answer.file_to_stream is file
    answer.close()
