"""Every registered backend conforms, and one with a fault is found out by name."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from evalcore.model.base import Request
from evalcore.model.conformance import Finding, Report, examine
from evalcore.model.conformance.examination import CHECKS
from evalcore.model.fake import FakeLM
from evalcore.model.registry import MODELS, backend_of
from evalcore.model.text_lm import TextLM
from tests import tiny
from tests.evalcore.model import conformance_faults as faults
from tests.evalcore.toys import ToyLM

ROOT = Path(__file__).resolve().parents[3]

NO_TOKENS = {
    "tokenisation",
    "beginning of a text",
    "over-long prompts",
    "alignment",
    "sums",
    "additivity",
    "whole texts",
    "greedy flag",
    "length of texts",
}
"""What a backend of texts is not asked."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make(
        tmp_path_factory.mktemp("tiny"), adds_bos=True, positions=128, chat_template=tiny.CHAT
    )


@pytest.fixture(scope="module")
def lm(folder):
    return loaded("hf", folder)


def loaded(name, folder, **arguments):
    stated = {"pretrained": str(folder), "dtype": "float32", **arguments}
    return backend_of(name).from_arguments(stated if name != "dummy" else {}, device="cpu")


def not_asked(report):
    return {finding.check for finding in report.findings if finding.verdict == "not asked"}


ELSEWHERE_EXAMINED = {
    "vllm": "tests/backends/vllm/test_conformance.py",
    "vllm-vlm": "tests/backends/vllm/test_seeing.py",
    "hf-multimodal": "tests/evalcore/model/hf/test_multimodal.py",
    "hf-audiolm-qwen": "tests/evalcore/model/hf/test_audio.py",
}
"""Backends that want an environment, or a model, of their own, and where each is examined."""
HERE = {
    MODELS[name]: name
    for name in MODELS
    if name not in ELSEWHERE_EXAMINED and ".servers." not in MODELS[name]
}
"""Each backend once; those of servers conform in tests/evalcore/model/servers, with servers."""


@pytest.mark.parametrize("name", HERE.values())
def test_every_backend_that_a_command_can_name_conforms(name, folder):
    report = examine(loaded(name, folder))
    assert report.passed, str(report)
    allowed = set() if name != "dummy" else NO_TOKENS | {"stop strings"}
    assert not_asked(report) == allowed, str(report)


@pytest.mark.parametrize(
    ("made", "arguments"),
    [
        ({"architecture": "gpt2"}, {}),
        ({"words": True}, {"add_bos_token": "True"}),
        ({"adds_bos": True}, {"add_bos_token": "False", "rolling_stride": "40"}),
        ({"architecture": "mistral", "adds_bos": True}, {"dtype": "bfloat16"}),
    ],
    ids=["gpt2", "words with BOS", "without BOS", "bfloat16"],
)
def test_models_of_other_kinds_conform(tmp_path, made, arguments):
    report = examine(loaded("hf", tiny.make(tmp_path, positions=96, **made), **arguments))
    assert report.passed, str(report)
    assert not_asked(report) == {"chat template"}


def test_those_of_an_environment_of_their_own_are_examined_there():
    for name, file in ELSEWHERE_EXAMINED.items():
        assert name in MODELS
        assert "report.passed" in (ROOT / file).read_text()


def test_functions_and_objects_of_texts_conform():
    for model in (FakeLM(ToyLM()._by_rule), TextLM(Speaker())):
        report = examine(model)
        assert report.passed, str(report)
        assert not_asked(report) >= NO_TOKENS
        assert report.of("batch invariance").verdict == "passed"
    assert report.of("stop strings").verdict == "passed"


