"""Every registered backend conforms, and one with a fault is found out by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.conformance import Finding, examine
from evalcore.model.fake import DummyLM, FakeLM
from evalcore.model.registry import MODELS
from evalcore.model.text_lm import TextLM
from evalcore.model.writing.generation import GenerationRequest, RollingRequest
from tests import tiny
from tests.evalcore.model.asking import ends_texts, load, load_by
from tests.evalcore.toys import ToyLM

NO_TOKENS = {
    *("tokenisation", "beginning of a text", "end of a text", "over-long prompts", "alignment"),
    *("sums", "additivity", "whole texts", "greedy flag", "length of texts"),
}
"""What a backend of texts is not asked."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make(
        tmp_path_factory.mktemp("tiny"), adds_bos=True, positions=128, chat_template=tiny.CHAT
    )


@pytest.fixture(scope="module")
def lm(folder):
    return load(folder)


def not_asked(report):
    return {finding.check for finding in report.findings if finding.verdict == "not asked"}


ELSEWHERE_EXAMINED = ("vllm", "vllm-vlm", "hf-multimodal", "hf-audiolm-qwen")
"""In tests/backends and hf/test_media.py, with an environment or a model of their own."""
HERE = {
    MODELS[name]: name
    for name in MODELS
    if name not in ELSEWHERE_EXAMINED and ".servers." not in MODELS[name]
}
"""Each backend once; those of servers conform in tests/evalcore/model/servers, with servers."""


@pytest.mark.parametrize("name", HERE.values())
def test_every_backend_that_a_command_can_name_conforms(name, folder):
    report = examine(DummyLM() if name == "dummy" else load_by(name, folder))
    assert report.passed, str(report)
    allowed = set() if name != "dummy" else NO_TOKENS | {"stop strings"}
    assert not_asked(report) == allowed, str(report)


@pytest.mark.parametrize("around", ["<s> $A </s>", "$A </s>", "<s> $A <s>", "$A </s> $A"])
def test_a_tokenizer_that_ends_its_texts_is_found_in_compat_and_overruled_in_strict(
    tmp_path, around
):
    folder = ends_texts(tiny.make(tmp_path), around)
    found = examine(load(folder))
    assert found.of("end of a text").verdict == "FAILED", str(found)
    if around.count("$A") > 1:
        with pytest.raises(ModelError, match="puts special tokens within a text"):
            load(folder, mode="strict").encode([Request("loglikelihood", "Question", " a table")])
    else:
        kept = examine(load(folder, mode="strict"))
        assert kept.passed, str(kept)


def test_functions_and_objects_of_texts_conform():
    for model in (FakeLM(ToyLM()._by_rule), TextLM(Speaker())):
        report = examine(model)
        assert report.passed, str(report)
        assert not_asked(report) >= NO_TOKENS
        assert report.of("batch invariance").verdict == "passed"
    assert report.of("stop strings").verdict == "passed"


class Speaker:
    """Says the same for every prompt, up to a stop."""

    def loglikelihood(self, requests):
        return [(-float(len("".join(request.args))), False) for request in requests]

    def loglikelihood_rolling(self, requests):
        return [-float(len(request.args[0])) for request in requests]

    def generate_until(self, requests):
        return [self._said(request.args[1]["until"]) for request in requests]

    def _said(self, stops):
        said = "What a fine table it is."
        for stop in stops:
            said = said.partition(stop)[0]
        return said


# Backends with one fault each, around one that is right.


class Around:
    """Passes everything on to the `hf` backend that it stands for."""

    def __init__(self, lm):
        self.lm = lm
        self.capabilities = lm.capabilities
        self.info = lm.info

    def encode(self, requests, *, seed=1234):
        return [self.read(request) for request in self.lm.encode(requests, seed=seed)]

    def answer(self, requests):
        changed = [self.asked(request) for request in requests]
        for pack in self.lm.answer(changed):
            yield [
                (place, replace(self.answered(requests[place], response), key=requests[place].key))
                for place, response in pack
            ]

    def read(self, request):
        return request

    def asked(self, request):
        return request

    def answered(self, request, response):
        return response

    def chat_template(self, name=None):
        return self.lm.chat_template(name)


def is_scored(request):
    return not isinstance(request, GenerationRequest | RollingRequest)


class OffByOne(Around):
    """Reads each target off the position before the one that predicts it."""

    def asked(self, request):
        if not is_scored(request):
            return request
        return replace(request, tokens=(request.tokens[0], *request.tokens[:-1]))


class ReadsWithoutBos(Around):
    """Drops BOS when it reads."""

    def read(self, request):
        bos = self.info.special_tokens["bos"][1]
        if not is_scored(request) or request.tokens[0] != bos or request.n_context_tokens < 2:
            return request
        return replace(request, tokens=request.tokens[1:])


