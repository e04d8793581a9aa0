"""`/metrics` as Prometheus reads it, from the site's real server with its two processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import psutil
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.runners.place import STARTS_WITHIN
from tests.runners.served import Site, running

TOKEN = "a token that only the watcher of this test knows"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
SECONDS = "plumbline_http_request_duration_seconds"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    file = tmp_path_factory.mktemp("secrets") / "token"
    file.write_text(TOKEN + "\n")
    home = tmp_path_factory.mktemp("home")
    with running(home, PLUMBLINE_METRICS_TOKEN_FILE=str(file), TMPDIR=str(home)) as site:
        yield site
    assert not list(home.glob("plumbline-metrics-*")), "the counts stay behind"


def scraped(site: Site) -> dict[str, Metric]:
    status, headers, body = site.ask("GET", "/metrics", **RIGHT)
    assert status == 200, body
    assert headers["Cache-Control"] == "no-store"
    return {family.name: family for family in text_string_to_metric_families(body.decode())}


def counted(site: Site, page: str, status: str) -> float:
    wanted = {"page": page, "status": status}
    found = scraped(site).get(SECONDS)
    samples = found.samples if found else []
    return sum(s.value for s in samples if s.name.endswith("_count") and s.labels == wanted)


def test_requests_are_counted_over_all_processes_also_over_one_that_died(site: Site) -> None:
    before = counted(site, "about", "200"), counted(site, "none", "404")
    for _ in range(20):
        assert site.ask("GET", "/about")[0] == 200
        assert site.ask("GET", "/nothing/here")[0] == 404
    assert (counted(site, "about", "200"), counted(site, "none", "404")) == (
        before[0] + 20,
        before[1] + 20,
    )
    master = next(p for p in psutil.process_iter() if _listens_as_master(p, site.port))
    processes = {child.pid for child in master.children()}
    assert len(processes) == 2
    os.kill(min(processes), signal.SIGKILL)
    deadline = time.monotonic() + STARTS_WITHIN
    while len({child.pid for child in master.children()} - {min(processes)}) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert counted(site, "about", "200") == before[0] + 20


def _listens_as_master(process: psutil.Process, port: int) -> bool:
    try:
        ours = process.ppid() == os.getpid() and "gunicorn" in " ".join(process.cmdline())
        return ours and process.environ().get("PLUMBLINE_PORT") == str(port)
    except psutil.Error:
        return False


def test_the_page_says_how_the_site_stands(site: Site) -> None:
    families = scraped(site)
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for name, family in families.items()
        if name != SECONDS
        for sample in family.samples
    }
    assert all(name.startswith("plumbline_") for name in families)
    assert all(family.documentation for family in families.values())
    assert values["plumbline_database_up",] == 1
    assert values["plumbline_runs", "queued"] == values["plumbline_runs", "running"] == 0
    assert values["plumbline_workers", "lost"] == 0
    assert values["plumbline_disk_free_bytes", "home"] > 0


@pytest.mark.parametrize("sent", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}])
def test_without_the_token_there_is_nothing_to_see(site: Site, sent: dict[str, str]) -> None:
    status, headers, body = site.ask("GET", "/metrics", **sent)
    assert (status, headers["Www-Authenticate"]) == (401, "Bearer")
    assert b"plumbline_" not in body
