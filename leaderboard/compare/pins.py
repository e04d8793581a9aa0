"""Were they asked the same thing, and computed alike? Every setting that differs, and where.

What is asked decides whether two numbers may be compared at all (the parts of the comparability
key); how it was computed can move a score a little and is shown, not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from evalcore.record import RunRecord
from leaderboard.compare.lineup import Lineup, Task, stored_files
from leaderboard.models import Artifact, Run
from leaderboard.models.task import Style
from leaderboard.samples import Unavailable
from leaderboard.samples import store as artifacts
from leaderboard.web import kept

SHOWN = 12
"""Characters of a digest or commit: the whole of it is on the run's page."""
MOST = 4
"""Values over all tasks that are named one by one, with the number of tasks that have each."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting over all tasks."""

    name: str
    values: tuple[str, ...]
    """By side, in words."""
    differs: bool
    known: bool
    """Whether it is recorded of every number."""
    on: tuple[str, ...]
    """Titles of the tasks where it differs; empty where it does on all."""
    note: str
    """What a difference may do."""


@dataclass(frozen=True)
class Pins:
    """All settings, in three groups."""

    asked: tuple[Setting, ...]
    computed: tuple[Setting, ...]
    recorded: tuple[Setting, ...]
    """Those that only the runs' records have, of one task; empty where none is chosen."""

    @property
    def differing(self) -> list[Setting]:
        return [*self.asked_otherwise, *self.computed_otherwise]

    @property
    def asked_otherwise(self) -> list[Setting]:
        return [setting for setting in self.asked if setting.differs]

    @property
    def computed_otherwise(self) -> list[Setting]:
        return [setting for setting in (*self.computed, *self.recorded) if setting.differs]


Read = Callable[[Run], object]

_ASKED: tuple[tuple[str, Read, str], ...] = (
    (
        "Task",
        lambda run: f"{run.task.name} {run.task.version}",
        "Another task or version can ask or score otherwise.",
    ),
    (
        "Task digest",
        lambda run: run.task.config_digest[:SHOWN],
        "What the task asks or how it scores is not the same.",
    ),
    (
        "Prompt style",
        lambda run: Style(run.task.style).label,
        "Another style measures another skill: no difference is computed.",
    ),
    (
        "Questions",
        lambda run: run.docs_digest[:SHOWN],
        "Other questions: no difference is computed.",
    ),
    ("Worked examples", lambda run: run.shots, "More examples usually help."),
    (
        "Choice of examples",
        lambda run: f"{run.fewshot_draw}, seed {run.fewshot_seed}" if run.shots else "none",
        "Other examples can move a score by a point or more.",
    ),
    (
        "Asked in",
        lambda run: "the model’s chat template" if run.variant.chat else "plain text",
        "Part of what is compared. It can move a score either way.",
    ),
    ("Scoring mode", lambda run: run.mode, "The two modes score some tasks otherwise."),
)
_COMPUTED: tuple[tuple[str, Read, str], ...] = (
    (
        "Precision",
        lambda run: run.variant.dtype,
        "Part of what is compared. Rounding turns close calls.",
    ),
    (
        "Quantisation",
        lambda run: run.variant.quantisation or "none",
        "Part of what is compared. It can cost points.",
    ),
    ("Adapter on", lambda run: run.variant.adapter_base or "none", "Part of what is compared."),
    (
        "Data set commit",
        lambda run: ", ".join(sorted({_cut(commit) for commit in run.dataset_commits.values()})),
        "The questions are the same by their own digest.",
    ),
    (
        "Engine",
        lambda run: run.engine_version,
        "The changelog says what a version changed.",
    ),
    ("Backend", lambda run: run.variant.backend, "Loglikelihoods differ by rounding."),
    (
        "Device",
        lambda run: run.environment.get("device", ""),
        "Loglikelihoods differ by rounding.",
    ),
    *(
        (name, lambda run, name=name: run.environment.get(name, ""), "Seldom more than rounding.")
        for name in ("torch", "transformers", "tokenizers", "datasets", "numpy", "python")
    ),
)
_RECORDED: tuple[tuple[str, str], ...] = (
    ("Chat template", "Each model’s own template wraps the same question in other words."),
    ("System prompt", "It stands before every question."),
    ("Start token", "Each model’s own default. It may move a score by a few tenths."),
    ("Context", "A shorter context may cut examples off."),
    ("Prompts cut to fit", "A model that was shown less had it harder."),
)


def runs_of(tasks: Sequence[Task]) -> dict[UUID, Run]:
    """The runs behind these tasks' numbers, each with what `pins` needs, in one query."""
    wanted = [number.run for task in tasks for number in task.numbers if number]
    return (
        Run.objects.filter(pk__in=wanted)
        .select_related("task", "variant")
        .defer("log_tail", "error_message", "task__changelog")
        .in_bulk()
    )


