"""The small parts of pages: addresses, scales, figures, and a question made readable."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import RequestFactory
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.samples.question import read_question, split_prompt
from leaderboard.templatetags import figures
from leaderboard.web.address import Address
from leaderboard.web.scale import Scale

DEFAULTS = {"style": "own", "q": "", "page": "1"}


def address(query: dict[str, str]) -> Address:
    return Address(RequestFactory().get("/", query), DEFAULTS)


@given(
    st.dictionaries(
        st.sampled_from(["style", "q", "page", "other"]),
        st.text(alphabet=st.characters(blacklist_categories=["Cs", "Cc"]), max_size=20),
    )
)
def test_the_short_address_is_its_own_short_address(query: dict[str, str]) -> None:
    first = address(query)
    again = Address(RequestFactory().get(first.url()), DEFAULTS)
    assert again.redirect() is None
    assert {name: again[name] for name in DEFAULTS} == {name: first[name] for name in DEFAULTS}


@given(st.text(max_size=12), st.integers(0, 50))
def test_a_page_number_is_always_one_that_exists(typed: str, last: int) -> None:
    assert 1 <= address({"page": typed}).number("page", last=last) <= max(last, 1)


def test_a_link_changes_what_it_names_and_keeps_the_rest() -> None:
    shown = address({"style": "mmlu", "q": "a b&c", "page": "3"})
    assert shown.url(page=1) == "/?style=mmlu&q=a+b%26c"
    assert shown.url("table", style="own") == "/?q=a+b%26c&page=3#table"


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_scale_holds_its_bounds_and_keeps_the_order(a: float, b: float, c: float) -> None:
    low, middle, high = sorted((a, b, c))
    scale = Scale.around(low, high)
    assert 0 <= scale.low < scale.high <= 1
    assert scale.low <= low + 1e-9
    assert scale.high >= high - 1e-9
    assert scale.start <= scale.x(low) <= scale.x(middle) <= scale.x(high) <= scale.end


@pytest.mark.parametrize(
    ("value", "low", "high", "shown"),
    [
        (0.5, 0.45, 0.55, "±5.0"),
        (0.5, 0.46, 0.55, "±5.0"),
        (1.0, 0.984, 1.0, "98.4–100.0"),
        (0.0, 0.0, 0.016, "0.0–1.6"),
        (0.05, -0.01, 0.07, "−1.0 to 7.0"),
        (0.5, 0.4999, 0.5001, "±<0.1"),
        (1, 0.9997, 1, "±<0.1"),
        (1, 1, 1, "±0.0"),
    ],
)
def test_an_interval_never_looks_other_than_it_is(
    value: float, low: float, high: float, shown: str
) -> None:
    number = SimpleNamespace(value=value, low=low, high=high)
    assert figures.margin(number) == figures.margin_in(number, "acc") == shown


def test_a_lopsided_interval_of_another_metric_is_printed_by_its_ends() -> None:
    number = SimpleNamespace(value=2.5, low=2.4, high=3.0)
    assert figures.margin_in(number, "word_perplexity") == "2.400–3.000"


@pytest.mark.parametrize(
    ("count", "shown"), [(7_241_732_096, "7.24B"), (410_000, "0.41M"), (68_000_000, "68M")]
)
def test_parameters_have_three_figures(count: int, shown: str) -> None:
    assert figures.parameters(count) == shown


def test_differences_always_have_a_sign_and_a_real_minus() -> None:
    assert figures.points(0.125) == "+12.5"
    assert figures.points(-0.125) == "−12.5"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.31, "0.3 s"), (59.9, "1 min"), (232, "3 min 52 s"), (7260, "2 h 1 min")],
)
def test_durations_have_two_units_at_most(seconds: float, shown: str) -> None:
    assert figures.duration(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(999, "999 B"), (76_100, "76.1 kB"), (999_600, "1 MB"), (4_700_000_000, "4.7 GB")],
)
def test_sizes_are_in_powers_of_a_thousand(size: int, shown: str) -> None:
    assert figures.filesize(size) == shown


@given(st.text(), st.text(min_size=1), st.integers(0, 5))
def test_folding_the_examples_loses_no_character(before: str, question: str, shots: int) -> None:
    prompt = f"{before}\n\nQuestion: {question}\nAnswer:"
    assert "".join(split_prompt(prompt, question, shots)) == prompt


def test_only_the_worked_examples_are_folded() -> None:
    question = "What hangs here?\n\nLook up."
    prompt = f"Question: One?\nAnswer: a\n\nQuestion: {question}\nAnswer:"
    examples, asked = split_prompt(prompt, question, 1)
    assert examples == "Question: One?\nAnswer: a\n\n"
    assert asked == f"Question: {question}\nAnswer:"


def sample(**changes: Any) -> dict[str, Any]:
    choices = ["red", "green", "blue"]
    return {
        "doc": json.dumps({"question": "Which?"}),
        "shots": [],
        "prompt": "Which?",
        "choices": choices,
        "gold": [1],
        "pick": 0,
        "correct": 0.0,
        "why_null": None,
        "arguments": [{"context": "Which?", "continuation": f" {word}"} for word in choices],
        "responses": [
            {"loglikelihood": value, "n_context_tokens": 3, "n_truncated": 0}
            for value in (-1.0, -2.0, -5.0)
        ],
        **changes,
    }


def test_bars_hang_back_from_the_most_likely_choice() -> None:
    red, green, blue = read_question(sample()).choices
    assert (red.bar, red.less_likely) == (0, "most likely")
    assert green.bar == pytest.approx(blue.bar / 4)
    assert green.less_likely == "2.7× less likely"


def test_a_question_says_what_was_picked_and_what_is_right() -> None:
    asked = read_question(sample())
    assert asked.verdict == "Wrong: picked A, the answer is B."
    assert asked.closeness == "A was 2.7 times as likely as B."
    assert asked.continuations == (" red",)


def test_a_question_that_was_not_scored_says_why_and_is_not_wrong() -> None:
    asked = read_question(sample(correct=None, pick=None, why_null="the journal was cut"))
    assert asked.right is None
    assert asked.verdict == "Not scored: the journal was cut."


def test_requests_with_contexts_of_their_own_are_shown_one_by_one() -> None:
    arguments = [{"context": f"{word} is", "continuation": " seen"} for word in ("He", "She", "It")]
    asked = read_question(sample(arguments=arguments))
    assert asked.requests == (("He is", " seen"), ("She is", " seen"), ("It is", " seen"))
