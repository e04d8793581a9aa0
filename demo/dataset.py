"""Write the data set `plumbline/demo-world` as a Hub would hold it: `python -m demo.dataset`."""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from demo import world

DATA_SET = Path(__file__).parent / "content" / "datasets" / "plumbline" / "demo-world"
CONFIGS = {"facts": world.facts, "sums": world.sums}
SPLITS = ("train", "test")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("topic", pa.string()),
        ("question", pa.string()),
        ("choices", pa.list_(pa.string())),
        ("answer", pa.int64()),
    ]
)
CARD = """---
license: apache-2.0
language: en
pretty_name: Demo world
size_categories:
- n<1K
task_categories:
- question-answering
task_ids:
- multiple-choice-qa
configs:
{configs}
---

# Demo world

Multiple-choice questions for the demo of Plumbline and its tests. Everything is made up by a
program with a fixed seed (`demo/world.py`; `python -m demo.dataset` writes these files again):
nothing was taken from elsewhere, and no question says anything about the real world. The demo
models were trained on the test questions, so **scores on this data set mean nothing beyond the
demo**.

- `facts`: {topics}
  of {people} invented people. The {shot_people} people of the `train` split are not in the `test`
  split.
- `sums`: {sums}, in words. No question is in both splits.

| config | train (for few-shot prompts) | test |
| --- | --- | --- |
{sizes}

Columns: `id`, `topic`, `question`, `choices` (four strings, one of them right), `answer` (index of
the right choice). In the test splits the right answers are spread evenly over the four positions,
within each topic.
"""


def parquet_path(folder: Path, config: str, split: str) -> Path:
    return folder / config / f"{split}-00000-of-00001.parquet"


def write(folder: Path) -> None:
    """Write all configurations and the card below `folder`."""
    sizes, configs = [], []
    for config, rows_of in CONFIGS.items():
        splits = rows_of()
        configs += [f"- config_name: {config}", "  data_files:"]
        for split in SPLITS:
            path = parquet_path(folder, config, split)
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(list(splits[split]), schema=SCHEMA), path)
            configs += [f"  - split: {split}", f"    path: {config}/{split}-*.parquet"]
        sizes.append(f"| {config} | {len(splits['train'])} | {len(splits['test'])} |")
    card = CARD.format(
        configs="\n".join(configs),
        topics=", ".join(world.TOPICS),
        people=len(world.PEOPLE),
        shot_people=len(world.PEOPLE) - world.TEST_PEOPLE,
        sums=", ".join(world.SUM_TOPICS),
        sizes="\n".join(sizes),
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=DATA_SET)
    write(parser.parse_args().output)


if __name__ == "__main__":
    main()
