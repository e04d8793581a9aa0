"""A model that is two processes says what one says, and ends as one ends."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import Pipe

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.errors import InfraError, ModelError
from evalcore.model.base import EncodedRequest, Request
from evalcore.model.hf.choice import HuggingFace
from evalcore.model.parallel.messages import Loaded, Loading
from evalcore.model.parallel.replicas import Member, Replica, Replicas, replicas_of
from evalcore.model.parallel.shares import LEAST, shares_of
from tests import tiny

SECONDS_TO_END = 20.0


def loading_of(folder, **more):
    stated = {"pretrained": str(folder), "dtype": "float32", **more}
    return Loading(backend="hf", arguments=stated, batch_size=None, device="cpu", mode="compat")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("model") / "llama", positions=1024)


@pytest.fixture(scope="module")
def two(folder) -> Replicas:
    return replicas_of(loading_of(folder), ["cpu", "cpu"])


@pytest.fixture(scope="module")
def one(folder):
    return HuggingFace.from_arguments({"pretrained": str(folder), "dtype": "float32"}, device="cpu")


def requests(number: int) -> list[Request]:
    """Many enough that each copy has several shares: choices after long contexts, and texts."""
    beginning = "A river is longer than a table, and made of water. " * 8
    asked = [
        Request("loglikelihood", f"{beginning}Question {place // 4}: which is it?\nAnswer:", end)
        for place in range(number)
        for end in [(" wood", " water", " a table", " a river that is long")[place % 4]]
    ]
    texts = [
        Request("generate_until", f"{beginning}{place}.", generation={"max_gen_toks": 8})
        for place in range(12)
    ]
    return [*asked, Request("loglikelihood_rolling", "", beginning * 3), *texts]


def answers_of(model, encoded: Sequence[EncodedRequest]):
    given = [answer for pack in model.answer(encoded) for answer in pack]
    found = dict(given)
    assert sorted(place for place, _ in given) == list(range(len(encoded)))
    return [found[place] for place in range(len(encoded))]


def check_equal(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.key == theirs.key
        assert ours.loglikelihood == pytest.approx(theirs.loglikelihood, abs=1e-4)
        assert ours.is_greedy == theirs.is_greedy
        assert ours.token_ids == theirs.token_ids
        assert (ours.text, ours.finish_reason) == (theirs.text, theirs.finish_reason)


def test_two_processes_say_what_one_says_under_the_same_keys(two, one):
    assert two.info.model_key == one.info.model_key
    encoded = two.encode(requests(400))
    assert [request.key for request in encoded] == [r.key for r in one.encode(requests(400))]
    assert len(list(shares_of(encoded, 2))) > 4  # so that each copy has more than one
    check_equal(answers_of(two, encoded), answers_of(one, encoded))
    assert two.first_forward is not None
    assert two.execution["loglikelihood"]["copies"] == 2
    assert two.execution["loglikelihood"]["path"] == one.execution["loglikelihood"]["path"]


def test_who_stops_reading_answers_can_ask_again(two, one):
    encoded = two.encode(requests(200))
    for _ in two.answer(encoded):
        break
    other = two.encode(requests(60))[::-1]
    check_equal(answers_of(two, other), answers_of(one, other))


def test_what_a_copy_refuses_is_said_as_by_one_process_and_it_goes_on(two, one):
    too_high = EncodedRequest.scoring([5, 10**6, 7], [7])
    with pytest.raises(ModelError, match="fails when it is computed"):
        answers_of(two, [too_high])
    encoded = two.encode(requests(8))
    check_equal(answers_of(two, encoded), answers_of(one, encoded))


def test_a_copy_that_is_killed_is_named_and_the_others_end_with_who_asked(folder):
    model = replicas_of(loading_of(folder), ["cpu", "cpu"])
    first, second = (replica.members[0].process for replica in model._replicas)
    assert first is not None
    assert second is not None
    second.send_signal(signal.SIGKILL)
    with pytest.raises(
        InfraError, match=r"copy 2 of 2 of the model, on cpu, ended by signal 9.*--use_cache"
    ):
        answers_of(model, model.encode(requests(40)))
    for replica in model._replicas:
        replica.members[0].connection.close()  # as the system does for a process that is killed
    assert first.wait(SECONDS_TO_END) == 0


def test_a_model_that_no_copy_can_load_is_refused_as_by_one_process(tmp_path):
    with pytest.raises(ModelError, match="no-such-model at main is no model ID"):
        replicas_of(loading_of(tmp_path / "no-such-model"), ["cpu", "cpu"])


def test_copies_of_two_models_are_no_model(folder, one):
    """As where a repository's branch moved while they were loaded."""
    other = replace(one.info, commit="of another day")
    replicas = []
    for info in (one.info, other):
        ours, theirs = Pipe()
        theirs.send(Loaded(info, ()))
        replicas.append(Replica([Member("a copy", ours, None)]))
    with pytest.raises(InfraError, match="changed while its copies were loaded"):
        Replicas(one, replicas, loading_of(folder))


costs = st.lists(st.integers(1, 3 * LEAST), max_size=40)


@given(costs=costs, copies=st.integers(1, 8))
def test_shares_are_all_requests_once_in_order_and_none_is_empty(costs, copies):
    asked = [EncodedRequest(key=str(place), tokens=(0,) * cost) for place, cost in enumerate(costs)]
    shares = list(shares_of(asked, copies))
    assert [place for share in shares for place in share] == list(range(len(asked)))
    assert all(shares)
    assert len(shares) <= 4 * copies + 1
