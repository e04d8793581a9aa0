"""Which questions of a run to show and in which order, as SQL over its samples.

Everything here is computed from the samples file at the moment of asking, so that a filter and the
figure beside a question can never disagree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

OUTCOMES = {"all": "All", "right": "Right", "wrong": "Wrong", "unmeasured": "Not scored"}
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

PART = "coalesce(subset, task)"
"""The part of a benchmark that a question belongs to; of a plain task the task itself."""

_KIND = "list_transform(responses, lambda r: r.kind)[1]"
_RIGHT = (
    "CASE WHEN len(choices) > 0 THEN list_max(list_transform(gold, lambda g: likelihoods[g + 1])) "
    f"WHEN {_KIND} <> 'generate_until' THEN likelihoods[1] END"
)
_WRONG = (
    "list_max(list_transform(range(1, len(choices) + 1), lambda i: "
    "CASE WHEN list_contains(gold, CAST(i - 1 AS INTEGER)) THEN NULL ELSE likelihoods[i] END))"
)
_APART = "chr(1)"  # no white space: words do not run on from one text into the next
_SPACE = r"[\s\p{Z}]+"
# In JSON a line break is written with an n, which must not join the word behind it; and a name of a
# field, whose closing quote a colon follows, is no text of the document.
_BEGIN_IN_JSON = r"(?:[^\\]|\\\\)"
_SPACE_IN_JSON = r"(?:[\s\p{Z}]|\\[bfnrt])+"
_END_IN_JSON = r"""(?:[^"\\]|\\.)*"[,}\]]"""

MEASURED = f"""
    SELECT *, likelihood_of_right - {_WRONG} AS margin
    FROM (
        SELECT *, {_RIGHT} AS likelihood_of_right
        FROM (
            SELECT *, {PART} AS part,
                list_transform(responses, lambda r: r.loglikelihood) AS likelihoods,
                list_max(list_transform(responses, lambda r: r.n_context_tokens)) AS tokens
            FROM samples
        )
    )
"""  # noqa: S608
"""Samples with what they are filtered and sorted by.

`margin`: loglikelihood of the likeliest right choice less that of the likeliest wrong one, in nats;
null where there are no choices. `tokens`: length of the prompt as the model read it.
"""

_ORDERS = {
    "file": "file_row_number",
    "close": "abs(margin)",
    "wrong": "margin",
    "surprise": "likelihood_of_right",
    "long": "-tokens",
    "short": "tokens",
}
_MARGIN_CONDITIONS = {"close": "abs(margin) <= ln(2)", "clear": "abs(margin) > ln(10)"}
_OUTCOME_CONDITIONS = {
    "right": "correct >= 1",
    "wrong": "correct < 1",
    "unmeasured": "correct IS NULL",
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

    @property
    def order(self) -> str:
        """The expression by which questions are sorted, smallest first, those without it last."""
        return _ORDERS[self.sort]

    @property
    def conditions(self) -> dict[str, str]:
        """By each field that filters, its condition on a row of MEASURED."""
        conditions = {}
        if self.text:
            conditions["text"] = self._text_condition()
        if self.outcome in _OUTCOME_CONDITIONS:
            conditions["outcome"] = _OUTCOME_CONDITIONS[self.outcome]
        if self.subset:
            conditions["subset"] = "part = $subset"
        if self.margin in _MARGIN_CONDITIONS:
            conditions["margin"] = _MARGIN_CONDITIONS[self.margin]
        if self.at_least is not None:
            conditions["at_least"] = "tokens >= $at_least"
        if self.at_most is not None:
            conditions["at_most"] = "tokens <= $at_most"
        return conditions

    @property
    def values(self) -> dict[str, object]:
        """The parameters that `conditions` name."""
        values: dict[str, object] = {}
        if self.text:
            words = self.text.split()
            values["text"] = "(?i)" + _SPACE.join(map(re.escape, words))
            in_json = (re.escape(json.dumps(word, ensure_ascii=False)[1:-1]) for word in words)
            pattern = _BEGIN_IN_JSON + _SPACE_IN_JSON.join(in_json) + _END_IN_JSON
            values["text_in_json"] = "(?i)" + pattern
        if self.subset:
            values["subset"] = self.subset
        if self.at_least is not None:
            values["at_least"] = self.at_least
        if self.at_most is not None:
            values["at_most"] = self.at_most
        return values

    def _text_condition(self) -> str:
        """By regular expressions that take linear time, and less than bringing to one case does."""
        return " OR ".join(
            [
                "regexp_matches(doc, $text_in_json)",
                f"regexp_matches(array_to_string(choices, {_APART}), $text)",
                "regexp_matches(array_to_string("
                f"list_transform(responses, lambda r: r.text), {_APART}), $text)",
                *(["regexp_matches(prompt, $text)"] if self.whole_prompt else []),
            ]
        )


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
