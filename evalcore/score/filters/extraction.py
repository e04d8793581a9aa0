"""Filters that find the answer in a text by a pattern."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from evalcore.score.filters.interface import Docs, EachFilter, Resps


@dataclass(eq=False)
class RegexFilter(EachFilter):
    r"""`regex`: what the pattern finds, by `findall`, else `fallback`.

    Of several finds the one at `group_select` (-1 is the last; one that is not there counts as not
    found); of several groups the first that is not empty; without white space at its ends.
    """

    regex_pattern: str = r"#### (\-?[0-9\.\,]+)"
    group_select: int = 0
    fallback: Any = "[invalid]"

    def __post_init__(self) -> None:
        self.regex = re.compile(self.regex_pattern)

    def of(self, result: Any) -> Any:
        fallback = self.fallback
        if_empty = fallback.strip() if isinstance(fallback, str) else None  # as lm-eval strips it
        found = _find(self.regex, result, self.group_select, if_empty)
        return fallback if found is None else found


@dataclass(eq=False)
class PartOfSpeechFilter(RegexFilter):
    """`regex_pos`: the tags of all `('token', 'TAG')` pairs in the text, else `fallback`.

    The pattern and the selection change nothing, here as in lm-evaluation-harness.
    """

    PAIR = re.compile(r"\('[^']*', '([^']*)'\)")

    regex_pattern: str = r"\['(.*?)'\]"
    fallback: list[str] | None = None

    def of(self, result: Any) -> Any:
        is_text = isinstance(result, str)
        tags = self.PAIR.findall(result) if is_text else [tag for _, tag in result]
        return tags or (["invalid"] if self.fallback is None else self.fallback)


@dataclass(eq=False)
class MultiChoiceRegexFilter(RegexFilter):
    """`multi_choice_regex`: the letter of the chosen answer, as "(A)".

    Looked for in turn: the pattern; the text of one of the document's `choices` (a longer one
    first); a letter after a colon. `ignore_case`, `ignore_punctuation` and `regexes_to_ignore` hold
    for the second.
    """

    ignore_case: bool = False
    ignore_punctuation: bool = False
    regexes_to_ignore: list[str] | None = None

    def apply(self, resps: Resps, docs: Docs) -> Iterable[Any]:
        return [
            self._letters(results, doc["choices"]) for results, doc in zip(resps, docs, strict=True)
        ]

    def _letters(self, results: Sequence[Any], choices: Sequence[str]) -> list[str]:
        letters = [chr(ord("A") + number) for number in range(len(choices))]
        of_choice = {
            self._plain(choice.strip()): f"({letter})"
            for choice, letter in zip(choices, letters, strict=True)
        }
        by_length = sorted(
            (re.escape(self._plain(choice.strip())) for choice in choices), key=len, reverse=True
        )
        any_choice = re.compile("|".join(by_length))
        any_letter = re.compile(rf":[\s]*({'|'.join(map(re.escape, letters))})")
        found = []
        for text in results:
            letter = _find(self.regex, text, self.group_select, none_if_empty="")
            if not letter:
                choice = _find(any_choice, self._plain(text), self.group_select) or ""
                # What finds nothing is no choice, not even one of which nothing is left.
                letter = of_choice.get(choice, choice) if choice else ""
            if not letter:
                after_colon = _find(any_letter, text, self.group_select)
                letter = f"({after_colon})" if after_colon else None
            found.append(letter or self.fallback)
        return found

    def _plain(self, text: Any) -> str:
        if not isinstance(text, str):
            return ""
        plain: str = text
        for pattern in self.regexes_to_ignore or ():
            plain = re.sub(pattern, "", plain)
        if self.ignore_case:
            plain = plain.lower()
        return plain.translate(_punctuation()) if self.ignore_punctuation else plain


def _find(
    pattern: re.Pattern[str], text: Any, select: int, none_if_empty: str | None = None
) -> str | None:
    """The selected find; None if there is none, `none_if_empty` where all its groups are empty."""
    finds = pattern.findall(text if isinstance(text, str) else "")
    if not -len(finds) <= select < len(finds):
        return None
    find: Any = finds[select]
    if not isinstance(find, tuple):
        return str(find).strip()
    filled = [str(group).strip() for group in find if group]
    return filled[0] if filled else none_if_empty


@cache
def _punctuation() -> dict[int, None]:
    """A table for `str.translate` that removes every character of a Unicode punctuation class."""
    return dict.fromkeys(
        code for code in range(sys.maxunicode) if unicodedata.category(chr(code)).startswith("P")
    )


_WORDS = {
    "PER": "person persons people per",
    "LOC": "location counties places country continent loc",
    "ORG": "organization company org",
    "DATE": "time date",
}
_LABELS = {word: label for label, words in _WORDS.items() for word in words.split()}
_LABEL = re.compile(rf"\b({'|'.join(_LABELS)})\s*:")
_ENTITIES = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)")


class SpanFilter(EachFilter):
    """`format_span`: "label: value" for each entity of the text, in the order it has them.

    Labels are unified ("person" is "per"), several values of a label stand by themselves, "none" is
    left out.
    """

    def of(self, result: Any) -> Any:
        labelled = _LABEL.sub(lambda label: f"{_LABELS[label[1]]}:", result.lower())
        lines = labelled.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
        return " $ ".join(
            f"{label.lower()}: {value.strip()}"
            for label, values in _ENTITIES.findall(lines)
            for value in values.split(",")
            if value.strip() != "none"
        )
