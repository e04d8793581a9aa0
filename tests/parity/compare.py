"""Where two engines' outcomes of one task under one setting differ, kind by kind.

An outcome has the fields of lm-evaluation-harness's results file and, under `samples`, by task the
lines of its samples files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal

Kind = Literal["text", "hash", "response", "score", "aggregate"]
Outcome = Mapping[str, Any]

TOLERANCE = 1e-9
"""Of every number, times the greater of 1 and its size."""
MEASURED = 2e-4
"""The same where each engine measured its own loglikelihoods and a number is made of them."""

HASHES = ("doc", "target", "doc_hash", "prompt_hash", "target_hash")
ABOUT_TASKS = ("versions", "n-shot", "higher_is_better", "n-samples")
UNMEASURED = ("name", "alias")


@dataclass(frozen=True)
class Difference:
    """One thing that the engines do not agree on."""

    kind: Kind
    place: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.kind} of {self.place}: ours {self.ours!r:.300}, theirs {self.theirs!r:.300}"


@dataclass(frozen=True)
class Compared:
    """How much was compared, and what differed."""

    differences: list[Difference]
    requests: int
    documents: int
    numbers: int
    """Metrics, aggregates and standard errors."""


def compare(ours: Outcome, theirs: Outcome, tolerance: float = TOLERANCE) -> Compared:
    """Everything that lm-evaluation-harness prints about a task, against ours.

    With another tolerance than the usual one loglikelihoods are left to `compare_likelihoods`.
    """
    differences = [
        *_samples(ours, theirs, tolerance),
        *_aggregates(ours, theirs, tolerance),
    ]
    lines = [line for samples in theirs["samples"].values() for line in samples]
    numbers = [
        value
        for scores in theirs["results"].values()
        for name, value in scores.items()
        if name not in UNMEASURED and isinstance(value, float | int)
    ]
    return Compared(
        differences,
        requests=sum(len(line["arguments"]) for line in lines),
        documents=len(lines),
        numbers=len(numbers),
    )


def _samples(ours: Outcome, theirs: Outcome, tolerance: float) -> Iterator[Difference]:
    for task, lines in theirs["samples"].items():
        for found, expected in zip_longest(_in_order(ours, task), _in_order(theirs, task)):
            where = expected or found
            place = f"{task}, document {where['doc_id']}, filter {where['filter']}"
            if found is None or expected is None:
                yield Difference("text", place, found is not None, expected is not None)
                return
            yield from _line(place, *_without_images(found, expected), tolerance)
        hashes = (ours["task_hashes"].get(task), theirs["task_hashes"].get(task))
        if hashes[0] != hashes[1] and lines and not any(map(_sees, lines)):
            yield Difference("hash", f"the whole of {task}", *hashes)


def _sees(line: Mapping[str, Any]) -> bool:
    """Whether a line of lm-evaluation-harness's is of a document with images."""
    return "arg_2" in line["arguments"]["gen_args_0"]


