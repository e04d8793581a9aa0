"""A proxy that stands before a server and does to its answers what networks and services do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Fault = str | Callable[[dict[str, Any]], Any]
"""The name of a fault, or a function that changes an answer."""


@dataclass
class FaultProxy:
    """Passes requests on; those for completions meet the faults in turn, and then none."""

    upstream: str
    faults: list[Fault] = field(default_factory=list)
    always: Fault | None = None
    """What every request meets that no other fault waits for."""
    retry_after: str = "0"
    key: str = ""
    """Sent on in the place of whatever came."""
    times: list[float] = field(default_factory=list)
    """When requests for completions came, by the loop's clock."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """Their bodies."""
    at_work: int = 0
    most_at_work: int = 0

    def application(self) -> Starlette:
        route = Route("/{path:path}", self._pass, methods=["GET", "POST"])
        return Starlette(routes=[route])

    async def _pass(self, request: Request) -> Response:
        fault: Fault | None = None
        if request.url.path.endswith("completions"):
            self.times.append(asyncio.get_running_loop().time())
            self.asked.append(await request.json())
            fault = self.faults.pop(0) if self.faults else self.always
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            return await self._answer(request, fault)
        finally:
            self.at_work -= 1

    async def _answer(self, request: Request, fault: Fault | None) -> Response:
        match fault:
            case "429":
                headers = {"Retry-After": self.retry_after}
                return JSONResponse({"error": "slow down"}, status_code=429, headers=headers)
            case "500" | "503":
                return JSONResponse({"error": {"message": "broken"}}, status_code=int(fault))
            case "slow":
                await asyncio.sleep(5)
            case "html":
                return Response("<html>gateway</html>", media_type="text/html")
        headers = {
            name: value
            for name, value in request.headers.items()
            if name in ("authorization", "content-type")
        }
        if self.key:
            headers["authorization"] = f"Bearer {self.key}"
        async with httpx2.AsyncClient(timeout=300) as http:
            found = await http.request(
                request.method,
                f"{self.upstream}{request.url.path}",
                content=await request.body(),
                headers=headers,
            )
        if fault == "cut":
            whole = {"content-length": str(len(found.content)), "content-type": "application/json"}
            return StreamingResponse(_half(found.content), headers=whole)
        if fault == "half":
            return Response(found.content[: len(found.content) // 2], media_type="application/json")
        content = found.content
        if callable(fault):
            content = json.dumps(fault(found.json())).encode()
        return Response(content, status_code=found.status_code, media_type="application/json")


async def _half(content: bytes) -> AsyncIterator[bytes]:
    yield content[: len(content) // 2]


def reordered(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "choices": answer["choices"][::-1]}


def without_a_choice(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "choices": answer["choices"][:-1]}


def of_another_prompt(answer: dict[str, Any]) -> dict[str, Any]:
    """The choices bear each other's numbers."""
    places = [choice["index"] for choice in answer["choices"]][::-1]
    choices = [
        {**choice, "index": place} for choice, place in zip(answer["choices"], places, strict=True)
    ]
    return {**answer, "choices": choices}
