"""Many requests to one HTTP server: a few at a time, again where that helps, and then no more.

What a request fails by decides who must act. A server that is busy, slow, cut off or broken is
asked again, later and later; what it refuses is the caller's to correct, and asked once.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import anyio
import httpx2
from anyio.from_thread import start_blocking_portal

from evalcore.errors import EvalError, InfraError, ModelError
from evalcore.model.servers.budget import Budget, Use, most_of, use_of
from evalcore.model.servers.secret import Secret

FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0
"""Seconds before a request is sent again the first time, and at most; each time twice as long."""

LONGEST_ASKED_WAIT = 600.0
"""Seconds that a server may ask us to wait (Retry-After)."""

BUSY = frozenset([408, 425, 429])
"""Statuses besides 500 and above after which the same request may go well."""

NOT_IMPLEMENTED = 501

NO_CREDIT = 402
NO_CREDIT_CODES = ("insufficient_quota", "enforced_spend_limit_reached")
"""What services say with 429 where waiting does not help."""

LONGEST_REASON = 300

SOON = 0.05
"""Seconds after which it is looked whether others have left room in the budget."""

T = TypeVar("T")
Body = Mapping[str, Any] | None
"""The JSON of a request; None for a GET."""
Read = Callable[[Any], T]
"""What makes a result of an answer's JSON; raises Malformed for another form."""
ReadAt = Callable[[int, Any], T]
"""The same, told the place of its request."""


@dataclass(frozen=True)
class Dialect:
    """How another interface says what is said here in the words of OpenAI's."""

    sent: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict
    """From a body as it is counted here to that which goes out."""
    said: Callable[[Any], Any] = field(default=lambda answer: answer)
    """From the JSON of an answer to that which is read here; raises Malformed."""


OPENAI = Dialect()


Through = Callable[[Mapping[str, Any]], Awaitable[httpx2.Response]]
"""A library that sends a request in its own way; what comes of it is an answer with a status."""


class Malformed(Exception):
    """An answer has not the form that the interface says; the text says where."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How a server is treated."""

    num_concurrent: int = 1
    """Requests that are under way at a time."""
    max_retries: int = 3
    """How often a request that failed is sent again."""
    timeout: float = 300.0
    """Seconds from a request to the end of its answer."""


class Refused(ModelError):
    """The model cannot be evaluated as it is; whoever chose or published it must act."""

    def __init__(self, status: int, message: str) -> None:
        """A server's status below 500, and what is said of it. Its own docstring, as that of every
        error, begins the message."""
        super().__init__(message)
        self.status = status


class Broken(InfraError):
    """Our machines or the network failed, not the model or the task; the run can be tried again."""


class _Again(Exception):
    """It failed, and the same request may go well."""

    def __init__(self, why: str, *, wait: float = 0.0, error: type[EvalError] = InfraError) -> None:
        """`wait`: seconds that the server asks for. `error`: what it is if it never goes well."""
        super().__init__(why)
        self.wait = wait
        self.error = error


