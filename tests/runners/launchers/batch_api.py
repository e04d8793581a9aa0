"""A stand-in of Kubernetes' Batch API: it keeps Jobs, checks them against the schema, runs none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import kubernetes_validate

VERSION = "1.31"
JOBS = "/apis/batch/v1/namespaces/lab/jobs"


class BatchApi:
    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.forbidden = False
        self.says_nothing = False
        """It does what it is asked, and the connection breaks before it says so."""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        name = path.partition("?")[0].removeprefix(JOBS).strip("/")
        if self.forbidden:
            return _status(403, "Forbidden", 'jobs.batch is forbidden: User "lab"')
        if not path.startswith(JOBS):
            return _status(404, "NotFound", path)
        if method == "POST":
            kubernetes_validate.validate(body, VERSION, strict=True)
            name = body["metadata"]["name"]
            if name in self.jobs:
                return _status(409, "AlreadyExists", name)
            self.jobs[name] = {**body, "status": {}}
            return 201, self.jobs[name]
        if name not in self.jobs:
            return _status(404, "NotFound", name)
        return 200, self.jobs.pop(name) if method == "DELETE" else self.jobs[name]

    def finish(self, name: str, condition: str) -> None:
        told = {"type": condition, "status": "True"}
        self.jobs[name]["status"] = {"conditions": [told]}


def _status(code: int, reason: str, message: str) -> tuple[int, dict[str, Any]]:
    told = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return code, {**told, "reason": reason, "message": message, "code": code}


@contextmanager
def serve() -> Iterator[tuple[BatchApi, str]]:
    api = BatchApi()

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            code, told = api.answer(self.command, self.path, json.loads(body) if body else None)
            if api.says_nothing:
                self.close_connection = True
                return
            content = json.dumps(told).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _do

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield api, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
