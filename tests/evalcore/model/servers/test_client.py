"""Servers that are busy, slow, cut off or broken: asked again, and told whose fault it is."""

from __future__ import annotations

import logging
import time

import pytest

from evalcore.errors import InfraError, ModelError
from evalcore.model.servers.client import Client, Limits, _wait_asked, host_of
from evalcore.model.servers.secret import Secret
from tests.evalcore.model.servers import fault_proxy
from tests.evalcore.model.servers.conftest import stated
from tests.evalcore.model.servers.test_completions import (
    SCORED,
    WRITTEN,
    answers,
    assert_same,
    model,
)

KEY = "sk-nobody-may-read-this"
ASKED = [*SCORED, *WRITTEN]


@pytest.fixture
def through(proxied, folder):
    """A proxy that does no harm yet, and a model behind it."""

    def of(batch_size=None, **others):
        proxy, address = proxied()
        lm = model(stated(address, folder, **others), batch_size=batch_size)
        proxy.times.clear()
        return proxy, lm

    return of


@pytest.mark.parametrize("fault", ["429", "500", "503", "cut", "half", "html"])
def test_a_request_that_failed_is_sent_again(through, direct, fault):
    proxy, lm = through()
    proxy.faults = [fault, fault]
    assert_same(answers(lm, ASKED), answers(direct, ASKED))
    assert lm.execution["loglikelihood"]["retried"] == 2


def test_a_server_that_asks_to_wait_is_left_alone_by_all(through, direct):
    proxy, lm = through(num_concurrent="2")
    proxy.faults, proxy.retry_after = ["429"], "1"
    assert_same(answers(lm, SCORED), answers(direct, SCORED))
    first, last = proxy.times[0], proxy.times[2]
    assert last - first >= 0.95


def test_an_answer_that_takes_too_long_is_asked_for_again(through, direct):
    proxy, lm = through(timeout="1")
    proxy.faults = ["slow"]
    assert_same(answers(lm, SCORED[:1]), answers(direct, SCORED[:1]))
    proxy.always = "slow"
    with pytest.raises(InfraError, match=r"gave no answer in 1 s \(3 times\)"):
        answers(lm, SCORED[:1])


@pytest.mark.parametrize("batch_size", [2, 5])
def test_choices_are_put_in_their_order(through, direct, batch_size):
    proxy, lm = through(batch_size=batch_size)
    proxy.always = fault_proxy.reordered
    assert_same(answers(lm, ASKED), answers(direct, ASKED))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (fault_proxy.without_a_choice, r"choices for \d prompts"),
        (fault_proxy.of_another_prompt, "of other tokens than those|tokens, and .* were"),
        (lambda _: [], "it is no JSON object"),
        (lambda answer: {**answer, "choices": "none"}, "it has no choices"),
        ("html", "is no JSON"),
    ],
)
def test_answers_of_another_form_are_the_servers_fault(through, fault, told):
    proxy, lm = through(batch_size=5)
    proxy.always = fault
    with pytest.raises(ModelError, match=told) as error:
        answers(lm, SCORED)
    assert "(3 times)" in str(error.value)


@pytest.mark.parametrize("fault", ["429", "500", "cut"])
def test_what_never_goes_well_is_no_fault_of_the_model(through, fault):
    proxy, lm = through()
    proxy.always = fault
    with pytest.raises(InfraError, match=r"\(3 times\)"):
        answers(lm, SCORED)


def test_a_server_that_wants_to_wait_for_an_hour_is_not_waited_for(through):
    proxy, lm = through()
    proxy.always, proxy.retry_after = "429", "3600"
    began = time.monotonic()
    with pytest.raises(InfraError, match="asks to wait 3600 s"):
        answers(lm, SCORED)
    assert time.monotonic() - began < 5


def test_what_was_answered_before_it_failed_is_handed_out(through):
    proxy, lm = through(num_concurrent="1")
    encoded, kept = lm.encode(SCORED), []
    for times, pack in enumerate(lm.answer(encoded[:3])):
        assert times < 3
        kept += pack
    assert len(kept) == 3
    proxy.faults = [lambda answer: answer] * 2
    proxy.always = "500"
    pending = lm.answer(encoded)
    kept += [answered for pack in (next(pending), next(pending)) for answered in pack]
    with pytest.raises(InfraError):
        next(pending)
    assert len(kept) == 5


def test_who_stops_reading_ends_what_is_under_way(through):
    proxy, lm = through()
    proxy.faults = [lambda answer: answer]
    proxy.always = "slow"
    began = time.monotonic()
    pending = lm.answer(lm.encode(SCORED))
    next(pending)
    pending.close()
    assert time.monotonic() - began < 3


def test_requests_under_way_are_bounded_while_some_are_sent_again(through):
    proxy, lm = through(num_concurrent="2")
    proxy.faults = ["500"] * 5
    proxy.most_at_work = 0
    lm._service.client.limits = Limits(num_concurrent=2, max_retries=9)
    answers(lm, SCORED * 4)
    assert proxy.most_at_work == 2


def test_bad_beginnings_are_told_before_work_begins(small, address, folder, monkeypatch):
    def told(kind, **others):
        with pytest.raises(kind) as error:
            model(stated(address, folder, **others))
        assert "\n" not in str(error.value)
        return str(error.value)

    down = told(InfraError, base_url="http://127.0.0.1:9/v1/completions")
    assert "cannot be reached: start the server, or correct base_url: " in down
    wrong = told(ModelError, model="org/tny")
    assert "has no model 'org/tny' (did you mean org/tiny?): it has org/tiny" in wrong
    assert "expected at most 128" in told(ModelError, max_length="4096")
    small.habits.window = None
    assert "state max_length" in told(ModelError)
    small.habits.key = KEY
    assert "it wants a key: set the variable OPENAI_API_KEY" in told(ModelError)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    refused = told(ModelError)
    assert "its key is refused: set the variable OPENAI_API_KEY" in refused
    assert "sk-wrong" not in refused
    monkeypatch.setenv("OPENAI_API_KEY", "sk with spaces\ninside")
    assert "spaces\ninside" not in told(ModelError)


def test_nobody_reads_the_key(small, address, folder, monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    small.habits.key = KEY
    lm = model(stated(address, folder))
    answers(lm, ASKED)
    assert small.headers[-1]["authorization"] == f"Bearer {KEY}"
    small.habits.key = "another"
    with pytest.raises(ModelError) as error:
        answers(lm, SCORED)
    assert "[key]" in str(error.value)
    said = [str(error.value), repr(error.value), repr(lm._service), repr(lm._service.client)]
    said += [str(lm.info), str(lm.info.as_json()), str(lm.execution), caplog.text]
    said += [str(vars(lm)), *capfd.readouterr()]
    assert [text for text in said if KEY in text] == []


def test_how_long_a_server_asks_to_wait():
    assert _wait_asked("2.5") == 2.5
    assert _wait_asked("-1") == 0
    assert _wait_asked("soon") == 0
    assert 3e8 < _wait_asked("Wed, 21 Oct 2099 07:28:00 GMT") < 3e9
    assert _wait_asked("Wed, 21 Oct 2015 07:28:00 GMT") == 0


def test_an_address_is_told_without_its_secrets():
    assert (
        host_of("https://ada:pw@x.org:8/v1/completions?sig=1") == "https://x.org:8/v1/completions"
    )
    client = Client(Limits(), Secret("X", KEY), headers={"X-Team": KEY})
    assert KEY not in repr(client)
