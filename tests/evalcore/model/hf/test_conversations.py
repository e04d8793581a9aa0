"""Conversations in a model's own words: what its chat templates write of them, and leave out."""

from __future__ import annotations

import json

import pytest

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from tests import tiny
from tests.evalcore.model.asking import load, run_toys, written_in

SHORT = "{{ messages[-1].content }}"
REFUSES_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system turn') }}{% endif %}"
    + tiny.CHAT
)
SYSTEM = {"role": "system", "content": "Be brief."}
QUESTION = {"role": "user", "content": "Which?"}
BEGUN = {"role": "assistant", "content": "The answer is"}


def template_of(folder, template, name=None, *, mode="compat", **arguments):
    tiny.make(folder, chat_template=template)
    return load(folder, mode=mode, **arguments).chat_template(name)


def test_a_prompt_ends_where_the_answer_begins_or_within_it(tmp_path):
    template = template_of(tmp_path / "a", tiny.CHAT)
    assert template.render([SYSTEM, QUESTION], True) == (
        "<|system|>Be brief.\n<|user|>Which?\n<|assistant|>"
    )
    assert template.render([QUESTION, BEGUN], False) == (
        "<|user|>Which?\n<|assistant|>The answer is"
    )
    assert (template.name, template.digest) == (None, digest_of(tiny.CHAT))
    text = "{{ 'thinks' if enable_thinking else 'answers' }} {{ style }}"
    stated = {"enable_thinking": "False", "chat_template_args": '{"style": "briefly"}'}
    template = template_of(tmp_path / "b", text, **stated)
    assert template.render([QUESTION], True) == "answers briefly"


LEAVES_SYSTEM_OUT = tiny.CHAT.replace("in messages", "in messages if message.role != 'system'")
TRIMS = tiny.CHAT.replace("message.content", "message.content | trim")
LAST_ALONE = tiny.CHAT.replace("in messages", "in messages[-1:]")
IN_LAST_QUESTION = """{% for message in messages if message.role != 'system' %}
<|{{ message.role }}|>
{%- if loop.last and messages[0].role == 'system' %}{{ messages[0].content }} {% endif %}
{{- message.content }}
{% endfor %}"""
SHORTENS = tiny.CHAT.replace("message.content", "message.content[:5]")
OF_PARTS = tiny.CHAT.replace("message.content", "message.content[0].text")
LOOPS_OVER_PARTS = tiny.CHAT.replace(
    "{{ message.content }}", "{% for part in message.content %}{{ part.text }}{% endfor %}"
)
EARLIER = {"role": "assistant", "content": "A"}


@pytest.mark.parametrize("template", [REFUSES_SYSTEM, LEAVES_SYSTEM_OUT])
def test_a_system_turn_that_is_not_written_is_counted_in_compat_and_refused_in_strict(
    tmp_path, template
):
    folder = tiny.make(tmp_path, chat_template=template)
    compat, strict = (load(folder, mode=mode).chat_template() for mode in ("compat", "strict"))
    for each in (compat, strict):
        assert each.render([QUESTION], True) == "<|user|>Which?\n<|assistant|>"
    assert compat.render([SYSTEM, QUESTION], True) == "<|user|>Which?\n<|assistant|>"
    assert compat.left_out() == {"system": 1}
    with pytest.raises(ModelError, match=r"'Be brief\.'"):
        strict.render([SYSTEM, QUESTION], True)


@pytest.mark.parametrize("mode", ["compat", "strict"])
@pytest.mark.parametrize("template", [TRIMS, IN_LAST_QUESTION, OF_PARTS, LOOPS_OVER_PARTS])
def test_a_template_may_write_all_turns_in_its_own_way(tmp_path, template, mode):
    writer = template_of(tmp_path, template, mode=mode)
    answered = [SYSTEM, QUESTION, EARLIER, {**QUESTION, "content": " Really? "}]
    written = writer.render(answered, True)
    assert all(turn["content"].strip() in written for turn in answered)
    assert writer.left_out() == {}
    assert writer.reads_parts() == (template in (OF_PARTS, LOOPS_OVER_PARTS))
    assert writer.render([QUESTION, BEGUN], False).endswith("The answer is")


@pytest.mark.parametrize(
    ("template", "roles"), [(LAST_ALONE, {"user", "assistant"}), (SHORTENS, {"user"})]
)
def test_words_that_a_template_drops_are_counted_in_compat_and_refused_in_strict(
    tmp_path, template, roles
):
    """An answer of one letter may stand in a prompt by chance."""
    folder = tiny.make(tmp_path, chat_template=template)
    turns = [QUESTION, EARLIER, {**QUESTION, "content": "Are you sure?"}]
    compat = load(folder).chat_template()
    compat.render(turns, True)
    assert roles <= set(compat.left_out())
    with pytest.raises(ModelError, match="does not write what the user says"):
        load(folder, mode="strict").chat_template().render(turns, True)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (LEAVES_SYSTEM_OUT, "does not write what the system says"),
        (LOOPS_OVER_PARTS, "reads lists of parts, and was given them"),
    ],
)
def test_a_run_says_what_its_template_does_not_write(toys, tmp_path, capsys, template, said):
    folder = tiny.make(tmp_path / "model", chat_template=template)
    stated = ("--model_args", f"pretrained={folder},dtype=float32", "--limit", 2)
    told = ("--apply_chat_template", "--system_instruction", "Be brief.")
    assert run_toys(toys, *stated, *told, "--output_path", tmp_path / "out") == 0
    shown = capsys.readouterr()
    assert said in shown.out + shown.err
    record, _ = written_in(tmp_path / "out")
    (results,) = (tmp_path / "out").rglob("results_*.json")
    without = record.chat["without_system"]
    assert bool(without) == (template == LEAVES_SYSTEM_OUT)
    found = json.loads(results.read_text()).get("not_in_prompts")
    assert found == ({"system": without} if without else None)


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_a_template_that_refuses_all_conversations_is_said_to(tmp_path, mode):
    refuses = template_of(tmp_path / "all", "{{ raise_exception('users only') }}", mode=mode)
    for turns in ([SYSTEM, QUESTION], [QUESTION]):
        with pytest.raises(ModelError, match="users only"):
            refuses.render(turns, True)


def test_a_named_template_writes_in_strict_and_the_default_one_in_compat(tmp_path):
    """lm-evaluation-harness looks the name up, and writes with the default template."""
    several = {"default": tiny.CHAT, "short": SHORT}
    compat = template_of(tmp_path / "a", several, "short")
    strict = template_of(tmp_path / "b", several, "short", mode="strict")
    assert (compat.text, compat.name) == (tiny.CHAT, None)
    assert compat.render([QUESTION], True) == "<|user|>Which?\n<|assistant|>"
    assert (strict.text, strict.name) == (SHORT, "short")
    assert strict.render([QUESTION], True) == "Which?"


@pytest.mark.parametrize(
    ("template", "name", "said"),
    [
        (None, None, "has no chat template: leave apply_chat_template out"),
        ({"default": tiny.CHAT, "short": SHORT}, "long", "'long': there are default, short"),
        ({"long": tiny.CHAT, "short": SHORT}, None, "name one of long, short"),
        (tiny.CHAT, "short", "has one chat template, without a name; 'short' is none"),
    ],
    ids=["none", "another", "no default", "without a name"],
)
def test_a_template_that_is_not_there_is_named_with_those_that_are(tmp_path, template, name, said):
    with pytest.raises(ModelError) as refused:
        template_of(tmp_path, template, name, mode="strict")
    assert said in str(refused.value)
