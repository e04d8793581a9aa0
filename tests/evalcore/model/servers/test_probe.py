"""A server that reads or says something else than what is meant is found out before any work."""

from __future__ import annotations

import pytest

from evalcore.errors import ModelError
from evalcore.refusals import refuse_before
from evalcore.settings import Settings
from tests.evalcore.model.servers.conftest import stated
from tests.evalcore.model.servers.test_completions import WRITTEN, answers, model


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


@pytest.mark.parametrize("scores", ["prompt_logprobs", "echo", "none"])
def test_a_server_that_puts_a_bos_before_tokens_is_refused(small, arguments, scores):
    small.habits.scores, small.habits.adds_bos_to_tokens = scores, True
    with pytest.raises(ModelError, match="so it adds or drops some"):
        model(arguments)
    small.habits.counts = False
    can = model(arguments).capabilities
    assert not can.loglikelihood
    assert can.why_not


@pytest.mark.parametrize("tokenizes", [True, False])
@pytest.mark.parametrize("tokenized", ["True", "False"])
def test_a_server_with_another_tokenizer_is_refused(small, arguments, tokenizes, tokenized):
    small.habits.other_tokenizer, small.habits.tokenizes = True, tokenizes
    with pytest.raises(ModelError, match="name the one that it serves") as error:
        model({**arguments, "tokenized_requests": tokenized})
    assert "tokenizer_backend=None" in str(error.value)


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


class _Scores:
    """A task as far as it is looked at before the first request."""

    name = "arc_easy"
    output_type = "multiple_choice"
    python_class = None
    doc_to_image = None
    doc_to_audio = None

    def leaves(self):
        return [self]


SCORES = _Scores()


def test_a_probe_asks_little(small, address, folder):
    model(stated(address, folder))
    assert len(small.asked) < 10
