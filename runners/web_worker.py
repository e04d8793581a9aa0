"""waitress as a worker of gunicorn: no thread waits for a slow client.

gunicorn's own threads read a request's head and send its answer themselves, so that a few clients
that do neither end hold them all. waitress reads and writes beside its threads: a request reaches
one when it is whole, an answer leaves one when it is made. gunicorn goes on to start, watch and
stop the processes (docs/decisions/0015-slow-clients.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gunicorn.workers.base import Worker
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import create_server

from runners.overload import BoundedDispatcher
from runners.prctl import die_with_parent
from runners.slow_clients import let_go

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

SILENT_SECONDS = 60
"""After which a connection on which nothing moves is closed."""
LARGEST_HEAD = 16 * 1024
LARGEST_BODY = 2**20
CONNECTIONS = 1000
BUFFERED = 256 * 2**20
"""Bytes of an answer that its thread may leave behind, on disk beyond the first megabyte."""
BEAT = 1.0


class Buffered(Worker):  # type: ignore[misc]
    """Serves until gunicorn says stop, and then ends what it has begun."""

    _looked = 0.0

    def run(self) -> None:
        die_with_parent()  # the port is free as soon as the master is gone, however it went
        server = make_server(
            without_body_to_head(self.wsgi),
            sockets=[listener.sock for listener in self.sockets],
            threads=self.cfg.threads,
            ident=None,
            channel_timeout=SILENT_SECONDS,
            connection_limit=CONNECTIONS,
            max_request_header_size=LARGEST_HEAD,
            max_request_body_size=LARGEST_BODY,
            outbuf_high_watermark=BUFFERED,
            # Which headers of a proxy count, the site's settings say.
            clear_untrusted_proxy_headers=False,
        )
        while self.alive and self.ppid == os.getppid():
            self._serve(server)
        server.accepting = False
        deadline = time.monotonic() + self.cfg.graceful_timeout
        while _at_work(server) and time.monotonic() < deadline:
            self._serve(server)
        server.task_dispatcher.shutdown(timeout=0)

    def _serve(self, server: Any) -> None:
        """Whatever moves next, or a beat in which nothing does."""
        server.asyncore.loop(timeout=BEAT, map=server._map, use_poll=True, count=1)
        now = time.monotonic()
        if now - self._looked >= BEAT / 2:
            self._looked = now
            let_go(server, now)
        self.notify()


class OneLength(HTTPRequestParser):  # type: ignore[misc]
    """A request's head that states how long its body is once, or not at all.

    A proxy that goes by the one header and a server that goes by the other see two different
    requests in the same bytes, of which the proxy has not looked at the second.
    """

    def parse_header(self, header_plus: bytes) -> None:
        """Raises ParsingError, after which the connection is closed."""
        super().parse_header(header_plus)
        headers = self.headers  # of which waitress takes Transfer-Encoding away for HTTP/1.1
        if self.chunked and "CONTENT_LENGTH" in headers:
            raise ParsingError("Content-Length and Transfer-Encoding are both given")
        if "TRANSFER_ENCODING" in headers:
            raise ParsingError("Transfer-Encoding is not of this version of HTTP")


class Channel(HTTPChannel):  # type: ignore[misc]
    parser_class = OneLength


def make_server(application: WSGIApplication, *, threads: int, **adjustments: Any) -> Any:
    """waitress's server with our parser, and a queue that has an end."""
    dispatcher = BoundedDispatcher()
    dispatcher.set_thread_count(threads)
    adjustments["threads"] = threads
    server = create_server(application, _dispatcher=dispatcher, **adjustments)
    server.channel_class = Channel
    return server


def without_body_to_head(application: WSGIApplication) -> WSGIApplication:
    """Django leaves it to the server that HEAD is answered by headers alone; waitress does not."""

    def answered(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        answer = application(environ, start_response)
        if environ["REQUEST_METHOD"] != "HEAD":
            return answer
        if hasattr(answer, "close"):
            answer.close()
        return []

    return answered


def _at_work(server: Any) -> bool:
    return any(
        channel.requests or channel.total_outbufs_len
        for channel in list(server.active_channels.values())
    )
