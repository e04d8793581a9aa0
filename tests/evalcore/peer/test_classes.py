"""Tasks that are classes, and task code that imports names of lm-eval."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from evalcore.building import task_of
from evalcore.errors import TaskError
from evalcore.score.filters.registry import FILTERS
from evalcore.score.task_metrics import Measures
from evalcore.task.asking.chat import Chat
from evalcore.task.asking.task import Task
from evalcore.task.config import TaskSpec
from evalcore.task.functions import FunctionRef
from tests import warm
from tests.evalcore.worlds import TEMPLATE, capitals, write_tasks
from tests.hub import ROOT

CLASS = """
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask
import datasets

ROWS = {rows!r}

class Capitals(ConfigurableTask):
    VERSION = 3
    DATASET_PATH = "nowhere"

    def __init__(self, config=None):
        super().__init__(config={{"metadata": {{"version": self.VERSION}}}})
        self.word = (config or {{}}).get("word", "no word")

    def download(self, *args, **kwargs):
        rows = datasets.Dataset.from_list(ROWS)
        self.dataset = {{
            "train": rows.select(range(3, len(ROWS))),
            "validation": rows.select([0, 1, 2]),
        }}

    def has_training_docs(self):
        return True

    def has_validation_docs(self):
        return True

    def has_test_docs(self):
        return False

    def training_docs(self):
        return self.dataset["train"]

    def validation_docs(self):
        return self.dataset["validation"]

    def doc_to_text(self, doc):
        return doc["question"]

    def doc_to_target(self, doc):
        return " " + doc["choices"][doc["answer"]]

    def construct_requests(self, doc, ctx, chat_template=None, apply_chat_template=False, **kwargs):
        return [
            Instance(request_type="generate_until", doc=doc,
                     arguments=(ctx, {{"until": [self.word]}}), idx=0, **kwargs),
            Instance(request_type="loglikelihood", doc=doc, arguments=(ctx, " none"), idx=0,
                     **kwargs),
        ]

    def process_results(self, doc, results):
        text, (unsure, _) = results
        return {{"right": float(text == self.doc_to_target(doc)), "unsure": unsure}}

    def aggregation(self):
        return {{"right": mean, "unsure": max}}

    def higher_is_better(self):
        return {{"right": True, "unsure": False}}
"""

FILE = "task: capitals\nclass: !function code.Capitals\nword: stop\n"


def capitals_task(folder: Path, code: str = "", file: str = FILE, **options: Any) -> Task:
    folder.mkdir(exist_ok=True)
    (folder / "code.py").write_text(code or CLASS.format(rows=capitals(5)))
    spec = write_tasks(folder, {"capitals.yaml": file}).one("capitals")
    assert isinstance(spec, TaskSpec)
    return task_of(spec, **options)


def test_a_class_asks_its_own_requests_after_examples_drawn_as_for_any_task(
    tmp_path: Path,
) -> None:
    task = capitals_task(tmp_path, num_fewshot=1, mode="compat")
    items = task.items()
    assert [item.doc["question"] for item in items] == [row["question"] for row in capitals(5)[:3]]
    generation, loglikelihood = items[1].requests
    question = "What is the capital of country 1?"
    assert generation.arguments == (items[1].prompt, {"until": ["stop"]})
    assert loglikelihood.arguments == (items[1].prompt, " none")
    example, asked = items[1].prompt.split("\n\n")
    assert asked == question
    assert example in {
        "What is the capital of country 3?  city 3 a",
        "What is the capital of country 4?  city 4 b",
    }
    assert (task.split, items[1].shots[0][0], task.n_original) == ("validation", "train", 3)


def test_a_class_scores_and_aggregates_by_its_own_methods(tmp_path: Path) -> None:
    task = capitals_task(tmp_path)
    doc = task.docs[1]
    assert task.own_process_results is not None
    assert task.own_process_results(doc, [" city 1 b", (-2.0, False)]) == {
        "right": 1.0,
        "unsure": -2.0,
    }
    assert task.own_aggregations["right"]([1.0, 0.0]) == 0.5
    assert task.own_higher_is_better == {"right": True, "unsure": False}


def test_a_class_is_asked_as_a_conversation_where_a_template_is_applied(tmp_path: Path) -> None:
    task = capitals_task(tmp_path, chat=Chat(TEMPLATE, multiturn=True), limit=1)
    (item,) = task.items()
    assert item.requests[0].context == "[user: What is the capital of country 0?][assistant: "


def test_what_the_command_says_of_generation_goes_over_the_class_in_strict_only(
    tmp_path: Path,
) -> None:
    stated = {"temperature": 1.0}
    for mode, extra in {"compat": {}, "strict": stated}.items():
        (item,) = capitals_task(tmp_path, mode=mode, limit=1, generation=stated).items()
        assert item.requests[0].generation == {"until": ["stop"], **extra}


def test_a_class_may_leave_everything_but_one_method_to_its_keys(tmp_path: Path) -> None:
    code = (
        "from lm_eval.api.task import ConfigurableTask\n"
        "class Capitals(ConfigurableTask):\n"
        "    def __init__(self, config=None):\n"
        "        super().__init__(config=config)\n"
        "    def doc_to_text(self, doc):\n"
        "        return 'Q: ' + doc['question']\n"
    )
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "one?", "choices": ["a", "b"], "answer": 1}\n')
    file = (
        f"{FILE}dataset_path: json\ndataset_kwargs: {{data_files: {{test: {rows}}}}}\n"
        "test_split: test\noutput_type: multiple_choice\ndoc_to_choice: choices\n"
        "doc_to_target: answer\nmetric_list: [{metric: acc}]\n"
    )
    task = capitals_task(tmp_path / "tasks", code, file)
    (item,) = task.items()
    assert [request.arguments for request in item.requests] == [
        ("Q: one?", " a"),
        ("Q: one?", " b"),
    ]
    assert (item.gold, task.own_process_results, task.own_aggregations) == ([1], None, {})


OF_KEYS = """
from lm_eval.api.task import ConfigurableTask
class Capitals(ConfigurableTask):
    def __init__(self, config=None):
        super().__init__(config=config)
