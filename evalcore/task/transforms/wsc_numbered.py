"""WSC's passages with the pronoun marked as lm-evaluation-harness does: by its number alone.

Source: Levesque et al. 2012, "The Winograd Schema Challenge"; in Wang et al. 2019, "SuperGLUE"
(arXiv:1905.00537). Where the number is wrong, or the pronoun comes first, letters are lost or
blanks misplaced; `wsc` looks for the pronoun.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_JOINED = (("( ", "("), ('" ', '"'), (' "', '"'), (" '", "'"), (" .", "."), (" ,", ","))
"""What the source's tokenisation took apart, in the order in which it is put together again."""


def add_passage(dataset: Any) -> Any:
    """Adds the column `passage`: the text with the pronoun marked."""
    return dataset.map(lambda doc: {"passage": marked(doc)})


def marked(doc: Mapping[str, Any]) -> str:
    """The text with `*…*` around the pronoun, which follows `span2_index` words and a blank."""
    text, pronoun = doc["text"], doc["span2_text"]
    before = " ".join(text.split()[: doc["span2_index"]])
    passage = f"{before} *{pronoun}*{text[len(before) + 1 + len(pronoun) :]}"
    for apart, joined in ((" n't", "n't"), (" )", ")"), *_JOINED):
        passage = passage.replace(apart, joined)
    return passage
