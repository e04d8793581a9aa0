"""Prompts as conversations: turns, one question, the answer's beginning, delimiters of choices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.task.asking.chat import Chat, Message, gap, joined, plain_text
from evalcore.task.asking.task import Item, Mode
from tests.evalcore.worlds import TEMPLATE, World

TURNS = Chat(TEMPLATE, multiturn=True)
ONE_QUESTION = Chat(TEMPLATE, multiturn=False)

SHOWN = {"question": "Why?", "choices": ["so", "no"], "answer": 1, "hint": "Well "}
ASKED = {**SHOWN, "question": "How?"}

texts = st.text(max_size=8)
turns = st.builds(Message, st.sampled_from(["user", "assistant"]), texts, texts)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def asked(world: World, chat: Chat | None, **keys: Any) -> Item:
    """The only item of a task with one example, which is never the question itself."""
    data = world.data(train=[SHOWN], test=[ASKED])
    defaults = {"shots": 1, "fewshot_config": {"sampler": "first_n"}}
    (item,) = world.task(**{**data, **defaults, **keys}, chat=chat).items()
    return item


def continuations(item: Item) -> list[str]:
    return [request.continuation for request in item.requests]


# Messages


@given(left=st.text(), right=st.text(), delimiter=texts)
def test_text_is_delimited_only_where_nothing_else_divides_it(
    left: str, right: str, delimiter: str
) -> None:
    whole = joined(left, right, delimiter)
    assert whole in (left + right, left + delimiter + right)
    if not left or not right or left[-1:].isspace() or right[:1].isspace():
        assert whole == left + right
        assert gap(left, right, delimiter) == ""
    else:
        assert whole == left + delimiter + right


@given(st.lists(turns, max_size=5), texts)
def test_one_question_holds_the_text_of_all_turns_before_the_answer(
    before: list[Message], last: str
) -> None:
    question = Message("user", last, " ")
    rendered = ONE_QUESTION.conversation([Message("system", "S"), *before, question]).text
    assert rendered == f"[system: S][user: {plain_text(before)}{last}][assistant: "
    begun = ONE_QUESTION.conversation([*before, question, Message("assistant", "So")]).text
    assert begun == f"[user: {plain_text(before)}{last}][assistant: So"


# Tasks


def test_examples_are_turns_after_the_instruction_and_the_description(world: World) -> None:
    item = asked(world, TURNS, system="Be brief.", description="About {{choices[0]}}.")
    assert item.prompt == (
        "[system: Be brief.\n\nAbout so.]"
        "[user: Q: Why?\nA:][assistant: no][user: Q: How?\nA:][assistant: "
    )


def test_or_all_of_them_are_one_question(world: World) -> None:
    item = asked(world, ONE_QUESTION, system="Be brief.")
    assert item.prompt == ("[system: Be brief.][user: Q: Why?\nA: no\n\nQ: How?\nA:][assistant: ")


@pytest.mark.parametrize(
    ("chat", "expected"),
    [
        (TURNS, "[user: Q: Why?\nA:][assistant: I say no][user: Q: How?\nA:][assistant: I say"),
        (ONE_QUESTION, "[user: Q: Why?\nA: I say no\n\nQ: How?\nA:][assistant: I say"),
    ],
)
def test_the_answers_beginning_is_an_open_turn(world: World, chat: Chat, expected: str) -> None:
    assert asked(world, chat, gen_prefix="I say").prompt == expected


@pytest.mark.parametrize("mode", ["compat", "strict"])
@pytest.mark.parametrize(
    ("prefix", "expected"),
    [(None, ["so", "no"]), ("I say", [" so", " no"]), ("I say ", ["so", "no"])],
)
def test_a_choice_is_delimited_only_from_an_answer_begun_without_white_space(
    world: World, mode: Mode, prefix: str | None, expected: list[str]
) -> None:
    assert continuations(asked(world, TURNS, mode=mode, gen_prefix=prefix)) == expected


@pytest.mark.parametrize("prefix", ["hint", "{{hint}}"])
def test_compat_looks_at_the_prefix_unrendered_and_strict_at_its_text(
    world: World, prefix: str
) -> None:
    compat = asked(world, TURNS, mode="compat", gen_prefix=prefix)
    strict = asked(world, TURNS, mode="strict", gen_prefix=prefix)
    assert compat.prompt == strict.prompt
    assert compat.prompt.endswith("[assistant: Well ")
    assert continuations(compat) == [" so", " no"]
    assert continuations(strict) == ["so", "no"]


def test_choices_as_contexts_are_questions_of_the_user(world: World) -> None:
    item = asked(world, TURNS, doc_to_text="answer", doc_to_target="question")
    shown = "[user: no][assistant: Why?]"
    assert [request.arguments for request in item.requests] == [
        (f"{shown}[user: so][assistant: ", "How?"),
        (f"{shown}[user: no][assistant: ", "How?"),
    ]


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_generation_goes_on_from_the_conversation(world: World, mode: Mode) -> None:
    keys = {"output_type": "generate_until", "doc_to_choice": None, "doc_to_target": "question"}
    item = asked(world, TURNS, mode=mode, **keys)
    assert item.prompt == "[user: Q: Why?\nA:][assistant: Why?][user: Q: How?\nA:][assistant: "


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_the_target_of_a_loglikelihood_is_the_whole_turn(world: World, mode: Mode) -> None:
    keys = {"output_type": "loglikelihood", "doc_to_choice": None, "doc_to_target": "hint"}
    item = asked(world, TURNS, mode=mode, **keys)
    assert item.requests[0].arguments == (item.prompt, "Well ")


# Instructions in plain text


def test_compat_runs_the_instruction_into_the_question_and_strict_does_not(world: World) -> None:
    rest = "Q: Why?\nA: no\n\nQ: How?\nA:"
    prompts = {
        mode: asked(world, None, mode=mode, system="Be brief.").prompt
        for mode in ("compat", "strict")
    }
    assert prompts == {"compat": f"Be brief.{rest}", "strict": f"Be brief.\n\n{rest}"}


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_the_description_follows_the_instruction_as_its_author_wrote_it(
    world: World, mode: Mode
) -> None:
    item = asked(world, None, mode=mode, shots=0, system="Be brief.", description="Now: ")
    assert item.prompt == "Be brief.\n\nNow: Q: How?\nA:"
