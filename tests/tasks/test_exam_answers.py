"""Exam tasks of ours that let the model write: which answer is taken from what it wrote."""

from __future__ import annotations

import pytest

from evalcore.score.filters.registry import pipelines_of
from evalcore.task.config import TaskSpec
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS

NONE = "[invalid]"


@pytest.fixture(scope="module")
def library() -> TaskLibrary:
    return TaskLibrary([OWN_TASKS])


def found(library: TaskLibrary, task: str, written: str) -> object:
    spec = library.one(task)
    assert isinstance(spec, TaskSpec)
    (pipeline,) = pipelines_of(spec)
    return pipeline.apply([[written]], [{}]).values[0]


@pytest.mark.parametrize(
    ("task", "written", "answer"),
    [
        # MMLU-Pro: what stands after the first "answer is".
        ("mmlu_pro_math", " 7 + 5 = 12. The answer is (C).", "C"),
        ("mmlu_pro_math", " So the answer is J", "J"),
        ("mmlu_pro_math", " The answer is (B). No, the answer is (C).", "B"),
        ("mmlu_pro_math", " It must be (C).", NONE),
        ("mmlu_pro_math", "", NONE),
        # GPQA with thinking aloud: the last letter that is an answer.
        ("gpqa_main_cot", "Not (A), not (B).\nThe correct answer is (C).", "C"),
        ("gpqa_main_cot", "the answer is **(D)**", "D"),
        ("gpqa_main_cot", "The answer is: B", "B"),
        ("gpqa_main_cot", "(A) is wrong, so the answer is D.", "D"),
        ("gpqa_main_cot", "Answer is Carbon", NONE),
        ("gpqa_main_cot", "I cannot say.", NONE),
        # GPQA at once: the first letter that stands alone.
        ("gpqa_main_generate", " (B) green", "B"),
        ("gpqa_main_generate", " A violet ray is bent most, so C", "C"),
        ("gpqa_main_generate", " Carbon", NONE),
        # MuSR: the number after the last "ANSWER:".
        ("musr_generate_team_allocation", "Ann climbs.\nANSWER: 2", "2"),
        ("musr_generate_team_allocation", "ANSWER: 1 … no.\n**ANSWER: (3 - Paint: Ann)**", "3"),
        ("musr_generate_team_allocation", "ANSWER:\n2", NONE),
        ("musr_generate_team_allocation", "I pick 2.", NONE),
        # AGIEval: the words of the question that name the letters are not the answer.
        ("agieval_generate_sat_math", " C", "C"),
        ("agieval_generate_sat_math", " (D)8", "D"),
        ("agieval_generate_sat_math", "Among A through E, the answer is B.", "B"),
        ("agieval_generate_logiqa_zh", "从A到D, 我们应选择C。", "C"),
        ("agieval_generate_logiqa_zh", "我们应选择B", "B"),
        ("agieval_generate_logiqa_zh", "不知道", NONE),
        # MMLU-Redux: the letter alone was asked for; a word's first letter is none.
        ("mmlu_redux_generate_anatomy", " B", "B"),
        ("mmlu_redux_generate_anatomy", "Based on the text, C", "C"),
        ("mmlu_redux_generate_anatomy", "Answer: D", "D"),
        ("mmlu_redux_generate_anatomy", "Depends", NONE),
    ],
)
def test_the_answer_is_taken_from_what_was_written(
    library: TaskLibrary, task: str, written: str, answer: str
) -> None:
    assert found(library, task, written) == answer
