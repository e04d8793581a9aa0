"""Ray: a job for each worker, by the HTTP interface of Ray's dashboard.

Ray's own client is a part of its wheel of 80 MB and has to be of the cluster's version; the
interface is documented, and four requests of it are all that is needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import httpx2

from runners.launchers.engine import EngineTrouble, NoAnswer, Order

OPTIONS: Mapping[str, str] = {
    "address": "of the dashboard, such as http://head:8265",
    "python": "that starts the worker on a node",
    "env": "variables for the worker; everybody who sees the dashboard sees them",
    "cpus": "of a worker",
    "resources": "Ray's own names of resources, such as accelerator_type:A100, with amounts",
}
OVER = ("SUCCEEDED", "FAILED", "STOPPED")
BETWEEN = (502, 503, 504)
"""Said by what stands before Ray, which may not have heard Ray's answer."""
SECONDS = 10.0


class RayJobs:
    OPTIONS: Mapping[str, str] = OPTIONS

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = dict(options)
        self._address = str(options.get("address", "http://127.0.0.1:8265")).rstrip("/")

    def launch(self, order: Order) -> str:
        stated = {**self._options, **order.kind.options}
        command = [str(stated.get("python", "python")), *order.arguments]
        job = {
            "entrypoint": _exec(command),
            "submission_id": order.name,
            "entrypoint_num_gpus": order.kind.gpus,
            "entrypoint_num_cpus": stated.get("cpus", 1),
            "entrypoint_resources": stated.get("resources", {}),
            "runtime_env": {"env_vars": stated.get("env", {})},
            "metadata": {"kind": order.kind.name},
        }
        return str(self._ask("POST", "", job, expects="submission_id")["submission_id"])

    def find(self, name: str) -> str | None:
        return name if self._ask("GET", f"/{name}", expects="status", none_at=404) else None

    def alive(self, handle: str) -> bool | None:
        told = self._ask("GET", f"/{handle}", expects="status", none_at=404)
        return bool(told) and told["status"] not in OVER

    def cancel(self, handle: str) -> None:
        self._ask("POST", f"/{handle}/stop", none_at=404)

    def _ask(
        self, method: str, path: str, content: Any = None, *, expects: str = "", none_at: int = 0
    ) -> dict[str, Any]:
        """The answer, which has the field `expects`; empty for the status `none_at`.

        Raises NoAnswer where Ray was reached and did not say what became of it.
        """
        url = f"{self._address}/api/jobs{path or '/'}"
        try:
            answer = httpx2.request(method, url, json=content, timeout=SECONDS)
        except httpx2.HTTPError as problem:
            refusal = isinstance(problem, httpx2.ConnectError | httpx2.ConnectTimeout)
            trouble = EngineTrouble if refusal else NoAnswer
            raise trouble(f"Ray at {self._address}: {problem}") from None
        if answer.status_code == none_at:
            return {}
        if not answer.is_success:
            said = " ".join(answer.text.split())[-300:]
            trouble = NoAnswer if answer.status_code in BETWEEN else EngineTrouble
            raise trouble(f"Ray at {self._address}: {answer.status_code}: {said}")
        try:
            told = answer.json()
        except ValueError:
            told = None
        if not isinstance(told, dict) or (expects and expects not in told):
            said = " ".join(answer.text.split())[:300]
            raise NoAnswer(
                f"Ray at {self._address}: expected JSON{expects and f' with {expects}'}: {said!r}"
            )
        return told


def _exec(command: list[str]) -> str:
    """Ray starts it by a shell, whose place the worker takes, so that it hears SIGTERM."""
    return f"exec {shlex.join(command)}"
