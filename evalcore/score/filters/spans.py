"""A filter for named entities."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from evalcore.score.filters.interface import Docs, Filter, Resps

_LABELS = {
    "person": "PER",
    "persons": "PER",
    "people": "PER",
    "per": "PER",
    "location": "LOC",
    "counties": "LOC",
    "places": "LOC",
    "country": "LOC",
    "continent": "LOC",
    "loc": "LOC",
    "organization": "ORG",
    "company": "ORG",
    "org": "ORG",
    "time": "DATE",
    "date": "DATE",
}
_LABEL = re.compile(rf"\b({'|'.join(_LABELS)})\s*:")
_ENTITIES = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)")


class SpanFilter(Filter):
    """`format_span`: "label: value" for each entity of the text, in the order it has them.

    Labels are unified ("person" is "per"), several values of a label stand by themselves, "none" is
    left out.
    """

    def apply(self, resps: Resps, docs: Docs) -> Iterable[Any]:  # noqa: ARG002
        return [[_spans(text) for text in results] for results in resps]


def _spans(text: str) -> str:
    labelled = _LABEL.sub(lambda label: f"{_LABELS[label[1]]}:", text.lower())
    lines = labelled.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
    return " $ ".join(
        f"{label.lower()}: {value.strip()}"
        for label, values in _ENTITIES.findall(lines)
        for value in values.split(",")
        if value.strip() != "none"
    )
