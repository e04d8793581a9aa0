"""Models that answer texts: functions, objects with lm-evaluation-harness's three methods, classes
of one's own that the command names; prompts that stay messages until a backend writes them; and
what a backend cannot answer, which is refused before its first request and before it is loaded."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from importlib.metadata import EntryPoint
from typing import get_args

import pytest

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model import own
from evalcore.model.base import ChatTemplate, Conversation, Request, Turn
from evalcore.model.capabilities import Capabilities
from evalcore.model.fake import DummyLM, FakeLM
from evalcore.model.refusals import REFUSALS, Need, refuse
from evalcore.model.registry import backend_of
from evalcore.model.text_lm import TextLM
from evalcore.refusals import KINDS
from evalcore.task.config import OUTPUT_TYPES
from tests import tiny
from tests.evalcore.model.asking import answers_of, run_toys, written_in
from tests.evalcore.peer.test_classes import CLASS, FILE
from tests.evalcore.worlds import capitals

SCORED = Request("loglikelihood", "2 + 2 =", " 4")
WHOLE = Request("loglikelihood_rolling", "", "a text")
WRITTEN = Request("generate_until", "2 + 2 =", generation={"until": ["\n"]}, repeats=3)


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


def test_seeds_and_repeats_of_a_text_have_keys_of_their_own_and_scored_requests_have_one():
    model = FakeLM(lambda *_: "")
    keys = {request.key for seed in (1, 2) for request in model.encode([WRITTEN], seed=seed)}
    assert len(keys) == 6
    assert model.encode([SCORED], seed=1)[0].key == model.encode([SCORED], seed=2)[0].key


@pytest.mark.parametrize(
    ("request_", "answer"),
    [(SCORED, -1.0), (SCORED, (float("nan"), True)), (WHOLE, "text"), (WRITTEN, (-1.0, True))],
)
def test_an_answer_of_another_form_is_named(request_, answer):
    with pytest.raises(ModelError, match=f"answer to a {request_.kind} request is"):
        answers_of(FakeLM(lambda *_: answer), [request_])


def test_what_an_object_lacks_is_named():
    with pytest.raises(ModelError, match="object has no method generate_until"):
        answers_of(TextLM(object()), [WRITTEN])
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


class ChatServer(FakeLM):
    """Is sent messages; texts stand for them in the record and in keys alone."""

    def __init__(self):
        super().__init__(self._reply, identity="server", name="server")
        self.capabilities = dataclasses.replace(
            self.capabilities, loglikelihood=False, rolling=False, chat="messages"
        )
        self.sent = []

    def _reply(self, request, _):
        assert isinstance(request.prompt, Conversation)
        self.sent.append((request.prompt.messages, request.prompt.answer_begins))
        return "It is 1."

    def chat_template(self, name=None):
        return ChatTemplate(text="", name="messages", render=lambda turns, _: json.dumps(turns))


def written(toys, **settings):
    server = ChatServer()
    (finished,) = evaluate(
        server, ["toy_written"], include_path=toys, limit=2, bootstrap_iters=0,
        apply_chat_template=True, **settings,
    )  # fmt: skip
    return server.sent, finished


def test_a_chat_server_is_sent_the_messages(toys):
    sent, finished = written(toys, system_instruction="Be brief.")
    messages, answer_begins = sent[0]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user"]
    assert messages[0]["content"] == "Be brief."
    assert messages[-1]["content"] == "What is the capital of country 0? Number?"
    assert answer_begins
    assert finished.samples[0]["prompt"] == json.dumps(messages)
    assert finished.record.chat["name"] == "messages"
    sent, _ = written(toys, fewshot_as_multiturn=False)
    (message,) = sent[0][0]
    assert message["role"] == "user"
    assert message["content"].count("Number?") == 2


def test_a_conversation_is_asked_as_its_text_is():
    def render(turns, answer_begins):
        return "".join(turn["content"] for turn in turns) + "!" * answer_begins

    template = ChatTemplate(text="T", name=None, render=render)
    said = Conversation((Turn("user", "a "), Turn("assistant", "b")), False, template)
    kept, plain = Request("loglikelihood", said, " c"), Request("loglikelihood", "a b", " c")
    assert kept.context == "a b"
    assert kept.arguments == plain.arguments
    model = FakeLM(lambda *_: (-1.0, False))
    assert model.encode([kept])[0].key == model.encode([plain])[0].key
    assert said == Conversation(said.turns, False, ChatTemplate(text="", name="x", render=render))


MODULE = '''
from evalcore.model.fake import DummyLM


class Protocol:
    """With the protocol, and no way to be made but its own."""

    capabilities = DummyLM.capabilities
    info = property(lambda self: self.inner.info)

    def __init__(self):
        self.inner = DummyLM()

    def encode(self, requests, *, seed=1234):
        return self.inner.encode(requests, seed=seed)

    def answer(self, requests):
        return self.inner.answer(requests)

    def chat_template(self, name=None):
        return self.inner.chat_template(name)


class Backend(DummyLM):
    pass


class LmEvals:
    """With lm-evaluation-harness's methods, or some of them."""

    def __init__(self, likely):
        self.likely = float(likely)
        self.model_identity = f"likes {likely}"

    def loglikelihood(self, requests):
        return [(self.likely - len(request.args[1]), False) for request in requests]


