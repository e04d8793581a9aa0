"""The `hf` backend against lm-evaluation-harness's own, request by request.

fp32 on the CPU, lm-eval one request at a time; tiny models of several architectures, with
tokenizers that add BOS or not and that keep spaces or mark words, and one of the demo's trained
ones.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from evalcore.model.base import Request
from evalcore.model.hf.huggingface import HuggingFaceLM
from tests import tiny
from tests.evalcore.model.asking import ends_texts
from tests.parity import NEEDS_LM_EVAL, beside_hf
from tests.parity.beside_hf import (
    POSITIONS,
    compare_loglikelihoods,
    compare_texts,
    our_answers,
    our_model,
    texts,
    their_answers,
    their_model,
)
from tests.quantised import write_gguf

pytestmark = [*NEEDS_LM_EVAL]

TINY: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-bos": {"architecture": "llama", "adds_bos": True},
    "gpt_neox-words": {"architecture": "gpt_neox", "words": True},
    "gpt2": {"architecture": "gpt2"},
    "mamba": {"architecture": "mamba"},
    "llama-ended": {"architecture": "llama"},
}
TRAINED = "novice-llama"


@pytest.fixture(scope="module", params=[*TINY, TRAINED])
def folder(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == TRAINED:
        return beside_hf.DEMO / TRAINED
    made = tmp_path_factory.mktemp(request.param)
    tiny.make(made, positions=POSITIONS, **TINY[request.param])
    return ends_texts(made) if request.param == "llama-ended" else made


@pytest.fixture(scope="module")
def ours(folder: Path) -> HuggingFaceLM:
    return our_model(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    return their_model(folder)


def test_loglikelihoods_are_equal(ours: HuggingFaceLM, theirs: Any) -> None:
    pairs = [
        (context, continuation)
        for context in ("", "Question: ", "é🙂", *texts(4, 30, 200))
        for continuation in (" a", " wood\n", "table", " 🙂")
    ]
    compare_loglikelihoods(ours, theirs, pairs)


def test_whole_texts_are_equal_in_one_window_or_many(ours: HuggingFaceLM, theirs: Any) -> None:
    """With a tokenizer that adds BOS, both score it as the text's first token."""
    whole = ["", " ", "a", *texts(1, 9, 60, 250)]
    requests = [Request("loglikelihood_rolling", "", text) for text in whole]
    expected = their_answers(theirs, "loglikelihood_rolling", [(text,) for text in whole])
    found = our_answers(ours, requests)
    for answer, total in zip(found, expected, strict=True):
        assert abs(answer.loglikelihood - total) <= 1e-4 + 1e-6 * abs(total)
    assert max(len(answer.token_logprobs) for answer in found) > 1


def test_greedy_texts_are_equal(ours: HuggingFaceLM, theirs: Any) -> None:
    """Stops of one token, of several and within one; EOS; limits by every name; long prompts."""
    manners: list[dict[str, Any]] = [
        {"until": ["\n"], "max_gen_toks": 16},
        {"until": [". ", "wood", "le"], "max_new_tokens": 24, "do_sample": False},
        {"until": "es", "max_tokens": 16, "temperature": 0.0},
        {"until": [], "max_gen_toks": 20, "max_new_tokens": 3},
        {"max_completion_tokens": 9, "temperature": 0.7, "do_sample": False, "top_p": 0.9},
    ]
    # Beams, of which the first alone decides about stops; a penalty that looks at the prompt; a
    # length that counts the prompt; the empty stop, which ends a text after its first token.
    rarer: list[dict[str, Any]] = [
        {"until": ["a", "e"], "max_gen_toks": 8, "num_beams": 3},
        {"until": [], "max_gen_toks": 8, "repetition_penalty": 1.4},
        {"until": [], "max_length": 60, "max_gen_toks": 40},
        {"until": ["", "zzz"], "max_gen_toks": 8},
    ]
    contexts = ["a", "<s>Question:", "Answer: ", *texts(5, 12, 500)]
    asked = [(text, how) for how in manners for text in contexts]
    asked += [(text, how) for how in rarer for text in texts(3, 5, 7)]
    found = compare_texts(ours, theirs, asked)
    assert any(answer.n_truncated for answer in found)
    assert {answer.finish_reason for answer in found} & {"stop", "eos"}


