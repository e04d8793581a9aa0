"""Commands of the README and the docs as printed, with no variable set but what a shell has.

Those of docs/operations.md are in tests/runners/test_operations_page.py, that of docs/api.md with
the API. A Hub of this machine stands in for huggingface.co.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import awkward, generated
from tests.hub import TEST_DATA, serve
from tests.runners.place import ROOT, printed
from tests.runners.test_operations_page import a_task

SCALING = (ROOT / "docs" / "scaling.md").read_text()
PROGRAMS = (
    *(".venv/bin/", "docker ", "ENV/", "evalcore ", "export ", "make ", "manage.py ", "pip "),
    "python ",
)
ELSEWHERE = {
    "docker ": "wants docker; `make image-check` builds these images and starts them",
    "pip install 'plumbline[": "wants a registry of packages; the names of extras are looked at",
    "python -m venv ENV": "the same; `make setup-backends` makes such an environment",
    "ENV/bin/python": "runs in it: tests/backends",
    "python -m runners": "test_operations_page.py starts it, and stops it",
    "python manage.py createsuperuser": "asks for a password; test_operations_page.py gives one",
    ".venv/bin/python tests/mutants.py": "runs all tests, and again for each fault: hours",
}
"""Commands by how they begin, and why they are not run here."""
INSTEAD = {
    "python -m runners prepare": "python -m runners prepare",
    "python -m tests ci": "python -m tests ci --plan",
    ".venv/bin/python -m pytest tests/leaderboard/board": (
        "python -m pytest tests/leaderboard/board --collect-only -q -n 0"
    ),
    # 10: the model is not there; with a wrong option it would be 2.
    "evalcore convert-checkpoint": "COMMAND || test $? -eq 10",
    "evalcore convert": "evalcore convert --help",
    "evalcore fetch": "evalcore fetch --help",
    "evalcore run": "evalcore run --help",
}
"""Commands by how they begin, and what of them is run that is quick and wants nothing else."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what commands write into, with the environment that `make setup` makes."""
    folder = tmp_path / "checkout"
    for name in ("evalcore", "tasks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".venv").symlink_to(Path(sys.prefix))
    return folder


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[str]:
    with serve([TEST_DATA, awkward.build(tmp_path / "hub")]) as address:
        yield address


def block(page: str, begins: str) -> str:
    """The page's code block that begins so."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    (found,) = (text for text in blocks if text.startswith(begins))
    return f"set -e\n{found}"


def commands_of(page: str) -> list[str]:
    """Whatever the page prints as a command, in blocks and within sentences."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    sentences = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    printed = [*lines, *re.findall(r"`([^`]+)`", sentences)]
    words = dict.fromkeys(" ".join(command.split()) for command in printed)
    return [command for command in words if command.startswith(PROGRAMS) and "…" not in command]


def run(commands: str, folder: Path, **variables: str) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "PYTHONPATH": str(folder), **variables}
    return printed(["bash", "-c", f"cd {folder}\n{commands}"], environment)


def test_the_readmes_run_ends_with_numbers_that_verify(checkout: Path, hub: str) -> None:
    command = block("README.md", ".venv/bin/evalcore run").replace("ORG/NAME", "awkward/tiny-llama")
    said = run(command, checkout, HF_ENDPOINT=hub, HF_HUB_DISABLE_TELEMETRY="1")
    assert "arc_challenge_mmlu" in said
    (results,) = checkout.glob("results/**/results_*.json")
    assert json.loads(results.read_text())["n-samples"]["arc_easy"]["effective"] >= 200
    assert run("evalcore verify results", checkout).count("level rescore: agrees") == 2


def test_new_tasks_are_made_and_all_are_exported_as_the_page_says(checkout: Path) -> None:
    run(block("docs/tasks.md", "evalcore new-task"), checkout)
    for name in ("riddles", "sums"):
        assert (checkout / "tasks" / name / "README.md").is_file()
    assert not (ROOT / "tasks" / "riddles").exists()
    shutil.rmtree(checkout / "tasks" / "riddles")
    shutil.rmtree(checkout / "tasks" / "sums")
    export, lm_eval = block("docs/tasks.md", "evalcore export").strip().splitlines()[1:]
    run(export, checkout)
    assert lm_eval.startswith("lm_eval run --include_path lm_eval_tasks")
    assert len(list((checkout / "lm_eval_tasks").rglob("*.yaml"))) > 3000


def test_a_worker_drains_what_waits_and_ends(tmp_path: Path) -> None:
    home = tmp_path / "home"
    generated.copy_to(home)
    site = {"HOME": str(home), "PLUMBLINE_HOME": str(home), "PLUMBLINE_SUITE": "generated"}
    run(block("docs/scaling.md", "celery --quiet --app runners worker"), ROOT, **site)
    (wanted,) = re.findall(r"^python manage.py workers-wanted .*(?<!--sql)$", SCALING, re.MULTILINE)
    assert run(wanted, ROOT, **site) == "0\n"


@pytest.mark.parametrize("page", ["configuration", "models", "testing"])
def test_every_command_of_the_page_runs_or_is_run_elsewhere(page: str, tmp_path: Path) -> None:
    """Targets of the Makefile are looked up, with what they would do."""
    generated.copy_to(tmp_path)
    site = {"HOME": str(tmp_path), "PLUMBLINE_HOME": str(tmp_path), "PLUMBLINE_SUITE": "generated"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    commands = commands_of(page)
    assert len(commands) > 8
    script = []
    for command in commands:
        for extra in re.findall(r"plumbline\[(\w+)\]", command):
            assert extra in extras["optional-dependencies"], command
        instead = next((INSTEAD[begin] for begin in INSTEAD if command.startswith(begin)), "")
        if instead:
            script.append(instead.replace("COMMAND", command))
        elif not command.startswith(tuple(ELSEWHERE)):
            command = re.sub(r"^make ", "make --dry-run ", command)
            command = re.sub(r"^manage\.py ", "python manage.py ", command)
            if "NAME" in command:
                command = command.replace("NAME", a_task(tmp_path))
            script.append(command)
    run("\n".join(["set -e", *dict.fromkeys(script)]), ROOT, **site)
