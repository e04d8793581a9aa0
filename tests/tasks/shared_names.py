"""Whether a task of ours that has the name of one of lm-evaluation-harness's is the same task.

Both task files are read by evalcore, which runs lm-evaluation-harness's as that does (the rest of
`tests/parity`), and are asked of the rows that we wrote for the data set: what is sent to the
model, what is right, what each filter makes of a dozen kinds of answers, and every number. What
rows cannot show is compared as it is written.

`python -m tests.tasks.shared_names [PATTERN …]` prints what differs.
"""

from __future__ import annotations

import fnmatch
import logging
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from typing import Any

import evaluate
import pytest

from evalcore.building import task_of
from evalcore.errors import EvalError
from evalcore.model.base import ChatTemplate, Response
from evalcore.model.text_lm import TextBackend, TextRequest, response_of
from evalcore.score.scoring import score_task
from evalcore.score.task_metrics import Measures
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.task import Item, Task
from evalcore.task.config import AggregateSpec, FilterSpec, GroupSpec, TaskSpec
from evalcore.task.data.sample_rows import sample_data
from evalcore.task.data.seeds import FixedRandomness
from evalcore.task.functions import FunctionRef
from evalcore.task.identity.digest import json_ready
from evalcore.task.library.load import TaskLibrary
from evalcore.task.transforms.answers import exact, overlap
from evalcore.task.yaml_file import OWN_TASKS
from tests.parity.compare import agree
from tests.parity.orders import CHAT_TEMPLATE, Table, render_chat
from tests.parity.our_side import lm_evals_tasks

DOCUMENTS = 5
BOTH = "\n    ours   {!r:.1200}\n    theirs {!r:.1200}"
CHAT = Chat(ChatTemplate(text=CHAT_TEMPLATE, name=None, render=render_chat), True)


@contextmanager
def stand_ins() -> Iterator[None]:
    """What lm-evaluation-harness's files import and a machine without a network does not have.

    `transformers.data.metrics`, which version 5 no longer has: SQuAD's two measures, ours. And the
    script `code_eval` of the package `evaluate`, which runs programs: here none is run.
    """
    squad = types.ModuleType("transformers.data.metrics.squad_metrics")
    squad.compute_exact = exact  # type: ignore[attr-defined]
    squad.compute_f1 = overlap  # type: ignore[attr-defined]
    metrics = types.ModuleType("transformers.data.metrics")
    metrics.squad_metrics = squad  # type: ignore[attr-defined]
    code_eval = types.SimpleNamespace(compute=lambda **_: ({"pass@1": 0.0}, {}))
    with pytest.MonkeyPatch.context() as patch:
        # One by one: a patch of the whole mapping would forget what is imported inside, and whoever
        # imports it again has its classes twice.
        for module in (metrics, squad):
            patch.setitem(sys.modules, module.__name__, module)
        patch.setattr(evaluate, "load", lambda _: code_eval)
        yield


def libraries() -> tuple[TaskLibrary, TaskLibrary]:
    """Our task files, and lm-evaluation-harness's."""
    return TaskLibrary([OWN_TASKS]), TaskLibrary([lm_evals_tasks()])


def shared(ours: TaskLibrary, theirs: TaskLibrary) -> list[str]:
    """Every task, group and tag of both."""
    names = [{*library.tasks, *library.groups, *library.tags} for library in (ours, theirs)]
    return sorted(names[0] & names[1])


def differences(ours: TaskLibrary, theirs: TaskLibrary, name: str) -> list[str]:
    """What `--tasks name` means here and does not mean there, or the reverse."""
    mine, other = ours.select([name]), theirs.select([name])
    leaves = [{leaf.name for spec in specs for leaf in spec.leaves()} for specs in (mine, other)]
    if len(mine) == len(other) == 1:
        one, peer = mine[0], other[0]
        if isinstance(one, TaskSpec) and isinstance(peer, TaskSpec):
            return list(_of_tasks(one, peer))
        if isinstance(one, GroupSpec) and isinstance(peer, GroupSpec):
            return list(_of_groups(one, peer))
    if leaves[0] != leaves[1]:
        return [f"tasks: {_apart(*leaves)}"]
    return []


def _apart(ours: set[str], theirs: set[str]) -> str:
    return f"only ours {sorted(ours - theirs)[:4]}, only theirs {sorted(theirs - ours)[:4]}"


def _of_groups(ours: GroupSpec, theirs: GroupSpec) -> Iterator[str]:
    leaves = [{leaf.name for leaf in spec.leaves()} for spec in (ours, theirs)]
    if leaves[0] != leaves[1]:
        yield f"members: {_apart(*leaves)}"
    yield from _version(ours, theirs)
    for entry in theirs.aggregate_metric_list:
        if not any(_aggregates(own, entry) for own in ours.aggregate_metric_list):
            yield f"aggregate_metric_list: ours {ours.aggregate_metric_list}, theirs {entry}"


