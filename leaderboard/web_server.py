"""waitress as a worker of gunicorn: no thread waits for a slow client.

gunicorn's own threads read a request's head and send its answer themselves, so that a few clients
that do neither end hold them all. waitress reads and writes beside its threads: a request reaches
one when it is whole, an answer leaves one when it is made. gunicorn goes on to start, watch and
stop the processes (docs/decisions/0015-slow-clients.md).

Three rules are of our own: a request states its length once (`OneLength`), a full queue is closed
(`BoundedDispatcher`), and a full server lets go of the slowest clients (`let_go`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gunicorn.workers.base import Worker
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer

from evalcore.sandbox.prctl import die_with_parent

if TYPE_CHECKING:
    import socket

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
import logging
import threading
from queue import SimpleQueue

from waitress.buffers import ReadOnlyFileBasedBuffer
from waitress.task import ThreadedTaskDispatcher
from waitress.utilities import Error

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
        (listener,) = self.sockets
        server = make_server(
            without_body_to_head(self.wsgi),
            listener.sock,
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
        server.asyncore.loop(timeout=BEAT, map=server.connections, use_poll=True, count=1)
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


class Server(TcpWSGIServer):  # type: ignore[misc]
    """waitress's server of one socket, with our parser."""

    channel_class = Channel
    connections: dict[int, Any]
    """All that its loop looks at, by file descriptor."""


def make_server(
    application: WSGIApplication, listener: socket.socket, *, threads: int, **adjustments: Any
) -> Server:
    """A server whose queue has an end, on a socket that is bound already."""
    dispatcher = BoundedDispatcher()
    dispatcher.set_thread_count(threads)
    connections: dict[int, Any] = {}
    server = Server(
        application,
        connections,
        True,
        listener,
        dispatcher=dispatcher,
        adj=Adjustments(threads=threads, sockets=[listener], **adjustments),
        sockinfo=(listener.family, listener.type, listener.proto, listener.getsockname()),
        bind_socket=False,
    )
    server.connections = connections
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


logger = logging.getLogger(__name__)

MAX_WAITING = 64
"""Requests; four threads answer as many ordinary pages in two to three seconds."""
MAX_WAIT_SECONDS = 5.0
"""A queue whose first request has waited for so long is full, however short it is."""
RETRY_SECONDS = 5
LOG_SECONDS = 60.0
WATCHED = ("/healthz", "/readyz", "/metrics")
"""Asked by who watches the site: answered first, so that overload is not taken for death."""
WATCHERS = 16
"""Requests of theirs that find room in a queue that is full for others."""
BODY = b"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Too much at once</title>
<h1>Too much at once</h1>
<p>This site is asked for more than it can answer at the moment. Nothing was stored.
Try again in some seconds.</p>
"""


class QueueFull(Error):  # type: ignore[misc]
    """As waitress answers what never reaches the site."""

    code, reason = 503, "Service Unavailable"

    def __init__(self) -> None:
        super().__init__("")

    def to_response(self, ident: str | None = None) -> tuple[str, list[tuple[str, str]], bytes]:  # noqa: ARG002 waitress passes it
        headers = [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Retry-After", str(RETRY_SECONDS)),
            ("Cache-Control", "no-store"),
        ]
        return f"{self.code} {self.reason}", headers, BODY


class BoundedDispatcher(ThreadedTaskDispatcher):  # type: ignore[misc]
    """waitress's threads and their queue, which has an end; one more thread sends others away."""

    def __init__(self) -> None:
        super().__init__()
        self._refused: SimpleQueue[Any] = SimpleQueue()
        self._number_refused, self._logged = 0, 0.0
        threading.Thread(target=self._refuse, name="refusing", daemon=True).start()

    def add_task(self, task: Any) -> None:
        """`task` is a connection, the first of whose requests waits to be answered."""
        request = task.requests[0]
        request.queued_at = time.monotonic()
        with self.lock:
            if request.path in WATCHED and len(self.queue) < MAX_WAITING + WATCHERS:
                self.queue.appendleft(task)
            elif request.error is None and self._is_full():
                request.error = QueueFull()
                self._refused.put(task)
                self._count_refused()
                return
            else:
                self.queue.append(task)
            self.queue_cv.notify()

    def _is_full(self) -> bool:
        if len(self.queue) >= MAX_WAITING:
            return True
        first = next((task.requests[0] for task in self.queue if task.requests), None)
        return first is not None and time.monotonic() - first.queued_at > MAX_WAIT_SECONDS

    def _count_refused(self) -> None:
        """One line a minute: a line for each would be more work than the answer."""
        self._number_refused += 1
        now = time.monotonic()
        if now - self._logged >= LOG_SECONDS:
            logger.warning(
                "overload: requests are answered 503 at once, since as many as may wait do; so far "
                "since the last such line: %d",
                self._number_refused,
            )
            self._number_refused, self._logged = 0, now

    def _refuse(self) -> None:
        """Only writes an error, which waits for no reader."""
        while True:
            task = self._refused.get()
            try:
                task.service()
            except Exception:
                logger.exception("a connection could not be told that the queue is full")


