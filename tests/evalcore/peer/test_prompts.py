"""In compat, toy tasks with every quirk of prompt building ask what lm-eval asks, to the letter."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.task.asking.chat import Chat
from evalcore.task.asking.task import Task
from evalcore.task.library.load import TaskLibrary
from tests import warm
from tests.evalcore.worlds import TEMPLATE, World
from tests.hub import ROOT

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

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


CHOICE: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "Q: {{question}}\nA:",
    "doc_to_choice": "choices",
    "doc_to_target": "answer",
}
TEXT = {
    "output_type": "generate_until",
    "doc_to_text": "Q: {{question}}\nA:",
    "doc_to_target": "label",
}
SPLITS = {"training_split": "train", "validation_split": "validation", "test_split": "test"}
UNNAMED = {"training_split": "train", "validation_split": "validation"}

TASKS: Mapping[str, dict[str, Any]] = {
    "choice": {**CHOICE, **SPLITS, "description": "About {{label}}."},
    "choice_unnamed": {**CHOICE, **UNNAMED},
    "choice_leaks": {**CHOICE, **UNNAMED, "fewshot_split": "validation"},
    "choice_excludes": {**CHOICE, **SPLITS, "fewshot_split": "test"},
    "choice_test_only": {**CHOICE, "test_split": "test"},
    "choice_split_wins": {
        **CHOICE,
        **SPLITS,
        "fewshot_config": {"split": "validation", "samples": [{"question": "Never?"}]},
    },
    "choice_first_n": {
        **CHOICE,
        **SPLITS,
        "fewshot_split": "test",
        "fewshot_config": {"sampler": "first_n"},
    },
    "choice_indices": {**CHOICE, **SPLITS, "fewshot_config": {"fewshot_indices": [0, 1]}},
    "choice_prefix": {**CHOICE, **SPLITS, "gen_prefix": "I say"},
    "choice_prefix_blank": {**CHOICE, **SPLITS, "gen_prefix": "I say "},
    "choice_prefix_column": {**CHOICE, **SPLITS, "gen_prefix": "hint"},
    "choice_prefix_template": {**CHOICE, **SPLITS, "gen_prefix": "{{hint}}"},
    "choice_delimiters": {
        **CHOICE,
        **SPLITS,
        "target_delimiter": "_",
        "fewshot_delimiter": "##",
        "description": "label",
        "fewshot_config": {
            "target_delimiter": "=",
            "fewshot_delimiter": "|",
            "gen_prefix": "hint",
            "doc_to_text": "Shown {{question}}",
            "doc_to_target": "{{label}}",
        },
    },
    "choice_information": {
        **CHOICE,
        **SPLITS,
        "metric_list": [
            {"metric": "acc"},
            {"metric": "acc_mutual_info", "null_context": "Answer:"},
        ],
    },
    "choice_letters": {**CHOICE, **SPLITS, "doc_to_choice": ["a", "b", "c"]},
    "choice_mapping": {**CHOICE, **SPLITS, "doc_to_choice": {"A": "x", "B": "y", "C": "z"}},
    "choice_by_text": {**CHOICE, **SPLITS, "doc_to_target": "{{label}}"},
    "choice_several": {**CHOICE, **SPLITS, "doc_to_target": "{{choices}}"},
    "choice_no_answer_shown": {
        **CHOICE,
        **SPLITS,
        "fewshot_config": {"doc_to_target": "{{''}}", "gen_prefix": "hint"},
    },
    "choice_inline": {
        **CHOICE,
        **SPLITS,
        "fewshot_config": {
            "samples": [{"question": f"Inline {n}?", "label": "v"} for n in range(4)],
            "doc_to_target": "label",
            "doc_to_choice": [],
        },
    },
    "choice_inline_column": {  # no column of the scored documents, so it is a template
        **CHOICE,
        **SPLITS,
        "fewshot_config": {
            "samples": [{"shown": f"Inline {n}?", "label": "v"} for n in range(4)],
            "doc_to_text": "shown",
            "doc_to_target": "label",
            "doc_to_choice": [],
        },
    },
    "contexts": {
        **CHOICE,
        **SPLITS,
        "doc_to_text": "answer",
        "doc_to_target": "{{question}}",
        "doc_to_choice": "{{['The ' + choices[0], 'The ' + choices[1], 'No ' + choices[2]]}}",
    },
    "contexts_prefix": {
        **CHOICE,
        **SPLITS,
        "doc_to_text": "{{answer}}",
        "doc_to_target": "{{question}}",
        "gen_prefix": "I say",
        "metric_list": [{"metric": "acc_mutual_info"}],
    },
    "generate": {**TEXT, **SPLITS},
    "generate_digits": {**TEXT, **SPLITS, "doc_to_text": "{{number}}", "doc_to_target": "number"},
    "generate_choice": {**TEXT, **SPLITS, "doc_to_choice": "choices", "doc_to_target": "answer"},
    "generate_several": {**TEXT, **SPLITS, "doc_to_target": "many", "gen_prefix": "{{hint}}"},
    "generate_bracketed": {**TEXT, **SPLITS, "doc_to_target": "{{many}}"},
    "generate_until_default": {
        **TEXT,
        **SPLITS,
        "fewshot_delimiter": "\n---\n",
        "repeats": 3,
        "generation_kwargs": {"temperature": "0.5", "do_sample": True, "max_gen_toks": 7},
    },
    "generate_until_text": {**TEXT, **SPLITS, "generation_kwargs": {"until": "\n"}},
    "likelihood": {**TEXT, **SPLITS, "output_type": "loglikelihood"},
    "likelihood_space": {
        **TEXT,
        **SPLITS,
        "output_type": "loglikelihood",
        "doc_to_target": " {{label}}",
        "gen_prefix": "I say",
        "repeats": 2,
    },
    "rolling": {**TEXT, **SPLITS, "output_type": "loglikelihood_rolling", "doc_to_text": ""},
}
BY_CODE: Mapping[str, dict[str, Any]] = {
    "code": {**CHOICE, **SPLITS, "doc_to_text": "text", "doc_to_choice": "choices"},
    "code_contexts": {**CHOICE, **SPLITS, "doc_to_text": "position", "doc_to_target": "label"},
    "code_process": {**CHOICE, **UNNAMED, "process_docs": "odd"},
    "code_copies": {**CHOICE, **SPLITS, "fewshot_split": "test", "process_docs": "copies"},
}
"""Keys named here hold a function of that name, see FUNCTIONS."""
FUNCTIONS = {
    "code": ("doc_to_text", "doc_to_choice"),
    "code_contexts": ("doc_to_text",),
    "code_process": ("process_docs",),
    "code_copies": ("process_docs",),
}
FEWSHOT_BY_CODE = {
    "code_examples": "{samples: !function code.examples, sampler: first_n}",
    "code_pool_processed": "{split: train, process_docs: !function code.odd}",
    "code_sampler": "{sampler: !function code.Backwards}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all task files, over one data set."""
    world = World(tmp_path_factory.mktemp("toys"))
    data = world.data(train=rows(20, 30), validation=rows(9), test=rows(9, 9))
    world.code(CODE)
    tasks = world.folder / "tasks"
    for name, keys in TASKS.items():
        (tasks / f"{name}.yaml").write_text(yaml.safe_dump({"task": name, **data, **keys}))
    for name, keys in BY_CODE.items():
        text = yaml.safe_dump({"task": name, **data, **keys})
        for key in FUNCTIONS[name]:
            text = text.replace(f"{key}: {keys[key]}\n", f"{key}: !function code.{keys[key]}\n")
        (tasks / f"{name}.yaml").write_text(text)
    for name, config in FEWSHOT_BY_CODE.items():
        text = yaml.safe_dump({"task": name, **data, **CHOICE, **SPLITS})
        (tasks / f"{name}.yaml").write_text(f"{text}fewshot_config: {config}\n")
    return tasks


