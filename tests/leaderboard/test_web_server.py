"""The site behind its real server: where it listens, what it logs, what Prometheus reads of it, and
that nobody waits for clients that are slow, on purpose or not."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from waitress.server import create_server

from leaderboard import gunicorn_config, web_server
from runners import supervisor
from tests import databases
from tests.runners.place import ROOT, STARTS_WITHIN, wait_until
from tests.services import free_port

TOKEN = "a-token-that-only-the-watcher-of-this-test-knows"
RIGHT = {"Authorization": f"Bearer {TOKEN}"}
SECONDS = "plumbline_http_request_duration_seconds"
LARGE = "/static/leaderboard/large.bin"
SIZE = 24 * 2**20
MANY = 8 * gunicorn_config.workers * gunicorn_config.threads
"""Slow clients of each kind, far more than there are threads."""


@dataclass(frozen=True)
class Site:
    port: int
    master: int = 0
    """The process that keeps the others running."""

    def open(self, sent: bytes = b"", receive: int | None = None) -> socket.socket:
        """A connection that has sent so much, and has room for `receive` bytes of an answer."""
        connection = socket.socket()
        if receive is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        connection.settimeout(STARTS_WITHIN)
        connection.connect(("127.0.0.1", self.port))
        connection.sendall(sent)
        return connection

    def ask(self, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=STARTS_WITHIN)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=named)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()


@contextmanager
def running(home: Path, **variables: str) -> Iterator[Site]:
    """gunicorn with the configuration of the process tree; files and database in `home`."""
    port = free_port()
    inherited = {name: text for name, text in os.environ.items() if "PLUMBLINE" not in name}
    environment = {
        **inherited,
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_HOME": str(home),
        "PLUMBLINE_PORT": str(port),
        "PLUMBLINE_SECRET_KEY": "of a test, and long enough for a key that signs sessions",
        **variables,
    }
    databases.begin_at(home)
    subprocess.run(
        [sys.executable, "manage.py", "collectstatic", "--noinput"],
        cwd=ROOT, env=environment, check=True, capture_output=True,
    )  # fmt: skip
    gunicorn = [sys.executable, "-m", "gunicorn", "--config", "python:leaderboard.gunicorn_config"]
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(gunicorn, cwd=ROOT, env=environment, stdout=log, stderr=log)
    site = Site(port, server.pid)

    def told() -> str:
        return (home / "server.log").read_text()[-3000:]

    try:

        def answers() -> bool:
            assert server.poll() is None, told()
            with suppress(OSError):
                return site.ask("GET", "/healthz")[0] == 200
            return False

        wait_until(answers, STARTS_WITHIN, told)
        yield site
    finally:
        server.terminate()
        server.wait(STARTS_WITHIN)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def site(home: Path) -> Iterator[Site]:
    """It listens on every address, logs JSON, is watched by who has the token, and has a file too
    large for any buffer."""
    file = home / "token"
    file.write_text(TOKEN + "\n")
    large = home / LARGE.lstrip("/")
    large.parent.mkdir(parents=True, exist_ok=True)
    large.write_bytes(os.urandom(2**20) * (SIZE // 2**20))
    with running(
        home,
        PLUMBLINE_BIND="0.0.0.0",
        PLUMBLINE_LOG="json",
        PLUMBLINE_METRICS_TOKEN_FILE=str(file),
        TMPDIR=str(home),
    ) as site:
        yield site
    assert not list(home.glob("plumbline-metrics-*")), "the counts stay behind"


def logged(home: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home / "server.log").read_text().splitlines()]


def test_on_every_address_the_site_answers_under_its_own_names_alone(
    site: Site, home: Path
) -> None:
    warning = "PLUMBLINE_BIND=0.0.0.0, but PLUMBLINE_HOSTS is not set"
    assert warning in json.dumps(logged(home))
    other = http.client.HTTPConnection("127.0.0.2", site.port)
    for headers, status in (({}, 400), ({"Host": "localhost"}, 200)):
        other.request("GET", "/about", headers=headers)
        assert other.getresponse().status == status
        other.close()


def test_where_a_port_cannot_be_had_the_variable_is_named_and_one_that_is_left_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(supervisor.CannotStart, match="this machine has no such address"):
        supervisor.check_port(8000, "PLUMBLINE_PORT", "203.0.113.9")
    with socket.create_server(("127.0.0.3", 0)) as taken:
        port = taken.getsockname()[1]
        assert not supervisor.is_free(port, "127.0.0.3")
        assert supervisor.is_free(port)
    monkeypatch.setattr(supervisor, "LEAVING", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(supervisor.CannotStart, match=f"port {port} is taken.*PLUMBLINE_PORT"):
            supervisor.check_port(port, "PLUMBLINE_PORT")
    # As of a site that was killed.
    monkeypatch.setattr(supervisor, "LEAVING", STARTS_WITHIN)
    leaving = socket.create_server(("127.0.0.1", 0))
    timer = threading.Timer(0.5, leaving.close)
    timer.start()
    supervisor.check_port(leaving.getsockname()[1], "PLUMBLINE_PORT")
    timer.join()


def test_every_line_is_json_and_a_request_is_one_line(site: Site, home: Path) -> None:
    assert site.ask("GET", "/about?token=hush", X_Request_ID="from-the.proxy_1")[0] == 200
    assert site.ask("GET", f"/nothing/{TOKEN}")[0] == 404
    assert site.ask("GET", "/healthz")[0] == 200
    lines = logged(home)
    (about,) = [line for line in lines if line.get("request_id") == "from-the.proxy_1"]
    assert about["request"] == "GET /about"
    assert (about["page"], about["code"], about["level"]) == ("about", 200, "info")
    assert about["seconds"] > 0
    (missing,) = [line for line in lines if "/nothing/(hidden)" in str(line.get("request"))]
    assert (missing["request"], missing["code"]) == ("GET /nothing/(hidden)", 404)
    assert not [line for line in lines if "healthz" in json.dumps(line)]
    (_,) = [line for line in lines if "the site is at" in line["event"]]
    assert "hush" not in json.dumps(lines)


def test_an_id_that_is_none_gets_another(site: Site) -> None:
    for headers in ({}, *({"X_Request_ID": sent} for sent in ("two words", "x" * 65, "ümlaut"))):
        given = site.ask("GET", "/about", **headers)[1]["X-Request-Id"]
        assert given not in headers.values()
        assert len(given) == 32


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
    for _ in range(10):
        assert site.ask("GET", "/about")[0] == 200
        assert site.ask("GET", "/nothing/here")[0] == 404
    assert (counted(site, "about", "200"), counted(site, "none", "404")) == (
        before[0] + 10,
        before[1] + 10,
    )
    master = psutil.Process(site.master)
    processes = {child.pid for child in master.children()}
    assert len(processes) == 2
    os.kill(min(processes), signal.SIGKILL)
    wait_until(
        lambda: len({child.pid for child in master.children()} - {min(processes)}) == 2,
        STARTS_WITHIN,
        lambda: f"the server has {master.children()}",
    )
    assert counted(site, "about", "200") == before[0] + 10


def test_the_page_says_how_the_site_stands_to_who_has_the_token(site: Site) -> None:
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
    for sent in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}):
        status, headers, body = site.ask("GET", "/metrics", **sent)
        assert (status, headers["Www-Authenticate"]) == (401, "Bearer")
        assert b"plumbline_" not in body


HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
FORM = b"POST /submit HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\nmodel="
DOWNLOAD = f"GET {LARGE} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("sent", "receive"),
    [(HEAD, None), (FORM, None), (DOWNLOAD, 4096), (b"", None)],
    ids=["unfinished heads", "unfinished forms", "downloads that nobody reads", "silence"],
)
def test_others_are_answered_beside(site: Site, sent: bytes, receive: int | None) -> None:
    with ExitStack() as slow:
        for _ in range(MANY):
            slow.enter_context(site.open(sent, receive))
        for _ in range(2 * gunicorn_config.workers):
            assert site.ask("GET", "/healthz")[0] == 200


def test_a_slow_download_is_whole_at_its_end(site: Site) -> None:
    with site.open(DOWNLOAD.replace(b"1.1", b"1.0", 1), receive=4096) as connection:
        time.sleep(0.5)
        answer = b"".join(iter(lambda: connection.recv(2**20), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200"), head
    assert len(body) == SIZE


def test_an_answer_to_head_has_headers_alone(site: Site) -> None:
    for path in ("/about", LARGE):
        with site.open(f"HEAD {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode()) as connection:
            answer = b"".join(iter(lambda: connection.recv(2**20), b""))
        assert answer.startswith(b"HTTP/1.0 200"), answer[:100]
        assert b"\r\nContent-Length: " in answer
        assert answer.endswith(b"\r\n\r\n")
        assert answer.count(b"\r\n\r\n") == 1


def test_too_long_a_head_and_too_large_a_form_are_refused(site: Site) -> None:
    assert site.ask("GET", "/?q=" + "x" * web_server.LARGEST_HEAD)[0] == 431
    with site.open(FORM.replace(b"4000", b"4000000")) as connection:
        assert b" 413 " in connection.recv(1000).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 7\r\n",
    ],
)
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_a_request_with_two_lengths_is_refused_and_nothing_behind_it_is_read(
    site: Site, lengths: bytes, version: bytes
) -> None:
    """What a proxy takes for the body of one request must not be another one here."""
    head = b"POST /healthz HTTP/" + version + b"\r\nHost: 127.0.0.1\r\n" + lengths
    behind = b"GET /about HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with site.open(head + b"Connection: keep-alive\r\n\r\n0\r\n\r\n" + behind) as connection:
        answer = b"".join(iter(lambda: connection.recv(2**20), b""))
    assert answer.startswith(b"HTTP/" + version + b" 400 "), answer[:200]
    assert answer.count(b"HTTP/1.") == 1


class Overloaded:
    """A server in this process with two threads, each of which answers in half a second."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.server = web_server.make_server(self._answer, listener, threads=2)
        self.site = Site(int(self.server.effective_port))
        self.open = True
        self._serving = threading.Thread(target=self._serve)
        self._serving.start()

    def _answer(self, environ: Any, start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] != "/healthz":
            time.sleep(0.5)
        start_response("200 OK", [])
        return [b"done"]

    def _serve(self) -> None:
        while self.open:
            self.server.asyncore.loop(
                timeout=0.02, map=self.server.connections, use_poll=True, count=1
            )

    def close(self) -> None:
        self.open = False
        self._serving.join()
        self.server.task_dispatcher.shutdown(timeout=STARTS_WITHIN)
        self.server.close()