WHOLE_REQUEST_SECONDS = 20.0
"""In which a request must have arrived; ours are an address or a small form."""
LEFT_BEHIND = 2 * 2**30
"""Bytes of all answers together that their readers have not taken yet, most of them on disk."""
CROWDED = 0.9
"""Of the connections that there may be: beyond, those go on which nothing moved for longest."""


def let_go(server: Any, now: float) -> None:
    """`now` is of a clock that never goes back."""
    close_unfinished(server, now)
    close_idle(server)
    close_waited_for(server, now)
    close_left_behind(server)
    end_what_is_closed(server)


def end_what_is_closed(server: Any) -> None:
    """waitress ends a connection when it can next be written to: of an unread one, never.

    So it is with those that it closes itself because nothing moved on them.
    """
    for channel in _channels(server):
        if channel.will_close:
            channel.handle_close()


def close_unfinished(server: Any, now: float) -> None:
    """Close connections that have taken too long over one request, a byte now and then or none.

    waitress's own time-out starts anew with every byte.
    """
    for channel in _channels(server):
        request = channel.request
        if request is None:
            continue
        begun = vars(request).setdefault("begun", now)
        if now - begun > WHOLE_REQUEST_SECONDS:
            channel.will_close = True


def close_idle(server: Any) -> None:
    """Where hardly any more connection is taken, make room: nobody new could else come in."""
    channels = _channels(server)
    too_many = len(channels) - int(CROWDED * server.adj.connection_limit)
    if too_many <= 0:
        return
    resting = [channel for channel in channels if not channel.requests]
    for channel in sorted(resting, key=lambda channel: channel.last_activity)[:too_many]:
        channel.will_close = True


def close_waited_for(server: Any, now: float) -> None:
    """Where threads wait until answers are read, beyond half of them, end what waits for longest.

    A thread waits where an answer is larger than what it may leave behind.
    """
    waiting = []
    for channel in _channels(server):
        if channel.requests and channel.total_outbufs_len > server.adj.outbuf_high_watermark:
            vars(channel).setdefault("waits_since", now)
            waiting.append(channel)
        else:
            vars(channel).pop("waits_since", None)
    waiting.sort(key=lambda channel: channel.waits_since)
    for channel in waiting[: max(0, len(waiting) - server.adj.threads // 2)]:
        channel.will_close = True


def close_left_behind(server: Any) -> None:
    """Where unread answers fill memory and disk, end the largest of them."""
    held = [(_left_behind(channel), channel) for channel in _channels(server)]
    held.sort(key=lambda pair: pair[0])
    total = sum(n_bytes for n_bytes, _ in held)
    while total > LEFT_BEHIND and held:
        n_bytes, channel = held.pop()
        channel.will_close = True
        total -= n_bytes


def _left_behind(channel: Any) -> int:
    """Bytes; of a stored file none, which is read as it is sent."""
    return sum(
        len(buffer)
        for buffer in list(channel.outbufs)
        if not isinstance(buffer, ReadOnlyFileBasedBuffer)
    )


def _channels(server: Any) -> list[Any]:
    return list(server.active_channels.values())
