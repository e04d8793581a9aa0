"""The tasks and suites of the `tasks/` folder as rows, which are added and never changed.

What a task asks under one version stays what it was: a changed file needs a new version, or two
numbers that nobody may compare would stand in one column.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from pathlib import Path

from markdown_it import MarkdownIt

from evalcore.digest import digest_of
from evalcore.errors import TaskError
from evalcore.keys import run_key
from evalcore.task.asking.shot_rule import draws_at_random, shot_rule
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.identity.digest import config_digest
from evalcore.task.identity.lock import LOCK, Pin, Pins, read_pins
from evalcore.task.library import suite as suite_file
from evalcore.task.library.load import TaskLibrary
from evalcore.task.metadata import UNVERSIONED
from leaderboard.models import Result, Run, Suite, SuiteEntry, TaskVersion
from leaderboard.models.edition import changing

MODE = "strict"
IN_A_CHAT = {"template": "own", "multiturn": True}
"""The policy of a run with `--apply_chat_template`, as its record has it."""


class CatalogueError(Exception):
    """The folder cannot be taken over as it is; `problems` are all the reasons."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Column:
    """One benchmark in one style, as its files say."""

    entry: SuiteEntry
    """Not saved, and neither is its task."""
    file: str
    """Where the task is, below the tasks folder."""

    def identity(self) -> list[object]:
        """What may not change under one version of a suite."""
        entry, task = self.entry, self.entry.task
        asked = [entry.benchmark, entry.style, entry.own, entry.shots, entry.metric, entry.filter]
        pinned = [task.name, task.version, task.config_digest]
        return [*asked, entry.counts, entry.part_chances, pinned, entry.run_key]

    def words(self) -> dict[str, object]:
        """What may be put better at any time: how the column is called, what is known beside it."""
        return {name: getattr(self.entry, name) for name in ("title", "people", "people_source")}


@dataclass(frozen=True)
class SuitePlan:
    file: str
    suite: suite_file.Suite
    columns: list[Column]

    @property
    def digest(self) -> str:
        columns = [column.identity() for column in self.columns]
        return digest_of([columns, self.suite.average, self.suite.normalisation])


@dataclass
class Synced:
    """What was added; empty where the folder held nothing new."""

    tasks: list[str] = field(default_factory=list)
    suites: list[str] = field(default_factory=list)


def sync(tasks_dir: Path) -> Synced:
    """Take over the suites below `tasks_dir` and the tasks that they name.

    Raises CatalogueError with every problem of every file, and then nothing is stored.
    """
    plans, problems = _plans(tasks_dir)
    for plan in plans:
        problems += _changed_tasks(plan)
        problems += _changed_suite(plan)
    if problems:
        raise CatalogueError(list(dict.fromkeys(problems)))
    synced = Synced()
    with changing():
        for plan in plans:
            _store(plan, synced)
    return synced


def _plans(tasks_dir: Path) -> tuple[list[SuitePlan], list[str]]:
    try:
        library = TaskLibrary([tasks_dir])
    except TaskError as error:
        return [], [str(error)]
    problems = [str(reason) for reason in library.unreadable.values()]
    try:
        pins = read_pins(tasks_dir / LOCK)
    except TaskError as error:
        return [], [str(error)]
    files = sorted((tasks_dir / "suites").glob("*.yaml"))
    if not files:
        problems.append(f"{tasks_dir / 'suites'} has no suite: add a file <name>.yaml")
    plans = []
    for path in files:
        file = str(path.relative_to(tasks_dir))
        try:
            suite = suite_file.load_suite(path, library)
        except TaskError as error:
            problems.append(str(error))
            continue
        plans.append(SuitePlan(file, suite, list(_columns(suite, library, pins))))
    return plans, problems


def _columns(suite: suite_file.Suite, library: TaskLibrary, pins: Pins) -> Iterator[Column]:
    folder = library.folders[0]
    for benchmark in suite.benchmarks:
        for style, asked in benchmark.styles.items():
            spec = library.one(asked.task)
            source, pin = spec.source, pins.get((spec.name, spec.version))
            rule = shot_rule(spec, benchmark.shots, mode=MODE, draw=suite.fewshot_draw)
            seeds = suite.fewshot_seeds if draws_at_random(rule) else suite.fewshot_seeds[:1]
            for draw, seed in enumerate(seeds):
                key = partial(
                    run_key,
                    spec,
                    shots=benchmark.shots,
                    mode=MODE,
                    fewshot_seed=seed,
                    fewshot_draw=suite.fewshot_draw,
                )
                entry = SuiteEntry(
                    benchmark=benchmark.benchmark,
                    title=benchmark.title,
                    style=style,
                    own=style == benchmark.own,
                    shots=benchmark.shots,
                    metric=asked.metric,
                    filter=asked.filter,
                    counts=benchmark.counts,
                    part_chances=_part_chances(spec),
                    people=benchmark.people.score if benchmark.people else None,
                    people_source=benchmark.people.source if benchmark.people else "",
                    draw=draw,
                    fewshot_seed=seed,
                    task=_task_version(spec, asked.metric, pin, folder),
                    run_key=key(chat=None),
                    chat_run_key=key(chat=IN_A_CHAT),
                )
                yield Column(entry, str(source.relative_to(folder)) if source else spec.name)


def _part_chances(spec: TaskSpec | GroupSpec) -> dict[str, float]:
    """The chances of a group's tasks, where they are not all the group's own."""
    chances = {leaf.name: leaf.about.chance for leaf in spec.leaves()}
    known = {name: chance for name, chance in chances.items() if chance is not None}
    return known if set(known.values()) != {spec.about.chance} and known == chances else {}


