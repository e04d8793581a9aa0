"""In compat, toy tasks with every quirk of prompt building ask what lm-eval asks, to the letter."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from evalcore.task.asking.chat import Chat
from evalcore.task.asking.task import Task
from evalcore.task.config import TaskSpec
from evalcore.task.library.load import TaskLibrary
from tests.evalcore.both_scorers import load_in_lm_eval, requests_of
from tests.evalcore.worlds import TEMPLATE, World, task_in, write_tasks, written_turns
from tests.parity import NEEDS_LM_EVAL

pytestmark = [*NEEDS_LM_EVAL]

CODE = """
import random
from lm_eval.api.samplers import ContextSampler


def text(doc):
    return f"Called {doc['question']}"


def position(doc):
    return doc["answer"]


def choices(doc):
    return [choice.upper() for choice in doc["choices"]]


def examples():
    return [dict(question=f"Inline {n}?", choices=["u", "v", "w"], answer=n % 3, label="v",
                 hint="", number="7", many=["u", "w"], right="[0]") for n in range(5)]


def copies(docs):
    return docs.select([0, 0, 0, 1, 2, 2, 3, 4])


def odd(docs):
    return docs.filter(lambda doc: doc["answer"] != 1)


class Backwards(ContextSampler):
    def sample(self, n, eval_doc=None, df=None, **kwargs):
        pool = [doc for doc in self.df if doc != eval_doc]
        return [dict(self.rnd.choice(pool), question="Made?")] + pool[::-1][: n - 1]
"""


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "question": f"What is {number}?{' ' if number % 4 == 3 else ''}",
            "choices": [f"{number} {letter}é" for letter in "abc"],
            "answer": number % 3,
            "label": f"{number} {'abc'[number % 3]}é",
            "hint": ("So", "So ", "", "\nSo")[number % 4],
            "number": str(number),
            "many": [f"one {number}", f"two {number}"],
            "right": f"[{number % 3}, {(number + 1) % 3}]",
        }
        for number in range(first, first + count)
    ]


CHOICE = """
output_type: multiple_choice
doc_to_text: "Q: {{question}}\\nA:"
doc_to_choice: choices
doc_to_target: answer
"""
TEXT = """
output_type: generate_until
doc_to_text: "Q: {{question}}\\nA:"
doc_to_target: label
"""
SPLITS = "training_split: train\nvalidation_split: validation\n"
WITHOUT_TEST_SPLIT = ("choice_unnamed", "choice_leaks", "code_process")

CHOOSING = {
    "choice": 'description: "About {{label}}."',
    "choice_unnamed": "",
    "choice_leaks": "fewshot_split: validation",
    "choice_excludes": "fewshot_split: test",
    "choice_test_only": "training_split: null\nvalidation_split: null",
    "choice_split_wins": "fewshot_config: {split: validation, samples: [{question: Never?}]}",
    "choice_first_n": "fewshot_split: test\nfewshot_config: {sampler: first_n}",
    "choice_indices": "fewshot_config: {fewshot_indices: [0, 1]}",
    "choice_prefix": "gen_prefix: I say",
    "choice_prefix_blank": 'gen_prefix: "I say "',
    "choice_prefix_column": "gen_prefix: hint",
    "choice_prefix_template": 'gen_prefix: "{{hint}}"',
    "choice_delimiters": """
        target_delimiter: "_"
        fewshot_delimiter: "##"
        description: label
        fewshot_config:
          target_delimiter: "="
          fewshot_delimiter: "|"
          gen_prefix: hint
          doc_to_text: "Shown {{question}}"
          doc_to_target: "{{label}}"
        """,
    "choice_information": """
        metric_list: [{metric: acc}, {metric: acc_mutual_info, null_context: "Answer:"}]
        """,
    "choice_letters": "doc_to_choice: [a, b, c]",
    "choice_mapping": "doc_to_choice: {A: x, B: y, C: z}",
    "choice_by_text": 'doc_to_target: "{{label}}"',
    "choice_several": 'doc_to_target: "{{choices}}"',
    "choice_no_answer_shown": """
        fewshot_config: {doc_to_target: "{{''}}", gen_prefix: hint}
        """,
    "choice_inline": """
        fewshot_config:
          samples: [{question: 1?, label: v}, {question: 2?, label: v}, {question: 3?, label: v}]
          doc_to_target: label
          doc_to_choice: []
        """,
    # No column of the scored documents, so it is a template
    "choice_inline_column": """
        fewshot_config:
          samples: [{shown: 1?, label: v}, {shown: 2?, label: v}, {shown: 3?, label: v}]
          doc_to_text: shown
          doc_to_target: label
          doc_to_choice: []
        """,
    "contexts": """
        doc_to_text: answer
        doc_to_target: "{{question}}"
        doc_to_choice: "{{['The ' + choices[0], 'The ' + choices[1], 'No ' + choices[2]]}}"
        """,
    "contexts_prefix": """
        doc_to_text: "{{answer}}"
        doc_to_target: "{{question}}"
        gen_prefix: I say
        metric_list: [{metric: acc_mutual_info}]
        """,
    "code": "doc_to_text: !function code.text\ndoc_to_choice: !function code.choices",
    "code_contexts": "doc_to_text: !function code.position\ndoc_to_target: label",
    "code_process": "process_docs: !function code.odd",
    "code_copies": "fewshot_split: test\nprocess_docs: !function code.copies",
    "code_examples": "fewshot_config: {samples: !function code.examples, sampler: first_n}",
    "code_pool_processed": "fewshot_config: {split: train, process_docs: !function code.odd}",
    "code_sampler": "fewshot_config: {sampler: !function code.Backwards}",
}
WRITING = {
    "generate": "",
    "generate_digits": 'doc_to_text: "{{number}}"\ndoc_to_target: number',
    "generate_choice": "doc_to_choice: choices\ndoc_to_target: answer",
    "generate_several": 'doc_to_target: many\ngen_prefix: "{{hint}}"',
    "generate_bracketed": 'doc_to_target: "{{many}}"',
    "generate_until_default": """
        fewshot_delimiter: "\\n---\\n"
        repeats: 3
        generation_kwargs: {temperature: "0.5", do_sample: true, max_gen_toks: 7}
        """,
    "generate_until_text": 'generation_kwargs: {until: "\\n"}',
    "likelihood": "output_type: loglikelihood",
    "likelihood_space": """
        output_type: loglikelihood
        doc_to_target: " {{label}}"
        gen_prefix: I say
        repeats: 2
        """,
    "rolling": "output_type: loglikelihood_rolling\ndoc_to_text: ''",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of all task files, over one data set."""
    world = World(tmp_path)
    data = yaml.safe_dump(world.data(train=rows(20, 30), validation=rows(9), test=rows(9, 9)))
    world.code(CODE)
    files = {"_data": data + SPLITS, "_choice": CHOICE, "_text": TEXT}
    for base, tasks in (("_choice", CHOOSING), ("_text", WRITING)):
        for name, keys in tasks.items():
            split = "" if name in WITHOUT_TEST_SPLIT else "test_split: test\n"
            head = f"include: [_data, {base}]\ntask: {name}\n{split}"
            files[f"{name}.yaml"] = head + dedent(keys).lstrip("\n")
    write_tasks(world.folder / "tasks", files)
    return world.folder / "tasks"


