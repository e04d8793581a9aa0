"""Which examples are shown: lm-eval's stream with its leaks in compat, none of them in strict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.cli import main
from evalcore.errors import TaskError
from evalcore.keys import run_key
from evalcore.settings import Settings
from evalcore.task.asking.fewshot import FixedSampler, Question, StrictSampler
from evalcore.task.asking.likeness import Asked
from evalcore.task.asking.shot_rule import draws_at_random, shot_rule
from evalcore.task.asking.task import Item, Task
from evalcore.task.config import GroupSpec
from evalcore.task.identity.digest import doc_digest
from tests.evalcore.worlds import World, capitals


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def leaks(items: list[Item]) -> list[int]:
    """Documents whose own question stands among their examples."""
    return [item.doc_id for item in items if item.prompt.count(item.doc["question"]) > 1]


def sampler(
    pool: list[dict[str, Any]], shots: int, kind: Any = StrictSampler, **keys: Any
) -> StrictSampler | FixedSampler:
    stated = {"seed": 1234, "benchmark": "b", "first_n": False, **keys}
    return kind(pool=pool, shots=shots, asked_at=lambda row: asked(pool[row]), **stated)


def asked(doc: dict[str, Any]) -> Asked:
    return Asked(doc_digest(doc), doc["question"])


def asking(doc: dict[str, Any], occurrence: int = 0, row_in_pool: int | None = None) -> Question:
    return Question(doc, doc_digest(doc), occurrence, row_in_pool, lambda: asked(doc))


def question(pool: list[dict[str, Any]], row: int, *, in_pool: bool) -> Question:
    earlier = sum(other == pool[row] for other in pool[:row])
    return asking(pool[row], earlier, row if in_pool else None)


STRANGER = asking({"question": "not in the pool"})
pools = st.lists(st.integers(0, 12), min_size=1, max_size=30).map(
    lambda numbers: [{"question": f"q{number}"} for number in numbers]
)


def test_strict_depends_on_seed_benchmark_document_and_occurrence() -> None:
    pool = [{"question": f"q{number}"} for number in range(1000)]
    seventh = question(pool, 7, in_pool=True)
    drawn = sampler(pool, 3).draw(seventh)
    twin = asking(pool[7], 1, 7)
    different = [
        sampler(pool, 3, seed=1).draw(seventh),
        sampler(pool, 3, benchmark="c").draw(seventh),
        sampler(pool, 3).draw(question(pool, 8, in_pool=True)),
        sampler(pool, 3).draw(twin),
    ]
    assert drawn not in different
    assert len({tuple(rows) for rows in different}) == 4


# strict, in a task


def test_in_strict_a_prompt_is_the_same_in_any_order_of_documents(world: World) -> None:
    rows = capitals(12)
    by_question = {}
    for test in (rows, rows[::-1], rows[3:9]):
        data = world.data(train=capitals(30)[20:], test=test)
        for item in world.task(**data, shots=4).items():
            shown = by_question.setdefault(item.doc["question"], item.prompt)
            assert shown == item.prompt


@pytest.mark.parametrize("sampler_name", ["default", "first_n"])
def test_strict_takes_examples_from_the_scored_split_without_the_question(
    world: World, sampler_name: str
) -> None:
    rows = capitals(8)
    data = world.data(train=rows, test=[*rows, rows[3]])
    task = world.task(
        **data, shots=3, fewshot_split="test", fewshot_config={"sampler": sampler_name}
    )
    items = task.items()
    assert leaks(items) == []
    assert all(("test", item.doc_id) not in item.shots for item in items)


def test_strict_refuses_examples_whose_rows_are_not_those_of_the_questions(world: World) -> None:
    world.code(
        "def odd(docs): return docs.filter(lambda doc: doc['answer'] == 1)\n"
        "def all(docs): return docs\n"
    )
    functions = {"process_docs": "odd"}
    data = world.data(test=capitals(9))
    # The same filter for both: rows of questions and examples are the same.
    assert not leaks(world.task(**data, functions=functions, shots=2, fewshot_split="test").items())
    whole = {"process_docs": "!function code.all"}
    task = world.task(
        **data, functions=functions, shots=2, fewshot_split="test", fewshot_config=whole
    )
    with pytest.raises(TaskError, match="drops rows"):
        task.items()


def test_inline_examples_are_shown_in_their_order(world: World) -> None:
    samples = [
        {"question": f"Example {number}?", "choices": ["x", "y"], "answer": 0} for number in (1, 2)
    ]
    data = world.data(train=capitals(3), test=capitals(2))
    config = {"sampler": "first_n", "samples": samples}
    task = world.task(**data, shots=2, fewshot_split=None, fewshot_config=config)
    first, _ = task.items()
    assert first.prompt.startswith("Q: Example 1?\nA: x\n\nQ: Example 2?\nA: x\n\nQ: What")
    assert first.shots == [("(inline)", 0), ("(inline)", 1)]


def test_the_pool_is_not_loaded_without_examples(world: World) -> None:
    data = world.data(test=capitals(2))
    assert len(world.task(**data, fewshot_split="nowhere").items()) == 2
    with pytest.raises(TaskError, match="has no split 'nowhere'; it has test"):
        world.task(**data, fewshot_split="nowhere", shots=1).items()


# compat: lm-eval's stream, which peer/test_prompts.py compares


def test_compat_never_overrides_a_zero_and_strict_does(world: World) -> None:
    data = world.data(train=capitals(9), test=capitals(2))
    assert world.task(**data, mode="compat", num_fewshot=0, shots=2).shots == 0
    assert world.task(**data, mode="strict", num_fewshot=0, shots=2).shots == 2
    assert world.task(**data, mode="compat", num_fewshot=1, shots=2).shots == 2
    assert world.task(**data, num_fewshot=1).shots == 1
    assert world.task(**data).shots == 0


@pytest.mark.parametrize(
    ("mode", "keys"),
    [("compat", {}), ("compat", {"fewshot_config": {"sampler": "first_n"}}), ("strict", {})],
)
def test_a_pool_that_is_too_small_is_an_error(world: World, mode: Any, keys: Any) -> None:
    data = world.data(train=capitals(2), test=capitals(5)[3:])
    with pytest.raises(
        TaskError, match=r"document 0 of test: 3 examples are asked for.*pool has 2"
    ):
        world.task(**data, mode=mode, shots=3, **keys).items()


# Some rows alone, balanced examples, and samplers of the task's own


def test_strict_shows_no_other_rows_than_those_of_fewshot_indices(world: World) -> None:
    data = world.data(train=capitals(30), test=capitals(40)[30:])
    config = {"fewshot_indices": [9, 4, 17]}
    drawn = world.task(**data, fewshot_config=config, shots=2).items()
    assert {row for item in drawn for _, row in item.shots} == {9, 4, 17}
    first = {**config, "sampler": "first_n"}
    in_order = world.task(**data, fewshot_config=first, shots=2).items()
    assert {tuple(item.shots) for item in in_order} == {(("train", 9), ("train", 4))}

    data = world.data(train=capitals(3), test=capitals(1))
    task = world.task(**data, fewshot_config={"fewshot_indices": [0, 3]}, shots=1)
    with pytest.raises(TaskError, match="no example 3 in train; it has those from 0 to 2"):
        task.items()


BALANCED = {"fewshot_config": {"sampler": "balanced"}}


def test_balanced_examples_show_every_answer_equally_often_as_far_as_there_are_some(
    world: World,
) -> None:
    rare = [row for row in capitals(60) if row["answer"] != 2 or row["topic"] == "south"]
    data = world.data(train=rare, test=capitals(20))
    items = world.task(**data, **BALANCED, shots=6).items()
    orders = set()
    for item in items:
        answers = [rare[row]["answer"] for _, row in item.shots]
        assert sorted(answers) == [0, 0, 1, 1, 2, 2]
        orders.add(tuple(answers))
    assert len(orders) > 10  # no order that would tell the next answer
    assert leaks(items) == []

    rows = [row for row in capitals(30) if row["answer"] == 0 or row["question"].endswith(" 1?")]
    data = world.data(train=rows, test=capitals(40)[30:])
    for item in world.task(**data, **BALANCED, shots=5).items():
        answers = [rows[row]["answer"] for _, row in item.shots]
        assert sorted(answers) == [0, 0, 0, 0, 1]


OWN = """
from random import Random

