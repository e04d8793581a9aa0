"""Tasks that are classes, and task code that imports names of lm-eval."""

from __future__ import annotations

import decimal
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from evalcore.building import task_of
from evalcore.errors import TaskError
from evalcore.formats.lmeval.samples import logged_samples, task_lines
from evalcore.refusals import check_supported
from evalcore.score.filters.registry import FILTERS
from evalcore.score.sample import item_of
from evalcore.task.asking.task import Task
from evalcore.task.functions import FunctionRef
from tests import warm
from tests.evalcore.both_scorers import (
    CHOICES,
    GENERATE,
    PLACES,
    Scene,
    chances,
    load_in_lm_eval,
    peer,
    places,
    requests_of,
)
from tests.evalcore.worlds import capitals, task_in, write_tasks

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
    library = write_tasks(folder, {"capitals.yaml": file})
    return task_of(task_in(library, "capitals"), **options)


def test_what_the_command_says_of_generation_goes_over_the_class_in_strict_only(
    tmp_path: Path,
) -> None:
    stated = {"temperature": 1.0}
    for mode, extra in {"compat": {}, "strict": stated}.items():
        (item,) = capitals_task(tmp_path, mode=mode, limit=1, generation=stated).items()
        assert item.requests[0].generation == {"until": ["stop"], **extra}


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


def test_a_class_may_leave_everything_but_one_method_to_its_keys(tmp_path: Path) -> None:
    task = by_keys(tmp_path, "def doc_to_text(self, doc): return 'Q: ' + doc['question']", CHOICE)
    (item,) = task.items()
    assert [request.arguments for request in item.requests] == [
        ("Q: one?", " a"),
        ("Q: one?", " b"),
    ]
    assert (item.gold, task.own_process_results, task.own_aggregations) == ([1], None, {})


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


def test_methods_that_are_never_called_or_lack_another_are_refused(tmp_path: Path) -> None:
    for method in (
        *("apply_filters", "build_qa_turn", "count_words", "doc_to_prefix"),
        "multiple_input_context",
    ):
        with pytest.raises(TaskError, match=f"a {method} of its own, which evalcore does not call"):
            by_keys(tmp_path, f"def {method}(self, *_): return 1", CHOICE)
    with pytest.raises(TaskError, match="no process_results"):
        by_keys(tmp_path, "def aggregation(self): return {'acc': max}", CHOICE)


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


TAKING_APART = """
from lm_eval.api.task import ConfigurableTask

class Capitals(ConfigurableTask):
    def __init__(self, config=None):
        assert config.pop("class") is Capitals
        self.shown = config.pop("task_alias"), sorted(config)
        super().__init__(config=config)
"""


@peer
def test_a_class_takes_out_of_its_configuration_what_is_in_it_there(tmp_path: Path) -> None:
    keys = f"    class: !function code.Capitals\n    task_alias: Cities\n{CHOICES}"
    scene = Scene(tmp_path, choosing(3), keys, TAKING_APART)
    ours = task_of(scene.spec, mode="compat")
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False)
    theirs = manager.load(["scene"])["tasks"]["scene"]
    assert ours.instance.shown == theirs.shown
    assert ours.instance.shown[0] == "Cities"
    assert [request.arguments for item in ours.items() for request in item.requests] == [
        instance.args for instance in requests_of(theirs)
    ]


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


# Task code that leans on lm-eval, and names that it registers


LEANING = """
from lm_eval.api.task import ConfigurableTask

class Leaning(ConfigurableTask):
    def training_docs(self):
        if self._training_docs is None:
            self._training_docs = list(super().training_docs())
        return self._training_docs

    def doc_to_text(self, doc, doc_to_text=None):
        return "Hm. " + super().doc_to_text(doc, doc_to_text)

    def doc_to_target(self, doc, doc_to_target=None):
        return super().doc_to_target(doc, doc_to_target)

    def process_results(self, doc, results):
        scores = super().process_results(doc, results)
        return {**scores, "chosen": len(results)}

    def aggregation(self):
        return {**super().aggregation(), "chosen": max}

    def higher_is_better(self):
        return {**super().higher_is_better(), "chosen": False}
"""
BY_CLASS = "    class: !function code.Leaning\n"


def choosing(count: int) -> list[dict[str, Any]]:
    return [
        {"question": f"{n}?", "choices": ["a", "bb", f"c{n}"], "answer": n % 3}
        for n in range(count)
    ]


