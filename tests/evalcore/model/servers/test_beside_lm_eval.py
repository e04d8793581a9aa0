"""lm-evaluation-harness's own clients beside ours, where a small server has the interface."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.anthropic_llms import AnthropicChat
from lm_eval.models.sglang_generate_API import SGLANGGENERATEAPI

from evalcore.model.registry import backend_of
from tests.evalcore.model.servers.running import running
from tests.evalcore.model.servers.sglang_server import SmallSGLang
from tests.evalcore.model.servers.test_anthropic import SYSTEM, chat
from tests.evalcore.model.servers.test_chat import TURNS, asked
from tests.evalcore.model.servers.test_completions import CUT, SCORED, WRITTEN, answers

pytestmark = pytest.mark.peer


def apart(ask, requests):
    """Asked in a thread of its own: lm-evaluation-harness starts a loop, and a test process in
    which a browser was driven has one running already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(ask, requests).result()


def test_numbers_and_texts_of_sglang_are_theirs(folder):
    """But for their flags, which they have the other way round: a continuation is greedy to them
    where none of its tokens is the likeliest."""
    with running(SmallSGLang(folder).application()) as address:
        given = {
            **{"model": "org/tiny", "base_url": f"{address}/generate", "tokenizer": str(folder)},
            **{"max_length": 128, "num_concurrent": 4},
        }
        ours = backend_of("sglang-generate").from_arguments(given, mode="compat")
        theirs = SGLANGGENERATEAPI(**given)
        scored = [request for request in (*SCORED, CUT[0]) if request.repeats == 1]
        found = answers(ours, scored)
        expected = apart(theirs.loglikelihood, _instances(scored))
        assert [one.loglikelihood for one in found] == pytest.approx([one for one, _ in expected])
        found = answers(ours, [CUT[1]])
        assert found[0].loglikelihood == pytest.approx(
            apart(theirs.loglikelihood_rolling, _instances([CUT[1]]))[0]
        )
        written = [*WRITTEN, CUT[2]]
        texts = [one.text for one in answers(ours, written)]
        assert texts == apart(theirs.generate_until, _instances(written))


def _instances(requests):
    return [Instance(one.kind, {}, one.arguments, 0) for one in requests]


def test_texts_are_those_of_lm_eval_s_own_client(of_anthropic):
    lm = chat(of_anthropic)
    peer = AnthropicChat(**{**of_anthropic, "num_concurrent": 4})
    talks = [TURNS, SYSTEM, TURNS[:1]]
    ours = answers(lm, [asked(lm, turns, until=["e"]) for turns in talks])
    theirs = apart(
        peer.generate_until,
        [
            Instance(
                "generate_until",
                {},
                (
                    peer.apply_chat_template(
                        [{"role": turn.role, "content": turn.content} for turn in turns]
                    ),
                    {"until": ["e"], "max_gen_toks": 9},
                ),
                0,
            )
            for turns in talks
        ],
    )
    assert [answer.text for answer in ours] == theirs
