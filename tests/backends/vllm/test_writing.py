"""Texts that vLLM writes, beside those of `hf` and those that vLLM's own stops end."""

from __future__ import annotations

import pytest

from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Request
from tests.backends.vllm.test_scoring import answered

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


def test_a_stop_within_a_text_ends_it_as_vllms_own_stops_do(lm):
    """Ours are looked for in the tokens; vLLM's in the text that its detokenizer has written."""
    from vllm import SamplingParams
    from vllm.v1.engine.detokenizer import FastIncrementalDetokenizer

    free = written(lm, *requests_for(tokens=40))
    tried = 0
    for request, whole in zip(requests_for(tokens=40), free, strict=True):
        for stop in {whole.text[4:6], whole.text[9:10], whole.text[3:8]} - {""}:
            if "\ufffd" in stop:
                continue
            (ours,) = written(lm, _with(request, [stop]))
            theirs = _by_vllm(
                lm, whole, SamplingParams(stop=[stop], max_tokens=40), FastIncrementalDetokenizer
            )
            assert (ours.text, ours.finish_reason) == (theirs, "stop")
            tried += 1
    assert tried > 5


def _with(request, until):
    return Request(
        "generate_until", request.context, generation={**request.generation, "until": until}
    )


def _by_vllm(lm, whole, params, kind):
    """What vLLM's detokenizer makes of the same tokens, one by one, until its stop."""
    from types import SimpleNamespace

    request = SimpleNamespace(
        request_id="1", prompt_token_ids=[0], prompt_embeds=None, sampling_params=params
    )
    writer = kind(lm.tokenizer, request)
    for token in whole.token_ids:
        if writer.update([token], False):
            break
    return writer.output_text


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
