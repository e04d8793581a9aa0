"""CoQA's conversations become questions."""

from __future__ import annotations

from typing import Any

from datasets import Dataset
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.task.transforms.coqa import every_turn, last_turns, turn

NOBODY: dict[str, list[Any]] = {"input_text": [""], "turn_id": [-1]}


def said(*texts: str) -> dict[str, list[Any]]:
    return {"input_text": list(texts), "turn_id": list(range(1, len(texts) + 1))}


def story(name: str, questions: list[str], first: list[str], *others: list[str]) -> dict[str, Any]:
    people = [said(*other) for other in others] or [NOBODY, NOBODY]
    return {
        "id": name,
        "source": "mctest",
        "story": f"The story of {name}.",
        "questions": said(*questions),
        "answers": said(*first),
        "additional_answers": {str(place): person for place, person in enumerate(people)},
    }


ADA = story("Ada", ["Who?", "Where?"], ["Ada", "at sea"], ["ADA", "on a boat"], ["she", "at sea"])
BO = story("Bo", ["Why?"], ["to win"])


def test_a_question_stands_after_what_was_said_before() -> None:
    first, second = turn(ADA, 0), turn(ADA, 1)
    assert (first["before"], first["question"]) == ("", "Who?")
    assert (second["before"], second["question"]) == ("Q: Who?\n\nA: Ada\n\n", "Where?")


def test_every_person_is_heard_and_each_different_answer_accepted_once() -> None:
    first = turn(ADA, 0)
    assert first["humans"] == ["Ada", "ADA", "she"]
    assert first["accepted"] == ["Ada", "she"]


def test_a_story_for_training_has_one_person() -> None:
    assert turn(BO, 0)["humans"] == ["to win"]


def test_every_turn_is_a_row_and_the_last_ones_are_among_them() -> None:
    stories = Dataset.from_list([ADA, {**BO, "additional_answers": ADA["additional_answers"]}])
    rows = list(every_turn(stories))
    assert [(row["story_id"], row["question"]) for row in rows] == [
        ("Ada", "Who?"),
        ("Ada", "Where?"),
        ("Bo", "Why?"),
    ]
    assert list(last_turns(stories)) == rows[1:]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=1, max_size=5))
def test_the_conversation_grows_by_one_question_and_answer(said_: list[tuple[str, str]]) -> None:
    questions, answers = ([pair[side] for pair in said_] for side in (0, 1))
    one = story("x", questions, answers)
    for place in range(len(said_) - 1):
        now, then = turn(one, place), turn(one, place + 1)
        assert then["before"] == f"{now['before']}Q: {now['question']}\n\nA: {answers[place]}\n\n"
