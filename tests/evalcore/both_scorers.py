"""The same task asked by lm-eval and by us, and the same responses scored."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml

from evalcore.building import task_of
from evalcore.model.base import Request, Response
from evalcore.score.numbers.aggregate import aggregate
from evalcore.score.scored import ScoredTask
from evalcore.score.scoring import score_task
from evalcore.task.asking.task import Mode, Task
from evalcore.task.config import TaskSpec
from tests.evalcore.worlds import Rows, World, write_tasks
from tests.parity import NEEDS_LM_EVAL


def peer(test: Any) -> Any:
    """Marks a test that needs lm-eval."""
    for mark in NEEDS_LM_EVAL:
        test = mark(test)
    return test


def load_in_lm_eval(spec: TaskSpec) -> Any:
    """lm-eval's own task of the same file."""
    os.environ["DISABLE_MULTIPROC"] = "1"
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks._yaml_loader import load_yaml

    config = load_yaml(spec.source, resolve_func=True)
    return config.pop("class", ConfigurableTask)(config=config)


def requests_of(task: Any, *, shots: int | None = None, **options: Any) -> list[Any]:
    """What a task of lm-eval's asks, with these options of its `build_all_requests`."""
    if shots is not None:
        task.set_config(key="num_fewshot", value=shots)
    task.set_fewshot_seed(seed=1234)
    task.build_all_requests(**{"rank": 0, "world_size": 1, **options})
    return list(task.instances)


Answer = Callable[[Request, int], Any]
"""From a request and a repeat to (loglikelihood, is greedy), a loglikelihood or a text."""


def response(request: Request, answer: Any) -> Response:
    loglikelihood, is_greedy, text = 0.0, False, None
    if request.kind == "loglikelihood":
        loglikelihood, is_greedy = answer
    elif request.kind == "generate_until":
        text = answer
    else:
        loglikelihood = answer
    return Response(
        key="key",
        kind=request.kind,
        loglikelihood=loglikelihood,
        is_greedy=is_greedy,
        token_ids=tuple(range(len(request.continuation) // 2 + 1)),
        token_logprobs=(),
        n_context_tokens=0,
        n_truncated=0,
        text=text,
    )


def scored(task: Task, answer: Answer) -> ScoredTask:
    """The task with every request answered by the function."""
    items = task.items()
    responses = (
        response(request, answer(request, repeat))
        for item in items
        for request in item.requests
        for repeat in range(request.repeats)
    )
    return score_task(task, items, responses)


class Scene:
    """A task file, its documents and its code, in a folder."""

    def __init__(self, folder: Path, rows: Rows, keys: str, code: str = "") -> None:
        """`keys` is what the file says but for its name and data; `code` is the module `code`."""
        data = World(folder).data(test=rows)
        (folder / "tasks").mkdir()
        (folder / "tasks" / "code.py").write_text(code)
        text = yaml.safe_dump({"task": "scene", "test_split": "test", **data}) + dedent(keys)
        (self.spec,) = write_tasks(folder / "tasks", {"scene.yaml": text}).select(["scene"])

    def scored(self, answer: Answer, mode: Mode = "compat") -> ScoredTask:
        return scored(task_of(self.spec, mode=mode), answer)

    def ours(
        self, answer: Answer, *, mode: Mode = "compat", iters: int = 0
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Our numbers by lm-eval's names of them, and why the others failed, by metric."""
        task = self.scored(answer, mode)
        keys = {task.name: "run"}
        rows, failures = aggregate(self.spec, [task], keys, mode=mode, bootstrap_iters=iters)
        numbers: dict[str, Any] = {}
        for row in rows:
            stderr = "N/A" if row.compat_stderr is None else row.compat_stderr
            numbers[f"{row.metric},{row.filter}"] = row.value
            numbers[f"{row.metric}_stderr,{row.filter}"] = stderr
        return numbers, {failure.metric: failure.reason for failure in failures}

    def theirs(self, answer: Answer, *, iters: int = 0) -> dict[str, Any]:
        """What lm-eval prints for the same file. Raises whatever it raises."""
        task = load_in_lm_eval(self.spec)
        from lm_eval.evaluator_utils import _compute_task_aggregations

        by_doc = defaultdict(list)
        for instance in requests_of(task):
            request = _request(instance)
            instance.resps = [answer(request, repeat) for repeat in range(instance.repeats)]
            by_doc[instance.doc_id].append(instance)
        task.apply_filters()
        raw: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for name in task.instances[0].filtered_resps:
            for doc_id, doc in task.doc_iterator(rank=0, limit=None, world_size=1):
                results = [instance.filtered_resps[name] for instance in by_doc[doc_id]]
                for metric, value in task.process_results(doc, results).items():
                    raw[metric, name].append(value)
        numbers, _ = _compute_task_aggregations(task, raw, iters)
        return dict(numbers)


def _request(instance: Any) -> Request:
    kind, arguments = instance.request_type, instance.args
    if kind == "loglikelihood":
        return Request(kind, *arguments)
    if kind == "loglikelihood_rolling":
        return Request(kind, "", arguments[0])
    return Request(kind, arguments[0], "", arguments[1])


GENERATE = """
    output_type: generate_until
    doc_to_text: "{{question}}"
    doc_to_target: answer
    generation_kwargs: {until: ["."]}
"""
CHOICES = """
    output_type: multiple_choice
    doc_to_text: "{{question}}"
    doc_to_choice: choices
    doc_to_target: answer
"""


def chances(request: Any, repeat: int) -> Any:
    """Loglikelihoods that depend on nothing but the request."""
    draw = random.Random(f"{request.context}/{request.continuation}/{repeat}")
    number = -draw.random() * 20
    return number if request.kind == "loglikelihood_rolling" else (number, draw.random() < 0.3)


def texts(*options: str) -> Any:
    def answer(request: Any, repeat: int) -> str:
        return random.Random(f"{request.context}/{repeat}").choice(options)

    return answer


def places(count: int) -> list[dict[str, Any]]:
    return [{"question": f"{n}?", "answer": ["Paris", "Rome", "Oslo"][n % 3]} for n in range(count)]


PLACES = texts("Paris", "Rome", "Oslo", "It is Rome.", "paris  ", "answer: Oslo!")
