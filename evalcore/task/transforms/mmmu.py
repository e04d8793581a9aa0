"""MMMU (Yue et al. 2024, arXiv:2311.16502): images where the text has them, and answers found in
free text by the rules of the benchmark's own evaluation, which lm-evaluation-harness follows.

Source of the rules: MMMU's repository, `eval/utils`; the names of the columns are its data set's.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

Doc = Mapping[str, Any]

_PLACE = re.compile(r"<image ([1-7])>")
_INDICATORS = ("could be ", "so ", "is ", "thus ", "therefore ", "final ", "answer ", "result ")
"""Words behind which a sentence has its answer."""
_TRIVIAL = frozenset([":", ",", ".", "!", "?", ";", "'"])
_WITH_COMMAS = r"-?\b\d{1,3}(?:,\d{3})+\b"
_SCIENTIFIC = r"-?\d+(?:\.\d+)?[eE][+-]?\d+"
_PLAIN = r"-?(?:\d+\.\d+|\.\d+|\d+\b)(?![eE][+-]?\d+)(?![,\d])"


def doc_to_text(doc: Doc) -> str:
    """The question with its options; each `<image 3>` is a place for an image."""
    return _PLACE.sub("<image>", _asked(doc))


def doc_to_image(doc: Doc) -> list[Any]:
    """Those that the text names, in its order; one that it names twice is shown twice."""
    return [doc[f"image_{number}"] for number in _PLACE.findall(_asked(doc))]


def _asked(doc: Doc) -> str:
    if doc["question_type"] != "multiple-choice":
        return f"{doc['question']}\n\nAnswer the question using a single word or phrase."
    lines = [f"({ascii_uppercase[place]}) {option}" for place, option in enumerate(_options(doc))]
    asked = "\n".join(lines).lstrip()
    return (
        f"{doc['question']}\n\n{asked}\n\n"
        "Answer with the option's letter from the given choices directly."
    )


def _options(doc: Doc) -> list[str]:
    return list(ast.literal_eval(doc["options"]))


def process_results(doc: Doc, results: Sequence[str]) -> dict[str, float]:
    answer = doc["answer"]
    if doc["question_type"] == "multiple-choice":
        chosen = chosen_letter(results[0], _options(doc))
        return {"acc": float(chosen in answer if isinstance(answer, list) else chosen == answer)}
    right = answer if isinstance(answer, list) else [answer]
    return {"acc": float(is_open_answer(results[0], right))}


def chosen_letter(response: str, options: Sequence[str]) -> str:
    """The letter that a response means; one drawn at random where it means none.

    Letters in brackets count, else letters that stand alone, else, in a response of more than five
    words, options that it repeats; of several the last.
    """
    letters = ascii_uppercase[: len(options)]
    for mark in ",.!?;:'":
        response = response.strip(mark)
    response = f" {response} "
    lowered = response.lower()
    found = {letter: response.rfind(f"({letter})") for letter in letters}
    if max(found.values(), default=-1) < 0:
        found = {letter: response.rfind(f" {letter} ") for letter in letters}
    if max(found.values(), default=-1) < 0 and len(response.split()) > 5:
        repeated = zip(letters, options, strict=True)
        found = {letter: lowered.rfind(option.lower()) for letter, option in repeated}
    if max(found.values(), default=-1) < 0:
        # Global, and seeded by whoever scores: as lm-evaluation-harness draws it.
        return random.choice(letters)  # noqa: S311
    return max(found, key=lambda letter: found[letter])


def is_open_answer(response: str, right: Sequence[str]) -> bool:
    """Whether a right text is within what the response says at its key places, or a right number is
    one of the numbers there, to two decimals."""
    wanted = [form for answer in right for form in _forms(answer)]
    places = list(_key_places(response))
    said = [*places, *(number for place in places for number in _numbers(place))]
    for form in (form for each in said for form in _forms(each)):
        if isinstance(form, str):
            if any(isinstance(want, str) and want in form for want in wanted):
                return True
        elif form in wanted:
            return True
    return False


def _key_places(response: str) -> Iterator[str]:
    """Behind the last of the words that announce an answer, of each sentence; else all of it."""
    response = response.strip().strip(".").lower()
    # In small letters no sentence begins with a capital, so lines are what is told apart.
    sentences = re.split(r"\.\s(?=[A-Z])|\n", response)
    found = False
    for number, sentence in enumerate(sentences):
        is_last = number == len(sentences) - 1
        behind = [
            sentence.split(word)[-1].strip()
            for word in (*_INDICATORS, *(("=",) if is_last else ()))
            if word in sentence
        ]
        shortest = _shortest(behind)
        if shortest and shortest not in _TRIVIAL:
            found = True
            yield shortest
    if not found:
        yield response


def _shortest(texts: Sequence[str]) -> str:
    """The first of the shortest; an empty one gives way to any that follows."""
    kept = ""
    for text in texts:
        if not kept or len(text) < len(kept):
            kept = text
    return kept


def _numbers(text: str) -> list[str]:
    patterns = (_WITH_COMMAS, _SCIENTIFIC, _PLAIN)
    return [found for pattern in patterns for found in re.findall(pattern, text)]


def _forms(text: str) -> list[str | float]:
    """A number to two decimals; a text in small letters, a single one only beside a space."""
    text = text.strip()
    try:
        return [round(float(text.replace(",", "")), 2)]
    except ValueError:
        lowered = text.lower()
        return [f" {lowered}", f"{lowered} "] if len(lowered) == 1 else [lowered]
