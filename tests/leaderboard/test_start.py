"""How a process of the site begins: its first reader waits no longer than those who come after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import generated

ROOT = Path(__file__).resolve().parents[2]
BOARDS = ("/", "/?style=cloze", "/?style=mmlu", "/styles")
FIRST_REQUESTS = """
import json, sys
import leaderboard.wsgi
from django.conf import settings
from django.test import Client
from django.test.utils import setup_test_environment

host = settings.ALLOWED_HOSTS[0]
setup_test_environment()  # notes which templates are rendered
client = Client(raise_request_exception=False, headers={"host": host, "accept-encoding": "gzip"})
found = []
for address in sys.argv[1:]:
    answer = client.get(address)
    rendered = [template.name for template in answer.templates]
    text = answer.content.decode(errors="replace")
    found.append({"status": answer.status_code, "rendered": rendered, "text": text})
print(json.dumps(found))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a site of its own that was never started."""
    inherited = {name: text for name, text in os.environ.items() if "PLUMBLINE" not in name}
    return {
        **inherited,
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_HOME": str(tmp_path),
        "PLUMBLINE_SUITE": "generated",
        "PLUMBLINE_SECRET_KEY": "of a test, and long enough for a key that signs sessions",
    }


def started(environment: dict[str, str], *addresses: str) -> list[dict[str, Any]]:
    """What a process that has just begun answers to requests for these addresses."""
    command = ["-c", FIRST_REQUESTS, *addresses]
    return list(json.loads(python(environment, *command).splitlines()[-1]))


def python(environment: dict[str, str], *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_boards_are_rendered_before_the_first_reader_comes(environment: dict[str, str]) -> None:
    generated.copy_to(Path(environment["PLUMBLINE_HOME"]))
    python(environment, "manage.py", "collectstatic", "--noinput")
    *boards, other = started(environment, *BOARDS, "/?q=llama")
    assert [(board["status"], board["rendered"]) for board in boards] == [(200, [])] * len(BOARDS)
    assert "board/page.html" in other["rendered"]


def test_a_process_starts_without_its_database_and_says_so(environment: dict[str, str]) -> None:
    environment["PLUMBLINE_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/nothing"
    python(environment, "manage.py", "collectstatic", "--noinput")
    (answer,) = started(environment, "/")
    assert answer["status"] == 500
    assert "Our fault" in answer["text"]
    assert "Traceback" not in answer["text"]
