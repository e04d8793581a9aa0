"""How the tests are shared out to several processes: what stays together, what begins first.

`make test` starts pytest-xdist with `--dist loadscope`, by which a module's tests stay together, as
they share its fixtures. Here is what departs from that: its own groups (`--dist loadgroup`) are
written into the names of tests, where pytest 9.2 no longer reads them.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.hub import ROOT

LONGEST_FIRST = (
    "tests/chaos/",
    "tests/parity/test_recorded_responses.py",
    "tests/tasks/test_same_as_lm_eval.py",
    "tests/tasks/test_shared_names.py",
    "tests/parity/test_scores.py",
    "tests/e2e/",
    "tests/runners/test_tree.py",
    "tests/leaderboard/test_query_counts.py",
    "tests/bench/test_site.py",
    "tests/browser/",
)
"""What would otherwise begin last, and keep one process busy while the others have ended."""

EACH_ALONE = (
    "tests/browser/",
    "tests/e2e/",
    "tests/runners/test_tree.py",
    "tests/tasks/test_same_as_lm_eval.py",
    "tests/tasks/test_shared_names.py",
)
"""Where each test makes what it needs, and takes seconds or minutes."""

NOT_QUICK = (
    "tests/bench/",
    "tests/browser/",
    "tests/chaos/",
    "tests/demo/",
    "tests/e2e/",
    "tests/parity/",
    "tests/runners/",
    "tests/tasks/",
    "tests/test_warm.py",
    "tests/test_wheel.py",
    "tests/evalcore/authoring/test_build_check.py",
    "tests/evalcore/command/test_compare.py",
    "tests/evalcore/command/test_fetch.py",
    "tests/evalcore/command/test_run.py",
    "tests/evalcore/command/test_start.py",
    "tests/evalcore/contamination/test_decontaminate.py",
    "tests/evalcore/model/checkpoints/",
    "tests/evalcore/model/hf/test_adapter_origin.py",
    "tests/evalcore/model/hf/test_code.py",
    "tests/evalcore/model/hf/test_conversation.py",
    "tests/evalcore/model/hf/test_gguf.py",
    "tests/evalcore/model/hf/test_loading.py",
    "tests/evalcore/model/hf/test_multimodal.py",
    "tests/evalcore/model/loglikelihood/test_ladder.py",
    "tests/evalcore/model/loglikelihood/test_packed.py",
    "tests/evalcore/model/packs/test_prefix.py",
    "tests/evalcore/model/parallel/",
    "tests/evalcore/model/servers/",
    "tests/evalcore/model/test_conformance.py",
    "tests/evalcore/model/test_own.py",
    "tests/evalcore/model/writing/test_continuous.py",
    "tests/evalcore/model/writing/test_plan.py",
    "tests/evalcore/model/writing/test_thinking.py",
    "tests/evalcore/task/data/test_dataset.py",
    "tests/evalcore/task/transforms/test_code_sandbox.py",
    "tests/evalcore/task/transforms/test_math_answers.py",
    "tests/evalcore/test_pipeline.py",
    "tests/evalcore/test_lengths.py",
    "tests/evalcore/test_thinking_keys.py",
    "tests/evalcore/verify/test_verify.py",
    "tests/leaderboard/board/test_answers.py",
    "tests/leaderboard/board/test_page.py",
    "tests/leaderboard/compare/test_page.py",
    "tests/leaderboard/hub/",
    "tests/leaderboard/model_pages/test_page.py",
    "tests/leaderboard/queue/test_page.py",
    "tests/leaderboard/runs/",
    "tests/leaderboard/samples/test_images.py",
    "tests/leaderboard/samples/test_publish_ids.py",
    "tests/leaderboard/snapshot/",
    "tests/leaderboard/styles/test_page.py",
    "tests/leaderboard/submissions/",
    "tests/leaderboard/tasks/test_items.py",
    "tests/leaderboard/test_query_counts.py",
    "tests/leaderboard/test_start.py",
    "tests/leaderboard/web/test_kept.py",
)
"""What takes long, starts programs or a Hub: `make test-quick` leaves it to `make test`."""
NOT_QUICK_MARKS = frozenset({"browser", "services", "peer"})


MOST_PROCESSES = 4


def processes() -> int:
    """One more than there are cores: much of a test's time it waits, for a browser or a disk."""
    return min((os.cpu_count() or 1) + 1, MOST_PROCESSES)


class Groups(LoadScopeScheduling):
    """Gives each process the next group whenever it has all but ended one."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(EACH_ALONE) else nodeid.partition("::")[0]


def scheduler(config: pytest.Config, log: Any) -> Groups:
    config.option.loadscopereorder = False  # by number of tests; ours is by time
    return Groups(config, log)


def order(items: list[pytest.Item]) -> None:
    """Put the longest groups first."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    places = (turn for turn, start in enumerate(LONGEST_FIRST) if item.nodeid.startswith(start))
    return next(places, len(LONGEST_FIRST))


def is_slow(path: Path) -> bool:
    """Whether `make test-quick` need not even read this file or folder."""
    place = path.relative_to(ROOT).as_posix() + ("/" if path.is_dir() else "")
    return place.startswith(NOT_QUICK)


def is_quick(item: pytest.Item) -> bool:
    return NOT_QUICK_MARKS.isdisjoint(mark.name for mark in item.iter_markers())


def report_longest(terminal: pytest.TerminalReporter, number: int = 20) -> None:
    """Say which files took longest, fixtures included: where the next minute is to be saved."""
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
