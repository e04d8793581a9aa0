"""From documents to prompts and requests: templates, sources, gold, and what is wrong.

Delimiters, prefixes and examples stand beside lm-evaluation-harness's in peer/test_prompts.py.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.errors import TaskError
from evalcore.model.base import Request
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.prompt import DocReader
from evalcore.task.asking.task import Item, Mode
from evalcore.task.template import render
from tests.evalcore.worlds import TEMPLATE, World, capitals

DOC = {"question": "Why?", "choices": ["so", "no"], "answer": 1, "label": "no", "number": "12"}
OTHER = {**DOC, "question": "How?"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def items(world: World, *docs: dict[str, Any], **keys: Any) -> list[Item]:
    data = world.data(train=[OTHER, OTHER], test=docs or [DOC])
    return world.task(**{**data, **keys}).items()


# Templates


@given(value=st.text())
def test_a_template_puts_columns_in_as_they_are_and_replaces_by_pattern(value: str) -> None:
    assert render("<{{value}}>\n", {"value": value}) == f"<{value}>\n"
    assert render("{{x | regex_replace('[0-9]+', '#')}}", {"x": "a1b22"}) == "a#b#"
    assert render("{{x | regex_replace('[0-9]+', '#', 1)}}", {"x": "a1b22"}) == "a#b22"
    assert render("{{x | regex_replace('b', repl='+', count=1)}}", {"x": "bb"}) == "+b"
    assert render("{{x | regex_replace(pattern='b', repl='+')}}", {"x": "bb"}) == "++"


def test_a_template_that_cannot_be_rendered_is_an_error() -> None:
    with pytest.raises(TaskError, match="'qestion' is undefined; its columns are question, answer"):
        render("{{qestion}}", {"question": "?", "answer": 1})
    with pytest.raises(TaskError, match="is not a Jinja template"):
        render("{% if %}", {})
    with pytest.raises(TaskError, match="unsafe"):
        render("{{ question.__class__.__mro__ }}", {"question": "?"})


# Sources of text, target and choices


READER = DocReader(DOC.keys())


def test_a_target_is_a_column_a_number_a_template_or_a_list() -> None:
    targets: list[tuple[Any, Any]] = [
        ("answer", 1),  # a column keeps its type
        ("{{answer}}", 1),  # digits mean a choice by its position
        ("{{label}}", "no"),
        ("label", "no"),
        (0, 0),
        ("{{[0, 1]}}", [0, 1]),
        ("[not a list", "[not a list"),
        ("[0, oops]", "[0, oops]"),
        (["x", "y"], ["x", "y"]),
    ]
    assert [(source, READER.target(source, DOC)) for source, _ in targets] == targets


def test_choices_are_a_column_a_template_a_list_or_a_mapping() -> None:
    for source in ("choices", "{{choices}}", ["so", "no"], {"A": "so", "B": "no"}):
        assert READER.choices(source, DOC) == ["so", "no"]


def test_choices_that_are_no_list_of_texts_are_an_error_with_the_document(world: World) -> None:
    for source in ("question", "{{[1, 2]}}"):
        with pytest.raises(TaskError, match="doc_to_choice must give a list of texts"):
            READER.choices(source, DOC)
    complaint = (
        r"capitals.*, document 0 of test: doc_to_choice must .* '\{\{question\}\}' gives 'Why"
    )
    with pytest.raises(TaskError, match=complaint):
        items(world, doc_to_choice="{{question}}")
    with pytest.raises(TaskError, match=r"doc_to_choice gives no choice: '\{\{\[\]\}\}'"):
        items(world, doc_to_choice="{{[]}}")


# Prompts and requests


def test_strict_refuses_to_mix_questions_and_positions(world: World) -> None:
    data = world.data(train=[DOC], test=[DOC, {**DOC, "question": "1"}])
    task = world.task(**data, doc_to_text="{{question}}")
    with pytest.raises(TaskError, match="document 1 of test: doc_to_text gives 1 here and text"):
        task.items()


@pytest.mark.parametrize("target", [2, -1, "{{question}}"])
def test_a_target_that_is_no_choice_scores_0_in_compat_and_is_an_error_in_strict(
    world: World, target: Any
) -> None:
    (item,) = items(world, mode="compat", doc_to_target=target)
    assert item.gold == [-100]
    with pytest.raises(TaskError, match="which is none of the 2 choices"):
        items(world, mode="strict", doc_to_target=target)


def test_a_limit_takes_the_first_documents(world: World) -> None:
    data = world.data(train=capitals(1), test=capitals(7))
    for limit, count in ((None, 7), (3, 3), (0.5, 4), (100, 7), (0.001, 1)):
        task = world.task(**data, limit=limit)
        assert [item.doc_id for item in task.items()] == list(range(count))
        assert task.n_original == 7


def answering(world: World, mode: Mode, *right: str) -> list[list[int]]:
    """The gold of one document for each text in `right`, which its target is rendered from."""
    docs = [{**DOC, "right": text} for text in right]
    data = world.data(train=[DOC], test=docs)
    task = world.task(**data, mode=mode, doc_to_target="{{right}}")
    return [item.gold for item in task.items()]


def test_several_right_choices_where_every_document_has_them(world: World) -> None:
    assert answering(world, "strict", "[0, 1]", "[1]") == [[0, 1], [1]]
    complaint = r"document 2 of test: doc_to_target gives \[0, 1\] here and 0 for"
    with pytest.raises(TaskError, match=complaint):
        answering(world, "strict", "0", "1", "[0, 1]")
    complaint = r"document 1 of test: doc_to_target gives 1 here and \[0, 1\] for"
    with pytest.raises(TaskError, match=complaint):
        answering(world, "strict", "[0, 1]", "1")

    # numpy's 1 == [1] is true, so a list of one is as good as its entry.
    assert answering(world, "compat", "0", "[1]") == [[0], [1]]
    assert answering(world, "compat", "[0, 1]", "[1]") == [[0, 1], [1]]
    for right in (("0", "[0, 1]"), ("[0, 1]", "0")):
        with pytest.raises(TaskError, match="document 1 of test: doc_to_target gives"):
            answering(world, "compat", *right)


@pytest.mark.parametrize(
    ("mode", "metadata", "label", "complaint"),
    [
        (
            "strict",
            {"cluster": "lable"},
            "no",
            r"document 0 of test: metadata\.cluster: there is no column 'lable' \(did you mean "
            r"label\?\); the columns are question, choices, answer, label",
        ),
        (
            "compat",
            {"cluster": "label"},
            None,
            r"document 1 of test: metadata\.cluster: the column 'label' is null: give every",
        ),
        (
            "strict",
            {"subset": "label"},
            None,
            r"document 1 of test: metadata\.subset: the column 'label' is null: give every",
        ),
    ],
)
def test_a_column_of_the_metadata_without_a_value_is_an_error_before_anything_is_asked(
    world: World, mode: Mode, metadata: dict[str, str], label: str | None, complaint: str
) -> None:
    data = world.data(train=[DOC], test=[DOC, {**DOC, "label": label}])
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
    data = world.data(train=[DOC, DOC], test=[{**DOC, "question": "How?"}])
    task = world.task(**data, shots=2, functions={"process_docs": "add"})
    with pytest.raises(TaskError, match="example 1 of train: the column 'price': object"):
        task.items()


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_a_split_without_documents_is_told_with_its_task_and_who_emptied_it(
    world: World, mode: Mode
) -> None:
    data = world.data(train=[DOC], test=[DOC, DOC])
    for code in ("docs.select([])", "[]", "random.sample([], 0)"):
        world.code(f"import random\ndef none(docs): return {code}\n")
        task = world.task(mode=mode, **data, functions={"process_docs": "none"})
        said = r"The task capitals.*process_docs: !function code.none leaves none of the 2"
        with pytest.raises(TaskError, match=said):
            task.items()
    world.code(
        "import datasets\ndef made(**_): return {'test': datasets.Dataset.from_dict({'q': []})}\n"
    )
    task = world.task(
        mode=mode, training_split=None, fewshot_split=None, functions={"custom_dataset": "made"}
    )
    with pytest.raises(TaskError, match=r"The task capitals.*the split test has no document"):
        task.items()


HALF = "'What is \\ud83d here?'"


def test_half_a_character_is_the_tasks_fault_and_named_with_its_document(world: World) -> None:
    """A model's tokenizer would fail over it, and be blamed."""
    data = world.data(train=[DOC], test=[DOC])
    for key, code, said in (
        ("doc_to_text", HALF, "the prompt has half a character .*behind 'What is '"),
        ("doc_to_choice", "['\\ud83d', 'b', 'c']", "what is scored has half a character"),
        ("process_docs", f"[{{**docs[0], 'question': {HALF}}}]", "the column 'question' has half"),
    ):
        world.code(f"def made(docs): return {code}\n")
        task = world.task(**data, functions={key: "made"})
        with pytest.raises(TaskError, match=f"The task capitals.*, document 0 of test: {said}"):
            task.items()


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


