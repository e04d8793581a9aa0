"""One draw of examples for all documents of a task: `fewshot_draw: fixed`."""

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
from evalcore.task.asking.fewshot import FixedSampler, Question
from evalcore.task.asking.likeness import Asked
from evalcore.task.asking.shot_rule import draws_at_random, shot_rule
from evalcore.task.asking.task import Task
from evalcore.task.config import GroupSpec
from evalcore.task.identity.digest import doc_digest
from tests.evalcore.worlds import World, capitals

POOLS = st.lists(st.integers(0, 12), min_size=2, max_size=30).map(
    lambda numbers: [{"question": f"q{number}"} for number in numbers]
)


def sampler(pool: list[dict[str, Any]], shots: int, seed: int = 1234) -> FixedSampler:
    return FixedSampler(
        pool=pool,
        shots=shots,
        seed=seed,
        benchmark="b",
        asked_at=lambda row: asked(pool[row]),
        first_n=False,
    )


def question(doc: dict[str, Any], row: int | None = None) -> Question:
    return Question(doc, doc_digest(doc), 0, row, lambda: asked(doc))


def asked(doc: dict[str, Any]) -> Asked:
    return Asked(doc_digest(doc), doc["question"])


STRANGER = question({"question": "not in the pool"})


@given(pool=POOLS, data=st.data())
def test_all_questions_see_the_same_examples_but_for_one_that_is_among_them(
    pool: list[dict[str, Any]], data: st.DataObject
) -> None:
    different = len({doc["question"] for doc in pool})
    shots = data.draw(st.integers(1, max(1, different - 1)))
    draw = sampler(pool, shots)
    if different <= shots:
        return
    usual = draw.draw(STRANGER)
    assert len(usual) == shots
    assert len({pool[row]["question"] for row in usual}) == shots
    for row, doc in enumerate(pool):
        rows = draw.draw(question(doc, row))
        assert len(rows) == len(set(rows)) == shots
        assert doc not in [pool[drawn] for drawn in rows]
        changed = [at for at in range(shots) if rows[at] != usual[at]]
        if doc in [pool[drawn] for drawn in usual]:
            (place,) = changed  # the spare stands where the question stood
            assert pool[usual[place]] == doc
        else:
            assert not changed


def test_another_seed_draws_others_and_every_row_may_be_drawn() -> None:
    pool = [{"question": f"q{number}"} for number in range(10)]
    seen = [sampler(pool, 3, seed).draw(STRANGER) for seed in range(200)]
    assert len({tuple(rows) for rows in seen}) > 100
    assert {row for rows in seen for row in rows} == set(range(10))


def test_a_pool_of_just_enough_examples_serves_questions_from_elsewhere() -> None:
    pool = [{"question": "a"}, {"question": "b"}, {"question": "b"}]
    draw = sampler(pool, 2)
    assert {pool[row]["question"] for row in draw.draw(STRANGER)} == {"a", "b"}
    with pytest.raises(TaskError, match="2 examples are asked for, the pool has 1 besides"):
        draw.draw(question(pool[0], 0))


def test_prompts_of_a_task_begin_alike(tmp_path: Path) -> None:
    world = World(tmp_path)
    rows = capitals(12)
    spec = world.spec(**world.data(train=rows[:6], test=rows[6:]))
    task = Task(spec, num_fewshot=3, fewshot_draw="fixed")
    items = task.items()
    assert len({tuple(item.shots) for item in items}) == 1
    beginnings = {item.prompt.rpartition("\n\n")[0] for item in items}
    assert len(beginnings) == 1
    assert beginnings.pop()


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
