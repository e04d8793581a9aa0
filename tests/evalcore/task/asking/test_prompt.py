"""From documents to prompts and requests: templates, sources, delimiters, gold."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.errors import TaskError
from evalcore.task.asking.prompt import DocReader
from evalcore.task.asking.task import Item, Mode
from evalcore.task.template import render
from tests.evalcore.worlds import World, capitals

DOC = {"question": "Why?", "choices": ["so", "no"], "answer": 1, "label": "no"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def only_item(world: World, doc: dict[str, Any] = DOC, **keys: Any) -> Item:
    data = world.data(train=[DOC, DOC], test=[doc])
    (item,) = world.task(**{**data, **keys}).items()
    return item


def sent(item: Item) -> list[tuple[str, str]]:
    return [(request.context, request.continuation) for request in item.requests]


# Templates


@given(text=st.text(st.characters(exclude_characters="{}\r\n\x85\u2028\u2029", codec="utf-8")))
def test_a_template_without_jinja_is_its_own_text(text: str) -> None:
    # Jinja's own marks need a brace before them; "#" and "%" alone are text.
    assert render(text, {}) == text


@given(value=st.text())
def test_a_column_is_put_in_as_it_is(value: str) -> None:
    assert render("<{{value}}>\n", {"value": value}) == f"<{value}>\n"


def test_templates_replace_by_pattern() -> None:
    assert render("{{x | regex_replace('[0-9]+', '#')}}", {"x": "a1b22"}) == "a#b#"
    assert render("{{x | regex_replace('[0-9]+', '#', 1)}}", {"x": "a1b22"}) == "a#b22"


def test_a_missing_column_is_an_error_that_lists_the_columns() -> None:
    with pytest.raises(TaskError, match="'qestion' is undefined; its columns are question, answer"):
        render("{{qestion}}", {"question": "?", "answer": 1})


def test_a_broken_template_is_an_error() -> None:
    with pytest.raises(TaskError, match="is not a Jinja template"):
        render("{% if %}", {})


def test_a_template_cannot_reach_into_python() -> None:
    with pytest.raises(TaskError, match="unsafe"):
        render("{{ question.__class__.__mro__ }}", {"question": "?"})


# Sources of text, target and choices


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("answer", 1),  # a column keeps its type
        ("{{answer}}", 1),  # digits mean a choice by its position
        ("{{label}}", "no"),
        ("label", "no"),
        (0, 0),
        ("{{[0, 1]}}", [0, 1]),
        ("[not a list", "[not a list"),
        ("[0, oops]", "[0, oops]"),
        (["x", "y"], ["x", "y"]),
    ],
)
def test_a_target_is_a_column_a_number_a_template_or_a_list(source: Any, expected: Any) -> None:
    reader = DocReader(DOC.keys())
    assert reader.target(source, DOC) == expected


def test_a_question_is_never_a_list() -> None:
    assert DocReader(DOC.keys()).text("{{[0, 1]}}", DOC) == "[0, 1]"


@pytest.mark.parametrize("source", ["choices", "{{choices}}", ["so", "no"], {"A": "so", "B": "no"}])
def test_choices_are_a_column_a_template_a_list_or_a_mapping(world: World, source: Any) -> None:
    assert only_item(world, doc_to_choice=source).choices == ["so", "no"]


@pytest.mark.parametrize("source", ["question", "{{question}}", "{{[1, 2]}}", "{{[]}}"])
def test_choices_that_are_no_list_of_texts_are_an_error_with_the_document(
    world: World, source: str
) -> None:
    with pytest.raises(TaskError, match=r"capitals.*, document 0 of test: doc_to_choice"):
        only_item(world, doc_to_choice=source)


# Prompts and requests


def test_a_request_per_choice_follows_the_description_and_the_question(world: World) -> None:
    item = only_item(world, description="About {{label}}.\n\n")
    assert item.prompt == "About no.\n\nQ: Why?\nA:"
    assert sent(item) == [(item.prompt, " so"), (item.prompt, " no")]
    assert (item.gold, item.target, item.doc_id, item.split) == ([1], "1", 0, "test")


def test_delimiters_are_those_of_the_task_and_of_its_examples(world: World) -> None:
    item = only_item(
        world,
        num_fewshot=1,
        target_delimiter="_",
        fewshot_delimiter="##",
        fewshot_config={"target_delimiter": "=", "sampler": "first_n"},
        # An example that is the question itself is never shown, so ask another one.
        doc={**DOC, "question": "How?"},
    )
    assert item.prompt == "Q: Why?\nA:=no##Q: How?\nA:"
    assert [request.continuation for request in item.requests] == ["_so", "_no"]


@pytest.mark.parametrize(
    ("question", "prefix", "end"),
    [
        ("{{question}}", "So:", "Why? So:"),
        ("{{question}}\n", "So:", "Why?\nSo:"),
        ("{{question}}", "\nSo:", "Why?\nSo:"),
        ("{{question}}", "{{label}}", "Why? no"),
    ],
)
def test_a_prefix_of_the_answer_is_joined_with_one_white_space(
    world: World, question: str, prefix: str, end: str
) -> None:
    assert only_item(world, doc_to_text=question, gen_prefix=prefix).prompt == end


def test_an_example_shows_the_prefix_and_then_its_answer(world: World) -> None:
    item = only_item(
        world,
        doc={**DOC, "question": "How?"},
        num_fewshot=1,
        gen_prefix="It is",
        fewshot_config={"sampler": "first_n"},
    )
    assert item.prompt == "Q: Why?\nA: It is no\n\nQ: How?\nA: It is"


def test_an_example_without_an_answer_is_its_question_alone(world: World) -> None:
    item = only_item(
        world,
        doc={**DOC, "question": "How?"},
        num_fewshot=1,
        doc_to_text="{{question}} ",
        fewshot_config={"sampler": "first_n", "doc_to_target": "{{''}}"},
    )
    assert item.prompt == "Why? How? "


def test_where_the_question_is_a_position_every_choice_is_a_context(world: World) -> None:
    item = only_item(
        world,
        doc={**DOC, "question": "How?"},
        num_fewshot=1,
        doc_to_text="answer",
        doc_to_choice="{{['The ' + choices[0], 'The ' + choices[1]]}}",
        doc_to_target="{{question}}",
        fewshot_config={"sampler": "first_n"},
    )
    before = "The no Why?\n\n"
    assert sent(item) == [(before + "The so", " How?"), (before + "The no", " How?")]
    assert (item.gold, item.prompt, item.target) == ([1], before + "The so", "How?")


def test_strict_refuses_to_mix_questions_and_positions(world: World) -> None:
    data = world.data(train=[DOC], test=[DOC, {**DOC, "question": "1"}])
    task = world.task(**data, doc_to_text="{{question}}")
    with pytest.raises(TaskError, match="document 1 of test: doc_to_text gives 1 here and text"):
        task.items()


def test_several_right_choices_are_all_gold(world: World) -> None:
    item = only_item(world, doc_to_target="{{[0, 1]}}")
    assert (item.gold, item.target) == ([0, 1], "[0, 1]")


def test_a_target_that_is_text_is_found_among_the_choices(world: World) -> None:
    assert only_item(world, doc_to_target="label").gold == [1]


@pytest.mark.parametrize("target", [2, -1, "{{question}}"])
def test_a_target_that_is_no_choice_scores_0_in_compat_and_is_an_error_in_strict(
    world: World, target: Any
) -> None:
    assert only_item(world, mode="compat", doc_to_target=target).gold == [-100]
    with pytest.raises(TaskError, match="which is none of the 2 choices"):
        only_item(world, mode="strict", doc_to_target=target)


def answering(world: World, mode: Mode, *right: str) -> list[list[int]]:
    """The gold of one document for each text in `right`, which its target is rendered from."""
    docs = [{**DOC, "right": text} for text in right]
    data = world.data(train=[DOC], test=docs)
    task = world.task(**data, mode=mode, doc_to_target="{{right}}")
    return [item.gold for item in task.items()]


@pytest.mark.parametrize("mode", ["strict", "compat"])
def test_every_document_may_have_several_right_choices(world: World, mode: Mode) -> None:
    assert answering(world, mode, "[0, 1]", "[1]") == [[0, 1], [1]]


@pytest.mark.parametrize(
    ("right", "both"),
    [
        (("0", "1", "[0, 1]"), r"document 2 of test: doc_to_target gives \[0, 1\] here and 0 for"),
        (("[0, 1]", "1"), r"document 1 of test: doc_to_target gives 1 here and \[0, 1\] for"),
        (("0", "[1]"), r"document 1 of test: doc_to_target gives \[1\] here and 0 for document 0"),
    ],
)
def test_strict_refuses_to_mix_one_and_several_right_choices(
    world: World, right: tuple[str, ...], both: str
) -> None:
    with pytest.raises(TaskError, match=both):
        answering(world, "strict", *right)


def test_compat_takes_what_lm_eval_can_score_after_its_first_document(world: World) -> None:
    # numpy's 1 == [1] is true, so a list of one is as good as its entry.
    assert answering(world, "compat", "0", "[1]") == [[0], [1]]
    for right in (("0", "[0, 1]"), ("[0, 1]", "0")):
        with pytest.raises(TaskError, match="document 1 of test: doc_to_target gives"):
            answering(world, "compat", *right)


@pytest.mark.parametrize("mode", ["strict", "compat"])
@pytest.mark.parametrize(
    ("metadata", "docs", "complaint"),
    [
        (
            {"cluster": "lable"},
            [DOC],
            r"document 0 of test: metadata\.cluster: there is no column 'lable' \(did you mean "
            r"label\?\); the columns are question, choices, answer, label",
        ),
        (
            {"cluster": "label"},
            [DOC, {**DOC, "label": None}],
            r"document 1 of test: metadata\.cluster: the column 'label' is null: give every",
        ),
        (
            {"subset": "label"},
            [DOC, {**DOC, "label": None}],
            r"document 1 of test: metadata\.subset: the column 'label' is null: give every",
        ),
    ],
)
def test_a_column_of_the_metadata_without_a_value_is_an_error_before_anything_is_asked(
    world: World, mode: Mode, metadata: dict[str, str], docs: list[dict[str, Any]], complaint: str
) -> None:
    data = world.data(train=[DOC], test=docs)
    task = world.task(**data, mode=mode, metadata={"benchmark": "b", **metadata})
    with pytest.raises(TaskError, match=complaint):
        task.items()


def test_the_metadata_say_what_a_document_belongs_to(world: World) -> None:
    data = world.data(train=[DOC], test=[DOC])
    for metadata, cluster, subset in (
        ({}, None, None),
        ({"cluster": "answer", "subset": "label"}, "1", "no"),
        ({"subset": "constant"}, None, "constant"),
    ):
        task = world.task(**data, metadata={"benchmark": "b", **metadata})
        (item,) = task.items()
        assert (task.cluster_of(item), task.subset_of(item)) == (cluster, subset)


WITH_AN_OBJECT = """
def add(docs):
    return [{**doc, "price": object() if row == 1 else 1} for row, doc in enumerate(docs)]
