"""How the tests are shared out to several processes: what stays together, what begins first.

pytest-xdist's `--dist loadscope` keeps a module's tests together, as they share its fixtures. Here
is what departs from that; its own groups (`--dist loadgroup`) are written into the names of tests,
where pytest 9.2 no longer reads them.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

LONGEST_FIRST = (
    "tests/chaos/",
    "tests/tasks/",
    "tests/parity/",
    "tests/e2e/",
    "tests/browser/",
    "tests/runners/",
)
"""What would otherwise begin last, and keep one process busy while the others have ended."""

EACH_ALONE = ("tests/chaos/", "tests/e2e/")
"""Where each test makes what it needs, and takes half a minute or more."""

MAX_PROCESSES = 8


def number_of_processes() -> int:
    """One more than there are cores: much of a test's time it waits, for a browser or a disk."""
    return min((os.cpu_count() or 1) + 1, MAX_PROCESSES)


class Scheduler(LoadScopeScheduling):
    """Gives each process the next module whenever it has all but ended one."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(EACH_ALONE) else nodeid.partition("::")[0]

    def remove_node(self, node: WorkerController) -> str | None:
        """The test in which a process ended; the others take its further tests.

        Its own counts as done, or each of the others would end in it as well.
        """
        for tests in self.assigned_work[node].values():
            for test, done in tests.items():
                if not done:
                    tests[test] = True
                    super().remove_node(node)
                    return test
        return super().remove_node(node)


def make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    config.option.loadscopereorder = False  # by number of tests; ours is by time
    return Scheduler(config, log)


def sort_longest_first(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    places = (turn for turn, start in enumerate(LONGEST_FIRST) if item.nodeid.startswith(start))
    return next(places, len(LONGEST_FIRST))


def report_longest(terminal: pytest.TerminalReporter, number: int = 20) -> None:
    """Print which files took longest, fixtures included: where the next minute is to be saved."""
    seconds: Counter[str] = Counter()
    for reports in terminal.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    terminal.section(
        f"longest {number} of {len(seconds)} files, {sum(seconds.values()):.0f} s in all"
    )
    for file, duration in seconds.most_common(number):
        terminal.write_line(f"{duration:8.1f} s  {file}")


def report_missing(terminal: pytest.TerminalReporter) -> None:
    """Say aloud what this machine lacks, and how many tests did not run for it."""
    reasons: Counter[str] = Counter()
    for report in terminal.stats.get("skipped", ()):
        if isinstance(report.longrepr, tuple):
            reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1
    if reasons:
        terminal.section(f"{sum(reasons.values())} tests did not run", yellow=True, bold=True)
        for reason, tests in reasons.most_common():
            terminal.write_line(f"{tests:6} {reason}", yellow=True)