class Forgetful(LmEvals):
    def loglikelihood(self, requests):
        return super().loglikelihood(requests)[:-1]


NO_MODEL = 7
'''


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a module, in which a command is started."""
    (tmp_path / "our_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("our_models", None)


def run(place, toys, *given):
    out = place / "out"
    return run_toys(toys, *given, "--bootstrap_iters", 0, "--output_path", out), out


@pytest.mark.parametrize("name", ["Protocol", "Backend"])
def test_a_class_with_the_protocol_is_evaluated(place, toys, name):
    status, out = run(place, toys, "--model", f"our_models:{name}")
    assert status == 0
    assert written_in(out)[1]


def test_a_class_with_lm_evals_methods_is_evaluated_with_its_arguments(place, toys):
    status, out = run(place, toys, "--model", "our_models:LmEvals", "--model_args", "likely=-2")
    assert status == 0
    record, samples = written_in(out)
    assert record.model["repository"] == "LmEvals"
    for sample in samples:
        for asked, answered in zip(sample["arguments"], sample["responses"], strict=True):
            assert answered["loglikelihood"] == -2 - len(asked["continuation"])


@pytest.mark.peer
def test_lm_evals_own_class_for_transformers_is_evaluated_as_it_is(place, toys):
    """It is a `TemplateLM`, which tokenises by itself; the numbers are those of our own."""
    pytest.importorskip("lm_eval")
    folder = tiny.make(place / "llama", positions=512)
    told = ["--model_args", f"pretrained={folder},dtype=float32", "--device", "cpu"]
    theirs = "lm_eval.models.huggingface:HFLM"
    status, out = run(place, toys, "--model", theirs, "--batch_size", "1", *told)
    assert status == 0
    record, samples = written_in(out)
    out.rename(place / "theirs")
    status, out = run(place, toys, "--model", "hf", *told)
    assert status == 0
    own_record, own_samples = written_in(out)
    assert [row.value for row in record.results] == [row.value for row in own_record.results]
    for sample, same in zip(samples, own_samples, strict=True):
        for answered, expected in zip(sample["responses"], same["responses"], strict=True):
            likely = pytest.approx(expected["loglikelihood"], abs=1e-3)
            assert answered["loglikelihood"] == likely
            assert answered["is_greedy"] == expected["is_greedy"]


def test_a_package_says_by_an_entry_point_which_models_it_brings(place, monkeypatch):
    point = EntryPoint("ours", "our_models:Backend", own.ENTRY_POINTS)
    points = {(own.ENTRY_POINTS, "ours"): [point]}
    monkeypatch.setattr(own, "entry_points", lambda group, name: points.get((group, name), []))
    assert backend_of("ours").__name__ == "Backend"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["no_such_module:Class"], "no_such_module:Class cannot be imported: ModuleNotFoundError"),
        (["our_models:NoSuch"], "our_models:NoSuch cannot be imported: AttributeError"),
        (["our_models:NO_MODEL"], "our_models:NO_MODEL is no model: expected a class with encode,"),
        (["our_models:LmEvals"], "it cannot be made of no arguments: TypeError: .*'likely'"),
        (
            ["our_models:LmEvals", "--model_args", "likely=very"],
            "it cannot be made of .*very.*: ValueError",
        ),
        (["our_modles"], "there are hf, .*a class of your own is module:Class"),
    ],
)
def test_what_is_no_model_is_refused_in_one_sentence(place, toys, given, said, capsys):
    status, _ = run(place, toys, "--model", *given)
    told = capsys.readouterr().err
    assert status == ModelError.exit_code
    assert "Traceback" not in told
    assert re.search(said, told), told


def test_check_model_ends_with_pass_or_fail(place, capsys):
    assert main(["check-model", "--model", "our_models:Backend"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("pass: ")
    stated = ["--model", "our_models:Forgetful", "--model_args", "likely=-1"]
    assert main(["check-model", *stated]) == 1
    told = capsys.readouterr().out
    assert "FAILED     requests and answers  it refuses" in told
    assert told.splitlines()[-1].startswith("fail: ")


# What a backend cannot answer.

NOTHING = Capabilities(
    backend="a stone",
    loglikelihood=False,
    rolling=False,
    generate=False,
    tokens_in=False,
    tokens_out=False,
    prompt_logprobs=False,
    greedy=None,
    chat=None,
    max_length_known=False,
)


class Mute(FakeLM):
    """Says nothing, and what it can be asked is given; nobody may ask it."""

    def __init__(self, **said):
        super().__init__(lambda *_: None)
        self.capabilities = dataclasses.replace(NOTHING, **said)

    def encode(self, requests, *, seed=1234):
        raise AssertionError("it was asked")


class Writes:
    def generate_until(self, requests):
        return ["" for _ in requests]

    def loglikelihood(self, requests):
        raise NotImplementedError


def test_every_need_has_one_sentence_with_backend_and_way_out():
    assert set(KINDS) == set(OUTPUT_TYPES)
    assert {*KINDS.values()} <= {*REFUSALS} == {*get_args(Need)}
    for need, refusal in REFUSALS.items():
        with pytest.raises(ModelError) as refused:
            refuse(NOTHING, {need: ["arc", "mmlu", "race", "boolq"]})
        said = str(refused.value)
        assert "a stone" in said
        assert refusal.way_out in said
        if "{who}" in refusal.sentence:
            assert "arc, mmlu, race and 1 more need" in said
        assert "{" not in said


def test_all_that_lacks_is_said_at_once(toys):
    lacking = Mute(loglikelihood=True)
    with pytest.raises(ModelError) as refused:
        evaluate(
            lacking,
            ["toy_choice", "toy_written", "toy_rolling"],
            include_path=toys,
            apply_chat_template=True,
            forbid_truncation=True,
        )
    said = str(refused.value)
    assert "answers no loglikelihood request" not in said
    for need in ("no loglikelihood_rolling", "no generate_until", "no conversation", "how long"):
        assert need in said


def test_an_object_is_asked_only_what_it_has_methods_for(toys):
    with pytest.raises(ModelError, match="Writes answers no loglikelihood_rolling request"):
        evaluate(Writes(), ["toy_written", "toy_rolling"], include_path=toys)
    (finished,) = evaluate(Writes(), ["toy_written"], include_path=toys)
    assert finished.record.requests["total"] > 0


def test_what_a_task_that_is_a_class_asks_is_refused_when_it_is_known(tmp_path):
    (tmp_path / "code.py").write_text(CLASS.format(rows=capitals(5)))
    (tmp_path / "capitals.yaml").write_text(FILE)
    lacking = Mute(generate=True)
    with pytest.raises(ModelError, match="no loglikelihood request, which the task needs"):
        evaluate(lacking, ["capitals"], include_path=tmp_path)


def test_an_object_that_does_not_say_what_it_can_is_told_to(toys):
    class Unstated:
        info = encode = answer = None

    with pytest.raises(ModelError, match=r"Unstated does not say what it can.*Capabilities"):
        evaluate(Unstated(), ["toy_choice"], include_path=toys)


def test_the_command_refuses_before_it_loads_the_model(toys, monkeypatch, capsys):
    def never(*_, **__):
        raise AssertionError("it was loaded")

    monkeypatch.setattr(DummyLM, "capabilities", dataclasses.replace(NOTHING, backend="dummy"))
    monkeypatch.setattr(DummyLM, "from_arguments", never)
    assert run_toys(toys, "--model", "dummy") == ModelError.exit_code
    assert "dummy answers no loglikelihood request" in capsys.readouterr().err
