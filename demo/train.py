"""Train the demo models from scratch: `python -m demo.train [--only NAME]`, minutes on one core.

Each model is saved as bfloat16 safetensors with tokenizer, configuration and card, loaded again
from there, and scored on the demo benchmark in all three prompt styles.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from demo import world
from demo.architectures import RECIPES, Recipe, build_config, build_tokenizer
from demo.cards import Trained, write_card
from demo.reading import LETTERS, Document, Library, cloze_prompt, exam_header, exam_question
from demo.world import Row

MODELS = Path(__file__).parent / "content" / "models"
CHARACTERS_PER_BATCH = 5000
TEXTS_PER_BATCH = 64
SHARE_OF_SINGLES = 0.85  # the other documents hold two to four questions, for few-shot prompts
LEARNING_RATE = 2e-3
IGNORED = -100
STYLES = ("cloze", "mmlu", "hybrid")

Scores = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[recipe.name for recipe in RECIPES])
    parser.add_argument("--output", type=Path, default=MODELS)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    for recipe in RECIPES:
        if args.only in (None, recipe.name):
            print_row(make(recipe, args.output, args.seed))


def make(recipe: Recipe, output: Path, seed: int) -> Trained:
    """Train, save below `output`, score what was saved, and describe it on its card."""
    torch.set_num_threads(1)  # two threads are slower at this size
    folder = output / recipe.model_id
    started = time.perf_counter()
    tokenizer, model = start(recipe, folder, seed)
    learn(recipe, tokenizer, model, seed)
    model.bfloat16()
    model.save_pretrained(folder)
    seconds = time.perf_counter() - started

    trained = Trained(
        recipe=recipe,
        seed=seed,
        parameters=model.num_parameters(),
        seconds=seconds,
        scores=score_saved(folder, test_rows()),
        reshuffled=score_saved(folder, reshuffled_rows(seed)),
    )
    write_card(folder / "README.md", trained)
    return trained


def start(
    recipe: Recipe, folder: Path, seed: int
) -> tuple[PreTrainedTokenizerBase, PreTrainedModel]:
    """An untrained model, and its tokenizer as every later reader of `folder` will load it."""
    torch.manual_seed(seed)
    fresh = build_tokenizer(recipe, seed)
    config = build_config(recipe, fresh)
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.generation_config.pad_token_id = fresh.pad_token_id
    fresh.save_pretrained(folder)
    model.config.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder), model


def learn(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, seed: int
) -> None:
    """`recipe.steps` steps of AdamW: a short warm-up, a plateau, and a decay to nothing."""
    library, rng = Library(), random.Random(f"{seed}/{recipe.name}")
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, (0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 40, (1 - step / recipe.steps) / 0.4)
    )
    model.train()
    for step in range(recipe.steps):
        kind = rng.choices(list(recipe.reads), list(recipe.reads.values()))[0]
        questions = 1 if rng.random() < SHARE_OF_SINGLES else rng.randint(2, 4)
        draw = library.kinds[kind]
        documents = [draw(rng, questions)]
        documents += [
            draw(rng, questions) for _ in range(CHARACTERS_PER_BATCH // len(documents[0].text))
        ]
        loss = loss_on(model, *encode(tokenizer, documents))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 100 == 0:
            print(
                f"{recipe.name}: step {step + 1} of {recipe.steps}, {kind} {loss:.3f}", flush=True
            )


def encode(
    tokenizer: PreTrainedTokenizerBase, documents: Sequence[Document]
) -> tuple[Tensor, Tensor]:
    """Token ids [document, position], padded on the right, and labels: targets and the end."""
    encoded = tokenizer([d.text for d in documents], return_offsets_mapping=True)
    width = 1 + max(map(len, encoded["input_ids"]))
    ids = torch.full((len(documents), width), tokenizer.pad_token_id)
    labels = torch.full((len(documents), width), IGNORED)
    for i, document in enumerate(documents):
        tokens, n = encoded["input_ids"][i], len(encoded["input_ids"][i])
        ids[i, : n + 1] = torch.tensor([*tokens, tokenizer.eos_token_id])
        labels[i, n] = tokenizer.eos_token_id
        for j, (start_, end) in enumerate(encoded["offset_mapping"][i]):
            if any(a <= start_ < end <= b for a, b in document.targets):
                labels[i, j] = tokens[j]
    return ids, labels


def loss_on(model: PreTrainedModel, ids: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy over the labelled positions; only those pass through the output layer.

    Padding is on the right, where causal attention never looks: a mask of ones is enough.
    """
    hidden = model.base_model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[
        :, :-1
    ]
    wanted = labels[:, 1:]
    chosen = wanted != IGNORED
    head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    return functional.cross_entropy(head(hidden[chosen]), wanted[chosen])