class KeepsTheStop(Around):
    def answered(self, request, response):
        if response.finish_reason != "stop":
            return response
        return replace(response, text=response.text + request.plan.until[0])


class LeavesOutTheLastToken(Around):
    """Of the sum and of what it shows, so that only more than one request tells."""

    def answered(self, request, response):
        if not is_scored(request) or len(request.targets) < 2:
            return response
        shown = response.token_logprobs
        return replace(response, loglikelihood=response.loglikelihood - shown[-1])


class Shifts(Around):
    """Subtracts a little from each loglikelihood."""

    calls = 0

    def answer(self, requests):
        self.calls += 1
        for pack in super().answer(requests):
            for place, response in pack:
                number = response.loglikelihood - self.shift(place, requests)
                yield [(place, replace(response, loglikelihood=number))]


class DependsOnTheBatch(Shifts):
    """As padding does that is attended to."""

    def shift(self, place, requests):
        longest = max(len(request.tokens) for request in requests)
        return 0.01 * (longest - len(requests[place].tokens))


class DependsOnTheOrder(Shifts):
    """Its first answer is another's."""

    def shift(self, place, requests):
        return 1.0 * (not place)


class DependsOnTheTime(Shifts):
    def shift(self, place, requests):
        return 0.01 * self.calls


class AlwaysGreedy(Around):
    def answered(self, request, response):
        return replace(response, is_greedy=True)


class CutsTheEnd(Around):
    """Keeps nothing but the beginning of a prompt that is too long."""

    def read(self, request):
        if not is_scored(request) or not request.n_truncated:
            return request
        return replace(request, tokens=request.tokens[:1] * len(request.tokens))


class CountsNoCut(Around):
    def read(self, request):
        return replace(request, n_truncated=0)


class MixesAnswersUp(Around):
    """Two answers of a pack change places."""

    def answer(self, requests):
        for pack in self.lm.answer(requests):
            if len(pack) > 1:
                (first, one), (second, other), *rest = pack
                pack = [(first, other), (second, one), *rest]
            yield pack


class LosesAnAnswer(Around):
    def answer(self, requests):
        for pack in self.lm.answer(requests):
            yield [pair for pair in pack if pair[0] != 3]


class OneKeyForAll(Around):
    def read(self, request):
        return replace(request, key="k")


class ScoresNoRepeat(Around):
    """Of a whole text it loses a window."""

    def asked(self, request):
        if not isinstance(request, RollingRequest) or len(request.windows) < 2:
            return request
        return replace(request, windows=request.windows[:-1])


class ForgetsWhereTheAnswerBegins(Around):
    def chat_template(self, name=None):
        template = self.lm.chat_template(name)
        return replace(template, render=lambda turns, _: template.render(turns, False))


class Breaks(Around):
    def encode(self, requests, *, seed=1234):
        raise KeyError("oh")


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (OffByOne, "alignment"),
        (ReadsWithoutBos, "tokenisation"),
        (KeepsTheStop, "stop strings"),
        (LeavesOutTheLastToken, "sums"),
        (DependsOnTheBatch, "batch invariance"),
        (DependsOnTheOrder, "order invariance"),
        (DependsOnTheTime, "determinism"),
        (AlwaysGreedy, "greedy flag"),
        (CutsTheEnd, "over-long prompts"),
        (CountsNoCut, "over-long prompts"),
        (MixesAnswersUp, "requests and answers"),
        (LosesAnAnswer, "requests and answers"),
        (OneKeyForAll, "requests and answers"),
        (ScoresNoRepeat, "whole texts"),
        (ForgetsWhereTheAnswerBegins, "chat template"),
    ],
)
def test_a_fault_is_found_by_the_check_that_is_made_for_it(lm, fault, check):
    report = examine(fault(lm), reference=lm.reference, only=[check])
    assert report.of(check).verdict == "FAILED", str(report)
    assert not report.passed


@pytest.mark.parametrize(
    ("fault", "check"),
    [(ReadsWithoutBos, "beginning of a text"), (LeavesOutTheLastToken, "additivity")],
)
def test_much_is_found_without_a_reference(lm, fault, check):
    report = examine(fault(lm), only=["alignment", "tokenisation", check])
    assert not_asked(report) == {"alignment", "tokenisation"}
    assert report.of(check).verdict == "FAILED", str(report)


def test_what_a_backend_raises_is_a_finding(lm):
    report = examine(Breaks(lm), only=["requests and answers"])
    assert report.of("requests and answers") == Finding(
        "requests and answers", "FAILED", "it raises KeyError: 'oh'"
    )


def test_what_a_backend_states_that_it_cannot_do_is_not_asked(lm):
    class Listens(Around):
        def __init__(self, lm):
            super().__init__(lm)
            self.capabilities = replace(
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
    model.capabilities = replace(
        model.capabilities, loglikelihood=False, rolling=False, generate=False
    )
    assert examine(model).of("requests and answers").verdict == "FAILED"
