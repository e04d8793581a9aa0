"""What a record says of an evaluation: identity, keys, numbers and the circumstances."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from evalcore.asking import Answers
from evalcore.engine import VERSION
from evalcore.errors import TaskError
from evalcore.keys import chat_policy, cuts_thoughts, own_generation_of, run_key, sampling_seed_of
from evalcore.lengths import Lengths
from evalcore.model.base import LM, SCORING_VERSION, Response
from evalcore.model.protocols import Computing
from evalcore.preparation import Prepared
from evalcore.record import ResultRow, RunRecord, SampleFile
from evalcore.score.numbers.aggregate import aggregate
from evalcore.score.scored import ScoredTask
from evalcore.score.withholding import tasks_without_text, without_reason
from evalcore.settings import Settings
from evalcore.stats import spread
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.gold import NO_CHOICE
from evalcore.task.asking.shot_rule import Shots, draws_at_random, shot_rule
from evalcore.task.asking.task import Task
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.identity.digest import config_digest, docs_digest, json_ready, resolved_config
from evalcore.task.library.promptsource import is_prompted


def record_of(
    answers: Answers,
    part: Prepared,
    responses: Sequence[Response],
    scored: Sequence[ScoredTask],
    settings: Settings,
    chat: Chat | None,
    *,
    scoring: float,
    command: Mapping[str, float],
) -> RunRecord:
    """The record of one evaluated task or group, its sample file still unnamed.

    `scoring`: the seconds that its scores took. `command`: those that whoever started the
    evaluation measured.
    """
    model, spec, tasks = answers.model, part.spec, part.tasks
    samples = [sample for task in scored for sample in task.samples]
    keys = _run_keys(model, spec, tasks, settings, chat)
    numbers = partial(
        aggregate,
        spec,
        run_keys=keys,
        mode=settings.mode,
        bootstrap_iters=settings.bootstrap_iters,
        seed=settings.seed,
    )
    shots = _shots(spec, tasks)
    rule = shot_rule(spec, shots, mode=settings.mode, draw=settings.fewshot_draw)
    results, failures = numbers(scored)
    clean = _clean(scored)
    withheld = tasks_without_text(spec)
    progress = answers.progress_of(part)
    seconds = {
        "prompts": part.prompt_seconds,
        "tokens": part.token_seconds,
        "answers": progress.seconds,
        "scores": scoring,
    }
    return RunRecord(
        task=spec.name,
        version=spec.version if isinstance(spec, GroupSpec) else tasks[0].spec.version,
        benchmark=spec.about.benchmark,
        style=spec.about.style or "",
        primary_metric="bypass" if settings.predict_only else spec.primary_metric,
        chance=spec.about.chance,
        shots=shots,
        shot_rule=rule,
        shot_seed=settings.fewshot_seed if draws_at_random(rule) else None,
        mode=settings.mode,
        limit=settings.limit,
        config_digest=config_digest(spec),
        docs_digest=docs_digest(sample["doc_digest"] for sample in samples),
        run_key=keys[spec.name],
        results=results,
        failures=[
            without_reason(failure) if failure.task in withheld else failure for failure in failures
        ],
        without_text=withheld,
        unanswerable=_unanswerable(tasks, samples),
        distribution=_distribution(spec, results),
        clean_results=numbers(clean)[0] if clean else [],
        samples=SampleFile(file="", sha256="", rows=len(samples)),
        engine={"name": "evalcore", "version": VERSION, "scoring_version": SCORING_VERSION},
        model=model.info.as_json(),
        groups=groups_of(spec),
        configs={
            leaf.name: _config(leaf, task) for leaf, task in zip(spec.leaves(), tasks, strict=True)
        },
        datasets={task.spec.name: _dataset(task) for task in tasks},
        settings=json_ready(asdict(settings)),
        chat=_chat(chat),
        system_instruction=settings.system_instruction,
        generation={
            task.name: json_ready(dict(task.generation_kwargs))
            for task in tasks
            if task.generation_kwargs is not None
        },
        environment={
            "python": platform.python_version(),
            "platform": platform.platform(),
            "device": model.info.device,
            **_versions(),
        },
        requests={
            "total": len(responses),
            "journalled": progress.journalled,
            "truncated": sum(response.n_truncated > 0 for response in responses),
            **of_answers(samples),
        },
        paths=dict(Counter(response.path for response in responses)),
        execution=_execution(model, responses),
        started=part.started.isoformat(timespec="seconds"),
        seconds=round(sum(seconds.values()), 3),
        timing={name: round(took, 3) for name, took in {**seconds, **command}.items()},
        energy=answers.energy_of(part),
    )


def of_answers(samples: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many answers there are in the samples, and what of them was cut short."""
    counted = Lengths.of(response for sample in samples for response in sample["responses"])
    named = ("answers", "by_length", "still_thinking", "thoughts_cut")
    return {name: count for name, count in counted.as_json().items() if name in named}


def without_number(record: RunRecord) -> TaskError | None:
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
        failure.task: f"{failure.metric} ({failure.filter}): {failure.reason}"
        for failure in reversed(record.failures)
    }
    told = "; ".join(
        f"{name} has no number: {reasons.get(name, 'no metric gave one for any document')}"
        for name in lacking
    )
    error = TaskError(told)
    error.task = record.task
    return error