"""


def by_keys(tmp_path: Path, method: str, keys: str, **options: Any) -> Task:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "one?", "choices": ["a", "b"], "answer": 1}\n')
    file = (
        f"{FILE}dataset_path: json\ndataset_kwargs: {{data_files: {{test: {rows}}}}}\n"
        f"test_split: test\ndoc_to_text: question\ndoc_to_target: answer\n{keys}"
    )
    return capitals_task(tmp_path / "tasks", f"{OF_KEYS}    {method}\n", file, **options)


CHOICE = "output_type: multiple_choice\ndoc_to_choice: choices\nmetric_list: [{metric: acc}]\n"


@pytest.mark.parametrize(
    "method",
    [
        "def construct_requests(self, doc, ctx, **more):\n"
        "        return super().construct_requests(doc, 'X ' + ctx, **more)",
        "def fewshot_context(self, doc, *args, **more):\n"
        "        return 'X ' + super().fewshot_context(doc, *args, **more)",
    ],
)
def test_a_prompt_that_a_class_changes_is_what_is_asked(tmp_path: Path, method: str) -> None:
    (item,) = by_keys(tmp_path, method, CHOICE).items()
    assert [request.arguments for request in item.requests] == [("X one?", " a"), ("X one?", " b")]
    assert item.prompt == "X one?"


@pytest.mark.parametrize(
    "method",
    ["apply_filters", "build_qa_turn", "count_words", "doc_to_prefix", "multiple_input_context"],
)
def test_a_method_that_is_never_called_here_is_refused(tmp_path: Path, method: str) -> None:
    with pytest.raises(TaskError, match=f"a {method} of its own, which evalcore does not call"):
        by_keys(tmp_path, f"def {method}(self, *_): return 1", CHOICE)


def test_an_aggregation_without_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no process_results"):
        by_keys(tmp_path, "def aggregation(self): return {'acc': max}", CHOICE)


def test_what_lm_eval_passes_over_in_a_class_is_passed_over(tmp_path: Path) -> None:
    generated = "metric_list: [{metric: exact_match}]\n"
    task = by_keys(tmp_path, "OUTPUT_TYPE = 'loglikelihood'", generated)
    assert task.spec.output_type == "generate_until"
    task = by_keys(tmp_path, "def doc_to_choice(self, doc): return ['x', 'y']", generated)
    assert [item.choices for item in task.items()] == [[]]


def test_a_class_may_say_only_what_is_better(tmp_path: Path) -> None:
    task = by_keys(tmp_path, "def higher_is_better(self): return {'acc': False}", CHOICE)
    by_the_task = task.own_process_results is not None
    measures = Measures(
        task.spec,
        task.mode,
        by_the_task=by_the_task,
        own_aggregations=task.own_aggregations,
        own_higher_is_better=task.own_higher_is_better,
    )
    assert measures.higher_is_better == {"acc": False}


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("class Capitals:\n    pass\n", "must derive from ConfigurableTask"),
        (
            "def Capitals():\n    raise SystemExit(1)\n",
            "!function code.Capitals failed: SystemExit",
        ),
        ("import lm_eval.models.vllm\n", "nothing that stands in for lm_eval.models"),
        ("from lm_eval.utils import nothing\n", "evalcore has no 'nothing' in what stands in for"),
    ],
)
def test_a_class_that_cannot_be_used_is_named(tmp_path: Path, code: str, complaint: str) -> None:
    with pytest.raises(TaskError, match=complaint):
        capitals_task(tmp_path, code)


# Names of lm-eval


def loaded(folder: Path, code: str) -> Any:
    (folder / "code.py").write_text(code)
    return FunctionRef("code.result", folder).load()


def test_task_code_gets_names_of_ours_for_those_of_lm_eval(tmp_path: Path) -> None:
    code = (
        "from lm_eval.utils import general_detokenize, weighted_f1_score\n"
        "from lm_eval.filters.extraction import RegexFilter\n"
        "from lm_eval.api.metrics import metric_max_over_ground_truths\n"
        "def result():\n"
        "    best = metric_max_over_ground_truths(lambda p, t: len(t), '', ['a', 'abc'])\n"
        "    f1 = weighted_f1_score([(0, 0), (1, 0), (2, 2)])\n"
        "    return general_detokenize('I do n\\'t ( say ) \" no \" .'), best, f1, RegexFilter\n"
    )
    text, best, f1, regex = loaded(tmp_path, code)()
    assert (text, best) == ('I don\'t (say)"no".', 3)
    assert f1 == pytest.approx(5 / 9)
    assert regex is FILTERS["regex"]


def test_a_path_below_lm_evals_tasks_is_looked_for_above_the_code(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "lists.py").write_text("WORDS = ['near']\n")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    code = "from lm_eval.tasks.words.lists import WORDS\ndef result():\n    return WORDS\n"
    assert loaded(tmp_path / "deep" / "er", code)() == ["near"]


LM_EVAL_AROUND = """
import sys
from pathlib import Path
from evalcore.task.functions import FunctionRef
folder = Path(sys.argv[1])
before = set(sys.modules)
FunctionRef("code.result", folder).load()
import lm_eval
print(lm_eval.__file__)
from lm_eval.utils import make_table
changed = FunctionRef("code.other", folder).load()
import lm_eval.utils
print(lm_eval.utils.make_table is make_table, changed.__module__)
"""


@pytest.mark.peer
def test_an_installed_lm_eval_is_as_it_was_after_task_code_is_loaded(tmp_path: Path) -> None:
    code = "from lm_eval.utils import weighted_f1_score as result\nother = result\n"
    (tmp_path / "code.py").write_text(code)
    done = warm.run(["-c", LM_EVAL_AROUND, tmp_path], timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    file, same = done.stdout.splitlines()
    assert file.endswith("lm_eval/__init__.py")
    assert same == "True evalcore.peer.functions"


CASES: list[dict[str, Any]] = [
    {"shots": 0, "chat": False, "multiturn": False},
    {"shots": 2, "chat": False, "multiturn": False, "system": "Be brief."},
    {"shots": 1, "chat": True, "multiturn": True, "limit": 2},
    {"shots": 1, "chat": True, "multiturn": False, "generation": {"temperature": 1}},
]


@pytest.mark.peer
def test_a_class_asks_what_it_asks_in_lm_eval(tmp_path: Path) -> None:
    # There the examples' text is asked for with a second argument.
    code = CLASS.format(rows=capitals(9)).replace("(self, doc):", "(self, doc, *_):")
    capitals_task(tmp_path, code)
    defaults = {"limit": None, "samples": None, "system": None, "generation": None}
    cases = [{**defaults, **case, "name": "capitals", "folder": str(tmp_path)} for case in CASES]
    done = warm.run(
        ["-m", "tests.evalcore.peer_prompts"],
        input=json.dumps(cases),
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    for case, expected in zip(cases, theirs, strict=True):
        task = capitals_task(
            tmp_path,
            code,
            mode="compat",
            num_fewshot=case["shots"],
            limit=case["limit"],
            system_instruction=case["system"],
            chat=Chat(TEMPLATE, multiturn=case["multiturn"]) if case["chat"] else None,
            generation=case["generation"],
        )
        asked = [request for item in task.items() for request in item.requests]
        assert [[*request.arguments, request.repeats] for request in asked] == expected, case
