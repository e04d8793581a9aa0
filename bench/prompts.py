"""All requests of a 5-shot multiple-choice task, from data at hand to texts."""

from __future__ import annotations

import json
import logging
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.timing import Comparison, seconds, silence

DOCUMENTS = 300
SHOTS = 5
TASK = """
task: bench_prompts
dataset_path: json
dataset_kwargs:
  data_files: {{test: {folder}/test.jsonl, train: {folder}/train.jsonl}}
test_split: test
fewshot_split: train
output_type: multiple_choice
doc_to_text: "{{{{question.strip()}}}}\\nA. {{{{choices[0]}}}}\\nB. {{{{choices[1]}}}}\\nAnswer:"
doc_to_choice: ["A", "B"]
doc_to_target: answer
metric_list: [{{metric: acc}}]
"""


def compare() -> Iterator[Comparison]:
    logging.disable(logging.WARNING)
    from lm_eval.tasks import TaskManager

    from evalcore.task.asking.task import Task
    from evalcore.task.library.load import TaskLibrary

    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder))
        with silence():
            manager = TaskManager(include_path=folder, include_defaults=False)
            theirs = manager.load(["bench_prompts"])
        task = theirs["tasks"]["bench_prompts"]
        task.set_config(key="num_fewshot", value=SHOTS)
        task.set_fewshot_seed(1234)
        spec = TaskLibrary([Path(folder)]).one("bench_prompts")
        ours = Task(spec, mode="compat", num_fewshot=SHOTS)  # type: ignore[arg-type]
        assert ours.docs
        with silence():
            taken = seconds(lambda: task.build_all_requests(limit=None))
        texts = [list(instance.args) for instance in task.instances]
        items = []
        comparison = Comparison(
            f"requests of {DOCUMENTS} documents, {SHOTS} shots",
            taken,
            seconds(lambda: items.extend(ours.items())),
        )
        if texts != [[r.context, r.continuation] for item in items for r in item.requests]:
            raise SystemExit("the two engines built different requests")
        yield comparison


def _write(folder: Path) -> None:
    generator = random.Random(0)
    for split, count in (("test", DOCUMENTS), ("train", 100)):
        rows = [
            {
                "question": f" What is {generator.randrange(1000)} plus {number}? ",
                "choices": [str(generator.randrange(1000)) for _ in range(2)],
                "answer": generator.randrange(2),
            }
            for number in range(count)
        ]
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "bench_prompts.yaml").write_text(TASK.format(folder=folder))
