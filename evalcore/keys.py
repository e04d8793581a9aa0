"""The keys of runs and columns: what two numbers must share to be compared (docs/method.md).

A key holds what decides which questions are asked and how answers are scored. Whose answers they
are, and on which machine, does not: those are pins, shown beside the numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evalcore.digest import digest_of
from evalcore.errors import TaskError
from evalcore.model.base import SCORING_VERSION
from evalcore.model.writing.generation import SAMPLING
from evalcore.record import RunRecord
from evalcore.task.asking.shot_rule import Draw, Shots, draws_at_random, shot_rule
from evalcore.task.config import GroupSpec, TaskSpec
from evalcore.task.identity.digest import config_digest, json_ready


def run_key(
    spec: TaskSpec | GroupSpec,
    *,
    shots: Shots,
    mode: str,
    fewshot_seed: int = 1234,
    fewshot_draw: Draw = "per-document",
    chat: Mapping[str, Any] | None = None,
    system_instruction: str | None = None,
    generation: Mapping[str, Any] | None = None,
    cuts_thoughts: bool = False,
    thinking_budget: int | None = None,
    sampling_seed: int | None = None,
    own_generation: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The comparability key as far as it is known before a run: without metric and documents.

    `shots` as in the record; `chat` is the policy (which template, whether examples are turns, what
    the template is told), `generation` the arguments given over those of the tasks, `cuts_thoughts`
    whether an answer begins only after what the model thought, and `thinking_budget` after how many
    tokens its thinking is ended at the latest; `sampling_seed` is as `sampling_seed_of` gives it,
    `own_generation` as `own_generation_of` does.
    Two runs of one variant with the same key would give the same numbers.
    Raises TaskError for a mode that does not exist.
    """
    if mode not in ("strict", "compat"):
        raise TaskError(f"mode: expected 'strict' or 'compat', got {mode!r}")
    rule = shot_rule(spec, shots, mode=mode, draw=fewshot_draw)
    return _run_digest(
        task=spec.name,
        version=spec.version,
        config_digest=config_digest(spec),
        style=spec.about.style,
        shots=shots,
        shot_rule=rule,
        shot_seed=fewshot_seed if draws_at_random(rule) else None,
        mode=mode,
        chat=chat,
        system_instruction=system_instruction,
        generation=generation,
        cuts_thoughts=cuts_thoughts,
        thinking_budget=thinking_budget,
        sampling_seed=sampling_seed,
        own_generation=own_generation,
        scoring_version=SCORING_VERSION,
    )


def run_key_of(record: RunRecord, leaves: Collection[str] | None = None) -> str:
    """The run key that a record's own fields give, for who doubts the one that it states.

    `leaves`: the names of the tasks whose texts it is about, where it is not about all of them.
    """
    generates, arguments = bool(record.generation), record.model.get("arguments") or {}
    generation = [
        stated for name, stated in record.generation.items() if leaves is None or name in leaves
    ]
    return _run_digest(
        task=record.task,
        version=record.version,
        config_digest=record.config_digest,
        style=record.style or None,
        shots=record.shots,
        shot_rule=record.shot_rule,
        shot_seed=record.shot_seed,
        mode=record.mode,
        chat=chat_policy(record.chat),
        system_instruction=record.system_instruction,
        generation=record.settings.get("gen_kwargs") if generates else None,
        cuts_thoughts=generates and cuts_thoughts(arguments),
        thinking_budget=arguments.get("thinking_budget") if generates else None,
        sampling_seed=sampling_seed_of(record.settings.get("seed"), record.generation.values()),
        own_generation=own_generation_of(
            record.model.get("generation") or {}, generation, record.mode
        ),
        scoring_version=record.engine["scoring_version"],
    )


def run_keys_of(record: RunRecord, spec: TaskSpec | GroupSpec) -> dict[str, str]:
    """The run keys of the record's task, which `spec` is, and of its parts, by name.

    Of the parts a record has no key: theirs follow from how it says that all were asked.
    """
    keys = {record.task: run_key_of(record)}
    draw = record.settings.get("fewshot_draw", "per-document")
    for part in spec.parts():
        if part.name in keys:
            continue
        shots, leaves = record.shots, {leaf.name for leaf in part.leaves()}
        if not isinstance(shots, int):
            shots = {name: number for name, number in shots.items() if name in leaves}
            shots = shots if len({*shots.values()}) > 1 else next(iter(shots.values()))
        rule = shot_rule(part, shots, mode=record.mode, draw=draw)
        as_asked = replace(
            record,
            task=part.name,
            version=part.version,
            style=part.about.style or "",
            config_digest=config_digest(part),
            shots=shots,
            shot_rule=rule,
            shot_seed=record.shot_seed if draws_at_random(rule) else None,
        )
        keys[part.name] = run_key_of(as_asked, leaves)
    return keys


