"""Aggregations: from what a metric gave for each document to one number.

The names are lm-evaluation-harness's, and so are the values. A new one is a function and its line
in AGGREGATIONS; where lm-evaluation-harness departs from the usual definition, STRICT has ours.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log
from typing import Any

import numpy as np

from evalcore.errors import TaskError, code_of_others, did_you_mean
from evalcore.score.metrics import translation
from evalcore.stats.sums import TRANSLATION
from evalcore.task.config import MetricSpec, TaskSpec
from evalcore.task.functions import FunctionRef, functions_in, registered

Items = Sequence[Any]


def mean(items: Items) -> Any:
    return sum(items) / len(items)


def median(items: Items) -> Any:
    """Of an even number of items the upper of the two in the middle."""
    return sorted(items)[len(items) // 2]


def true_median(items: Items) -> float:
    return float(np.median(np.asarray(items, dtype=np.float64)))


def nanmean(items: Items) -> float:
    """The mean of the items that are not NaN."""
    values = np.asarray(items, dtype=np.float64)
    return float("nan") if np.isnan(values).all() else float(np.nanmean(values))


def perplexity(items: Items) -> float:
    """exp(-mean) of loglikelihoods in nats."""
    return exp(-mean(items))


def weighted_mean(items: Iterable[tuple[float, float]]) -> float:
    """Sum of the loglikelihoods over sum of the lengths."""
    sums, lengths = zip(*items, strict=True)
    return float(sum(sums) / sum(lengths))


def weighted_perplexity(items: Items) -> float:
    return exp(-weighted_mean(items))


def bits_per_byte(items: Items) -> float:
    return -weighted_mean(items) / log(2)


def f1_of_two_classes(items: Items) -> float:
    """F1 of class 1 from (right class, predicted class); two classes only."""
    golds, picks = zip(*items, strict=True)
    if len(set(golds) | set(picks)) > 2:
        raise TaskError(
            f"f1 of {len(set(golds) | set(picks))} classes: lm-evaluation-harness knows two, and "
            "fails on more, whatever `average` says. Give the metric an aggregation of your own, "
            "or run in strict mode, which honours `average`"
        )
    return of_sklearn("f1_score", golds, picks, average="binary")


def f1(items: Items, average: str | None = None) -> float:
    """F1 from (right class, predicted class): of class 1, or an average over the classes."""
    golds, picks = zip(*items, strict=True)
    classes = set(golds) | set(picks)
    if average is None and not classes <= {0, 1}:
        raise TaskError(
            f"f1 of the classes {', '.join(sorted(map(str, classes))[:5])}: say `average: macro`, "
            "`weighted` or `micro` in the metric's entry"
        )
    return of_sklearn("f1_score", golds, picks, average=average or "binary")


def of_sklearn(metric: str, golds: Items, picks: Items, **arguments: Any) -> float:
    from sklearn import metrics  # imported late: it takes a second

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no document of a class: its F1 is 0
        return float(getattr(metrics, metric)(golds, picks, **arguments))


def matthews_corrcoef(items: Items) -> float:
    return of_sklearn("matthews_corrcoef", *zip(*items, strict=True))


def brier_score(items: Items) -> float:
    """Mean of the squared distances between probabilities and the right answer as 0 and 1."""
    losses = [_distance(gold, np.asarray(shares, dtype=np.float64)) for gold, shares in items]
    return float(mean(losses))


def _distance(gold: Any, shares: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    if not isinstance(gold, int) or not -len(shares) <= gold < len(shares):
        raise TaskError(f"brier_score: one right choice is needed for every document, not {gold!r}")
    right = np.zeros(len(shares))
    right[gold] = 1.0
    return float(((shares - right) ** 2).sum())


def acc_all(items: Items) -> float:
    """Share of questions all of whose answers are judged rightly, from (judgement, document)."""
    right: dict[tuple[Any, Any], bool] = {}
    for judgement, doc in items:
        question = (doc["idx"]["paragraph"], doc["idx"]["question"])
        right[question] = right.get(question, True) and (doc["label"] == 1) == judgement
    return float(mean(list(right.values())))


def bypass(items: Items) -> int:  # noqa: ARG001
    """999: nothing was scored."""
    return 999


AGGREGATIONS: Mapping[str, Callable[[Items], Any]] = {
    "mean": mean,
    "median": median,
    "nanmean": nanmean,
    "perplexity": perplexity,
    "weighted_perplexity": weighted_perplexity,
    "bits_per_byte": bits_per_byte,
    "f1": f1_of_two_classes,
    "matthews_corrcoef": matthews_corrcoef,
    "bleu": translation.bleu,
    "chrf": translation.chrf,
    "chrf++": translation.chrf_plus_plus,
    "ter": translation.ter,
    "brier_score": brier_score,
    "bypass": bypass,
}

STRICT: Mapping[str, Callable[..., Any]] = {"median": true_median, "f1": f1}


@dataclass(frozen=True)
class Aggregation:
    """An aggregation in force; `name` is its name in AGGREGATIONS, None for a task's own."""

    name: str | None
    function: Callable[[Items], Any]
    average: str | None = None
    """Of f1: how the classes are averaged; None for the F1 of class 1."""
    prepare: Callable[[Items], Items] = list
    """Makes of the metric's items those that are aggregated."""

    def of(self, items: Items) -> float:
        """Raises TaskError if there is no number, whatever the function does; SeveralNumbers where
        it gives them by name."""
        with code_of_others(f"the aggregation {self}"):
            given = self.function(self.prepare(items))
            if isinstance(given, Mapping) and given:
                raise SeveralNumbers(self, list(given))
            value = float(given)
        if not np.isfinite(value):
            raise TaskError(f"the aggregation {self} gives {value}")
        return value

    def __str__(self) -> str:
        return self.name or str(getattr(self.function, "__name__", self.function))


