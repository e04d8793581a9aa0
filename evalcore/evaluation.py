"""The one story of the engine: tasks → documents → requests → responses → scores → record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcore.asking import Answers
from evalcore.asking import Watch as Watch
from evalcore.assembly import Account, record_of
from evalcore.energy import Meter
from evalcore.errors import EvalError, ModelError, TaskError
from evalcore.errors import Stopped as Stopped
from evalcore.journal import Journal
from evalcore.model.base import LM, Mode, Spelled
from evalcore.model.capabilities import Capabilities
from evalcore.model.refusals import refuse
from evalcore.needs import needs_of
from evalcore.preparation import Benchmark, Prepared, Preparer, prepared
from evalcore.record import RunRecord, write_samples
from evalcore.score.sample import spell
from evalcore.score.scored import ScoredTask
from evalcore.score.scoring import score_task, scores_by_code
from evalcore.score.withholding import without_text
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.fewshot import Draw
from evalcore.task.asking.task import Item, Task, task_of
from evalcore.task.config import GroupSpec, MetricSpec, TaskSpec
from evalcore.task.data.seeds import FixedRandomness
from evalcore.task.support import check_supported

if TYPE_CHECKING:
    from evalcore.contamination.decontaminate import Decontamination, Overlaps
    from evalcore.task.data.dataset import TaskData


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the caller may choose for a whole evaluation."""

    mode: Mode = "compat"
    """compat: lm-evaluation-harness to the draw; strict: free of its quirks (docs/engine.md)."""
    num_fewshot: int | None = None
    fewshot_seed: int = 1234
    fewshot_draw: Draw = "per-document"
    """In strict: fixed is one draw for all documents of a task, whose prompts then begin alike."""
    seed: int = 1234
    """Of sampled answers and of our own bootstraps."""
    limit: float | None = None
    """Documents of each task: a count, or below 1 a share."""
    samples: Mapping[str, Sequence[int]] | None = None
    """By task: the rows to score instead of all."""
    system_instruction: str | None = None
    apply_chat_template: bool | str = False
    """Whether prompts are conversations; a text names one of the model's templates."""
    fewshot_as_multiturn: bool | None = None
    """Whether examples are turns of the conversation; by default they are."""
    gen_kwargs: Mapping[str, Any] | None = None
    """Generation arguments over those of the tasks."""
    bootstrap_iters: int = 100_000
    """Resamples behind a standard error without a formula; 0: no standard errors in compat."""
    predict_only: bool = False
    """Write the answers, compute no metric."""
    confirm_run_unsafe_code: bool = False
    """Whether tasks may run code that a model wrote."""
    forbid_truncation: bool = False
    """Whether a prompt that is longer than the model's window ends the run."""
    decontaminate: tuple[str, ...] = ()
    """Training text to search for the documents: files, folders or data sets."""
    decontaminate_n: int | None = None
    """Words in an n-gram, 8 to 13; by default chosen for each task."""

    def __post_init__(self) -> None:
        if self.limit is not None and self.samples is not None:
            raise TaskError("limit and samples exclude one another: give one of them")
        if self.fewshot_draw == "fixed" and self.mode != "strict":
            raise TaskError("fewshot_draw: fixed needs mode: strict; compat draws as lm-eval does")
        if self.fewshot_as_multiturn and not self.apply_chat_template:
            raise TaskError("fewshot_as_multiturn needs apply_chat_template")
        if self.decontaminate_n is not None and not self.decontaminate:
            raise TaskError("decontaminate_n needs decontaminate: the training text to search")


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
    """Evaluate each task or group in turn, those of one benchmark that are neighbours together.

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
    preparer = Preparer(
        model,
        partial(_rendered, settings=settings, chat=chat),
        partial(_overlaps, _search_of(settings)),
        seed=settings.seed,
        forbid_truncation=settings.forbid_truncation,
    )
    ahead = bool(getattr(model, "reads_ahead", False))
    meter = meter or Meter.of(model)
    failed: list[TaskError] = []
    try:
        begin = partial(watch.phase, "prepare")
        for benchmark in prepared(preparer, specs, begin, watch.wants_stop, ahead=ahead):
            failed += benchmark.failed
            answers = Answers(journal, meter=meter)
            yield from _evaluated(model, benchmark, settings, chat, watch, answers, timing, failed)
            if benchmark.error:
                raise benchmark.error
    except EvalError as error:
        error.others = failed
        raise
    if failed:
        failed[-1].others = failed[:-1]
        raise failed[-1]


def refuse_before(
    capabilities: Capabilities, specs: Sequence[TaskSpec | GroupSpec], settings: Settings
) -> None:
    """Raises ModelError for what a backend that states this cannot answer."""
    needs = needs_of(
        specs,
        conversations=bool(settings.apply_chat_template),
        forbid_truncation=settings.forbid_truncation,
    )
    refuse(capabilities, needs)


def chat_of(model: LM, settings: Settings) -> Chat | None:
    """How prompts become conversations, if they do. Raises ModelError without such a template."""
    if not settings.apply_chat_template:
        return None
    name = settings.apply_chat_template
    multiturn = settings.fewshot_as_multiturn is not False
    return Chat(model.chat_template(name if isinstance(name, str) else None), multiturn)


def _search_of(settings: Settings) -> Decontamination | None:
    if not settings.decontaminate:
        return None
    # Few runs search training text, whose formats have libraries of their own.
    from evalcore.contamination.decontaminate import Decontamination

    return Decontamination(settings.decontaminate, n=settings.decontaminate_n)


def tasks_of(
    spec: TaskSpec | GroupSpec,
    settings: Settings,
    chat: Chat | None = None,
    data_of: Callable[[TaskSpec], TaskData] | None = None,
) -> list[Task]:
    """The tasks of `spec`, ready to be asked as `settings` say; `data_of` gives other data."""
    return [
        task_of(
            _only_asked(leaf) if settings.predict_only else leaf,
            mode=settings.mode,
            num_fewshot=settings.num_fewshot,
            fewshot_seed=settings.fewshot_seed,
            fewshot_draw=settings.fewshot_draw,
            limit=settings.limit,
            samples=(settings.samples or {}).get(leaf.name),
            system_instruction=settings.system_instruction,
            chat=chat,
            generation=settings.gen_kwargs,
            **({"data": data_of(leaf)} if data_of else {}),
        )
        for leaf in spec.leaves()
    ]


def _only_asked(spec: TaskSpec) -> TaskSpec:
    """The task without its metrics: nothing is asked that only a metric needs."""
    return replace(spec, metric_list=(MetricSpec(metric="bypass"),), process_results=None)


def _rendered(
    spec: TaskSpec | GroupSpec, settings: Settings, chat: Chat | None
) -> Iterator[tuple[Task, list[Item]]]:
    return ((task, task.items()) for task in tasks_of(spec, settings, chat))


def _evaluated(
    model: LM,
    benchmark: Benchmark,
    settings: Settings,
    chat: Chat | None,
    watch: Watch,
    answers: Answers,
    timing: Callable[[], Mapping[str, float]],
    failed: list[TaskError],
) -> Iterator[Evaluation]:
    """Each part of a benchmark; those that have no number are told in `failed`."""
    together = len(benchmark.parts) > 1 and _answered(model, benchmark.parts, answers, watch)
    for part in benchmark.parts:
        try:
            if not together:
                watch.phase("evaluate")
                answers.ask(model, [part], watch)
            watch.phase("score")
            evaluation = _scored(model, part, answers, settings, chat, timing)
        except TaskError as error:
            error.task = part.spec.name
            failed.append(error)
            continue
        if evaluation.error:
            failed.append(evaluation.error)
        yield evaluation


def _answered(model: LM, parts: Sequence[Prepared], answers: Answers, watch: Watch) -> bool:
    """Whether all could be asked together; if not, one is at fault, and they are asked in turn."""
    watch.phase("evaluate")
    try:
        answers.ask(model, parts, watch)
    except (TaskError, ModelError):
        return False
    return True


def _scored(
    model: LM,
    part: Prepared,
    answers: Answers,
    settings: Settings,
    chat: Chat | None,
    timing: Callable[[], Mapping[str, float]],
) -> Evaluation:
    spec, responses, clock = part.spec, answers.to(part), time.monotonic()
    pending = iter(responses)
    scored: list[ScoredTask] = []
    for task, of_task, found in zip(part.tasks, part.items, part.overlaps, strict=True):
        subset = task.name if isinstance(spec, GroupSpec) else None
        with _randomness(task.spec):
            one = score_task(
                task, of_task, pending, part=subset, predict_only=settings.predict_only
            )
        for sample, passages in zip(one.samples, found or (), strict=found is not None):
            # A text that is too short to tell is neither clean nor contaminated.
            known = None if passages is None else bool(passages)
            sample.update(contaminated=known, overlaps=passages)
        scored.append(one)
    account = Account(
        responses=responses,
        journalled=answers.journalled[spec.name],
        started=part.started.isoformat(timespec="seconds"),
        prompts=part.prompt_seconds,
        tokens=part.token_seconds,
        answers=answers.seconds[spec.name],
        scores=time.monotonic() - clock,
        energy=answers.energy(spec.name),
        command=timing(),
    )
    with _randomness(*(task.spec for task in part.tasks)):
        record = record_of(model, spec, part.tasks, scored, settings, chat, account)
    withheld = set(record.without_text)
    spelled = model if isinstance(model, Spelled) else None
    samples = [sample for one in scored for sample in one.samples]
    for place, sample in enumerate(samples):
        if sample["task"] in withheld:
            samples[place] = without_text(sample)
        elif spelled:
            spell(sample, spelled)
    return Evaluation(record, samples, None if settings.predict_only else _without_number(record))


def _randomness(*specs: TaskSpec) -> AbstractContextManager[object]:
    """Some tasks draw as they score; the others wait for nobody who draws."""
    return FixedRandomness() if any(map(scores_by_code, specs)) else nullcontext()


def _without_number(record: RunRecord) -> TaskError | None:
    """What to say of a record in which a task has no number at all; None where all have one.

    In strict a group has one, too, if it says how its tasks are averaged. lm-evaluation-harness,
    and so compat, passes over an average that no task gives.
    """
    expected = list(record.configs)
    if record.mode == "strict" and record.groups.get(record.task, {}).get("aggregate_metric_list"):
        expected.append(record.task)
    measured = {row.task for row in record.results}
    lacking = [name for name in expected if name not in measured]
    if not lacking:
        return None
    reasons = {
        one.task: f"{one.metric} ({one.filter}): {one.reason}" for one in reversed(record.failures)
    }
    told = "; ".join(
        f"{name} has no number: {reasons.get(name, 'no metric gave one for any document')}"
        for name in lacking
    )
    error = TaskError(told)
    error.task = record.task
    return error


def _overlaps(
    search: Decontamination | None, tasks: Sequence[Task], items: Sequence[Sequence[Item]]
) -> Sequence[list[Overlaps] | None]:
    """The passages of every document that the training text has, too, in one pass over it."""
    if search is None:
        return [None] * len(tasks)
    return search.search(
        [
            [task.query_of(item) for item in of_task]
            for task, of_task in zip(tasks, items, strict=True)
        ]
    )