def _task_version(
    spec: TaskSpec | GroupSpec, metric: str, pin: Pin | None, tasks_dir: Path
) -> TaskVersion:
    return TaskVersion(
        name=spec.name,
        version=spec.version,
        benchmark=spec.about.benchmark,
        style=spec.about.style or "",
        config_digest=config_digest(spec),
        primary_metric=spec.about.primary_metric or metric,
        chance=spec.about.chance,
        dataset=next((leaf.dataset_path or "" for leaf in spec.leaves()), ""),
        changelog=dict(spec.about.changelog),
        origin=origin(spec.source, tasks_dir),
        known_gaps=spec.about.known_gaps or "",
        answer_extraction=spec.about.answer_extraction or "",
        asks=pin.asks if pin else "",
        dataset_commit=pin.commit if pin else None,
    )


ABOUT = ("changelog", "origin", "known_gaps", "answer_extraction", "asks", "dataset_commit")
"""Words about a version, which may be put better at any time."""
PINNED = ("config_digest", "benchmark", "style", "primary_metric", "chance")
"""What a version of a task stands for."""


def _changed_tasks(plan: SuitePlan) -> Iterator[str]:
    for column in plan.columns:
        task = column.entry.task
        if task.version == UNVERSIONED:
            yield f"{task.name}: metadata.version is missing: add `version: 1.0` under metadata"
            continue
        stored = TaskVersion.objects.filter(name=task.name, version=task.version).first()
        if stored is None:
            continue
        for name in PINNED:
            old, new = getattr(stored, name), getattr(task, name)
            if old != new:
                yield (
                    f"{column.file}: {task.name} has changed ({name} was {old}, "
                    f"is {new}) and still says version {task.version}: raise metadata.version, "
                    "or take the change back"
                )


def _changed_suite(plan: SuitePlan) -> Iterator[str]:
    suite = plan.suite
    stored = Suite.objects.filter(name=suite.suite, version=suite.version).first()
    if stored and stored.digest != plan.digest:
        yield (
            f"{plan.file}: the columns of the suite {suite.suite} have changed (digest was "
            f"{stored.digest}, is {plan.digest}) and it still says version {suite.version}: "
            "raise its version"
        )


def _store(plan: SuitePlan, synced: Synced) -> None:
    suite = plan.suite
    words = {
        "title": suite.title,
        "description": suite.description,
        "notice": suite.notice or "",
        "changelog": dict(suite.changelog),
        "reported": asdict(suite.reported_elsewhere) if suite.reported_elsewhere else None,
    }
    row, is_new = Suite.objects.update_or_create(
        name=suite.suite,
        version=suite.version,
        defaults=words,
        create_defaults={
            **words,
            "digest": plan.digest,
            "average": suite.average,
            "normalisation": suite.normalisation,
            "fewshot_draw": suite.fewshot_draw,
        },
    )
    if not is_new:
        for column in plan.columns:
            entry = column.entry
            row.entries.filter(benchmark=entry.benchmark).update(**column.words())
            # A column of a site from before models were asked in their chat templates.
            row.entries.filter(run_key=entry.run_key, chat_run_key="").update(
                chat_run_key=entry.chat_run_key
            )
            _stored_task(entry.task, synced)
        return
    synced.suites.append(str(row))
    entries = [column.entry for column in plan.columns]
    for position, entry in enumerate(entries):
        entry.suite, entry.position = row, position
        entry.task = _stored_task(entry.task, synced)
        entry.comparability_key = _known_key(entry, entry.run_key)
        entry.chat_comparability_key = _known_key(entry, entry.chat_run_key)
    SuiteEntry.objects.bulk_create(entries)


def _known_key(entry: SuiteEntry, run_key: str) -> str:
    """The key of the first result that was stored for such a column, in another suite or version.

    Empty where there is none yet: the first one then fixes it.
    """
    results = Result.objects.filter(
        run__run_key=run_key,
        run__state=Run.State.DONE,
        task_name=entry.task.name,
        subset="",
        metric=entry.metric,
        filter=entry.filter,
    )
    found = results.order_by("pk").values_list("comparability_key", flat=True).first()
    return found or ""


def _stored_task(task: TaskVersion, synced: Synced) -> TaskVersion:
    values = {name: getattr(task, name) for name in (*PINNED, "dataset")}
    words = {name: getattr(task, name) for name in ABOUT}
    row, is_new = TaskVersion.objects.update_or_create(
        name=task.name,
        version=task.version,
        defaults=words,
        create_defaults={**values, **words},
    )
    if is_new:
        synced.tasks.append(str(row))
    return row


README = "README.md"
BEGINS = "**Source**:"


def origin(file: Path | None, tasks_dir: Path) -> str:
    """The README's point **Source** as Markdown; empty where there is none.

    The README lies directly below `tasks_dir`, in the folder that holds the task's file.
    """
    if file is None:
        return ""
    *folders, _ = file.relative_to(tasks_dir).parts
    readme = Path(tasks_dir, *folders[:1], README)
    return _source(readme, readme.stat().st_mtime_ns) if readme.is_file() else ""


@lru_cache(maxsize=256)
def _source(readme: Path, _changed: int) -> str:
    for token in MarkdownIt("commonmark").parse(readme.read_text(encoding="utf-8")):
        if token.type == "inline" and token.content.startswith(BEGINS):
            text = " ".join(token.content.removeprefix(BEGINS).split())
            return text[:1].upper() + text[1:]
    return ""