def _without_images(
    ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The lines without what is of images, which lm-evaluation-harness writes as the digest of a
    PNG, and hashes by where they lay in memory. That both asked with the same ones the table says,
    whose keys have their pixels."""
    if not _sees(theirs):
        return ours, theirs
    images = [
        name for name, value in ours["doc"].items() if isinstance(value, dict) and "image" in value
    ]
    asked = {
        name: {key: value for key, value in each.items() if key != "arg_2"}
        for name, each in theirs["arguments"].items()
    }
    lines = []
    for line in (ours, {**theirs, "arguments": asked}):
        doc = {name: value for name, value in line["doc"].items() if name not in images}
        lines.append({**line, "doc": doc, "doc_hash": None})
    return lines[0], lines[1]


def _in_order(outcome: Outcome, task: str) -> list[Mapping[str, Any]]:
    lines: Sequence[Mapping[str, Any]] = outcome["samples"].get(task, [])
    return sorted(lines, key=lambda line: (line["doc_id"], line["filter"]))


def _line(
    place: str, ours: Mapping[str, Any], theirs: Mapping[str, Any], tolerance: float
) -> Iterator[Difference]:
    for number, (found, expected) in enumerate(
        zip_longest(ours["arguments"].values(), theirs["arguments"].values())
    ):
        if found != expected:
            yield _first_letter(f"{place}, request {number}", found, expected)
    for name in HASHES:
        if ours[name] != theirs[name]:
            yield Difference("hash", f"{place}, {name}", ours[name], theirs[name])
    for name in ("resps", "filtered_resps"):
        measured = tolerance > TOLERANCE and not is_generated(theirs)
        if ours[name] != theirs[name] and not measured:
            yield Difference("response", f"{place}, {name}", ours[name], theirs[name])
    if set(ours["metrics"]) != set(theirs["metrics"]):
        yield Difference("score", f"{place}, metrics", ours["metrics"], theirs["metrics"])
    for name in set(theirs["metrics"]) & set(ours["metrics"]):
        if not agree(ours[name], theirs[name], tolerance):
            yield Difference("score", f"{place}, {name}", ours[name], theirs[name])


def is_generated(line: Mapping[str, Any]) -> bool:
    """Whether the responses of a line are texts; numbers are text in samples files, too."""
    return isinstance(line["arguments"]["gen_args_0"].get("arg_1"), Mapping)


def _first_letter(place: str, ours: Any, theirs: Any) -> Difference:
    """A difference in text, cut to where it begins."""
    if ours is None or theirs is None or ours.keys() != theirs.keys():
        return Difference("text", place, ours, theirs)
    for name in theirs:
        found, expected = ours[name], theirs[name]
        if found == expected:
            continue
        if not (isinstance(found, str) and isinstance(expected, str)):
            return Difference("text", f"{place}, {name}", found, expected)
        start = next(
            place for place, (one, other) in enumerate(zip_longest(found, expected)) if one != other
        )
        begin = max(0, start - 40)
        return Difference(
            "text",
            f"{place}, {name}, from letter {begin}",
            found[begin : start + 80],
            expected[begin : start + 80],
        )
    raise AssertionError("equal arguments were taken for different ones")


def _aggregates(ours: Outcome, theirs: Outcome, tolerance: float) -> Iterator[Difference]:
    for part in ("results", "groups"):
        for task, scores in theirs[part].items():
            found = ours[part].get(task)
            if found is None:
                yield Difference("aggregate", f"{part} of {task}", None, scores)
                continue
            for name in {**scores, **found}:
                if not agree(found.get(name), scores.get(name), tolerance):
                    place = f"{part} of {task}, {name}"
                    yield Difference("aggregate", place, found.get(name), scores.get(name))
    for part in ABOUT_TASKS:
        for task, value in theirs[part].items():
            if part == "higher_is_better" and _same_directions(ours[part].get(task), value):
                continue
            if not agree(ours[part].get(task), value):
                place = f"{part} of {task}"
                yield Difference("aggregate", place, ours[part].get(task), value)


def _same_directions(ours: Mapping[str, Any] | None, theirs: Mapping[str, Any]) -> bool:
    """lm-evaluation-harness lists a function that only gives other metrics, and leaves out metrics
    that no file announces."""
    return ours is not None and all(ours[name] == theirs[name] for name in ours.keys() & theirs)


def agree(ours: Any, theirs: Any, tolerance: float = TOLERANCE) -> bool:
    """Whether two values (numbers, texts, or lists and mappings of them) are the same."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        return ours.keys() == theirs.keys() and all(
            agree(ours[key], theirs[key], tolerance) for key in theirs
        )
    if isinstance(theirs, list | tuple) and isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(
            agree(one, other, tolerance) for one, other in zip(ours, theirs, strict=True)
        )
    if isinstance(theirs, float | int) and isinstance(ours, float | int):
        if math.isnan(theirs) or math.isinf(theirs):
            return str(float(ours)) == str(float(theirs))
        return abs(ours - theirs) <= tolerance * max(1.0, abs(theirs))
    return bool(ours == theirs)


def allowed(loglikelihood: float) -> float:
    """How much two engines' sums of 32-bit numbers may differ, in nats."""
    return 1e-4 + 1e-6 * abs(loglikelihood)


@dataclass
class Likelihoods:
    """What a comparison found."""

    compared: int = 0
    largest: float = 0.0
    beyond: list[str] = field(default_factory=list)
    """Loglikelihoods farther apart than allowed, and flags or texts that differ."""
    changed: list[tuple[str, float]] = field(default_factory=list)
    """Documents whose likeliest choice is another one, and by what margin it won."""

    @property
    def wrongly_changed(self) -> list[tuple[str, float]]:
        """Predictions that rounding does not excuse."""
        return [(place, margin) for place, margin in self.changed if margin > allowed(margin)]


def compare_likelihoods(
    ours: Mapping[Any, Mapping[str, Any]], theirs: Mapping[Any, Mapping[str, Any]]
) -> Likelihoods:
    """The first responses of lines of samples files, by task and document."""
    report = Likelihoods()
    for key, line in theirs.items():
        found, expected = _first(ours[key]), _first(line)
        for (our_value, our_flag), (their_value, their_flag) in zip(found, expected, strict=True):
            off = abs(our_value - their_value)
            report.compared += 1
            report.largest = max(report.largest, off)
            if off > allowed(their_value) or our_flag != their_flag:
                report.beyond.append(f"{key}: {our_value} {our_flag}, {their_value} {their_flag}")
        if len(expected) > 1:
            report.changed += _changed(str(key), found, expected)
    return report


def _changed(
    place: str, ours: Sequence[tuple[float, str]], theirs: Sequence[tuple[float, str]]
) -> Iterator[tuple[str, float]]:
    our_values, their_values = [value for value, _ in ours], [value for value, _ in theirs]
    pick = our_values.index(max(our_values))
    if pick != their_values.index(max(their_values)):
        yield place, max(their_values) - their_values[pick]


def _first(line: Mapping[str, Any]) -> list[tuple[float, str]]:
    """Of each request its first response if that is a loglikelihood; numbers are text in files."""
    if is_generated(line):
        return []
    firsts = [responses[0] for responses in line["resps"]]
    return [
        (float(first[0]), first[1]) if isinstance(first, list) else (float(first), "")
        for first in firsts
    ]
