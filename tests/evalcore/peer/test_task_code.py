"""Task code that leans on lm-eval's classes, and odd columns and targets: both engines agree."""

from __future__ import annotations

import decimal
import json
import re
from pathlib import Path
from typing import Any

import pytest

from evalcore.formats.lmeval.samples import logged_samples, task_lines
from evalcore.score.sample import item_of
from evalcore.task.template import render
from tests.evalcore.both_scorers import CHOICES, GENERATE, PLACES, Scene, chances, peer, places

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
CLASS = "    class: !function code.Leaning\n"


def choosing(count: int) -> list[dict[str, Any]]:
    return [
        {"question": f"{n}?", "choices": ["a", "bb", f"c{n}"], "answer": n % 3}
        for n in range(count)
    ]


def both_prompts(scene: Scene, shots: int) -> tuple[list[Any], list[Any]]:
    """What we and lm-eval send, in the order of documents."""
    from lm_eval.tasks._yaml_loader import load_yaml

    from evalcore.building import task_of

    ours = task_of(scene.spec, mode="compat", num_fewshot=shots)
    config = load_yaml(scene.spec.source, resolve_func=True)
    theirs = config.pop("class")(config=config)
    theirs.set_config(key="num_fewshot", value=shots)
    theirs.set_fewshot_seed(seed=1234)
    theirs.build_all_requests(rank=0, world_size=1)
    return (
        [request.arguments for item in ours.items() for request in item.requests],
        [instance.args for instance in theirs.instances],
    )


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
    scene = Scene(tmp_path, rows, CLASS + keys, LEANING)
    numbers, failures = scene.ours(answer)
    assert not failures
    theirs = scene.theirs(answer)
    assert "chosen,none" in numbers
    assert numbers.keys() == theirs.keys() - {"alias", "name", "sample_len", "sample_count"}
    assert numbers == pytest.approx({name: theirs[name] for name in numbers})


@peer
def test_a_class_reads_examples_by_the_keys_that_are_stated_for_them(tmp_path: Path) -> None:
    stated = "{doc_to_text: 'Example: {{question}}'}"
    keys = f"{CLASS}{CHOICES}    training_split: test\n    fewshot_config: {stated}\n"
    scene = Scene(tmp_path, choosing(8), keys, LEANING)
    ours, theirs = both_prompts(scene, 2)
    assert ours == theirs
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
@pytest.mark.parametrize(
    "targets", ["[[0], (1,), [2, 1]]", "[[0], {1}, {0, 2}]", "[[2], [], (1,)]"]
)
def test_right_positions_may_come_as_a_tuple_or_a_set(tmp_path: Path, targets: str) -> None:
    keys = (
        CHOICES.replace("answer", "!function code.target")
        + "    metric_list: [{metric: acc}, {metric: acc_norm}, {metric: exact_match}]\n"
    )
    scene = Scene(tmp_path, choosing(3), keys, LISTS.format(targets=targets))
    numbers, failures = scene.ours(chances)
    assert not failures
    assert {name: scene.theirs(chances)[name] for name in numbers} == numbers


@peer
@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a-b-c' | regex_replace(pattern='-', repl='+') }}",
        "{{ 'a-b-c' | regex_replace('-', repl='+', count=1) }}",
        "{{ 'a-b-c' | regex_replace('-', '+') }}",
    ],
)
def test_a_template_names_the_parameters_of_a_filter_as_in_lm_eval(template: str) -> None:
    from lm_eval.utils import apply_template

    assert render(template, {}) == apply_template(template, {})


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
