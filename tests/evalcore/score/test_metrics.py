"""What metrics make of answers, through task files and fixed answers, and filters of texts."""

from __future__ import annotations

import math
import re
import sys
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.errors import TaskError
from evalcore.score.answered import Choices
from evalcore.score.filters.registry import FILTERS, pipelines_of
from evalcore.score.metrics.aggregations import AGGREGATIONS
from evalcore.score.metrics.registry import known_metrics, metric_named
from evalcore.task.config import FilterSpec, FilterStep, TaskSpec
from evalcore.task.metadata import TaskMetadata
from tests.evalcore.both_scorers import CHOICES, GENERATE, Scene, chances, peer, texts
from tests.evalcore.worlds import capitals

ONE_QUESTION = CHOICES.replace("{{question}}", "Q")


def by_continuation(**loglikelihoods: float) -> Any:
    """Each choice's loglikelihood by its first word; the greedy one is marked by being above -1."""

    def answer(request: Any, repeat: int) -> tuple[float, bool]:
        number = loglikelihoods[request.continuation.split()[0]]
        if not request.context:
            number = loglikelihoods["alone"]
        return number, number > -1

    return answer


def numbers(
    tmp_path, rows: list[dict[str, Any]], keys: str, answer: Any, mode: str = "strict"
) -> dict[str, Any]:
    """Our numbers without standard errors, by metric."""
    found, failures = Scene(tmp_path, rows, keys).ours(answer, mode=mode)
    assert not failures
    return {name.split(",")[0]: value for name, value in found.items() if "stderr" not in name}


@pytest.mark.parametrize(
    ("loglikelihoods", "right", "expected"),
    [
        # Characters 3, 4, 11; bytes 6, 4, 11; tokens (half of the characters with the delimiter,
        # rounded down, and one) 3, 3, 7.
        ((-2.3, -1.8, -4.4), 0, {"acc": 0, "acc_norm": 0, "acc_bytes": 1, "acc_tokens": 0}),
        ((-2.3, -1.8, -4.4), 1, {"acc": 1, "acc_norm": 0, "acc_bytes": 0, "acc_tokens": 1}),
        ((-2.3, -1.8, -4.4), 2, {"acc": 0, "acc_norm": 1, "acc_bytes": 0, "acc_tokens": 0}),
        ((-1.7, -1.8, -3.9), 2, {"acc": 0, "acc_norm": 1, "acc_bytes": 0, "acc_tokens": 1}),
    ],
)
def test_normalisations_divide_by_their_own_length(tmp_path, loglikelihoods, right, expected):
    rows = [{"choices": ["ééé", "abcd", "f g h i j k"], "answer": right}]
    answer = by_continuation(**dict(zip(("ééé", "abcd", "f"), loglikelihoods, strict=True)))
    metrics = ", ".join(f"{{metric: {name}}}" for name in expected)
    keys = f"{ONE_QUESTION}    metric_list: [{metrics}]\n"
    assert numbers(tmp_path, rows, keys, answer) == expected


def test_token_perplexity_is_per_token_of_the_whole_text(tmp_path):
    rows = [{"text": "abcdef"}, {"text": "ab"}]  # 4 and 2 tokens, by the rule of the scene
    keys = """
    output_type: loglikelihood_rolling
    doc_to_text: ""
    doc_to_target: text
    metadata: {version: 1, benchmark: texts, extra_metrics: [token_perplexity]}
"""
    found = numbers(tmp_path, rows, keys, lambda request, repeat: -float(len(request.continuation)))
    assert found["token_perplexity"] == pytest.approx(math.exp(8 / 6))
    assert found["byte_perplexity"] == pytest.approx(math.exp(1.0))


def test_of_equal_choices_the_first_is_picked(tmp_path):
    rows = [{"choices": ["a", "b"], "answer": 0}]
    assert numbers(tmp_path, rows, ONE_QUESTION, by_continuation(a=-1.0, b=-1.0))["acc"] == 1.0


@given(
    st.lists(st.tuples(st.floats(-1e4, 0), st.integers(0, 50)), min_size=1, max_size=10).filter(
        lambda choices: any(length for _, length in choices)
    )
)
def test_the_likeliest_per_length_is_the_argmax_and_never_an_empty_choice(choices):
    sums, lengths = zip(*choices, strict=True)
    pick = Choices([""] * len(sums), sums, (), (), (), (), False).likeliest_per(lengths)
    ratios = [total / length if length else -np.inf for total, length in choices]
    assert pick == int(np.argmax(ratios))
    assert lengths[pick] > 0


