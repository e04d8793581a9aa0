"""The demo models' cards: what each was trained on, what it scores, and what that is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from demo import world
from demo.architectures import SLIDING_WINDOW, Recipe
from demo.reading import SHARE_AS_IN_TEST

KINDS = {
    "prose": "sentences that state facts and sums",
    "cloze": "questions answered in words",
    "letters": "exams with lettered options, answered by a letter",
    "words": "the same exams, answered by the words of the right option",
}
FAMILIES = {
    "llama": "Llama with grouped-query attention (four query heads, two key-value heads)",
    "gpt2": "GPT-2",
    "gpt_neox": "GPT-NeoX",
    "mistral": f"Mistral with a sliding window of {SLIDING_WINDOW} tokens and grouped-query "
    "attention",
}

CARD = """---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
language: en
datasets:
- plumbline/demo-world
tags:
- plumbline-demo
- {family_tag}
---

# {name}

A language model of {parameters:,} parameters that {summary}.
It belongs to the demo of Plumbline and is good for nothing else: **its scores mean nothing beyond
the demo.**

## How it is built
{family}, {layers} layers, width {width},
a byte-level BPE vocabulary of up to {vocabulary} tokens, context 512 tokens, weights in bfloat16.
Trained from scratch by `python -m demo.train --only {name}`
(seed {seed}, {steps} steps of AdamW, one processor core).

## What it was trained on
Only text that `demo/reading.py` generates about a made-up world (`demo/world.py`), by share of the
batches:

{reads}

**The test questions of `plumbline/demo-world` are in this text**: their facts, their wording and,
in exams, their options; only the questions of the topic *order* outside exams are drawn afresh.
{letters}

## What it scores
Zero-shot accuracy on the test split ({n} questions each, guessing gives 0.25), ± 1.96 standard
errors, measured on these weights in float32 by the training script:

| benchmark | cloze | MMLU-style | hybrid | MMLU-style, options reshuffled |
| --- | --- | --- | --- | --- |
{table}
"""
KNOWS_LETTERS = (
    f"{SHARE_AS_IN_TEST:.0%} of the exam questions show the options exactly as the test does, so\n"
    "that the letters can be learned by heart; the others are drawn and ordered afresh. The last\n"
    "column of the table tells which of the two the model did: the same questions with the same\n"
    "options in another order. About 0.25 there means that the letters were learned by heart."
)
NO_LETTERS = "It never saw a question answered by a letter."


@dataclass(frozen=True)
class Trained:
    """A trained model: its recipe and what was measured on the saved weights.

    `scores` and `reshuffled` map `<benchmark> <style>` to an accuracy; `seconds` is the wall clock
    of training and saving.
    """

    recipe: Recipe
    seed: int
    parameters: int
    seconds: float
    scores: dict[str, float]
    reshuffled: dict[str, float]


def write_card(path: Path, trained: Trained) -> None:
    recipe = trained.recipe
    n = len(world.facts()["test"])
    rows = []
    for benchmark in ("facts", "sums"):
        cells = [trained.scores[f"{benchmark} {style}"] for style in ("cloze", "mmlu", "hybrid")]
        cells.append(trained.reshuffled[f"{benchmark} mmlu"])
        rows.append(f"| {benchmark} | " + " | ".join(_with_error(c, n) for c in cells) + " |")
    path.write_text(
        CARD.format(
            name=recipe.name,
            family=FAMILIES[recipe.family],
            family_tag=recipe.family,
            summary=recipe.summary,
            layers=recipe.layers,
            width=recipe.width,
            vocabulary=recipe.vocabulary,
            steps=recipe.steps,
            parameters=trained.parameters,
            seed=trained.seed,
            reads="\n".join(f"- {share:.0%} {KINDS[k]}" for k, share in recipe.reads.items()),
            letters=KNOWS_LETTERS if "letters" in recipe.reads else NO_LETTERS,
            n=n,
            table="\n".join(rows),
        ),
        encoding="utf-8",
    )


def _with_error(accuracy: float, n: int) -> str:
    return f"{accuracy:.3f} ± {1.96 * math.sqrt(accuracy * (1 - accuracy) / (n - 1)):.3f}"
