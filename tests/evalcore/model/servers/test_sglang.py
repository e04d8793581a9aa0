"""A model behind SGLang's /generate has the numbers and texts that it has when run directly.

SGLang itself does not run on these machines: a small server speaks what it documents.
"""

from __future__ import annotations

import pytest

from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Request
from evalcore.model.conformance import examine
from evalcore.model.registry import backend_of
from tests.evalcore.model.servers.conftest import stated
from tests.evalcore.model.servers.running import running
from tests.evalcore.model.servers.sglang_server import SmallSGLang
from tests.evalcore.model.servers.test_completions import (
    CUT,
    ROLLING,
    SCORED,
    WRITTEN,
    answers,
    assert_same,
)

ASKED = [*SCORED, *ROLLING, *WRITTEN, *CUT]


@pytest.fixture
def server(folder):
    return SmallSGLang(folder)


@pytest.fixture
def arguments(server, folder):
    with running(server.application()) as address:
        yield stated("", folder, base_url=f"{address}/generate")


def model(given, **how):
    return backend_of("sglang-generate").from_arguments(given, mode="strict", **how)


@pytest.mark.parametrize("batch_size", [None, 3])
def test_numbers_and_texts_are_those_of_the_model_itself(arguments, direct, batch_size):
    lm = model(arguments, batch_size=batch_size)
    assert lm.capabilities.loglikelihood, lm.capabilities.why_not
    assert_same(answers(lm, ASKED), answers(direct, ASKED))
    assert lm.execution["loglikelihood"]["path"] == "input_token_logprobs"


def test_it_conforms_and_has_the_keys_of_the_model_itself(arguments, direct):
    lm = model(arguments)
    report = examine(lm, reference=direct.reference)
    assert report.passed, str(report)
    assert [one.key for one in lm.encode(SCORED)] == [one.key for one in direct.encode(SCORED)]


def test_what_stands_before_the_continuation_may_be_reused(server, arguments):
    lm = model(arguments)
    server.asked.clear()
    (encoded,) = lm.encode(SCORED[:1])
    answers(lm, SCORED[:1])
    (body,) = server.asked
    assert body["logprob_start_len"] == encoded.n_context_tokens - 1 > 0
    assert body["input_ids"] == [*encoded.tokens, encoded.targets[-1]]


def test_texts_alone_are_written_where_no_tokens_are_shown(server, arguments, direct):
    server.shows_ids = False
    lm = model(arguments)
    assert not lm.capabilities.tokens_out
    assert_same(answers(lm, [*SCORED, *WRITTEN]), answers(direct, [*SCORED, *WRITTEN]))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"shifted": True}, "as part of a prompt"),
        ({"tempered": True}, "so one of the two is not what it says"),
        ({"flags": True}, "is told as the likeliest in a prompt"),
        (
            {"scores": "none"},
            "(input_token_logprobs): its answer is not what its interface says",
        ),
    ],
    ids=["shifted by a place", "sharpened", "all greedy", "none"],
)
def test_numbers_that_are_not_what_they_say_are_refused(server, arguments, fault, told):
    for name, habit in fault.items():
        setattr(server.habits, name, habit)
    can = model(arguments).capabilities
    assert (can.loglikelihood, can.rolling, can.generate) == (False, False, True)
    assert told in can.why_not


def test_a_start_that_is_not_the_stated_one_is_refused(server, arguments):
    server.starts_late = True
    can = model(arguments).capabilities
    assert not can.loglikelihood
    assert "it has input_token_logprobs of 13 tokens, and 14 were asked about" in can.why_not


def test_another_tokenizer_and_a_bos_too_many_are_refused(server, arguments):
    server.habits.other_tokenizer = True
    with pytest.raises(ModelError, match="name the one that it serves"):
        model(arguments)
    server.habits.other_tokenizer, server.habits.adds_bos_to_tokens = False, True
    with pytest.raises(ModelError, match="so it adds or drops some"):
        model(arguments)


def test_sampling_is_told_in_its_words(server, arguments):
    lm = model(arguments)
    generation = {"until": ["\n"], "max_gen_toks": 3, "temperature": 0.7, "min_p": 0.1}
    answers(lm, [Request("generate_until", "2 + 2", generation=generation)])
    sampling = server.asked[-1]["sampling_params"]
    assert sampling == {
        **{"max_new_tokens": 3, "temperature": 0.7, "min_p": 0.1},
        "stop": ["\n", "</s>"],
    }
    with pytest.raises(TaskError, match="'top_a' is unknown"):
        lm.encode([Request("generate_until", "2", generation={"top_a": 1})])


def test_the_record_says_who_answered_and_the_budget_counts(arguments):
    lm = model({**arguments, "max_total_tokens": "3000"})
    said = lm.info.as_json()
    assert said["unpinned"] is True
    assert said["service"]["version"] == "0.5.23"
    assert said["service"]["owned_by"] == "sglang"
    before = lm.execution["generate_until"]["used"]["tokens_written"]
    answers(lm, WRITTEN[:1])
    used = lm.execution["generate_until"]["used"]
    assert used["tokens_written"] - before == 9
    assert lm.execution["generate_until"]["answered_by"]["weights default"] > 1


def test_bad_beginnings_are_told_in_a_sentence(arguments):
    with pytest.raises(ModelError, match="such as http://localhost:30000/generate, got"):
        model({**arguments, "base_url": arguments["base_url"].replace("generate", "v1")})
    with pytest.raises(ModelError, match="has no model 'org/tny'"):
        model({**arguments, "model": "org/tny"})
    with pytest.raises(ModelError, match="expected at most 128"):
        model({**arguments, "max_length": "129"})
