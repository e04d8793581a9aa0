"""What the recipes of docs/launching.md name of Plumbline is there; no service is asked."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from runners import worker
from tests.hub import ROOT

PAGE = (ROOT / "docs/launching.md").read_text().partition("## Recipes for others")[2]
EXPORTED = {
    "PLUMBLINE_DATABASE_URL": "postgresql://somebody:else@db.example.org:5432/plumbline",
    "PLUMBLINE_SECRET_KEY": "a secret of the site",
    "PLUMBLINE_S3_ACCESS_KEY": "a key",
    "PLUMBLINE_S3_SECRET_KEY": "a secret",
}
"""What is exported before, as the page says."""
GIVEN = {
    **EXPORTED,
    "PLUMBLINE_S3_BUCKET": "plumbline",
    "PLUMBLINE_S3_ENDPOINT": "https://s3.example.org",
}

Recipe = tuple[dict[str, str], list[str]]
"""The variables that a worker gets, by value, and its command from the image's name on."""


def blocks(kind: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [text for of, text in found if of == kind]


def skypilot() -> Recipe:
    task: dict[str, Any] = yaml.safe_load(blocks("yaml")[0])
    asked = re.findall(r"--secret (\w+)", PAGE.partition("```yaml")[0])
    assert asked == [*task["secrets"]], "sky has no other value for a secret that is null"
    known = {**task["envs"], **{name: EXPORTED[name] for name in task["secrets"]}}
    words = shlex.split(task["run"])
    image = words.index("registry.example.org/plumbline-worker")
    return {name: known[name] for name in after(words[:image], "--env")}, words[image:]


def dstack() -> Recipe:
    task: dict[str, Any] = yaml.safe_load(blocks("yaml")[1])
    pairs = [line.partition("=") for line in task["env"]]
    given = {name: value if sign else EXPORTED[name] for name, sign, value in pairs}
    (command,) = task["commands"]
    return given, [task["image"], *shlex.split(command)]


def hugging_face() -> Recipe:
    """As its own program reads the command."""
    (command,) = [block for block in blocks("") if block.startswith("hf jobs")]
    program, *words = shlex.split(command.replace("\\\n", " "))
    at = words.index("run") + 1
    said = subprocess.run(
        [str(Path(sys.executable).with_name(program)), *words[:at], "--dry-run", *words[at:]],
        env={**os.environ, **EXPORTED, "HF_HUB_OFFLINE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    told = dict(re.findall(r"^ +(image|command|timeout) +(.+)$", said.stdout, re.MULTILINE))
    assert told["timeout"] == "8h"
    given = dict(word.split("=", 1) for word in after(words, "--env"))
    given |= {name: EXPORTED[name] for name in after(words, "--secrets")}
    return given, [told["image"], *shlex.split(told["command"])]


def after(words: list[str], option: str) -> list[str]:
    return [words[n + 1] for n, word in enumerate(words) if word == option]


@pytest.mark.parametrize("recipe", [skypilot, dstack, hugging_face])
def test_a_recipe_starts_a_worker_on_the_sites_database_and_bucket(recipe: Any) -> None:
    variables, (image, *command) = recipe()
    assert variables == GIVEN
    assert image == "registry.example.org/plumbline-worker"
    assert command[:4] == ["python", "-m", "runners", "worker"]
    parser = argparse.ArgumentParser(exit_on_error=False)
    worker.add_options(parser)
    assert parser.parse_args(command[4:]).until_idle == 5