def test_brier_score_is_the_squared_distance_to_the_right_answer(tmp_path):
    rows = [{"choices": ["a", "b"], "answer": 0}, {"choices": ["a", "b", "c"], "answer": 1}]
    keys = ONE_QUESTION + "    metric_list: [{metric: brier_score}]\n"
    answer = by_continuation(a=np.log(0.5), b=np.log(0.5), c=-np.inf)
    # (0.5² + 0.5²) for both, whatever the number of choices.
    assert numbers(tmp_path, rows, keys, answer)["brier_score"] == pytest.approx(0.5)


def test_quasi_exact_match_forgives_case_punctuation_articles_and_spaces(tmp_path):
    rows = [{"question": "1", "answer": "The  Eiffel tower!"}, {"question": "2", "answer": "x"}]
    keys = GENERATE + "    metric_list: [{metric: quasi_exact_match}, {metric: exact_match}]\n"
    found = numbers(tmp_path, rows, keys, lambda request, repeat: "an eiffel Tower")
    assert found == {"quasi_exact_match": 0.5, "exact_match": 0.0}


def test_rouge(tmp_path):
    """Lin 2004: F of shared words 2·3/(3+6), of pairs 2·2/(2+5), of the longest sequence."""
    rows = [{"question": "1", "answer": "the cat sat on the mat"}]
    keys = GENERATE + "    metric_list: [{metric: rouge1}, {metric: rouge2}, {metric: rougeL}, "
    keys += "{metric: rougeLsum}]\n"
    found = numbers(tmp_path, rows, keys, lambda request, repeat: "the cat sat")
    assert found == pytest.approx(
        {"rouge1": 6 / 9, "rouge2": 4 / 7, "rougeL": 6 / 9, "rougeLsum": 6 / 9}
    )


REPEATED = """
    repeats: 4
    metric_list: [{metric: exact_match}, {metric: pass@1}, {metric: pass@2}, {metric: avg@2},
                  {metric: majority@3}, {metric: majority@4, ignore_case: true}]
    filter_list: [{name: none, filter: [{function: remove_whitespace}, {function: take_first}]}]
"""


def test_repeated_answers(tmp_path):
    answers = ["no", " yes", "YES", "no"]  # 1 of 4 is right, 2 where case does not count
    rows = [{"question": "1", "answer": "yes"}]
    found = numbers(tmp_path, rows, GENERATE + REPEATED, lambda _, repeat: answers[repeat])
    assert found == pytest.approx(
        {
            "exact_match": 0.0,
            "pass@1": 0.25,
            "pass@2": 1 - 3 / 6,  # 3 of the 6 pairs hold no right one
            "avg@2": 0.5,
            "majority@3": 0.0,  # no, yes, YES: each once, the first is no
            "majority@4": 0.0,
        }
    )


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("{metric: accuracy}", {"accuracy": 0.5}),
        ("{metric: exact_match, hf_evaluate: true, ignore_case: true}", {"exact_match": 1.0}),
        ("{metric: f1, hf_evaluate: true, average: micro, aggregation: mean}", {"f1": 0.5}),
        ("{metric: wer}", {"wer": 0.1}),
        ("{metric: squad}", {"exact_match": 100.0, "f1": 100.0}),
        (
            "{metric: rouge, rouge_types: [rouge1, rougeL]}",
            {"rouge1": pytest.approx(1.0), "rougeL": pytest.approx(1.0)},
        ),
        ("{metric: bleu, hf_evaluate: true, aggregation: mean}", {"bleu": (1 + 0.2**0.25) / 2}),
    ],
)
@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_metrics_by_the_names_of_the_library_evaluate(tmp_path, entry, found, mode):
    rows = [
        {"question": "1", "answer": "A b c d e"},
        {"question": "2", "answer": "a b c d e"},
    ]
    keys = GENERATE + f"    metric_list: [{entry}]\n"
    assert numbers(tmp_path, rows, keys, lambda *_: "a b c d e", mode=mode) == pytest.approx(found)


def test_a_family_has_a_metric_for_every_number():
    assert metric_named("pass@100") is not None
    assert metric_named("pass@0") is metric_named("fail@1") is None


