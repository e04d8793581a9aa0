"""Filters: what they take out of texts, and how they stand in a pipeline."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.errors import TaskError
from evalcore.score.filters.registry import FILTERS, pipelines_of
from evalcore.task.config import FilterSpec, FilterStep, TaskSpec
from evalcore.task.metadata import TaskMetadata
from tests.evalcore.both_scorers import peer

CHOICES = ["Guilty", "Guilty of Romance", "(not) guilty!", "B"]


def pipeline(*steps: FilterStep):
    spec = TaskSpec(
        task="t",
        about=TaskMetadata(benchmark="t"),
        filter_list=(FilterSpec(name="it", steps=steps),),
    )
    (found,) = pipelines_of(spec)
    return found


def step(function: str, **arguments):
    return FilterStep(function=function, arguments=arguments)


def filtered(text: str, *steps: FilterStep):
    (value,) = pipeline(*steps).apply([[text]], [{"choices": CHOICES}]).values
    return value


@pytest.mark.parametrize(
    ("name", "arguments", "text", "found"),
    [
        ("regex", {}, "so #### 1,234.5 it is #### 7", "1,234.5"),
        ("regex", {"group_select": -1}, "so #### 1 or #### 7", "7"),
        ("regex", {"group_select": 5}, "so #### 1", "[invalid]"),
        ("regex", {"regex_pattern": "(x)|( y )"}, "an y there", "y"),
        ("regex", {"fallback": "none"}, "nothing", "none"),
        ("regex_pos", {}, "[('a', 'DET'), ('cat', 'NOUN')]", ["DET", "NOUN"]),
        ("regex_pos", {}, "no tags", ["invalid"]),
        (
            "multi_choice_regex",
            {"regex_pattern": "answer is (\\([A-Z]\\))"},
            "answer is (D)",
            "(D)",
        ),
        ("multi_choice_regex", {}, "Guilty of Romance, I say", "(B)"),
        ("multi_choice_regex", {"ignore_case": True}, "GUILTY", "(A)"),
        ("multi_choice_regex", {"ignore_punctuation": True}, "not guilty", "(C)"),
        ("multi_choice_regex", {"regexes_to_ignore": [" of"]}, "Guilty Romance", "(B)"),
        ("multi_choice_regex", {}, "my choice: C.", "(C)"),
        ("multi_choice_regex", {}, "no idea", "[invalid]"),
        ("remove_whitespace", {}, " \n a b\t", "a b"),
        ("lowercase", {}, "ÀB", "àb"),
        ("uppercase", {}, "àb", "ÀB"),
        ("map", {"mapping_dict": {"a": 1}, "default_value": 0}, "a", 1),
        ("map", {"mapping_dict": {"a": 1}}, "b", None),
        ("format_span", {}, "Person: Ann, None$$date: today", "per: ann $ date: today"),
    ],
)
def test_what_a_filter_makes_of_a_text(name, arguments, text, found):
    assert filtered(text, step(name, **arguments), step("take_first")) == found


def test_repeated_answers_are_chosen_from():
    answers = [["b", "a", "a", "b", "c"]]
    vote = pipeline(step("majority_vote"), step("take_first"))
    assert vote.apply(answers, [{}]).values == ["b"]  # as often as "a", and first
    few = pipeline(step("take_first_k", k=3), step("majority_vote"), step("take_first"))
    assert few.apply(answers, [{}]).values == ["a"]


def test_too_few_answers_name_the_remedy():
    with pytest.raises(TaskError, match=r"take_first_k.*k is 3.*has 2 responses.*`repeats` to 3"):
        pipeline(step("take_first_k", k=3)).apply([["a", "b"]], [{}])


def test_all_answers_are_kept_as_far_as_they_are_filtered_one_by_one():
    pipe = pipeline(step("lowercase"), step("majority_vote"), step("take_first"))
    done = pipe.apply([["B", "A", "b"]], [{}])
    assert done.every == [["b", "a", "b"]]
    assert done.values == ["b"]


def test_an_unknown_filter_is_named_with_the_nearest():
    with pytest.raises(TaskError, match=r"no filter 'lower_case'.*did you mean lowercase"):
        pipeline(step("lower_case"))


def test_a_filter_that_fails_is_named():
    with pytest.raises(TaskError, match=r"filter_list: it: regex failed"):
        pipeline(step("regex", regex_pattern="(")).apply([["a"]], [{}])


def test_a_filter_that_loses_a_request_is_refused():
    with pytest.raises(TaskError, match="gave 1 values for 2 requests"):
        pipeline(step("custom", filter_fn=lambda resps, docs: resps[:1])).apply(
            [["a"], ["b"]], [{}, {}]
        )


PIECES = ["guilty", "Guilty", "of", "Romance", "A", "(B)", ": C", "D", "####", "12", "-3.5", "'"]
PIECES += [
    "('a', 'DET')",
    "[",
    "person:",
    "Loc :",
    "x, none",
    "$$",
    "$",
    "\n",
    " ",
    "!",
    "é",
    "date:",
]
ODD_CHOICES = [["guilty", "", "of"], [" ", "Romance"], ["A", "...", "of"], ["of", "of of"]]
"""Nothing is left of some of them, or of two the same."""
WORDS = st.lists(st.sampled_from(PIECES), max_size=8)
TEXTS = st.one_of(WORDS.map(" ".join), WORDS.map("".join))
ARGUMENTS = {
    "regex": st.fixed_dictionaries(
        {},
        optional={
            "regex_pattern": st.sampled_from(
                [r"\d+", r"(A)|(\(B\))", r"(\w)(\s)?", r"(12)?(é)?", r"#### (.*)", ""]
            ),
            "group_select": st.sampled_from([0, -1]),
            "fallback": st.sampled_from(["[invalid]", " none\n"]),
        },
    ),
    "multi_choice_regex": st.fixed_dictionaries(
        {},
        optional={
            "regex_pattern": st.sampled_from([r"(\([A-Z]\))", r"(\()|([A-D])"]),
            "group_select": st.sampled_from([0, -1]),
            "ignore_case": st.booleans(),
            "ignore_punctuation": st.booleans(),
            "regexes_to_ignore": st.sampled_from([None, ["of", r"\s"]]),
        },
    ),
    "regex_pos": st.just({}),
    "remove_whitespace": st.just({}),
    "lowercase": st.just({}),
    "uppercase": st.just({}),
    "format_span": st.just({}),
    "majority_vote": st.just({}),
    "take_first": st.just({}),
    "take_first_k": st.sampled_from([{"k": 1}, {"k": 2}]),
    "map": st.just({"mapping_dict": {"A": "B"}, "default_value": "C"}),
}


@peer
@pytest.mark.parametrize("name", ARGUMENTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_filter_makes_what_lm_eval_makes_of_any_text(name, data):
    import lm_eval.filters  # noqa: F401
    from lm_eval.api.registry import get_filter

    from tests.parity import punctuation

    punctuation.find_once()
    arguments = data.draw(ARGUMENTS[name])
    texts = data.draw(st.lists(TEXTS, min_size=2, max_size=4))
    docs = [{"choices": data.draw(st.sampled_from([CHOICES, *ODD_CHOICES]))}]
    theirs = list(get_filter(name)(**arguments).apply([texts], docs))
    assert list(FILTERS[name](**arguments).apply([texts], docs)) == theirs


@peer
def test_lm_eval_has_no_filter_that_is_not_here():
    import lm_eval.filters  # noqa: F401
    from lm_eval.api.registry import filter_registry

    assert set(filter_registry.keys()) <= FILTERS.keys()
