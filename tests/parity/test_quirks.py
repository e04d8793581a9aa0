"""lm-evaluation-harness's quirks by name: in compat they are there, in strict not.

Where it ends the run, losing everything, we lose at most the one metric. Both engines read the same
toy task file and the same local data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evalcore.errors import TaskError
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.task import Item
from tests.evalcore.both_scorers import CHOICES, Scene, load_in_lm_eval, requests_of
from tests.evalcore.worlds import TEMPLATE, World, capitals, written_turns
from tests.parity import NEEDS_LM_EVAL

pytestmark = [*NEEDS_LM_EVAL]

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
        self, *, shots: int = 0, rank: int = 0, ranks: int = 1, chat: bool = False, **keys: Any
    ) -> list[list[Any]]:
        """The arguments of all requests of lm-evaluation-harness."""
        samples = keys.pop("samples", None)
        template = written_turns if chat else None
        options = {"apply_chat_template": chat, "fewshot_as_multiturn": chat}
        instances = requests_of(
            load_in_lm_eval(self.spec(**keys)),
            shots=shots,
            samples=samples,
            rank=rank,
            world_size=ranks,
            chat_template=template,
            **options,
        )
        return [list(instance.args) for instance in instances]


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


def asked(items: Sequence[Item]) -> list[list[Any]]:
    return [list(request.arguments) for item in items for request in item.requests]


def leaks(items: Sequence[Item]) -> int:
    """Documents whose own question is among their examples."""
    return sum(item.prompt.count(item.doc["question"]) > 1 for item in items)


@pytest.mark.parametrize("splits", [VALIDATION_ONLY, OWN_SPLIT_NOT_NAMED])
def test_a_question_is_among_its_own_examples_where_they_come_from_its_own_split(
    toy: Toy, splits: dict[str, Any]
) -> None:
    keys = {**toy.data(test=capitals(12)), **splits}
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
    assert chosen[0].shots == toy.ours(shots=3, **keys)[0].shots  # of the one stream of draws
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


# Scores


def scene(folder: Path, keys: str, rows: Any = None) -> Scene:
    return Scene(folder, rows or capitals(12), f"{CHOICES}    {keys}")


def test_f1_of_three_classes_fails_whatever_average_is_stated(tmp_path: Path) -> None:
    toy = scene(tmp_path, "metric_list: [{metric: f1, average: macro}, {metric: acc}]")
    with pytest.raises(ValueError, match="multiclass"):
        toy.theirs(_drawn)
    compat, why = toy.ours(_drawn)
    assert set(why) == {"f1"}
    assert "strict" in why["f1"]
    assert "acc,none" in compat
    strict, why = toy.ours(_drawn, mode="strict")
    assert not why
    assert 0 < strict["f1,none"] < 1


def _drawn(request: Any, _: int) -> tuple[float, bool]:
    return (-(sum(map(ord, request.context + request.continuation)) % 17) / 4, False)


def test_likelihood_without_an_aggregation_fails_and_loses_nothing_else(tmp_path: Path) -> None:
    toy = scene(tmp_path, "metric_list: [{metric: likelihood}, {metric: acc}]")
    with pytest.raises(TypeError):
        toy.theirs(_drawn)
    numbers, why = toy.ours(_drawn)
    assert set(why) == {"likelihood"}
    assert "give it an aggregation of your own" in why["likelihood"]
    assert "acc,none" in numbers
    numbers, why = toy.ours(lambda *_: (-2.0, False), mode="strict")
    assert (numbers["likelihood,none"], why) == (-2.0, {})


def test_the_null_context_of_a_metric_is_passed_over(tmp_path: Path) -> None:
    toy = scene(tmp_path, 'metric_list: [{metric: acc_mutual_info, null_context: "Answer:"}]')
    contexts: dict[str, set[str]] = {"compat": set(), "strict": set()}
    for mode, seen in contexts.items():
        toy.scored(lambda request, _, seen=seen: seen.add(request.context) or (-1.0, False), mode)
    assert "" in contexts["compat"]
    assert "Answer:" not in contexts["compat"]
    assert "Answer:" in contexts["strict"]
    assert toy.ours(_drawn)[0].items() >= toy.theirs(_drawn).items()


def test_a_median_of_an_even_number_is_the_upper_one(tmp_path: Path) -> None:
    toy = scene(
        tmp_path,
        "metric_list: [{metric: acc, aggregation: median, higher_is_better: true}]",
        capitals(2),
    )

    def half_right(request: Any, _: int) -> tuple[float, bool]:
        return (-1.0 if request.continuation.endswith("a") else -2.0, False)

    assert toy.theirs(half_right)["acc,none"] == 1.0
    assert toy.ours(half_right)[0]["acc,none"] == 1.0
    assert toy.ours(half_right, mode="strict")[0]["acc,none"] == 0.5


def test_acc_norm_divides_by_letters_and_acc_bytes_by_bytes(tmp_path: Path) -> None:
    rows = [{"question": "?", "choices": ["日本語", "river"], "answer": 0}] * 4
    toy = scene(tmp_path, "metric_list: [{metric: acc_norm}, {metric: acc_bytes}]", rows)

    def answer(request: Any, _: int) -> tuple[float, bool]:
        return (-3.0 if "日" in request.continuation else -4.0, False)

    for mode in ("compat", "strict"):
        numbers, _ = toy.ours(answer, mode=mode)
        assert numbers["acc_norm,none"] == 0.0
        assert numbers["acc_bytes,none"] == 1.0
    assert toy.theirs(answer)["acc_norm,none"] == 0.0


def test_a_match_beyond_those_found_ends_the_run_there_and_is_the_fallback_here(
    tmp_path: Path,
) -> None:
    toy = Scene(
        tmp_path,
        capitals(4),
        """
    output_type: generate_until
    doc_to_text: question
    doc_to_target: "{{choices[answer]}}"
    filter_list:
      - name: second
        filter:
          - {function: regex, regex_pattern: "[0-9]+", group_select: 1}
          - {function: take_first}
    metric_list: [{metric: exact_match}]
    """,
    )

    def one_number(*_: Any) -> str:
        return "only 7"

    with pytest.raises(IndexError):
        toy.theirs(one_number)
    for mode in ("compat", "strict"):
        numbers, why = toy.ours(one_number, mode=mode)
        assert not why
        assert numbers["exact_match,second"] == 0.0


def test_several_right_answers_end_the_run_there_for_mutual_information(tmp_path: Path) -> None:
    rows = [{**row, "answer": [0, 1, 2]} for row in capitals(4)]
    toy = scene(tmp_path, "metric_list: [{metric: acc_mutual_info}, {metric: acc}]", rows)
    with pytest.raises(ValueError, match="ambiguous"):
        toy.theirs(_drawn)
    for mode in ("compat", "strict"):
        assert toy.ours(_drawn, mode=mode)[0]["acc_mutual_info,none"] == 1.0


DRAWING = {
    "order": """
