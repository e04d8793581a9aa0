"""From the filtered results of one document to what each metric makes of them.

In compat to the letter of lm-evaluation-harness, peculiarities included; each has a test.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evalcore.errors import TaskError, keep_ours
from evalcore.score.answered import Answered
from evalcore.score.generated import AsLmEval, best
from evalcore.score.task_metrics import PROCESS_RESULTS, Measure, Measures

OwnProcess = Callable[[dict[str, Any], list[Any]], dict[str, Any]]
"""A task's own `process_results(doc, results)`: from a document and its results to its items."""


@dataclass(frozen=True)
class Processed:
    """What the metrics gave for one document, and why those that gave nothing failed."""

    items: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    """By what failed: a metric, or PROCESS_RESULTS."""


def process(answered: Answered, measures: Measures, own: OwnProcess | None) -> Processed:
    """Every metric's item for this document; one that fails is noted, the others stand."""
    processed = Processed()
    if own is not None and not measures.predict_only:
        _by_the_task(answered, own, processed)
    elif measures.of_task:
        _by_the_metrics(answered, measures, processed)
    for measure in measures.extra:
        _note(processed, measure, lambda one: _item(answered, one, measures))
    return processed


def _by_the_task(answered: Answered, own: OwnProcess, processed: Processed) -> None:
    try:
        # A copy: task code may change its document, and the next filter sees it again.
        items = dict(own(copy.deepcopy(answered.item.doc), list(answered.results)))
        if wrong := [name for name in items if not isinstance(name, str) or not name.isprintable()]:
            raise TypeError(f"a metric's name must be text that can be printed, got {wrong[0]!r}")
        processed.items.update(items)
    except BaseException as error:  # the function is somebody else's code
        keep_ours(error)
        processed.problems[PROCESS_RESULTS] = (
            f"process_results failed: {type(error).__name__}: {error}"
        )


def _by_the_metrics(answered: Answered, measures: Measures, processed: Processed) -> None:
    generates = measures.spec.output_type == "generate_until"
    theirs = AsLmEval(answered, measures) if generates and measures.mode == "compat" else None
    for measure in measures.of_task:
        before = list(processed.items)
        if theirs and measure.as_lm_eval:
            _note(processed, measure, theirs.of)
        else:
            _note(processed, measure, lambda one: _item(answered, one, measures))
        for name in processed.items:
            if name not in before:
                measures.inherit(name, measure.name)


def _note(
    processed: Processed, measure: Measure, measured: Callable[[Measure], dict[str, Any]]
) -> None:
    try:
        processed.items.update(measured(measure))
    except TaskError as error:
        processed.problems[measure.name] = error.reason
    except BaseException as error:  # the metric may be somebody else's code
        keep_ours(error)
        processed.problems[measure.name] = f"{type(error).__name__}: {error}"


def _item(answered: Answered, measure: Measure, measures: Measures) -> dict[str, Any]:
    output_type = measures.spec.output_type
    if output_type == "generate_until":
        return best(answered, measure, measures.higher_is_better[measure.name])
    measured = getattr(measure.metric, output_type)
    if measured is None:
        raise TaskError(f"{measure.name} is not measured where output_type is {output_type}")
    return {measure.name: measured(answered)}