def in_full(run: Run) -> dict[str, Any]:
    """The pins of one run, for files."""
    return {
        "task": run.task.name,
        "task_version": run.task.version,
        "task_digest": run.task.config_digest,
        "style": run.task.style,
        "docs_digest": run.docs_digest,
        "shots": run.shots,
        "fewshot_draw": run.fewshot_draw,
        "fewshot_seed": run.fewshot_seed,
        "mode": run.mode,
        "run_key": run.run_key,
        "commit": run.variant.commit,
        "dtype": run.variant.dtype,
        "quantisation": run.variant.quantisation,
        "adapter_base": run.variant.adapter_base,
        "adapter_base_commit": run.variant.adapter_base_commit,
        "chat": run.variant.chat,
        "dataset_commits": run.dataset_commits,
        "engine_version": run.engine_version,
        "backend": run.variant.backend,
        "environment": run.environment,
    }


def pins(lineup: Lineup, runs: Mapping[UUID, Run], chosen: Task | None) -> Pins:
    """Settings over all tasks of a lineup, and what the records of the chosen one add."""
    in_records = _records(chosen) if chosen else {}
    return Pins(
        tuple(_setting(name, read, note, lineup.tasks, runs) for name, read, note in _ASKED),
        tuple(_setting(name, read, note, lineup.tasks, runs) for name, read, note in _COMPUTED),
        tuple(
            _setting(name, _from(in_records, name), note, [chosen], runs)
            for name, note in _RECORDED
            if chosen and in_records
        ),
    )


def _records(task: Task) -> dict[UUID, Mapping[str, str]]:
    """By run what its record says besides; nothing for a run whose record is not in the store."""
    runs = [number.run for number in task.numbers if number]
    try:
        return {
            run: _recorded(sha256)
            for run, sha256 in stored_files(runs, Artifact.Kind.RECORD).items()
            if artifacts.path_of(sha256).is_file()
        }
    except Unavailable:
        kept.only_for_now()
        return {}


@lru_cache(maxsize=256)
def _recorded(sha256: str) -> Mapping[str, str]:
    record = RunRecord.read(artifacts.path_of(sha256))
    chat, model = record.chat, record.model
    limit = model.get("max_length")
    return {
        "Chat template": str(chat["digest"])[:SHOWN] if chat else "none",
        "System prompt": record.system_instruction or "none",
        "Start token": str(model.get("bos_policy") or "not recorded"),
        "Context": f"{limit:,} tokens" if isinstance(limit, int) else "not recorded",
        "Prompts cut to fit": f"{record.requests.get('truncated', 0):,}",
    }


def _from(recorded: Mapping[UUID, Mapping[str, str]], name: str) -> Read:
    return lambda run: recorded.get(run.pk, {}).get(name)


def _cut(commit: object) -> str:
    return str(commit)[:SHOWN] if commit else "not pinned"


def _setting(
    name: str, read: Read, note: str, tasks: Sequence[Task], runs: Mapping[UUID, Run]
) -> Setting:
    by_task = [_values(task, read, runs) for task in tasks]
    differing = [
        task.title
        for task, values in zip(tasks, by_task, strict=True)
        if len({value for value in values if value is not None}) > 1
    ]
    shared = [values for values in by_task if sum(value is not None for value in values) > 1]
    return Setting(
        name=name,
        values=tuple(_in_words(of_side) for of_side in zip(*by_task, strict=True)),
        differs=bool(differing),
        known=all(
            (value is None) == (number is None)
            for task, values in zip(tasks, by_task, strict=True)
            for number, value in zip(task.numbers, values, strict=True)
        ),
        on=tuple(differing) if len(differing) < len(shared) else (),
        note=note,
    )


def _values(task: Task, read: Read, runs: Mapping[UUID, Run]) -> list[str | None]:
    """By side; None where it has no number on this task, or nothing is recorded."""
    found: list[str | None] = []
    for number in task.numbers:
        run = runs.get(number.run) if number else None
        value = read(run) if run else None
        found.append(None if value in (None, "") else str(value))
    return found


def _in_words(values: Sequence[str | None]) -> str:
    """The values over all tasks, the most frequent first."""
    counts = Counter(value for value in values if value is not None).most_common()
    if not counts:
        return "not recorded"
    if len(counts) == 1:
        return counts[0][0]
    if len(counts) > MOST:
        return f"{len(counts)} values"
    return ", ".join(f"{value} on {times}" for value, times in counts)
