"""Filters: from the responses to a request to the one that is scored.

A filter sees all responses of a task at once: for each request the list of its results, and the
document that it belongs to. Its interface and the twelve filters are lm-evaluation-harness's: task
files name them, and task code derives its own from them, which may be registered by name
(`evalcore.task.registered`). A new one is a class and its line in FILTERS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalcore.errors import TaskError, did_you_mean, keep_ours
from evalcore.score.filters.extraction import (
    MultiChoiceRegexFilter,
    PartOfSpeechFilter,
    RegexFilter,
    SpanFilter,
)
from evalcore.score.filters.interface import Docs, EachFilter, Filter, Resps
from evalcore.task.config import FilterStep, TaskSpec
from evalcore.task.functions import FunctionRef, at_hand, functions_in, registered


class WhitespaceFilter(EachFilter):
    """`remove_whitespace`: without white space at both ends."""

    def of(self, result: Any) -> Any:
        return result.strip()


class LowercaseFilter(EachFilter):
    """`lowercase`."""

    def of(self, result: Any) -> Any:
        return result.lower()


class UppercaseFilter(EachFilter):
    """`uppercase`."""

    def of(self, result: Any) -> Any:
        return result.upper()


class MapFilter(EachFilter):
    """`map`: each text's entry in `mapping_dict`, else `default_value`."""

    def __init__(
        self, mapping_dict: dict[Any, Any] | None = None, default_value: Any = None
    ) -> None:
        if mapping_dict is not None and not isinstance(mapping_dict, dict):
            raise TypeError(f"mapping_dict: expected a mapping, got {mapping_dict!r}")
        self.mapping_dict = mapping_dict or {}
        self.default_value = default_value

    def of(self, result: Any) -> Any:
        return self.mapping_dict.get(result, self.default_value)


class TakeFirstFilter(Filter):
    """`take_first`: the first result of each request."""

    def apply(self, resps: Resps, docs: Docs) -> Iterable[Any]:  # noqa: ARG002
        return [results[0] for results in resps]


class TakeKFilter(Filter):
    """`take_first_k`: the first `k` results of each request."""

    def __init__(self, k: int) -> None:
        self.k = k

    def apply(self, resps: Resps, docs: Docs) -> Iterable[Any]:  # noqa: ARG002
        resps = list(resps)
        if len(resps[0]) < self.k:
            raise TaskError(
                f"k is {self.k}, but a request has {len(resps[0])} responses: "
                f"set the task's `repeats` to {self.k} or more"
            )
        return [results[: self.k] for results in resps]


class MajorityVoteFilter(Filter):
    """`majority_vote`: the most frequent result; of equally frequent ones the first that came."""

    def apply(self, resps: Resps, docs: Docs) -> Iterable[Any]:  # noqa: ARG002
        return [[Counter(results).most_common(1)[0][0]] for results in resps]


class CustomFilter(Filter):
    """`custom`: the task's own function `filter_fn(resps, docs)`."""

    def __init__(self, filter_fn: Callable[[Resps, Docs], Iterable[Any]]) -> None:
        self.filter_fn = filter_fn

    def apply(self, resps: Resps, docs: Docs) -> Iterable[Any]:
        return self.filter_fn(resps, docs)


FILTERS: Mapping[str, Callable[..., Filter]] = {
    "regex": RegexFilter,
    "regex_pos": PartOfSpeechFilter,
    "multi_choice_regex": MultiChoiceRegexFilter,
    "remove_whitespace": WhitespaceFilter,
    "lowercase": LowercaseFilter,
    "uppercase": UppercaseFilter,
    "map": MapFilter,
    "format_span": SpanFilter,
    "take_first": TakeFirstFilter,
    "take_first_k": TakeKFilter,
    "majority_vote": MajorityVoteFilter,
    "custom": CustomFilter,
}


@dataclass(frozen=True)
class Filtered:
    """What a pipeline made of the results of every request."""

    values: list[Any]
    """One for each request: what is scored."""
    every: list[list[Any]]
    """The last state with as many values for each request as it had results."""


@dataclass(frozen=True)
class Pipeline:
    """A named sequence of filters."""

    name: str
    steps: tuple[tuple[str, Callable[[], Filter]], ...]

    def apply(self, resps: Sequence[Sequence[Any]], docs: Docs) -> Filtered:
        """Filters the results of each request; `docs` has the document of each.

        Raises TaskError that names the filter which failed.
        """
        repeats = [len(results) for results in resps]
        values: list[Any] = [list(results) for results in resps]
        every = values
        for name, make in self.steps:
            try:
                values = list(make().apply(values, docs))
            except BaseException as error:  # the filter may be somebody else's code
                keep_ours(error)
                raise TaskError(
                    f"filter_list: {self.name}: {name} failed: {_why(error)}"
                ) from error
            if len(values) != len(resps):
                raise TaskError(
                    f"filter_list: {self.name}: {name} gave {len(values)} values for "
                    f"{len(resps)} requests: it must give one for each"
                )
            if all(
                isinstance(value, list) and len(value) == count
                for value, count in zip(values, repeats, strict=True)
            ):
                every = values
        return Filtered(values, every)


def pipelines_of(spec: TaskSpec) -> list[Pipeline]:
    """The pipelines of a task in their order. Raises TaskError for a filter that is not known."""
    return [
        Pipeline(pipeline.name, tuple(_step(step, pipeline.name, spec) for step in pipeline.steps))
        for pipeline in spec.filter_list
    ]


def _step(step: FilterStep, pipeline: str, spec: TaskSpec) -> tuple[str, Callable[[], Filter]]:
    name = str(step.function)
    if isinstance(step.function, FunctionRef):
        filter_class: Callable[..., Any] = step.function.load()
    elif step.function in FILTERS:
        filter_class = FILTERS[step.function]
    elif own := registered("filter", step.function, functions_in(spec)):
        filter_class = own.value
    else:
        raise TaskError(
            f"filter_list: {pipeline}: there is no filter {name!r}"
            f"{did_you_mean(name, FILTERS)}; known are {', '.join(FILTERS)}"
        )
    arguments = at_hand(step.arguments)
    return name, lambda: filter_class(**arguments)  # made anew: a filter may have a state


def _why(error: BaseException) -> str:
    return error.reason if isinstance(error, TaskError) else f"{type(error).__name__}: {error}"
