"""evalcore on the responses that lm-evaluation-harness was given; in a process without it.

Started by `quick_start.py` with a FOLDER, of which it reads order.json and table.json; writes
FOLDER/evalcore.jsonl, line by line what lm_eval_side.py writes.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalcore import evaluation
from evalcore.errors import TaskError
from evalcore.evaluation import Evaluation, evaluate
from evalcore.formats.lmeval.results import results_json
from evalcore.formats.lmeval.samples import task_hashes, task_lines
from evalcore.model.base import ChatTemplate, Request
from evalcore.model.fake import FakeLM
from evalcore.settings import Settings
from evalcore.task.library.load import TaskLibrary
from evalcore.watch import Silent
from tests.parity.orders import CHAT_TEMPLATE, FEWSHOT_SEED, ORDER, Setting, Table, render_chat


class RecordedLM(FakeLM):
    """Answers what was recorded, in the chat template of the recording."""

    def __init__(self, table: Table) -> None:
        super().__init__(lambda request, repeat: _recorded(table, request, repeat))

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        return ChatTemplate(text=CHAT_TEMPLATE, name=name, render=render_chat)


def _recorded(table: Table, request: Request, repeat: int) -> Any:
    return table.look_up(request.kind, request.arguments, repeat)


def main(arguments: Sequence[str]) -> None:
    logging.disable(logging.WARNING)
    # Compared is what is asked, also by tasks that publish no text.
    evaluation.without_text = dict
    folder = Path(arguments[0])
    order = ORDER.validate_json((folder / "order.json").read_bytes())
    library = TaskLibrary(
        [*([lm_evals_tasks()] if order.lm_evals_own else []), *map(Path, order.folders)]
    )
    model = RecordedLM(Table.read(folder / "table.json"))
    with (folder / "evalcore.jsonl").open("w") as out:
        for name in order.names:
            for setting in order.settings:
                outcome = {"name": name, "setting": setting.name}
                try:
                    outcome |= run(library, model, name, setting)
                except Exception as error:  # compared with what lm-eval made of this task
                    outcome["failed"] = f"{type(error).__name__}: {error}"
                out.write(f"{json.dumps(outcome, ensure_ascii=False)}\n")
    if "lm_eval.api.task" in sys.modules and "lm_eval.evaluator" in sys.modules:
        raise SystemExit("lm_eval was imported")


def lm_evals_tasks() -> Path:
    """lm-evaluation-harness's task folder; finding it imports nothing."""
    spec = importlib.util.find_spec("lm_eval")
    if spec is None or spec.origin is None:
        raise SystemExit("lm_eval is not installed")
    return Path(spec.origin).parent / "tasks"


def run(library: TaskLibrary, model: FakeLM, name: str, setting: Setting) -> dict[str, Any]:
    specs = library.select([name])
    leaves = [leaf.name for spec in specs for leaf in spec.leaves()]
    settings = Settings(
        mode="compat",
        fewshot_seed=FEWSHOT_SEED,
        **setting.options(leaves),
    )
    done: list[Evaluation] = []
    try:
        done.extend(evaluate(model, specs, settings, Silent()))
    except TaskError:
        if not done:  # a task without a number stands among the failures
            raise
    samples = {leaf: rows for one in done for leaf, rows in by_leaf(one).items()}
    hashes = task_hashes(sample for rows in samples.values() for sample in rows)
    results = results_json([one.record for one in done], {}, hashes)
    shown = ("results", "versions", "n-shot", "higher_is_better", "n-samples", "task_hashes")
    return {
        **{part: results[part] for part in shown},
        "groups": results.get("groups", {}),
        "failures": [
            f"{failure.task}, {failure.metric}, {failure.filter}: {failure.reason}"
            for evaluation in done
            for failure in evaluation.record.failures
        ],
        "samples": {
            leaf: [json.loads(line) for line in task_lines(rows)] for leaf, rows in samples.items()
        },
    }


def by_leaf(evaluation: Evaluation) -> dict[str, list[Any]]:
    samples: dict[str, list[Any]] = {}
    for sample in evaluation.samples:
        samples.setdefault(sample["task"], []).append(sample)
    return samples


if __name__ == "__main__":
    main(sys.argv[1:])
