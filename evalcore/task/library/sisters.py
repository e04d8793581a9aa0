"""Sisters: columns of a suite that ask for the same skill, so that a model is as good on both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalcore.task.fields import Kind, Problems

MOST_WORDS = 300
_KINDS: dict[str, Kind] = {
    key: Kind(
        f"text of at most {MOST_WORDS} characters",
        lambda value: isinstance(value, str) and 0 < len(value.strip()) <= MOST_WORDS,
    )
    for key in ("task", "sister", "differs")
}


@dataclass(frozen=True, kw_only=True)
class Sisters:
    """Two columns of a suite, by their tasks."""

    task: str
    """Of the benchmark that is looked at."""
    sister: str
    """Of the column beside which it is held."""
    differs: str
    """How the sister's questions are others, or are put in another way."""


def read_sisters(
    stated: Sequence[Mapping[str, Any]], metrics: Mapping[str, str], problems: Problems
) -> tuple[Sisters, ...]:
    """What a suite's file says under `sisters`; problems are noted.

    `metrics` are those of the suite's columns by task: both of a pair must be shares of 1.
    """
    found: list[Sisters] = []
    for number, pair in enumerate(stated):
        place = f"sisters[{number}]"
        problems.check(pair, _KINDS, place, needed=_KINDS)
        named = {key: pair.get(key) for key in ("task", "sister")}
        for key, name in named.items():
            if isinstance(name, str) and name not in metrics:
                problems.add(
                    f"{place}.{key}",
                    f"{name} is no task of this suite: name one of {', '.join(metrics)}",
                )
            elif isinstance(name, str) and metrics[name] in UNBOUNDED:
                problems.add(
                    f"{place}.{key}", f"{metrics[name]} is no share of right answers: name another"
                )
        if named["task"] == named["sister"]:
            problems.add(f"{place}.sister", "is the task itself: name another column")
        if any((one.task, one.sister) == tuple(named.values()) for one in found):
            problems.add(place, "stands here twice: remove one")
        if not problems.found:
            found.append(Sisters(**pair))
    return tuple(found)


UNBOUNDED = frozenset({"perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"})
"""Metrics without an upper end, of which less is better."""
