"""Loglikelihoods and texts by vLLM beside those of `hf`: with contexts that are kept, and not."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
from vllm.logprobs import Logprob

from evalcore.errors import ModelError, TaskError
from evalcore.model.base import EncodedRequest, Request
from evalcore.model.vllm import scoring
from evalcore.model.vllm.scoring import VllmScorer
from tests.backends.conftest import BLOCK, TWINS

NATS = 1e-4
"""By which the two may differ in a sum, and 1e-6 of it."""


def words(count, seed):
    return tuple(random.Random(seed).choices(range(3, 340), k=count))


def scoring_of(context, *targets):
    return [EncodedRequest.scoring((*context, *some[:-1]), some) for some in targets]


def choices(context, seed, *lengths):
    return scoring_of(context, *[words(n, repr((seed, n))) for n in lengths])


def answered(lm, requests):
    found = {place: response for pack in lm.answer(requests) for place, response in pack}
    return [found[place] for place in range(len(requests))]


def compared(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.key == other.key
        assert one.token_ids == other.token_ids
        assert one.n_context_tokens == other.n_context_tokens
        bound = NATS + 1e-6 * abs(other.loglikelihood)
        assert one.loglikelihood == pytest.approx(other.loglikelihood, abs=bound)
        assert one.token_logprobs == pytest.approx(other.token_logprobs, abs=bound)
        assert one.is_greedy == other.is_greedy


@pytest.fixture
def scorer(lm, monkeypatch):
    """Of the same engine, and nothing learned yet."""
    fresh = VllmScorer(lm._engine, is_half=False)
    monkeypatch.setattr(lm, "_scorer", fresh)
    return fresh


SHOTS = words(100, "shots")
MANY = [
    request
    for number, size in enumerate([5, BLOCK - 1, BLOCK, BLOCK + 1, 63, 64, 65, 95, 96, 97, 300])
    for request in choices((*SHOTS, *words(size, number))[:size], number, 1, 2, 3, 4, 7)
]


def test_contexts_of_every_length_are_answered_as_transformers_does(lm, hf, scorer):
    found = answered(lm, MANY)
    compared(found, answered(hf, MANY))
    ways = [response.path for response in found]
    # Two contexts are shorter than a block, and what was tried has the plain answer; so has what an
    # earlier test has asked already, of which vLLM keeps more than the context.
    assert 30 <= ways.count("shared") <= len(MANY) - 2 * 5 - (2 + 3)
    how = lm.execution["loglikelihood"]
    assert how["path"] == "shared"
    assert "nats from plain requests of up to 306 tokens" in how["reason"]
    assert how["refused"] == ""


def test_what_is_kept_beyond_a_context_is_not_believed(lm, hf, scorer):
    """Continuations that begin alike for longer than a block: of that vLLM says nothing."""
    context, alike = words(50, "context"), words(2 * BLOCK, "alike")
    requests = scoring_of(context, *[(*alike, token, 9) for token in range(10, 16)])
    found = answered(lm, requests)
    compared(found, answered(hf, requests))
    assert [response.path for response in found].count("plain") >= 5


def test_nor_where_something_stands_in_its_place():
    """vLLM leaves the rows that it did not compute as they lay in memory, where those of an earlier
    prompt, with the same tokens, may have been."""
    context, rest = (5,) * 64, (6, 7, 8)
    rows = [None, *({token: Logprob(-1.0, 1)} for token in (*context, *rest)[1:])]
    for kept, believed in ((0, True), (63, True), (64, True), (65, False), (66, False)):
        output = SimpleNamespace(num_cached_tokens=kept, prompt_logprobs=rows)
        found = scoring._behind(output, context, rest)
        assert found == ([(-1.0, True)] * 2 if believed else None)


def test_more_first_tokens_than_vllm_tells_of_at_once(lm, hf, scorer):
    context = words(70, "many")
    requests = scoring_of(context, *[(token,) for token in range(3, 303)])
    requests += scoring_of(context, *[(7, token) for token in range(3, 203)])
    compared(answered(lm, requests), answered(hf, requests))


def test_a_prompt_as_long_as_the_model_is_read_to_its_end(lm, hf, scorer):
    whole = words(513, "long")
    requests = [
        EncodedRequest.scoring(whole[:512], whole[1:513]),
        EncodedRequest.scoring(whole[:512], whole[510:513]),
        EncodedRequest.scoring(whole[:512], whole[512:513]),
    ]
    compared(answered(lm, requests), answered(hf, requests))


def test_of_tokens_that_are_equally_likely_each_is_greedy(lm, hf, scorer):
    """transformers takes the first of them; vLLM's own rank would deny it to both."""
    contexts = [words(40, number) for number in range(1500)]
    requests = [one for context in contexts for one in scoring_of(context, *[(t,) for t in TWINS])]
    theirs = answered(hf, requests)
    likeliest = [n for n in range(0, len(requests), 2) if theirs[n].is_greedy]
    assert likeliest, "in no context are they the likeliest"
    asked = [requests[n + twin] for n in likeliest for twin in (0, 1)]
    found = answered(lm, asked)
    assert [one.is_greedy for one in found] == [True] * len(asked)
    assert [one.is_greedy for one in answered(hf, asked)] == [True, False] * len(likeliest)


