"""lm-evaluation-harness on recorded responses; run in a process of its own, against a local Hub.

Started by `quick_start.py` with a FOLDER: it reads FOLDER/order.json, writes FOLDER/table.json and
one line per task and setting to FOLDER/lm_eval.jsonl (see `outcomes`).
"""

from __future__ import annotations

import json
import logging
import random
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import lm_eval
import numpy as np
import sklearn.metrics
from lm_eval import evaluator
from lm_eval.api.model import LM
from lm_eval.filters import extraction
from lm_eval.tasks import TaskManager
from lm_eval.utils import env, handle_non_serializable, hash_string, sanitize_list

from tests.parity.orders import (
    CHAT_TEMPLATE,
    FEWSHOT_SEED,
    ORDER,
    Order,
    Setting,
    Table,
    render_chat,
)
from tests.parity.quick_start import keep_index, look_up_each_data_set_once

# It compiles a template again for each document.
env.from_string = cache(env.from_string)
# It looks for punctuation among all of Unicode each time that a filter of letters is applied.
PUNCTUATION = [
    number for number in range(sys.maxunicode) if unicodedata.category(chr(number)).startswith("P")
]


def _looked_through(*limits: int) -> Iterable[int]:
    return PUNCTUATION if limits == (sys.maxunicode,) else range(*limits)


extraction.range = _looked_through


def _once_for_equal_counts(measure: Callable[..., Any]) -> Callable[..., Any]:
    """It looks at how often each pair of a right and a given answer occurs, and at nothing else:
    of two thousand samples of ten documents, a few dozen are different to it."""
    known: dict[Any, Any] = {}

    def measured(golds: Sequence[Any], given: Sequence[Any]) -> Any:
        pairs = [(type(a), a, type(b), b) for a, b in zip(golds, given, strict=True)]
        try:
            counts = frozenset(Counter(pairs).items())
        except TypeError:  # several answers at once
            return measure(golds, given)
        if counts not in known:
            known[counts] = measure(golds, given)
        return known[counts]

    return measured


for _name in ("f1_score", "matthews_corrcoef"):
    setattr(sklearn.metrics, _name, _once_for_equal_counts(getattr(sklearn.metrics, _name)))


class RecordingLM(LM):  # type: ignore[misc]
    MULTIMODAL = True  # lm-eval gives tasks with images to no other
    """Answers from the table, and writes into it what is asked for the first time."""

    tokenizer_name = "parity"

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table
        self.tasks: dict[str, Any] = {}

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        return [(value, flag) for value, flag in self._answers(requests)]

    def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
        return list(self._answers(requests))

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        return list(self._answers(requests))

    def apply_chat_template(
        self, chat_history: Sequence[Any], add_generation_prompt: bool = True
    ) -> str:
        return render_chat(chat_history, add_generation_prompt)

    def chat_template(self, chat_template: bool | str = False) -> str:
        return CHAT_TEMPLATE if chat_template else ""

    def _answers(self, requests: Sequence[Any]) -> Iterator[Any]:
        before, repeat = None, 0
        for request in requests:
            repeat = repeat + 1 if request is before else 0
            before = request
            gold = self._gold(request) if request.request_type == "generate_until" else ""
            yield self._table.record(request.request_type, request.args, repeat, gold)

    def _gold(self, request: Any) -> str:
        task = self.tasks[request.task_name]
        target = task.doc_to_target(request.doc)
        if isinstance(target, int) and task.config.doc_to_choice is not None:
            target = task.doc_to_choice(request.doc)[target]
        return str(target[0] if isinstance(target, list) and target else target)


def main(arguments: Sequence[str]) -> None:
    logging.disable(logging.WARNING)
    # The description of the machine in each results file takes seconds and is not compared.
    evaluator.add_env_info = lambda _: None
    evaluator.get_git_commit_hash = lambda: None
    folder = Path(arguments[0])
    order = ORDER.validate_json((folder / "order.json").read_bytes())
    folders = list(order.exported or order.folders)
    keep_index()
    look_up_each_data_set_once()
    manager = TaskManager(include_path=folders, include_defaults=order.lm_evals_own)
    model = RecordingLM(Table())
    with (folder / "lm_eval.jsonl").open("w") as out:
        for name in order.names:
            for outcome in outcomes(manager, model, name, order):
                line = json.dumps(outcome, default=_plain, ensure_ascii=False)
                out.write(f"{line}\n")
    model._table.write(folder / "table.json")


def _plain(value: Any) -> Any:
    """Arrays with all their digits; the rest as lm-evaluation-harness writes it."""
    return value.tolist() if isinstance(value, np.ndarray) else handle_non_serializable(value)


def outcomes(
    manager: TaskManager, model: RecordingLM, name: str, order: Order
) -> Iterator[dict[str, Any]]:
    """One for each setting; where lm-evaluation-harness itself fails, why."""
    try:
        # As its command does before it loads tasks, some of which shuffle their documents.
        random.seed(0)
        np.random.seed(FEWSHOT_SEED)
        loaded = manager.load([name])
    except Exception as error:
        yield {"name": name, "setting": None, "failed": f"{type(error).__name__}: {error}"}
        return
    # A run's options are written into the tasks: each run must begin with the tasks' own.
    own = {
        leaf: {key: deepcopy(task.get_config(key)) for key in ("num_fewshot", "generation_kwargs")}
        for leaf, task in loaded["tasks"].items()
    }
    model.tasks = {task.config.task: task for task in loaded["tasks"].values()}
    whole = list(loaded.get("groups", {}).values())[:1] or list(loaded["tasks"].values())
    for setting in order.settings:
        for leaf, task in loaded["tasks"].items():
            for key, value in own[leaf].items():
                task.set_config(key=key, value=deepcopy(value))
        try:
            yield {
                "name": name,
                "setting": setting.name,
                **run(manager, model, whole, list(loaded["tasks"]), setting),
            }
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            yield {"name": name, "setting": setting.name, "failed": why}


def run(
    manager: TaskManager, model: LM, tasks: list[Any], leaves: list[str], setting: Setting
) -> dict[str, Any]:
    results = lm_eval.simple_evaluate(
        model=model,
        tasks=tasks,
        task_manager=manager,
        fewshot_random_seed=FEWSHOT_SEED,
        **setting.options(leaves),
    )
    samples = {
        task: [as_logged(sample) for sample in of] for task, of in results["samples"].items()
    }
    shown = ("results", "versions", "n-shot", "higher_is_better", "n-samples")
    return {
        **{part: results[part] for part in shown},
        "groups": results.get("groups", {}),
        "samples": samples,
        "task_hashes": {
            task: hash_string(
                "".join(
                    sample["doc_hash"] + sample["prompt_hash"] + sample["target_hash"]
                    for sample in of
                )
            )
            for task, of in samples.items()
        },
    }


def as_logged(sample: dict[str, Any]) -> dict[str, Any]:
    """A sample as lm-evaluation-harness's samples JSONL has it."""
    return {
        **sample,
        "arguments": {
            f"gen_args_{place}": {f"arg_{number}": argument for number, argument in enumerate(args)}
            for place, args in enumerate(sample["arguments"])
        },
        "resps": sanitize_list(sample["resps"]),
        "filtered_resps": sanitize_list(sample["filtered_resps"]),
        "target": str(sample["target"]),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