def _aggregates(ours: AggregateSpec, theirs: AggregateSpec) -> bool:
    """Whether the one gives what the other gives; without a filter it is every filter's."""
    how = [[str(one.metric), str(one.aggregation), one.weight_by_size] for one in (ours, theirs)]
    filters = ours.filter_list or theirs.filter_list
    return how[0] == how[1] and (
        ours.filter_list is None or set(filters or ()) >= set(theirs.filter_list or ("every",))
    )


def _of_tasks(ours: TaskSpec, theirs: TaskSpec) -> Iterator[str]:
    yield from _version(ours, theirs)
    for key, one, other in _written(ours, theirs):
        if one != other:
            yield f"{key}: ours {one!r:.300}, theirs {other!r:.300}"
    data = sample_data(ours, OWN_TASKS)
    samples = theirs.fewshot.samples
    known = len(samples) if isinstance(samples, list) else 2
    for options in (
        {},
        {"num_fewshot": max(2, known)},
        {"num_fewshot": 2, "chat": CHAT, "system_instruction": "Be brief."},
    ):
        tasks = [
            task_of(spec, mode="compat", limit=DOCUMENTS, data=data, **options)
            for spec in (ours, theirs)
        ]
        items: list[list[Item]] = []
        for side, task in zip(("ours", "theirs"), tasks, strict=True):
            try:
                items.append(task.items())
            except EvalError as error:
                yield f"{side} cannot be asked, {list(options)}: {error}"
        if len(items) < 2:
            return
        told = next(_of_items(*items), None)
        if told:
            yield f"{list(options)} {told}"
            return
        if not options:
            yield from _of_scores(tasks, items)


def _version(ours: TaskSpec | GroupSpec, theirs: TaskSpec | GroupSpec) -> Iterator[str]:
    with suppress(ValueError):
        if float(ours.version) < float(theirs.version):
            yield f"version: ours {ours.version} lies below theirs, {theirs.version}"


def _written(ours: TaskSpec, theirs: TaskSpec) -> Iterator[tuple[str, Any, Any]]:
    """What a few rows may not show, each as both have it."""
    for key in ("output_type", "num_fewshot", "repeats", "dataset_path", "dataset_name"):
        yield key, getattr(ours, key), getattr(theirs, key)
    yield "eval split", ours.eval_split, theirs.eval_split
    yield "fewshot split", _examples_from(ours), _examples_from(theirs)
    yield "sampler", str(ours.fewshot.sampler), str(theirs.fewshot.sampler)
    yield "dataset_kwargs", _data(ours), _data(theirs)
    filters = [
        {filter_.name: _steps(filter_) for filter_ in spec.filter_list} for spec in (ours, theirs)
    ]
    yield "filters", list(filters[0]), list(filters[1])
    for name in filters[0].keys() & filters[1].keys():
        if "a function" not in str(filters[1][name]):
            yield f"filter {name}", filters[0][name], filters[1][name]
    measures = [_measures(spec) for spec in (ours, theirs)]
    extra = set(ours.about.extra_metrics)
    if theirs.unsafe_code:
        stated = [entry.arguments.get("k", []) for entry in theirs.metric_list]
        wanted = {f"pass@{k}" for ks in stated for k in ks} or set(measures[1])
        yield "metrics", sorted(set(measures[0]) - extra | wanted), sorted(wanted)
    elif theirs.process_results is None and not any(
        isinstance(entry.metric, FunctionRef) or entry.hf_evaluate for entry in theirs.metric_list
    ):
        yield "metrics", sorted(set(measures[0]) - extra | set(measures[1])), sorted(measures[1])
    for name in measures[0].keys() & measures[1].keys():
        yield f"metric {name}", measures[0][name], measures[1][name]


def _examples_from(spec: TaskSpec) -> str | None:
    if spec.fewshot.samples is not None:
        return "samples"
    return (
        spec.fewshot.split
        or spec.fewshot_split
        or spec.training_split
        or spec.validation_split
        or spec.test_split
    )


def _data(spec: TaskSpec) -> dict[str, Any]:
    ignored = ("revision", "trust_remote_code")
    return {key: value for key, value in spec.dataset_kwargs.items() if key not in ignored}


def _steps(pipeline: FilterSpec) -> list[Any]:
    return [
        [
            "a function" if isinstance(step.function, FunctionRef) else step.function,
            {key: _argument(key, value) for key, value in step.arguments.items()},
        ]
        for step in pipeline.steps
    ]


def _argument(key: str, value: Any) -> Any:
    """Patterns are compared as they are parsed: a needless backslash makes no other."""
    if isinstance(value, FunctionRef):
        return "a function"
    if key == "regex_pattern":
        return str(_parsed(value))
    if key == "regexes_to_ignore":
        return sorted({str(_parsed(each)) for each in value})
    return json_ready(value)


