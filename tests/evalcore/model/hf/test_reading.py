"""The half of the `hf` backend that reads, for backends that compute elsewhere."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref

import pytest

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.hf.huggingface import GENERATION_ARGUMENTS, HuggingFaceLM
from evalcore.model.hf.reading import reader_of
from evalcore.model.hf.snapshot import Arguments
from tests import tiny
from tests.evalcore.model.known_keys import REQUESTS, TURNS

WITHOUT_TORCH = """
import json, sys
sys.modules["torch"] = None  # as where it is not installed
from evalcore.model.base import Request
from evalcore.model.hf.reading import reader_of
from evalcore.model.hf.snapshot import Arguments

reader = reader_of(Arguments.of({"pretrained": sys.argv[1]}))
(scored,) = reader.encode([Request("loglikelihood", "Question:", " a table")])
text = reader.chat_template().render([{"role": "user", "content": "Which?"}], True)
print(json.dumps([scored.tokens, text]))
"""


def arguments_of(folder, **stated):
    return Arguments.of({"pretrained": str(folder), "dtype": "float32", **stated})


@pytest.mark.parametrize("mode", ["compat", "strict"])
@pytest.mark.parametrize("stated", [{}, {"max_length": "40", "add_bos_token": "True"}])
def test_another_backend_reads_what_hf_reads(tmp_path, mode, stated):
    folder = tiny.make(tmp_path, adds_bos=True, positions=64, chat_template=tiny.CHAT)
    lm = HuggingFaceLM(arguments_of(folder, **stated), device="cpu", mode=mode)
    pins = vars(lm.info)
    (folder / "model.safetensors").unlink()
    reader = reader_of(
        arguments_of(folder, **stated),
        mode=mode,
        generation_arguments=GENERATION_ARGUMENTS,
        generation_defaults=lambda: lm._writer.defaults,
    )
    assert reader.encode(REQUESTS, seed=7) == lm.encode(REQUESTS, seed=7)
    assert reader.pins == {name: pins[name] for name in reader.pins}
    assert reader.token_texts(range(300)) == lm.token_texts(range(300))
    ours, theirs = reader.chat_template(), lm.chat_template()
    assert (ours.text, ours.render(TURNS, False)) == (theirs.text, theirs.render(TURNS, False))


def test_a_reader_needs_no_torch(tmp_path):
    folder = tiny.make(tmp_path, adds_bos=True, positions=64, chat_template=tiny.CHAT)
    outcome = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(folder)], capture_output=True, text=True
    )
    assert outcome.returncode == 0, outcome.stderr
    reader = reader_of(arguments_of(folder))
    scored = Request("loglikelihood", "Question:", " a table")
    assert json.loads(outcome.stdout.splitlines()[-1]) == [
        list(reader.encode([scored])[0].tokens),
        reader.chat_template().render([{"role": "user", "content": "Which?"}], True),
    ]


def test_a_token_that_the_configuration_does_not_know_is_named(tmp_path):
    folder = tiny.make(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 50}))
    with pytest.raises(ModelError, match=r"makes the token \d+, and the model has 50 tokens"):
        reader_of(arguments_of(folder)).encode([Request("loglikelihood", "Question", " a")])


def test_a_model_that_nobody_holds_is_freed_at_once(tmp_path):
    """A GPU has no room for the next one beside it."""
    lm = HuggingFaceLM(arguments_of(tiny.make(tmp_path)), device="cpu")
    gc.disable()
    try:
        held = weakref.ref(lm)
        del lm
        assert held() is None
    finally:
        gc.enable()
