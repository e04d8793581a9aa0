"""The demo world: every question has one right answer, and the shipped files hold the questions."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from demo import dataset, world
from demo.world import Row

NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty twenty-one twenty-two twenty-three "
    "twenty-four twenty-five twenty-six twenty-seven twenty-eight twenty-nine thirty "
    "thirty-one thirty-two thirty-three thirty-four thirty-five thirty-six"
)
NUMBERS = {word: value for value, word in enumerate(NUMBER_WORDS.split())}
SUPERLATIVES_OF_THE_LAST = {"shortest", "youngest", "slowest"}


def all_rows(config: str) -> list[Row]:
    splits = dataset.CONFIGS[config]()
    return [*splits["train"], *splits["test"]]


def solve(question: str) -> str | int:
    """The answer to a sum, worked out from its words alone."""
    if found := re.fullmatch(r"What is (\S+) (plus|minus) (\S+)\?", question):
        a, b = NUMBERS[found[1]], NUMBERS[found[3]]
        return a + b if found[2] == "plus" else a - b
    if found := re.fullmatch(r"Which number comes next: (\S+), (\S+), (\S+)\?", question):
        a, b, c = (NUMBERS[word] for word in found.groups())
        assert b - a == c - b
        return c + (b - a)
    story, asked = question.split(". Who is the ")
    pairs = re.findall(r"(\w+) is \w+ than (\w+)", story)
    assert [b for _, b in pairs[:-1]] == [a for a, _ in pairs[1:]]
    return pairs[-1][1] if asked.rstrip("?") in SUPERLATIVES_OF_THE_LAST else pairs[0][0]


def test_only_the_right_choice_of_a_fact_is_stated_anywhere() -> None:
    stated = {problem.statement for problem in world.fact_problems()}
    for row in all_rows("facts"):
        about = world.TOPICS[row["topic"]]
        (name,) = [n for n in world.PEOPLE if re.search(rf"\b{n}\b", row["question"])]
        for i, choice in enumerate(row["choices"]):
            for sentence in about.statements:
                said = sentence.format(name=name, value=choice) in stated
                assert said == (i == row["answer"]), row


def test_only_the_right_choice_of_a_sum_is_its_result() -> None:
    for row in all_rows("sums"):
        values = [NUMBERS.get(choice, choice) for choice in row["choices"]]
        result = solve(row["question"])
        assert values.count(result) == 1, row
        assert values[row["answer"]] == result, row


@pytest.mark.parametrize("config", ["facts", "sums"])
def test_choices_are_four_different_strings(config: str) -> None:
    for row in all_rows(config):
        assert len(set(row["choices"])) == world.OPTIONS, row


@pytest.mark.parametrize("config", ["facts", "sums"])
def test_right_answers_are_spread_evenly_within_each_topic(config: str) -> None:
    rows = dataset.CONFIGS[config]()["test"]
    assert 200 <= len(rows) <= 300
    for topic in {row["topic"] for row in rows}:
        counts = Counter(row["answer"] for row in rows if row["topic"] == topic)
        assert len(counts) == world.OPTIONS
        assert len(set(counts.values())) == 1


@pytest.mark.parametrize("config", ["facts", "sums"])
def test_no_question_is_in_both_splits_or_asked_twice(config: str) -> None:
    rows = all_rows(config)
    assert len({row["question"] for row in rows}) == len(rows)
    assert len({row["id"] for row in rows}) == len(rows)
    assert len(dataset.CONFIGS[config]()["train"]) >= 20


@pytest.mark.parametrize("config", ["facts", "sums"])
def test_the_shipped_files_hold_what_the_generator_makes(config: str) -> None:
    made = dataset.CONFIGS[config]()
    assert made == dataset.CONFIGS[config]()
    for split in dataset.SPLITS:
        shipped = pq.read_table(dataset.parquet_path(dataset.DATA_SET, config, split))
        assert shipped.to_pylist() == made[split]


def test_datasets_reads_the_shipped_folder_by_its_card(tmp_path: Path) -> None:
    from datasets import load_dataset

    loaded = load_dataset(str(dataset.DATA_SET), "sums", cache_dir=str(tmp_path))
    assert {split: rows.num_rows for split, rows in loaded.items()} == {"train": 36, "test": 240}
    assert loaded["test"][0] == world.sums()["test"][0]


def test_the_shipped_card_is_the_generated_one(tmp_path: Path) -> None:
    dataset.write(tmp_path)
    assert (dataset.DATA_SET / "README.md").read_text() == (tmp_path / "README.md").read_text()
