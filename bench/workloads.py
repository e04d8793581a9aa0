"""What is asked: the shapes of well-known benchmarks as task files that both engines read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from bench.texts import SUBJECTS, Row, texts

QUESTION = {"doc_to_text": "Question: {{query}}\nAnswer:"}
LETTERS = {
    "description": "The following are multiple choice questions (with answers).\n\n",
    "doc_to_text": (
        "{{query.strip()}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nC. {{choices[2]}}\n"
        "D. {{choices[3]}}\nAnswer:"
    ),
    "doc_to_choice": ["A", "B", "C", "D"],
    "doc_to_target": "gold",
}
SUM = {
    "output_type": "generate_until",
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_target": "{{answer}}",
    "metric_list": [{"metric": "exact_match"}],
}
ROLLING = {
    "output_type": "loglikelihood_rolling",
    "doc_to_text": "",
    "doc_to_target": "{{page}}",
}
FIXED = {"fewshot_config": {"sampler": "first_n"}}
"""The same examples, in the same order, before every question."""


@dataclass(frozen=True)
class Workload:
    """One benchmark's shape: texts, a task file's keys, and how many documents are asked about."""

    name: str
    title: str
    data: str
    """Of `bench.texts`."""
    keys: dict[str, Any]
    documents: int
    """On a CPU, of a model with a vocabulary of 32k."""
    shots: int = 0
    window: int | None = None
    """The longest input, where it is shorter than the model's."""
    rows: Sequence[Row] = field(default=(), compare=False)
    """Asked about instead of the data set's own."""

    @property
    def kind(self) -> str:
        return str(self.keys.get("output_type", "multiple_choice"))

    def with_documents(self, count: int) -> Workload:
        return replace(self, documents=count)

    def write(self, folder: Path) -> None:
        """Writes the task file and its data into the folder, which it makes."""
        found = texts(self.data)
        folder.mkdir(parents=True)
        rows = {"asked": (self.rows or found.asked)[: self.documents], "shown": found.examples}
        files = {}
        for split, of_split in rows.items():
            files[split] = str(folder / f"{split}.jsonl")
            lines = "".join(f"{json.dumps(row)}\n" for row in of_split)
            Path(files[split]).write_text(lines)
        task = {
            "task": self.name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": files, "cache_dir": str(folder / "cache")},
            "test_split": "asked",
            "training_split": "shown",
            "fewshot_split": "shown",
            "output_type": self.kind,
            "num_fewshot": self.shots,
            **({"metric_list": [{"metric": "acc"}]} if self.kind == "multiple_choice" else {}),
            **self.keys,
        }
        (folder / f"{self.name}.yaml").write_text(yaml.safe_dump(task))


def mmlu(subject: str, documents: int) -> Workload:
    """A subject's questions after five fixed examples of that subject."""
    return Workload(
        f"mmlu_{subject}", "MMLU, 5 shots", f"mmlu_{subject}", {**LETTERS, **FIXED}, documents,
        shots=5,
    )  # fmt: skip


def _generation(until: list[str]) -> dict[str, Any]:
    return {
        **SUM,
        **FIXED,
        "generation_kwargs": {
            "until": until,
            "max_gen_toks": 48,
            "do_sample": False,
            "temperature": 0.0,
        },
    }


CHOICES = {"doc_to_choice": "choices", "doc_to_target": "gold"}
WORKLOADS = {
    one.name: one
    for one in (
        Workload(
            "arc_25_shot", "ARC-Challenge, 25 shots that differ", "arc", {**QUESTION, **CHOICES}, 2,
            shots=25,
        ),
        Workload(
            "arc_25_shot_fixed", "ARC-Challenge, the same 25 shots", "arc",
            {**QUESTION, **CHOICES, **FIXED}, 3, shots=25,
        ),
        Workload(
            "arc_0_shot", "ARC-Challenge, no shots", "arc", {**QUESTION, **CHOICES}, 24,
        ),
        replace(mmlu(SUBJECTS[0], 50), name="mmlu_5_shot", title="MMLU, one subject, 5 shots"),
        Workload(
            "hellaswag_0_shot", "HellaSwag, no shots", "hellaswag",
            {"doc_to_text": "{{query}}", **CHOICES}, 20,
        ),
        Workload(
            "hellaswag_10_shot", "HellaSwag, 10 shots that differ", "hellaswag",
            {"doc_to_text": "{{query}}", **CHOICES}, 2, shots=10,
        ),
        Workload(
            "piqa_0_shot", "PIQA, no shots", "piqa", {**QUESTION, **CHOICES}, 40,
        ),
        Workload(
            "rolling", "perplexity of pages, windows of 1,024", "pages",
            ROLLING, 2, window=1024,
        ),
        Workload(
            "gsm8k_fixed_length", "GSM8K, the same 5 shots, 48 tokens", "gsm8k",
            _generation([]), 24, shots=5,
        ),
        Workload(
            "gsm8k_stops", "GSM8K, the same 5 shots, stop strings", "gsm8k",
            _generation(["\n", "q", "sh", "go"]), 24, shots=5,
        ),
    )
}  # fmt: skip
"""By name. Nothing is left out because it looks bad."""


@dataclass(frozen=True)
class Whole:
    """Tasks that are evaluated from their files to their scores."""

    name: str
    title: str
    workloads: tuple[Workload, ...]


WHOLE = {
    one.name: one
    for one in (
        Whole("whole_arc", "whole task: ARC, 25 shots that differ", (WORKLOADS["arc_25_shot"],)),
        Whole(
            "whole_mmlu",
            f"whole tasks: MMLU, 5 shots, {len(SUBJECTS)} subjects",
            tuple(mmlu(subject, 10) for subject in SUBJECTS),
        ),
        Whole("whole_gsm8k", "whole task: GSM8K, stop strings", (WORKLOADS["gsm8k_stops"],)),
    )
}
"""By name; through each engine's public function."""