class Speaker:
    """Says the same for every prompt, up to a stop."""

    deaf = False

    def loglikelihood(self, requests):
        return [(-float(len("".join(request.args))), False) for request in requests]

    def loglikelihood_rolling(self, requests):
        return [-float(len(request.args[0])) for request in requests]

    def generate_until(self, requests):
        return [self._said(request.args[1]["until"]) for request in requests]

    def _said(self, stops):
        said = "What a fine table it is."
        for stop in [] if self.deaf else stops:
            said = said.partition(stop)[0]
        return said


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (faults.OffByOne, "alignment"),
        (faults.DropsBos, "alignment"),
        (faults.ReadsWithoutBos, "tokenisation"),
        (faults.IgnoresStops, "stop strings"),
        (faults.KeepsTheStop, "stop strings"),
        (faults.AveragesTokens, "sums"),
        (faults.AveragesTokens, "additivity"),
        (faults.LeavesOutTheLastToken, "sums"),
        (faults.DependsOnTheBatch, "batch invariance"),
        (faults.DependsOnTheOrder, "order invariance"),
        (faults.DependsOnTheTime, "determinism"),
        (faults.AlwaysGreedy, "greedy flag"),
        (faults.CutsTheEnd, "over-long prompts"),
        (faults.CountsNoCut, "over-long prompts"),
        (faults.MixesAnswersUp, "requests and answers"),
        (faults.LosesAnAnswer, "requests and answers"),
        (faults.OneKeyForAll, "requests and answers"),
        (faults.ScoresNoRepeat, "whole texts"),
        (faults.ForgetsWhereTheAnswerBegins, "chat template"),
    ],
)
def test_a_fault_is_found_by_the_check_that_is_made_for_it(lm, fault, check):
    report = examine(fault(lm), reference=lm.reference, only=[check])
    assert report.of(check).verdict == "FAILED", str(report)
    assert not report.passed


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (faults.ReadsWithoutBos, "beginning of a text"),
        (faults.AveragesTokens, "additivity"),
        (faults.LeavesOutTheLastToken, "additivity"),
        (faults.AlwaysGreedy, "greedy flag"),
        (faults.DependsOnTheBatch, "batch invariance"),
    ],
)
def test_much_is_found_without_a_reference(lm, fault, check):
    report = examine(fault(lm), only=["alignment", "tokenisation", check])
    assert not_asked(report) == {"alignment", "tokenisation"}
    assert report.of(check).verdict == "FAILED", str(report)


def test_an_object_that_ignores_stops_is_found_out():
    speaker = Speaker()
    speaker.deaf = True
    report = examine(TextLM(speaker), only=["stop strings"])
    assert "with the stop" in report.of("stop strings").detail


def test_what_a_backend_raises_is_a_finding(lm):
    report = examine(faults.Breaks(lm), only=["requests and answers"])
    assert report.of("requests and answers") == Finding(
        "requests and answers", "FAILED", "it raises KeyError: 'oh'"
    )


def test_what_a_backend_states_that_it_cannot_do_is_not_asked(lm):
    class Listens(faults.Around):
        def __init__(self, lm):
            super().__init__(lm)
            self.capabilities = dataclasses.replace(
                lm.capabilities, backend="ear", generate=False, rolling=False, chat=None
            )

        def encode(self, requests, *, seed=1234):
            assert {request.kind for request in requests} == {"loglikelihood"}
            return super().encode(requests, seed=seed)

    report = examine(Listens(lm), reference=lm.reference)
    assert report.passed, str(report)
    assert report.of("stop strings").detail == "it states that it answers no generate_until request"


def test_a_model_that_answers_nothing_does_not_conform():
    model = FakeLM(lambda *_: None)
    model.capabilities = dataclasses.replace(
        model.capabilities, loglikelihood=False, rolling=False, generate=False
    )
    assert examine(model).of("requests and answers").verdict == "FAILED"


def test_the_reference_leaves_a_model_as_it_was(lm):
    (one,) = lm.encode([Request("loglikelihood", "Question:", " a table")])
    lm._model.model.layers[0].training = True
    try:
        logprobs, _ = lm.reference.teacher_forced(one.tokens, one.targets)
        assert len(logprobs) == len(one.targets)
        assert lm._model.model.layers[0].training
        assert not lm._model.training
    finally:
        lm._model.model.layers[0].training = False


def test_a_report_ends_with_pass_or_fail():
    right = Finding("alignment", "passed", "3 numbers")
    wrong = Finding("sums", "FAILED", "too much")
    assert str(Report("ORG/NAME", "hf", (right,))).splitlines() == [
        "ORG/NAME by hf",
        "  passed     alignment  3 numbers",
        "pass: 1 passed",
    ]
    assert str(Report("ORG/NAME", "hf", (right, wrong))).endswith("fail: 1 passed, 1 failed")
    assert Report("ORG/NAME", "hf", (right, wrong)).failed == [wrong]


def test_every_check_has_a_name_of_its_own_and_says_what_it_is_about():
    assert all(check.__doc__ for check in CHECKS.values())
    assert len({*CHECKS.values()}) == len(CHECKS)
