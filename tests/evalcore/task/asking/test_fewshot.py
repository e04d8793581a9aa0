"""Which examples are shown: lm-eval's stream with its leaks in compat, none of them in strict."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.errors import TaskError
from evalcore.task.asking.fewshot import Question, StrictSampler
from evalcore.task.asking.likeness import Asked
from evalcore.task.asking.task import Item, Task
from evalcore.task.config import TaskSpec
from evalcore.task.identity.digest import doc_digest
from evalcore.task.library.load import TaskLibrary
from tests.evalcore.worlds import World, capitals


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def leaks(items: list[Item]) -> list[int]:
    """Documents whose own question stands among their examples."""
    return [item.doc_id for item in items if item.prompt.count(item.doc["question"]) > 1]


# strict, as a sampler


def sampler(pool: list[dict[str, Any]], shots: int, **keys: Any) -> StrictSampler:
    return StrictSampler(
        pool=pool,
        shots=shots,
        seed=keys.get("seed", 1234),
        benchmark=keys.get("benchmark", "b"),
        asked_at=lambda row: asked(pool[row]),
        first_n=keys.get("first_n", False),
    )


def asked(doc: dict[str, Any]) -> Asked:
    return Asked(doc_digest(doc), doc["question"])


def asking(doc: dict[str, Any], occurrence: int = 0, row_in_pool: int | None = None) -> Question:
    return Question(doc, doc_digest(doc), occurrence, row_in_pool, lambda: asked(doc))


def question(pool: list[dict[str, Any]], row: int, *, in_pool: bool) -> Question:
    earlier = sum(other == pool[row] for other in pool[:row])
    return asking(pool[row], earlier, row if in_pool else None)


pools = st.lists(st.integers(0, 12), min_size=1, max_size=30).map(
    lambda numbers: [{"question": f"q{number}"} for number in numbers]
)


@given(pool=pools, data=st.data(), first_n=st.booleans(), in_pool=st.booleans())
def test_strict_never_shows_a_question_among_its_own_examples(
    pool: list[dict[str, Any]], data: st.DataObject, first_n: bool, in_pool: bool
) -> None:
    row = data.draw(st.integers(0, len(pool) - 1))
    others = [doc for doc in pool if doc != pool[row]]
    shots = data.draw(st.integers(1, len(pool)))
    draw = sampler(pool, shots, first_n=first_n)
    if shots > len(others):
        with pytest.raises(TaskError, match=f"{shots} examples are asked for"):
            draw.draw(question(pool, row, in_pool=in_pool))
    else:
        rows = draw.draw(question(pool, row, in_pool=in_pool))
        assert len(rows) == len(set(rows)) == shots
        assert pool[row] not in [pool[drawn] for drawn in rows]


@given(pool=pools, order=st.randoms(use_true_random=False))
def test_strict_draws_the_same_whatever_was_drawn_before(
    pool: list[dict[str, Any]], order: random.Random
) -> None:
    rows = [row for row in range(len(pool)) if pool[row] != pool[0]]
    in_order = {row: sampler(pool, 1).draw(question(pool, row, in_pool=True)) for row in rows}
    shuffled = order.sample(rows, len(rows))
    one = sampler(pool, 1)
    assert {row: one.draw(question(pool, row, in_pool=True)) for row in shuffled} == in_order


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


def test_strict_draws_every_row_equally_often() -> None:
    pool = [{"question": f"q{number}"} for number in range(5)]
    counts = [0] * 5
    for number in range(3000):
        doc = {"question": f"asked {number}"}
        drawn = sampler(pool, 2).draw(asking(doc))
        for row in drawn:
            counts[row] += 1
    # 1,200 expected each; five standard deviations are 134.
    assert all(abs(count - 1200) < 134 for count in counts)


# strict, in a task


def prompts(items: list[Item]) -> dict[int, str]:
    return {item.doc_id: item.prompt for item in items}


def test_in_strict_a_prompt_is_the_same_for_any_limit(world: World) -> None:
    data = world.data(train=capitals(30), test=capitals(12))
    whole = prompts(world.task(**data, shots=4).items())
    for limit in (1, 5, 0.5):
        part = prompts(world.task(**data, shots=4, limit=limit).items())
        assert part.items() <= whole.items()


def test_in_strict_a_prompt_is_the_same_in_any_order_of_documents(world: World) -> None:
    rows = capitals(12)
    by_question = {}
    for test in (rows, rows[::-1], rows[3:9]):
        data = world.data(train=capitals(30)[20:], test=test)
        for item in world.task(**data, shots=4).items():
            shown = by_question.setdefault(item.doc["question"], item.prompt)
            assert shown == item.prompt


def test_examples_are_recorded_by_split_and_row(world: World) -> None:
    data = world.data(train=capitals(30)[20:], test=capitals(3))
    for item in world.task(**data, shots=2).items():
        for split, row in item.shots:
            assert split == "train"
            assert f"country {row + 20}?" in item.prompt


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
    world.spec(**data, functions=functions, fewshot_split="test")
    path = world.folder / "tasks/capitals.yaml"
    path.write_text(f"{path.read_text()}fewshot_config: {{process_docs: !function code.all}}\n")
    spec = TaskLibrary([path.parent]).one("capitals")
    assert isinstance(spec, TaskSpec)
    with pytest.raises(TaskError, match="drops rows"):
        Task(spec, mode="strict", num_fewshot=2).items()


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


# compat: lm-eval's stream, replayed here from its description


def test_compat_draws_one_stream_over_the_documents(world: World) -> None:
    data = world.data(train=capitals(30), test=capitals(6))
    stream = random.Random(7)
    expected = [[("train", row) for row in stream.sample(range(30), 3)] for _ in range(6)]
    items = world.task(**data, mode="compat", shots=3, seed=7).items()
    assert [item.shots for item in items] == expected


def test_compat_draws_one_more_where_neither_split_is_named(world: World) -> None:
    """lm-eval takes an unnamed test split for the unnamed split of the examples."""
    data = world.data(train=capitals(30), validation=capitals(6))
    stream = random.Random(1234)
    expected = []
    for number in range(6):
        drawn = [row for row in stream.sample(range(30), 4) if row != number]
        expected.append([("train", row) for row in drawn[:3]])
    splits = {"test_split": None, "validation_split": "validation", "fewshot_split": None}
    items = world.task(**data, mode="compat", shots=3, **splits).items()
    assert [item.shots for item in items] == expected


def test_compat_leaks_where_examples_come_from_the_validation_split_and_strict_does_not(
    world: World,
) -> None:
    data = world.data(train=capitals(2), validation=capitals(8))
    splits = {"test_split": None, "validation_split": "validation", "fewshot_split": "validation"}
    assert leaks(world.task(**data, mode="compat", shots=4, **splits).items())
    assert not leaks(world.task(**data, mode="strict", shots=4, **splits).items())


def test_compat_never_overrides_a_zero_and_strict_does(world: World) -> None:
    data = world.data(train=capitals(9), test=capitals(2))
    assert world.task(**data, mode="compat", num_fewshot=0, shots=2).shots == 0
    assert world.task(**data, mode="strict", num_fewshot=0, shots=2).shots == 2
    assert world.task(**data, mode="compat", num_fewshot=1, shots=2).shots == 2
    assert world.task(**data, num_fewshot=1).shots == 1
    assert world.task(**data).shots == 0


@pytest.mark.parametrize("keys", [{}, {"fewshot_config": {"sampler": "first_n"}}])
@pytest.mark.parametrize("mode", ["strict", "compat"])
def test_a_pool_that_is_too_small_is_an_error(world: World, mode: Any, keys: Any) -> None:
    data = world.data(train=capitals(2), test=capitals(5)[3:])
    with pytest.raises(
        TaskError, match=r"document 0 of test: 3 examples are asked for.*pool has 2"
    ):
        world.task(**data, mode=mode, shots=3, **keys).items()


@pytest.mark.parametrize("keys", [{"shots": 0}, {"fewshot_config": {"sampler": "first_n"}}])
def test_without_a_draw_both_modes_ask_the_same(world: World, keys: Any) -> None:
    data = world.data(train=capitals(20)[10:], test=capitals(5))
    both = [
        [item.requests for item in world.task(**data, **{"shots": 3, **keys}, mode=mode).items()]
        for mode in ("strict", "compat")
    ]
    assert both[0] == both[1]


# Some rows alone, balanced examples, and samplers of the task's own


def test_compat_ignores_fewshot_indices_and_strict_shows_no_other_rows(world: World) -> None:
    data = world.data(train=capitals(30), test=capitals(40)[30:])
    config = {"fewshot_indices": [9, 4, 17]}
    ignored, without = (
        [item.shots for item in world.task(**data, **keys, mode="compat", shots=2).items()]
        for keys in ({"fewshot_config": config}, {})
    )
    assert ignored == without
    drawn = world.task(**data, fewshot_config=config, shots=2).items()
    assert {row for item in drawn for _, row in item.shots} == {9, 4, 17}
    first = {**config, "sampler": "first_n"}
    in_order = world.task(**data, fewshot_config=first, shots=2).items()
    assert {tuple(item.shots) for item in in_order} == {(("train", 9), ("train", 4))}


def test_an_index_outside_the_pool_is_an_error(world: World) -> None:
    data = world.data(train=capitals(3), test=capitals(1))
    task = world.task(**data, fewshot_config={"fewshot_indices": [0, 3]}, shots=1)
    with pytest.raises(TaskError, match="no example 3 in train; it has those from 0 to 2"):
        task.items()


BALANCED = {"fewshot_config": {"sampler": "balanced"}}


@pytest.mark.parametrize("mode", ["strict", "compat"])
def test_balanced_examples_show_every_answer_equally_often(world: World, mode: Any) -> None:
    rare = [row for row in capitals(60) if row["answer"] != 2 or row["topic"] == "south"]
    data = world.data(train=rare, test=capitals(20))
    items = world.task(**data, **BALANCED, mode=mode, shots=6).items()
    orders = set()
    for item in items:
        answers = [rare[row]["answer"] for _, row in item.shots]
        assert sorted(answers) == [0, 0, 1, 1, 2, 2]
        orders.add(tuple(answers))
    assert len(orders) > 10  # no order that would tell the next answer
    assert leaks(items) == []


def test_balanced_examples_are_filled_up_where_an_answer_is_rare(world: World) -> None:
    rows = [row for row in capitals(30) if row["answer"] == 0 or row["question"].endswith(" 1?")]
    data = world.data(train=rows, test=capitals(40)[30:])
    for item in world.task(**data, **BALANCED, shots=5).items():
        answers = [rows[row]["answer"] for _, row in item.shots]
        assert sorted(answers) == [0, 0, 0, 0, 1]


def test_balanced_examples_are_the_same_in_both_modes_and_for_any_limit(world: World) -> None:
    data = world.data(train=capitals(9), test=capitals(40)[30:])
    config = {"sampler": "balanced", "fewshot_indices": [0, 1, 3, 5, 6, 8]}
    strict, compat, limited = (
        [item.prompt for item in world.task(**data, fewshot_config=config, shots=3, **keys).items()]
        for keys in ({"mode": "strict"}, {"mode": "compat"}, {"limit": 4})
    )
    assert strict == compat
    assert limited == strict[:4]


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


def with_own_sampler(world: World, how: str, more: str = "", **keys: Any) -> list[Item]:
    """The items of a task whose sampler gives `how`; questions are among the examples."""
    world.code(OWN.format(how=how))
    rows = capitals(12)
    world.spec(**world.data(test=rows), fewshot_split="test", training_split=None)
    path = world.folder / "tasks/capitals.yaml"
    path.write_text(
        f"{path.read_text()}fewshot_config: {{{more}sampler: !function code.Sampler}}\n"
    )
    spec = TaskLibrary([path.parent]).one("capitals")
    assert isinstance(spec, TaskSpec)
    return Task(spec, num_fewshot=3, **keys).items()


DRAWN = "self.rnd.sample([doc for doc in self.df if doc != eval_doc], n)"


def test_compat_asks_a_tasks_own_sampler_in_the_order_of_documents(world: World) -> None:
    stream = random.Random(1234)
    pool = range(12)
    expected = []
    for number in range(12):
        others = [row for row in pool if row != number]
        expected.append([("test", row) for row in stream.sample(others, 3)])
    items = with_own_sampler(world, DRAWN, mode="compat")
    assert [item.shots for item in items] == expected


def test_strict_asks_a_tasks_own_sampler_for_each_document_by_itself(world: World) -> None:
    whole = with_own_sampler(world, DRAWN, mode="strict")
    assert leaks(whole) == []
    assert len({tuple(item.shots) for item in whole}) > 6
    assert with_own_sampler(world, DRAWN, mode="strict", samples=[8, 3]) == [whole[3], whole[8]]


def test_compat_never_tells_a_tasks_own_sampler_of_fewshot_indices_and_strict_does(
    world: World,
) -> None:
    some = "fewshot_indices: [9, 4, 7, 2], "
    shots = [item.shots for item in with_own_sampler(world, DRAWN, mode="compat")]
    assert [item.shots for item in with_own_sampler(world, DRAWN, some, mode="compat")] == shots
    for item in with_own_sampler(world, DRAWN, some, mode="strict"):
        assert {row for _, row in item.shots} < {9, 4, 7, 2}


def test_strict_refuses_a_sampler_that_shows_the_question(world: World) -> None:
    with pytest.raises(TaskError, match=r"document 0 of test: .*code\.Sampler shows the question"):
        with_own_sampler(world, "self.df[:n]", mode="strict")


def test_examples_that_a_sampler_makes_have_numbers_below_0(world: World) -> None:
    how = "[{**self.df[0], 'question': 'One?'}, {**self.df[0], 'question': 'Two?'}, self.df[7]]"
    for item in with_own_sampler(world, how, mode="compat"):
        assert item.shots == [("test", -1), ("test", -2), ("test", 7)]
        assert item.prompt.startswith("Q: One?\nA: city 0 a\n\nQ: Two?\nA: city 0 a\n\nQ: What is")


def test_a_sampler_that_fails_is_an_error_with_its_name(world: World) -> None:
    with pytest.raises(TaskError, match=r"!function code\.Sampler failed: ZeroDivisionError"):
        with_own_sampler(world, "1 / 0")


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


@pytest.mark.parametrize("draw", ["per-document", "fixed", "first_n", "balanced", "own"])
@pytest.mark.parametrize("style", ["cloze", "generate"])
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


def test_a_question_that_only_begins_alike_is_no_copy(world: World) -> None:
    rows = [{**row, "question": "Which of these is a city?"} for row in capitals(4)]
    data = world.data(train=rows, test=rows)
    items = world.task(**data, shots=3).items()
    assert [sorted(row for _, row in item.shots) for item in items] == [
        [row for row in range(4) if row != item.doc_id] for item in items
    ]
