"""Faults on order: how the Hub is told to fail, and the middleware that fails.

A fault is `{match, times, …}` with one effect:

    {match: "GET /org/name/*", status: 429, retry_after: 2}    also: code, message, location
    {match: "/api/models/org/name*", delay: 5}                 answers after 5 seconds
    {match: "*/model.safetensors", truncate: 100}              cuts the line after 100 bytes of body
    {match: "*/config.json", garbage: true}                    the right length, the wrong bytes

`match` is a glob on the path or on "METHOD path"; its `*` crosses slashes. `times` is how often the
fault happens (without it: always). The first fault that matches and is not used up counts.
"""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from http import HTTPStatus
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from demo.hub.errors import HubError

EFFECTS = ("status", "delay", "truncate", "garbage")
CONTROL_PATH = "/_faults"


@dataclass(kw_only=True)
class Fault:
    """One order to fail. `times` counts down and ends at 0; None means always."""

    match: str
    times: int | None = None
    status: int | None = None
    code: str | None = None
    message: str | None = None
    location: str | None = None
    retry_after: int | None = None
    delay: float | None = None
    truncate: int | None = None
    garbage: bool | None = None

    def applies(self, method: str, path: str) -> bool:
        return self.times != 0 and any(
            fnmatch.fnmatchcase(asked, self.match) for asked in (path, f"{method} {path}")
        )

    def use(self) -> None:
        if self.times is not None:
            self.times -= 1

    def error(self, status: int) -> HubError:
        headers = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
            headers["ratelimit"] = f'"api";r=0;t={self.retry_after}'
            headers["ratelimit-policy"] = '"fixed window";"api";q=500;w=300'
        if self.location is not None:
            headers["Location"] = self.location
        message = self.message or HTTPStatus(status).phrase
        return HubError(status, message, code=self.code, headers=headers)


def parse_faults(orders: object) -> list[Fault]:
    """Faults from a JSON or YAML list. ValueError names every wrong fault, key and value."""
    if orders is None:
        return []
    if not isinstance(orders, list):
        raise ValueError(f"expected a list of faults, got {orders!r}")
    problems = [
        f"fault {number}: {problem}"
        for number, order in enumerate(orders, start=1)
        for problem in _problems(order)
    ]
    if problems:
        raise ValueError("; ".join(problems))
    return [Fault(**order) for order in orders]


def _problems(order: object) -> list[str]:
    if not isinstance(order, dict):
        return [f"expected keys and values, got {order!r}"]
    known = [field.name for field in fields(Fault)]
    problems = [f"unknown key {key!r}; use {', '.join(known)}" for key in order if key not in known]
    if not isinstance(order.get("match"), str):
        problems.append(f"match: {order.get('match')!r} is not a glob on a path")
    named = [effect for effect in EFFECTS if order.get(effect) is not None]
    if len(named) != 1:
        problems.append(f"expected one of {', '.join(EFFECTS)}, got {', '.join(named) or 'none'}")
    for key in ("code", "message", "location", "retry_after"):
        if order.get(key) is not None and "status" not in named:
            problems.append(f"{key}: goes with status only")
    if not isinstance(order.get("message", ""), str | None):
        problems.append(f"message: {order['message']!r} is not a text")
    for key in ("code", "location"):
        if order.get(key) is not None and not _is_header_word(order[key]):
            problems.append(f"{key}: {order[key]!r} is not a word of printable ASCII")
    for key in ("times", "retry_after", "truncate"):
        if order.get(key) is not None and not _is_count(order[key]):
            problems.append(f"{key}: {order[key]!r} is not a whole number, 0 or more")
    if order.get("status") is not None and not _is_error_status(order["status"]):
        problems.append(f"status: {order['status']!r} is not an HTTP status from 300 to 599")
    delay = order.get("delay")
    if delay is not None and not (
        _is_count(delay) or (isinstance(delay, float) and 0 <= delay < 1e6)
    ):
        problems.append(f"delay: {delay!r} is not a number of seconds")
    if order.get("garbage") not in (None, True):
        problems.append(f"garbage: {order['garbage']!r} is not true")
    return problems


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9


def _is_header_word(value: object) -> bool:
    return isinstance(value, str) and all("!" <= char <= "~" for char in value)


def _is_error_status(value: object) -> bool:
    return _is_count(value) and value in {s.value for s in HTTPStatus if 300 <= s.value < 600}


class FaultMiddleware:
    """Fails the requests that a fault in `faults` matches; the list may be replaced at any time."""

    def __init__(self, app: ASGIApp, faults: Sequence[Fault] = ()) -> None:
        self.app = app
        self.faults = list(faults)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = self._next_fault(scope) if scope["type"] == "http" else None
        if fault is None:
            await self.app(scope, receive, send)
        elif fault.status is not None:
            await fault.error(fault.status).response()(scope, receive, send)
        elif fault.delay is not None:
            await asyncio.sleep(fault.delay)
            await self.app(scope, receive, send)
        elif fault.truncate is not None:
            await self.app(scope, receive, _cut_after(fault.truncate, send))
        else:
            await self.app(scope, receive, _garble(send))

    def _next_fault(self, scope: Scope) -> Fault | None:
        if scope["path"] == CONTROL_PATH:
            return None
        for fault in self.faults:
            if fault.applies(scope["method"], scope["path"]):
                fault.use()
                return fault
        return None

    def listing(self) -> list[dict[str, Any]]:
        """The faults as orders, with what is left of `times`."""
        return [
            {key: value for key, value in asdict(fault).items() if value is not None}
            for fault in self.faults
        ]


def _cut_after(n_bytes: int, send: Send) -> Send:
    """Passes the headers on as they are and `n_bytes` of the body, and never says that it is whole.

    The server closes the connection of an answer that was left unfinished.
    """
    left = n_bytes

    async def send_cut(message: Message) -> None:
        nonlocal left
        if message["type"] == "http.response.body":
            body = message.get("body", b"")[:left]
            left -= len(body)
            message = {"type": "http.response.body", "body": body, "more_body": True}
        await send(message)

    return send_cut


def _garble(send: Send) -> Send:
    async def send_garbled(message: Message) -> None:
        if message["type"] == "http.response.body":
            body = bytes(byte ^ 0xA5 for byte in message.get("body", b""))
            message = {**message, "body": body}
        await send(message)

    return send_garbled
