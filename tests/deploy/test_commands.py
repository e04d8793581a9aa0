"""Every command of docs/scaling.md and docs/deploy that starts a worker is taken by Celery."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.runners.place import ROOT, environment_of_site, printed

FILES = [ROOT / "docs" / "scaling.md", *(ROOT / "docs" / "deploy").rglob("*.*")]
WORKER = "celery --quiet --app runners worker"
COMMAND = re.compile(rf"{WORKER}(?: --?[a-z%][\w-]*(?: [\w%]+)?)*")


def commands() -> set[str]:
    """Without line breaks and without the commas of YAML."""
    found = set()
    for file in FILES:
        text = " ".join(file.read_text().replace(", ", " ").split())
        assert len(COMMAND.findall(text)) == text.count(WORKER)
        found.update(command.replace("%i", "0") for command in COMMAND.findall(text))
    return found


def test_each_engine_has_its_command() -> None:
    ends = {command.removeprefix(f"{WORKER} --queues evaluate").strip() for command in commands()}
    of_engines = {"", "--drain", "--devices 0", "--until-idle 10"}
    assert ends == {*of_engines, "--devices cpu --drain"}


@pytest.mark.parametrize("command", sorted(commands()))
def test_celery_takes_the_command(tmp_path: Path, command: str) -> None:
    program, *words = shlex.split(command)
    celery = str(Path(sys.executable).with_name(program))
    # It refuses an option that it does not know before it prints its help.
    said = printed([celery, *words, "--help"], environment_of_site(tmp_path))
    assert "--until-idle" in said
