"""A model behind TextSynth's interface has the numbers and texts that it has when run directly.

The service itself is never reached: a small server speaks its documented interface.
"""

from __future__ import annotations

import pytest

from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.conformance import examine
from evalcore.model.registry import backend_of
from evalcore.refusals import refuse_before
from evalcore.settings import Settings
from tests.evalcore.model.servers.running import running
from tests.evalcore.model.servers.test_completions import LONG, SCORED, WRITTEN, answers
from tests.evalcore.model.servers.test_probe import SCORES
from tests.evalcore.model.servers.textsynth_server import KEY, SmallTextSynth
from tests.evalcore.toys import write_toys


@pytest.fixture
def server(folder, monkeypatch):
    monkeypatch.setenv("TEXTSYNTH_API_SECRET_KEY", KEY)
    return SmallTextSynth(folder)


@pytest.fixture
def given(server):
    with running(server.application()) as address:
        yield {"engine": "tiny", "base_url": f"{address}/v1", "max_retries": "1"}


def model(given, **how):
    return backend_of("textsynth").from_arguments(given, mode="strict", **how)


def test_numbers_and_texts_are_those_of_the_model_itself(given, direct):
    asked = [*SCORED, *WRITTEN]
    found, expected = answers(model(given), asked), answers(direct, asked)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.loglikelihood == pytest.approx(theirs.loglikelihood, abs=1e-4)
        assert ours.is_greedy == theirs.is_greedy
        assert ours.text == theirs.text


def test_it_conforms(given):
    report = examine(model(given))
    assert report.passed, str(report)


def test_the_likeliest_token_is_the_one_that_may_be_drawn(server, given):
    lm = model(given)
    answers(lm, WRITTEN[:1])
    assert (server.asked[-1]["top_k"], server.asked[-1]["temperature"]) == (1, 1.0)
    drawn = {"until": [], "max_gen_toks": 3, "temperature": 0.7, "top_p": 0.9}
    answers(lm, [Request("generate_until", "2 + 2", generation=drawn, repeats=2)])
    first, second = server.asked[-2:]
    assert "top_k" not in first
    assert first["seed"] != second["seed"]


def test_numbers_that_do_not_add_up_are_refused(server, given):
    server.doubles = True
    with pytest.raises(ModelError, match="one of the two is not what it says"):
        model(given)


@pytest.mark.parametrize("fault", ["shifted", "flags"])
def test_a_server_that_denies_what_it_writes_is_refused(server, given, fault):
    setattr(server.habits, fault, {"shifted": True, "flags": False}[fault])
    with pytest.raises(ModelError, match="is not what it says"):
        model(given)


def test_whole_texts_and_conversations_are_refused_before_the_first_request(given):
    class Rolling(type(SCORES)):
        output_type = "loglikelihood_rolling"

    capabilities = backend_of("textsynth").capabilities
    with pytest.raises(ModelError, match="how likely a whole text is"):
        refuse_before(capabilities, [Rolling()], Settings())
    with pytest.raises(ModelError, match="takes no conversation"):
        refuse_before(capabilities, [SCORES], Settings(apply_chat_template=True))


def test_a_prompt_that_the_service_cut_ends_the_run(given):
    lm = model(given)
    with pytest.raises(ModelError, match="cut a prompt that is too long for the model"):
        answers(lm, [Request("generate_until", LONG, generation={"max_gen_toks": 5})])


def test_bad_beginnings_are_told_in_a_sentence(given, monkeypatch):
    def told(**others):
        with pytest.raises(ModelError) as error:
            model({**given, **others})
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "leave tokenizer_backend and max_length out" in told(max_length="128")
    assert "404" in told(engine="other")
    monkeypatch.setenv("TEXTSYNTH_API_SECRET_KEY", "wrong")
    assert "its key is refused: set the variable TEXTSYNTH_API_SECRET_KEY" in told()
    monkeypatch.delenv("TEXTSYNTH_API_SECRET_KEY")
    assert "needs a key: set the variable TEXTSYNTH_API_SECRET_KEY" in told()


def test_a_run_is_unpinned_counted_and_resumed(server, given, tmp_path):
    write_toys(tmp_path / "tasks")

    def run():
        how = {"include_path": tmp_path / "tasks", "use_cache": tmp_path / "kept"}
        (found,) = evaluate(model(given), ["toy_likely"], mode="strict", **how)
        return found.record

    first, second = run(), run()
    assert first.model["unpinned"] is True
    assert KEY not in str(first)
    assert first.execution["loglikelihood"]["used"]["tokens_read"] > 100
    assert second.requests["journalled"] == second.requests["total"]
    assert second.results == first.results