"""


def test_a_value_without_a_digest_is_an_error_with_document_and_column(world: World) -> None:
    world.code(WITH_AN_OBJECT)
    data = world.data(train=[DOC], test=[DOC, DOC])
    task = world.task(**data, functions={"process_docs": "add"})
    complaint = "The task capitals, document 1 of test: the column 'price': object has no place"
    with pytest.raises(TaskError, match=complaint) as caught:
        task.items()
    assert "make it text or a number, in process_docs" in str(caught.value)


def test_an_example_without_a_digest_is_an_error_with_its_row_and_column(world: World) -> None:
    world.code(WITH_AN_OBJECT)
    data = world.data(train=[DOC, DOC], test=[{**DOC, "question": "How?"}])
    task = world.task(**data, shots=2, functions={"process_docs": "add"})
    with pytest.raises(TaskError, match="example 1 of train: the column 'price': object"):
        task.items()


@pytest.mark.parametrize(("limit", "count"), [(None, 7), (3, 3), (0.5, 4), (100, 7), (0.001, 1)])
def test_a_limit_takes_the_first_documents(world: World, limit: float | None, count: int) -> None:
    data = world.data(train=capitals(1), test=capitals(7))
    task = world.task(**data, limit=limit)
    assert [item.doc_id for item in task.items()] == list(range(count))
    assert task.n_original == 7


def test_a_limit_or_a_number_of_examples_below_zero_is_refused(world: World) -> None:
    with pytest.raises(ValueError, match="limit: expected a number above 0, got -1"):
        world.task(dataset_path="x", limit=-1)
    with pytest.raises(ValueError, match="num_fewshot: expected a number from 0, got -2"):
        world.task(dataset_path="x", shots=-2)


def test_documents_are_processed_once_and_that_object_is_kept(world: World) -> None:
    world.code(
        "import random\n"
        "calls = []\n"
        "def shuffle(docs):\n"
        "    calls.append('call')\n"
        "    def shuffled(doc):\n"
        "        order = random.sample(range(3), 3)\n"
        "        choices = [doc['choices'][i] for i in order]\n"
        "        return {'choices': choices, 'answer': order.index(doc['answer'])}\n"
        "    return docs.map(shuffled)\n"
        "def text(doc):\n"
        "    return f'{len(calls)} call'\n"
    )
    data = world.data(train=capitals(4), test=capitals(9))
    functions = {"process_docs": "shuffle", "doc_to_text": "text"}
    task = world.task(**data, functions=functions)
    items = task.items()
    assert {item.prompt for item in items} == {"1 call"}
    assert all(item.doc is doc for item, doc in zip(items, task.docs, strict=True))
    right = [item.choices[item.gold[0]] for item in items]
    assert right == [f"city {number} {'abc'[number % 3]}" for number in range(9)]
    assert len({item.gold[0] for item in items}) > 1

    # Whatever ran before, the same documents come out.
    random.seed(99)
    again = world.task(**data, functions=functions)
    assert [item.choices for item in again.items()] == [item.choices for item in items]


def test_a_function_that_fails_is_an_error_with_the_document(world: World) -> None:
    world.code("def text(doc): return doc['nowhere']")
    with pytest.raises(
        TaskError, match=r"document 0 of test: doc_to_text: !function code\.text failed: Key"
    ):
        only_item(world, functions={"doc_to_text": "text"})


def test_a_column_that_is_misspelt_is_an_error_in_strict_and_a_warning_in_compat(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    data = world.data(train=[DOC], test=[DOC])
    with pytest.raises(TaskError, match=r"doc_to_text: 'qestion' is no column .*mean question"):
        world.task(**data, doc_to_text="qestion").items()
    (item,) = world.task(mode="compat", **data, doc_to_text="qestion").items()
    assert item.prompt == "qestion"  # as in lm-eval
    assert "doc_to_text: 'qestion' is no column" in caplog.text


def test_an_example_in_the_file_that_lacks_a_column_is_named(world: World) -> None:
    few = {"samples": [{"choices": ["a"]}], "sampler": "first_n"}
    keys = {"doc_to_text": "question", "fewshot_split": None, "fewshot_config": few}
    task = world.task(shots=1, **world.data(test=[DOC]), **keys)
    with pytest.raises(TaskError, match="doc_to_text: a document lacks the column 'question'; it"):
        task.items()


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_examples_that_are_no_documents_are_refused(world: World, mode: Mode) -> None:
    world.code("def samples(): return ['a', 'b']")
    few = {"samples": "!function code.samples"}
    keys = {"fewshot_split": None, "fewshot_config": few}
    task = world.task(mode=mode, shots=1, **world.data(test=[DOC]), **keys)
    with pytest.raises(TaskError, match="samples must be a list of mappings"):
        task.items()


def test_process_docs_must_give_documents(world: World) -> None:
    world.code("def nothing(docs):\n    pass\n")
    task = world.task(**world.data(test=[DOC]), functions={"process_docs": "nothing"})
    with pytest.raises(TaskError, match=r"must return the documents .* it gave NoneType"):
        task.items()


def test_a_split_that_the_data_lack_is_told_with_task_file_and_key(world: World) -> None:
    task = world.task(**world.data(train=[DOC]), test_split="tset")
    with pytest.raises(TaskError, match=r"capitals\.yaml\): test_split: .*has no split 'tset'"):
        task.items()


def test_choices_that_are_no_list_are_shown_as_they_were_rendered(world: World) -> None:
    with pytest.raises(TaskError, match=r"a list of texts, '\{\{question\}\}' gives 'Why\?'"):
        only_item(
            world,
            output_type="multiple_choice",
            doc_to_text="question",
            doc_to_target="answer",
            doc_to_choice="{{question}}",
        )
