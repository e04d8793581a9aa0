"""How the questions of a benchmark are listed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from leaderboard.court import listing
from leaderboard.court.bench import Bench
from leaderboard.disputed import Counts
from leaderboard.models import TaskVersion


@pytest.mark.parametrize(
    ("tasks", "part", "called"),
    [
        (["exam_logic", "exam_law"], "exam_logic", "logic 14"),
        (["exam_logic", "law"], "law", "law 14"),
        (["exam"], "exam", "14"),
    ],
)
def test_a_question_is_called_by_its_leaf_task_without_the_groups_name(
    tasks: list[str], part: str, called: str
) -> None:
    bench = Bench(TaskVersion(name="exam"), "Exam", None, None, "")
    facts: Any = SimpleNamespace(tasks=tasks)
    bench.__dict__.update(facts=facts, docs_digest="of its questions")
    with patch.object(listing, "counts_of", lambda *_: {(part, 13): Counts()}):
        (line,) = listing.lines(bench)
    assert (line.called, line.label) == (called, f"{part}:13")
