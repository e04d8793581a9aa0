"""Were they asked the same way, and computed alike? Every setting side by side.

What is asked decides whether two numbers may be compared at all (the parts of the comparability
key); how it was computed can move a score a little and is shown, not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

from evalcore.record import RunRecord
from leaderboard.compare.table import Lineup, Number, Task, stored_files
from leaderboard.models import Artifact, Run
from leaderboard.models.task import Style
from leaderboard.samples import Unavailable
from leaderboard.samples import store as artifacts
from leaderboard.web import kept

SHORT = 12
"""Characters of a digest or commit: the whole of it is on the run's page."""
MOST_VALUES = 4
"""Values over all tasks that are named one by one, with the number of tasks that have each."""
_ASKED = {
    "Task": "task",
    "Task digest": "task_digest",
    "Prompt style": "style",
    "Questions": "docs_digest",
    "Worked examples": "shots",
    "Choice of examples": "examples",
    "Asked in": "chat",
    "Scoring mode": "mode",
}
"""By name the pin of `in_full`, or of `_as_shown`."""
_COMPUTED = {
    "Precision": "dtype",
    "Quantisation": "quantisation",
    "Adapter on": "adapter_base",
    "Data set commit": "dataset_commits",
    "Engine": "engine_version",
    "Backend": "backend",
    "Device": "device",
    **{
        name: name
        for name in ("torch", "transformers", "tokenizers", "datasets", "numpy", "python")
    },
}
_RECORDED = ("Chat template", "System prompt", "Start token", "Context", "Prompts cut to fit")
NEVER_SUBTRACTED = {"Prompt style", "Questions"}


@dataclass(frozen=True)
class Setting:
    """One setting over all tasks."""

    name: str
    values: tuple[str, ...]
    """By side, in words."""
    known: bool
    """Whether it is recorded of every number."""
    on: tuple[str, ...]
    """Titles of the tasks where it differs."""
    everywhere: bool
    """Whether it differs on all of them."""

    @property
    def differs(self) -> bool:
        return bool(self.on)


@dataclass(frozen=True)
class Pins:
    """All settings in groups, and what they come to."""

    asked: tuple[Setting, ...]
    computed: tuple[Setting, ...]
    recorded: tuple[Setting, ...]
    """Of one task what only the runs' records say; empty where none is chosen."""

    @property
    def groups(self) -> list[tuple[str, tuple[Setting, ...]]]:
        titles = "What was asked", "How it was computed", "In the runs’ records"
        groups = zip(titles, (self.asked, self.computed, self.recorded), strict=True)
        return [(title, settings) for title, settings in groups if settings]

    @property
    def differing(self) -> list[Setting]:
        return [setting for _, group in self.groups for setting in group if setting.differs]

    @property
    def verdict(self) -> str:
        names = {setting.name for setting in self.asked if setting.differs}
        if names & NEVER_SUBTRACTED:
            return "Not asked the same thing"
        return "Not asked the same way" if names else "Asked the same way"

    @property
    def note(self) -> str:
        """What the verdict rests on."""
        asked, computed = (
            in_words([one.name[:1].lower() + one.name[1:] for one in settings if one.differs])
            for settings in (self.asked, (*self.computed, *self.recorded))
        )
        if self.verdict == "Not asked the same thing":
            return f"Different {asked}: such numbers are not subtracted."
        if asked:
            return f"The same questions, but different {asked}."
        if computed:
            return f"Same questions, prompts and shots. Computed with different {computed}."
        return "Same questions, shots, precision and versions."


def in_words(names: Sequence[str]) -> str:
    """“a, b and c”."""
    return " and ".join([", ".join(names[:-1]), *names[-1:]]) if len(names) > 1 else "".join(names)


def runs_of(numbers: Sequence[Number]) -> dict[UUID, Run]:
    """The runs behind these numbers, each with its pins, in one query."""
    return (
        Run.objects.filter(pk__in=[number.run for number in numbers])
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


def _as_shown(run: Run) -> dict[str, Any]:
    """The same for readers: digests cut, the environment's parts beside the others."""
    commits = run.dataset_commits.values()
    examples = f"{run.fewshot_draw}, seed {run.fewshot_seed}" if run.shots else "none"
    return {
        **run.environment,
        **in_full(run),
        "task": f"{run.task.name} {run.task.version}",
        "task_digest": run.task.config_digest[:SHORT],
        "docs_digest": run.docs_digest[:SHORT],
        "style": Style(run.task.style).label,
        "examples": examples,
        "chat": "the model’s chat template" if run.variant.chat else "plain text",
        "quantisation": run.variant.quantisation or "none",
        "adapter_base": run.variant.adapter_base or "none",
        "dataset_commits": ", ".join(
            sorted({str(commit)[:SHORT] if commit else "not pinned" for commit in commits})
        ),
    }


def pins_of(lineup: Lineup, chosen: Task | None) -> Pins:
    """Settings over all tasks of a lineup, and what the records of the chosen one add."""
    shown = {key: _as_shown(run) for key, run in runs_of(lineup.numbers).items()}
    records = _records(chosen) if chosen else {}
    asked, computed = (
        tuple(_setting(name, pin, lineup.tasks, shown) for name, pin in group.items())
        for group in (_ASKED, _COMPUTED)
    )
    recorded = [_setting(name, name, [chosen], records) for name in _RECORDED if chosen and records]
    return Pins(asked, computed, tuple(recorded))


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
        "Chat template": str(chat["digest"])[:SHORT] if chat else "none",
        "System prompt": record.system_instruction or "none",
        "Start token": str(model.get("bos_policy") or "not recorded"),
        "Context": f"{limit:,} tokens" if isinstance(limit, int) else "not recorded",
        "Prompts cut to fit": f"{record.requests.get('truncated', 0):,}",
    }


def _setting(
    name: str, pin: str, tasks: Sequence[Task], pins: Mapping[UUID, Mapping[str, Any]]
) -> Setting:
    """One setting; nothing recorded, or no number on a task, is no value."""
    by_task = [
        [pins.get(number.run, {}).get(pin) if number else None for number in task.numbers]
        for task in tasks
    ]
    words = [
        [None if value in (None, "") else str(value) for value in values] for values in by_task
    ]
    on = tuple(
        task.title
        for task, values in zip(tasks, words, strict=True)
        if len({value for value in values if value is not None}) > 1
    )
    return Setting(
        name=name,
        values=tuple(map(_over_tasks, zip(*words, strict=True))),
        known=all(
            (value is None) == (number is None)
            for task, values in zip(tasks, words, strict=True)
            for number, value in zip(task.numbers, values, strict=True)
        ),
        on=on,
        everywhere=len(on) == sum(len(values) - values.count(None) > 1 for values in words),
    )


def _over_tasks(values: Sequence[str | None]) -> str:
    """One side's values, the most frequent first."""
    counts = Counter(value for value in values if value is not None).most_common()
    if not counts:
        return "not recorded"
    if len(counts) == 1:
        return counts[0][0]
    if len(counts) > MOST_VALUES:
        return f"{len(counts)} values"
    return ", ".join(f"{value} on {times}" for value, times in counts)
