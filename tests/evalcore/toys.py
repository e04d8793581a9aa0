"""Small tasks of every output type, and a model that answers them by a fixed rule of the text."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.errors import TaskError
from evalcore.evaluation import Evaluation
from evalcore.library import evaluate
from evalcore.model.base import ChatTemplate, Request
from evalcore.model.fake import FakeLM
from evalcore.record import RunRecord
from tests.evalcore.worlds import task_text

STAMP = "2026-11-21T11-38-11.664243"

TASKS: dict[str, dict[str, Any]] = yaml.safe_load(r"""
toy_choice:
  tag: toys
  output_type: multiple_choice
  doc_to_text: "Q: {{question}}\nA:"
  doc_to_choice: choices
  doc_to_target: answer
  metric_list: [{metric: acc}, {metric: acc_norm}, {metric: exact_match}, {metric: mcc}]
  metadata: {version: 1.5}
toy_shots:
  tag: toys
  output_type: multiple_choice
  description: "Answer. "
  doc_to_text: "{{question}}"
  doc_to_choice: choices
  doc_to_target: "{{choices[answer]}}"
  num_fewshot: 2
  metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
toy_likely:
  output_type: loglikelihood
  doc_to_text: "{{question}}"
  doc_to_target: "{{' ' + choices[answer]}}"
  metadata: {version: 0}
toy_rolling:
  output_type: loglikelihood_rolling
  doc_to_text: ""
  doc_to_target: "{{text}}"
toy_written:
  output_type: generate_until
  doc_to_text: "{{question}} Number?"
  doc_to_target: number
  num_fewshot: 1
  repeats: 2
  generation_kwargs: {until: ["\n"], max_gen_toks: 8, do_sample: true, temperature: 0.5}
  filter_list:
    - name: strict
      filter: [{function: regex, regex_pattern: 'is (\d)'}, {function: take_first}]
    - name: flexible
      filter:
        - {function: regex, regex_pattern: '(\d)', group_select: -1}
        - function: majority_vote
        - function: take_first
  metric_list: [{metric: exact_match, ignore_case: true}, {metric: bleu}]
""")
GROUPS: dict[str, dict[str, Any]] = yaml.safe_load("""
toy_group:
  group_alias: Toys
  task:
    - toy_choice
    - toy_shots
    - group: toy_inner
      task: [toy_written]
      aggregate_metric_list: [{metric: exact_match, weight_by_size: false}]
  aggregate_metric_list: [{metric: acc}]
  metadata: {version: 2}
toy_plain:
  task: [toy_likely, toy_rolling]
""")


def write_toys(folder: Path) -> Path:
    """Writes data and task files; returns the folder of the task files."""
    tasks = folder / "tasks"
    tasks.mkdir(parents=True)
    files = {}
    for split, noun in (("train", "land"), ("test", "country")):
        files[split] = str(folder / f"{split}.jsonl")
        lines = [json.dumps(_row(number, noun)) + "\n" for number in range(12)]
        Path(files[split]).write_text("".join(lines))
    data = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": files, "cache_dir": str(folder / "cache")},
        "training_split": "train",
        "test_split": "test",
        "fewshot_split": "train",
    }
    for name, keys in TASKS.items():
        (tasks / f"{name}.yaml").write_text(yaml.safe_dump({"task": name, **data, **keys}))
    for name, keys in GROUPS.items():
        (tasks / f"{name}.yaml").write_text(yaml.safe_dump({"group": name, **keys}))
    return tasks


def write_toy(tasks: Path, name: str, like: str = "", **keys: Any) -> None:
    """Writes the task `name` as the toy `like` is, or it itself, but for these keys.

    None leaves a key out; a text that begins with !function names one.
    """
    stated = yaml.safe_load((tasks / f"{like or name}.yaml").read_text())
    stated.update({"task": name, **keys})
    kept = {key: value for key, value in stated.items() if value is not None}
    (tasks / f"{name}.yaml").write_text(task_text(kept))


def _row(number: int, noun: str) -> dict[str, Any]:
    return {
        "question": f"What is the capital of {noun} {number}?",
        "choices": [f"city {number} {x}" + "x" * (i * number % 4) for i, x in enumerate("abc")],
        "answer": number % 3,
        "text": f"Country {number} is a fine\nplace, “big”.",
        "number": str(number % 5),
    }


RULE = """
import random

def share(*texts):
    return random.Random("|".join(texts)).random()

def likely(context, continuation):
    return -20 * share(SALT, context, continuation), share(SALT, continuation, context) > 0.5

def rolled(text):
    return -100 * share(SALT, text)

def written(context, repeat):
    first = int(5 * share(SALT, context, str(repeat)))
    return f"It is {first} or {int(5 * share(SALT, context))}."

def chat(messages, answer_begins):
    text = "".join(f"[{turn['role']}: {turn['content']}]" for turn in messages)
    return text + ("[assistant: " if answer_begins else "")
"""
"""The model, in code that another process can run, too."""


class ToyLM(FakeLM):
    """Answers by RULE; another `salt` is another model."""

    def __init__(self, salt: str = "") -> None:
        self._rule: dict[str, Any] = {"SALT": salt, "random": random}
        exec(RULE, self._rule)
        super().__init__(self._by_rule, identity=f"toy {salt}")

    def _by_rule(self, request: Request, repeat: int) -> Any:
        if request.kind == "loglikelihood":
            return self._rule["likely"](request.context, request.continuation)
        if request.kind == "loglikelihood_rolling":
            return self._rule["rolled"](request.continuation)
        return self._rule["written"](request.context, repeat)

    def chat_template(self, name: str | None = None) -> ChatTemplate:
        return ChatTemplate(text="TEMPLATE", name=name, render=self._rule["chat"])


def evaluated(
    tasks: Path, names: str = "toy_group,toy_plain", *, salt: str = "", **settings: Any
) -> list[Evaluation]:
    settings = {"bootstrap_iters": 1000, **settings}
    return evaluate(ToyLM(salt), names.split(","), include_path=tasks, **settings)


def evaluated_strictly(tasks: Path) -> list[Evaluation]:
    """In strict `toy_group` is told as a failure: one of its tasks has no `acc`."""
    with pytest.raises(TaskError, match="toy_group has no number: acc") as failed:
        evaluated(tasks, mode="strict")
    return list(failed.value.finished)


def write_run(folder: Path, evaluations: list[Evaluation]) -> list[Path]:
    """The files of the records, each with its samples beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        evaluation.write(folder, f"{evaluation.record.task}_{STAMP}")[0]
        for evaluation in evaluations
    ]


def records_in(folder: Path) -> dict[str, RunRecord]:
    """By task what was written below the folder."""
    found = (RunRecord.read(file) for file in folder.rglob("record_*.json"))
    return {record.task: record for record in found}