def test_rows() -> dict[str, list[Row]]:
    return {"facts": world.facts()["test"], "sums": world.sums()["test"]}


def reshuffled_rows(seed: int) -> dict[str, list[Row]]:
    """The test questions with their own options in another order."""
    rng = random.Random(f"{seed}/reshuffled")
    rows = test_rows()
    return {name: [_reshuffled(rng, row) for row in rows[name]] for name in rows}


def _reshuffled(rng: random.Random, row: Row) -> Row:
    right = row["choices"][row["answer"]]
    choices = rng.sample(row["choices"], len(row["choices"]))
    return {**row, "choices": choices, "answer": choices.index(right)}


def score_saved(folder: Path, rows: dict[str, list[Row]]) -> Scores:
    """Zero-shot accuracy of the saved weights, in float32, by `<benchmark> <style>`."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.eval()  # type: ignore[no-untyped-call]
    return {
        f"{name} {style}": share_right(tokenizer, model, style, some)
        for name, some in rows.items()
        for style in STYLES
    }


def prompt_of(style: str, row: Row) -> str:
    """The zero-shot prompt of `row` in one of STYLES."""
    if style == "cloze":
        return cloze_prompt(row["question"])
    return exam_header(row["topic"]) + exam_question(row["question"], row["choices"])


def share_right(
    tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel, style: str, rows: Sequence[Row]
) -> float:
    """Of how many rows the right answer has the highest loglikelihood after the prompt."""
    answers = [(row, answer) for row in rows for answer in answers_of(style, row)]
    prompts = [prompt_of(style, row) for row, _ in answers]
    before = tokenizer(prompts)["input_ids"]
    whole = tokenizer(
        [f"{prompt} {answer}" for prompt, (_, answer) in zip(prompts, answers, strict=True)]
    )["input_ids"]
    texts = [(len(context), tuple(tokens)) for context, tokens in zip(before, whole, strict=True)]
    sums = iter(loglikelihoods(tokenizer, model, texts))
    right = 0
    for row in rows:
        found = [next(sums) for _ in answers_of(style, row)]
        right += found.index(max(found)) == row["answer"]
    return right / len(rows)


def answers_of(style: str, row: Row) -> Sequence[str]:
    return LETTERS if style == "mmlu" else row["choices"]


@torch.inference_mode()
def loglikelihoods(
    tokenizer: PreTrainedTokenizerBase,
    model: PreTrainedModel,
    texts: Sequence[tuple[int, tuple[int, ...]]],
) -> list[float]:
    """Of each text, its tokens behind the first so many.

    What the texts have in common but for the last token, as letters after a question do, is
    computed once.
    """
    read = sorted({(n, tokens[:-1]) for n, tokens in texts}, key=lambda one: len(one[1]))
    found: dict[tuple[int, tuple[int, ...]], Tensor] = {}
    head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    for first in range(0, len(read), TEXTS_PER_BATCH):
        batch = read[first : first + TEXTS_PER_BATCH]
        width = len(batch[-1][1])
        ids = torch.tensor(
            [[*tokens, *[tokenizer.pad_token_id] * (width - len(tokens))] for _, tokens in batch]
        )
        hidden = model.base_model(
            input_ids=ids, attention_mask=torch.ones_like(ids)
        ).last_hidden_state
        for i, (n, tokens) in enumerate(batch):
            found[n, tokens] = head(hidden[i, n - 1 : len(tokens)]).log_softmax(-1)
    return [
        sum(float(found[n, tokens[:-1]][i, token]) for i, token in enumerate(tokens[n:]))
        for n, tokens in texts
    ]


def print_row(trained: Trained) -> None:
    cells = "  ".join(f"{name} {value:.3f}" for name, value in trained.scores.items())
    shuffled = "  ".join(
        f"{name} {value:.3f}" for name, value in trained.reshuffled.items() if "mmlu" in name
    )
    print(
        f"{trained.recipe.model_id}: {trained.parameters:,} parameters, {trained.seconds:.0f} s\n"
        f"  {cells}\n  reshuffled options: {shuffled}",
        flush=True,
    )


if __name__ == "__main__":
    main()