class SeveralNumbers(TaskError):
    """An aggregation gives a mapping: one number under each name."""

    def __init__(self, aggregation: Aggregation, names: Sequence[Any]) -> None:
        super().__init__(f"the aggregation {aggregation} gives several numbers")
        self._aggregation, self._names = aggregation, names

    def each(self) -> Iterator[tuple[str, Aggregation]]:
        """The names, each with what gives its number alone."""
        function = self._aggregation.function
        for name in self._names:
            one = partial(_under, function, name)
            yield str(name), replace(self._aggregation, function=one)


def _under(function: Callable[[Items], Any], name: Any, items: Items) -> Any:
    return function(items)[name]


def aggregation_of(
    entry: MetricSpec, otherwise: str | None, mode: str, spec: TaskSpec | None = None
) -> Aggregation:
    """The aggregation of a metric's entry; `otherwise` is the metric's own.

    `spec` is the task, whose code may register some. Raises TaskError if there is none of that
    name.
    """
    stated = entry.aggregation or otherwise
    if stated is None:
        raise TaskError(f"{entry.name} has no aggregation of its own: name one, such as mean")
    if isinstance(stated, FunctionRef):
        return aggregation_from(stated.load())
    if stated not in AGGREGATIONS:
        if own := registered("aggregation", stated, functions_in(spec)):
            return aggregation_from(own.value)
        raise TaskError(
            f"there is no aggregation {stated!r}{did_you_mean(stated, AGGREGATIONS)}; "
            f"known are {', '.join(AGGREGATIONS)}"
        )
    if mode == "strict" and stated == "f1":
        average = entry.arguments.get("average")
        average = None if average == "binary" else average
        return Aggregation("f1", partial(f1, average=average), average)
    if mode == "strict" and stated in TRANSLATION:
        return Aggregation(stated, AGGREGATIONS[stated], prepare=translation.evened)
    if mode == "strict" and stated in STRICT:
        return Aggregation(stated, STRICT[stated])
    return Aggregation(stated, AGGREGATIONS[stated])


def aggregation_from(function: Callable[..., Any]) -> Aggregation:
    """A task's own function; one that is ours under another roof keeps its name."""
    for name, ours in AGGREGATIONS.items():
        if function is ours:
            return Aggregation(name, ours)
    return Aggregation("acc_all" if function is acc_all else None, function)
