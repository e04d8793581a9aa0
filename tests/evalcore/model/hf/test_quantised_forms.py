"""Weights quantised by each library's methods: loaded as their repository says, computed as a plain
pass computes them in every way that a model is computed, and refused where a part is missing."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.forward.memory import MOST_TOKENS_CPU, bytes_per_token, token_budget
from evalcore.model.forward.selfcheck import moved_by_what_follows
from evalcore.model.hf.huggingface import HuggingFaceLM
from tests import quantised
from tests.evalcore.model.asking import answers_of, answers_to, load, plain_score
from tests.hub import ROOT
from tests.quantised import BY_ITS_COMPANY, CONTEXTS, CONTINUATIONS
from tests.services import missing

SCORED = [Request("loglikelihood", context, end) for context in CONTEXTS for end in CONTINUATIONS]

PLACE = Path(sys.prefix) / "torchao"
"""Wherever torchao is installed transformers imports it, a second of each process, so it lies in a
folder of its own beside the tests' environment (`make setup-dev`)."""
FILES = (
    "tests/evalcore/model/hf/test_files.py",
    "tests/evalcore/model/hf/test_quantised_forms.py",
    "tests/parity/test_quantised.py",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return quantised.plain(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module", params=quantised.METHODS)
def method(request):
    return request.param


@pytest.fixture(scope="module")
def folder(whole, method, tmp_path_factory):
    return quantised.make(whole, tmp_path_factory.mktemp("quantised") / "model", method)


@pytest.fixture(scope="module")
def lm(folder):
    return load(folder, dtype="auto")


def test_quantised_weights_are_as_wide_as_their_layers(whole, folder, method):
    """Else a pass of a quantised model holds a hundredth of the tokens that it could."""
    needed = bytes_per_token(AutoModelForCausalLM.from_pretrained(whole))
    assert needed == 4 * (4 * 128 + 12 * 64)  # float32; layers of 128 and 64
    model = AutoModelForCausalLM.from_pretrained(folder)
    if "4-bit" in method:  # two weights in a byte, in one long column
        assert model.model.layers[0].mlp.up_proj.weight.shape == (128 * 64 // 2, 1)
    assert bytes_per_token(model) == needed
    assert token_budget(model, longest=8) == MOST_TOKENS_CPU


def test_its_answers_are_those_of_a_plain_pass(whole, folder, lm, method):
    model = AutoModelForCausalLM.from_pretrained(folder)
    unquantised = AutoModelForCausalLM.from_pretrained(whole)
    encoded = lm.encode(SCORED)
    expected = [plain_score(model, request)[0] for request in encoded]
    found = [answer.loglikelihood for answer in answers_to(lm, encoded)]
    off = [abs(ours - theirs) for ours, theirs in zip(found, expected, strict=True)]
    assert max(off) < 1e-4
    others = [plain_score(unquantised, request)[0] for request in encoded]
    assert max(abs(a - b) for a, b in zip(expected, others, strict=True)) > 0.01
    how = lm.execution["loglikelihood"]
    assert BY_ITS_COMPANY.get(method, "") in how["reason"]
    if rounds_what_it_computes(model, method):
        assert how["step"] == "one by one"
        assert max(off) < 1e-5
    else:
        assert how["step"] == "in packs"
    said = "torchao" if method in quantised.TORCHAO else " ".join(method.split()[:2])
    assert lm.info.quantisation == said
    assert lm.info.parameters == load(whole).info.parameters
    assert dataclasses.replace(lm.info, quantisation=None).model_key != lm.info.model_key


def rounds_what_it_computes(model, method):
    """Some processors multiply by bitsandbytes's four bits in bfloat16."""
    if "4-bit" in method:
        return model.model.layers[0].mlp.up_proj.support_avx512bf16_for_cpu
    return "8-bit" in method or "dynamic" in method


def test_an_initialised_one_has_the_same_answers_and_pins_of_its_own(folder, lm):
    model = AutoModelForCausalLM.from_pretrained(folder)
    own = HuggingFaceLM(model=model, tokenizer=lm.tokenizer)

    def scores(model):
        return [answer.loglikelihood for answer in answers_of(model, SCORED)]

    found = scores(own)
    assert found == pytest.approx(scores(lm), abs=1e-4)
    before = own.info
    assert before.quantisation == lm.info.quantisation
    assert before.model_key == own.info.model_key
    assert scores(own) == pytest.approx(found, abs=1e-4)  # asking for its pins changes no weight
    with torch.no_grad():
        model.model.norm.weight.mul_(1.5)
    assert own.info.model_key != before.model_key


def altered(folder, into, change):
    """A copy of a model whose weights, by their names, were changed."""
    into.mkdir()
    for file in folder.iterdir():
        (into / file.name).write_bytes(file.read_bytes())
    file = into / "model.safetensors"
    with file.open("rb") as content:
        size = int.from_bytes(content.read(8), "little")
        metadata = json.loads(content.read(size)).get("__metadata__")
    weights = load_file(file)
    changed = change(weights)
    assert changed.keys() != weights.keys(), sorted(weights)
    save_file(changed, file, metadata=metadata)
    return into


def test_weights_that_are_missing_in_part_or_surplus_are_refused(folder, method, tmp_path):
    """Without scales packed numbers mean nothing."""
    layer = "layers.1.mlp.up_proj"
    scales = (f"{layer}.SCB", "up_proj.weight.absmax", "up_proj._weight_scale")

    def without_a_layer(weights):
        return {name: kept for name, kept in weights.items() if layer not in name}

    def without_scales(weights):
        return {name: kept for name, kept in weights.items() if not name.endswith(scales)}

    def with_a_layer_more(weights):
        more = {
            name.replace("layers.1.", "layers.2."): kept.clone()
            for name, kept in weights.items()
            if layer in name
        }
        return {**weights, **more}

    packed = method.startswith("bitsandbytes")
    for change, said in (
        (without_a_layer, r"lack quantised weights" if packed else r"lack weights .*up_proj"),
        (without_scales, ""),
        (with_a_layer_more, r"hold layers that its configuration leaves out"),
    ):
        with pytest.raises(ModelError, match=said):
            load(altered(folder, tmp_path / change.__name__, change), dtype="auto")


@pytest.mark.parametrize("rounding", BY_ITS_COMPANY)
def test_a_quantised_model_that_sees_what_follows_is_found_out(whole, tmp_path, rounding):
    """Its rounding by others is switched off meanwhile, and hides nothing."""
    model = AutoModelForCausalLM.from_pretrained(quantised.make(whole, tmp_path / "q", rounding))
    tokens = list(range(5, 45))
    assert moved_by_what_follows(model, tokens, 20) is None
    for layer in model.model.layers:
        layer.mlp.register_forward_hook(lambda _, inputs, out: out.roll(-1, 1))
    assert moved_by_what_follows(model, tokens, 20) > 1


@pytest.mark.skipif(quantised.HAS_TORCHAO, reason="this is the process that has torchao")
def test_models_that_another_library_quantised_pass_the_same_tests():
    """Of torchao, in a process that has it."""
    if not PLACE.is_dir():
        missing(f"NO TORCHAO: {PLACE} is no folder; `make setup-dev` makes it")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-k", "torchao"]
    done = subprocess.run(
        [*command, *FILES],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": str(PLACE)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, done.stdout
    assert int(passed[1]) > 3 * len(quantised.TORCHAO)
    assert "skipped" not in done.stdout.splitlines()[-1]