@pytest.mark.parametrize(
    ("arguments", "adds_bos"),
    [
        ({"add_bos_token": True}, False),
        ({"add_bos_token": False}, True),
        ({"prefix_token_id": 5}, True),
        ({"max_length": 40}, False),
        ({"truncation": True}, False),
    ],
)
def test_model_arguments_mean_the_same(
    tmp_path: Path, arguments: dict[str, Any], adds_bos: bool
) -> None:
    folder = tiny.make(tmp_path, positions=POSITIONS, adds_bos=adds_bos)
    settings = folder / "tokenizer_config.json"
    stated = {**json.loads(settings.read_text()), "model_max_length": 20}
    settings.write_text(json.dumps(stated))
    ours, theirs = our_model(folder, **arguments), their_model(folder, **arguments)
    whole = ["", "a", *texts(9, 60)]
    compare_loglikelihoods(ours, theirs, [(text, " wood") for text in whole])
    found = our_answers(ours, [Request("loglikelihood_rolling", "", text) for text in whole])
    expected = their_answers(theirs, "loglikelihood_rolling", [(text,) for text in whole])
    assert [one.loglikelihood for one in found] == pytest.approx(expected, rel=1e-6, abs=1e-4)
    compare_texts(
        ours, theirs, [(text, {"until": ["\n"], "max_gen_toks": 12}) for text in texts(9, 60)]
    )


@pytest.mark.parametrize("think_end", [" t", "5", "</s>"])
def test_thinking_is_removed_alike(tmp_path: Path, think_end: str) -> None:
    """By text or token number; the text of a special token is not in what is decoded."""
    folder = tiny.make(tmp_path, positions=POSITIONS)
    ours = our_model(folder, think_end_token=think_end)
    theirs = their_model(folder, think_end_token=think_end)
    compare_texts(
        ours,
        theirs,
        [(text, {"until": ["\n", "ab"], "max_gen_toks": 30}) for text in texts(2, 5, 9, 14)],
    )


def test_the_models_own_generation_arguments_hold_alike(tmp_path: Path) -> None:
    """A number of new tokens in the model's repository beats the task's; a penalty is applied."""
    folder = tiny.make(tmp_path, positions=POSITIONS)
    settings = folder / "generation_config.json"
    own = {"max_new_tokens": 5, "repetition_penalty": 1.3, "eos_token_id": [1, 70]}
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **own}))
    asked = [(text, {"until": ["\n"], "max_gen_toks": 12}) for text in texts(3, 6, 11, 20)]
    found = compare_texts(our_model(folder), their_model(folder), asked)
    assert all(len(answer.token_ids) <= 5 for answer in found)