def _parsed(pattern: str) -> Any:
    return re._parser.parse(pattern)  # type: ignore[attr-defined]


def _measures(spec: TaskSpec) -> dict[str, Any]:
    """By metric its aggregation, its direction and its arguments."""
    measures = Measures(
        spec,
        "compat",
        by_the_task=spec.process_results is not None,
        own_aggregations={},
        own_higher_is_better={},
    )
    return {
        name: [
            aggregation.name,
            measures.higher_is_better.get(name, True),
            {key: _argument(key, value) for key, value in sorted(measures.arguments(name).items())},
        ]
        for name, aggregation in measures.aggregations.items()
    }


def _of_items(ours: Sequence[Item], theirs: Sequence[Item]) -> Iterator[str]:
    for number, (one, other) in enumerate(zip_longest(ours, theirs)):
        for what, mine, peer in (
            ("asks", one and _asked(one), other and _asked(other)),
            ("right", one and _right(one), other and _right(other)),
        ):
            if mine != peer:
                yield f"document {number} {what}:{BOTH.format(mine, peer)}"


def _asked(item: Item) -> list[Any]:
    return [
        [
            request.kind,
            request.context,
            request.continuation,
            request.generation and dict(request.generation),
            request.repeats,
        ]
        for request in item.requests
    ]


def _right(item: Item) -> list[Any]:
    return [item.gold, item.choices, str(item.target)]


def _of_scores(tasks: Sequence[Task], items: Sequence[Sequence[Item]]) -> Iterator[str]:
    """The filtered responses, scores and aggregates, on made-up answers."""
    rounds = 4 if tasks[1].spec.output_type == "generate_until" else 1
    extra = set(tasks[0].spec.about.extra_metrics)
    # The programs are compared; running them needs a script from the network in their files.
    runs_programs = tasks[1].spec.unsafe_code
    for salt in range(rounds):
        scored = []
        for task, of_task in zip(tasks, items, strict=True):
            with FixedRandomness():
                try:
                    said = _responses(of_task, items[1], salt)
                    scored.append(score_task(task, of_task, said, predict_only=runs_programs))
                except EvalError as error:
                    yield f"{task.spec.source} cannot be scored: {error}"
                    return
        ours, theirs = scored
        if theirs.failures:
            yield f"theirs cannot be scored: {theirs.failures[0]}"
            return
        if ours.failures:
            yield f"ours cannot be scored: {ours.failures[0].metric} {ours.failures[0].reason}"
            return
        for number, (one, other) in enumerate(zip(ours.samples, theirs.samples, strict=True)):
            if not agree(_filtered(one), _filtered(other)):
                yield (
                    f"document {number} filtered: said {one['responses']!r:.300}\n    ours   "
                    f"{_filtered(one)!r:.500}\n    theirs {_filtered(other)!r:.500}"
                )
                return
        for column in theirs.items:
            mine, peer = ours.items.get(column), theirs.items[column]
            a, b = ours.measures.aggregation(column[0]), theirs.measures.aggregation(column[0])
            if mine is None:
                yield f"{column} is missing"
                continue
            if not agree(a.of(mine), b.of(peer)):
                yield f"{column}: {a.of(mine)}, {b.of(peer)}, of:{BOTH.format(mine, peer)}"
        more = {metric for metric, _ in ours.items.keys() - theirs.items.keys()} - extra
        if more:
            yield f"metrics only ours: {sorted(more)}"


def _filtered(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {entry["filter"]: entry["values"] for entry in sample["filtered"]}


def _responses(items: Sequence[Item], golden: Sequence[Item], salt: int) -> Iterator[Response]:
    table = Table()
    for item, peer in zip(items, golden, strict=True):
        gold = str(peer.target[0] if isinstance(peer.target, list) and peer.target else peer.target)
        for one in TextBackend("table", "table").encode(item.requests, seed=0):
            assert isinstance(one, TextRequest)
            repeat = one.repeat + 1000 * salt
            told = table.record(one.request.kind, one.request.arguments, repeat, gold)
            yield response_of(one, told)


def main() -> int:
    logging.disable(logging.WARNING)
    ours, theirs = libraries()
    patterns = sys.argv[1:] or ["*"]
    names = [n for n in shared(ours, theirs) if any(fnmatch.fnmatch(n, p) for p in patterns)]
    wrong = 0
    with stand_ins():
        for name in names:
            found = differences(ours, theirs, name)
            wrong += bool(found)
            for difference in found:
                sys.stdout.write(f"{name}: {difference}\n")
    sys.stdout.write(f"{len(names) - wrong} of {len(names)} are the same\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
