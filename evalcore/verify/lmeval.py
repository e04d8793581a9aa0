"""The numbers of lm-evaluation-harness's files against its samples JSONL.

Those files name the aggregation of each metric; where it is code, the number is left alone. A group
does not say how it weights its tasks: a number agrees if either way gives it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evalcore.errors import TaskError
from evalcore.formats.lmeval.reader import is_results, samples_path
from evalcore.formats.lmeval.results import leaves_of
from evalcore.formats.lmeval.samples import sha256_of
from evalcore.formats.run_files import Run
from evalcore.record import ResultRow
from evalcore.score.metrics.aggregations import AGGREGATIONS, Aggregation
from evalcore.score.metrics.registry import METRICS
from evalcore.score.numbers.aggregate import compat_stderr_of_group
from evalcore.score.sample import item_of
from evalcore.stats.resampling import compat_draws, compat_stderr
from evalcore.verify.report import Report, same

Line = Mapping[str, Any]


def check_their_numbers(run: Run, report: Report) -> None:
    """The lines of the samples, then values and standard errors of tasks and of groups."""
    record = run.record
    _check_lines(run, report)
    if not record.results:
        report.give_up("the file states no number")
    rows = {(row.task, row.metric, row.filter): row for row in record.results}
    for row in record.results:
        what = f"{row.task} {row.metric} ({row.filter})"
        if row.task in record.groups:
            leaves = leaves_of(row.task, record.groups)
            parts = [part for leaf in leaves if (part := rows.get((leaf, row.metric, row.filter)))]
            _check_group(what, row, parts, report)
        else:
            _check_task(what, row, run, report)


def _check_task(what: str, row: ResultRow, run: Run, report: Report) -> None:
    items = [
        item_of(score)
        for sample in run.samples
        if sample["task"] == row.task
        for score in sample["scores"]
        if (score["metric"], score["filter"]) == (row.metric, row.filter)
    ]
    name = _aggregation(row.metric, run.record.configs[row.task])
    if not items or name is None:
        why = "its aggregation is code" if items else "its samples are not beside the file"
        report.leave(what, why)
        return
    try:
        value = Aggregation(name, AGGREGATIONS[name]).of(items)
    except TaskError as error:
        report.leave(what, f"the samples do not allow it: {error.reason}")
        return
    report.compare(f"{what}, value", row.value, value)
    iters = run.record.settings.get("bootstrap_iters")
    stated = row.compat_stderr
    if stated is not None and isinstance(iters, int) and iters > 0:
        again = compat_stderr(name, items, compat_draws(row.metric, iters))
        report.compare(f"{what}, standard error", stated, again)


def _aggregation(metric: str, config: Mapping[str, Any]) -> str | None:
    """By name; None where it is code. A metric that no entry declares is averaged."""
    for entry in config.get("metric_list") or ():
        if entry.get("metric") == metric and entry.get("aggregation"):
            stated = str(entry["aggregation"])
            return stated if stated in AGGREGATIONS else None
    known = METRICS.get(metric)
    return (known.aggregation if known else None) or "mean"


def _check_group(what: str, row: ResultRow, parts: Sequence[ResultRow], report: Report) -> None:
    if not parts:
        report.differ(what, row.value, None)
        return
    sizes = [part.n for part in parts]
    weighted = sum(part.value * part.n for part in parts) / sum(sizes)
    plain = sum(part.value for part in parts) / len(parts)
    is_weighted = same(row.value, weighted)
    report.compare(f"{what}, value", row.value, weighted if is_weighted else plain)
    ways = (compat_stderr_of_group(parts, weights) for weights in (None, sizes))
    found = [error for error in ways if error is not None]
    if row.compat_stderr is None or not found:
        return
    agreeing = next((error for error in found if same(row.compat_stderr, error)), found[-1])
    report.compare(f"{what}, standard error", row.compat_stderr, agreeing)


def _check_lines(run: Run, report: Report) -> None:
    """Whether the lines of each samples file beside the results file are those that it counted.

    It has a digest of each task's samples and every line has digests of its own, so that a line
    that was changed, taken away or put in is found even where no number moves.
    """
    if run.source.suffix != ".json":
        return
    results = json.loads(run.source.read_text(encoding="utf-8"))
    if not is_results(results):
        return
    for task in run.record.configs:
        path = samples_path(run.source, task)
        if path.is_file():
            with path.open(encoding="utf-8") as file:
                _check_lines_of(task, [json.loads(line) for line in file], results, report)
    for group in run.record.groups:
        if scores := results.get("groups", {}).get(group):
            report.compare(f"{group} under groups", scores, results["results"].get(group))


def _check_lines_of(
    task: str, lines: list[Line], results: Mapping[str, Any], report: Report
) -> None:
    first_only = not results["configs"][task].get("filter_list")  # which is so by default
    for line in lines:
        place = f"{task}, document {line['doc_id']} ({line['filter']})"
        arguments = list(line["arguments"].values())
        prompt = arguments[0]["arg_0"] if arguments else ""
        document = json.dumps(line["doc"], indent=2, ensure_ascii=False)
        report.compare(f"{place}: doc_hash", line["doc_hash"], sha256_of(document))
        report.compare(f"{place}: prompt_hash", line["prompt_hash"], sha256_of(str(prompt)))
        report.compare(f"{place}: target_hash", line["target_hash"], sha256_of(line["target"]))
        if first_only:
            first = [responses[0] for responses in line["resps"]]
            report.compare(f"{place}: filtered_resps", line["filtered_resps"], first)
    for (doc_id, filter), count in Counter((x["doc_id"], x["filter"]) for x in lines).items():
        if count > 1:
            report.differ(f"{task}, document {doc_id} ({filter}): lines", 1, count)
    _check_counts(task, lines, results, report)


def _check_counts(task: str, lines: list[Line], results: Mapping[str, Any], report: Report) -> None:
    hashes = "".join(x["doc_hash"] + x["prompt_hash"] + x["target_hash"] for x in lines)
    if stated := results.get("task_hashes", {}).get(task):
        report.compare(f"{task}, task hash", stated, sha256_of(hashes))
    scores = results["results"].get(task, {})
    # It counts documents by their scores; a metric that failed has no number there.
    scored = Counter(f"{metric},{x['filter']}" for x in lines for metric in x["metrics"])
    most = max((count for metric, count in scored.items() if metric in scores), default=0)
    if not most:
        return
    report.compare(f"{task}, sample_len", scores["sample_len"], most)
    if counts := results.get("n-samples", {}).get(task):
        report.compare(f"{task}, effective samples", counts["effective"], most)
