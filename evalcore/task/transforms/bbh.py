"""Filters of BIG-Bench Hard's tasks: an option by its text, a written number, a sorted list.

They find what lm-evaluation-harness's tasks of these names find; like its filters they have
`apply(resps, docs)`, and no base class, so that it can use them too. Suzgun et al. 2022,
arXiv:2210.09261.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Resps = Iterable[Sequence[str]]
Docs = Sequence[Mapping[str, Any]]

NOT_FOUND = "[invalid]"

_OPTION = re.compile(r"\([A-Z]\)([^\n^(]*)")
"""What stands behind the letter of an option in the question."""
_WORD = (
    r"zero|one|two|three|four|five|(?:twen|thir|for|fif|six|seven|nine)(?:{tens})|eight(?:{eights})|"
    r"ten|eleven|twelve|fourteen|hundred|thousand|(?:m|b|tr)illion"
)
_NUMBER_IN_WORDS = re.compile(
    f"((?:(?:{_WORD.format(tens='teen|ty', eights='|een|y')})"
    f"(?:{_WORD.format(tens='|teen|ty', eights='een|y')}|[^\\S\\r\\n]|,|and|&)+)?"
    f"(?:{_WORD.format(tens='teen|ty', eights='een|y')}))"
)
"""Six to nine count only inside a longer number, as in lm-evaluation-harness."""


class Option:
    """The letter of an option, as "(A)": by the pattern, by its text, or behind a colon."""

    def __init__(
        self,
        regex_pattern: str,
        group_select: int = 0,
        fallback: str = NOT_FOUND,
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
    ) -> None:
        """`group_select`: which of several finds; -1 is the last. The rest is for the text."""
        self._pattern = re.compile(regex_pattern)
        self._select = group_select
        self._fallback = fallback
        self._ignore_case = ignore_case
        self._ignore_punctuation = ignore_punctuation

    def apply(self, resps: Resps, docs: Docs) -> list[list[str]]:
        """One for each response; `docs` have the question with its options in `input`."""
        return [self._letters(texts, doc["input"]) for texts, doc in zip(resps, docs, strict=True)]

    def _letters(self, texts: Sequence[str], question: str) -> list[str]:
        options = [self._plain(text.strip()) for text in _OPTION.findall(question)]
        letters = [chr(ord("A") + number) for number in range(len(options))]
        letter_of = dict(zip(options, letters, strict=True))
        # The longer first: one may be how another begins.
        any_option = re.compile("|".join(sorted(map(re.escape, options), key=len, reverse=True)))
        any_letter = re.compile(rf":[\s]*({'|'.join(letters)})")
        found = []
        for text in texts:
            letter = _find(self._pattern, text, self._select)
            if not letter:
                option = _find(any_option, self._plain(text), self._select)
                letter = f"({letter_of[option]})" if option in letter_of and option else option
            if not letter:
                named = _find(any_letter, text, self._select)
                letter = f"({named})" if named else ""
            found.append(letter or self._fallback)
        return found

    def _plain(self, text: str) -> str:
        if self._ignore_case:
            text = text.lower()
        return text.translate(_punctuation()) if self._ignore_punctuation else text


class Meaning:
    """The value of the pattern that the response matches: several ways to say yes, or no."""

    def __init__(
        self,
        regex_pattern_to_value: Mapping[str, str],
        group_select: int = 0,
        fallback: str = NOT_FOUND,
        ignore_case: bool = False,
    ) -> None:
        """`group_select`: which of several finds; -1 is the last."""
        self._values = {re.compile(one): value for one, value in regex_pattern_to_value.items()}
        self._any = re.compile("|".join(regex_pattern_to_value))
        self._select = group_select
        self._fallback = fallback
        self._ignore_case = ignore_case

    def apply(self, resps: Resps, docs: Docs) -> list[list[str]]:  # noqa: ARG002
        """One for each response."""
        return [[self._value(text) for text in texts] for texts in resps]

    def _value(self, text: str) -> str:
        said = _find(self._any, text.lower() if self._ignore_case else text, self._select)
        meant = (value for pattern, value in self._values.items() if said and pattern.search(said))
        return next(meant, self._fallback)


class Number:
    """A number in digits, else one in English words, as digits."""

    def __init__(
        self, regex_pattern: str, group_select: int = 0, fallback: str = NOT_FOUND
    ) -> None:
        """`group_select`: which of several finds; -1 is the last."""
        self._pattern = re.compile(regex_pattern)
        self._select = group_select
        self._fallback = fallback

    def apply(self, resps: Resps, docs: Docs) -> list[list[str]]:  # noqa: ARG002
        """One for each response. Words that are no number are not found; there they end the run."""
        return [[self._number(text) for text in texts] for texts in resps]

    def _number(self, text: str) -> str:
        if digits := _find(self._pattern, text, self._select):
            return digits
        words = _find(_NUMBER_IN_WORDS, text.lower(), self._select)
        if not words:
            return self._fallback
        from word2number import w2n

        try:
            return str(w2n.word_to_num(words))
        except (ValueError, IndexError):  # no number: "million", "ten thousand thousand"
            return self._fallback


class Sorted:
    """The words of the question's list in the order in which the response last names them."""

    def apply(self, resps: Resps, docs: Docs) -> list[list[str]]:
        """One for each response; `docs` have the question, which ends in `List: …`, in `input`."""
        return [
            [_last_named(_any_word(doc["input"]), text) for text in texts]
            for texts, doc in zip(resps, docs, strict=True)
        ]


def _any_word(question: str) -> re.Pattern[str]:
    words = question.split("List:")[1].split()
    return re.compile("|".join(rf"\b{word}\b" for word in words))


def _last_named(words: re.Pattern[str], text: str) -> str:
    from_the_end = dict.fromkeys(reversed(words.findall(text)))
    return " ".join(reversed(from_the_end))


def _find(pattern: re.Pattern[str], text: str, select: int) -> str:
    """The selected find, of several groups the first that is not empty; "" if there is none."""
    finds: list[Any] = pattern.findall(text)
    if not finds:
        return ""
    find = finds[select]
    if isinstance(find, tuple):
        find = next(group for group in find if group)
    return str(find).strip()


@functools.cache
def _punctuation() -> dict[int, None]:
    """A table for `str.translate` that removes every character of a Unicode punctuation class."""
    return dict.fromkeys(
        code for code in range(sys.maxunicode) if unicodedata.category(chr(code)).startswith("P")
    )
