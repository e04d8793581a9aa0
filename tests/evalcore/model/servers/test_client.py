"""Servers that are busy, slow, cut off or broken: asked again, and told whose fault it is; and a
run ends before it uses more requests, tokens or money than it may."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import pytest

from evalcore.cli import main
from evalcore.errors import InfraError, ModelError
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.servers.budget import Use, most_of, prices_of, use_of
from evalcore.model.servers.client import Client, Limits, _wait_asked, host_of
from evalcore.model.servers.secret import Secret
from tests.evalcore.model.asking import refusal_of
from tests.evalcore.model.servers import small_server
from tests.evalcore.model.servers.asking import (
    SCORED,
    WRITTEN,
    answers,
    assert_same,
    model,
)
from tests.evalcore.model.servers.conftest import stated
from tests.evalcore.toys import write_toys

KEY = "sk-nobody-may-read-this"
ASKED = [*SCORED[:2], SCORED[4], WRITTEN[2]]


@pytest.fixture
def through(proxied, folder):
    """A proxy that does no harm yet, and a model behind it."""

    def of(batch_size=None, **others):
        proxy, address = proxied()
        lm = model(stated(address, folder, **others), batch_size=batch_size)
        proxy.times.clear()
        return proxy, lm

    return of


@pytest.fixture(scope="module")
def expected(direct):
    """What the model itself says to what is asked."""
    return answers(direct, ASKED)


@pytest.mark.parametrize("fault", ["429", "500", "cut", "half", "html"])
def test_a_request_that_failed_is_sent_again(through, expected, fault):
    """What never goes well is no fault of the model, unless its answers are of another form."""
    proxy, lm = through()
    proxy.faults = [fault, fault]
    assert_same(answers(lm, ASKED), expected)
    assert lm.execution["loglikelihood"]["retried"] == 2
    proxy.always = fault
    whose = ModelError if fault in ("half", "html") else InfraError
    with pytest.raises(whose, match=r"\(3 times\)"):
        answers(lm, SCORED)


def test_a_server_that_asks_to_wait_is_left_alone_by_all(through, expected):
    proxy, lm = through(num_concurrent="2")
    proxy.faults, proxy.retry_after = ["429"], "1"
    assert_same(answers(lm, ASKED), expected)
    first, last = proxy.times[0], proxy.times[2]
    assert last - first >= 0.95
    proxy.always, proxy.retry_after = "429", "3600"
    with pytest.raises(InfraError, match="asks to wait 3600 s"):
        answers(lm, SCORED)


def test_a_server_may_name_the_time_without_a_zone_or_none_that_exists(through, expected):
    proxy, lm = through()
    for moment in (
        f"{datetime.now(UTC) + timedelta(seconds=2):%a, %d %b %Y %H:%M:%S}",
        "Sun, 06 Nov 1994 08:49:37 -0000",
        "Sun, 06 Nov 99999999999999999999 08:49:37 GMT",
        "soon",
    ):
        proxy.faults, proxy.retry_after = ["429"], moment
        assert_same(answers(lm, ASKED), expected)


def test_an_answer_that_takes_too_long_is_asked_for_again(through, expected):
    proxy, lm = through(timeout="3")
    proxy.faults = ["slow"]
    assert_same(answers(lm, ASKED[:1]), expected[:1])
    proxy.always = "slow"
    lm._service.client.limits = Limits(max_retries=2, timeout=0.1)
    with pytest.raises(InfraError, match=r"gave no answer in 0.1 s \(3 times\)"):
        answers(lm, SCORED[:1])


def test_choices_are_put_in_their_order(through, expected):
    proxy, lm = through(batch_size=5)
    proxy.always = small_server.reordered
    assert_same(answers(lm, ASKED), expected)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (small_server.without_a_choice, r"choices for \d prompts"),
        (small_server.of_another_prompt, "of other tokens than those|tokens, and .* were"),
        (lambda _: [], "it is no JSON object"),
        (lambda answer: {**answer, "choices": "none"}, "it has no choices"),
        ("html", "is no JSON"),
    ],
    ids=["a choice missing", "another prompt", "no object", "no choices", "no JSON"],
)
def test_answers_of_another_form_are_the_servers_fault(through, fault, told):
    proxy, lm = through(batch_size=5)
    proxy.always = fault
    with pytest.raises(ModelError, match=told) as error:
        answers(lm, SCORED)
    assert "(3 times)" in str(error.value)


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
    """Which would be answered in ten minutes."""
    proxy, lm = through()
    proxy.faults = [lambda answer: answer]
    proxy.always = "slow"
    pending = lm.answer(lm.encode(SCORED))
    next(pending)
    answered = proxy.answered
    pending.close()
    assert proxy.answered == answered


def test_requests_under_way_are_bounded_while_some_are_sent_again(through):
    proxy, lm = through(num_concurrent="2")
    proxy.faults = ["500"] * 5
    proxy.most_at_work = 0
    lm._service.client.limits = Limits(num_concurrent=2, max_retries=9)
    answers(lm, SCORED * 2)
    assert proxy.most_at_work == 2


def test_bad_beginnings_are_told_before_work_begins(small, address, folder, monkeypatch):
    def told(kind=ModelError, **others):
        return refusal_of(lambda: model(stated(address, folder, **others)), kind)

    down = told(InfraError, base_url="http://127.0.0.1:9/v1/completions")
    assert "cannot be reached: start the server, or correct base_url: " in down
    wrong = told(model="org/tny")
    assert "has no model 'org/tny' (did you mean org/tiny?): it has org/tiny" in wrong
    assert "expected at most 128" in told(max_length="4096")
    small.habits.window = None
    assert "state max_length" in told()
    small.habits.key = KEY
    assert "it wants a key: set the variable OPENAI_API_KEY" in told()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    refused = told()
    assert "its key is refused: set the variable OPENAI_API_KEY" in refused
    assert "sk-wrong" not in refused
    monkeypatch.setenv("OPENAI_API_KEY", "sk with spaces\ninside")
    assert "spaces\ninside" not in told()


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
    address = "https://ada:pw@x.org:8/v1/completions?sig=1"
    assert host_of(address) == "https://x.org:8/v1/completions"
    assert KEY not in repr(Client(Limits(), Secret("X", KEY), headers={"X-Team": KEY}))


def test_how_long_a_server_asks_to_wait():
    assert _wait_asked("2.5") == 2.5
    assert _wait_asked("-1") == 0
    assert _wait_asked("soon") == 0
    assert 3e8 < _wait_asked("Wed, 21 Oct 2099 07:28:00 GMT") < 3e9
    assert _wait_asked("Wed, 21 Oct 2015 07:28:00 GMT") == 0


# What a run may use.

PRICES = "currency: USD\nmodels:\n  org/tiny: {input: 1000, output: 5000}\n"


@pytest.fixture
def prices(tmp_path):
    file = tmp_path / "prices.yaml"
    file.write_text(PRICES)
    return str(file)


def used(lm):
    found = lm.execution["generate_until"]["used"]
    return {**found, "tokens": found["tokens_read"] + found["tokens_written"]}


def test_what_a_run_used_is_what_the_server_says(small, arguments, prices):
    lm = model({**arguments, "prices": prices})
    answers(lm, SCORED)
    read = sum(len(small._tokens_of(body["prompt"])) for body in small.asked)
    written = sum(body["max_tokens"] for body in small.asked)
    said = used(lm)
    assert said["requests"] == len(small.asked)
    assert (said["tokens_read"], said["tokens_written"]) == (read, written)
    assert said["cost"] == pytest.approx((read * 1000 + written * 5000) / 1e6)
    assert said["currency"] == "USD"


@pytest.mark.parametrize(
    ("limit", "what", "concurrent"),
    [
        ("max_requests", "requests", "7"),
        ("max_total_tokens", "tokens", "7"),
        ("max_cost", "cost", "1"),
        ("max_cost", "cost", "7"),
    ],
)
def test_no_limit_is_ever_exceeded(small, arguments, prices, limit, what, concurrent):
    given = {**arguments, "prices": prices, "num_concurrent": concurrent}
    free = model(given)
    before = used(free)
    answers(free, SCORED * 3)
    middle = (before[what] + used(free)[what]) / 2
    allowed = middle if what == "cost" else int(middle)
    lm = model({**given, limit: str(allowed)})
    small.asked.clear()
    encoded, kept = lm.encode(SCORED * 3), []

    def keep():
        for pack in lm.answer(encoded):
            kept.extend(pack)

    with pytest.raises(ModelError, match=f"{limit} .* would be exceeded"):
        keep()
    assert before[what] < used(lm)[what] <= allowed
    assert len(kept) == len(small.asked) > 0


def test_a_run_that_ended_goes_on_where_it_was(small, arguments, tmp_path):
    write_toys(tmp_path / "tasks")
    how = {"include_path": tmp_path / "tasks", "use_cache": tmp_path / "kept", "mode": "strict"}
    with pytest.raises(ModelError, match="raise the limit, and run the same command again"):
        evaluate(model({**arguments, "max_requests": "14"}), ["toy_likely"], **how)
    assert len(small.asked) == 14
    (evaluation,) = evaluate(model(arguments), ["toy_likely"], **how)
    assert evaluation.record.requests["journalled"] > 0


def test_answers_without_usage_count_as_the_most_that_they_can(small, arguments):
    small.habits.counts = False
    lm = model(arguments)
    before = used(lm)["tokens_written"]
    answers(lm, [Request("generate_until", "2 +", generation={"until": ["e"], "max_gen_toks": 9})])
    assert used(lm)["tokens_written"] == before + 9


def test_a_request_is_estimated_from_above():
    assert most_of({"prompt": [1, 2, 3], "max_tokens": 4}) == Use(1, 3, 4)
    assert most_of({"prompt": [[1], [2, 3]], "max_tokens": 4}) == Use(1, 3, 8)
    assert most_of({"prompt": "été", "max_tokens": 1}) == Use(1, 6, 1)
    talk = {"messages": [{"role": "user", "content": "été"}], "max_completion_tokens": 2}
    assert most_of(talk).read >= 6
    assert most_of(talk).written == 2
    assert use_of({"usage": {"prompt_tokens": 5}}, Use(1, 9, 3)) == Use(1, 5, 3)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("models: {}", "expected `currency: USD` and `models:`"),
        ("[1", "cannot be read"),
        ("currency: USD\nmodels: {org/tine: {input: 1, output: 1}}", "did you mean org/tine?"),
        ("currency: USD\nmodels: {org/tiny: {input: 1}}", "got None"),
        ("currency: USD\nmodels: {org/tiny: {input: -1, output: 1}}", "got -1"),
    ],
    ids=["no currency", "no YAML", "another model", "no output", "below 0"],
)
def test_prices_that_are_none_are_told_by_file_and_key(tmp_path, text, told):
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    said = refusal_of(lambda: prices_of(str(file), "org/tiny"))
    assert str(file) in said
    assert told in said


def test_the_command_takes_the_limit(address, folder, prices, tmp_path, capsys):
    write_toys(tmp_path / "tasks")
    told = ",".join(f"{name}={value}" for name, value in stated(address, folder).items())
    tasks = ["--tasks", "toy_likely", "--include_path", str(tmp_path / "tasks")]
    command = ["run", *tasks, "--mode", "strict", "--model"]
    served = ["local-completions", "--model_args", told, "--max_cost"]
    here = ["hf", "--model_args", f"pretrained={folder}", "--max_cost", "5"]
    for more, status, said in (
        ([*served, "1e-9", "--prices", prices], 10, "max_cost 1e-09 would be exceeded"),
        ([*served, "5"], 10, "give a file of prices (--prices FILE)"),
        ([*served, "5", "--prices", prices], 0, ""),
        ([*served, "none", "--prices", prices], 2, "expected a number above 0, got 'none'"),
        (here, 10, "a model that is run here has no price"),
    ):
        assert main([*command, *more]) == status
        assert said in capsys.readouterr().err
