"""lm-evaluation-harness's quirks of prompts, by name: in compat they are there, in strict not.

Both engines read the same toy task file and the same local data.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evalcore.errors import TaskError
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.task import Item
from tests.evalcore.worlds import TEMPLATE, World, capitals, written_turns

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

VALIDATION_ONLY = {
    "training_split": None,
    "test_split": None,
    "validation_split": "test",
    "fewshot_split": "test",
}
OWN_SPLIT_NOT_NAMED = {"training_split": None, "fewshot_split": None}


class Toy(World):
    """A toy task in both engines."""

    def ours(self, mode: Any = "compat", **options: Any) -> list[Item]:
        return self.task(mode=mode, **options).items()

    def theirs(
        self,
        *,
        shots: int = 0,
        limit: int | None = None,
        samples: list[int] | None = None,
        rank: int = 0,
        ranks: int = 1,
        chat: bool = False,
        **keys: Any,
    ) -> list[list[Any]]:
        """The arguments of all requests of lm-evaluation-harness."""
        os.environ["DISABLE_MULTIPROC"] = "1"
        from lm_eval.api.task import ConfigurableTask
        from lm_eval.tasks._yaml_loader import load_yaml

        config = load_yaml(self.spec(**keys).source, resolve_func=True)
        task = ConfigurableTask(config=dict(config))
        task.set_config(key="num_fewshot", value=shots)
        task.set_fewshot_seed(1234)
        task.build_all_requests(
            limit=limit,
            samples=samples,
            rank=rank,
            world_size=ranks,
            apply_chat_template=chat,
            fewshot_as_multiturn=chat,
            chat_template=_template if chat else None,
        )
        return [list(instance.args) for instance in task.instances]


def _template(messages: Sequence[dict[str, str]], add_generation_prompt: bool) -> str:
    return written_turns(messages, add_generation_prompt)


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


def asked(items: Sequence[Item]) -> list[list[Any]]:
    return [list(request.arguments) for item in items for request in item.requests]


def leaks(items: Sequence[Item]) -> int:
    """Documents whose own question is among their examples."""
    return sum(item.prompt.count(item.doc["question"]) > 1 for item in items)


def test_a_question_is_among_its_own_examples_where_they_come_from_the_validation_split(
    toy: Toy,
) -> None:
    keys = {**toy.data(test=capitals(12)), **VALIDATION_ONLY}
    compat = toy.ours(shots=3, **keys)
    assert asked(compat) == toy.theirs(shots=3, **keys)
    assert leaks(compat) > 0
    assert leaks(toy.ours("strict", shots=3, **keys)) == 0


def test_a_question_is_among_its_own_examples_where_there_is_but_a_test_split(toy: Toy) -> None:
    keys = {**toy.data(test=capitals(12)), **OWN_SPLIT_NOT_NAMED}
    compat = toy.ours(shots=3, **keys)
    assert asked(compat) == toy.theirs(shots=3, **keys)
    assert leaks(compat) > 0
    assert leaks(toy.ours("strict", shots=3, **keys)) == 0


def test_one_example_more_is_drawn_where_neither_split_is_named(toy: Toy) -> None:
    unnamed = {
        **toy.data(train=capitals(20), test=capitals(6)),
        "test_split": None,
        "validation_split": "test",
        "fewshot_split": None,
    }
    named = {**unnamed, "fewshot_split": "train"}
    assert asked(toy.ours(shots=3, **unnamed)) == toy.theirs(shots=3, **unnamed)
    assert asked(toy.ours(shots=3, **named)) == toy.theirs(shots=3, **named)
    assert asked(toy.ours(shots=3, **unnamed)) != asked(toy.ours(shots=3, **named))
    strict = [asked(toy.ours("strict", shots=3, **keys)) for keys in (unnamed, named)]
    assert strict[0] == strict[1]


def test_twins_of_a_question_are_left_out_by_what_they_say_and_not_by_their_row(toy: Toy) -> None:
    rows = [row for row in capitals(6) for _ in range(2)]
    keys = {**toy.data(test=rows), "training_split": None, "fewshot_split": "test"}
    compat = toy.ours(shots=4, **keys)
    assert asked(compat) == toy.theirs(shots=4, **keys)
    assert leaks(compat) == 0
    for item in toy.ours("strict", shots=4, **keys):
        assert ("test", item.doc_id) not in item.shots
        assert len(item.shots) == 4


def test_which_documents_are_chosen_decides_their_examples(toy: Toy) -> None:
    keys = toy.data(train=capitals(20), test=capitals(10))
    chosen = toy.ours(shots=3, samples=[2, 7], **keys)
    assert asked(chosen) == toy.theirs(shots=3, samples=[2, 7], **keys)
    assert [item.doc_id for item in chosen] == [2, 7]
    whole = {item.doc_id: item.prompt for item in toy.ours(shots=3, **keys)}
    assert chosen[1].prompt != whole[7]
    strict = {item.doc_id: item.prompt for item in toy.ours("strict", shots=3, **keys)}
    for item in toy.ours("strict", shots=3, samples=[7, 2], **keys):
        assert item.prompt == strict[item.doc_id]


def test_the_number_of_processes_decides_the_examples(toy: Toy) -> None:
    """Their ranks each draw from the beginning; of ours, compat is their single process."""
    keys = toy.data(train=capitals(30), test=capitals(12))
    alone = toy.theirs(shots=3, **keys)
    second = toy.theirs(shots=3, rank=1, ranks=2, **keys)
    assert second != [
        arguments for number in range(1, 12, 2) for arguments in alone[3 * number : 3 * number + 3]
    ]
    assert asked(toy.ours(shots=3, **keys)) == alone
    strict = toy.ours("strict", shots=3, **keys)
    shard = toy.ours("strict", shots=3, samples=list(range(1, 12, 2)), **keys)
    assert asked(shard) == asked(strict[1::2])


@pytest.mark.parametrize("limit", [1, 5, 9])
def test_a_limit_changes_no_prompt(toy: Toy, limit: int) -> None:
    keys = toy.data(train=capitals(30), test=capitals(9))
    for mode in ("compat", "strict"):
        assert asked(toy.ours(mode, shots=3, limit=limit, **keys)) == asked(
            toy.ours(mode, shots=3, **keys)[:limit]
        )
    assert asked(toy.ours(shots=3, limit=limit, **keys)) == toy.theirs(shots=3, limit=limit, **keys)


def test_a_zero_in_the_task_file_cannot_be_overridden(toy: Toy) -> None:
    keys = {**toy.data(train=capitals(9), test=capitals(3)), "num_fewshot": 0}
    assert toy.task(shots=2, mode="compat", **keys).shots == 0
    assert toy.task(shots=2, mode="strict", **keys).shots == 2


def test_fewshot_indices_are_passed_over(toy: Toy) -> None:
    keys = {
        **toy.data(train=capitals(20), test=capitals(6)),
        "fewshot_config": {"fewshot_indices": [3, 4, 5]},
    }
    compat = toy.ours(shots=2, **keys)
    assert asked(compat) == toy.theirs(shots=2, **keys)
    assert not {row for item in compat for _, row in item.shots} <= {3, 4, 5}
    strict = toy.ours("strict", shots=2, **keys)
    assert {row for item in strict for _, row in item.shots} <= {3, 4, 5}


def test_the_first_document_decides_whether_questions_are_positions(toy: Toy) -> None:
    """A question of digits is a position to lm-evaluation-harness, and one such is enough."""
    rows = [{**row, "question": "2"} if number else row for number, row in enumerate(capitals(3))]
    keys = {**toy.data(test=rows), **OWN_SPLIT_NOT_NAMED, "doc_to_text": "{{question}}"}
    with pytest.raises(AssertionError):
        toy.theirs(**keys)
    with pytest.raises(TaskError):
        toy.ours(**keys)
    with pytest.raises(TaskError, match="document 0"):
        toy.ours("strict", **keys)


def test_a_target_with_a_space_before_it_gives_two_spaces_in_the_examples(toy: Toy) -> None:
    keys = {
        **toy.data(train=capitals(9), test=capitals(3)),
        "output_type": "loglikelihood",
        "doc_to_choice": None,
        "doc_to_target": "{{' ' ~ choices[answer]}}",
        "metric_list": [{"metric": "acc"}],
    }
    compat = asked(toy.ours(shots=1, **keys))
    assert compat == toy.theirs(shots=1, **keys)
    assert "A:  city" in compat[0][0]
    assert compat[0][1].startswith(" city")


@pytest.mark.parametrize(
    ("prefix", "begin"), [(None, "city"), ("It is", " city"), ("It is ", "city")]
)
def test_in_a_conversation_a_choice_loses_its_space_unless_a_prefix_wants_it(
    toy: Toy, prefix: str | None, begin: str
) -> None:
    keys = {**toy.data(train=capitals(9), test=capitals(3)), "gen_prefix": prefix}
    compat = asked(toy.ours(shots=1, chat=Chat(TEMPLATE, multiturn=True), **keys))
    assert compat == toy.theirs(shots=1, chat=True, **keys)
    assert compat[0][1].startswith(begin)


def test_nothing_stands_between_a_system_text_and_the_question(toy: Toy) -> None:
    keys = {**toy.data(train=capitals(9), test=capitals(3)), "description": "Geography."}
    compat = asked(toy.ours(**keys))
    assert compat == toy.theirs(**keys)
    assert compat[0][0].startswith("Geography.Q: ")


def test_documents_that_are_processed_at_random_are_scored_as_they_were_asked(toy: Toy) -> None:
    """lm-evaluation-harness processes them again before it scores: another order, other answers."""
    toy.code(
        "import random\n\n\ndef shuffled(docs):\n"
        "    return docs.select(random.sample(range(len(docs)), len(docs)))\n"
    )
    keys = {**toy.data(test=capitals(30)), **OWN_SPLIT_NOT_NAMED}
    keys = {**keys, "process_docs": "", "functions": {"process_docs": "shuffled"}}
    for mode in ("compat", "strict"):
        task = toy.task(mode=mode, **keys)
        items = task.items()
        assert [item.doc for item in items] == task.docs
        assert all(item.doc["question"] in item.prompt for item in items)
