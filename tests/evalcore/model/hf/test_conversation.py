"""Conversations in a model's own words."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from tests import tiny, warm
from tests.evalcore.toys import write_toys
from tests.hub import ROOT, client_environment, serve

SHORT = "{{ messages[-1].content }}"
REFUSES_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system turn') }}{% endif %}"
    + tiny.CHAT
)
SYSTEM = {"role": "system", "content": "Be brief."}
QUESTION = {"role": "user", "content": "Which?"}
BEGUN = {"role": "assistant", "content": "The answer is"}


def model_with(folder, template, *, mode="compat", **arguments):
    tiny.make(folder, chat_template=template)
    stated = Arguments.of({"pretrained": str(folder), "dtype": "float32", **arguments})
    return HuggingFaceLM(stated, device="cpu", mode=mode)


def test_a_prompt_ends_where_the_answer_begins_or_within_it(tmp_path):
    template = model_with(tmp_path, tiny.CHAT).chat_template()
    assert template.render([SYSTEM, QUESTION], True) == (
        "<|system|>Be brief.\n<|user|>Which?\n<|assistant|>"
    )
    assert template.render([QUESTION, BEGUN], False) == (
        "<|user|>Which?\n<|assistant|>The answer is"
    )
    assert (template.name, template.digest) == (None, digest_of(tiny.CHAT))


@pytest.mark.parametrize("mode", ["compat", "strict"])
def test_a_system_turn_that_the_template_refuses_is_left_out_and_counted(tmp_path, mode):
    template = model_with(tmp_path, REFUSES_SYSTEM, mode=mode).chat_template()
    assert template.render([SYSTEM, QUESTION], True) == "<|user|>Which?\n<|assistant|>"
    assert template.render([QUESTION], True) == "<|user|>Which?\n<|assistant|>"
    assert template.without_system() == 1


def test_a_named_template_writes_in_strict_and_the_default_one_in_compat(tmp_path):
    """lm-evaluation-harness looks the name up, and writes with the default template."""
    several = {"default": tiny.CHAT, "short": SHORT}
    compat = model_with(tmp_path / "a", several).chat_template("short")
    strict = model_with(tmp_path / "b", several, mode="strict").chat_template("short")
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
)
def test_a_template_that_is_not_there_is_named_with_those_that_are(tmp_path, template, name, said):
    with pytest.raises(ModelError) as refused:
        model_with(tmp_path, template, mode="strict").chat_template(name)
    assert said in str(refused.value)


def test_the_model_arguments_reach_the_template(tmp_path):
    template = "{{ 'thinks' if enable_thinking else 'answers' }} {{ style }}"
    model = model_with(
        tmp_path,
        template,
        enable_thinking="False",
        chat_template_args='{"style": "briefly"}',
    )
    assert model.chat_template().render([QUESTION], True) == "answers briefly"


def test_a_template_that_refuses_every_conversation_is_the_models_fault(tmp_path):
    broken = "{{ raise_exception('users only') }}"
    template = model_with(tmp_path, broken).chat_template()
    for turns in ([SYSTEM, QUESTION], [QUESTION]):
        with pytest.raises(ModelError, match="users only"):
            template.render(turns, True)


RUNS = """
import sys
from evalcore.cli import main
for line in sys.argv[1:]:
    print(main(line.split()))
"""


def test_named_templates_come_from_the_hub_and_the_record_has_the_one_that_wrote(tmp_path):
    """As files of their own, and as the list in tokenizer_config.json; by the real command."""
    several = {"default": tiny.CHAT, "short": SHORT}
    models = tmp_path / "hub" / "models" / "chatty"
    files = tiny.make(models / "files", chat_template=several)
    assert (files / "additional_chat_templates" / "short.jinja").is_file()
    listed = tiny.make(models / "listed")
    config = listed / "tokenizer_config.json"
    templates = [{"name": name, "template": text} for name, text in several.items()]
    config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": templates}))
    tiny.make(models / "none")
    toys = write_toys(tmp_path / "toys")

    def asked(model, mode, name):
        out = tmp_path / f"{model}-{mode}-{name}"
        return out, (
            f"run --model hf --model_args pretrained=chatty/{model},dtype=float32 --limit 2 "
            f"--tasks toy_choice --include_path {toys} --bootstrap_iters 0 --mode {mode} "
            f"--log_samples --output_path {out} --apply_chat_template {name}"
        )

    written = {
        asked(model, mode, "short"): SHORT if mode == "strict" else tiny.CHAT
        for model in ("files", "listed")
        for mode in ("strict", "compat")
    }
    refused = {
        asked("files", "compat", "long"): "has no chat template 'long': there are default, short",
        asked("listed", "strict", "long"): "has no chat template 'long': there are default, short",
        asked("none", "strict", ""): "has no chat template: leave apply_chat_template out",
    }
    with serve([tmp_path / "hub"]) as url:
        done = warm.run(
            ["-c", RUNS, *(line for _, line in (*written, *refused))],
            cwd=ROOT,
            env=client_environment(url, tmp_path / "home"),
            timeout=180,
        )
    assert [line for line in done.stdout.splitlines() if line.isdigit()] == (
        ["0"] * len(written) + ["10"] * len(refused)
    ), done.stderr[-3000:]
    for said in refused.values():
        assert said in done.stderr
    for (out, _), template in written.items():
        (results,) = (json.loads(file.read_text()) for file in out.rglob("results_*.json"))
        (record,) = (json.loads(file.read_text()) for file in out.rglob("record_*.json"))
        assert results["chat_template_sha"] == sha256(template.encode()).hexdigest()
        assert record["chat"]["digest"] == digest_of(template)
        (samples,) = out.rglob("samples_*.jsonl")
        for line in samples.read_text().splitlines():
            prompt = json.loads(line)["arguments"]["gen_args_0"]["arg_0"]
            assert prompt.startswith("<|user|>") == (template == tiny.CHAT), prompt
