"""The one story of the engine: tasks → documents → requests → responses → scores → record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalcore.ahead import prepared
from evalcore.asking import Answers
from evalcore.assembly import record_of, without_number
from evalcore.building import chat_of
from evalcore.energy import Meter
from evalcore.errors import EvalError, TaskError
from evalcore.journal import Journal
from evalcore.model.base import LM
from evalcore.model.protocols import Spelled
from evalcore.preparation import Prepared, Preparer
from evalcore.record import RunRecord, write_samples
from evalcore.refusals import check_supported, refuse_before
from evalcore.score.scored import ScoredTask
from evalcore.score.scoring import score_task, scores_by_code
from evalcore.score.withholding import tasks_without_text, without_text
from evalcore.settings import Settings
from evalcore.task.asking.chat import Chat
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.data.seeds import FixedRandomness
from evalcore.watch import Watch


@dataclass(frozen=True)
class Evaluation:
    """A finished task or group, not yet on disk."""

    record: RunRecord
    samples: Sequence[Mapping[str, Any]]
    error: TaskError | None = None
    """Why a task in it has no number at all; its answers are in the samples."""

    def write(self, folder: Path, stem: str) -> tuple[Path, Path]:
        """Writes `record_<stem>.json` and `samples_<stem>.parquet`; returns their paths.

        Raises InfraError where they cannot be written; neither is left then.
        """
        samples = folder / f"samples_{stem}.parquet"
        record = folder / f"record_{stem}.json"
        file = write_samples(samples, self.samples)
        try:
            replace(self.record, samples=file).write(record)
        except BaseException:
            samples.unlink(missing_ok=True)
            raise
        return record, samples


def evaluate(
    model: LM,
    specs: Sequence[TaskSpec | GroupSpec],
    settings: Settings,
    watch: Watch,
    journal: Journal | None = None,
    timing: Callable[[], Mapping[str, float]] = dict,
    meter: Meter | None = None,
) -> Iterator[Evaluation]:
    """Evaluate each task or group in turn, those of one benchmark together.

    In whatever order tasks are given, they are asked in the same company, and have the same numbers
    to the last bit.

    What is done is handed out before the next benchmark is asked. While one is, the next is
    prepared, if the model `reads_ahead`. `timing`: what the caller has measured, for each record.
    `meter` counts the energy; by default what this machine has.

    Raises ModelError or InfraError by whose fault it is, and Stopped. A TaskError is about one task
    and is raised when all others are done; what failed before an error is in its `others`.
    """
    for spec in specs:
        check_supported(spec, confirm_unsafe=settings.confirm_run_unsafe_code)
    refuse_before(model.capabilities, specs, settings)
    chat = chat_of(model, settings)
    preparer = Preparer(model, settings, chat)
    meter = meter or Meter.of(model)
    failed: list[TaskError] = []
    try:
        for benchmark in prepared(preparer, specs, watch):
            failed += benchmark.failed
            answers = Answers(model, watch, journal, meter)
            together = answers.ask_together(benchmark.parts)
            for part in benchmark.parts:
                try:
                    if not together:
                        answers.ask([part])
                    watch.phase("score")
                    evaluation = _scored(model, part, answers, settings, chat, timing)
                except TaskError as error:
                    error.task = part.spec.name
                    failed.append(error)
                    continue
                if evaluation.error:
                    failed.append(evaluation.error)
                yield evaluation
            if benchmark.error:
                raise benchmark.error
    except EvalError as error:
        error.others = failed
        raise
    if failed:
        failed[-1].others = failed[:-1]
        raise failed[-1]


def _scored(
    model: LM,
    part: Prepared,
    answers: Answers,
    settings: Settings,
    chat: Chat | None,
    timing: Callable[[], Mapping[str, float]],
) -> Evaluation:
    """The scores of what was answered to one task or group, and the record of all of it."""
    spec, responses, began = part.spec, answers.responses_to(part), time.monotonic()
    withheld = tasks_without_text(spec)
    pending = iter(responses)
    scored: list[ScoredTask] = []
    for task, items, overlaps in zip(part.tasks, part.items, part.overlaps, strict=True):
        with _randomness(task.spec):
            scored.append(
                score_task(
                    task,
                    items,
                    pending,
                    part=task.name if isinstance(spec, GroupSpec) else None,
                    predict_only=settings.predict_only,
                    overlaps=overlaps,
                    spelled=model
                    if isinstance(model, Spelled) and task.name not in withheld
                    else None,
                )
            )
    scoring = time.monotonic() - began
    with _randomness(*(task.spec for task in part.tasks)):
        record = record_of(
            answers, part, responses, scored, settings, chat, scoring=scoring, command=timing()
        )
    samples = [
        without_text(sample) if task.name in withheld else sample
        for task in scored
        for sample in task.samples
    ]
    return Evaluation(record, samples, None if settings.predict_only else without_number(record))


def _randomness(*specs: TaskSpec) -> AbstractContextManager[object]:
    """Some tasks draw as they score; the others wait for nobody who draws."""
    return FixedRandomness() if any(map(scores_by_code, specs)) else nullcontext()