PLAIN = {"chat": False, "multiturn": False}
OPTIONS: list[dict[str, Any]] = [
    {"shots": 0, **PLAIN},
    {"shots": 3, **PLAIN},
    {"shots": 2, **PLAIN, "system": "Be brief."},
    {"shots": 2, **PLAIN, "system": "Be brief.\n", "samples": [5, 2, 4]},
    {"shots": 0, "chat": True, "multiturn": True},
    {"shots": 2, "chat": True, "multiturn": True, "system": "Be brief."},
    {"shots": 2, "chat": True, "multiturn": False, "generation": {"temperature": 1, "top_k": 5}},
    {"shots": 1, "chat": True, "multiturn": False, "system": "Be brief.", "limit": 4},
]


def asked_by_lm_eval(task: Any, case: Mapping[str, Any]) -> list[Any]:
    if task.OUTPUT_TYPE == "generate_until":
        arguments = case.get("generation") or {}
        task.set_config(key="generation_kwargs", value=arguments, update=True)
    instances = requests_of(
        task,
        shots=case["shots"],
        limit=case.get("limit"),
        samples=case.get("samples"),
        system_instruction=case.get("system"),
        apply_chat_template=case["chat"],
        fewshot_as_multiturn=case["multiturn"],
        chat_template=written_turns if case["chat"] else None,
    )
    return [[*instance.args, instance.repeats] for instance in instances]


def asked(spec: TaskSpec, case: Mapping[str, Any]) -> list[Any]:
    chat = Chat(TEMPLATE, multiturn=case["multiturn"]) if case["chat"] else None
    task = Task(
        spec,
        mode="compat",
        num_fewshot=case["shots"],
        limit=case.get("limit"),
        samples=case.get("samples"),
        system_instruction=case.get("system"),
        chat=chat,
        generation=case.get("generation"),
    )
    requests = [request for item in task.items() for request in item.requests]
    return [[*request.arguments, request.repeats] for request in requests]


def test_every_request_of_a_toy_task_is_lm_evals(folder: Path) -> None:
    library = TaskLibrary([folder])
    different = []
    for name in (*CHOOSING, *WRITING):
        spec = task_in(library, name)
        theirs = load_in_lm_eval(spec)
        own = copy.deepcopy(theirs.config.generation_kwargs)
        for case in OPTIONS:
            theirs.set_config(key="generation_kwargs", value=copy.deepcopy(own))
            if asked(spec, case) != asked_by_lm_eval(theirs, case):
                different.append((name, case))
    assert different == []