@pytest.mark.parametrize(
    ("added", "padding"), [(0, 0), (0, 40), (6, 0)], ids=["as wide", "rows to spare", "wider"]
)
def test_an_adapter_is_applied_alike(tmp_path: Path, added: int, padding: int) -> None:
    """Also where the tokenizer has another number of tokens than the model: its tables are
    resized."""
    folder = tiny.make(tmp_path / "model", positions=POSITIONS, padding=padding)
    adapter = str(tiny.adapt(folder, tmp_path / "adapter", added=added))
    stated = {"peft": adapter, **({"tokenizer": adapter} if added else {})}
    ours, theirs = our_model(folder, **stated), their_model(folder, **stated)
    asked = [(text, " wood" + "<|3|>" * bool(added)) for text in texts(3, 9)]
    compare_loglikelihoods(ours, theirs, asked)
    compare_texts(ours, theirs, [(text, {"max_gen_toks": 12}) for text in texts(3, 9)])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_delta_is_added_alike(tmp_path: Path, dtype: str) -> None:
    folder = tiny.make(tmp_path / "model", positions=POSITIONS)
    tuned = tiny.make(tmp_path / "tuned", positions=POSITIONS, seed=1)
    delta = str(tiny.subtract(tuned, folder, tmp_path / "delta", dtype))
    ours, theirs = our_model(folder, delta=delta), their_model(folder, delta=delta)
    compare_loglikelihoods(ours, theirs, [(text, " wood") for text in texts(3, 9)])
    state = theirs.model.state_dict()
    for name, weight in ours._model.state_dict().items():
        assert (weight == state[name]).all()


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
def test_a_gguf_file_is_read_alike(tmp_path: Path, kind: str) -> None:
    folder = tiny.make(tmp_path / "model", positions=POSITIONS)
    write_gguf(folder, tmp_path / "m.gguf", kind)
    ours, theirs = (of(tmp_path, gguf_file="m.gguf") for of in (our_model, their_model))
    compare_loglikelihoods(ours, theirs, [(text, " wood") for text in texts(3, 9)])
    compare_texts(ours, theirs, [(text, {"max_gen_toks": 12}) for text in texts(3, 9)])


REFUSES_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system turn') }}{% endif %}"
    + tiny.CHAT
)
THINKS = tiny.CHAT + "{% if enable_thinking %}<think>{% endif %}{{ style | default('') }}"


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (tiny.CHAT, "any"),
        (REFUSES_SYSTEM, True),
        (THINKS, True),
        ({"default": tiny.CHAT, "short": "{{ messages[-1].content }}"}, True),
        ({"default": tiny.CHAT, "short": "{{ messages[-1].content }}"}, "short"),
    ],
    ids=["one, named", "refuses system", "thinking", "several", "several, named"],
)
def test_conversations_are_written_alike(
    tmp_path: Path, template: str | dict[str, str], name: bool | str
) -> None:
    """Also when a template is named: lm-eval looks it up, and writes with the default one."""
    folder = tiny.make(tmp_path, chat_template=template)
    arguments = {
        "enable_thinking": True,
        "think_end_token": "</think>",
        "chat_template_args": {"style": "!"},
    }
    theirs = their_model(folder, **arguments)
    ours = our_model(folder, **arguments).chat_template(name if isinstance(name, str) else None)
    theirs.chat_template(name)
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " Which is it? "},
        {"role": "assistant", "content": "The answer is"},
    ]
    for messages, answer_begins in ((turns[:2], True), (turns[1:2], True), (turns, False)):
        expected = theirs.apply_chat_template(
            copy.deepcopy(messages), add_generation_prompt=answer_begins
        )
        assert ours.render(messages, answer_begins) == expected


def test_half_precision_is_rounded_as_lm_eval_rounds_it() -> None:
    """One by one to the bit; as computed by default within a step or two of such numbers."""
    found = beside_hf.measure("storyteller-gpt2", "bfloat16")
    assert (found.alone, found.flags) == (0.0, 0)
    assert found.default <= 0.5
    assert found.softmax > 0.1


@pytest.mark.parametrize(
    ("dtype", "softmax"), [("bfloat16", "float32"), ("float32", "bfloat16"), ("float16", "float16")]
)
def test_the_softmax_dtype_means_the_same(dtype: str, softmax: str) -> None:
    model, asked = beside_hf.MODELS[0], beside_hf.pairs()[:64]
    found = beside_hf.ours(model, dtype, asked, path="plain", softmax_dtype=softmax)
    expected = beside_hf.theirs(model, dtype, asked, softmax_dtype=softmax)
    assert [flag for _, flag in found] == [flag for _, flag in expected]
    for (value, _), (total, _) in zip(found, expected, strict=True):
        # A sum in float32 may be added in another order; one that is rounded is equal.
        assert abs(value - total) <= (1e-4 + 1e-6 * abs(total) if softmax == "float32" else 0.0)