NAMES = [*TASKS, *BY_CODE, *FEWSHOT_BY_CODE]
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
CASES = [
    {"limit": None, "samples": None, "system": None, "generation": None, **options, "name": name}
    for name, options in itertools.product(NAMES, OPTIONS)
]


@pytest.fixture(scope="module")
def theirs(folder: Path) -> list[Any]:
    """What lm-eval asks in each of CASES."""
    done = warm.run(
        ["-m", "tests.evalcore.peer_prompts"],
        input=json.dumps([{**case, "folder": str(folder)} for case in CASES]),
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder.parent / "hf_home")},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def library(folder: Path) -> TaskLibrary:
    return TaskLibrary([folder])


def ours(library: TaskLibrary, case: Mapping[str, Any]) -> list[Any]:
    spec = library.one(case["name"])
    chat = Chat(TEMPLATE, multiturn=case["multiturn"]) if case["chat"] else None
    task = Task(
        spec,  # type: ignore[arg-type]
        mode="compat",
        num_fewshot=case["shots"],
        limit=case["limit"],
        samples=case["samples"],
        system_instruction=case["system"],
        chat=chat,
        generation=case["generation"],
    )
    asked = [request for item in task.items() for request in item.requests]
    return [[*request.arguments, request.repeats] for request in asked]


@pytest.mark.parametrize("name", NAMES)
def test_every_request_of_a_toy_task_is_lm_evals(
    name: str, library: TaskLibrary, theirs: list[Any]
) -> None:
    for case, expected in zip(CASES, theirs, strict=True):
        if case["name"] == name:
            assert ours(library, case) == expected, case
