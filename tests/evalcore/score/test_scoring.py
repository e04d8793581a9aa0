"""From responses to samples and numbers: what fails is named, and loses nothing else; and of a
benchmark that withholds its text (`publish_samples: ids`) nothing that anybody wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import sacrebleu

from evalcore.building import task_of
from evalcore.cli import main
from evalcore.model.base import Response
from evalcore.record import SAMPLE_SCHEMA, read_samples, write_samples
from evalcore.score.numbers.aggregate import aggregate
from evalcore.score.scoring import of_samples, score_task
from tests.evalcore.both_scorers import (
    CHOICES,
    GENERATE,
    Scene,
    chances,
    peer,
    places,
    response,
    texts,
)
from tests.evalcore.toys import TASKS, evaluated, records_in, write_run, write_toy, write_toys
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

def two(references, predictions):
    return {"length": len(predictions[0]), "same": float(references[0] == predictions[0])}

class Breaks:
    def apply(self, resps, docs):
        raise OSError("no disk")

def changes(doc, results):
    answer = doc.pop("answer")
    return {"same": float(answer == results[0])}
"""


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


FAILURES = {
    "an aggregation that gives no number": (
        f"{GENERATE}    metric_list: [{{metric: exact_match}}, "
        "{metric: quasi_exact_match, aggregation: !function code.no_number}]\n",
        {"exact_match,none"},
        "quasi_exact_match",
        "no_number failed: ValueError",
    ),
    "a filter that fails": (
        f"""{GENERATE}
    filter_list:
      - {{name: fine, filter: [{{function: take_first}}]}}
      - {{name: breaks, filter: [{{function: !function code.Breaks}}]}}
    """,
        {"exact_match,fine"},
        "exact_match",
        "breaks: !function code.Breaks failed: OSError: no disk",
    ),
    "too few repeats": (
        f"{GENERATE}    metric_list: [{{metric: exact_match}}, {{metric: pass@5}}]\n",
        {"exact_match,none"},
        "pass@5",
        "set the task's `repeats` to 5",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_what_fails_is_named_and_leaves_the_other_numbers(tmp_path, case):
    keys, expected, metric, reason = FAILURES[case]
    numbers, failures = numbers_and_failures(Scene(tmp_path, places(4), keys, CODE), texts("a"))
    assert numbers == expected
    assert reason in failures[metric]


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
    scene = Scene(tmp_path, rows, keys, CODE)
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


def predicted(scene, mode):
    """What is scored of a task of which predictions alone are wanted."""
    task = task_of(scene.spec, mode=mode)
    items = task.items()
    responses = (response(request, "text") for item in items for request in item.requests)
    return score_task(task, items, responses, predict_only=True)


def test_predictions_alone_are_recorded_and_not_scored(tmp_path):
    scene = Scene(tmp_path, places(3), GENERATE)
    scored = predicted(scene, "strict")
    assert aggregate(scene.spec, [scored], {"scene": "run"}, mode="strict") == ([], [])
    assert [sample["filtered"][0]["values"] for sample in scored.samples] == ['["text"]'] * 3
    assert scored.samples[0]["correct"] is None


def test_predictions_alone_are_worth_999_in_compat_even_with_own_scoring(tmp_path):
    keys = GENERATE + "    process_results: !function code.changes\n"
    scene = Scene(tmp_path, places(3), keys, CODE)
    scored = predicted(scene, "compat")
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
def test_own_scoring_that_fails_names_the_document_and_leaves_no_number(tmp_path, mode):
    """Not even one that the task does not declare."""
    keys = f"""{GENERATE}
    process_results: !function code.broken
    metric_list: [{{metric: right, aggregation: mean, higher_is_better: true}}]
    """
    scene = Scene(tmp_path, places(4), keys, CODE)
    numbers, failures = numbers_and_failures(scene, texts("a"), mode)
    assert not numbers
    assert [*failures] == ["right", "undeclared"]
    assert "document 2 of test: process_results failed: ZeroDivisionError" in failures["right"]
    sample = scene.scored(texts("a"), mode).samples[2]
    assert sample["why_null"].startswith("process_results failed")


# What lm-evaluation-harness does that compat does, too, and strict does not; see tests/parity, too


@peer
def test_other_metrics_of_several_answers_are_all_or_nothing_only_in_compat(tmp_path):
    rows = [{"question": "1", "answer": ["a b c d", "x"]}]
    code = """
def share(references, predictions):
    return len(set(references[0].split()) & set(str(predictions[0]).split())) / 4
"""
    keys = GENERATE + "    metric_list: [{metric: !function code.share, aggregation: mean}]\n"
    scene = Scene(tmp_path, rows, keys, code)
    assert scene.ours(texts("a b"))[0]["share,none"] == 1.0
    assert scene.theirs(texts("a b"))["share,none"] == 1.0
    assert scene.ours(texts("a b"), mode="strict")[0]["share,none"] == 0.5


@peer
@pytest.mark.parametrize(
    ("given", "keys", "answer"),
    [
        ("torch.tensor(doc['answer'])", CHOICES, chances),
        ("np.array(doc['answer'])", CHOICES, chances),
        ("[np.int64(doc['answer'])]", CHOICES, chances),
        ("np.array(5)", GENERATE, texts("5", "6")),
        ("torch.tensor(5)", GENERATE, texts("5", "tensor(5)")),  # which is compared as its text
        ("np.array(['Paris'])", GENERATE, texts("Paris", "['Paris']")),
    ],
)
def test_an_answer_may_be_a_scalar_or_an_array_of_numpy_or_torch(tmp_path, given, keys, answer):
    rows = [
        {"question": f"{n}?", "choices": ["a", "bb", f"c{n}"], "answer": n % 3} for n in range(8)
    ]
    code = f"import numpy as np, torch\ndef gold(doc): return {given}\n"
    keys = keys.replace("doc_to_target: answer", "doc_to_target: !function code.gold")
    metric = "acc" if keys.startswith(CHOICES[:30]) else "exact_match"
    scene = Scene(tmp_path, rows, f"{keys}    metric_list: [{{metric: {metric}}}]\n", code)
    numbers, failures = scene.ours(answer)
    assert not failures
    assert numbers[f"{metric},none"] == float(scene.theirs(answer)[f"{metric},none"])
    numbers, failures = scene.ours(answer, mode="strict")
    assert (failures, f"{metric},none" in numbers) == ({}, True)
    scored = scene.scored(answer, "strict")
    write_samples(tmp_path / "samples.parquet", scored.samples)


@peer
@pytest.mark.parametrize("tail", ["[1, 'a']", "['x']", "[]", "7"])
def test_what_follows_choices_that_are_contexts_may_read_as_a_list(tmp_path, tail):
    rows = [
        {"choices": ["a", "bb", f"c{n}"], "answer": n % 3, "tail": tail if n == 2 else "is so"}
        for n in range(6)
    ]
    keys = CHOICES.replace('"{{question}}"', "answer").replace(
        "target: answer", "target: '{{tail}}'"
    )
    scene = Scene(tmp_path, rows, f"{keys}    metric_list: [{{metric: acc}}]\n")
    numbers, failures = scene.ours(chances)
    assert not failures
    assert numbers["acc,none"] == scene.theirs(chances)["acc,none"]


@peer
def test_an_aggregation_may_give_several_numbers_by_name(tmp_path):
    numbers = "{'all': sum(items) / len(items), 'first': items[0], 'of': 'two'}"
    code = f"def shares(items): return {numbers}\n"
    keys = "    metric_list: [{metric: acc, aggregation: !function code.shares}]\n"
    scene = Scene(tmp_path, capitals(8), f"{CHOICES}{keys}", code)
    for mode in ("compat", "strict"):
        numbers, failures = scene.ours(chances, mode=mode)
        theirs = scene.theirs(chances)["acc,none"]
        assert numbers["acc/all,none"] == theirs["all"]
        assert numbers["acc/first,none"] == theirs["first"]
        assert "acc,none" not in numbers
        assert failures.keys() == {"acc/of"}
        assert "could not convert string to float: 'two'" in failures["acc/of"]


@peer
def test_after_an_exact_match_of_several_answers_lm_eval_s_metrics_see_a_list(tmp_path):
    rows = [{"question": "1", "answer": ["a", "x"]}]
    code = "def is_list(references, predictions): return float(isinstance(predictions[0], list))\n"
    keys = GENERATE + "    metric_list: [{metric: exact_match}, "
    keys += "{metric: !function code.is_list, aggregation: mean}]\n"
    scene = Scene(tmp_path, rows, keys, code)
    assert scene.theirs(texts("a"))["is_list,none"] == 1.0
    assert scene.ours(texts("a"))[0]["is_list,none"] == 1.0
    assert scene.ours(texts("a"), mode="strict")[0]["is_list,none"] == 0.0


@peer
@pytest.mark.parametrize(
    ("arguments", "score"),
    [
        ("regexes_to_ignore: []", 0.0),
        ("regexes_to_ignore: [], ignore_case: true", 1.0),
        ("regexes_to_ignore: [','], ignore_case: false", 1.0),
        ("ignore_case: false", 1.0),
    ],
)
def test_an_empty_list_of_patterns_makes_lm_eval_want_all_answers_at_once(
    tmp_path, arguments, score
):
    rows = [{"question": "1", "answer": ["a", "x"]}, {"question": "2", "answer": ["a", "a"]}]
    keys = GENERATE + f"    metric_list: [{{metric: exact_match, {arguments}}}]\n"
    scene = Scene(tmp_path, rows, keys)
    both = (score + 1) / 2
    assert scene.theirs(texts("a"))["exact_match,none"] == both
    assert scene.ours(texts("a"))[0]["exact_match,none"] == both
    assert scene.ours(texts("a"), mode="strict")[0]["exact_match,none"] == 1.0


@peer
def test_an_aggregation_that_task_code_takes_from_lm_eval_keeps_its_standard_error(tmp_path):
    code = "from lm_eval.api.metrics import mean, perplexity\n"
    keys = (
        CHOICES
        + """
    metric_list:
      - {metric: acc, aggregation: !function code.mean, higher_is_better: true}
      - {metric: acc_norm, aggregation: !function code.perplexity, higher_is_better: true}
    """
    )
    scene = Scene(tmp_path, capitals(20), keys, code)
    theirs, (ours, _) = scene.theirs(chances, iters=50), scene.ours(chances, iters=50)
    assert len(theirs) == 4
    assert ours == pytest.approx(theirs, rel=1e-9)


@peer
def test_lm_eval_drops_references_that_not_every_document_has_and_strict_uses_all(tmp_path):
    rows = [
        {"question": "1", "answer": ["the cat sat on a mat", "a cat was sitting on the mat"]},
        {"question": "2", "answer": ["the dog ran off"]},
    ]
    code = "def both(doc, results): return {'bleu': (doc['answer'], results[0])}\n"
    keys = (
        GENERATE
        + """
    process_results: !function code.both
    metric_list: [{metric: bleu, aggregation: bleu, higher_is_better: true}]
    """
    )
    said = {"1": "a cat was sitting on a mat", "2": "the dog ran off quickly"}
    scene = Scene(tmp_path, rows, keys, code)

    def answer(request, repeat):
        return said[request.context]

    streams = [["the cat sat on a mat", "the dog ran off"], ["a cat was sitting on the mat", None]]
    texts_of_all = [*said.values()]
    first_only = sacrebleu.corpus_bleu(texts_of_all, streams[:1]).score
    everything = sacrebleu.corpus_bleu(texts_of_all, streams).score
    assert scene.theirs(answer)["bleu,none"] == pytest.approx(first_only, abs=1e-9)
    assert scene.ours(answer)[0]["bleu,none"] == pytest.approx(first_only, abs=1e-9)
    strict = scene.ours(answer, mode="strict")[0]["bleu,none"]
    assert strict == pytest.approx(everything, abs=1e-9) != first_only


# `publish_samples: ids`


NAMES = ("toy_choice", "toy_shots", "toy_likely", "toy_rolling", "toy_written")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tasks evaluated with their text and without."""
    folder = tmp_path_factory.mktemp("withheld")
    tasks = write_toys(folder)
    write_run(folder / "full", evaluated(tasks, ",".join(NAMES)))
    for name in NAMES:
        about = {"version": 1, **TASKS[name].get("metadata", {})}
        about |= {"benchmark": name, "publish_samples": "ids"}
        write_toy(tasks, name, metadata=about)
    write_run(folder / "ids", evaluated(tasks, ",".join(NAMES)))
    return folder


def test_the_numbers_are_those_of_the_full_samples_and_no_token_spells_the_text(runs: Path) -> None:
    full, ids = records_in(runs / "full"), records_in(runs / "ids")
    assert full.keys() == ids.keys() == set(NAMES)
    for name in NAMES:
        assert ids[name].without_text == [name]
        assert ids[name].docs_digest == full[name].docs_digest
        assert [(row.metric, row.value, row.low, row.high) for row in ids[name].results] == [
            (row.metric, row.value, row.low, row.high) for row in full[name].results
        ]

    for record in records_in(runs / "ids").values():
        for sample in read_samples(runs / "ids" / record.samples.file):
            assert not any(any(response["token_ids"]) for response in sample["responses"])
            assert sample["doc_digest"]


def words(value: object) -> set[str]:
    """Every text of four letters or more anywhere in a document or a sample."""
    if isinstance(value, str):
        return {word for word in value.split() if len(word) > 3}
    if isinstance(value, dict):
        return {word for part in value.values() for word in words(part)}
    if isinstance(value, list | tuple):
        return {word for part in value for word in words(part)}
    return set()


def test_no_file_holds_a_word_of_a_document_or_an_answer(runs: Path, tmp_path: Path) -> None:
    written: set[str] = set()
    for record in records_in(runs / "full").values():
        for sample in read_samples(runs / "full" / record.samples.file):
            written |= words(json.loads(sample["doc"])) | words(sample["prompt"])
            written |= words([response["text"] for response in sample["responses"]])
    for file in runs.glob("**/*.yaml"):  # what the task's own file says is no secret
        written -= words(file.read_text().replace('"', " ").replace("'", " "))
    assert len(written) > 5
    for form in ("lm-eval", "parquet", "every-eval-ever"):
        place = ["--output_path", str(tmp_path / form)]
        assert main(["convert", str(runs / "ids"), "--to", form, *place]) == 0
    files = [file for file in (*tmp_path.rglob("*"), *(runs / "ids").iterdir()) if file.is_file()]
    assert {file.suffix for file in files} == {".json", ".jsonl", ".parquet"}
    for file in files:
        text = text_of(file)
        assert not [word for word in written if f" {word}" in text or f"{word} " in text], file


def text_of(file: Path) -> str:
    if file.suffix == ".parquet":
        return json.dumps(pq.read_table(file).to_pylist(), default=str)
    return file.read_text()


def test_verify_computes_the_numbers_again_and_says_what_it_cannot(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(runs / "ids"), "--level", "aggregate"]) == 0
    assert main(["verify", str(runs / "ids")]) == 0
    told = capsys.readouterr().out
    assert "toy_choice: scores: its samples carry no text to score again" in told
