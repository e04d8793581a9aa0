"""lm-eval's side of the toy tasks in `test_task_peer`; run in a process of its own.

Reads a list of {folder, name, shots, limit, samples, system, chat, multiturn, generation} as JSON
on standard input; prints one JSON line for each: the arguments of all requests.
"""

from __future__ import annotations

import copy
import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

from lm_eval.tasks import TaskManager

from tests.evalcore.worlds import written_turns

FEWSHOT_SEED = 1234


def main() -> None:
    logging.disable(logging.WARNING)
    cases = json.load(sys.stdin)
    manager = TaskManager(include_path=cases[0]["folder"], include_defaults=False)
    tasks = manager.load(sorted({case["name"] for case in cases}))["tasks"]
    own = {name: copy.deepcopy(task.config.generation_kwargs) for name, task in tasks.items()}
    for case in cases:
        task = tasks[case["name"]]
        task.set_config(key="generation_kwargs", value=copy.deepcopy(own[case["name"]]))
        sys.stdout.write(f"{json.dumps(_arguments(task, case))}\n")


def _arguments(task: Any, case: Mapping[str, Any]) -> list[Any]:
    task.set_config(key="num_fewshot", value=case["shots"])
    task.set_fewshot_seed(FEWSHOT_SEED)
    if task.OUTPUT_TYPE == "generate_until":
        task.set_config(key="generation_kwargs", value=case["generation"] or {}, update=True)
    task.build_all_requests(
        limit=case["limit"],
        samples=case["samples"],
        system_instruction=case["system"],
        apply_chat_template=case["chat"],
        fewshot_as_multiturn=case["multiturn"],
        chat_template=_template if case["chat"] else None,
    )
    return [[*request.args, request.repeats] for request in task.instances]


def _template(messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
    return written_turns(messages, add_generation_prompt)


if __name__ == "__main__":
    main()
