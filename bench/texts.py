"""The texts that are asked about: real benchmark rows where they are at hand, made-up ones else.

Real rows lie in the folder that `PLUMBLINE_TEST_DATA` names, laid out as on the Hub. Made-up rows
have as many words as real ones, drawn from a vocabulary whose frequencies fall as in a language.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
"""`query`, `choices`, `gold` of a choice; `question`, `answer` of a sum; `page` of running text."""

SUBJECTS = ("anatomy", "astronomy", "computer_security")
"""Of MMLU; the first alone in a row about one subject."""

DATASETS = {
    "arc": "allenai/ai2_arc/ARC-Challenge/{split}-00000-of-00001.parquet",
    "hellaswag": "Rowan/hellaswag/data/{split}-00000-of-00001.parquet",
    "piqa": "baber/piqa/data/{split}-00000-of-00001.parquet",
    "gsm8k": "openai/gsm8k/main/{split}-00000-of-00001.parquet",
    "pages": (
        "EleutherAI/wikitext_document_level/wikitext-2-raw-v1/{split}-00000-of-00001.parquet"
    ),
    **{f"mmlu_{name}": f"cais/mmlu/{name}/{{split}}-00000-of-00001.parquet" for name in SUBJECTS},
}
SPLITS = {
    "arc": ("test", "train"),
    "hellaswag": ("validation", "train"),
    "piqa": ("validation", "train"),
    "gsm8k": ("test", "train"),
    "pages": ("test", "validation"),
    **{f"mmlu_{name}": ("test", "dev") for name in SUBJECTS},
}
"""Which split is asked about, and which the examples come from."""

LONGEST_PAGE = 12_000
"""Characters of a page of running text: some three windows of 1,024 tokens."""


@dataclass(frozen=True)
class Texts:
    """Rows to ask about and rows to take examples from."""

    asked: tuple[Row, ...]
    examples: tuple[Row, ...]
    real: bool
    """Whether they are benchmark rows, or made up."""


def texts(name: str) -> Texts:
    """The rows of a data set in DATASETS."""
    asked, examples = SPLITS[name]
    found = [_parquet(name, split) for split in (asked, examples)]
    if all(path.is_file() for path in found):
        rows = [tuple(_plain(name, row) for row in _rows(path)) for path in found]
        if name == "pages":
            rows[0] = tuple(row for row in rows[0] if 1_000 < len(row["page"]) <= LONGEST_PAGE)
        return Texts(rows[0], rows[1], real=True)
    made = tuple(_made_up(name))
    return Texts(made[64:], made[: 5 if name.startswith("mmlu") else 64], real=False)


def running_text() -> Iterator[str]:
    """Everything at hand, to train a tokenizer on; of real pages the long ones, too."""
    for split in SPLITS["pages"]:
        if (path := _parquet("pages", split)).is_file():
            yield from (row["page"] for row in _rows(path))
    for name in DATASETS:
        found = texts(name)
        for row in (*found.asked, *found.examples):
            for value in row.values():
                yield from value if isinstance(value, tuple) else (str(value),)


def _parquet(name: str, split: str) -> Path:
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PLUMBLINE_TEST_DATA", default))
    return folder / "hub" / "datasets" / DATASETS[name].format(split=split)


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as parquet

    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def _plain(name: str, row: Row) -> Row:
    """A row of the data set, in the form that all tasks of the bench read."""
    if name == "arc":
        choices = row["choices"]
        gold = choices["label"].index(row["answerKey"])
        return {"query": row["question"], "choices": tuple(choices["text"]), "gold": gold}
    if name == "hellaswag":
        query = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}".strip()
        endings = tuple(_without_brackets(ending) for ending in row["endings"])
        return {"query": _without_brackets(query), "choices": endings, "gold": int(row["label"])}
    if name == "piqa":
        choices = (row["sol1"], row["sol2"])
        return {"query": row["goal"], "choices": choices, "gold": int(row["label"])}
    if name == "gsm8k":
        return {"question": row["question"], "answer": row["answer"]}
    if name == "pages":
        return {"page": row["page"]}
    return {"query": row["question"], "choices": tuple(row["choices"]), "gold": int(row["answer"])}


def _without_brackets(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\[.*?\]", " ", text)).strip()


CHOICES = {"arc": (4, 25, 5), "hellaswag": (4, 25, 12), "piqa": (2, 8, 18), "mmlu": (4, 16, 6)}
"""How many choices, words of a question and words of a choice, in the mean of the real rows."""
OTHER_WORDS = {"gsm8k": (45, 55), "pages": (1300, 0)}
"""Words of a question and its answer, and of a page."""


def _made_up(name: str) -> Iterator[Row]:
    draw = random.Random(f"bench/{name}")
    kind = name.partition("_")[0]
    for _ in range(264):
        if kind == "pages":
            yield {"page": _sentence(draw, OTHER_WORDS[kind][0])}
        elif kind == "gsm8k":
            asked, answered = OTHER_WORDS[kind]
            answer = f"{_sentence(draw, answered)}\n#### {draw.randrange(100)}"
            yield {"question": _sentence(draw, asked), "answer": answer}
        else:
            count, asked, answered = CHOICES[kind]
            choices = tuple(_sentence(draw, answered) for _ in range(count))
            yield {
                "query": _sentence(draw, asked),
                "choices": choices,
                "gold": draw.randrange(count),
            }


def _sentence(draw: random.Random, mean: int) -> str:
    """About so many words, from half to one and a half times as many."""
    count = draw.randint((mean + 1) // 2, mean + mean // 2)
    return " ".join(draw.choices(made_up_words(), cum_weights=_frequencies(), k=count)) + "."


SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]


@cache
def made_up_words(count: int = 20_000) -> tuple[str, ...]:
    """Distinct words of one to three syllables, short ones first."""
    draw = random.Random("bench/words")
    words: dict[str, None] = {}
    while len(words) < count:
        length = 1 if len(words) < 250 else 2 if len(words) < 5_000 else 3
        words["".join(draw.choices(SYLLABLES, k=length)) + draw.choice("nrstl")] = None
    return tuple(words)


@cache
def _frequencies() -> tuple[float, ...]:
    """Zipf's: the n-th word comes 1/n as often as the first."""
    return tuple(accumulate(1 / rank for rank in range(1, len(made_up_words()) + 1)))