@peer
@pytest.mark.parametrize(
    ("keys", "rows", "answer"),
    [
        (
            CHOICES + "    metric_list: [{metric: acc}, {metric: acc_norm}, {metric: f1}]\n",
            choosing(6)[:6],
            chances,
        ),
        (GENERATE + "    metric_list: [{metric: exact_match}]\n", places(8), PLACES),
        (
            GENERATE.replace("generate_until", "loglikelihood_rolling"),
            places(5),
            chances,
        ),
    ],
    ids=["multiple_choice", "generate_until", "rolling"],
)
def test_a_class_may_ask_the_class_that_it_derives_from(
    tmp_path: Path, keys: str, rows: Any, answer: Any
) -> None:
    if "f1" in keys:  # lm-eval knows two classes
        rows = [{**row, "answer": row["answer"] % 2, "choices": row["choices"][:2]} for row in rows]
    scene = Scene(tmp_path, rows, BY_CLASS + keys, LEANING)
    numbers, failures = scene.ours(answer)
    assert not failures
    theirs = scene.theirs(answer)
    assert "chosen,none" in numbers
    assert numbers.keys() == theirs.keys() - {"alias", "name", "sample_len", "sample_count"}
    assert numbers == pytest.approx({name: theirs[name] for name in numbers})


@peer
def test_a_class_reads_examples_by_the_keys_that_are_stated_for_them(tmp_path: Path) -> None:
    stated = "{doc_to_text: 'Example: {{question}}'}"
    keys = f"{BY_CLASS}{CHOICES}    training_split: test\n    fewshot_config: {stated}\n"
    scene = Scene(tmp_path, choosing(8), keys, LEANING)
    items = task_of(scene.spec, mode="compat", num_fewshot=2).items()
    ours = [request.arguments for item in items for request in item.requests]
    theirs = requests_of(load_in_lm_eval(scene.spec), shots=2)
    assert ours == [instance.args for instance in theirs]
    assert ours[0][0].startswith("Hm. Example: ")


NAMED = """
CHOICES = ["a", "bb", "ccc"]
QUESTION = "Say: {{question}}"
SAMPLES = [{"question": "0?", "choices": ["a", "bb"], "answer": 1}]
IGNORED = ["!", "[.]"]
"""


@peer
def test_function_may_name_a_list_or_a_text(tmp_path: Path) -> None:
    keys = """
    output_type: multiple_choice
    doc_to_text: !function code.QUESTION
    doc_to_choice: !function code.CHOICES
    doc_to_target: answer
    fewshot_config: {samples: !function code.SAMPLES}
    metric_list: [{metric: acc}]
    """
    scene = Scene(tmp_path, choosing(5), keys, NAMED)
    assert scene.ours(chances)[0]["acc,none"] == scene.theirs(chances)["acc,none"]
    sample = scene.scored(chances).samples[0]
    assert (sample["prompt"], sample["choices"]) == ("Say: 0?", ["a", "bb", "ccc"])


@peer
def test_the_argument_of_a_metric_may_be_a_list_that_code_names(tmp_path: Path) -> None:
    keys = (
        GENERATE
        + "    metric_list: [{metric: exact_match, regexes_to_ignore: !function code.IGNORED}]\n"
    )
    scene = Scene(tmp_path, places(6), keys, NAMED)
    numbers, failures = scene.ours(PLACES)
    assert not failures
    assert numbers["exact_match,none"] == scene.theirs(PLACES)["exact_match,none"]


ODD = """
import datetime, decimal

def odd(docs):
    import datasets
    rows = [
        {**doc, "price": decimal.Decimal("1.50"), "share": float("nan"), "raw": b"a\\xff",
         "day": datetime.date(2024, 2, 3)}
        for doc in docs
    ]
    return datasets.Dataset.from_list(rows)
"""


@peer
def test_columns_that_json_cannot_hold_have_lm_evals_digest(tmp_path: Path) -> None:
    from lm_eval.utils import handle_non_serializable, hash_string

    keys = CHOICES + "    process_docs: !function code.odd\n"
    scene = Scene(tmp_path, choosing(2), keys, ODD)
    samples = scene.scored(chances).samples
    doc = {
        **choosing(1)[0],
        "price": decimal.Decimal("1.50"),
        "share": float("nan"),
        "raw": b"a\xff",
        "day": __import__("datetime").date(2024, 2, 3),
    }
    text = json.dumps(doc, indent=2, default=handle_non_serializable, ensure_ascii=False)
    logged = next(logged_samples(samples))
    assert logged["doc_hash"] == hash_string(text)
    assert scene.ours(chances)[0]["acc,none"] == scene.theirs(chances)["acc,none"]


LISTS = "def target(doc):\n    return {targets}[int(doc['question'][0])]\n"


@peer
@pytest.mark.parametrize("targets", ["[[0], (1,), {2, 1}]", "[[2], [], (1,)]"])
def test_right_positions_may_come_as_a_tuple_or_a_set(tmp_path: Path, targets: str) -> None:
    keys = (
        CHOICES.replace("answer", "!function code.target")
        + "    metric_list: [{metric: acc}, {metric: acc_norm}, {metric: exact_match}]\n"
    )
    scene = Scene(tmp_path, choosing(3), keys, LISTS.format(targets=targets))
    numbers, failures = scene.ours(chances)
    assert not failures
    assert {name: scene.theirs(chances)[name] for name in numbers} == numbers


