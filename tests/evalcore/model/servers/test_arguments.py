"""Arguments of models behind servers: what is wrong is told, and no secret is taken or shown."""

from __future__ import annotations

import pytest

from evalcore.errors import ModelError
from evalcore.model.servers.arguments import Arguments

GIVEN = {"model": "org/tiny", "base_url": "http://localhost:8000/v1/completions"}
SECRET = "sk-nobody-may-read-this"


def test_what_lm_eval_takes_is_taken():
    read = Arguments.of(
        {
            "pretrained": "org/tiny",
            "base_url": "https://x.org/v1/completions?api-version=2",
            "tokenizer": "org/tokens",
            "tokenizer_backend": "huggingface",
            "tokenized_requests": "False",
            "revision": "abc",
            "num_concurrent": "8",
            "max_retries": "0",
            "timeout": "2.5",
            "max_length": "4096",
            "max_gen_toks": "64",
            "add_bos_token": "True",
            "custom_prefix_token_id": "0",
            "seed": "7",
            "eos_string": "</s>",
            "header": '{"X-Team": "evaluation"}',
            "verify_certificate": "False",
        }
    )
    assert (read.model, read.num_concurrent, read.timeout) == ("org/tiny", 8, 2.5)
    assert read.header == {"X-Team": "evaluation"}
    recorded = read.as_json()
    assert recorded["max_length"] == 4096
    assert not {"header", "timeout", "base_url", "num_concurrent"} & set(recorded)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"auth_token": SECRET}, "'auth_token' is not taken: a key stands in the environment"),
        ({"api_key": SECRET}, "'api_key' is not taken"),
        ({"header": f"{{'Authorization': 'Bearer {SECRET}'}}"}, "expected no 'Authorization'"),
        ({"header": f"{{'x-api-key': '{SECRET}'}}"}, "expected no 'x-api-key'"),
        ({"base_url": f"http://ada:{SECRET}@h/v1/completions"}, "without a user or password"),
        ({"base_url": f"http://h/v1/completions?key={SECRET}"}, "an address without 'key'"),
        ({"base_url": "localhost:8000"}, "an address such as http://localhost:8000"),
        ({"tokenizer_backend": "tiktoken"}, "name a repository with the same tokenizer"),
        ({"tokenizer_backend": "remote"}, "the server's is compared with it"),
        ({"num_concurrent": "0"}, "num_concurrent: expected a whole number from 1, got '0'"),
        ({"max_retries": "-1"}, "max_retries: expected a whole number from 0, got '-1'"),
        ({"timeout": "soon"}, "timeout: expected a number above 0, got 'soon'"),
        ({"dtype": "float16"}, "'dtype' is the server's own matter"),
        ({"nm_concurrent": "1"}, r"unknown argument 'nm_concurrent' \(did you mean num_concurrent"),
        ({"batch_size": "4"}, "the option --batch_size"),
        ({"tokenizer_backend": "None", "tokenizer": "x"}, "tokenizer needs "
         "a tokenizer: leave tokenizer_backend=None out"),
        ({"tokenizer_backend": "None", "tokenized_requests": "True"}, "needs a tokenizer"),
        ({"enable_thinking": "True"}, "enable_thinking needs think_end_token"),
        ({"trust_remote_code": "True"}, "code from a repository is never run"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_without_its_secret(wrong, told):
    with pytest.raises(ModelError, match=told) as error:
        Arguments.of({**GIVEN, **wrong})
    assert SECRET not in str(error.value)
    assert "\n" not in str(error.value)


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(ModelError) as error:
        Arguments.of({"timeout": "0", "seed": "x"})
    said = str(error.value)
    assert all(name in said for name in ("timeout", "seed", "missing argument 'model'"))
