"""The samples of one made-up run: prompts, answers and loglikelihoods that give its scores."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cached_property
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demo.generated.benchmarks import LETTERS, METRIC, Column
from demo.generated.questions import question
from evalcore.digest import digest_of
from evalcore.record import SCHEMA_VERSION
from evalcore.score.sample import Sample, as_json


class Samples:
    """All samples of a column under given scores, in the order of the questions."""

    def __init__(self, column: Column, right: NDArray[np.float32], *, name: str) -> None:
        """`right` has a score of 0 or 1 for each question; `name` decides everything else."""
        self._column = column
        self._right = right
        self._name = name

    def __iter__(self) -> Iterator[Sample]:
        return (self._sample(place) for place in range(self._column.benchmark.n))

    def _sample(self, place: int) -> Sample:
        asked, column = self._column.benchmark, self._column
        doc = asked.document(place)
        right = bool(self._right[place])
        draw = random.Random(f"{self._name}/{column.name}/{place}")
        gold = doc["answer"]
        pick = gold if right else draw.choice([c for c in range(asked.choices) if c != gold])
        prompt = self._examples[asked.part[place]] + self._asked(doc)
        continuations = [f" {text}" for text in self._answers(doc)]
        responses = list(self._responses(prompt, continuations, pick, draw))
        return {
            "schema_version": SCHEMA_VERSION,
            "task": column.tasks[asked.part[place]],
            "split": "test",
            "doc_id": int(asked.doc_id[place]),
            "doc_digest": asked.doc_digests[place],
            "doc": json.dumps(doc, ensure_ascii=False),
            "cluster": doc.get("passage"),
            "subset": doc.get("subject"),
            "shots": [{"split": "dev", "row": row} for row in range(asked.shots)],
            "prompt": prompt,
            "choices": list(self._answers(doc)),
            "gold": [gold],
            "target": continuations[gold],
            "answer": str(gold),
            "choices_are_contexts": False,
            "several_answers": False,
            "pick": pick,
            "correct": float(right),
            "arguments": [
                {"context": prompt, "continuation": text, "kind": "loglikelihood"}
                for text in continuations
            ],
            "repeats": 1,
            "responses": responses,
            "filtered": [{"filter": "none", "values": _as_filtered(responses)}],
            "scores": [{"metric": METRIC, "filter": "none", "value": float(right), "item": None}],
        }

    def _responses(
        self, prompt: str, continuations: list[str], pick: int, draw: random.Random
    ) -> Iterator[dict[str, Any]]:
        """One for each choice; the picked one is the likeliest by a margin."""
        best = log(draw.uniform(0.3, 0.95))
        for place, text in enumerate(continuations):
            likely = best if place == pick else best - draw.expovariate(0.6) - 0.01
            shares = [draw.uniform(0.5, 1) for _ in text.split()]
            logprobs = np.array(likely * np.array(shares) / sum(shares), dtype=np.float32)
            yield {
                "key": digest_of([self._name, prompt[-80:], text]),
                "kind": "loglikelihood",
                "loglikelihood": likely,
                "is_greedy": place == pick and likely > log(0.5),
                "token_ids": [draw.randrange(100, 32_000) for _ in shares],
                "token_logprobs": logprobs.tolist(),
                "n_context_tokens": len(prompt) // 4,
                "n_truncated": 0,
                "path": "packed",
            }

    @cached_property
    def _examples(self) -> list[str]:
        """What stands before the question, by part."""
        asked = self._column.benchmark
        return [self._shots(part) for part in asked.part_names or ("",)]

    def _shots(self, part: str) -> str:
        asked = self._column.benchmark
        shots = ""
        for row in range(asked.shots):
            doc = question(f"{asked.name}/dev/{part}/{row}", asked.choices)
            shots += f"{self._asked(doc)} {self._answers(doc)[doc['answer']]}\n\n"
        return shots

    def _asked(self, doc: dict[str, Any]) -> str:
        if self._column.style == "cloze":
            return f"Question: {doc['question']}\nAnswer:"
        lines = zip(LETTERS, doc["choices"], strict=False)
        return "\n".join([doc["question"], *(f"{a}. {text}" for a, text in lines), "Answer:"])

    def _answers(self, doc: dict[str, Any]) -> list[str]:
        choices: list[str] = doc["choices"]
        return list(LETTERS[: len(choices)]) if self._column.style == "mmlu" else choices


def _as_filtered(responses: list[dict[str, Any]]) -> str:
    return as_json([(response["loglikelihood"], response["is_greedy"]) for response in responses])
