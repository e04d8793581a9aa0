"""What a server is sent as a text is read as the tokens of the request, whatever is asked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.writing.generation import RollingRequest
from tests import tiny
from tests.evalcore.model.servers.test_completions import model

WORDS = st.text("aeW ho.\n?é🙂", max_size=30)


@settings(max_examples=60, deadline=None)
@given(context=WORDS, continuation=WORDS.filter(bool), length=st.integers(4, 30))
@pytest.mark.parametrize("adds_bos", [True, False])
def test_a_text_is_sent_only_where_it_is_read_as_the_tokens(
    tokenizers, adds_bos, context, continuation, length
):
    given = {"model": "org/tiny", "base_url": "http://127.0.0.1:9/v1/completions",
             "tokenizer": str(tokenizers[adds_bos]), "max_length": str(length + 2),
             "add_bos_token": str(adds_bos), "tokenized_requests": "False"}  # fmt: skip
    lm = model(given, weights=False)
    tokens = model({**given, "tokenized_requests": "True"}, weights=False)
    reads = AutoTokenizer.from_pretrained(tokenizers[adds_bos])
    for one in (
        Request("loglikelihood", context, continuation),
        Request("loglikelihood_rolling", "", continuation),
        Request("generate_until", context, generation={"max_gen_toks": 2}),
    ):
        try:
            (expected,) = tokens.encode([one])
            (sent,) = lm.encode([one])
        except ModelError:
            continue
        for whole, text in fed_and_sent(expected, sent):
            assert reads(text)["input_ids"] == whole


def fed_and_sent(expected, sent):
    if isinstance(expected, RollingRequest):
        for window, text in zip(expected.windows, sent.windows, strict=True):
            yield from fed_and_sent(window, text)
    elif hasattr(sent, "prompt"):
        yield [*expected.tokens], sent.prompt
    else:
        yield [*expected.tokens, expected.targets[-1]], sent.text


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """Folders of tokenizers, by whether they put a BOS before a text."""
    return {
        adds_bos: tiny.make(tmp_path_factory.mktemp("read"), adds_bos=adds_bos)
        for adds_bos in (True, False)
    }
