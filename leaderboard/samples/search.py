"""Which questions of a run to show and in which order.

Everything here is computed from the samples file at the moment of asking, so that a filter and the
figure beside a question can never disagree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leaderboard.samples.facts import Facts

Mask = NDArray[np.bool_]
"""Of each question of a file, in its order."""

OUTCOMES = {"all": "All", "right": "✓ Right", "wrong": "✗ Wrong", "unmeasured": "Not scored"}
MARGINS = {
    "any": "Any distance",
    "close": "Close calls: within a factor of 2",
    "clear": "Clear cut: more than a factor of 10",
}
SORTS = {
    "file": "Order of the file",
    "close": "Closest call first",
    "wrong": "Most clearly wrong first",
    "surprise": "Least likely right answer first",
    "long": "Longest prompt first",
    "short": "Shortest prompt first",
}

LEAD = 10
"""Letters of an excerpt before the words that were searched for."""

LONGEST_TEXT = 200
"""Letters that can be searched for."""

_SPACE = r"[\s\p{Z}]+"
# In JSON a line break is written with an n, which must not join the word behind it; and a name of a
# field, whose closing quote a colon follows, is no text of the document.
_BEGIN_IN_JSON = r"(?:[^\\]|\\\\)"
_SPACE_IN_JSON = r"(?:[\s\p{Z}]|\\[bfnrt])+"
_END_IN_JSON = r"""(?:[^"\\]|\\.)*"[,}\]]"""

_ORDERS: dict[str, Callable[[Facts], NDArray[np.float64]]] = {
    "close": lambda facts: np.abs(facts.margin),
    "wrong": lambda facts: facts.margin,
    "surprise": lambda facts: facts.right,
    "long": lambda facts: -facts.tokens,
    "short": lambda facts: facts.tokens,
}
_MARGINS: dict[str, Callable[[Facts], Mask]] = {
    "close": lambda facts: np.abs(facts.margin) <= log(2),
    "clear": lambda facts: np.abs(facts.margin) > log(10),
}
_OUTCOMES: dict[str, Callable[[Facts], Mask]] = {
    "right": lambda facts: facts.correct >= 1,
    "wrong": lambda facts: facts.correct < 1,
    "unmeasured": lambda facts: np.isnan(facts.correct),
}


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is asked for; every field by itself leaves all questions as they are."""

    outcome: str = "all"
    subset: str = ""
    text: str = ""
    """Words as they stand one after the other, in either case and with any white space between
    them, in the document, in its choices or in what the model wrote; at most LONGEST_TEXT."""
    whole_prompt: bool = False
    """Whether `text` may also stand anywhere in the prompt: in instructions and worked examples."""
    margin: str = "any"
    at_least: int | None = None
    at_most: int | None = None
    """Tokens of the prompt."""
    sort: str = "file"

    def masks(self, facts: Facts, file: pq.ParquetFile) -> dict[str, Mask]:
        """By each field that filters whether it lets each question of the file through."""
        masks = {}
        if self.text:
            masks["text"] = self._with_text(file)
        if self.outcome in _OUTCOMES:
            masks["outcome"] = _OUTCOMES[self.outcome](facts)
        if self.subset:
            parts = facts.parts
            place = parts.index(self.subset) if self.subset in parts else len(parts)
            masks["subset"] = facts.part == place
        if self.margin in _MARGINS:
            masks["margin"] = _MARGINS[self.margin](facts)
        if self.at_least is not None:
            masks["at_least"] = facts.tokens >= self.at_least
        if self.at_most is not None:
            masks["at_most"] = facts.tokens <= self.at_most
        return masks

    def ordered(self, facts: Facts, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """These rows of the file in the order asked for; those without such a number come last."""
        if self.sort not in _ORDERS:
            return places
        return places[np.argsort(_ORDERS[self.sort](facts)[places], kind="stable")]

    def _with_text(self, file: pq.ParquetFile) -> Mask:
        """Block by block, by regular expressions that take linear time."""
        columns = ["doc", "choices", "responses.list.element.text"]
        columns += ["prompt"] if self.whole_prompt else []
        in_text, in_json = self._patterns()
        found = []
        for block in range(file.num_row_groups):
            table = file.read_row_group(block, columns=columns, use_threads=False)
            mask = _matches(table["doc"].combine_chunks(), in_json)
            choices = table["choices"].combine_chunks()
            mask |= _any_of(choices, _matches(choices.flatten(), in_text))
            responses = table["responses"].combine_chunks()
            written = responses.flatten().field("text")
            if written.null_count < len(written):
                mask |= _any_of(responses, _matches(written, in_text))
            if self.whole_prompt:
                mask |= _matches(table["prompt"].combine_chunks(), in_text)
            found.append(mask)
        return np.concatenate(found) if found else np.zeros(0, bool)

    def _patterns(self) -> tuple[str, str]:
        """Of the words in a text and in JSON."""
        words = self.text.split()
        in_json = (re.escape(json.dumps(word, ensure_ascii=False)[1:-1]) for word in words)
        return (
            "(?i)" + _SPACE.join(map(re.escape, words)),
            "(?i)" + _BEGIN_IN_JSON + _SPACE_IN_JSON.join(in_json) + _END_IN_JSON,
        )


def _matches(texts: Any, pattern: str) -> Mask:
    """Whether each text has the pattern in it; one that is null has not."""
    mask: Mask = pc.fill_null(pc.match_substring_regex(texts, pattern), False).to_numpy(
        zero_copy_only=False
    )
    return mask.copy()


def _any_of(lists: Any, mask: Mask) -> Mask:
    """Whether each of these lists has a value for which `mask`, one entry a value, is true."""
    found = np.zeros(len(lists), bool)
    found[pc.list_parent_indices(lists).to_numpy()[mask]] = True
    return found


@dataclass(frozen=True)
class Excerpt:
    """A piece of a text around the words that were searched for; without them its beginning."""

    before: str
    hit: str = ""
    after: str = ""


def excerpt(texts: Iterable[str], wanted: str, length: int) -> Excerpt | None:
    """The first of the texts that has `wanted` in it, cut to about `length` characters.

    It begins shortly before the words, which so stay in sight in a narrow list. White space is
    joined. None where no text has it.
    """
    pattern = re.compile(" ".join(map(re.escape, wanted.split())), re.IGNORECASE)
    for text in texts:
        line = " ".join(text.split())
        if match := pattern.search(line):
            start = line.find(" ", max(0, match.start() - LEAD), match.start()) + 1
            start = start or max(0, match.start() - LEAD)
            before = ("…" if start else "") + line[start : match.start()]
            return Excerpt(before, match[0], line[match.end() : start + length])
    return None