@pytest.fixture
def overloaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(web_server, "MAX_WAITING", 4)
    server = Overloaded()
    yield server.site
    server.close()


def test_a_full_queue_is_told_at_once_and_who_waits_in_it_is_answered(overloaded: Site) -> None:
    begun = time.monotonic()
    answers: list[tuple[float, int, dict[str, str]]] = []

    def ask() -> None:
        status, headers, _ = overloaded.ask("GET", "/page")
        answers.append((time.monotonic() - begun, status, headers))

    with ThreadPoolExecutor(20) as readers:
        for _ in range(20):
            readers.submit(ask)
        time.sleep(0.2)
        asked = time.monotonic()
        assert overloaded.ask("GET", "/healthz")[0] == 200
        assert time.monotonic() - asked < 1.5, "who watches the site does not wait for its readers"
    refused = [(seconds, headers) for seconds, status, headers in answers if status == 503]
    assert [status for _, status, _ in answers].count(200) >= 6
    assert len(refused) >= 10
    assert len(refused) + [status for _, status, _ in answers].count(200) == 20
    assert all(headers["Retry-After"] == "5" for _, headers in refused)
    assert sorted(seconds for seconds, _ in refused)[len(refused) // 2] < 1.0
    assert overloaded.ask("GET", "/page")[0] == 200, "there is room again"


def test_a_queue_whose_first_has_waited_too_long_is_full_however_short_it_is(
    overloaded: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "MAX_WAIT_SECONDS", 0.2)
    with ThreadPoolExecutor(3) as readers:
        first = [readers.submit(overloaded.ask, "GET", "/page") for _ in range(3)]
        time.sleep(0.4)
        assert overloaded.ask("GET", "/page")[0] == 503
        assert [one.result()[0] for one in first] == [200, 200, 200]


class Serving:
    """A server in this process, whose answers are made and larger than what a reader takes."""

    def __init__(self, n_bytes: int, **limits: int) -> None:
        self.made = [bytes(2**16)] * (n_bytes // 2**16)
        adjusted = {"threads": 4, "outbuf_high_watermark": 2**18, **limits}
        self.server = create_server(self._answer, host="127.0.0.1", port=0, **adjusted)
        self.now = 0.0

    def _answer(self, environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"small"] if environ["PATH_INFO"] == "/small" else iter(self.made)  # type: ignore[return-value]

    def open(self, path: str) -> socket.socket:
        """With a request for this, or without a path one that is not whole yet."""
        asked = f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode() if path else HEAD
        return Site(int(self.server.effective_port)).open(asked, receive=4096)

    def answers_others(self) -> bool:
        with self.open("/small") as other:
            self.turn()
            return other.recv(1000).endswith(b"small")

    def turn(self, times: int = 10) -> None:
        for _ in range(times):
            self.server.asyncore.loop(timeout=0.02, map=self.server._map, use_poll=True, count=3)
            time.sleep(0.01)  # the threads that answer have work, too
            web_server.let_go(self.server, self.now)
            self.now += 1.0

    @property
    def open_ones(self) -> int:
        return len(self.server.active_channels)


@pytest.fixture
def serving() -> Iterator[Callable[..., Serving]]:
    made: list[Serving] = []

    def make(n_bytes: int, **limits: int) -> Serving:
        made.append(Serving(n_bytes, **limits))
        return made[-1]

    yield make
    for one in made:
        for channel in list(one.server.active_channels.values()):
            channel.will_close = True
        one.turn()
        one.server.task_dispatcher.shutdown(timeout=STARTS_WITHIN)
        one.server.close()


def test_answers_too_large_to_leave_behind_do_not_take_all_threads(
    serving: Callable[..., Serving],
) -> None:
    """More of them than threads, none read: those that waited longest end, others are answered."""
    site = serving(8 * 2**20)
    with ExitStack() as slow:
        for _ in range(12):
            slow.enter_context(site.open("/large"))
        site.turn(60)
        assert site.answers_others()
        assert site.open_ones <= 2


def test_unread_answers_do_not_fill_the_disk(
    serving: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_server, "LEFT_BEHIND", 24 * 2**20)
    site = serving(12 * 2**20, outbuf_high_watermark=2**30)
    with ExitStack() as slow:
        for _ in range(6):
            slow.enter_context(site.open("/large"))
            site.turn()

        def enough_are_let_go() -> bool:
            site.turn(1)
            return site.open_ones <= 3

        # Of each answer the system holds some megabytes itself.
        wait_until(enough_are_let_go, STARTS_WITHIN, lambda: f"{site.open_ones} are open")
        assert site.open_ones >= 2
        assert site.answers_others()


def test_where_connections_run_out_those_at_rest_for_longest_go(
    serving: Callable[..., Serving],
) -> None:
    site = serving(0, connection_limit=40)
    with ExitStack() as idle:
        for _ in range(60):
            idle.enter_context(socket.create_connection(("127.0.0.1", site.server.effective_port)))
            site.turn(1)
        assert site.open_ones <= 36
        assert site.answers_others()


def test_a_request_that_never_becomes_whole_is_given_up(serving: Callable[..., Serving]) -> None:
    """A byte now and then keeps no connection open."""
    site = serving(0)
    with site.open("") as client:
        site.turn(10)
        client.sendall(b"X-Another: byte\r\n")
        site.turn(int(web_server.WHOLE_REQUEST_SECONDS) - 10)
        assert site.open_ones == 1
        site.turn(5)
        assert client.recv(10) == b""