@dataclass
class Client:
    """Asks one server. Requests are JSON, and so are answers."""

    limits: Limits
    secret: Secret
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Besides those with the key."""
    verify: bool | ssl.SSLContext = True
    """Whether, and by whom, a server must be certified."""
    through: Through | None = field(default=None, repr=False)
    """What carries requests where they do not go out from here."""
    retried: int = 0
    """How many requests were sent again so far."""

    def ask(self, url: str, body: Body, read: Read[T]) -> T:
        """One request. Raises as `ask_all`."""
        packs = self.ask_all(url, [body], lambda _, answer: read(answer))
        ((_, answer),) = (found for pack in packs for found in pack)
        return answer

    def ask_all(
        self,
        url: str,
        bodies: Iterable[Body],
        read: ReadAt[T],
        budget: Budget | None = None,
        dialect: Dialect = OPENAI,
    ) -> Iterator[list[tuple[int, T]]]:
        """Results in packs as they come, each with the place of its request.

        `budget`: what they are counted in, and end at.

        A body is made when it is its turn, in another thread, in which `read` is called, too.

        Raises ModelError (Refused where the server says no) and InfraError by whose fault it is,
        when all that was under way is handed out. Who stops reading ends what is under way.
        """
        asked = _Asked(self, url, bodies, read, budget or Budget(), dialect)
        with start_blocking_portal() as portal:
            work = portal.start_task_soon(asked.all)
            work.add_done_callback(lambda _: asked.found.put(None))
            try:
                ended = False
                while not ended:
                    pack = [asked.found.get()]
                    while not asked.found.empty():
                        pack.append(asked.found.get())
                    ended = None in pack
                    if results := [result for result in pack if result is not None]:
                        yield results
                work.result()
            finally:
                work.cancel()
        if asked.failed:
            raise asked.failed[0]

    def error_of(self, url: str, response: httpx2.Response) -> EvalError | _Again:
        """What a status that is no success means."""
        status, reason = response.status_code, self.secret.hidden_in(_reason(response))
        told = f"{host_of(url)} answers {status}: {reason}"
        if status in (401, 403):
            has = "its key is refused" if self.secret.value else "it wants a key"
            return Refused(status, f"{told}: {has}: set the variable {self.secret.variable}")
        if status == NO_CREDIT or any(code in response.text for code in NO_CREDIT_CODES):
            return InfraError(f"{told}: the account behind {self.secret.variable} has no credit")
        if status in BUSY or (status >= 500 and status != NOT_IMPLEMENTED):
            wait = _wait_asked(response.headers.get("retry-after", ""))
            return _Again(told, wait=wait, error=InfraError if status in BUSY else Broken)
        return Refused(status, told)


@dataclass
class _Asked(Generic[T]):
    """Requests under way; lives in the event loop, and hands out by a queue."""

    client: Client
    url: str
    bodies: Iterable[Body]
    read: ReadAt[T]
    budget: Budget
    dialect: Dialect
    found: SimpleQueue[tuple[int, T] | None] = field(default_factory=SimpleQueue)
    failed: list[EvalError] = field(default_factory=list)
    not_before: float = 0.0
    """By the loop's clock: until then the server wants to hear nothing."""
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when one has failed: nobody waits any longer to ask again."""

    async def all(self) -> None:
        """Workers take one request after the other from one row, so that no more are under way."""
        client = self.client
        row = iter(enumerate(self.bodies))
        headers = {**client.headers, **client.secret.headers}
        timeout = httpx2.Timeout(client.limits.timeout)
        count = client.limits.num_concurrent
        # Its own limit would let requests wait until they are timed out.
        pool = httpx2.Limits(max_connections=count, max_keepalive_connections=count)
        async with (
            httpx2.AsyncClient(
                headers=headers, timeout=timeout, limits=pool, verify=client.verify
            ) as http,
            anyio.create_task_group() as workers,
        ):
            for _ in range(count):
                workers.start_soon(self._work, http, row)

    async def _work(self, http: httpx2.AsyncClient, row: Iterator[tuple[int, Body]]) -> None:
        for place, body in row:
            try:
                self.found.put((place, await self._answer(http, place, body)))
            except EvalError as error:
                self.failed.append(error)
                self.over.set()
            if self.failed:  # what others have under way may still end well
                return

    async def _answer(self, http: httpx2.AsyncClient, place: int, body: Body) -> T:
        limits = self.client.limits
        for times in range(limits.max_retries + 1):
            await self._pause(self.not_before - anyio.current_time())
            try:
                return await self._once(http, place, body)
            except _Again as problem:
                asked_too_much = problem.wait > LONGEST_ASKED_WAIT
                if times == limits.max_retries or asked_too_much or self.failed:
                    often = f" ({times + 1} times)" if times else ""
                    waits = f", and asks to wait {problem.wait:.0f} s" if asked_too_much else ""
                    raise problem.error(f"{problem}{waits}{often}") from None
                if problem.wait:
                    self.not_before = anyio.current_time() + problem.wait
                self.client.retried += 1
                wait = min(FIRST_WAIT * 2**times, LONGEST_WAIT)
                # Requests that failed together must not come back together.
                await self._pause(wait * random.uniform(0.5, 1.0))  # noqa: S311
        raise AssertionError("the last time returns or raises")

    async def _pause(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self.over.wait()

    async def _once(self, http: httpx2.AsyncClient, place: int, body: Body) -> T:
        """Within the budget: of an answer that never came nobody knows what it cost, so it counts
        as the most that it can."""
        most = most_of(body) if body else Use(1)
        while not self.budget.hold(most):
            await self._pause(SOON)
            if self.failed:
                raise self.failed[0]
        used = most
        try:
            response = await self._sent(http, body)
            if not response.is_success:
                used = Use(1)
                raise self.client.error_of(self.url, response)
            answer = self.dialect.said(response.json())
            used = use_of(answer, most)
            return self.read(place, answer)
        except (ValueError, RecursionError):
            why = f"the answer of {host_of(self.url)} is no JSON"
        except Malformed as problem:
            where = host_of(self.url)
            why = f"the answer of {where} is not what its interface says: {problem}"
        finally:
            self.budget.release(most, used)
        raise _Again(self.client.secret.hidden_in(why), error=ModelError)

    async def _sent(self, http: httpx2.AsyncClient, body: Body) -> httpx2.Response:
        where, limits = host_of(self.url), self.client.limits
        try:
            with anyio.fail_after(limits.timeout):
                if self.client.through is not None and body is not None:
                    return await self.client.through(self.dialect.sent(body))
                if body is None:
                    return await http.get(self.url)
                return await http.post(self.url, json=self.dialect.sent(body))
        except (TimeoutError, httpx2.TimeoutException):
            why = f"{where} gave no answer in {limits.timeout:g} s"
            raise _Again(why) from None
        except httpx2.ConnectError as problem:
            why = f"{where} cannot be reached: start the server, or correct base_url: {problem}"
            raise _Again(why) from None
        except httpx2.TransportError as problem:
            said = self.client.secret.hidden_in(str(problem))
            raise _Again(f"the answer of {where} is cut off: {said}") from None
        except (httpx2.DecodingError, httpx2.InvalidURL, httpx2.UnsupportedProtocol) as problem:
            raise ModelError(f"{where} cannot be asked: {problem}") from None


def host_of(url: str) -> str:
    """The server's address in messages and records: never what stands before an @ or behind a ?."""
    parts = httpx2.URL(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.host}{port}{parts.path}"


def _reason(response: httpx2.Response) -> str:
    """What a server says of its refusal, in a line."""
    try:
        said: Any = response.json()
    except ValueError:
        said = response.text
    while isinstance(said, dict) and said:
        known = ("error", "message", "detail", "code")
        said = next((said[name] for name in known if said.get(name)), str(said))
    return " ".join(str(said).split())[:LONGEST_REASON] or response.reason_phrase


def _wait_asked(stated: str) -> float:
    """Seconds, from a Retry-After of seconds or of a date; 0 for what is neither."""
    try:
        return max(0.0, float(stated))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(stated)
    except (ValueError, OverflowError):
        return 0.0
    if when.tzinfo is None:  # a zone is left out, or is "-0000": HTTP knows GMT alone
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