def own_generation_of(
    own: Mapping[str, Any], generation: Iterable[Mapping[str, Any]], mode: str
) -> list[dict[str, Any]]:
    """The different ways in which a model's own generation arguments decide texts of these tasks,
    from what it states (`ModelInfo.generation`) and the arguments of each task.

    Empty in strict, whose keys are known before any model is: there they are a pin of the model.
    """
    if mode == "strict":
        return []
    found = {digest_of(told): told for told in (in_force(own, stated) for stated in generation)}
    return [found[digest] for digest in sorted(found) if found[digest]]


def in_force(own: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """A model's own generation arguments that decide the texts of a task with these arguments:
    those that it does not state, and that its way of choosing tokens heeds."""
    passed_over = {"do_sample", "temperature", *(() if _draws(stated) else SAMPLING)}
    return {
        name: value
        for name, value in own.items()
        if name not in passed_over and stated.get(name) is None
    }


def chat_policy(chat: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What of a record's `chat` decides whether two numbers compare.

    A model's own template is its own; a named one is the same for all. What the template is told
    stands in the policy only where it is told something.
    """
    if chat is None:
        return None
    template = "own" if chat["name"] is None else chat["digest"]
    told = chat.get("arguments")
    policy = {"template": template, "multiturn": chat["multiturn"]}
    return {**policy, "arguments": dict(told)} if told else policy


def cuts_thoughts(arguments: Mapping[str, Any]) -> bool:
    """Whether a model with these arguments is judged by what it says after its thoughts.

    The token that ends them is the model's own, as its template is: that there is one counts.
    """
    return arguments.get("think_end_token") is not None


def sampling_seed_of(
    seed: int | None, generation: Iterable[Mapping[str, Any] | None]
) -> int | None:
    """The seed where answers are drawn by it, from the generation arguments of each task; else
    None.

    As everywhere, `do_sample` decides, and unstated a temperature above 0.
    """
    return seed if any(_draws(arguments or {}) for arguments in generation) else None


def _draws(arguments: Mapping[str, Any]) -> bool:
    wanted = arguments.get("do_sample")
    return bool(arguments.get("temperature") if wanted is None else wanted)


_SEED_OF_OLD = 1234
"""The default, of which keys say nothing: they were made before the seed stood in them."""

_CUT_IN = {"compat": "cut", "strict": "cut, stops of the answer"}
"""How thoughts are cut off. strict found stops in their very end once, and answers were empty."""


def _run_digest(
    *,
    shots: Shots,
    chat: Mapping[str, Any] | None,
    system_instruction: str | None,
    generation: Mapping[str, Any] | None,
    cuts_thoughts: bool,
    thinking_budget: int | None,
    sampling_seed: int | None,
    own_generation: Sequence[Mapping[str, Any]],
    **others: str | int | None,
) -> str:
    return digest_of(
        {
            **others,
            **({"thoughts": _CUT_IN[str(others["mode"])]} if cuts_thoughts else {}),
            **({"thinking_budget": thinking_budget} if thinking_budget else {}),
            **({} if sampling_seed in (None, _SEED_OF_OLD) else {"sampling_seed": sampling_seed}),
            **({"own_generation": [*map(dict, own_generation)]} if own_generation else {}),
            "shots": shots if isinstance(shots, int) else dict(shots),
            "chat": None if chat is None else dict(chat),
            "system_prompt": None if system_instruction is None else digest_of(system_instruction),
            "generation": dict(generation) if generation else None,
        }
    )


def comparability_key(
    run: str, *, docs_digest: str, metric: str, arguments: Mapping[str, Any], filter: str
) -> str:
    """What two numbers must share to stand in one column; `run` is a `run_key`."""
    return digest_of(
        {
            "run": run,
            "docs_digest": docs_digest,
            "metric": metric,
            "arguments": json_ready(dict(arguments)),
            "filter": filter,
        }
    )