import random
def p(docs):
    rows = list(range(len(docs)))
    random.shuffle(rows)
    return docs.select(rows)
""",
    "choices, in map": """
import random
def p(docs):
    def mixed(doc):
        order = random.sample(range(3), 3)
        choices = [doc["choices"][place] for place in order]
        return {"choices": choices, "answer": order.index(doc["answer"])}
    return docs.map(mixed)
""",
    "by a generator of the module's own": """
import random
own = random.Random(42)
def p(docs):
    return docs.select(own.sample(range(len(docs)), len(docs)))
""",
    "as datasets shuffles": "def p(docs):\n    return docs.shuffle()\n",
}


@pytest.mark.parametrize("limit", [None, 0.5])
@pytest.mark.parametrize("pool", ["train", "test"])
@pytest.mark.parametrize("code", DRAWING.values(), ids=DRAWING)
def test_what_process_docs_draws_is_what_it_draws_there(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, code: str, pool: str, limit: float | None
) -> None:
    """The examples are processed first, and the documents more than once; it scores another draw
    than it asks, where we score what was asked."""
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    class Asked(LM):  # type: ignore[misc]
        def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
            self.seen = [list(request.args) for request in requests]
            return [(-1.0, False)] * len(requests)

        def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
            raise NotImplementedError

        generate_until = loglikelihood_rolling

    monkeypatch.setenv("DISABLE_MULTIPROC", "1")
    toy.code(code)
    keys = {**toy.data(train=capitals(9), test=capitals(8)), "fewshot_split": pool}
    toy.spec(functions={"process_docs": "p"}, **keys)
    model = Asked()
    lm_eval.simple_evaluate(
        model, tasks=["capitals"], num_fewshot=2, limit=limit, bootstrap_iters=0,
        task_manager=TaskManager(include_path=str(toy.folder / "tasks"), include_defaults=False),
    )  # fmt: skip
    for _ in range(2):  # whatever ran before
        compat = toy.ours(shots=2, limit=limit, functions={"process_docs": "p"}, **keys)
        assert asked(compat) == model.seen
    strict = [
        toy.ours("strict", shots=2, limit=limit, functions={"process_docs": "p"}, **keys)
        for _ in range(2)
    ]
    assert asked(strict[0]) == asked(strict[1])
