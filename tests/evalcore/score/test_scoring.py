"""From responses to samples: what fails is named and loses nothing else; nothing else is lost."""

from __future__ import annotations

import json

import pytest

from evalcore.building import task_of
from evalcore.model.base import Response
from evalcore.record import SAMPLE_SCHEMA, read_samples, write_samples
from evalcore.score.numbers.aggregate import aggregate
from evalcore.score.scoring import of_samples, score_task
from tests.evalcore.both_scorers import (
    CHOICES,
    GENERATE,
    METRIC_CODE,
    Scene,
    chances,
    response,
    texts,
)
from tests.evalcore.worlds import capitals

CODE = """
def picky(references, predictions):
    if predictions[0] == "bad":
        raise KeyError("no such word")
    return 1.0

def no_number(items):
    return "many"

def broken(doc, results):
    return {"right": 1 / (doc["question"] != "2?"), "undeclared": 1.0}

def moody(references, predictions):
    if predictions[0] == "bad":
        raise KeyError("no such word")
    return {"length": len(predictions[0]), "same": 1.0}

class Breaks:
    def apply(self, resps, docs):
        raise OSError("no disk")

def changes(doc, results):
    answer = doc.pop("answer")
    return {"same": float(answer == results[0])}
"""


def places(count):
    return [{"question": f"{n}?", "answer": ["Paris", "Rome", "Oslo"][n % 3]} for n in range(count)]


def numbers_and_failures(scene, answer, mode="compat"):
    numbers, failures = scene.ours(answer, mode=mode)
    return {name for name in numbers if "stderr" not in name}, failures


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_a_metric_that_fails_on_a_document_names_it_and_loses_no_other(tmp_path, mode):
    keys = GENERATE + "    metric_list: [{metric: exact_match}, "
    keys += "{metric: !function code.picky, aggregation: mean}]\n"
    scene = Scene(tmp_path, places(6), keys, CODE)

    def answer(request, repeat):
        return "bad" if request.context in ("2?", "4?") else "Paris"

    numbers, failures = numbers_and_failures(scene, answer, mode)
    assert numbers == {"exact_match,none"}
    assert "document 2 of test" in failures["picky"]
    assert "KeyError" in failures["picky"]
    assert "1 more" in failures["picky"]
    samples = scene.scored(answer, mode).samples
    assert [sample["why_null"] is None for sample in samples] == [1, 1, 0, 1, 0, 1]
    assert samples[2]["correct"] == 0.0
    (unmeasured,) = [score for score in samples[2]["scores"] if score["metric"] == "picky"]
    assert unmeasured["value"] is unmeasured["item"] is None


def test_an_aggregation_that_gives_no_number_is_a_failure(tmp_path):
    keys = GENERATE + "    metric_list: [{metric: exact_match}, "
    keys += "{metric: quasi_exact_match, aggregation: !function code.no_number}]\n"
    numbers, failures = numbers_and_failures(Scene(tmp_path, places(4), keys, CODE), texts("a"))
    assert numbers == {"exact_match,none"}
    assert "no_number failed: ValueError" in failures["quasi_exact_match"]


def test_a_filter_that_fails_leaves_the_other_filters_numbers(tmp_path):
    keys = (
        GENERATE
        + """
    filter_list:
      - {name: fine, filter: [{function: take_first}]}
      - {name: breaks, filter: [{function: !function code.Breaks}]}
    """
    )
    numbers, failures = numbers_and_failures(Scene(tmp_path, places(4), keys, CODE), texts("a"))
    assert numbers == {"exact_match,fine"}
    assert "breaks: !function code.Breaks failed: OSError: no disk" in failures["exact_match"]


def test_own_scoring_that_fails_names_the_document(tmp_path):
    keys = (
        GENERATE
        + """
    process_results: !function code.broken
    metric_list: [{metric: right, aggregation: mean, higher_is_better: true}]
    """
    )
    numbers, failures = numbers_and_failures(Scene(tmp_path, places(4), keys, CODE), texts("a"))
    assert not numbers
    assert "document 2 of test: process_results failed: ZeroDivisionError" in failures["right"]


def test_own_scoring_that_changes_its_document_sees_it_whole_under_every_filter(tmp_path):
    keys = (
        GENERATE
        + """
    process_results: !function code.changes
    metric_list: [{metric: same, aggregation: mean, higher_is_better: true}]
    filter_list:
      - {name: one, filter: [{function: take_first}]}
      - {name: two, filter: [{function: take_first}]}
    """
    )
    numbers, failures = numbers_and_failures(Scene(tmp_path, places(4), keys, CODE), texts("a"))
    assert numbers == {"same,one", "same,two"}
    assert not failures


def test_a_metric_that_the_task_cannot_have_is_named(tmp_path):
    keys = CHOICES + "    metric_list: [{metric: acc}, {metric: rouge1}]\n"
    numbers, failures = numbers_and_failures(Scene(tmp_path, capitals(3), keys), chances)
    assert numbers == {"acc,none"}
    assert "rouge1 is not measured where output_type is multiple_choice" in failures["rouge1"]


def test_too_few_repeats_name_the_remedy(tmp_path):
    keys = GENERATE + "    metric_list: [{metric: exact_match}, {metric: pass@5}]\n"
    _, failures = numbers_and_failures(Scene(tmp_path, places(3), keys), texts("a"))
    assert "set the task's `repeats` to 5" in failures["pass@5"]