JUDGING = """
def judged(doc, results):
    return {"right": results[0] == doc["answer"], "length": len(results[0])}
"""


def test_a_truth_value_stays_one_in_the_lines_of_samples(tmp_path: Path) -> None:
    metrics = "[{metric: right, aggregation: mean}, {metric: length, aggregation: mean}]"
    keys = f"{GENERATE}    process_results: !function code.judged\n    metric_list: {metrics}\n"
    samples = Scene(tmp_path, places(4), keys, JUDGING).scored(PLACES).samples
    lines = list(task_lines(samples))
    assert all(re.search(r'"right": (true|false)\b', line) for line in lines)
    assert all(isinstance(json.loads(line)["length"], int | float) for line in lines)
    for sample in samples:
        right = sample["scores"][0]
        assert right["value"] == float(item_of(right))


# A filter, metric or aggregation that task code registers belongs to the tasks of that code


REGISTERED_KEYS = f"""{GENERATE}
    process_docs: !function code.process_docs
    filter_list: [{{name: own, filter: [{{function: tidied}}, {{function: take_first}}]}}]
    metric_list: [{{metric: alike, aggregation: summed, higher_is_better: true}}]
"""
REGISTERING = """
from lm_eval.api.registry import register_aggregation, register_filter, register_metric
from lm_eval.filters.extraction import RegexFilter

@register_filter("tidied")
class Tidied(RegexFilter):
    def apply(self, resps, docs):
        return [[text.{tidied} for text in results] for results in resps]

@register_aggregation("summed")
def summed(items):
    return {factor} * sum(items)

@register_metric(metric="alike", higher_is_better=False, output_type="generate_until",
                 aggregation="summed")
def alike(items):
    return float(items[0].lower() == items[1])

def process_docs(docs):
    return docs
"""


def registering_scene(
    folder: Path,
    tidied: str = "lower()",
    factor: int = 1,
    keys: str = REGISTERED_KEYS,
    code: str = REGISTERING,
) -> Scene:
    folder.mkdir()
    return Scene(folder, places(6), keys, code.format(tidied=tidied, factor=factor))


def lower_case(request: Any, repeat: int) -> str:
    return "rome"


def test_two_folders_with_one_name_each_have_their_own(tmp_path: Path) -> None:
    first = registering_scene(tmp_path / "first")
    second = registering_scene(tmp_path / "second", "upper()", 10)
    third = registering_scene(tmp_path / "third", "lower()", 10)
    for one in (first, second, third):
        check_supported(one.spec)
    assert [one.ours(lower_case)[0]["alike,own"] for one in (first, second, third)] == [2, 0, 20]
    assert "tidied" not in FILTERS


def test_a_registered_metric_has_the_aggregation_that_was_registered_with_it(
    tmp_path: Path,
) -> None:
    keys = REGISTERED_KEYS.replace(", aggregation: summed, higher_is_better: true", "")
    ours, failures = registering_scene(tmp_path / "default", "lower()", 3, keys).ours(lower_case)
    assert not failures
    assert ours["alike,own"] == 6


def test_a_name_of_another_tasks_code_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Importing it takes seconds, and changes the environment of the tests that follow.
    monkeypatch.setitem(sys.modules, "evaluate", None)
    check_supported(registering_scene(tmp_path / "first").spec)
    code = "def process_docs(docs):\n    return docs\n"
    bare = registering_scene(tmp_path / "second", code=code)
    with pytest.raises(TaskError) as caught:
        check_supported(bare.spec)
    for complaint in ("tidied is not known", "metric 'alike'", "summed is not known"):
        assert complaint in str(caught.value)


def test_a_name_that_two_files_of_a_task_register_is_refused(tmp_path: Path) -> None:
    keys = REGISTERED_KEYS + "    process_results: !function other.f\n"
    two = registering_scene(tmp_path / "it", keys=keys)
    folder = tmp_path / "it" / "tasks"
    other = REGISTERING.format(tidied="upper()", factor=1)
    (folder / "other.py").write_text(f"{other}f = summed\n")
    with pytest.raises(TaskError, match="tidied") as caught:
        check_supported(two.spec)
    assert f"{folder / 'code.py'}" in str(caught.value)
    assert f"{folder / 'other.py'}" in str(caught.value)


def test_a_name_of_the_engine_cannot_be_taken(tmp_path: Path) -> None:
    code = REGISTERING.replace('"tidied"', '"lowercase"')
    taken = registering_scene(tmp_path / "it", code=code)
    with pytest.raises(TaskError, match=re.escape("filter 'lowercase'")):
        check_supported(taken.spec)
