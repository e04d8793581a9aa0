"""Small functions that task code imports from lm-evaluation-harness, in this engine's own words."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

from evalcore.score.filters.registry import FILTERS
from evalcore.score.metrics.aggregations import AGGREGATIONS
from evalcore.score.metrics.registry import METRICS, OURS
from evalcore.task.registered import Kind, register

eval_logger = logging.getLogger("evalcore.task_code")

_JOINED = (
    (re.compile(r" n't"), "n't"),
    (re.compile(r" \)"), ")"),
    (re.compile(r"\( "), "("),
    (re.compile(r'" '), '"'),
    (re.compile(r' "'), '"'),
    (re.compile(r" (['.,])"), r"\1"),
)
"""What white-space tokenisation took apart, in the order in which it is put together again."""


def general_detokenize(text: str) -> str:
    """English text with the blanks taken out that a tokeniser put around punctuation."""
    for pattern, joined in _JOINED:
        text = pattern.sub(joined, text)
    return text


def weighted_f1_score(items: Iterable[tuple[Any, Any]]) -> float:
    """F1 over pairs of gold and prediction, averaged over classes by their number of golds."""
    from sklearn.metrics import f1_score

    golds, predictions = zip(*items, strict=True)
    return float(f1_score(golds, predictions, average="weighted"))


def handle_non_serializable(value: Any) -> Any:
    """What JSON can hold in place of `value`: numpy's scalars and sets; else its text."""
    if hasattr(value, "dtype") and hasattr(value, "item"):
        return value.item()
    return list(value) if isinstance(value, set) else str(value)


def metric_max_over_ground_truths(
    metric: Callable[[Any, Any], float], prediction: Any, ground_truths: Iterable[Any]
) -> float:
    """The prediction's best score against any of the right answers."""
    return max(metric(prediction, truth) for truth in ground_truths)


def register_metric(
    *,
    metric: str,
    higher_is_better: bool | None = None,
    aggregation: str | None = None,
    **_: Any,
) -> Callable[[Any], Any]:
    """Makes a function of task code a metric of its tasks."""
    about = {"higher_is_better": higher_is_better, "aggregation": aggregation}
    return _registering("metric", metric, **about)


_NAMES: Mapping[Kind, Collection[str]] = {
    "filter": FILTERS.keys(),
    "metric": METRICS.keys() - OURS,
    "aggregation": AGGREGATIONS.keys(),
}
"""What has a name without task code, in lm-evaluation-harness as here."""


def _registering(kind: Kind, name: str, **about: Any) -> Callable[[Any], Any]:
    def register_it(registered: Any) -> Any:
        if name in _NAMES[kind]:
            raise ValueError(f"the {kind} {name!r} is there without it: give this one another name")
        register(kind, name, registered, **about)
        return registered

    return register_it


register_filter = partial(_registering, "filter")
"""Makes a filter class of task code known by name to the tasks of that code."""
register_aggregation = partial(_registering, "aggregation")
"""Makes a function of task code an aggregation of its tasks."""


def register_model(*_names: str) -> Callable[[Any], Any]:
    """The class as it is: models are not named by tasks."""
    return lambda registered: registered
