"""Whether the lines of lm-evaluation-harness's samples files are those that it counted.

Its results file has a digest of each task's samples and every line has digests of its own, so
that a line that was changed, taken away or put in is found even where no number moves.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from evalcore.formats.lmeval.reader import is_results, samples_path
from evalcore.formats.lmeval.samples import sha256_of
from evalcore.formats.run_files import Run
from evalcore.verify.report import Report

Line = Mapping[str, Any]


def check_their_lines(run: Run, report: Report) -> None:
    """Each task whose samples file lies beside the results file; nothing of another form."""
    if run.source.suffix != ".json":
        return
    results = json.loads(run.source.read_text(encoding="utf-8"))
    if not is_results(results):
        return
    for task in run.record.configs:
        path = samples_path(run.source, task)
        if path.is_file():
            with path.open(encoding="utf-8") as file:
                _check_task(task, [json.loads(line) for line in file], results, report)
    for group in run.record.groups:
        if scores := results.get("groups", {}).get(group):
            report.compare(f"{group} under groups", scores, results["results"].get(group))


def _check_task(task: str, lines: list[Line], results: Mapping[str, Any], report: Report) -> None:
    first_only = _takes_first(results["configs"][task])
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


def _takes_first(config: Mapping[str, Any]) -> bool:
    """Whether the filters are those by default, which leave a response as it is."""
    return not config.get("filter_list")