def test_what_fails_before_anything_is_asked_is_told_with_its_key(world: World) -> None:
    world.code("def text(doc): return doc['nowhere']")
    with pytest.raises(
        TaskError, match=r"document 0 of test: doc_to_text: !function code\.text failed: Key"
    ):
        items(world, functions={"doc_to_text": "text"})

    world.code("def nothing(docs):\n    pass\n")
    task = world.task(**world.data(test=[DOC]), functions={"process_docs": "nothing"})
    with pytest.raises(TaskError, match=r"must return the documents .* it gave NoneType"):
        task.items()

    task = world.task(**world.data(train=[DOC]), test_split="tset")
    with pytest.raises(TaskError, match=r"capitals\.yaml\): test_split: .*has no split 'tset'"):
        task.items()

    with pytest.raises(ValueError, match="limit: expected a number above 0, got -1"):
        world.task(dataset_path="x", limit=-1)
    with pytest.raises(ValueError, match="num_fewshot: expected a number from 0, got -2"):
        world.task(dataset_path="x", shots=-2)


def test_a_column_that_is_misspelt_is_an_error_in_strict_and_a_warning_in_compat(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    data = world.data(train=[DOC], test=[DOC])
    with pytest.raises(TaskError, match=r"doc_to_text: 'qestion' is no column .*mean question"):
        world.task(**data, doc_to_text="qestion").items()
    (item,) = world.task(mode="compat", **data, doc_to_text="qestion").items()
    assert item.prompt == "qestion"  # as in lm-eval
    assert "doc_to_text: 'qestion' is no column" in caplog.text


def test_examples_that_cannot_be_shown_are_refused(world: World) -> None:
    few = {"samples": [{"choices": ["a"]}], "sampler": "first_n"}
    keys = {"doc_to_text": "question", "fewshot_split": None, "fewshot_config": few}
    task = world.task(shots=1, **world.data(test=[DOC]), **keys)
    with pytest.raises(TaskError, match="doc_to_text: a document lacks the column 'question'; it"):
        task.items()

    world.code("def samples(): return ['a', 'b']")
    few = {"samples": "!function code.samples"}
    keys = {"fewshot_split": None, "fewshot_config": few}
    task = world.task(shots=1, **world.data(test=[DOC]), **keys)
    with pytest.raises(TaskError, match="samples must be a list of mappings"):
        task.items()


# What each output type asks, and what a run may change


TEXT = {"output_type": "generate_until", "doc_to_choice": None, "doc_to_target": "label"}
LIKELIHOOD = {**TEXT, "output_type": "loglikelihood"}
ROLLING = {**TEXT, "output_type": "loglikelihood_rolling"}
FIRST = {"fewshot_config": {"sampler": "first_n"}}


def test_a_task_that_says_nothing_generates_greedily_until_its_delimiter(world: World) -> None:
    task = world.task(**world.data(test=[DOC]), **TEXT, fewshot_delimiter="\n#\n")
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


def test_digits_are_a_choice_only_where_there_are_choices(world: World) -> None:
    digits = {"doc_to_target": "{{number}}"}
    (text,) = items(world, **{**TEXT, **digits})
    assert text.answer == "12"
    (choice,) = items(world, **{**TEXT, **digits, "doc_to_choice": "choices"})
    assert (choice.answer, choice.choices, choice.gold) == (12, ["so", "no"], [])


def test_what_cannot_be_asked_is_refused_by_its_key(world: World) -> None:
    for key in ("doc_to_text", "doc_to_target"):
        with pytest.raises(TaskError, match=f"The task capitals: {key} is missing"):
            items(world, **{**TEXT, key: None})
    for keys in (LIKELIHOOD, ROLLING):
        with pytest.raises(TaskError, match="doc_to_target must give the text to score, got int 1"):
            items(world, **{**keys, "doc_to_target": "answer"})
    with pytest.raises(TaskError, match="temperature: expected a number, got 'hot'"):
        items(world, **TEXT, generation_kwargs={"temperature": "hot"})


def test_strict_joins_question_and_target_alike_in_examples_and_request(world: World) -> None:
    for target in ("label", " {{label}}"):
        keys = {**LIKELIHOOD, **FIRST, "doc_to_target": target}
        (item,) = items(world, **keys, shots=1)
        assert item.requests[0].arguments == ("Q: How?\nA: no\n\nQ: Why?\nA:", " no")
    begun = {**LIKELIHOOD, **FIRST, "gen_prefix": "I say", "target_delimiter": "_"}
    (item,) = items(world, **begun, shots=1)
    asked = "Q: How?\nA:_I say no\n\nQ: Why?\nA:_I say"
    assert item.requests[0].arguments == (asked, " no"), "what is begun goes on after a space"


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


# Chosen documents; parity/test_quirks.py shows which examples they are asked with


def test_chosen_documents_are_asked_in_their_order_each_once_and_drawn_for_by_place(
    world: World,
) -> None:
    data = world.data(train=capitals(40)[20:], test=[*capitals(9), *capitals(9)])
    for mode in ("compat", "strict"):
        chosen = world.task(**data, mode=mode, shots=3, samples=[12, 5, 3, 5]).items()
        assert [item.doc_id for item in chosen] == [3, 5, 12]
    assert chosen[0].doc == chosen[2].doc
    assert chosen[0].shots != chosen[2].shots  # in strict
    for row in (18, -1):
        told = f"no document {row} to sample; test has those from 0 to 17"
        with pytest.raises(TaskError, match=told):
            world.task(**data, samples=[3, row]).items()


# What is looked for in training text


def test_the_query_of_a_document_is_what_the_task_states_or_its_question(world: World) -> None:
    world.code("def query(doc): return doc['question'] + '!'")
    data = world.data(test=[DOC])
    queries: list[tuple[dict[str, Any], str]] = [
        ({}, "Q: Why?\nA:"),
        ({"doc_to_decontamination_query": "label"}, "no"),
        ({"doc_to_decontamination_query": "{{question}} {{label}}"}, "Why? no"),
        ({"functions": {"doc_to_decontamination_query": "query"}}, "Why?!"),
        ({"doc_to_text": "answer", "doc_to_target": "label"}, "so no"),
    ]
    for keys, query in queries:
        task = world.task(**data, **keys)
        (item,) = task.items()
        assert task.query_of(item) == query


# Conversations


TURNS = Chat(TEMPLATE, multiturn=True)

SHOWN_IN_CHAT = {"question": "Why?", "choices": ["so", "no"], "answer": 1, "hint": "Well "}
ASKED_IN_CHAT = {**SHOWN_IN_CHAT, "question": "How?"}


def asked_after_one(world: World, chat: Chat | None, **keys: Any) -> Item:
    """The only item of a task with one example, which is never the question itself."""
    data = world.data(train=[SHOWN_IN_CHAT], test=[ASKED_IN_CHAT])
    defaults = {"shots": 1, "fewshot_config": {"sampler": "first_n"}}
    (item,) = world.task(**{**data, **defaults, **keys}, chat=chat).items()
    return item


def continuations(item: Item) -> list[str]:
    return [request.continuation for request in item.requests]


def test_examples_are_turns_after_the_instruction_and_the_description(world: World) -> None:
    item = asked_after_one(world, TURNS, system="Be brief.", description="About {{choices[0]}}.")
    assert item.prompt == (
        "[system: Be brief.\n\nAbout so.]"
        "[user: Q: Why?\nA:][assistant: no][user: Q: How?\nA:][assistant: "
    )


def test_compat_looks_at_the_prefix_unrendered_and_strict_at_its_text(world: World) -> None:
    compat = asked_after_one(world, TURNS, mode="compat", gen_prefix="{{hint}}")
    strict = asked_after_one(world, TURNS, mode="strict", gen_prefix="{{hint}}")
    assert compat.prompt == strict.prompt
    assert compat.prompt.endswith("[assistant: Well ")
    assert continuations(compat) == [" so", " no"]
    assert continuations(strict) == ["so", "no"]


# Instructions in plain text


def test_compat_runs_the_instruction_into_the_question_and_strict_does_not(world: World) -> None:
    rest = "Q: Why?\nA: no\n\nQ: How?\nA:"
    prompts = {
        mode: asked_after_one(world, None, mode=mode, system="Be brief.").prompt
        for mode in ("compat", "strict")
    }
    assert prompts == {"compat": f"Be brief.{rest}", "strict": f"Be brief.\n\n{rest}"}
