"""The load generator: a process of its own that asks for addresses and times the answers.

Reads a plan as JSON from standard input and writes what came of it to standard output. A time is
from the moment a request was due until its last byte: a server that falls behind cannot hide it.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

TIMEOUT = 30.0


@dataclass(frozen=True)
class Plan:
    """Addresses to ask for, each with the name of its kind."""

    port: int
    requests: Sequence[tuple[str, str]]
    rate: float | None
    """Requests a second, whether or not earlier ones were answered; None: one after the other."""


class Answer(NamedTuple):
    """What came of a request; status 0 where nothing came."""

    kind: str
    address: str
    status: int
    seconds: float
    bytes: int
    """Of the body as sent, compressed or not."""
    compressed: bool


@dataclass(frozen=True)
class Outcome:
    answers: Sequence[Answer]
    seconds: float
    """By the clock, from the first request to the last answer."""
    cpu: float
    """Seconds that the load generator itself computed."""


def run(plan: Plan) -> Outcome:
    """Carry out the plan in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.site.load"],
        input=json.dumps(asdict(plan)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    return Outcome([Answer(*answer) for answer in found["answers"]], found["seconds"], found["cpu"])


class _Connections:
    """Connections that are kept open and used again, the longest unused one last."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, kind: str, address: str, due: float) -> Answer:
        try:
            status, body, compressed = await asyncio.wait_for(self._answer(address), TIMEOUT)
        except (OSError, EOFError, ValueError, TimeoutError):
            status, body, compressed = 0, 0, False
        return Answer(kind, address, status, time.perf_counter() - due, body, compressed)

    async def _answer(self, address: str) -> tuple[int, int, bool]:
        """Status, bytes of the body, and whether it is compressed."""
        while self._free:
            reader, writer = self._free.pop()
            try:
                return await self._exchange(reader, writer, address)
            except (ConnectionError, EOFError):
                writer.close()  # the server closes what is idle: the next one, or a new one
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        return await self._exchange(reader, writer, address)

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> tuple[int, int, bool]:
        writer.write(
            f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            "Accept: text/html\r\nAccept-Encoding: gzip\r\n\r\n".encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head.split(" ", 2)[1])
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        if fields.get("transfer-encoding") == "chunked":
            body = await _chunks(reader)
        else:
            body = int(fields.get("content-length", "0"))
            await reader.readexactly(body)
        if fields.get("connection") == "close":
            writer.close()
        else:
            self._free.append((reader, writer))
        return status, body, fields.get("content-encoding") == "gzip"


async def _chunks(reader: asyncio.StreamReader) -> int:
    total = 0
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
        total += size
    await reader.readline()
    return total


async def _carry_out(plan: Plan) -> list[Answer]:
    connections = _Connections(plan.port)
    begin = time.perf_counter()
    if plan.rate is None:
        return [
            await connections.ask(kind, address, time.perf_counter())
            for kind, address in plan.requests
        ]
    waiting = []
    for number, (kind, address) in enumerate(plan.requests):
        due = begin + number / plan.rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        waiting.append(asyncio.create_task(connections.ask(kind, address, due)))
    return list(await asyncio.gather(*waiting))


def main() -> None:
    plan = Plan(**json.load(sys.stdin))
    used, begin = _cpu(), time.perf_counter()
    answers = asyncio.run(_carry_out(plan))
    seconds = time.perf_counter() - begin
    json.dump({"answers": answers, "seconds": seconds, "cpu": _cpu() - used}, sys.stdout)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
