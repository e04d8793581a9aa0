"""What each output type asks, and what a run may change about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.errors import TaskError
from evalcore.model.base import Request
from evalcore.task.asking.chat import plain_text
from evalcore.task.asking.prompt import DocReader, Prompter
from evalcore.task.asking.task import Item, Mode
from evalcore.task.config import FewshotSpec, TaskSpec
from evalcore.task.metadata import TaskMetadata
from tests.evalcore.worlds import World, capitals

DOC = {"question": "Why?", "choices": ["so", "no"], "answer": 1, "label": "no", "number": "12"}
OTHER = {**DOC, "question": "How?"}
TEXT = {"output_type": "generate_until", "doc_to_choice": None, "doc_to_target": "label"}
LIKELIHOOD = {**TEXT, "output_type": "loglikelihood"}
ROLLING = {**TEXT, "output_type": "loglikelihood_rolling"}
MODES = pytest.mark.parametrize("mode", ["compat", "strict"])
FIRST = {"fewshot_config": {"sampler": "first_n"}}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def items(world: World, *docs: dict[str, Any], **keys: Any) -> list[Item]:
    data = world.data(train=[OTHER, OTHER], test=docs or [DOC])
    return world.task(**{**data, **keys}).items()


# generate_until


@MODES
def test_a_task_that_says_nothing_generates_greedily_until_its_delimiter(
    world: World, mode: Mode
) -> None:
    task = world.task(**world.data(test=[DOC]), **TEXT, mode=mode, fewshot_delimiter="\n#\n")
    arguments = {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256, "until": ["\n#\n"]}
    assert task.generation_kwargs == arguments
    (item,) = task.items()
    assert item.requests == [Request("generate_until", "Q: Why?\nA:", generation=arguments)]
    assert (item.gold, item.choices, item.target, item.answer) == ([], [], "no", "no")


def test_stated_arguments_lack_only_the_stops_and_the_command_overrides_them(world: World) -> None:
    stated = {"temperature": "0.5", "do_sample": True, "max_gen_toks": 9}
    task = world.task(
        **world.data(test=[DOC]),
        **TEXT,
        generation_kwargs=stated,
        generation={"max_gen_toks": 3, "top_k": 5},
    )
    assert task.generation_kwargs == {
        "temperature": 0.5,
        "do_sample": True,
        "max_gen_toks": 3,
        "top_k": 5,
        "until": ["\n\n"],
    }


def test_generation_arguments_mean_nothing_to_a_task_that_generates_nothing(world: World) -> None:
    task = world.task(**world.data(test=[DOC]), generation={"temperature": 1})
    assert task.generation_kwargs is None


def test_a_temperature_that_is_no_number_is_an_error(world: World) -> None:
    with pytest.raises(TaskError, match="temperature: expected a number, got 'hot'"):
        items(world, **TEXT, generation_kwargs={"temperature": "hot"})


@MODES
def test_digits_are_a_choice_only_where_there_are_choices(world: World, mode: Mode) -> None:
    digits = {"doc_to_target": "{{number}}", "mode": mode}
    (text,) = items(world, **{**TEXT, **digits})
    assert text.answer == "12"
    (choice,) = items(world, **{**TEXT, **digits, "doc_to_choice": "choices"})
    assert (choice.answer, choice.choices, choice.gold) == (12, ["so", "no"], [])


@MODES
def test_every_request_is_repeated_as_often_as_the_task_says(world: World, mode: Mode) -> None:
    for keys in ({}, TEXT, LIKELIHOOD, ROLLING):
        (item,) = items(world, **keys, mode=mode, repeats=4)
        assert {request.repeats for request in item.requests} == {4}


@MODES
@pytest.mark.parametrize("key", ["doc_to_text", "doc_to_target"])
def test_a_task_without_a_question_or_an_answer_is_an_error(
    world: World, mode: Mode, key: str
) -> None:
    with pytest.raises(TaskError, match=f"The task capitals: {key} is missing"):
        items(world, **{**TEXT, key: None}, mode=mode)


# loglikelihood


def loglikelihood(world: World, mode: Mode, target: str) -> tuple[Any, ...]:
    keys = {**LIKELIHOOD, **FIRST, "doc_to_target": target}
    (item,) = items(world, **keys, shots=1, mode=mode)
    return item.requests[0].arguments


def test_compat_delimits_a_target_in_the_examples_alone(world: World) -> None:
    assert loglikelihood(world, "compat", "label") == ("Q: How?\nA: no\n\nQ: Why?\nA:", "no")
    assert loglikelihood(world, "compat", " {{label}}") == (
        "Q: How?\nA:  no\n\nQ: Why?\nA:",
        " no",
    )


@pytest.mark.parametrize("target", ["label", " {{label}}"])
def test_strict_joins_question_and_target_alike_in_examples_and_request(
    world: World, target: str
) -> None:
    assert loglikelihood(world, "strict", target) == ("Q: How?\nA: no\n\nQ: Why?\nA:", " no")


@MODES
def test_a_target_that_is_no_text_cannot_be_scored(world: World, mode: Mode) -> None:
    for keys in (LIKELIHOOD, ROLLING):
        with pytest.raises(TaskError, match="doc_to_target must give the text to score, got int 1"):
            items(world, **{**keys, "doc_to_target": "answer"}, mode=mode)


words = st.text(st.sampled_from("ab \n"), max_size=4)


def prompter(mode: Mode, output_type: str, prefix: str, delimiter: str) -> Prompter:
    """That of a task on the columns q and a; `prefix` is a column, too."""
    few = {"target_delimiter": delimiter, "doc_to_text": "q", "doc_to_target": "a"}
    spec = TaskSpec(
        task="t",
        output_type=output_type,
        doc_to_text="q",
        doc_to_target="a",
        gen_prefix=prefix,
        target_delimiter=delimiter,
        fewshot=FewshotSpec(**few, gen_prefix=prefix),  # type: ignore[arg-type]
        about=TaskMetadata(benchmark="t"),
    )
    return Prompter(spec, DocReader({"q", "a", "prefix"}), strict=mode == "strict")


@given(q=words, a=words.filter(bool), prefix=words, delimiter=words, data=st.data())
def test_an_example_begins_as_the_question_does_that_it_is_an_example_of(
    q: str, a: str, prefix: str, delimiter: str, data: st.DataObject
) -> None:
    mode: Mode = data.draw(st.sampled_from(["compat", "strict"]))
    kind = data.draw(st.sampled_from(["multiple_choice", "generate_until", "loglikelihood"]))
    writer = prompter(mode, kind, "prefix", delimiter)
    doc = {"q": q, "a": a, "prefix": prefix}
    example = plain_text(writer.example(doc, choices_are_contexts=False))
    assert example.startswith(plain_text(writer.question(q, doc)))
    assert example.endswith(f"{a}\n\n")


@given(q=words, a=words.filter(bool), prefix=words, delimiter=words)
def test_in_strict_an_example_is_a_question_with_its_target_as_it_would_be_asked(
    q: str, a: str, prefix: str, delimiter: str
) -> None:
    writer = prompter("strict", "loglikelihood", "prefix", delimiter)
    doc = {"q": q, "a": a, "prefix": prefix}
    end = writer.question(q, doc)
    asked = plain_text(end) + writer.target_delimiter(end, a) + a
    assert plain_text(writer.example(doc, choices_are_contexts=False)) == f"{asked}\n\n"


# loglikelihood_rolling


@MODES
def test_a_rolling_text_is_scored_whole_and_without_examples(world: World, mode: Mode) -> None:
    (item,) = items(world, **ROLLING, shots=5, mode=mode, description="About")
    assert item.requests == [Request("loglikelihood_rolling", "", "no")]
    assert (item.prompt, item.shots, item.target) == ("", [], "no")


# Choices without their question

INFORMATION = {"metric_list": [{"metric": "acc_mutual_info", "null_context": "Answer:"}]}


def test_mutual_information_asks_for_every_choice_without_its_question(world: World) -> None:
    (compat,) = items(world, **INFORMATION, mode="compat")
    prompt = compat.prompt
    assert [request.arguments for request in compat.requests] == [
        (prompt, " so"),
        (prompt, " no"),
        ("", " so"),  # lm-eval takes no other context
        ("", " no"),
    ]


def test_strict_asks_for_them_after_the_context_that_the_metric_states(world: World) -> None:
    (stated,) = items(world, **INFORMATION, mode="strict")
    assert [request.context for request in stated.requests[2:]] == ["Answer:", "Answer:"]
    (unstated,) = items(world, metric_list=[{"metric": "acc_mutual_info"}], mode="strict")
    assert [request.context for request in unstated.requests[2:]] == ["", ""]


# Decisions that lm-eval makes on document 0

LIST_LATER = [{**DOC, "label": "[not a list]"}, {**DOC, "label": "['so', 'no']"}]


def test_compat_takes_document_0s_word_for_how_many_answers_there_are(world: World) -> None:
    keys = {**TEXT, "doc_to_target": "{{label}}", "mode": "compat"}
    assert [item.several_answers for item in items(world, *LIST_LATER, **keys)] == [False, False]
    several = items(world, *reversed(LIST_LATER), **keys)
    assert [item.several_answers for item in several] == [True, True]
    # Document 0 decides even where it is not scored.
    (one,) = items(world, *reversed(LIST_LATER), **keys, samples=[1])
    assert (one.doc_id, one.several_answers) == (1, True)


def test_strict_refuses_one_answer_beside_several(world: World) -> None:
    keys = {**TEXT, "doc_to_target": "{{label}}", "mode": "strict"}
    complaint = r"document 1 of test: doc_to_target gives \['so', 'no'\] here and '\[not a list\]'"
    with pytest.raises(TaskError, match=complaint):
        items(world, *LIST_LATER, **keys)
    (one,) = items(world, {**DOC, "label": "['so']"}, **keys)
    assert (one.several_answers, one.answer) == (True, ["so"])


def test_compat_takes_document_0s_word_for_what_the_contexts_are(world: World) -> None:
    world.code("def text(doc): return doc['answer'] if doc['question'] == 'Why?' else 'text'")
    keys = {"functions": {"doc_to_text": "text"}, "doc_to_target": "label", "mode": "compat"}
    first, second = items(world, DOC, OTHER, **keys)
    assert first.choices_are_contexts
    assert second.choices_are_contexts
    assert [request.context for request in second.requests] == ["so", "no"]
    (only,) = items(world, DOC, OTHER, **keys, samples=[1])
    assert only.requests == second.requests


# A task that scores by itself


@MODES
def test_a_task_that_scores_by_itself_may_have_any_target(world: World, mode: Mode) -> None:
    world.code("def score(doc, results): return {'acc': len(results)}")
    keys = {"functions": {"process_results": "score"}, "doc_to_target": "label"}
    data = world.data(test=[{**DOC, "label": "neither"}])
    task = world.task(**data, **keys, mode=mode)
    (item,) = task.items()
    assert (item.gold, item.answer) == ([-100], "neither")
    assert task.own_process_results is not None
    assert task.own_process_results(item.doc, [1, 2]) == {"acc": 2}


# Chosen documents


def asked_rows(world: World, mode: Mode, samples: list[int] | None) -> dict[int, Item]:
    data = world.data(train=capitals(40)[20:], test=[*capitals(9), *capitals(9)])
    task = world.task(**data, mode=mode, shots=3, samples=samples)
    found = {item.doc_id: item for item in task.items()}
    assert len(found) == len(task.docs)
    return found


@MODES
def test_chosen_documents_are_asked_in_order_and_keep_their_rows(world: World, mode: Mode) -> None:
    whole = asked_rows(world, mode, None)
    chosen = asked_rows(world, mode, [12, 5, 7, 5])
    assert list(chosen) == [5, 7, 12]
    assert all(chosen[row].doc == whole[row].doc for row in chosen)


def test_in_compat_the_choice_changes_the_examples_and_in_strict_it_does_not(world: World) -> None:
    whole = asked_rows(world, "compat", None)
    chosen = asked_rows(world, "compat", [12, 5, 7])
    # lm-eval's one stream of draws: the first document that is asked gets document 0's examples.
    assert chosen[5].shots == whole[0].shots != whole[5].shots
    strict = asked_rows(world, "strict", None)
    assert strict[3].shots != strict[12].shots  # the same document twice, drawn for twice
    for row, item in asked_rows(world, "strict", [12, 5, 7]).items():
        assert item == strict[row]


@MODES
@pytest.mark.parametrize("row", [18, -1])
def test_a_chosen_document_that_does_not_exist_is_an_error(
    world: World, mode: Mode, row: int
) -> None:
    with pytest.raises(
        TaskError, match=f"no document {row} to sample; test has those from 0 to 17"
    ):
        asked_rows(world, mode, [3, row])


# What is looked for in training text


@pytest.mark.parametrize(
    ("keys", "query"),
    [
        ({}, "Q: Why?\nA:"),
        ({"doc_to_decontamination_query": "label"}, "no"),
        ({"doc_to_decontamination_query": "{{question}} {{label}}"}, "Why? no"),
        ({"functions": {"doc_to_decontamination_query": "query"}}, "Why?!"),
        ({"doc_to_text": "answer", "doc_to_target": "label"}, "so no"),
    ],
)
def test_the_query_of_a_document_is_what_the_task_states_or_its_question(
    world: World, keys: dict[str, Any], query: str
) -> None:
    world.code("def query(doc): return doc['question'] + '!'")
    task = world.task(**world.data(test=[DOC]), **keys)
    (item,) = task.items()
    assert task.query_of(item) == query
