"""IFEval's verdicts are those of lm-evaluation-harness's checker, instruction by instruction.

Its checker counts sentences, and words in capitals, with a model that NLTK downloads. Where that
model is not at hand those two kinds are compared only as far as they need no model.
"""

from __future__ import annotations

import random
from functools import cache
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.task.transforms import ifeval
from evalcore.task.transforms.ifeval_sentences import sentences, words_and_signs
from tests.evalcore.task.transforms.test_ifeval import ENGLISH, GERMAN, ROUND

pytest.importorskip("lm_eval", reason="lm_eval is not installed (extra `peer`)")
pytest.importorskip("immutabledict", reason="lm_eval's IFEval needs immutabledict")
pytestmark = pytest.mark.peer

PUNKT = {"length_constraints:number_sentences", "change_case:capital_word_frequency"}
SLOW = {"language:response_language", "change_case:english_lowercase"}

PIECES = [
    *(good for _, _, good, _ in ROUND),
    *(bad for *_, bad in ROUND),
    *("*", "**", "***", "******", "- ", "* ", "\n", "\n\n", " ", '"', "'", "<<", ">>", "[", "]"),
    *("p.s.", "P. P. S", "Section 1", "SECTION  2 ", "PART12", "{}", "null", "```", "```JSON\n"),
    *("My answer is yes.", "my answer is maybe.", "THE CAT", "ça va", "Then", "then,", "ΟΔΟΣ"),
    *("rain", "sun", "tea", "#", "Q", "q", ",", ".", "I", "123", "The end.", "say hi."),
    *(ENGLISH, ENGLISH.upper(), GERMAN, GERMAN.lower(), "日本語の文章です。", "Это по-русски"),
]

RESPONSES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).flatmap(
    lambda pieces: st.sampled_from(["", " ", "\n", "\n\n"]).map(
        lambda between: between.join(pieces)
    )
)

RELATIONS = st.sampled_from(["less than", "at least"])
COUNTS = st.integers(min_value=1, max_value=12)
WORDS = st.sampled_from(["rain", "sun", "tea", "cat", "the", "r.in", "then", "ΟΔΟΣ", "answer is"])


def stated(**columns: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(columns)


ARGUMENTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "keywords:existence": stated(keywords=st.lists(WORDS, min_size=1, max_size=3)),
    "keywords:frequency": stated(keyword=WORDS, frequency=COUNTS, relation=RELATIONS),
    "keywords:forbidden_words": stated(forbidden_words=st.lists(WORDS, min_size=1, max_size=3)),
    "keywords:letter_frequency": stated(
        letter=st.sampled_from("abqEz"), let_frequency=COUNTS, let_relation=RELATIONS
    ),
    "language:response_language": stated(
        language=st.sampled_from(["en", "de", "ja", "ru", "fr", "hi"])
    ),
    "length_constraints:number_sentences": stated(num_sentences=COUNTS, relation=RELATIONS),
    "length_constraints:number_words": stated(num_words=COUNTS, relation=RELATIONS),
    "length_constraints:number_paragraphs": stated(num_paragraphs=COUNTS),
    "length_constraints:nth_paragraph_first_word": stated(
        num_paragraphs=st.integers(3, 4), nth_paragraph=st.integers(1, 3), first_word=WORDS
    ),
    "detectable_content:number_placeholders": stated(num_placeholders=COUNTS),
    "detectable_content:postscript": stated(
        postscript_marker=st.sampled_from(["P.S.", "P.P.S", "NB", " p.s. "])
    ),
    "detectable_format:number_bullet_lists": stated(num_bullets=COUNTS),
    "detectable_format:number_highlighted_sections": stated(num_highlights=COUNTS),
    "detectable_format:multiple_sections": stated(
        section_spliter=st.sampled_from(["Section", "SECTION", "PART", " Part "]),
        num_sections=COUNTS,
    ),
    "combination:repeat_prompt": stated(prompt_to_repeat=st.sampled_from(PIECES[:8])),
    "startend:end_checker": stated(end_phrase=st.sampled_from(["The end.", " yes.", "tea", "!"])),
    "change_case:capital_word_frequency": stated(
        capital_frequency=COUNTS, capital_relation=RELATIONS
    ),
}


@cache
def their_checker() -> Any:
    from lm_eval.tasks.ifeval import utils

    import_module("langdetect").DetectorFactory.seed = 0  # lm-eval itself sets none
    return utils


def theirs(name: str, arguments: dict[str, Any], response: str) -> dict[str, Any]:
    doc = {"key": 1, "prompt": "p", "instruction_id_list": [name], "kwargs": [arguments]}
    random.seed(0)
    return their_checker().process_results(doc, [response])  # type: ignore[no-any-return]


def ours(name: str, arguments: dict[str, Any], response: str) -> dict[str, Any]:
    doc = {"instruction_id_list": [name], "kwargs": [arguments]}
    verdicts = ifeval.process_results(doc, [response])
    assert verdicts.pop("strict_acc") == verdicts["inst_level_strict_acc"]  # lm-eval has no such
    return verdicts


def punkt_is_here() -> bool:
    try:
        import_module("nltk").data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        return False
    return True


COMPARED = [name for name in ifeval.CHECKS if name not in PUNKT or punkt_is_here()]
"""Two kinds need NLTK's model, which has to be downloaded: they are compared where it is."""


def arguments_of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Drawn ones and those of the examples; lm-eval draws a letter where a row names a sign."""
    of_examples = [
        stated for kind, stated, *_ in ROUND if kind == name and "#" not in stated.values()
    ]
    return ARGUMENTS.get(name, st.nothing()) | st.sampled_from(of_examples)


@pytest.mark.parametrize("name", COMPARED)
def test_verdicts_are_those_of_lm_eval(name: str) -> None:
    @settings(max_examples=20 if name in SLOW else 80, deadline=None)
    @given(arguments_of(name), RESPONSES)
    def holds(arguments: dict[str, Any], response: str) -> None:
        assert ours(name, arguments, response) == theirs(name, arguments, response)

    holds()


@given(st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join))
def test_as_many_words_in_capitals_as_the_tokenizer_of_nltk_finds(text: str) -> None:
    tokenizer = import_module("nltk.tokenize").NLTKWordTokenizer()
    for sentence in sentences(text):
        of_nltk = sum(word.isupper() for word in tokenizer.tokenize(sentence))
        assert sum(word.isupper() for word in words_and_signs(sentence)) == of_nltk