@pytest.mark.parametrize("fault", ["wrong value", "next token"])
def test_a_way_that_says_something_else_is_left_and_the_record_says_so(
    lm, hf, scorer, monkeypatch, fault
):
    right = scoring._behind

    def wrong(output, context, rest):
        said = right(output, context, rest)
        if not said:
            return said
        if fault == "wrong value":
            return [(said[0][0] + 0.01, said[0][1]), *said[1:]]
        return [*said[1:], (said[0][0] * 1.1, False)]

    monkeypatch.setattr(scoring, "_behind", wrong)
    found = answered(lm, MANY)
    compared(found, answered(hf, MANY))
    assert {response.path for response in found} == {"plain"}
    how = lm.execution["loglikelihood"]
    assert how["path"] == "plain"
    assert "not each context once: with what is kept of a context of" in how["refused"]


def test_choices_of_one_token_are_tried_as_well(lm, hf, scorer, monkeypatch):
    """Contexts that begin alike: what is kept of one is read for the next."""
    shots = words(3 * BLOCK, "five shots")
    letters = [(30,), (31,), (32,), (33,)]
    asked = [
        request
        for number in range(12)
        for request in scoring_of((*shots, *words(20, number)), *letters)
    ]
    found = answered(lm, asked)
    compared(found, answered(hf, asked))
    assert [response.path for response in found].count("shared") > 30
    assert scorer._longest_checked == 3 * BLOCK + 20

    fresh = VllmScorer(lm._engine, is_half=False)
    monkeypatch.setattr(lm, "_scorer", fresh)
    right = fresh._after
    monkeypatch.setattr(
        fresh,
        "_after",
        lambda wanted: [
            {token: (logprob - 0.01, greedy) for token, (logprob, greedy) in said.items()}
            for said in right(wanted)
        ],
    )
    found = answered(lm, asked)
    compared(found, answered(hf, asked))
    assert {response.path for response in found} == {"plain"}


def test_weights_that_are_no_numbers_have_no_score(lm):
    from evalcore.model.vllm.asking import _said

    with pytest.raises(ModelError, match="not a number"):
        _said(float("nan"), 0.0)


PROMPTS = ["Question: Which of these", "The following are", "A. a table\nB.", "wood " * 90, "2 +"]


def requests_for(*, until=(), tokens=24, repeats=1, **others):
    asked = {"until": list(until), "max_gen_toks": tokens, **others}
    return [Request("generate_until", text, generation=asked, repeats=repeats) for text in PROMPTS]


def written(lm, *requests):
    return answered(lm, lm.encode(list(requests)))


def test_texts_are_those_that_transformers_writes(lm, hf):
    for asked in (
        {},
        {"until": ["a", "\n"]},
        {"until": ["e"], "tokens": 60},
        {"tokens": 1},
        {"repetition_penalty": 1.3},
    ):
        requests = requests_for(**asked)
        ours, theirs = written(lm, *requests), written(hf, *requests)
        assert [(one.text, one.token_ids, one.finish_reason, one.key) for one in ours] == [
            (one.text, one.token_ids, one.finish_reason, one.key) for one in theirs
        ]


def test_a_draw_is_of_its_seed_and_repeat(lm):
    requests = requests_for(repeats=2, temperature=0.8, top_p=0.95)
    first = [one.text for one in written(lm, *requests)]
    again = [one.text for one in written(lm, *requests)]
    other = [one.text for one in answered(lm, lm.encode(requests, seed=7))]
    assert first == again
    assert first != other
    assert any(one != two for one, two in zip(first[::2], first[1::2], strict=True))


def test_a_request_alone_has_the_text_that_it_has_among_others(lm):
    requests = requests_for(temperature=0.8)
    together = [one.text for one in written(lm, *requests)]
    assert together == [written(lm, request)[0].text for request in requests]


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"num_beams": 3}, "'num_beams' is unknown"),
        ({"temperature": 0.001}, r"temperature: expected 0.01 to 2, .* got 0.001"),
        ({"temperature": 3.0}, r"temperature: expected 0.01 to 2, .* got 3"),
        ({"temperature": 0.8, "typical_p": 0.5}, "'typical_p' is unknown"),
    ],
)
def test_what_vllm_cannot_draw_is_refused(lm, stated, says):
    with pytest.raises(TaskError, match=says):
        written(lm, *requests_for(**stated))


def test_what_a_models_own_file_asks_for_and_vllm_has_not_is_refused(lm, monkeypatch):
    monkeypatch.setattr(lm._writer, "_defaults", {"no_repeat_ngram_size": 3})
    with pytest.raises(ModelError, match="vLLM has no no_repeat_ngram_size, which is 3 there"):
        written(lm, *requests_for())
    monkeypatch.setattr(lm._writer, "_defaults", {"no_repeat_ngram_size": 0, "top_k": 20})
    assert written(lm, *requests_for())