def _execution(model: LM, responses: Sequence[Response]) -> dict[str, Any]:
    """How the kinds of requests that were asked were computed: others are of earlier tasks."""
    if not isinstance(model, Computing):
        return {}
    writes = {response.kind == "generate_until" for response in responses}
    return {
        kind: json_ready(dict(how))
        for kind, how in model.execution.items()
        if (kind == "generate_until") in writes
    }


def _unanswerable(tasks: Sequence[Task], samples: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Where a task scores by its own code, that decides what is right."""
    by_gold = {task.name for task in tasks if task.own_process_results is None}
    of_these = (sample for sample in samples if sample["task"] in by_gold)
    return dict(Counter(sample["task"] for sample in of_these if NO_CHOICE in sample["gold"]))


def _distribution(spec: TaskSpec | GroupSpec, results: Sequence[ResultRow]) -> list[dict[str, Any]]:
    """Over the prompts of one task; nothing of any other task or group."""
    if isinstance(spec, TaskSpec) or not is_prompted(spec.name):
        return []
    prompts = {leaf.name for leaf in spec.leaves()}
    values: dict[tuple[str, str], list[float]] = {}
    for row in results:
        if row.task in prompts:
            values.setdefault((row.metric, row.filter), []).append(row.value)
    return [
        {"metric": metric, "filter": filter, **asdict(spread(of_all))}
        for (metric, filter), of_all in values.items()
    ]


def _clean(scored: Sequence[ScoredTask]) -> list[ScoredTask]:
    """The documents that the training text does not have, as far as one can tell."""
    if all(sample["contaminated"] is None for task in scored for sample in task.samples):
        return []
    clean = [task.only(lambda sample: sample["contaminated"] is False) for task in scored]
    # No average of a group exists without one of its parts.
    return clean if all(task.samples for task in clean) else []


def _config(leaf: TaskSpec, task: Task) -> dict[str, Any]:
    """The configuration as the file says it; of a class, which its file only names, the version."""
    config = resolved_config(leaf)
    if task.spec.version != leaf.version:
        version = task.spec.metadata["version"]
        return {**config, "metadata": {**config.get("metadata", {}), "version": version}}
    return config


def _chat(chat: Chat | None) -> dict[str, Any] | None:
    if chat is None:
        return None
    template = chat.template
    left_out = dict(template.left_out())
    return {
        "name": template.name,
        "digest": template.digest,
        "text": template.text,
        "multiturn": chat.multiturn,
        "arguments": json_ready(dict(template.arguments)),
        "without_system": left_out.pop("system", 0),
        **({"left_out": left_out} if left_out else {}),
        **({"reads_parts": True} if template.reads_parts() else {}),
    }


def _run_keys(
    model: LM,
    spec: TaskSpec | GroupSpec,
    tasks: Sequence[Task],
    settings: Settings,
    chat: Chat | None,
) -> dict[str, str]:
    """The run key of every task and group in `spec`."""
    generates = any(task.generation_kwargs is not None for task in tasks)
    return {
        part.name: run_key(
            part,
            shots=_shots(part, tasks),
            mode=settings.mode,
            fewshot_seed=settings.fewshot_seed,
            fewshot_draw=settings.fewshot_draw,
            chat=chat_policy(_chat(chat)),
            system_instruction=settings.system_instruction,
            generation=json_ready(dict(settings.gen_kwargs or {})) if generates else None,
            cuts_thoughts=generates and cuts_thoughts(model.info.arguments),
            thinking_budget=model.info.arguments.get("thinking_budget") if generates else None,
            sampling_seed=sampling_seed_of(
                settings.seed, (task.generation_kwargs for task in tasks)
            ),
            own_generation=own_generation_of(
                json_ready(dict(model.info.generation)),
                [
                    task.generation_kwargs
                    for task in tasks
                    if task.generation_kwargs is not None
                    and task.spec.name in {leaf.name for leaf in part.leaves()}
                ],
                settings.mode,
            ),
        )
        for part in spec.parts()
    }


def _shots(spec: TaskSpec | GroupSpec, tasks: Sequence[Task]) -> Shots:
    """The shots of the tasks in `spec`: one number where they agree, else by task."""
    names = {leaf.name for leaf in spec.leaves()}
    shots = {task.spec.name: task.shots for task in tasks if task.spec.name in names}
    different = set(shots.values())
    return different.pop() if len(different) == 1 else shots


def groups_of(spec: TaskSpec | GroupSpec) -> dict[str, Any]:
    """The groups of a task as a record has them; none for a plain task."""
    return {
        group.name: {
            "alias": group.alias,
            "version": group.version,
            "members": [member.name for member in group.members],
            "aggregate_metric_list": json_ready(group.aggregate_metric_list),
            **({"same_questions": True} if group.about.same_questions else {}),
        }
        for group in spec.groups()
    }


def _dataset(task: Task) -> dict[str, Any]:
    return {
        "path": task.spec.dataset_path,
        "name": task.spec.dataset_name,
        "split": task.split,
        "commit": task.dataset_commit,
        "documents": task.n_original,
    }


@cache
def _versions() -> Mapping[str, str]:
    """Read once: each takes milliseconds, and a run of many tasks has a record for each."""
    packages = ("torch", "transformers", "tokenizers", "datasets", "numpy", "peft")
    return {package: version(package) for package in packages}