class Sampler:
    def __init__(self, df, *, rnd=None):
        self.df, self.rnd = df, Random(rnd)

    def set_rnd(self, rnd):
        self.rnd = Random(rnd)

    def sample(self, n, eval_doc=None):
        return {how}
"""


def with_own_sampler(world: World, how: str, *rows: int, **keys: Any) -> list[Item]:
    """The items of a task whose sampler gives `how`; questions are among the examples.

    `rows` are its fewshot_indices.
    """
    world.code(OWN.format(how=how))
    config = {"sampler": "!function code.Sampler", **({"fewshot_indices": [*rows]} if rows else {})}
    data = world.data(test=capitals(12))
    own = {"fewshot_split": "test", "training_split": None, "fewshot_config": config}
    return world.task(**data, **own, shots=3, **keys).items()


DRAWN = "self.rnd.sample([doc for doc in self.df if doc != eval_doc], n)"


def test_strict_asks_a_tasks_own_sampler_for_each_document_by_itself(world: World) -> None:
    whole = with_own_sampler(world, DRAWN, mode="strict")
    assert leaks(whole) == []
    assert len({tuple(item.shots) for item in whole}) > 6
    assert with_own_sampler(world, DRAWN, mode="strict", samples=[8, 3]) == [whole[3], whole[8]]
    for item in with_own_sampler(world, DRAWN, 9, 4, 7, 2, mode="strict"):
        assert {row for _, row in item.shots} < {9, 4, 7, 2}


def test_strict_refuses_a_sampler_that_fails_or_shows_the_question(world: World) -> None:
    with pytest.raises(TaskError, match=r"document 0 of test: .*code\.Sampler shows the question"):
        with_own_sampler(world, "self.df[:n]", mode="strict")
    with pytest.raises(TaskError, match=r"!function code\.Sampler failed: ZeroDivisionError"):
        with_own_sampler(world, "1 / 0")


def test_examples_that_a_sampler_makes_have_numbers_below_0(world: World) -> None:
    how = "[{**self.df[0], 'question': 'One?'}, {**self.df[0], 'question': 'Two?'}, self.df[7]]"
    for item in with_own_sampler(world, how, mode="compat"):
        assert item.shots == [("test", -1), ("test", -2), ("test", 7)]
        assert item.prompt.startswith("Q: One?\nA: city 0 a\n\nQ: Two?\nA: city 0 a\n\nQ: What is")


# Styles of a benchmark, and copies


STYLES: dict[str, dict[str, Any]] = {
    "cloze": {},
    "mmlu": {
        "doc_to_text": "{{question}} {{choices | join(' / ')}}",
        "doc_to_choice": ["A", "B", "C"],
    },
    "hybrid": {"functions": {"process_docs": "marked"}, "doc_to_text": "{{mark}} {{question}}"},
    "generate": {
        "output_type": "generate_until",
        "doc_to_choice": None,
        "doc_to_target": "{{choices[answer]}}",
    },
}
MARKED = "def marked(docs): return docs.map(lambda doc, row: {'mark': row}, with_indices=True)\n"


def of_styles(world: World, **keys: Any) -> dict[str, list[Item]]:
    """By style the items of a task of the benchmark."""
    world.code(MARKED)
    data = world.data(train=capitals(60)[20:], test=capitals(8))
    found = {}
    for style, own in STYLES.items():
        metadata = {"benchmark": keys.get("benchmark", "capitals"), "style": style}
        named = {"task": f"capitals_{style}", "metadata": metadata}
        metrics = [{"metric": "exact_match" if style == "generate" else "acc"}]
        spec = world.spec(**{**data, **own, **named, "metric_list": metrics})
        draw = keys.get("draw", "per-document")
        found[style] = Task(spec, num_fewshot=3, fewshot_draw=draw, data=None).items()
    return found


@pytest.mark.parametrize("draw", ["per-document", "fixed"])
def test_the_styles_of_a_benchmark_are_asked_with_the_same_examples(
    world: World, draw: Any
) -> None:
    found = of_styles(world, draw=draw)
    by_style = {style: [item.shots for item in items] for style, items in found.items()}
    assert len({str(shots) for shots in by_style.values()}) == 1
    assert len({tuple(shots) for shots in by_style["cloze"]}) == (1 if draw == "fixed" else 8)
    elsewhere = of_styles(world, draw=draw, benchmark="other")["cloze"]
    assert [item.shots for item in elsewhere] != by_style["cloze"]


def test_the_parts_of_a_benchmark_have_fixed_draws_of_their_own(world: World) -> None:
    drawn = []
    for part in range(6):
        rows = capitals(200)[20 * part :]
        data = world.data(train=rows[:20], test=rows[20:23])
        keys = {"task": f"part_{part}", "metadata": {"benchmark": "capitals"}}
        items = Task(world.spec(**data, **keys), num_fewshot=3, fewshot_draw="fixed").items()
        drawn.append(tuple(items[0].shots))
    assert len(set(drawn)) == 6


def copies(count: int) -> list[dict[str, Any]]:
    """Every question three times, under other numbers and with its choices turned."""
    return [
        {**row, "id": f"{row['topic']}-{turn}", "choices": turned, "answer": turned.index(right)}
        for row in capitals(count)
        for turn in range(3)
        for turned in [row["choices"][turn:] + row["choices"][:turn]]
        for right in [row["choices"][row["answer"]]]
    ]


@pytest.mark.parametrize(
    ("draw", "style"),
    [
        ("per-document", "cloze"),
        ("per-document", "generate"),
        ("fixed", "cloze"),
        ("first_n", "cloze"),
        ("balanced", "cloze"),
        ("own", "cloze"),
    ],
)
def test_no_copy_under_another_number_is_an_example(world: World, draw: str, style: str) -> None:
    world.code(OWN.format(how=DRAWN))
    data = world.data(train=copies(8), test=copies(8))
    sampler_name = "!function code.Sampler" if draw == "own" else draw
    config = {} if draw in ("per-document", "fixed") else {"sampler": sampler_name}
    spec = world.spec(**{**data, **STYLES[style], "fewshot_config": config})
    fixed: Any = "fixed" if draw == "fixed" else "per-document"
    items = Task(spec, num_fewshot=5, fewshot_draw=fixed).items()
    assert len(items) == 24
    assert leaks(items) == []


def test_a_copy_asks_the_same_with_the_same_choices_or_answer() -> None:
    one = Asked("1", "Which?", ("a", "b"), "a")
    assert one.is_copy(Asked("2", "Which?", ("a", "c"), "a"))
    assert one.is_copy(Asked("2", "Which?", ("a", "b"), "b"))
    assert not one.is_copy(Asked("2", "Which?", ("a", "c"), "c"))
    assert not one.is_copy(Asked("2", "Who?", ("a", "b"), "a"))


# One draw for all documents of a task: `fewshot_draw: fixed`


@given(pool=pools, data=st.data())
def test_all_questions_see_the_same_examples_but_for_one_that_is_among_them(
    pool: list[dict[str, Any]], data: st.DataObject
) -> None:
    different = len({doc["question"] for doc in pool})
    shots = data.draw(st.integers(1, max(1, different - 1)))
    draw = sampler(pool, shots, FixedSampler)
    if different <= shots:
        return
    usual = draw.draw(STRANGER)
    assert len(usual) == shots
    assert len({pool[row]["question"] for row in usual}) == shots
    for row, doc in enumerate(pool):
        rows = draw.draw(asking(doc, row_in_pool=row))
        assert len(rows) == len(set(rows)) == shots
        assert doc not in [pool[drawn] for drawn in rows]
        changed = [at for at in range(shots) if rows[at] != usual[at]]
        if doc in [pool[drawn] for drawn in usual]:
            (place,) = changed  # the spare stands where the question stood
            assert pool[usual[place]] == doc
        else:
            assert not changed


def test_a_pool_of_just_enough_examples_serves_questions_from_elsewhere() -> None:
    pool = [{"question": "a"}, {"question": "b"}, {"question": "b"}]
    draw = sampler(pool, 2, FixedSampler)
    assert {pool[row]["question"] for row in draw.draw(STRANGER)} == {"a", "b"}
    with pytest.raises(TaskError, match="2 examples are asked for, the pool has 1 besides"):
        draw.draw(asking(pool[0], row_in_pool=0))


def test_the_rule_is_part_of_the_key_where_it_decides(tmp_path: Path) -> None:
    world = World(tmp_path)
    spec = world.spec(dataset_path="org/data")
    first = world.spec(dataset_path="org/data", fewshot_config={"sampler": "first_n"})

    def key(spec: Any, shots: int, draw: Any, seed: int = 1234) -> str:
        return run_key(spec, shots=shots, mode="strict", fewshot_draw=draw, fewshot_seed=seed)

    assert shot_rule(spec, 2, mode="strict", draw="fixed") == "fixed/2"
    assert shot_rule(first, 2, mode="strict", draw="fixed") == "first_n/2"
    assert shot_rule(spec, 0, mode="strict", draw="fixed") == "none"
    assert shot_rule(spec, 2, mode="compat") == "per-document"
    group = GroupSpec(group="g", members=(spec, replace(spec, task="b")), about=spec.about)
    some = {"capitals": 0, "b": 2}
    assert shot_rule(group, some, mode="strict") == "mixed/2"
    assert shot_rule(group, some, mode="compat") == "mixed"
    assert draws_at_random("mixed/2")
    assert draws_at_random("inline fixed/2")
    assert not draws_at_random("first_n/2")
    assert key(spec, 2, "fixed") != key(spec, 2, "per-document")
    assert key(spec, 2, "fixed", seed=1) != key(spec, 2, "fixed", seed=2)
    assert key(spec, 0, "fixed") == key(spec, 0, "per-document")
    assert key(first, 2, "fixed") == key(first, 2, "per-document")


def test_compat_draws_as_lm_eval_does_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(TaskError, match="fixed needs mode: strict"):
        Settings(mode="compat", fewshot_draw="fixed")
    assert main(["show", "--tasks", "arc_easy", "--fewshot_draw", "fixed"]) == 2
    assert "--fewshot_draw fixed needs --mode strict" in capsys.readouterr().err
