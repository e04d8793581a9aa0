"""On which addresses the site listens, and under which names it answers there."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path

import pytest

from runners import supervisor
from tests.runners.served import running


def test_on_every_address_the_site_answers_under_its_own_names_alone(tmp_path: Path) -> None:
    with running(tmp_path, PLUMBLINE_BIND="0.0.0.0") as site:
        said = (tmp_path / "server.log").read_text()
        assert "PLUMBLINE_BIND=0.0.0.0, but PLUMBLINE_HOSTS is not set" in said
        other = http.client.HTTPConnection("127.0.0.2", site.port, timeout=20)
        other.request("GET", "/about")
        assert other.getresponse().status == 400
        other.close()
        other.request("GET", "/about", headers={"Host": "localhost"})
        assert other.getresponse().status == 200
        other.close()


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(supervisor.CannotStart, match="this machine has no such address"):
        supervisor.check_port(8000, "PLUMBLINE_PORT", "203.0.113.9")


def test_a_port_that_is_taken_on_this_address_alone_is_seen() -> None:
    with socket.create_server(("127.0.0.3", 0)) as taken:
        port = taken.getsockname()[1]
        assert not supervisor.is_free(port, "127.0.0.3")
        assert supervisor.is_free(port)
