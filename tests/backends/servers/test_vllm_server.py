"""A model behind vLLM's server has the numbers and texts that it has when it is run directly."""

from __future__ import annotations

import pytest

from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.conformance import examine
from evalcore.model.servers import probe
from evalcore.model.servers.scoring import ECHO, ECHO_AND_ONE, PROMPT_LOGPROBS
from tests.evalcore.model.servers import fault_proxy
from tests.evalcore.model.servers.conftest import stated
from tests.evalcore.model.servers.fault_proxy import FaultProxy
from tests.evalcore.model.servers.running import running
from tests.evalcore.model.servers.test_completions import (
    ROLLING,
    SCORED,
    WRITTEN,
    answers,
    assert_same,
    model,
)
from tests.evalcore.toys import write_toys

ASKED = [*SCORED, *ROLLING, *WRITTEN]


@pytest.mark.parametrize("batch_size", [None, 4])
def test_it_conforms(arguments, direct, batch_size):
    lm = model(arguments, batch_size=batch_size)
    assert lm.capabilities.loglikelihood, lm.capabilities.why_not
    report = examine(lm, reference=direct.reference)
    assert report.passed, str(report)
    assert {finding.verdict for finding in report.findings} == {"passed"}


@pytest.mark.parametrize("manner", [PROMPT_LOGPROBS, ECHO, ECHO_AND_ONE])
def test_numbers_and_texts_are_those_of_the_model_itself(arguments, direct, manner, monkeypatch):
    monkeypatch.setattr(probe, "MANNERS", [manner])
    lm = model(arguments)
    assert lm.capabilities.loglikelihood, lm.capabilities.why_not
    assert_same(answers(lm, ASKED), answers(direct, ASKED))


def test_texts_are_read_as_our_tokenizer_reads_them(arguments, direct):
    lm = model({**arguments, "tokenized_requests": "False"})
    asked = [*SCORED, Request("loglikelihood_rolling", "", "The following are"), *WRITTEN]
    assert_same(answers(lm, asked), answers(direct, asked))
    with pytest.raises(ModelError, match="state add_bos_token=True"):
        model({**arguments, "tokenized_requests": "False", "add_bos_token": "False"})


def test_what_goes_wrong_on_the_way_changes_nothing(served, folder, direct):
    proxy = FaultProxy(served)
    with running(proxy.application()) as address:
        lm = model(stated(address, folder), batch_size=3)
        proxy.faults = ["429", "500", "cut", "half", fault_proxy.reordered]
        proxy.always = fault_proxy.reordered
        assert_same(answers(lm, ASKED), answers(direct, ASKED))
        assert not proxy.faults


def test_bad_beginnings_are_told_in_a_sentence(arguments, monkeypatch):
    def told(**others):
        with pytest.raises(ModelError) as error:
            model({**arguments, **others})
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "has no model 'org/tny'" in told(model="org/tny")
    assert "expected at most 128" in told(max_length="129")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    assert "its key is refused" in told()


def test_the_record_says_who_answered_and_a_second_run_asks_nothing(arguments, tmp_path):
    write_toys(tmp_path / "tasks")

    def run():
        lm = model(arguments)
        how = {"include_path": tmp_path / "tasks", "use_cache": tmp_path / "kept"}
        found = evaluate(lm, ["toy_likely", "toy_rolling"], mode="strict", **how)
        return [evaluation.record for evaluation in found]

    first, second = run(), run()
    said = first[0].model
    assert said["unpinned"] is True
    assert (said["service"]["owned_by"], said["service"]["version"]) == ("vllm", "0.32.0")
    (answered,) = first[0].execution["loglikelihood"]["answered_by"]
    assert answered.startswith("org/tiny vllm-")
    assert [record.requests["journalled"] for record in first] == [0, 0]
    assert [r.requests["journalled"] for r in second] == [r.requests["total"] for r in second]
    assert [r.results for r in second] == [r.results for r in first]
