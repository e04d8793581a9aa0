"""MMLU-Pro: the questions of one subject."""

from __future__ import annotations

import pytest
from datasets import Dataset

from evalcore.task.transforms import mmlu_pro

SUBJECTS = (
    "biology",
    "business",
    "chemistry",
    "computer science",
    "economics",
    "engineering",
    "health",
    "history",
    "law",
    "math",
    "other",
    "philosophy",
    "physics",
    "psychology",
)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_subject_has_its_own_questions_in_their_order(subject: str) -> None:
    rows = [{"category": name, "question": f"{name} {n}"} for n in range(2) for name in SUBJECTS]
    found = getattr(mmlu_pro, subject.replace(" ", "_"))(Dataset.from_list(rows))
    assert list(found["question"]) == [f"{subject} 0", f"{subject} 1"]


def test_a_subject_without_questions_is_empty() -> None:
    assert len(mmlu_pro.law(Dataset.from_list([{"category": "math", "question": "1 + 1"}]))) == 0
