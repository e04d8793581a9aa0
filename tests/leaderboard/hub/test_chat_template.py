"""Whether a chat template refuses an instruction, told from its text, as transformers finds."""

from __future__ import annotations

from functools import partial

import pytest
from jinja2.exceptions import TemplateError
from transformers import PreTrainedTokenizerFast

from leaderboard.hub.origin import refuses_system
from tests import tiny

TURNS = "{{ '<' + message['role'] + '>' + message['content'] }}"
ALTERNATE = (
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
)
GEMMA_2 = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    f"{{% for message in messages %}}{ALTERNATE}{TURNS}{{% endfor %}}"
)
MISTRAL_1 = f"{{% for message in messages %}}{ALTERNATE}{TURNS}{{% endfor %}}"
ONLY_TWO = (
    "{% for message in messages %}{% if message.role == 'user' %}[INST]{{ message.content }}"
    "{% elif message.role == 'assistant' %}{% generation %}{{ message.content }}"
    "{% endgeneration %}{% else %}{{ raise_exception('Only two roles!') }}{% endif %}{% endfor %}"
)
LLAMA_2 = (
    "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}"
    "{% set told = messages[0]['content'] %}{% else %}{% set rest = messages %}{% endif %}"
    f"{{% for message in rest %}}{ALTERNATE}{{{{ told }}}}{TURNS}{{% endfor %}}"
)
FIRST_ONLY = (
    "{% for message in messages %}{% if message.role == 'system' and not loop.first %}"
    "{{ raise_exception('The system comes first') }}{% endif %}"
    f"{TURNS}{{% endfor %}}"
)
LATER_ONLY = (
    "{% if messages[0].role == 'system' %}{{ messages[0].content }}"
    "{% set messages = messages[1:] %}{% endif %}{% for message in messages %}"
    "{% if message.role == 'system' %}{{ raise_exception('The system comes first') }}{% endif %}"
    f"{TURNS}{{% endfor %}}"
)
PLAIN = f"{{% for message in messages %}}{TURNS}{{% endfor %}}"


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (GEMMA_2, "System role not supported"),
        (MISTRAL_1, "Conversation roles must alternate"),
        (ONLY_TWO, "Only two roles!"),
        (LLAMA_2, ""),
        (FIRST_ONLY, ""),
        (LATER_ONLY, ""),
        (PLAIN, ""),
    ],
    ids=["gemma 2", "mistral 1", "only two", "llama 2", "first only", "later only", "plain"],
)
def test_a_template_refuses_what_its_text_says_that_it_refuses(template: str, says: str) -> None:
    assert refuses_system(template) == says
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tiny.bytes_tokenizer(adds_bos=True))
    turns = [{"role": role, "content": f"by {role}"} for role in ("system", "user")]
    ask = partial(tokenizer.apply_chat_template, turns, chat_template=template, tokenize=False)
    if says:
        with pytest.raises(TemplateError, match=says):
            ask()
    else:
        assert "by system" in ask()


@pytest.mark.parametrize(
    "text",
    [
        "{% if raise_exception",
        "raise_exception" + "{% if a %}" * 5_000 + "{% endif %}" * 5_000,
        "{{ raise_exception(" + "(" * 20_000,
        GEMMA_2 * 1_000,
        "raise_exception {% load of.another.language %}",
    ],
)
def test_of_a_text_that_is_hardly_a_template_nothing_is_said(text: str) -> None:
    assert refuses_system(text) == ""
