"""Models that answer texts: functions, and objects with lm-evaluation-harness's three methods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evalcore.errors import ModelError
from evalcore.journal import Journal
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.fake import DummyLM, FakeLM
from evalcore.model.text_lm import TextLM
from evalcore.record import RunRecord, read_samples
from tests.evalcore.toys import ToyLM, write_toys

SCORED = Request("loglikelihood", "2 + 2 =", " 4")
WHOLE = Request("loglikelihood_rolling", "", "a text")
WRITTEN = Request("generate_until", "2 + 2 =", generation={"until": ["\n"]}, repeats=3)


def answers_of(model, requests):
    encoded = model.encode(requests)
    found = dict(pair for pack in model.answer(encoded) for pair in pack)
    assert [found[index].key for index in range(len(encoded))] == [
        request.key for request in encoded
    ]
    return [found[index] for index in range(len(encoded))]


class Recorded:
    """Answers as lm-evaluation-harness's models do, and notes what it was asked."""

    def __init__(self):
        self.asked = []

    def loglikelihood(self, requests):
        self.asked += [request.args for request in requests]
        return [(-1.5, True) for _ in requests]

    def loglikelihood_rolling(self, requests):
        self.asked += [request.arguments for request in requests]
        return [-7.0 for _ in requests]

    def generate_until(self, requests):
        self.asked += [request.args for request in requests]
        return [f"answer {number}" for number, _ in enumerate(requests)]


def test_an_object_with_the_three_methods_is_asked_what_lm_eval_would_ask():
    recorded = Recorded()
    answers = answers_of(TextLM(recorded), [WRITTEN, SCORED, WHOLE])
    assert [answer.text for answer in answers[:3]] == ["answer 0", "answer 1", "answer 2"]
    assert (answers[3].loglikelihood, answers[3].is_greedy) == (-1.5, True)
    assert answers[4].loglikelihood == -7.0
    assert sorted(map(str, recorded.asked)) == sorted(
        map(str, [("2 + 2 =", " 4"), ("a text",), *[("2 + 2 =", {"until": ["\n"]})] * 3])
    )


def test_two_objects_share_no_answers_unless_they_say_who_they_are():
    one, other = Recorded(), Recorded()
    assert TextLM(one).info.model_key != TextLM(other).info.model_key
    one.model_identity = other.model_identity = "the same service"
    assert TextLM(one).info.model_key == TextLM(other).info.model_key


def test_seeds_and_repeats_of_a_text_have_keys_of_their_own():
    model = FakeLM(lambda *_: "")
    keys = {request.key for seed in (1, 2) for request in model.encode([WRITTEN], seed=seed)}
    assert len(keys) == 6


def test_a_scored_request_has_one_key_whatever_the_seed():
    model = FakeLM(lambda *_: (-1.0, False))
    assert model.encode([SCORED], seed=1)[0].key == model.encode([SCORED], seed=2)[0].key


@pytest.mark.parametrize(
    ("request_", "answer"),
    [(SCORED, -1.0), (SCORED, (float("nan"), True)), (WHOLE, "text"), (WRITTEN, (-1.0, True))],
)
def test_an_answer_of_another_form_is_named(request_, answer):
    with pytest.raises(ModelError, match=f"answer to a {request_.kind} request is"):
        answers_of(FakeLM(lambda *_: answer), [request_])


def test_a_method_that_is_missing_is_named():
    with pytest.raises(ModelError, match="object has no method generate_until"):
        answers_of(TextLM(object()), [WRITTEN])


def test_too_few_answers_are_named():
    model = Recorded()
    model.loglikelihood = lambda requests: []
    with pytest.raises(ModelError, match="gave 0 answers to 1"):
        answers_of(TextLM(model), [SCORED])


def test_the_dummy_draws_by_the_request_alone():
    first, second = (
        [answer.loglikelihood for answer in answers_of(DummyLM(), requests)]
        for requests in ([SCORED, WHOLE], [SCORED, WHOLE])
    )
    assert first == second
    assert all(-1 <= number <= 0 for number in first)
    assert {answer.text for answer in answers_of(DummyLM(), [WRITTEN])} == {"lol"}


def test_an_objects_own_conversations_are_used():
    model = Recorded()
    model.apply_chat_template = lambda turns, add_generation_prompt: (
        turns[0]["content"] + ("!" if add_generation_prompt else "?")
    )
    model.chat_template = lambda name: f"template {name}"
    template = TextLM(model).chat_template("short")
    assert template.render([{"role": "user", "content": "hi"}], True) == "hi!"
    assert (template.text, template.name) == ("template short", "short")
    with pytest.raises(ModelError, match="apply_chat_template"):
        TextLM(Recorded()).chat_template()


def test_the_fakes_conversations_are_those_of_its_template():
    from jinja2 import Environment

    template = FakeLM(lambda *_: "").chat_template()
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    for answer_begins in (True, False):
        written = Environment().from_string(template.text)
        expected = written.render(messages=turns, add_generation_prompt=answer_begins)
        assert template.render(turns, answer_begins) == expected


def test_a_backend_names_its_own_way_to_compute(tmp_path):
    class Reuses(ToyLM):
        def answer(self, requests):
            for pack in super().answer(requests):
                yield [(place, replace(response, path="prefix cache")) for place, response in pack]

    (finished,) = evaluate(
        Reuses(), ["toy_choice"], include_path=write_toys(tmp_path / "toys"),
        use_cache=tmp_path / "journal",
    )  # fmt: skip
    path, samples = finished.write(tmp_path, "it")
    record = RunRecord.read(path)
    assert record.paths == {"prefix cache": record.requests["total"]}
    responses = [sample["responses"] for sample in read_samples(samples)]
    assert {response["path"] for of_row in responses for response in of_row} == {"prefix cache"}
    journal = Journal(tmp_path / "journal", Reuses().info.model_key)
    assert journal[responses[0][0]["key"]].path == "prefix cache"
    journal.close()
