"""The wheel by itself: `evalcore` with its tasks, where no checkout is in reach."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.hub import ROOT, client_environment, serve

LARGEST = 8 * 2**20
"""Bytes of the wheel: some 3 MB of tasks and code, and no data set or model by mistake."""


@dataclass(frozen=True)
class Installed:
    """An environment with nothing of ours but the wheel, and a folder far from the checkout."""

    wheel: Path
    bin: Path
    packages: Path
    folder: Path

    def run(self, *arguments: str, hub: str = "http://127.0.0.1:9"):
        environment = client_environment(hub, self.folder / "hf")
        environment |= {"XDG_CACHE_HOME": str(self.folder / "cache"), "HOME": str(self.folder)}
        for name in ("PYTHONPATH", "EVALCORE_CACHE"):
            environment.pop(name, None)
        return subprocess.run(
            [self.bin / "evalcore", *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def files(self) -> set[Path]:
        found = self.packages.rglob("*")
        return {path for path in found if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    wheel = _built(folder)
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    place = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", "venv", place))
    # torch and its like are borrowed; the checkout's own finder is none of these folders' packages.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = environment / "bin" / "python"
    _pip("--python", python, "install", "--no-deps", "--no-index", "--no-compile", wheel)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    return Installed(wheel, environment / "bin", packages, elsewhere)


def _built(folder: Path) -> Path:
    """The wheel, built from what the source distribution has, as who downloads that builds it."""
    source = folder / "source"
    left = (".*", "tests", "docs", "bench", "var", "build", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*left))
    _build("sdist", source, folder)
    (archive,) = folder.glob("plumbline-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    _build("wheel", unpacked, folder)
    (wheel,) = folder.glob("plumbline-*.whl")
    return wheel


def _build(what: str, source: Path, into: Path) -> None:
    """As pip does it, by the build backend that pyproject.toml names."""
    code = f"from setuptools import build_meta; build_meta.build_{what}({str(into)!r})"
    command = [sys.executable, "-c", code]
    outcome = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr


def _pip(*arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.fixture(scope="module")
def hub(test_data) -> Iterator[str]:
    with serve([test_data / "hub"]) as url:
        yield url


def test_its_files_are_in_the_environment_alone(installed):
    outcome = subprocess.run(
        [installed.bin / "python", "-c", "import evalcore; print(evalcore.__file__)"],
        cwd=installed.folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(outcome.stdout.strip()).is_relative_to(installed.packages)
    assert installed.wheel.stat().st_size < LARGEST


def test_it_lists_the_tasks_of_the_checkout(installed):
    outcome = installed.run("ls", "tasks")
    assert outcome.returncode == 0, outcome.stderr
    here = subprocess.run(
        [sys.executable, "-m", "evalcore", "ls", "tasks"], capture_output=True, text=True
    )
    assert outcome.stdout == here.stdout
    assert "arc_easy\n" in outcome.stdout


def test_it_evaluates_and_checks_what_it_wrote(installed, hub):
    """Nothing is written beside the package: there it may be another user's."""
    before = installed.files()
    run = installed.run(
        "run", "--model", "dummy", "--tasks", "arc_easy,arc_challenge_mmlu", "--limit", "5",
        "--output_path", "results", hub=hub,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    (path,) = (installed.folder / "results").rglob("record_arc_easy_*.json")
    record = json.loads(path.read_text())
    assert record["samples"]["rows"] == 5
    verified = installed.run("verify", "results")
    assert verified.stdout.count("agrees") == 2, verified.stdout + verified.stderr
    assert installed.files() == before


def test_its_tasks_come_with_their_sample_rows(installed):
    shown = installed.run("show", "--own_rows", "--tasks", "gsm8k")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("=== gsm8k, document 0 of test")


def test_its_tasks_can_be_exported(installed):
    done = installed.run("export", "arc", "--to", "lm-eval", "--tasks", "arc_easy")
    assert done.returncode == 0, done.stderr
    written = {path.name for path in (installed.folder / "arc").rglob("*") if path.is_file()}
    assert written == {"arc_easy.yaml", "_base", "_arc"}  # the task and what it includes


@pytest.mark.parametrize("command", [("pin",), ("new-task", "riddles", "--dataset", "org/riddles")])
def test_what_would_write_into_the_package_asks_for_a_folder(installed, command):
    before = installed.files()
    outcome = installed.run(*command)
    assert outcome.returncode == 2
    assert "name a folder of yours" in outcome.stderr
    assert installed.files() == before
