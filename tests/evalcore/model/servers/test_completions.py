"""A model behind a server that completes prompts is asked as the same model is directly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from evalcore.errors import ModelError, TaskError
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.conformance import examine
from evalcore.model.conformance.examination import CHECKS
from evalcore.model.servers.arguments import Arguments
from evalcore.model.servers.completions import LocalCompletions
from evalcore.model.writing.generation import RollingRequest
from evalcore.refusals import refuse_before
from evalcore.settings import Settings
from tests import quantised, tiny
from tests.evalcore.model.asking import check_told_at_once, refusal_of
from tests.evalcore.model.servers import small_server
from tests.evalcore.model.servers.asking import (
    CUT,
    ROLLING,
    SCORED,
    SCORES,
    WRITTEN,
    answers,
    assert_same,
    model,
)
from tests.evalcore.model.servers.conftest import direct_of, stated
from tests.evalcore.model.servers.small_server import Small, running
from tests.evalcore.toys import write_toys

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
    ("name", "value", "told"),
    [
        ("base_url", f"http://ada:{SECRET}@h/v1/completions", "without a user or password"),
        ("base_url", f"http://h/v1/completions?key={SECRET}", "expected an address without 'key'"),
        ("base_url", "localhost:8000", "an address such as http://localhost:8000"),
        ("header", f"{{'Authorization': 'Bearer {SECRET}'}}", "expected no 'Authorization'"),
        ("header", f"{{'x-api-key': '{SECRET}'}}", "expected no 'x-api-key'"),
        ("tokenizer_backend", "tiktoken", "name a repository with the same tokenizer"),
        ("tokenizer_backend", "remote", "the server's is compared with it"),
    ],
)
def test_what_is_wrong_with_an_argument_is_told_without_its_secret(name, value, told):
    said = refusal_of(lambda: Arguments.of({"model": "org/tiny", name: value}))
    assert told in said
    assert SECRET not in said


WRONG_VALUES = {
    "num_concurrent": ("0", "expected a whole number from 1, got '0'"),
    "max_retries": ("-1", "expected a whole number from 0, got '-1'"),
    "timeout": ("0", "expected a number above 0, got '0'"),
}
WRONG_NAMES = {
    "auth_token": "'auth_token' is not taken: a key stands in the environment",
    "batch_size": "the option --batch_size",
    "dtype": "'dtype' is the server's own matter",
    "nm_concurrent": "unknown argument 'nm_concurrent' (did you mean num_concurrent",
    "thinking_budget": "--gen_kwargs thinking_token_budget=N",
}


def test_all_wrong_arguments_are_told_at_once():
    check_told_at_once(Arguments.of, WRONG_VALUES, WRONG_NAMES)
    contradictory = {
        **{"model": "org/tiny", "tokenizer_backend": "None", "tokenizer": "x"},
        **{"tokenized_requests": "True", "enable_thinking": "True", "trust_remote_code": "True"},
    }
    told = refusal_of(lambda: Arguments.of(contradictory))
    for said in (
        "tokenizer needs a tokenizer: leave tokenizer_backend=None out",
        "tokenized_requests=True needs a tokenizer",
        "enable_thinking needs think_end_token",
        "code from a repository is never run",
    ):
        assert said in told


@pytest.mark.parametrize(
    ("scores", "batch_size"), [("prompt_logprobs", None), ("prompt_logprobs", 3), ("echo", 3)]
)
def test_numbers_and_texts_are_those_of_the_model_itself(
    small, arguments, direct, scores, batch_size
):
    small.habits.scores = scores
    lm = model(arguments, batch_size=batch_size)
    requests = [*SCORED, *ROLLING, *WRITTEN, CUT[0], CUT[2]]
    found = answers(lm, requests)
    assert_same(found, answers(direct, requests))
    assert all(response.n_truncated for response in found[-2:])
    assert lm.execution["loglikelihood"]["path"] == scores
    keys = [[request.key for request in each.encode(SCORED)] for each in (lm, direct)]
    assert keys[0] == keys[1]


@pytest.mark.parametrize(
    "habits",
    [
        {},
        {"scores": "echo", "shows_tokens": False, "knows_only_the_interface": True},
        {"scores": "echo", "tokenizes": False, "least_tokens": 1},
    ],
    ids=["all", "only the interface", "counts and must write"],
)
def test_servers_of_all_habits_conform(small, arguments, direct, habits):
    for name, habit in habits.items():
        setattr(small.habits, name, habit)
    lm = model(arguments)
    assert lm.capabilities.loglikelihood, lm.capabilities.why_not
    of_numbers = ("alignment", "sums", "greedy flag", "stop strings", "batch invariance")
    only = of_numbers if habits else tuple(CHECKS)
    report = examine(lm, reference=direct.reference, only=only)
    assert report.passed, str(report)
    assert report.of("alignment").verdict == "passed"


def test_texts_are_sent_where_a_server_takes_no_tokens(small, arguments, direct):
    small.habits.takes_tokens = False
    with pytest.raises(ModelError, match="state tokenized_requests=False"):
        model(arguments)
    small.asked.clear()
    lm = model({**arguments, "tokenized_requests": "False"})
    requests = [*SCORED[:2], *SCORED[3:], *WRITTEN]
    assert_same(answers(lm, requests), answers(direct, requests))
    assert all(isinstance(body["prompt"], str) for body in small.asked)


@pytest.fixture(scope="module")
def without_bos(tmp_path_factory):
    """A server that puts no BOS before a text; its arguments, and the model itself."""
    folder = small_server.made(tmp_path_factory.mktemp("plain"), adds_bos=False)
    server = Small(folder)
    server.habits.takes_tokens = False
    with running(server.application()) as address:
        given = stated(address, folder, tokenized_requests="False", add_bos_token="False")
        yield server, given, direct_of(folder, add_bos_token="False")


@pytest.mark.parametrize("scores", ["prompt_logprobs", "echo"])
def test_what_is_cut_is_sent_as_the_text_that_is_read_as_its_tokens(without_bos, scores):
    server, given, direct = without_bos
    server.habits.scores = scores
    lm = model(given)
    assert lm.capabilities.rolling
    server.asked.clear()
    found = answers(lm, CUT)
    assert_same(found, answers(direct, CUT))
    assert [response.n_truncated > 0 for response in found] == [True, False, True]
    assert len(server.asked) > len(CUT)
    assert all(isinstance(body["prompt"], str) for body in server.asked)


def test_what_begins_within_a_text_is_not_sent_where_the_server_puts_a_bos(arguments, direct):
    lm = model({**arguments, "tokenized_requests": "False"})
    for cut in CUT:
        with pytest.raises(ModelError, match="the server puts a BOS before every text, and this"):
            lm.encode([cut])
    short = [Request("loglikelihood_rolling", "", "The following are questions.")]
    assert_same(answers(lm, short), answers(direct, short))


def test_a_prompt_written_with_bos_has_one_whatever_the_server_adds(small, arguments, direct):
    lm = model({**arguments, "tokenized_requests": "False"})
    requests = [Request("loglikelihood", "<s>Question:", " a table"), SCORED[2]]
    assert_same(answers(lm, requests), answers(direct, requests))
    assert small.asked[-1]["prompt"] in ("Question: a table", " a table")


WORDS = st.text("aeW ho.\n?é🙂", max_size=30)


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """Folders of tokenizers, by whether they put a BOS before a text."""
    return {
        adds_bos: tiny.make(tmp_path_factory.mktemp("read"), adds_bos=adds_bos)
        for adds_bos in (True, False)
    }


@settings(max_examples=60, deadline=None)
@given(context=WORDS, continuation=WORDS.filter(bool), length=st.integers(4, 30))
@pytest.mark.parametrize("adds_bos", [True, False])
def test_a_text_is_sent_only_where_it_is_read_as_the_tokens(
    tokenizers, adds_bos, context, continuation, length
):
    told = {"model": "org/tiny", "base_url": "http://127.0.0.1:9/v1/completions",
            "tokenizer": str(tokenizers[adds_bos]), "max_length": str(length + 2),
            "add_bos_token": str(adds_bos), "tokenized_requests": "False"}  # fmt: skip
    lm = model(told, weights=False)
    tokens = model({**told, "tokenized_requests": "True"}, weights=False)
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


def test_without_a_tokenizer_texts_are_written_and_nothing_is_scored(small, address):
    lm = model({"model": "org/tiny", "base_url": f"{address}/v1/completions",
                "tokenizer_backend": "None"})  # fmt: skip
    (response,) = answers(lm, [WRITTEN[1]])
    assert small.asked[-1]["prompt"] == "2 + 2 ="
    assert response.text is not None
    assert not lm.capabilities.loglikelihood
    with pytest.raises(ModelError, match="choose tasks that generate"):
        lm.encode(SCORED)


def test_stops_are_ours_whatever_a_server_does_with_them(small, arguments, direct):
    def until(stops):
        generation = {"until": stops, "max_gen_toks": 9}
        return [Request("generate_until", "Question: Which", generation=generation)]

    free = answers(direct, until([]))[0].text
    (response,) = answers(model(arguments), until(["zz", "yy", "xx", "ww", free[3:5]]))
    assert len(small.asked[-1]["stop"]) == 4
    assert response.text == free.partition(free[3:5])[0]
    assert response.finish_reason == "stop"


def test_what_is_sampled_is_drawn_by_a_seed_of_its_own(small, arguments):
    sampled = Request(
        "generate_until", "2 + 2", repeats=2,
        generation={"until": [], "max_gen_toks": 3, "temperature": 0.7, "top_p": 0.9},
    )  # fmt: skip
    lm = model(arguments)
    small.asked.clear()
    answers(lm, [sampled])
    seeds = {body["seed"] for body in small.asked}
    assert len(seeds) == 2
    assert {(body["temperature"], body["top_p"]) for body in small.asked} == {(0.7, 0.9)}
    other = lm.encode([sampled], seed=9)
    assert not {request.key for request in other} & {r.key for r in lm.encode([sampled])}
    own = model({**arguments, "seed": "9"})
    assert [request.key for request in own.encode([sampled])] == [r.key for r in other]
    with pytest.raises(TaskError, match="'top_q' is unknown"):
        lm.encode([Request("generate_until", "2", generation={"top_q": 1})])


def test_in_compat_no_bos_is_put_as_lm_eval_puts_none(arguments, caplog):
    del arguments["add_bos_token"]
    lm = LocalCompletions.from_arguments(arguments, mode="compat")
    (encoded,) = lm.encode(SCORED[:1])
    assert encoded.tokens[0] != 0
    assert "state add_bos_token=True" in caplog.text
    strict = model(arguments)
    assert strict.encode(SCORED[:1])[0].tokens[0] == 0


def test_what_was_answered_is_not_asked_again(tmp_path, small, arguments):
    write_toys(tmp_path / "tasks")

    def run():
        how = {"include_path": tmp_path / "tasks", "use_cache": tmp_path / "kept"}
        found = evaluate(model(arguments), ["toy_likely", "toy_rolling"], mode="strict", **how)
        return [evaluation.record for evaluation in found]

    first = run()
    small.asked.clear()
    second = run()
    assert [r.requests["journalled"] for r in first] == [0, 0]
    assert [r.requests["journalled"] for r in second] == [r.requests["total"] for r in second]
    assert [r.results for r in second] == [r.results for r in first]
    assert len(small.asked) < 10  # the probe's
    said = first[0].model
    assert (said["unpinned"], said["commit"]) == (True, None)
    assert said["service"]["model"] == "org/tiny"
    assert said["service"]["url"].endswith("/v1/completions")
    elsewhere = model({**arguments, "base_url": arguments["base_url"] + "?api-version=2"})
    assert elsewhere.info.model_key == said["model_key"]
    small.habits.window = 100
    assert model(arguments).info.model_key != said["model_key"]


# A server that reads or says something else than what is meant is found out before any work.


@pytest.mark.parametrize("scores", ["prompt_logprobs", "echo"])
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"shifted": True}, "as part of a prompt"),
        ({"tempered": True}, "so one of the two is not what it says"),
        ({"flags": True}, "is told as the likeliest in a prompt"),
        ({"flags": False}, "is told as not the likeliest in a prompt"),
    ],
    ids=["shifted by a place", "sharpened", "all greedy", "none greedy"],
)
def test_numbers_that_are_not_what_they_say_are_refused(small, arguments, scores, fault, told):
    small.habits.scores = scores
    for name, habit in fault.items():
        setattr(small.habits, name, habit)
    can = model(arguments).capabilities
    assert (can.loglikelihood, can.rolling, can.generate) == (False, False, True)
    assert told in can.why_not


@pytest.mark.parametrize("scores", ["prompt_logprobs", "none"])
def test_a_server_that_puts_a_bos_before_tokens_is_refused(small, arguments, scores):
    small.habits.scores, small.habits.adds_bos_to_tokens = scores, True
    with pytest.raises(ModelError, match="so it adds or drops some"):
        model(arguments)
    small.habits.counts = False
    can = model(arguments).capabilities
    assert not can.loglikelihood
    assert can.why_not


@pytest.mark.parametrize(
    ("tokenizes", "tokenized"), [(True, "True"), (False, "True"), (False, "False")]
)
def test_a_server_with_another_tokenizer_is_refused(small, arguments, tokenizes, tokenized):
    small.habits.other_tokenizer, small.habits.tokenizes = True, tokenizes
    said = refusal_of(lambda: model({**arguments, "tokenized_requests": tokenized}))
    assert "name the one that it serves" in said
    assert "tokenizer_backend=None" in said


def test_a_server_whose_tokenizer_cannot_be_known_is_refused(small, arguments):
    small.habits.tokenizes = small.habits.counts = False
    with pytest.raises(ModelError, match="nobody can tell whether its tokenizer"):
        model(arguments)


def test_a_bos_that_the_server_puts_is_stated(arguments):
    sent = {**arguments, "tokenized_requests": "False", "add_bos_token": "False"}
    with pytest.raises(ModelError, match=r"puts a BOS before a text.*state add_bos_token=True"):
        model(sent)


def test_a_server_without_loglikelihoods_of_a_prompt_writes_and_no_more(small, arguments, direct):
    small.habits.scores = "none"
    lm = model(arguments)
    found, expected = answers(lm, WRITTEN), answers(direct, WRITTEN)
    assert [answer.text for answer in found] == [answer.text for answer in expected]
    with pytest.raises(ModelError, match="it does not say how likely the tokens of a prompt are"):
        refuse_before(lm.capabilities, [SCORES], Settings())


# llama.cpp's own server: it writes, and is refused where it would have to score a prompt.


@pytest.fixture(scope="module")
def llama(folder, tmp_path_factory):
    """The server's address."""
    import xllamacpp

    told = xllamacpp.CommonParams()
    file = tmp_path_factory.mktemp("gguf") / "model.gguf"
    quantised.write_gguf(folder, file, **{"tokenizer.ggml.add_bos_token": True})
    told.model.path = str(file)
    told.model_alias = {"org/tiny"}
    told.n_ctx, told.n_parallel, told.warmup, told.port = small_server.POSITIONS, 1, False, 0
    told.cpuparams.n_threads = told.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(told)
    yield server.listening_address
    del server


def test_llama_cpp_writes_what_the_model_itself_writes(llama, folder, direct):
    lm = model(stated(llama, folder))
    for found, expected in zip(answers(lm, WRITTEN), answers(direct, WRITTEN), strict=True):
        assert found.text == expected.text
    assert lm.info.service["model"] == "org/tiny"
    assert lm.info.service["version"]


@pytest.mark.parametrize("tokenized", ["True", "False"])
def test_its_loglikelihoods_are_refused_before_the_first_request(llama, folder, tokenized):
    can = model(stated(llama, folder, tokenized_requests=tokenized)).capabilities
    assert (can.loglikelihood, can.rolling, can.generate) == (False, False, True)
    said = refusal_of(lambda: refuse_before(can, [SCORES], Settings()))
    assert "it does not say how likely the tokens of a prompt are" in said
    assert "choose tasks that generate (the style `generate`)" in said


def test_a_context_that_is_longer_than_its_own_is_refused(llama, folder):
    with pytest.raises(ModelError, match=r"max_length: expected at most 128"):
        model(stated(llama, folder, max_length="2048"))
