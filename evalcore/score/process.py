"""From the filtered results of one document to what each metric makes of them.

In compat to the letter of lm-evaluation-harness, peculiarities included; each has a test. Of a
generated text it decides by document 0 whether there are several right answers; then an exact match
with any of them counts, and any other metric gives 1 where it is not 0 for one of them. Strict
takes the best over the right answers of the document itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from evalcore.errors import TaskError, keep_ours
from evalcore.score.answered import Answered
from evalcore.score.metrics.text import pair
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
        _note(processed, measure, partial(_item, answered, measures))
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
        own = theirs.of if theirs and measure.as_lm_eval else partial(_item, answered, measures)
        _note(processed, measure, own)
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


def _item(answered: Answered, measures: Measures, measure: Measure) -> dict[str, Any]:
    output_type = measures.spec.output_type
    if output_type == "generate_until":
        return best(answered, measure, measures.higher_is_better[measure.name])
    measured = getattr(measure.metric, output_type)
    if measured is None:
        raise TaskError(f"{measure.name} is not measured where output_type is {output_type}")
    return {measure.name: measured(answered)}


Results = dict[str, Any]


def _accepted_answers(answered: Answered) -> list[Any]:
    """The right answers of the document, as texts where the model's answer is one."""
    item = answered.item
    stated = item.answer if isinstance(item.answer, list) else [item.answer]
    if item.choices:
        stated = [item.choices[answer] if isinstance(answer, int) else answer for answer in stated]
    result = answered.results[0]
    return [str(answer) for answer in stated] if isinstance(result, str) else list(stated)


class AsLmEval:
    """The metrics of one document in the order of the task, with lm-evaluation-harness's ways."""

    def __init__(self, answered: Answered, measures: Measures) -> None:
        self._measures = measures
        self._several = answered.item.several_answers
        self._result = answered.results[0]
        self._answered = answered

    @cached_property
    def _gold(self) -> Any:
        """As the metrics see it: of the model's type, or a list where there are several."""
        item = self._answered.item
        if item.choices:
            return item.choices[item.answer]
        if self._several:
            return list(item.answer)  # a text falls apart into its characters
        if type(item.answer) is type(self._result) or isinstance(self._result, list):
            return item.answer
        if any(measure.name == "bypass" for measure in self._measures.of_task):
            return item.answer
        return type(self._result)(item.answer)

    def of(self, measure: Measure) -> Results:
        if self._several:
            return {measure.name: self._any_of_several(measure)}
        value = _call(measure, self._gold, self._result)
        return value if isinstance(value, dict) else {measure.name: value}

    def _any_of_several(self, measure: Measure) -> float:
        golds = self._gold if isinstance(self._gold, list) else [self._gold]
        if measure.name == "exact_match":
            # From here on the later metrics, too, see the text once for each answer.
            self._result = [self._result] * len(golds)
            if _compares_whole_lists(measure.arguments):
                return float(self._result == golds)
            function: Any = measure.metric.generate_until
            matches = function(references=golds, predictions=self._result, **measure.arguments)
            return float(matches["exact_match"] > 0)
        scores = []
        for gold in golds:
            value = _call(measure, gold, self._result)
            scores.append(value[measure.name] if isinstance(value, dict) else value)
        return float(any(scores))


def _compares_whole_lists(arguments: Mapping[str, Any]) -> bool:
    """lm-evaluation-harness makes arrays of the texts only where no list of patterns is given, or
    something is taken out; else it compares two lists, which have to be equal in every entry."""
    takes_out = (arguments.get(f"ignore_{what}") for what in ("case", "punctuation", "numbers"))
    return arguments.get("regexes_to_ignore") == [] and not any(takes_out)


def best(answered: Answered, measure: Measure, higher_is_better: bool) -> Results:
    """The metric's best value over the accepted answers; of several names each one's best."""
    golds, result = _accepted_answers(answered), answered.results[0]
    if measure.metric.generate_repeats:
        value = measure.metric.generate_repeats(golds, answered.every[0], **measure.arguments)
        return {measure.name: value}
    if measure.metric.generate_until is pair:
        return {measure.name: [golds if len(golds) > 1 else golds[0], result]}
    if not golds:
        raise TaskError("there is no accepted answer")
    values = [_call(measure, gold, result) for gold in golds]
    found = [value if isinstance(value, dict) else {measure.name: value} for value in values]
    if len(found) == 1:
        return found[0]
    choose = max if higher_is_better else min
    return {name: choose(results[name] for results in found) for name in found[0]}


def _call(measure: Measure, gold: Any, result: Any) -> Any:
    """Calls a metric by keywords, or if it knows none with the pair, as lm-evaluation-harness."""
    function: Any = measure.metric.generate_until
    if function is None:
        raise TaskError(f"{measure.name} is not measured on generated text")
    try:
        return function(references=[gold], predictions=[result], **measure.arguments)
    except TypeError as error:
        try:
            return function([gold, result])
        except TypeError:
            raise error from None
