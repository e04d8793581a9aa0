"""IFEval: every kind of instruction, followed and not followed, and how a response is judged."""

from __future__ import annotations

from typing import Any

import pytest

from evalcore.errors import TaskError
from evalcore.task.transforms.ifeval import (
    followed,
    mean_of_levels,
    process_results,
    share_followed,
)
from evalcore.task.transforms.ifeval_sentences import sentences, words_and_signs

ENGLISH = "this is a plain english sentence about the weather of the last few days"
GERMAN = "Heute ist das Wetter schön, und wir gehen mit den Kindern in den Garten."

ROUND = [
    ("keywords:existence", {"keywords": ["rain", "sun"]}, "Sunny, then RAINY", "rain only"),
    (
        "keywords:frequency",
        {"keyword": "tea ", "frequency": 2, "relation": "at least"},
        "Tea? More teapots!",
        "one tea",
    ),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "concatenate", "A Cat."),
    (
        "keywords:letter_frequency",
        {"letter": "q", "let_frequency": 2, "let_relation": "less than"},
        "Quick",
        "Quick quack",
    ),
    (
        "keywords:letter_frequency",
        {"letter": "#", "let_frequency": 2, "let_relation": "at least"},
        "#one #two",
        "#one",
    ),
    ("language:response_language", {"language": "de"}, GERMAN, ENGLISH),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 3, "relation": "less than"},
        "Mr. Ng paid 3.50. Fine!",
        "One. Two. Three.",
    ),
    (
        "length_constraints:number_words",
        {"num_words": 4, "relation": "at least"},
        "don't count well",
        "one two three",
    ),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb***", "a ******b"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Then"},
        'One.\n\n"Then," he said',
        "Then one.\n\nAnd two",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a] [b]", "[a\nb] [c]"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye\np. s. x", "PS: x"),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "p.p.s x", "P.S. x"),
    ("detectable_content:postscript", {"postscript_marker": "NB"}, "nb: x", "P.S."),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n - b\n** c", "* a"),
    ("detectable_format:constrained_response", {}, "So: My answer is no.", "No."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* *b*", "*a* * *"),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Part", "num_sections": 2},
        "Part 1 a\nPart 2 b",
        "Part 1",
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": [1]}\n```', "{a: 1}"),
    ("detectable_format:title", {}, "<<ode>>\ntext", "<<>> <a>"),
    ("combination:two_responses", {}, "one\n******\ntwo", "one******one"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say hi. "}, "say HI. Hi!", "Hi! Say hi."),
    ("startend:end_checker", {"end_phrase": "The end."}, 'Bye. THE END."', "The end. Bye"),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "less than"},
        "I am here",
        "I AM here",
    ),
    ("change_case:english_capital", {}, ENGLISH.upper(), GERMAN.upper()),
    ("change_case:english_lowercase", {}, ENGLISH, ENGLISH.title()),
    ("punctuation:no_comma", {}, "1 000", "1,000"),
    ("startend:quotation", {}, ' "quoted" ', '"'),
]


def row(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"prompt": "p", "instruction_id_list": [name], "kwargs": [arguments]}


@pytest.mark.parametrize(("name", "arguments", "good", "bad"), ROUND)
def test_a_response_follows_an_instruction_or_does_not(
    name: str, arguments: dict[str, Any], good: str, bad: str
) -> None:
    assert followed(row(name, arguments), [good]) == [True]
    assert followed(row(name, arguments), [bad]) == [False]


def test_odd_responses_and_keywords() -> None:
    assert followed(row("punctuation:no_comma", {}), [" \n "]) == [False]
    assert followed(row("language:response_language", {"language": "hi"}), ["1 + 1 = 2"]) == [True]
    assert followed(row("keywords:existence", {"keywords": ["r.in"]}), ["RUIN"]) == [True]
    assert followed(row("keywords:existence", {"keywords": ["(sic"]}), ["so (sic)"]) == [True]


def test_a_row_that_cannot_be_checked_is_an_error_not_a_verdict() -> None:
    with pytest.raises(TaskError, match="num_words"):
        followed(row("length_constraints:number_words", {"relation": "at least"}), ["x"])
    with pytest.raises(TaskError, match="'about'"):
        followed(
            row("length_constraints:number_words", {"relation": "about", "num_words": 3}), ["x"]
        )
    with pytest.raises(TaskError, match="punctuation:no_comma"):
        followed(row("punctuation:no_commas", {}), ["x"])
    with pytest.raises(TaskError, match="arguments"):
        followed({"instruction_id_list": ["startend:quotation"], "kwargs": []}, ["x"])


def test_loose_accuracy_forgives_a_first_line_a_last_line_and_stars() -> None:
    doc = {
        "instruction_id_list": ["startend:quotation", "punctuation:no_comma"],
        "kwargs": [{}, {}],
    }
    given = process_results(doc, ['Sure, here it is:\n"**a text**"\nYours'])
    assert given == {
        "prompt_level_strict_acc": False,
        "inst_level_strict_acc": [False, False],
        "prompt_level_loose_acc": True,
        "inst_level_loose_acc": [True, True],
        "strict_acc": [False, False],
    }


def test_levels_are_shares_of_prompts_and_of_the_instructions_of_all_prompts() -> None:
    assert share_followed([[True], [True, False, False]]) == 0.5
    # Of two prompts one is followed, of four instructions three.
    assert mean_of_levels([[True, True], [True, False]]) == (0.5 + 0.75) / 2


def test_sentences_end_at_stops_that_are_not_of_abbreviations() -> None:
    counts = {
        "": 0,
        "No stop": 1,
        "Dr. Ada came at 5 p.m. on Jan. 3. She left.": 2,
        "Wait... what? Yes! (Really.) Fine.": 4,
        'He said "Go." She went.': 2,
        "A heading\n\nThen a sentence. And one": 2,
        "Version 2.0 is out. Get it at example.org today.": 2,
        "He lives in the U.S. However, she does not.": 2,
        "J. K. Rowling wrote it. So did I. The end": 3,
        "What?! No way.": 2,
        "It is number 3. of all": 1,
        "Stop!!": 2,  # as Punkt counts
    }
    assert {text: len(sentences(text)) for text in counts} == counts


def test_words_are_parted_as_in_the_penn_treebank() -> None:
    assert words_and_signs('I CAN\'T say ("NO"): U.S. rules, A-B.') == [
        *("I", "CA", "N'T", "say", "(", '"', "NO", '"', ")", ":", "U.S.", "rules", ",", "A-B", ".")
    ]
