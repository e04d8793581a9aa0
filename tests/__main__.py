"""Runs a tier of the tests: `python -m tests quick|test|all|ci [arguments of pytest]`.

At the end it says how long that took by the clock and of processors, what the machine lacked, and
which tests failed beside others and passed alone. Ends with 0 where all passed.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.tiers import GROUPS, ROOT, choose_groups

PYTEST = (sys.executable, "-m", "pytest", "-n", "logical", "--dist", "loadscope")
DURATIONS = ("--durations=25", "--durations-min=1")

TRIED_TWICE = ("tests/browser/", "tests/e2e/", "tests/runners/", "tests/chaos/")
"""Tests of several processes, which a busy machine may fail: what fails is tried again, alone.

As is any test that did not end: where it stood has been printed, and the others are heard."""
MAX_FLAKY = 3
NO_TESTS = 5
"""The exit status of pytest that found none."""
RECENT = 7 * 3600
"""Seconds: a change is what was committed in that time before the last commit."""
LATEST = 45 * 60
"""Seconds into a run of CI: a group that wants a run of its own is not begun later, but named."""
PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Run:
    """The steps of one run, and what became of them."""

    arguments: Sequence[str]
    steps: list[tuple[str, float]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def pytest(self, name: str, *options: str, **environment: str) -> None:
        """Runs pytest; where only few tests of several processes fail, these once more, alone."""
        with tempfile.NamedTemporaryFile("r", prefix="failed-") as file:
            variables = {**environment, "PLUMBLINE_TESTS_FAILED": file.name}
            with self._timed(name):
                status = _execute([*PYTEST, *options, *self.arguments], variables)
            failures: dict[str, bool] = json.loads(file.read() or "{}")
        if status in (0, NO_TESTS):
            return
        retried = failures and all(
            test.startswith(TRIED_TWICE) or not ended for test, ended in failures.items()
        )
        if not retried or len(failures) + len(self.flaky) > MAX_FLAKY:
            self.failed.append(name)
            return
        print(f"\n== Once more, alone: {len(failures)} of {name}", flush=True)
        with self._timed("once more, alone"):
            alone = [*PYTEST[:3], "-p", "no:cacheprovider", *failures]
            status = _execute(alone, environment)
        if status == 0:
            self.flaky += failures
        else:
            self.failed.append(name)

    def make(self, target: str) -> None:
        with self._timed(f"make {target}"):
            if _execute(["make", target], {}):
                self.failed.append(f"make {target}")

    def groups(self, names: Sequence[str], *, latest: float = math.inf) -> None:
        """Runs the groups that pytest in our own environment does not run beside `make test`.

        None is begun when the steps so far have taken longer than `latest`, in seconds.
        """
        for name in names:
            group = GROUPS[name]
            if (group.environment or group.target) and self._seconds() > latest:
                self.left_out.append(name)
                continue
            if group.environment:
                self.pytest(name, "--tier=none", f"--group={name}", **group.environment)
            if group.target:
                self.make(group.target)

    def _seconds(self) -> float:
        return sum(seconds for _, seconds in self.steps)

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self.steps.append((name, time.monotonic() - begun))

    def report(self) -> int:
        """Prints how it went; returns the exit status."""
        times = os.times()
        processor = times.user + times.system + times.children_user + times.children_system
        if len(self.steps) > 1:
            for name, seconds in self.steps:
                print(f"{_clock(seconds):>14}  {name}")
        print(f"{_clock(self._seconds())} by the clock, {processor:,.0f} s of processor time")
        for test in self.flaky:
            print(f"FLAKY {test}: failed beside others, passed alone; mend its cause next")
        for name in self.left_out:
            print(f"LEFT OUT {name}, {GROUPS[name].about}: the run was long already")
        for name in self.failed:
            print(f"FAILED {name}")
        return 1 if self.failed else 0


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


def _execute(command: Sequence[str], environment: dict[str, str]) -> int:
    """The exit status of a command; what it leaves behind is waited for here as it ends.

    So the processor time of processes whose parent was killed counts as well.
    """
    variables = {**os.environ, **environment}
    # pytest keeps what it makes of a test file, or each process does it anew, for seconds.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    process = subprocess.Popen(command, cwd=ROOT, env=variables)
    while True:
        try:
            pid, status = os.wait()
        except KeyboardInterrupt:
            continue  # pytest has heard it as well, and ends
        if pid == process.pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def _last_before(seconds: int) -> str:
    """The last commit that is so much older than the newest; empty where there is none."""
    until = int(_git("log", "-1", "--format=%ct")) - seconds
    return _git("rev-list", "-1", f"--before=@{until}", "HEAD")


def _changed(since: str) -> list[str]:
    """The files that differ from the commit `since`; pyproject.toml by what it installs alone.

    All files where `since` is empty, as in a clone without the commits before.
    """
    if not since:
        return _git("ls-files").split("\n")
    files = _git("diff", "--name-only", since, "HEAD").split("\n")
    if "pyproject.toml" in files and _installs(since) == _installs("HEAD"):
        files.remove("pyproject.toml")
    return files


def _installs(commit: str) -> object:
    project = tomllib.loads(_git("show", f"{commit}:pyproject.toml"))
    return project["build-system"], project["project"], project["tool"]["setuptools"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument("tier", choices=("quick", "test", "all", "ci"))
    parser.add_argument("--since", default="", help="ci: the commit on which the change stands")
    parser.add_argument("--plan", action="store_true", help="ci: only say what would run")
    options, arguments = parser.parse_known_args()
    with contextlib.suppress(OSError, AttributeError):  # on Linux alone
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    run = Run(arguments)
    if options.tier == "quick":
        run.pytest("make test-quick", "--tier=quick")
    elif options.tier == "test":
        run.pytest("make test", "--tier=test", *DURATIONS)
    elif options.tier == "all":
        run.pytest("make test-all", "--tier=all", *DURATIONS)
        run.groups(sorted(GROUPS))
    else:
        since = options.since or _last_before(RECENT)
        reasons = choose_groups(_changed(since), int(_git("rev-list", "--count", "HEAD")))
        print("make test, and of the rest:")
        for name, reason in reasons.items():
            print(f"  {name:14} {GROUPS[name].about} ({reason})", flush=True)
        if options.plan:
            return 0
        beside = [n for n in reasons if not (GROUPS[n].environment or GROUPS[n].target)]
        run.pytest("make test", "--tier=test", *[f"--group={n}" for n in beside], *DURATIONS)
        run.groups([name for name in reasons if name not in beside], latest=LATEST)
    return run.report()


if __name__ == "__main__":
    sys.exit(main())
