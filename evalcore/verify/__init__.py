"""Every number of a run, computed again from its samples.

Two levels. `aggregate`: from the score of each document to the numbers, their standard errors and
intervals. `rescore`: from the recorded responses, through filters and metrics, to the scores, and
on to the numbers. Neither asks a model.
"""

from __future__ import annotations

from collections import Counter

from evalcore.digest import digest_of_file
from evalcore.errors import EvalError
from evalcore.formats.run_files import Run
from evalcore.keys import run_key_of
from evalcore.task.identity.digest import docs_digest
from evalcore.task.library.load import TaskLibrary
from evalcore.verify.lmeval import check_their_numbers
from evalcore.verify.numbers import check_numbers
from evalcore.verify.report import Level, Report
from evalcore.verify.scores import scored_tasks
from evalcore.verify.specs import spec_of

__all__ = ["Level", "Report", "verify"]


def verify(run: Run, library: TaskLibrary, level: Level) -> Report:
    """What was computed again, and every difference.

    `library` has the tasks whose scoring is code: their files must be as they were. A run of
    lm-evaluation-harness is verified at the level `aggregate`, which its files allow.
    """
    record = run.record
    report = Report(task=record.task, source=run.source, level=level)
    if not run.samples:
        report.give_up(run.why_without)
        return report
    if record.engine["name"] != "evalcore":
        report.level = "aggregate"
        check_their_numbers(run, report)
        return report
    try:
        _check_file(run, report)
        spec = spec_of(record, library)
        check_numbers(run, spec, scored_tasks(run, spec, report), report)
    except EvalError as error:
        report.give_up(error.reason)
    except (KeyError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
        report.give_up(f"the record or its samples are not as evalcore writes them ({why})")
    return report


def _check_file(run: Run, report: Report) -> None:
    """Whether the samples are those that the record names, and what it says of them."""
    record, stated = run.record, run.record.samples
    if run.samples_path:
        report.compare("digest of the samples", stated.sha256, digest_of_file(run.samples_path))
        report.compare("rows of the samples", stated.rows, len(run.samples))
    found = docs_digest(sample["doc_digest"] for sample in run.samples)
    report.compare("digest of the documents", record.docs_digest, found)
    report.compare("run key", record.run_key, run_key_of(record))
    responses = [response for sample in run.samples for response in sample["responses"]]
    truncated = sum(response["n_truncated"] > 0 for response in responses)
    report.compare("requests, total", record.requests["total"], len(responses))
    report.compare("requests, truncated", record.requests["truncated"], truncated)
    report.compare("paths", record.paths, dict(Counter(response["path"] for response in responses)))
