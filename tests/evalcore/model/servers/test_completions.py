"""A model behind a server that completes prompts is asked as the same model is directly."""

from __future__ import annotations

import pytest

from evalcore.errors import ModelError, TaskError
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.conformance import examine
from evalcore.model.registry import backend_of
from evalcore.model.servers.completions import LocalCompletions
from tests.evalcore.model.servers import served_model
from tests.evalcore.model.servers.conftest import direct_of, stated
from tests.evalcore.model.servers.running import running
from tests.evalcore.model.servers.small_server import Small
from tests.evalcore.toys import write_toys

SCORED = [
    Request("loglikelihood", "Question: Which of these is made of wood?\nAnswer:", " a table"),
    Request("loglikelihood", "Question: Which of these is made of wood?\nAnswer:", " a river"),
    Request("loglikelihood", "", " a table"),
    Request("loglikelihood", "2 + 2 = ", "4", repeats=2),
    Request("loglikelihood", "été 🙂", " été"),
]
LONG = "Which of these is made of wood? " * 20
ROLLING = [Request("loglikelihood_rolling", "", "The following are questions.\n" * 12)]
WRITTEN = [
    Request("generate_until", "Question: Which", generation={"until": [], "max_gen_toks": 9}),
    Request("generate_until", "2 + 2 =", generation={"until": ["a", "e"], "max_gen_toks": 12}),
    Request("generate_until", "Answer:", generation={"until": "\n", "max_gen_toks": 5}),
]


def model(given, **how):
    return backend_of("local-completions").from_arguments(given, mode="strict", **how)


def answers(lm, requests):
    encoded = lm.encode(requests)
    found = {place: response for pack in lm.answer(encoded) for place, response in pack}
    return [found[place] for place in range(len(encoded))]


def assert_same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.loglikelihood == pytest.approx(theirs.loglikelihood, abs=1e-4)
        assert ours.is_greedy == theirs.is_greedy
        assert ours.text == theirs.text
        assert ours.n_truncated == theirs.n_truncated


@pytest.mark.parametrize("scores", ["prompt_logprobs", "echo"])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_numbers_and_texts_are_those_of_the_model_itself(
    small, arguments, direct, scores, batch_size
):
    small.habits.scores = scores
    lm = model(arguments, batch_size=batch_size)
    asked = [*SCORED, *ROLLING, *WRITTEN]
    assert_same(answers(lm, asked), answers(direct, asked))
    assert lm.execution["loglikelihood"]["path"] == scores


def test_requests_have_the_keys_that_they_have_when_the_model_is_run_directly(arguments, direct):
    ours, theirs = model(arguments).encode(SCORED), direct.encode(SCORED)
    assert [request.key for request in ours] == [request.key for request in theirs]


@pytest.mark.parametrize(
    "habits",
    [
        {},
        {"scores": "echo", "tokenizes": False},
        {"scores": "echo", "shows_tokens": False, "knows_only_the_interface": True},
        {"scores": "echo", "least_tokens": 1},
    ],
    ids=["all", "counts", "only the interface", "must write"],
)
def test_servers_of_all_habits_conform(small, arguments, direct, habits):
    for name, habit in habits.items():
        setattr(small.habits, name, habit)
    lm = model(arguments)
    assert lm.capabilities.loglikelihood, lm.capabilities.why_not
    report = examine(lm, reference=direct.reference)
    assert report.passed, str(report)
    assert report.of("alignment").verdict == "passed"


def test_texts_are_sent_where_a_server_takes_no_tokens(small, arguments, direct):
    small.habits.takes_tokens = False
    with pytest.raises(ModelError, match="state tokenized_requests=False"):
        model(arguments)
    small.asked.clear()
    lm = model({**arguments, "tokenized_requests": "False"})
    asked = [*SCORED[:2], *SCORED[3:], *WRITTEN]
    assert_same(answers(lm, asked), answers(direct, asked))
    assert all(isinstance(body["prompt"], str) for body in small.asked)


CUT = [
    Request("loglikelihood", LONG, " a table"),
    Request("loglikelihood_rolling", "", LONG),
    Request("generate_until", LONG, generation={"until": [], "max_gen_toks": 7}),
]


@pytest.fixture(scope="module")
def without_bos(tmp_path_factory):
    """A server that puts no BOS before a text; its arguments, and the model itself."""
    folder = served_model.make(tmp_path_factory.mktemp("plain"), adds_bos=False)
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


@pytest.mark.parametrize("request_", CUT, ids=["scored", "whole", "written"])
def test_what_begins_within_a_text_is_not_sent_where_the_server_puts_a_bos(arguments, request_):
    lm = model({**arguments, "tokenized_requests": "False"})
    with pytest.raises(ModelError, match="the server puts a BOS before every text, and this one"):
        lm.encode([request_])


def test_a_whole_text_of_one_window_is_sent_where_the_server_puts_a_bos(arguments, direct):
    short = [Request("loglikelihood_rolling", "", "The following are questions.")]
    lm = model({**arguments, "tokenized_requests": "False"})
    assert_same(answers(lm, short), answers(direct, short))


def test_a_prompt_written_with_bos_has_one_whatever_the_server_adds(small, arguments, direct):
    lm = model({**arguments, "tokenized_requests": "False"})
    asked = [Request("loglikelihood", "<s>Question:", " a table"), SCORED[2]]
    assert_same(answers(lm, asked), answers(direct, asked))
    assert small.asked[-1]["prompt"] in ("Question: a table", " a table")


def test_a_long_prompt_is_cut_to_what_the_server_takes(arguments, direct):
    asked = [CUT[0], CUT[2]]
    found = answers(model(arguments), asked)
    assert_same(found, answers(direct, asked))
    assert all(response.n_truncated for response in found)


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
    def asked(until):
        generation = {"until": until, "max_gen_toks": 9}
        return [Request("generate_until", "Question: Which", generation=generation)]

    free = answers(direct, asked([]))[0].text
    (response,) = answers(model(arguments), asked(["zz", "yy", "xx", "ww", free[3:5]]))
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


def test_no_more_requests_are_under_way_than_are_allowed(small, arguments):
    lm = model({**arguments, "num_concurrent": "3"})
    small.most_at_work = 0
    answers(lm, SCORED * 8)
    assert small.most_at_work == 3


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
    elsewhere = model({**arguments, "base_url": arguments["base_url"] + "?api-version=2"})
    assert elsewhere.info.model_key == first[0].model["model_key"]
    small.habits.window = 100
    assert model(arguments).info.model_key != first[0].model["model_key"]


def test_the_record_says_who_answered(arguments):
    info = model(arguments).info
    said = info.as_json()
    assert said["unpinned"] is True
    assert said["service"]["model"] == "org/tiny"
    assert said["service"]["url"].endswith("/v1/completions")
    assert said["commit"] is None


def test_the_model_is_not_asked_of_a_server_to_see_its_prompts(folder):
    lm = backend_of("local-completions").from_arguments(
        stated("http://127.0.0.1:9", folder), mode="strict", weights=False
    )
    assert lm.encode(SCORED[:1])[0].tokens == direct_of(folder).encode(SCORED[:1])[0].tokens
