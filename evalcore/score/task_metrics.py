"""The metrics in force for one task: its own and the extra ones, with their aggregations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalcore.errors import TaskError
from evalcore.model.base import Mode
from evalcore.score.metrics.aggregations import Aggregation, aggregation_from, aggregation_of, mean
from evalcore.score.metrics.loglikelihoods import loglikelihood_of_gold
from evalcore.score.metrics.registry import METRICS, OURS, Metric, evaluate_metric, metric_of
from evalcore.task.config import DEFAULT_METRICS, MetricSpec, TaskSpec
from evalcore.task.functions import FunctionRef, at_hand

MEAN = Aggregation("mean", mean)
PROCESS_RESULTS = "process_results"
"""The task's own code, where it gives the items of the metrics."""


@dataclass(frozen=True)
class Measure:
    """One metric in force."""

    name: str
    metric: Metric
    arguments: Mapping[str, Any] = field(default_factory=dict)
    as_lm_eval: bool = False
    """Whether lm-evaluation-harness has it, so that compat follows its ways with it."""


class Measures:
    """All metrics of a task; a metric that gives several names has its aggregation for each."""

    def __init__(
        self,
        spec: TaskSpec,
        mode: Mode,
        *,
        by_the_task: bool,
        own_aggregations: Mapping[str, Callable[..., Any]],
        own_higher_is_better: Mapping[str, bool],
        predict_only: bool = False,
    ) -> None:
        """`by_the_task`: whether the task's own code gives the items of its metrics."""
        self.spec = spec
        self.mode = mode
        self.by_the_task = by_the_task and not predict_only
        self.predict_only = predict_only
        self.of_task: list[Measure] = []
        self.extra: list[Measure] = []
        self.problems: dict[str, str] = {}
        """Metrics that cannot be measured at all, and why."""
        self.aggregations: dict[str, Aggregation] = {}
        self.higher_is_better: dict[str, bool] = {}
        self._came_from: dict[str, str] = {}
        """The metric that gave a number of this name besides others."""
        if predict_only:
            if spec.output_type == "generate_until" and mode == "compat":
                self._add(MetricSpec(metric="bypass"))
            return
        for name, function in own_aggregations.items():
            self.aggregations[name] = aggregation_from(function)
            self.higher_is_better[name] = True
        for entry in () if own_aggregations else spec.metric_list:
            self._add(entry)
        if spec.output_type != "generate_until":
            order = list(METRICS)
            self.of_task.sort(
                key=lambda metric: order.index(metric.name) if metric.name in order else len(order)
            )
        for name in self.higher_is_better.keys() & own_higher_is_better.keys():
            self.higher_is_better[name] = own_higher_is_better[name]
        for name in spec.about.extra_metrics:
            if name not in self.aggregations and name not in self.problems:
                self._add(MetricSpec(metric=name), extra=True)

    @property
    def names(self) -> list[str]:
        """The metrics that were asked for."""
        spread = set(self._came_from.values())
        return [name for name in (*self.aggregations, *self.problems) if name not in spread]

    def origin(self, name: str) -> str:
        """What gives this number: where that fails on a document, there is no such number."""
        if self.by_the_task and all(metric.name != name for metric in self.extra):
            return PROCESS_RESULTS
        return self._came_from.get(name, name)

    def expects(self, name: str) -> bool:
        """Whether it is a mistake if no document has this metric.

        The task's own code need not measure what its file does not say: the default metrics.
        """
        return not self.by_the_task or name not in DEFAULT_METRICS[self.spec.output_type]

    def aggregation(self, name: str) -> Aggregation:
        """A name that no entry declares is averaged, as in lm-evaluation-harness."""
        return self.aggregations.get(name, MEAN)

    def arguments(self, name: str) -> Mapping[str, Any]:
        """What the metric's entry passes to it."""
        entries = {entry.name: entry.arguments for entry in self.spec.metric_list}
        return entries.get(name, {})

    def inherit(self, name: str, parent: str) -> None:
        """`name` came out of the metric `parent`, which gave several numbers."""
        if name != parent:
            self._came_from[name] = parent
        if name not in self.aggregations and parent in self.aggregations:
            self.aggregations[name] = self.aggregations[parent]
            self.higher_is_better[name] = self.higher_is_better.get(parent, True)

    def adopt(self, names: Sequence[str]) -> None:
        """Gives every name that samples hold its aggregation, where a metric gave several names.

        Raises TaskError if the samples do not tell which metric gave one.
        """
        unknown = [name for name in names if name not in self.aggregations]
        parents = [measure.name for measure in self.of_task if measure.name not in names]
        if not unknown or not parents or self.by_the_task:
            return
        if len({self.aggregations[parent].function for parent in parents}) > 1:
            raise TaskError(
                f"{self.spec.name}: {unknown[0]} may come from {' or '.join(parents)}, whose "
                "aggregations differ: score the responses again"
            )
        for name in unknown:
            self.inherit(name, parents[0])

    def _add(self, entry: MetricSpec, extra: bool = False) -> None:
        name, metric, as_lm_eval = entry.name, None, not extra
        try:
            if isinstance(entry.metric, FunctionRef):
                function: Any = entry.metric.load()
                name = getattr(function, "__name__", name)
                metric = Metric(generate_until=function)
                aggregation = aggregation_of(entry, None, self.mode, self.spec)
            else:
                metric = self._metric(entry.metric, entry.hf_evaluate, extra)
                is_ours = entry.metric in OURS or bool(metric and metric.generate_repeats)
                as_lm_eval = not extra and not is_ours
                otherwise = metric.aggregation if metric else None
                aggregation = aggregation_of(entry, otherwise, self.mode, self.spec)
            if name == "likelihood" and aggregation.name == "mean" and metric:
                metric = self._likelihood()
        except TaskError as error:
            self.problems[name] = error.reason
            return
        self.aggregations[name] = aggregation
        higher = entry.higher_is_better
        self.higher_is_better[name] = (
            higher if higher is not None else metric is None or metric.higher_is_better
        )
        if metric is None or (self.by_the_task and not extra):
            return
        (self.extra if extra else self.of_task).append(
            Measure(name, metric, at_hand(entry.arguments), as_lm_eval)
        )

    def _likelihood(self) -> Metric:
        """What can be averaged. Raises TaskError in compat, which has only pairs."""
        if self.mode == "strict" or self.by_the_task:
            return Metric(multiple_choice=loglikelihood_of_gold)
        raise TaskError(
            "likelihood: its pairs of right choice and loglikelihoods have no mean, and "
            "lm-evaluation-harness fails here: give it an aggregation of your own, or run in "
            "strict mode"
        )

    def _metric(self, name: str, hf_evaluate: bool, extra: bool) -> Metric | None:
        """None where the task's own code measures. Raises TaskError if there is no such metric."""
        if self.by_the_task and not extra:
            return metric_of(name, self.spec)
        generates = self.spec.output_type == "generate_until"
        metric = None if hf_evaluate and generates else metric_of(name, self.spec)
        return metric or evaluate_metric(name)
