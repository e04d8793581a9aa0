"""The site's server with clients that are slow, on purpose or not: nobody else waits for them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from waitress.server import create_server

from runners import slow_clients, web, web_worker
from tests.runners.served import Site, running

LARGE = "/static/leaderboard/large.bin"
SIZE = 24 * 2**20
MANY = 8 * web.workers * web.threads
"""Slow clients of each kind, far more than there are threads."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The site's server, and a file too large for any buffer."""
    home = tmp_path_factory.mktemp("home")
    large = home / LARGE.lstrip("/")
    large.parent.mkdir(parents=True, exist_ok=True)
    large.write_bytes(os.urandom(2**20) * (SIZE // 2**20))
    with running(home) as site:
        yield site


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
        for _ in range(2 * web.workers):
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
    assert site.ask("GET", "/?q=" + "x" * web_worker.LARGEST_HEAD)[0] == 431
    with site.open(FORM.replace(b"4000", b"4000000")) as connection:
        assert b" 413 " in connection.recv(1000).partition(b"\r\n")[0]


def test_a_request_that_never_becomes_whole_is_given_up() -> None:
    """A byte now and then keeps no connection open."""
    server = create_server(lambda *_: [], host="127.0.0.1", port=0)
    with socket.create_connection(("127.0.0.1", int(server.effective_port))) as client:
        client.settimeout(5)

        def moves() -> None:
            server.asyncore.loop(timeout=0.2, map=server._map, use_poll=True, count=3)

        client.sendall(HEAD)
        moves()
        slow_clients.close_unfinished(server, 100.0)
        client.sendall(b"X-Another: byte\r\n")
        moves()
        assert len(server.active_channels) == 1
        slow_clients.close_unfinished(server, 101.0 + slow_clients.WHOLE_REQUEST_SECONDS)
        moves()
        assert client.recv(10) == b""
    server.close()


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
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(5)
        connection.connect(("127.0.0.1", int(self.server.effective_port)))
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return connection

    def turn(self, times: int = 10) -> None:
        for _ in range(times):
            self.server.asyncore.loop(timeout=0.02, map=self.server._map, use_poll=True, count=3)
            time.sleep(0.01)  # the threads that answer have work, too
            slow_clients.let_go(self.server, self.now)
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
        one.server.task_dispatcher.shutdown(timeout=2)
        one.server.close()


def test_answers_too_large_to_leave_behind_do_not_take_all_threads(
    serving: Callable[..., Serving],
) -> None:
    """More of them than threads, none read: those that waited longest end, others are answered."""
    site = serving(8 * 2**20)
    with ExitStack() as slow:
        unread = [slow.enter_context(site.open("/large")) for _ in range(12)]
        site.turn(60)
        with site.open("/small") as other:
            site.turn()
            assert other.recv(1000).endswith(b"small")
        assert site.open_ones <= 2
        assert len(unread) == 12


def test_one_large_answer_that_is_read_slowly_is_whole(serving: Callable[..., Serving]) -> None:
    site = serving(2**20)
    received = 0
    with site.open("/large") as connection:
        connection.settimeout(0.01)
        for _ in range(2000):
            site.turn(1)
            try:
                piece = connection.recv(2**16)
            except TimeoutError:
                continue
            received += len(piece)
            if not piece:
                break
    assert received > 2**20


def test_unread_answers_do_not_fill_the_disk(
    serving: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_clients, "LEFT_BEHIND", 24 * 2**20)
    site = serving(12 * 2**20, outbuf_high_watermark=2**30)
    with ExitStack() as slow:
        for _ in range(6):
            slow.enter_context(site.open("/large"))
            site.turn()
        # Of each answer the system holds some megabytes itself.
        assert 2 <= site.open_ones <= 3
        with site.open("/small") as other:
            site.turn()
            assert other.recv(1000).endswith(b"small")


def test_where_connections_run_out_those_at_rest_for_longest_go(
    serving: Callable[..., Serving],
) -> None:
    site = serving(0, connection_limit=40)
    with ExitStack() as idle:
        for _ in range(60):
            idle.enter_context(socket.create_connection(("127.0.0.1", site.server.effective_port)))
            site.turn(1)
        assert site.open_ones <= 36
        with site.open("/small") as other:
            site.turn()
            assert other.recv(1000).endswith(b"small")
