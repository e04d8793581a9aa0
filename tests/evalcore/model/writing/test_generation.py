"""What generation arguments mean, and what of a generated text is the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.errors import TaskError
from evalcore.model.writing.generation import answer_within, plan_of

KNOWN = {"top_p", "top_k", "num_beams", "repetition_penalty", "max_length", "temperature"}


def plan(given_arguments=None, *, mode="compat", eos="</s>", think_end=None):
    return plan_of(given_arguments or {}, eos=eos, think_end=think_end, known=KNOWN, mode=mode)


def test_nothing_stated_is_greedy_and_256_tokens_long_until_eos():
    found = plan()
    assert (found.sampled, found.max_new_tokens, found.until) == (False, 256, ("</s>",))


def test_of_several_names_for_the_limit_the_first_in_order_counts():
    limits = {"max_completion_tokens": 4, "max_tokens": 3, "max_new_tokens": 2, "max_gen_toks": 1}
    while limits:
        assert plan(limits).max_new_tokens == min(limits.values())
        del limits[min(limits, key=limits.get)]


@pytest.mark.parametrize(
    ("stated", "sampled"),
    [
        ({}, False),
        ({"temperature": 0.0}, False),
        ({"temperature": 0.5}, True),
        ({"temperature": 0.5, "do_sample": False}, False),
        ({"temperature": 0.5, "do_sample": True}, True),
        ({"temperature": "0.5"}, True),
    ],
)
def test_do_sample_decides_and_follows_from_the_temperature_where_unstated(stated, sampled):
    assert plan(stated).sampled is sampled


def test_what_only_shapes_a_draw_makes_no_other_greedy_plan():
    assert plan({"top_p": 0.5, "temperature": 0.7, "do_sample": False}) == plan()


def test_the_stops_of_a_plan_are_a_list_in_order_with_eos_last():
    assert plan({"until": "\n"}).until == ("\n", "</s>")
    assert plan({"until": ["</s>", "b", "a"]}).until == ("</s>", "b", "a")
    assert plan({"until": ["a"]}, eos=None).until == ("a",)


def test_the_empty_stop_stands_in_compat_and_is_no_stop_in_strict():
    assert plan({"until": ["", "a"]}).until == ("", "a", "</s>")
    assert plan({"until": ["", "a"]}, mode="strict").until == ("a", "</s>")


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"top_pp": 0.5}, "'top_pp' is unknown (did you mean top_p"),
        ({"stop": ["a"]}, "'stop' is not taken: write the stops as `until`"),
        ({"num_return_sequences": 4}, "repeats"),
        ({"do_sample": True}, "state a temperature above 0"),
        ({"do_sample": "perhaps"}, "do_sample: expected true or false, got 'perhaps'"),
        ({"temperature": "hot"}, "temperature: expected a number, got 'hot'"),
        ({"temperature": -1}, "temperature: expected 0 or more, got -1"),
        ({"until": [3]}, "until: expected texts, got 3"),
        ({"max_gen_toks": 0}, "max_gen_toks: expected a count above 0, got 0"),
        ({"max_length": "long"}, "max_length: expected a count above 0, got 'long'"),
    ],
)
def test_an_argument_without_meaning_is_named(stated, said):
    with pytest.raises(TaskError) as refused:
        plan(stated)
    assert said in str(refused.value)


TEXT = st.text(alphabet="ab \n", max_size=20)


@given(TEXT, st.lists(st.text(alphabet="ab\n", min_size=1, max_size=3), max_size=3))
def test_an_answer_is_the_beginning_of_the_text_up_to_its_first_stop(text, stops):
    answer = answer_within(text, plan({"until": stops}, eos=None))
    assert text.startswith(answer)
    assert not any(stop in answer for stop in stops)
    rest = text[len(answer) :]
    assert rest == "" or any(rest.startswith(stop) for stop in stops)


def test_what_was_thought_is_not_searched_for_stops():
    found = plan({"until": ["\n"]}, think_end="</think>")
    assert answer_within("why?\nso </think> or </think> \n42\nnext", found) == "42"


def test_a_text_without_thinking_is_the_answer():
    assert answer_within(" 42\n", plan({"until": ["\n"]}, think_end="</think>")) == "42"
