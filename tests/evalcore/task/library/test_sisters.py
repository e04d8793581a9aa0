"""What a suite says of its sisters: read, or refused with every reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalcore.errors import TaskError
from evalcore.task.library.load import TaskLibrary
from evalcore.task.library.sisters import Sisters
from evalcore.task.library.suite import load_suite
from evalcore.task.yaml_file import OWN_TASKS

BEGINS = """
suite: small
version: 1.0
title: Small
description: two columns of one benchmark, and one that has no share
benchmarks:
  - {benchmark: arc_easy, title: ARC, own: mmlu, shots: 0, metric: acc,
     styles: {mmlu: arc_easy_mmlu, cloze: arc_easy}}
  - {benchmark: wikitext, title: WikiText, own: likelihood, shots: 0, metric: word_perplexity,
     styles: {likelihood: wikitext}}
sisters:
"""


@pytest.fixture(scope="module")
def library() -> TaskLibrary:
    return TaskLibrary([OWN_TASKS])


def read(folder: Path, library: TaskLibrary, *pairs: str) -> tuple[Sisters, ...]:
    file = folder / "small.yaml"
    file.write_text(BEGINS + "".join(f"  - {pair}\n" for pair in pairs))
    return load_suite(file, library).sisters


def test_a_pair_names_two_tasks_and_how_they_differ(tmp_path: Path, library: TaskLibrary) -> None:
    pair = "{task: arc_easy_mmlu, sister: arc_easy, differs: the answer goes on}"
    assert read(tmp_path, library, pair) == (
        Sisters(task="arc_easy_mmlu", sister="arc_easy", differs="the answer goes on"),
    )


@pytest.mark.parametrize(
    ("pairs", "told"),
    [
        (["{task: arc_easy, sister: arc_easy_mmlu}"], "sisters[0].differs: missing: expected text"),
        (
            ["{task: arc_easy, sister: piqa, differs: d}"],
            "sisters[0].sister: piqa is no task of this suite: name one of arc_easy_mmlu, arc_easy",
        ),
        (
            ["{task: arc_easy, sister: wikitext, differs: d}"],
            "sisters[0].sister: word_perplexity is no share of right answers: name another",
        ),
        (
            ["{task: arc_easy, sister: arc_easy, differs: d}"],
            "sisters[0].sister: is the task itself: name another column",
        ),
        (
            ["{task: arc_easy, sister: arc_easy_mmlu, differs: d}"] * 2,
            "sisters[1]: stands here twice: remove one",
        ),
        (
            ["{task: arc_easy, sister: arc_easy_mmlu, differs: ' '}"],
            "sisters[0].differs: expected text of at most 300 characters, got str ' '",
        ),
        (["{task: 1, sister: arc_easy, differs: d, why: w}"], "sisters[0].why: unknown key"),
        (["arc_easy"], "sisters: expected a list of mappings"),
    ],
)
def test_what_is_no_pair_is_refused_with_its_place_and_what_to_do(
    tmp_path: Path, library: TaskLibrary, pairs: list[str], told: str
) -> None:
    with pytest.raises(TaskError) as refused:
        read(tmp_path, library, *pairs)
    assert told in str(refused.value)
