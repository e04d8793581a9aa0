"""What lm-evaluation-harness does in scoring that compat does, too, and strict does not."""

from __future__ import annotations

import pytest
import sacrebleu

from evalcore.score.metrics.aggregations import aggregation_of
from evalcore.task.config import MetricSpec
from tests.evalcore.both_scorers import CHOICES, GENERATE, Scene, chances, peer, texts
from tests.evalcore.worlds import capitals


def numbers_and_failures(scene, answer, mode="compat"):
    numbers, failures = scene.ours(answer, mode=mode)
    return {name for name in numbers if "stderr" not in name}, failures


@peer
def test_three_classes_need_an_average(tmp_path):
    """lm-eval fails on them after all inference, whatever `average` says; strict honours it."""
    keys = CHOICES + "    metric_list: [{metric: acc}, {metric: f1, average: macro}]\n"
    scene = Scene(tmp_path, capitals(30), keys)
    with pytest.raises(ValueError, match="multiclass"):
        scene.theirs(chances)
    numbers, failures = numbers_and_failures(scene, chances)
    assert numbers == {"acc,none"}
    assert "strict" in failures["f1"]
    numbers, failures = numbers_and_failures(scene, chances, "strict")
    assert numbers == {"acc,none", "f1,none"}
    assert not failures


@peer
def test_likelihood_needs_an_aggregation_in_lm_eval_and_none_in_strict(tmp_path):
    keys = CHOICES + "    metric_list: [{metric: likelihood}]\n"
    scene = Scene(tmp_path, capitals(3), keys)
    with pytest.raises(TypeError):
        scene.theirs(chances)
    _, failures = scene.ours(lambda *_: (-2.0, False))
    assert "give it an aggregation of your own" in failures["likelihood"]
    strict, failures = scene.ours(lambda *_: (-2.0, False), mode="strict")
    assert strict["likelihood,none"] == -2.0
    assert not failures


@peer
def test_only_the_upper_of_two_middle_items_is_lm_eval_s_median(tmp_path):
    keys = CHOICES + "    metric_list: [{metric: acc, aggregation: median}]\n"
    rows = [{"question": "Q", "choices": ["a", "b"], "answer": n % 2} for n in range(4)]
    scene = Scene(tmp_path, rows, keys)
    assert scene.ours(chances)[0]["acc,none"] == scene.theirs(chances)["acc,none"] == 1.0
    assert scene.ours(chances, mode="strict")[0]["acc,none"] == 0.5


@peer
def test_other_metrics_of_several_answers_are_all_or_nothing_only_in_compat(tmp_path):
    """And a match of any answer makes the later metrics see a list, in compat."""
    rows = [{"question": "1", "answer": ["a b c d", "x"]}]
    code = """
def share(references, predictions):
    seen.append(predictions[0])
    return len(set(references[0].split()) & set(str(predictions[0]).split())) / 4
seen = []
"""
    keys = GENERATE + "    metric_list: [{metric: !function code.share, aggregation: mean}]\n"
    scene = Scene(tmp_path, rows, keys, code)
    assert scene.ours(texts("a b"))[0]["share,none"] == 1.0
    assert scene.theirs(texts("a b"))["share,none"] == 1.0
    assert scene.ours(texts("a b"), mode="strict")[0]["share,none"] == 0.5


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


def test_an_answer_that_is_no_choice_scores_nothing_in_compat(tmp_path):
    """Strict refuses it before the model is asked, which the tests of tasks say."""
    rows = [{"question": "Q", "choices": ["a", "b"], "answer": 2}]
    numbers, _ = Scene(tmp_path, rows, CHOICES).ours(lambda *_: (-1.0, True))
    assert numbers["acc,none"] == 0.0


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


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("bleu", sacrebleu.corpus_bleu),
        ("chrf", sacrebleu.corpus_chrf),
        ("ter", sacrebleu.corpus_ter),
    ],
)
def test_repeating_references_changes_no_score(name, score):
    references = [["the cat sat", "a cat was there", "cat"], ["x y z w", "x y"], ["one of them"]]
    said = ["the cat was there", "x y z", "one of those"]
    streams = [
        [of_one[place] if place < len(of_one) else None for of_one in references]
        for place in range(3)
    ]
    entry = MetricSpec(metric=name)
    aggregation = aggregation_of(entry, name, "strict")
    items = list(zip(references, said, strict=True))
    assert aggregation.of(items) == pytest.approx(score(said, streams).score, abs=1e-9)
