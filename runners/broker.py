"""Two of kombu's brokers, mended: files in a folder, which need no server, and Redis.

kombu's `filesystem` writes a message, or the first line of an exchange's table, into a file that
readers can already see: a quick reader takes an empty one, and its worker ends. Here each file
appears whole, by a rename or a link. Its Redis has no bound for hints that no worker reads.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns, time
from typing import Any
from uuid import uuid4

from celery.utils.nodenames import WORKER_DIRECT_EXCHANGE, worker_direct
from kombu.connection import Connection
from kombu.transport import filesystem, redis, virtual
from kombu.utils.json import dumps

MAX_WAIT = 0.5
"""Seconds for which a worker waits for a message before it looks whether it should stop."""
STALE = 120.0
"""Seconds after which a message that nobody took is removed; each of ours expires long before."""


class Channel(filesystem.Channel):
    def _put(  # type: ignore[override]  # of two bases that disagree
        self, queue: str, payload: dict[str, Any], **_: Any
    ) -> None:
        folder = Path(self.data_folder_out)
        name = f"{monotonic_ns() // 1_000_000}_{uuid4()}"
        unfinished = folder / f"{name}.part"
        unfinished.write_text(dumps(payload))  # type: ignore[no-untyped-call]
        unfinished.rename(folder / f"{name}.{queue}.msg")

    def _queue_bind(self, exchange: str, *names: str) -> None:
        table = self._exchange_file(exchange)  # type: ignore[no-untyped-call]
        empty = table.with_name(f"{uuid4()}.part")
        empty.write_text(dumps([]))  # type: ignore[no-untyped-call]
        with suppress(OSError):  # it is there; or no links are here, and kombu makes it its own way
            table.hardlink_to(empty)
        empty.unlink()
        super()._queue_bind(exchange, *names)  # type: ignore[no-untyped-call]


class Transport(filesystem.Transport):
    Channel = Channel
    # A folder that is gone or full for a while is a connection that is lost: Celery tries again.
    connection_errors = (*filesystem.Transport.connection_errors, OSError)  # type: ignore[assignment]
    recoverable_connection_errors = connection_errors

    def drain_events(  # type: ignore[override]  # of two bases that disagree
        self, connection: Any, timeout: float | None = None
    ) -> None:
        """Wait for a message. A worker that was asked to stop waits two whole time-outs first."""
        brief = min(timeout or MAX_WAIT, MAX_WAIT)
        super().drain_events(connection, timeout=brief)  # type: ignore[no-untyped-call]


MAX_HINTS = 100
"""Messages that wait in a queue on Redis: all say the same, and the database holds the work."""


class BoundedChannel(redis.Channel):
    """Where no worker reads, hints would lie for ever: Celery throws them away as it reads them."""

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        super()._put(queue, message, **options)  # type: ignore[no-untyped-call]
        with self.conn_or_acquire() as client:
            # The newest stand at the head, readers take from the tail.
            client.ltrim(queue, 0, MAX_HINTS - 1)
            client.expire(queue, int(STALE))


class BoundedRedis(redis.Transport):
    Channel = BoundedChannel


def transport_options(folder: Path) -> dict[str, str | bool | float]:
    """Transport options for a broker in `folder`, whose folders are made here."""
    messages, taken, control = folder / "messages", folder / "taken", folder / "control"
    for part in (messages, taken, control):
        part.mkdir(parents=True, exist_ok=True)
    return {
        "data_folder_in": str(messages),
        "data_folder_out": str(messages),
        # A reader moves a message before it reads it. Moves must not leave the file system, or
        # two readers could both have it, so not into the system's temporary folder.
        "store_processed": True,
        "processed_folder": str(taken),
        "control_folder": str(control),
        "polling_interval": 0.2,
    }


def forget_commands(folder: Path, worker: str) -> None:
    """Remove what a worker of this name was told and did not hear before it ended.

    kombu would give it to the next of that name, which would end at a shutdown of the day before.
    """
    for file in (folder / "messages").glob(f"*.{worker}.celery.pidbox.msg"):
        file.unlink(missing_ok=True)


def forget_workers(connection: Connection, living: Collection[str]) -> int:
    """Remove the direct queues of workers that are gone; how many. RabbitMQ keeps them.

    That of a worker which has just begun comes back with its next hint.
    """
    channel = connection.default_channel
    if not isinstance(channel, virtual.Channel):
        return 0
    bound = channel.get_table(WORKER_DIRECT_EXCHANGE.name)  # type: ignore[no-untyped-call]
    dead = {name for name, _, _ in bound} - set(living)
    for name in dead:
        queue = worker_direct(name)(channel)
        queue.declare()  # only what it has declared itself does a channel delete
        queue.delete()
    return len(dead)


def sweep(folder: Path) -> int:
    """Remove messages that were taken or that nobody will take; how many."""
    removed = 0
    for part in ("messages", "taken"):
        for file in (folder / part).glob("*"):
            try:
                if time() - file.stat().st_mtime > STALE:
                    file.unlink()
                    removed += 1
            except FileNotFoundError:
                continue  # a worker was faster
    return removed
