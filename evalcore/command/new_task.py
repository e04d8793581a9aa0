"""`evalcore new-task`: the folder of a new benchmark, with everything that it has to say."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from string import Template
from typing import Any

from evalcore.authoring.checklist import PLACEHOLDER
from evalcore.command.options import OptionError
from evalcore.command.selection import folder_to_change
from evalcore.task.library.family_list import STYLES
from evalcore.task.yaml_file import OWN_TASKS

CHOICE = Template("""\
# $fill: one sentence about what is asked.
family: $name
title: $name
# How a row reads, as Jinja expressions: the question, the list of answers, the right one's index.
rows:
  question: question
  choices: choices
  answer: answer
keys:
  include: _base
metadata:
  version: 1.0
  chance: 0.25
  known_gaps: "$fill: where this differs from the paper, or take the line out."
  changelog: {1.0: "first version"}
styles: [cloze, mmlu, hybrid, generate]
""")
BASE = Template("""\
# What every style of $name shares: data and splits. Included, never run by itself.
dataset_path: $dataset
training_split: train
test_split: test
fewshot_split: train
""")
GENERATE = Template("""\
# $fill: one sentence about what is asked.
task: $name
dataset_path: $dataset
training_split: train
test_split: test
fewshot_split: train
output_type: generate_until
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_target: answer
generation_kwargs:
  until: ["\\n\\n"]
  do_sample: false
  temperature: 0.0
  max_gen_toks: 64
filter_list:
  - name: stripped
    filter:
      - function: remove_whitespace
      - function: take_first
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
metadata:
  version: 1.0
  benchmark: $name
  style: generate
  chance: 0.0
  primary_metric: exact_match
  answer_extraction: "$fill: how the answer is found in what the model wrote."
  changelog: {1.0: "first version"}
""")
README = Template("""\
# $name: $fill

- **Source**: $fill: authors, year, title, [arXiv:0000.00000](https://arxiv.org/abs/0000.00000);
  data [$dataset](https://huggingface.co/datasets/$dataset), licence $fill.
- **Styles**: $tasks.
- **Shots**: 0 unless asked otherwise; examples are drawn from `train`. Scored: `test`.
- **Metric**: $metric.
- **Chance**: $fill.
- **Known gaps**: $fill.

Tested on rows written for this project, not on the real data set; no agreement with the paper is
claimed.

| Version | Change |
| --- | --- |
| 1.0 | first version |
""")
ROWS_README = Template("""\
---
configs:
  - config_name: default
    data_files:
      - {split: train, path: train.jsonl}
      - {split: test, path: test.jsonl}
---
Rows written for Plumbline in the columns of $dataset; not from that data set.
""")
EXAMPLES, QUESTIONS = 6, 5
"""Rows of each split: as many as the checklist asks for."""


def new_task(options: argparse.Namespace) -> int:
    """Writes the folder and says what to do next. Raises OptionError; then nothing is written."""
    name, dataset = options.name, options.dataset
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise OptionError(f"NAME: expected small letters, digits, _ and -, got {name!r}")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", dataset):
        raise OptionError(f"--dataset: expected ORG/NAME of the Hub, got {dataset!r}")
    tasks = folder_to_change(options.folder)
    folder, rows = tasks / name, tasks / "samples" / "datasets" / dataset
    if folder.exists():
        raise OptionError(f"NAME: {folder} is already there: choose another name")
    if options.kind == "choice" and not (tasks / STYLES).is_file():
        # How the prompt styles look, for the folder to keep: its tasks do not change with ours.
        _write(tasks / STYLES, (OWN_TASKS / STYLES).read_text(encoding="utf-8"))
    files = _files(name, dataset, options.kind)
    for file, text in files.items():
        _write(folder / file, text)
    if not rows.exists():
        _write(rows / "README.md", ROWS_README.substitute(dataset=dataset))
        for split, count in (("train", EXAMPLES), ("test", QUESTIONS)):
            lines = (json.dumps(_row(options.kind, number)) for number in range(count))
            _write(rows / f"{split}.jsonl", "".join(f"{line}\n" for line in lines))
    there = f" --include_path {tasks}" if options.folder else ""
    steps = [
        f"fill in {folder}/ (search for {PLACEHOLDER})",
        f"write the data set's columns into {rows}/, awkward rows included",
        f"evalcore show --own_rows --tasks {name}{there}",
        f"evalcore validate --own_rows --tasks {name}{there}",
        f"evalcore pin{f' {tasks}' if options.folder else ''}",
    ]
    sys.stdout.write(f"{folder} is made. Next (docs/tasks.md):\n")
    sys.stdout.write("".join(f"  {number}. {step}\n" for number, step in enumerate(steps, 1)))
    return 0


def _files(name: str, dataset: str, kind: str) -> dict[str, str]:
    about = {"name": name, "dataset": dataset, "fill": PLACEHOLDER}
    if kind == "choice":
        files = {"family.yaml": CHOICE, "_base": BASE}
        about["tasks"] = f"`{name}` (cloze), `{name}_mmlu`, `{name}_hybrid`, `{name}_generate`"
        about["metric"] = "`acc`; where texts are scored also `acc_norm` (by characters)"
    else:
        files = {f"{name}.yaml": GENERATE}
        about |= {"tasks": f"`{name}` (generated)", "metric": "`exact_match`"}
    files["README.md"] = README
    return {file: text.substitute(about) for file, text in files.items()}


def _row(kind: str, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {"question": f"{PLACEHOLDER} {number}?"}
    if kind == "choice":
        return {**row, "choices": ["a", "b", "c", "d"], "answer": number % 4}
    return {**row, "answer": str(number)}


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
