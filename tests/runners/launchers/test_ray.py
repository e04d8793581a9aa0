"""Ray's dashboard, as launches meet it, by a stand-in; a real Ray is in tests/backends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import UUID

import pytest

from runners.launchers import EngineTrouble, NoAnswer, Order
from runners.launchers.ray_jobs import RayJobs
from tests.runners.launchers.plans import kind

ORDER = Order(UUID("00000000-0000-4000-8000-000000000001"), kind())


@dataclass
class Dashboard:
    address: str = ""
    status: int = 200
    content: str = "{}"


@pytest.fixture
def dashboard() -> Iterator[Dashboard]:
    told = Dashboard()

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(told.status)
            self.send_header("Content-Length", str(len(told.content.encode())))
            self.end_headers()
            self.wfile.write(told.content.encode())

        do_GET = do_POST = _do

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    told.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("content", ["<html>Sign in</html>", "[]", "{}", ""])
def test_an_answer_that_is_none_of_rays_is_trouble_of_the_engine(
    dashboard: Dashboard, content: str
) -> None:
    dashboard.content = content
    jobs = RayJobs({"address": dashboard.address})
    with pytest.raises(EngineTrouble, match=r"Ray at http://127\.0\.0\.1"):
        jobs.launch(ORDER)
    with pytest.raises(EngineTrouble, match=r"Ray at http://127\.0\.0\.1"):
        jobs.alive(ORDER.name)


@pytest.mark.parametrize(
    ("status", "content", "trouble"),
    [
        (200, "<html>", NoAnswer),
        (504, "a gateway's time is over", NoAnswer),
        (500, "runtime_env: not a dictionary", EngineTrouble),
    ],
)
def test_ray_may_have_made_what_it_did_not_refuse(
    dashboard: Dashboard, status: int, content: str, trouble: type[EngineTrouble]
) -> None:
    dashboard.status, dashboard.content = status, content
    with pytest.raises(EngineTrouble) as met:
        RayJobs({"address": dashboard.address}).launch(ORDER)
    assert met.type is trouble
    with pytest.raises(EngineTrouble) as away:
        RayJobs({"address": "http://127.0.0.1:1"}).launch(ORDER)
    assert away.type is EngineTrouble


def test_a_job_of_rays_is_found_by_its_name(dashboard: Dashboard) -> None:
    jobs = RayJobs({"address": dashboard.address})
    dashboard.content = '{"status": "PENDING"}'
    assert jobs.find(ORDER.name) == ORDER.name
    dashboard.status = 404
    assert jobs.find(ORDER.name) is None
