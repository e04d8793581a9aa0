"""From samples to scored tasks: by their scores, or by scoring their responses again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalcore.building import task_of
from evalcore.formats.run_files import Run
from evalcore.model.base import LATER_FIELDS, Request, Response
from evalcore.record import Failure
from evalcore.score.scored import ScoredTask
from evalcore.score.scoring import of_samples, score_task
from evalcore.task.asking.task import Item, Task
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.identity.digest import doc_digest
from evalcore.verify.report import Report, same

Sample = dict[str, Any]


def scored_tasks(run: Run, spec: TaskSpec | GroupSpec, report: Report) -> list[ScoredTask]:
    """Each leaf task with the scores that its samples state.

    At the level `rescore` it is scored again where it can be; differences from those are noted.
    """
    predict_only = bool(run.record.settings.get("predict_only"))
    by_task: dict[str, list[Sample]] = {}
    for sample in run.samples:
        by_task.setdefault(sample["task"], []).append(sample)
    scored = []
    for leaf in spec.leaves():
        task = task_of(leaf, mode=run.record.mode)
        samples = by_task.get(leaf.name, [])
        why_not = None if report.level == "aggregate" else _why_not_again(run, task, samples)
        if why_not:
            report.leave(f"{task.name}: scores", why_not)
        if why_not or report.level == "aggregate":
            failures = _failures(run, task, samples, report)
            scored.append(of_samples(task, samples, failures, predict_only=predict_only))
            continue
        again = score_task(
            task,
            _items(samples, task.mode),
            _responses(samples),
            part=task.name if isinstance(spec, GroupSpec) else None,
            predict_only=predict_only,
        )
        for stated, found in zip(samples, again.samples, strict=True):
            _compare(stated, found, report)
        scored.append(again)
    return scored


def _failures(run: Run, task: Task, samples: Sequence[Sample], report: Report) -> list[Failure]:
    """The metrics that failed: those that lack a score somewhere.

    One that has no score anywhere, as where its filter failed, is taken from the record.
    """
    scores = [score for sample in samples for score in sample["scores"]]
    measured = {_column(score) for score in scores}
    lacking = {_column(score) for score in scores if score["value"] is score["item"] is None}
    stated = {
        (failure.metric, failure.filter)
        for failure in run.record.failures
        if failure.task == task.name
    }
    for metric, filter in sorted(stated - measured):
        report.leave(f"{task.name} {metric} ({filter})", "it failed, and has no scores to tell why")
    return [
        Failure(task=task.name, metric=metric, filter=filter, reason="a document has no score")
        for metric, filter in sorted(lacking | stated - measured)
    ]


def _column(score: Mapping[str, Any]) -> tuple[str, str]:
    return score["metric"], score["filter"]


def _why_not_again(run: Run, task: Task, samples: Sequence[Sample]) -> str | None:
    if task.name in run.record.without_text:
        return "its samples carry no text to score again"
    may_be_several = any(
        sample.get("several_answers") is None and _is_list(sample["answer"]) for sample in samples
    )
    if task.mode == "compat" and may_be_several and _document_0(samples) is None:
        return (
            "document 0 decided for all whether they have several right answers, and its sample "
            "is not among them; newer samples say what it decided"
        )
    return None


def _document_0(samples: Sequence[Sample]) -> Sample | None:
    return next((sample for sample in samples if sample["doc_id"] == 0), None)


def _items(samples: Sequence[Sample], mode: str) -> list[Item]:
    """The documents as they were asked, as far as scoring reads them."""
    first = _document_0(samples) if mode == "compat" else None
    return [
        Item(
            doc_id=sample["doc_id"],
            split=sample["split"],
            doc=json.loads(sample["doc"]),
            doc_digest=sample["doc_digest"],
            shots=[(shot["split"], shot["row"]) for shot in sample["shots"]],
            prompt=sample["prompt"],
            choices=sample["choices"],
            gold=sample["gold"],
            target=sample["target"],
            answer=json.loads(sample["answer"]),
            several_answers=_has_several(sample, first),
            choices_are_contexts=sample["choices_are_contexts"],
            requests=_requests(sample),
        )
        for sample in samples
    ]


def _has_several(sample: Sample, first: Sample | None) -> bool:
    """As the sample says; those of before do not, where in compat document 0 decides for all."""
    stated = sample.get("several_answers")
    return bool(_is_list((first or sample)["answer"]) if stated is None else stated)


def _is_list(answer: str) -> bool:
    value = json.loads(answer)
    return isinstance(value, list) and bool(value)


def _requests(sample: Sample) -> list[Request]:
    return [
        Request(
            kind=argument["kind"],
            prompt=argument["context"],
            continuation=argument["continuation"],
            generation=json.loads(argument["generation"]) if argument["generation"] else None,
            repeats=sample["repeats"],
        )
        for argument in sample["arguments"]
    ]


def _responses(samples: Sequence[Sample]) -> Iterator[Response]:
    for sample in samples:
        for stated in sample["responses"]:
            token_ids, logprobs = tuple(stated["token_ids"]), tuple(stated["token_logprobs"])
            whole = {**LATER_FIELDS, **stated}
            known = {name: whole[name] for name in Response.__slots__}
            yield Response(**{**known, "token_ids": token_ids, "token_logprobs": logprobs})


def _compare(stated: Sample, found: Sample, report: Report) -> None:
    """One document: its text, what filters and metrics made of the responses."""
    place = f"{stated['task']}, document {stated['doc_id']}"
    digest = doc_digest(json.loads(stated["doc"]))
    report.check(f"{place}: doc_digest", stated["doc_digest"], digest)
    again = {(score["metric"], score["filter"]): score for score in found["scores"]}
    for score in stated["scores"]:
        metric, filter = score["metric"], score["filter"]
        report.scores += 1
        other = again.pop((metric, filter), None)
        what = f"{place}: {metric} ({filter})"
        if other is None:
            report.differ(what, score["value"], None)
        elif not same(score["value"], other["value"]):
            report.differ(what, score["value"], other["value"])
        elif not _same_item(score["item"], other["item"]):
            report.differ(what, score["item"], other["item"])
    for (metric, filter), other in again.items():
        report.differ(f"{place}: {metric} ({filter})", None, other["value"])
    for field in ("filtered", "pick", "correct", "cluster", "subset"):
        report.check(f"{place}: {field}", stated[field], found[field])


def _same_item(stated: str | None, found: str | None) -> bool:
    if stated is None:  # what is true or false was once written as a number alone
        return found is None or isinstance(json.loads(found), bool)
    if found is None:
        return False
    return bool(json.loads(stated) == json.loads(found))
