"""What a record must say to be a run's, and how its numbers become rows.

A record is what a worker's child wrote: nothing in it is believed that the run did not ask for.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from math import inf, isfinite

from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, Q

from evalcore.record import ResultRow, RunRecord
from leaderboard.models import Result, Run, SuiteEntry
from leaderboard.models.task import PLAIN
from leaderboard.models.variant import TRANSFORMERS
from leaderboard.samples import vectors


class OtherTask(ValueError):
    """The record is of another task, or of another way of asking it, than the queued run."""


NOT_ASKED_FOR = ("delta", "gguf_file")
"""What a record may say of its model and no variant of the site does: none stands among others."""
ASKED_FOR = ("repository", "commit", "dtype", "adapter", "quantisation")
"""What it says of its model in the words of a variant."""


def _backend(record: RunRecord) -> str:
    return str((record.model.get("computed_by") or {}).get("name", TRANSFORMERS))


def computed_by(record: RunRecord) -> str:
    """The backend with its version, and on what: its kernels for a GPU are others than those for a
    processor. Empty for transformers, whose version is in the environment."""
    told = record.model.get("computed_by") or {}
    device = str(record.environment.get("device", "")).partition(":")[0]
    return f"{told.get('name')} {told.get('version')} on {device}"[:64] if told else ""


MOST_NUMBERS = 5_000
"""Rows of results: MMLU has 366."""
LARGEST = {
    **{"environment": 1 << 16, "chat": 1 << 20, "configs": 1 << 24, "results": 1 << 24},
    **{"groups": 1 << 22, "generation": 1 << 22, "datasets": 1 << 22},
}
LARGEST_FIELD = 1 << 18
"""Characters of any other field as JSON."""
LARGEST_NUMBER = 1e100
"""A perplexity may be astronomic; its square is to be a number."""
LONGEST_WORD = 40
"""Characters of how an interval was made."""


def check(run: Run, record: RunRecord) -> None:
    """Raises ValueError for a record that is not this run's, is too large, or has no result."""
    if (record.task, record.version) != (run.task.name, run.task.version):
        raise OtherTask(
            f"record of {record.task[:80]} {record.version!s:.20}: "
            f"{run.task.name} {run.task.version} was asked for"
        )
    _check_size(record)
    if record.run_key != run.run_key:
        raise OtherTask(
            f"record of {record.task}: run_key is {record.run_key[:12]}, "
            f"the queued run has {run.run_key[:12]}"
        )
    if record.model.get("unpinned"):
        raise ValueError(
            f"record of {record.task}: {record.model.get('repository')} was asked through a "
            "server, and nobody can pin what answers there to weights, so it stands in no column "
            "with models that are pinned: evaluate the published model with --model hf"
        )
    for kind in NOT_ASKED_FOR:
        if made_of := record.model.get(kind):
            raise ValueError(
                f"record of {record.task}: {record.model.get('repository')} was evaluated with "
                f"{kind} {made_of}, which is another variant than the one that was asked for"
            )
    variant = run.variant
    asked = (
        *(*variant.whole, variant.dtype, variant.adapter, variant.quantisation),
        *(variant.backend, variant.code),
    )
    pins = (str(record.model.get(pin) or "") for pin in ASKED_FOR)
    loaded = (*pins, _backend(record), ",".join(record.model.get("code") or ()))
    if loaded != asked:
        raise ValueError(f"record of {record.task}: {loaded} was evaluated, {asked} was asked for")
    if unpinned := sorted(t for t, pins in record.datasets.items() if not pins.get("commit")):
        raise ValueError(
            f"record of {record.task}: no commit is known of the data of {unpinned[0]}"
        )
    if record.limit is not None:
        raise ValueError(f"record of {record.task}: only {record.limit} documents were scored")
    if not record.own_results():
        raise ValueError(f"record of {record.task}: no result for the task itself")
    if "\\u0000" in json.dumps(record.environment):
        raise ValueError(f"record of {record.task}: environment: PostgreSQL keeps no NUL in a text")
    for row in record.results:
        if wrong := _wrong_in(run, row):
            raise ValueError(f"record of {record.task}: {row.metric} of {row.task}: {wrong}")