# Beside lm-eval's scoring, as far as no task file of tests/parity has it


def agree(scene: Scene, answer: Any) -> dict[str, Any]:
    """Asserts that every number of lm-eval is ours; returns them."""
    theirs = scene.theirs(answer, iters=60)
    ours, failures = scene.ours(answer, iters=60)
    assert not failures
    assert theirs.keys() <= ours.keys()
    for name, value in theirs.items():
        if isinstance(value, str):
            assert ours[name] == value, name
        else:
            assert ours[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name
    return theirs


def awkward_choices(count: int) -> list[dict[str, Any]]:
    """Choices of different lengths in characters and bytes, one of them equal to another."""
    rows = capitals(count)
    for number, row in enumerate(rows):
        row["choices"] = ["é" * (number % 4 + 1), "ab", "longer than the others", "ab"]
        row["right"] = row["choices"][row["answer"]]
        row["strange"] = [-1, 7, "none of them", 1][number % 4] if number else 0
    return rows


ACCURACIES = ("acc", "acc_norm", "acc_bytes", "exact_match")
ALL = (*ACCURACIES, "acc_mutual_info", "mcc", "brier_score")
MULTIPLE_CHOICE = {
    "right": ALL,
    # One past the last, below 0 (from the end, for exact_match), and a text that is not there.
    "strange": ACCURACIES,
}


@peer
@pytest.mark.parametrize("target", MULTIPLE_CHOICE)
def test_answers_by_their_text_and_answers_that_are_no_choice(tmp_path, target):
    metrics = MULTIPLE_CHOICE[target]
    keys = f"""
    output_type: multiple_choice
    doc_to_text: question
    doc_to_choice: choices
    doc_to_target: {target}
    metric_list: [{", ".join(f"{{metric: {name}}}" for name in metrics)}]
"""
    numbers = agree(Scene(tmp_path, awkward_choices(40), keys), chances)
    assert len(numbers) == 2 * len(metrics)


WRITTEN = """
    output_type: generate_until
    doc_to_text: "{{question}}"
    doc_to_target: {target}
    generation_kwargs: {until: ["\\n"]}
"""
ANSWERS = texts("City 1, a!", "city 1 a", " city 1 a", "12", "twelve", "", "The city of cities")


@peer
@pytest.mark.parametrize(
    "options",
    [
        "ignore_numbers: true",
        "regexes_to_ignore: ['of ', '^The ']",
        "ignore_case: true, ignore_punctuation: true, regexes_to_ignore: ['\\d', ' a$']",
    ],
)
def test_exact_match_and_its_options(tmp_path, options):
    answers = ["city 1 a", "City 1 a", "City 7, a!", "city cities", "", "12"]
    rows = [{"question": f"{n}?", "answer": answers[n % 6]} for n in range(60)]
    keys = WRITTEN.replace("{target}", "answer") + "    metric_list: [{metric: exact_match%s}]\n"
    scores = []
    for place, more in (("plain", ""), ("with", f", {options}")):
        (tmp_path / place).mkdir()
        numbers = agree(Scene(tmp_path / place, rows, keys % more), ANSWERS)
        scores.append(numbers["exact_match,none"])
    assert 0 < scores[0] < scores[1]


@peer
@pytest.mark.parametrize(
    "answers",
    [[["city 1 a"], ["12", "twelve"], ["x", "y", "z"]], [0, 1, 12]],
    ids=["several", "numbers"],
)
def test_exact_match_with_any_of_several_answers_and_with_numbers(tmp_path, answers):
    rows = [{"question": f"{n}?", "answer": answers[n % 3]} for n in range(40)]
    agree(Scene(tmp_path, rows, WRITTEN.replace("{target}", "answer")), ANSWERS)


@peer
def test_a_text_among_lists_of_answers_falls_apart(tmp_path):
    """lm-eval decides on document 0; we have no such mixture in strict."""
    rows = [
        {"question": f"{n}?", "answer": "['ab', 'c']" if n % 2 == 0 else "ab"} for n in range(20)
    ]
    keys = WRITTEN.replace("{target}", '"{{answer}}"')
    agree(Scene(tmp_path, rows, keys), texts("a", "ab", "c"))


# How every number is made is in docs/method.md


PAGE = (Path(__file__).parents[3] / "docs" / "method.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text of the page's sections whose title begins so."""
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    return "".join(part for part in parts if part.startswith(title))


def test_every_metric_has_its_paragraph():
    paragraphs = section("Metrics").split("\n\n")
    heads = [re.match(r"((?:`[^`]+`,?\s)*`[^`]+`)[^:]*:", paragraph) for paragraph in paragraphs]
    described = {name for head in heads if head for name in re.findall(r"`([^`]+)`", head[1])}
    assert sorted(known_metrics() - described) == []


def test_every_aggregation_filter_and_kind_of_interval_is_described():
    assert [name for name in AGGREGATIONS if f"`{name}`" not in section("Aggregations")] == []
    assert [name for name in FILTERS if f"`{name}`" not in section("Filters")] == []
    kinds = ["normal", "none", "clustered", "wilson", "bootstrap", "pooled"]
    formulas = section("Standard errors")
    assert [kind for kind in kinds if f"\n- `{kind}`: " not in formulas] == []


# Filters: what they take out of texts, and how they stand in a pipeline


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
        ("multi_choice_regex", {"regex_pattern": r"is (\([A-Z]\))"}, "it is (D)", "(D)"),
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


def test_repeated_answers_are_chosen_from_and_all_are_kept():
    answers = [["b", "a", "a", "b", "c"]]
    vote = pipeline(step("majority_vote"), step("take_first"))
    assert vote.apply(answers, [{}]).values == ["b"]  # as often as "a", and first
    few = pipeline(step("take_first_k", k=3), step("majority_vote"), step("take_first"))
    assert few.apply(answers, [{}]).values == ["a"]
    pipe = pipeline(step("lowercase"), step("majority_vote"), step("take_first"))
    done = pipe.apply([["B", "A", "b"]], [{}])
    assert done.every == [["b", "a", "b"]]
    assert done.values == ["b"]


def test_a_filter_that_cannot_do_its_work_is_named():
    with pytest.raises(TaskError, match=r"take_first_k.*k is 3.*has 2 responses.*`repeats` to 3"):
        pipeline(step("take_first_k", k=3)).apply([["a", "b"]], [{}])
    with pytest.raises(TaskError, match=r"filter_list: it: regex failed"):
        pipeline(step("regex", regex_pattern="(")).apply([["a"]], [{}])
    with pytest.raises(TaskError, match="gave 1 values for 2 requests"):
        pipeline(step("custom", filter_fn=lambda resps, docs: resps[:1])).apply(
            [["a"], ["b"]], [{}, {}]
        )


PIECES = [
    "guilty", "Guilty", "of", "Romance", "A", "(B)", ": C", "D", "####", "12", "-3.5", "'",
    "('a', 'DET')", "[", "person:", "Loc :", "x, none", "$$", "$", "\n", " ", "!", "é", "date:",
]  # fmt: skip
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
    **dict.fromkeys(["regex_pos", "format_span", "majority_vote", "take_first"], st.just({})),
    "take_first_k": st.sampled_from([{"k": 1}, {"k": 2}]),
    "map": st.just({"mapping_dict": {"A": "B"}, "default_value": "C"}),
}


@cache
def their_filters() -> Any:
    """lm-eval's filters by name; what is punctuation among all of Unicode they look up once."""
    import lm_eval.filters  # noqa: F401
    from lm_eval.api.registry import get_filter
    from lm_eval.filters import extraction

    every = range(sys.maxunicode)
    marks = [number for number in every if unicodedata.category(chr(number)).startswith("P")]
    extraction.range = lambda *limits: marks if limits == (sys.maxunicode,) else range(*limits)
    return get_filter


@peer
@pytest.mark.parametrize("name", ARGUMENTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_filter_makes_what_lm_eval_makes_of_any_text(name, data):
    arguments = data.draw(ARGUMENTS[name])
    texts = data.draw(st.lists(TEXTS, min_size=2, max_size=4))
    docs = [{"choices": data.draw(st.sampled_from([CHOICES, *ODD_CHOICES]))}]
    theirs = list(their_filters()(name)(**arguments).apply([texts], docs))
    assert list(FILTERS[name](**arguments).apply([texts], docs)) == theirs


@peer
def test_lm_eval_has_no_filter_that_is_not_here():
    import lm_eval.filters  # noqa: F401
    from lm_eval.api.registry import filter_registry

    assert set(filter_registry.keys()) <= FILTERS.keys()
