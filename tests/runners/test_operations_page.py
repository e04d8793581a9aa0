"""What docs/operations.md says of back-ups, done as it says it: the board comes back as it was."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests import generated, services
from tests.runners.place import ROOT

PAGE = ROOT / "docs" / "operations.md"
BOARD = """
import django; django.setup()
from django.test import Client
from leaderboard.models import Run
client = Client(headers={"host": "127.0.0.1"})
print(client.get("/board.csv").getvalue().decode())
run = Run.objects.filter(artifacts__kind="samples").order_by("pk")[0]
samples = b"".join(client.get(f"/runs/{run.pk}/samples.parquet"))
import hashlib; print(len(samples), hashlib.sha256(samples).hexdigest())
"""


def commands(*titles: str) -> str:
    """The page's commands under these titles, in this order."""
    blocks = dict(re.findall(r"```bash (\w+ \w+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    return "set -e\n" + "".join(blocks[title] for title in titles)


def ran(*command: str, **variables: str) -> str:
    kept = {name: value for name, value in os.environ.items() if "PLUMBLINE" not in name}
    environment = {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_SUITE": "generated",
        "PLUMBLINE_DEBUG": "1",
        **variables,
    }
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.services)])
def databases(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Its kind, and what names one database and another."""
    kind = str(request.param)
    with (
        services.postgresql() if kind == "postgresql" else nullcontext("") as one,
        services.postgresql() if kind == "postgresql" else nullcontext("") as other,
    ):
        named = [{"PLUMBLINE_DATABASE_URL": url} if url else {} for url in (one, other)]
        yield kind, named


def test_a_board_that_was_backed_up_is_restored_as_it_was(
    tmp_path: Path, databases: tuple[str, list[dict[str, str]]]
) -> None:
    kind, (one, other) = databases
    before = {"PLUMBLINE_HOME": str(tmp_path / "before"), **one}
    after = {"PLUMBLINE_HOME": str(tmp_path / "after"), **other}
    backup = {"BACKUP": str(tmp_path / "backup")}
    if kind == "sqlite":
        generated.copy_to(tmp_path / "before")
    else:
        ran(sys.executable, "-m", "demo.generated", *generated.SMALL, **before)
    shown = ran(sys.executable, "-c", BOARD, **before)
    ran("bash", "-c", commands(f"backup {kind}", "backup files"), **before, **backup)
    (tmp_path / "before").rename(tmp_path / "gone")
    said = ran("bash", "-c", commands(f"restore {kind}", "restore files"), **after, **backup)
    assert said.splitlines()[-1] == "0 faults"
    assert ran(sys.executable, "-c", BOARD, **after) == shown
    assert len(shown.splitlines()) > 14