def _check_size(record: RunRecord) -> None:
    if len(record.results) > MOST_NUMBERS or len(record.failures) > MOST_NUMBERS:
        most = max(len(record.results), len(record.failures))
        raise ValueError(
            f"record of {record.task}: {most:,} numbers, and {MOST_NUMBERS:,} is the most"
        )
    for name, value in record.as_json().items():
        size, most = len(json.dumps(value)), LARGEST.get(name, LARGEST_FIELD)
        if size > most:
            raise ValueError(
                f"record of {record.task}: {name} has {size:,} characters, and {most:,} is the most"
            )


def check_questions(record: RunRecord, layout: vectors.Layout) -> None:
    """Raises ValueError where the sample file has other questions than the record says.

    A board compares results by what their records say, question by question.
    """
    if layout.n != record.samples.rows:
        raise ValueError(
            f"record of {record.task}: {record.samples.rows:,} questions, "
            f"and its sample file has {layout.n:,}"
        )
    if layout.docs_digest != record.docs_digest:
        raise ValueError(
            f"record of {record.task}: its questions are {record.docs_digest[:12]}, "
            f"those of its sample file {layout.docs_digest[:12]}"
        )


def _wrong_in(run: Run, row: ResultRow) -> str:
    """What keeps a number from being one; a board with it could not be built. Empty for nothing."""
    bounds = f"value {row.value}, interval {row.low} to {row.high}, standard error {row.stderr}"
    error = 0.0 if row.stderr is None else row.stderr
    if not all(map(isfinite, (row.value, row.low, row.high, error))):
        return f"{bounds}: not finite"
    if max(map(abs, (row.value, row.low, row.high, error))) > LARGEST_NUMBER:
        return f"{bounds}: larger than any"
    if len(row.interval) > LONGEST_WORD:
        return f"interval has {len(row.interval):,} characters"
    if not row.low <= row.value <= row.high or error < 0:
        return f"{bounds}: the value is not in its interval, or the error below 0"
    if row.n < 1:
        return f"{row.n} documents"
    most = 1.0 if row.metric.startswith("acc") else inf if row.metric in PLAIN else None
    if most is not None and not 0.0 <= row.value <= most:
        return f"{bounds}: {row.metric} is never {'below 0' if row.value < 0 else 'above 1'}"
    result = _as_result(run, row)
    empty = {
        field.name
        for field in Result._meta.concrete_fields
        if getattr(result, field.attname) in (None, "")
    }
    try:
        result.clean_fields(exclude={*empty, "run"})  # lengths of texts, sizes of whole numbers
    except ValidationError as problem:
        return "; ".join(f"{field}: {' '.join(of)}" for field, of in problem.message_dict.items())
    return ""


def _as_result(run: Run, row: ResultRow) -> Result:
    return Result(
        run=run,
        task_name=row.task,
        subset=row.subset,
        metric=row.metric,
        filter=row.filter,
        value=row.value,
        stderr=row.stderr,
        low=row.low,
        high=row.high,
        n=row.n,
        higher_is_better=row.higher_is_better,
        comparability_key=row.comparability_key,
        **(asdict(row.lengths) if row.lengths else {}),
    )


def opens_a_column(run: Run) -> bool:
    """Whether its result may be the first of a column, and say for all which questions it asks."""
    plain, chat = Q(run_key=run.run_key), Q(chat_run_key=run.run_key)
    if not run.rerun_id:  # where all that stood is replaced, the new ones say it anew
        plain &= Q(comparability_key="")
        chat &= Q(chat_comparability_key="")
    return SuiteEntry.objects.filter(plain | chat).exists()


def store(run: Run, record: RunRecord, by_question: vectors.Read | None) -> None:
    """Insert the record's numbers and scores by question; the caller holds the transaction.

    The first result of a suite's column fixes the comparability key that all others must share to
    stand in it.
    """
    stored = Result.objects.bulk_create(_as_result(run, row) for row in record.results)
    if by_question is not None:
        own = [r for r in stored if r.task_name == record.task and not r.subset]
        vectors.store(own, by_question)
    for row in record.own_results():
        for key in ("", "chat_"):
            fixed = f"{key}comparability_key"
            columns = SuiteEntry.objects.filter(
                **{"metric": row.metric, "filter": row.filter, f"{key}run_key": run.run_key}
            )
            if run.rerun_id:
                # Where all that stood was replaced, the new ones fix it anew.
                standing = Result.objects.filter(
                    comparability_key=OuterRef(fixed), run__state=Run.State.DONE
                )
                open_columns = columns.filter(~Exists(standing))
            else:
                open_columns = columns.filter(**{fixed: ""})
            open_columns.update(**{fixed: row.comparability_key})
