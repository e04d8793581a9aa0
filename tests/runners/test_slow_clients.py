"""The site's server with clients that are slow, on purpose or not: nobody else waits for them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from waitress.server import create_server

from runners import web, web_worker
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
        web_worker.close_unfinished(server, 100.0)
        client.sendall(b"X-Another: byte\r\n")
        moves()
        assert len(server.active_channels) == 1
        web_worker.close_unfinished(server, 101.0 + web_worker.WHOLE_REQUEST_SECONDS)
        moves()
        assert client.recv(10) == b""
    server.close()
