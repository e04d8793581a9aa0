"""From the responses of a task to its samples, and to what its metrics aggregate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, repeat

from evalcore.errors import TaskError
from evalcore.model.base import Response
from evalcore.model.protocols import Spelled
from evalcore.record import Failure
from evalcore.score.answered import Answered
from evalcore.score.filters.registry import Pipeline, pipelines_of
from evalcore.score.metrics.loglikelihoods import PICKS, pick_acc
from evalcore.score.metrics.registry import METRICS
from evalcore.score.process import Processed, process
from evalcore.score.sample import (
    Asked,
    Marks,
    Sample,
    as_json,
    is_number,
    item_of,
    score_of,
    unscored_sample,
)
from evalcore.score.scored import ScoredTask
from evalcore.score.task_metrics import Measures
from evalcore.task.asking.task import Item, Task
from evalcore.task.config import TaskSpec
from evalcore.task.functions import functions_in


def score_task(
    task: Task,
    items: Sequence[Item],
    responses: Iterator[Response],
    *,
    part: str | None = None,
    predict_only: bool = False,
    overlaps: Sequence[Sequence[str] | None] | None = None,
    spelled: Spelled | None = None,
) -> ScoredTask:
    """Scores the documents of a task; takes their responses off the iterator, in order.

    `part` is the subset of a task in a group that names none itself. With `predict_only` the
    responses are recorded and not scored. `overlaps` are those of each document with training text,
    where that was searched; `spelled` says what tokens read.
    """
    asked = [
        Asked(item, [list(islice(responses, request.repeats)) for request in item.requests])
        for item in items
    ]
    unscored = [
        unscored_sample(task, document, part=part, overlaps=found, spelled=spelled)
        for document, found in zip(asked, overlaps or repeat(None, len(asked)), strict=True)
    ]
    marks = [Marks() for _ in asked]
    measures, own = _measures_of(task, predict_only), task.own_process_results
    scored = ScoredTask(measures.spec, [], measures)
    for pipeline in pipelines_of(measures.spec):
        try:
            answered = _answered(pipeline, asked)
        except TaskError as error:
            scored.failures.extend(
                Failure(task=scored.name, metric=name, filter=pipeline.name, reason=error.reason)
                for name in measures.names
            )
            continue
        processed = [process(document, measures, own) for document in answered]
        _enter(scored, pipeline.name, marks, answered, processed)
    scored.samples.extend(
        {**row, **vars(marked)} for marked, row in zip(marks, unscored, strict=True)
    )
    return scored


def scores_by_code(spec: TaskSpec) -> bool:
    """Whether scoring may run code that is not the engine's own.

    That is what the task's keys name, what a file of its folder may have registered under a name,
    and the metrics of another library.
    """
    if spec.python_class is not None or any(
        entry.hf_evaluate or entry.metric not in METRICS for entry in spec.metric_list
    ):
        return True
    scoring = (spec.process_results, spec.filter_list, spec.metric_list)
    beside = any(not function.is_installed for function in functions_in(spec))
    return beside or any(True for _ in functions_in(scoring))


def of_samples(
    task: Task,
    samples: Sequence[Sample],
    failures: Sequence[Failure] = (),
    *,
    predict_only: bool = False,
) -> ScoredTask:
    """A task scored before, from the scores that its samples state; nothing is measured again.

    Raises TaskError where the samples do not tell how a score is aggregated.
    """
    measures = _measures_of(task, predict_only)
    scored = ScoredTask(task.spec, list(samples), measures, failures=list(failures))
    for position, sample in enumerate(samples):
        for score in sample["scores"]:
            if score["value"] is not None or score["item"] is not None:
                scored.enter(score["metric"], score["filter"], item_of(score), position)
    measures.adopt(list(dict.fromkeys(metric for metric, _ in scored.items)))
    return scored


def _measures_of(task: Task, predict_only: bool) -> Measures:
    return Measures(
        task.spec,
        task.mode,
        by_the_task=task.own_process_results is not None,
        own_aggregations=task.own_aggregations,
        own_higher_is_better=task.own_higher_is_better,
        predict_only=predict_only,
    )


def _answered(pipeline: Pipeline, asked: Sequence[Asked]) -> list[Answered]:
    """The documents with their filtered results. Raises TaskError if a filter fails."""
    filtered = pipeline.apply(
        [results for document in asked for results in document.results],
        [document.item.doc for document in asked for _ in document.responses],
    )
    ends = list(accumulate(len(document.responses) for document in asked))
    return [
        Answered(
            item=document.item,
            results=filtered.values[end - len(document.responses) : end],
            every=filtered.every[end - len(document.responses) : end],
            responses=[repeats[0] for repeats in document.responses],
        )
        for document, end in zip(asked, ends, strict=True)
    ]


def _enter(
    scored: ScoredTask,
    filter: str,
    marks: Sequence[Marks],
    answered: Sequence[Answered],
    processed: Sequence[Processed],
) -> None:
    """Enters what one filter's results are worth into the documents' marks and the columns."""
    measures = scored.measures
    failed: dict[str, list[tuple[int, str]]] = {}
    for position, (of_document, document, given) in enumerate(
        zip(marks, answered, processed, strict=True)
    ):
        of_document.filtered.append({"filter": filter, "values": as_json(list(document.results))})
        for name, item in given.items.items():
            scored.enter(name, filter, item, position)
            of_document.scores.append(score_of(name, filter, item))
        for origin, why in given.problems.items():
            failed.setdefault(origin, []).append((position, why))
            whole = why if why.startswith(origin) else f"{origin}: {why}"
            of_document.why_null = of_document.why_null or whole
        _judge(of_document, document, given, scored.spec.primary_metric)
    undeclared = [name for name, of_filter in scored.items if of_filter == filter]
    for name in dict.fromkeys([*measures.names, *undeclared]):
        lacking = failed.get(measures.origin(name), [])
        for position, _ in lacking:
            marks[position].scores.append(
                {"metric": name, "filter": filter, "value": None, "item": None}
            )
        if name in measures.problems:
            reason = measures.problems[name]
        elif lacking:
            reason = _reason(lacking, answered)
        elif (name, filter) not in scored.items and measures.expects(name):
            reason = "no document was given a value"
        else:
            continue
        scored.failures.append(Failure(task=scored.name, metric=name, filter=filter, reason=reason))


def _reason(failed: Sequence[tuple[int, str]], answered: Sequence[Answered]) -> str:
    position, why = failed[0]
    others = f" (and {len(failed) - 1} more documents)" if len(failed) > 1 else ""
    item = answered[position].item
    return f"document {item.doc_id} of {item.split}: {why}{others}"


def _judge(marks: Marks, answered: Answered, given: Processed, primary: str) -> None:
    """The pick and the score that a page shows of the document: those of the primary metric."""
    if marks.correct is not None or marks.pick is not None:
        return  # an earlier filter said
    value = given.items.get(primary)
    if value is not None and is_number(value):
        marks.correct = float(value)
    if answered.item.requests[0].kind != "loglikelihood" or not answered.item.gold:
        return
    try:
        marks.pick = PICKS.get(primary, pick_acc)(answered)
    except (TaskError, TypeError, ValueError):
        return  # a filter made something else of the loglikelihoods
    if marks.correct is None and value is not None:
        marks.correct = float(marks.pick in answered.item.gold)