SCENES = {
    "choices": (
        CHOICES + "    metric_list: [{metric: acc}, {metric: brier_score}, {metric: mcc}]\n",
        capitals(12),
        chances,
    ),
    "rolling": (
        'output_type: loglikelihood_rolling\ndoc_to_text: ""\ndoc_to_target: question\n',
        capitals(12),
        chances,
    ),
    "texts": (
        GENERATE
        + """
    repeats: 2
    metric_list:
      - {metric: !function code.two, aggregation: median, higher_is_better: false}
      - {metric: bleu}
      - {metric: exact_match}
      - {metric: avg@2}
    """,
        places(12),
        texts("Paris", "Rome", "Oslo is it"),
    ),
}


@pytest.mark.parametrize("mode", ["compat", "strict"])
@pytest.mark.parametrize("name", SCENES)
def test_samples_hold_all_that_the_numbers_need(tmp_path, name, mode):
    """Written and read again, they give every number as it was: from the scores, and anew."""
    keys, rows, answer = SCENES[name]
    scene = Scene(tmp_path, rows, keys, METRIC_CODE)
    scored = scene.scored(answer, mode)

    def results(one):
        return aggregate(scene.spec, [one], {"scene": "run"}, mode=mode, bootstrap_iters=100)

    file = tmp_path / "samples.parquet"
    write_samples(file, scored.samples)
    samples = list(read_samples(file))
    assert samples[0].keys() == set(SAMPLE_SCHEMA.names)
    task = task_of(scene.spec, mode=mode)
    assert results(of_samples(task, samples)) == results(scored)

    stated = [one for sample in samples for one in sample["responses"]]
    for one in stated:
        del one["token_texts"]  # for readers only
    responses = [Response(**one) for one in stated]
    again = score_task(task, task.items(), iter(responses))
    assert [sample["scores"] for sample in again.samples] == [
        sample["scores"] for sample in samples
    ]
    assert results(again) == results(scored)
    for sample in samples:
        for filtered in sample["filtered"]:
            assert len(json.loads(filtered["values"])) == len(sample["arguments"])


def test_a_page_shows_the_pick_of_the_primary_metric(tmp_path):
    keys = CHOICES + "    metric_list: [{metric: acc}, {metric: acc_norm}]\n"
    keys += "    metadata: {version: 1, benchmark: b, primary_metric: acc_norm}\n"
    rows = [{"question": "Q", "choices": ["a", "longer"], "answer": 1}]

    def answer(request, repeat):
        return (-1.0, False) if request.continuation == " a" else (-3.0, False)

    (sample,) = Scene(tmp_path, rows, keys).scored(answer).samples
    assert (sample["pick"], sample["correct"]) == (1, 1.0)


def test_predictions_alone_are_recorded_and_not_scored(tmp_path):
    scene = Scene(tmp_path, places(3), GENERATE)
    task = task_of(scene.spec, mode="strict")
    items = task.items()
    responses = (response(request, "text") for item in items for request in item.requests)
    scored = score_task(task, items, responses, predict_only=True)
    assert aggregate(scene.spec, [scored], {"scene": "run"}, mode="strict") == ([], [])
    assert [sample["filtered"][0]["values"] for sample in scored.samples] == ['["text"]'] * 3
    assert scored.samples[0]["correct"] is None


def test_predictions_alone_are_worth_999_in_compat_even_with_own_scoring(tmp_path):
    keys = GENERATE + "    process_results: !function code.changes\n"
    scene = Scene(tmp_path, places(3), keys, CODE)
    task = task_of(scene.spec, mode="compat")
    items = task.items()
    responses = (response(request, "text") for item in items for request in item.requests)
    scored = score_task(task, items, responses, predict_only=True)
    rows, failures = aggregate(scene.spec, [scored], {"scene": "run"}, mode="compat")
    assert [(row.metric, row.value, row.stderr) for row in rows] == [("bypass", 999, None)]
    assert not failures


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_no_number_of_a_metric_that_gives_several_stands_on_the_documents_that_are_left(
    tmp_path, mode
):
    keys = GENERATE + "    metric_list: [{metric: !function code.moody, aggregation: median}]\n"
    scene = Scene(tmp_path, places(4), keys, CODE)

    def answer(request, repeat):
        return "bad" if request.context == "2?" else "Paris"

    numbers, failures = numbers_and_failures(scene, answer, mode)
    assert not numbers
    assert [*failures] == ["length", "same"]
    assert "document 2 of test: KeyError" in failures["same"]
    scored = scene.scored(answer, mode)
    again = of_samples(task_of(scene.spec, mode=mode), scored.samples, scored.failures)
    assert again.measures.aggregation("same").name == "median"


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_no_undeclared_number_of_own_scoring_stands_on_the_documents_that_are_left(tmp_path, mode):
    keys = (
        GENERATE
        + """
    process_results: !function code.broken
    metric_list: [{metric: right, aggregation: mean, higher_is_better: true}]
    """
    )
    scene = Scene(tmp_path, places(4), keys, CODE)
    numbers, failures = numbers_and_failures(scene, texts("a"), mode)
    assert not numbers
    assert [*failures] == ["right", "undeclared"]
    assert (
        scene.scored(texts("a"), mode).samples[2]["why_null"].startswith("process_results failed")
    )
