"""Whether the samples beside a record are those that it names, and what it says of them."""

from __future__ import annotations

from collections import Counter

from evalcore.digest import digest_of_file
from evalcore.formats.run_files import Run
from evalcore.keys import run_key_of
from evalcore.task.identity.digest import docs_digest
from evalcore.verify.report import Report


def check_file(run: Run, report: Report) -> None:
    """The file's digest and rows, the digest of the documents, the counts and the run key."""
    record, stated = run.record, run.record.samples
    if run.samples_path:
        report.compare("digest of the samples", stated.sha256, digest_of_file(run.samples_path))
        report.compare("rows of the samples", stated.rows, len(run.samples))
    found = docs_digest(sample["doc_digest"] for sample in run.samples)
    report.compare("digest of the documents", record.docs_digest, found)
    report.compare("run key", record.run_key, run_key_of(record))
    responses = [one for sample in run.samples for one in sample["responses"]]
    truncated = sum(one["n_truncated"] > 0 for one in responses)
    report.compare("requests, total", record.requests["total"], len(responses))
    report.compare("requests, truncated", record.requests["truncated"], truncated)
    report.compare("paths", record.paths, dict(Counter(one["path"] for one in responses)))
