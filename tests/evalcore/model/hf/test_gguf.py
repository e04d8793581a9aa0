"""Models in GGUF files, written by llama.cpp's own package: the weights that they were made of, all
of them, and nothing that lies beside the file."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GgufConfig

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.hf.choice import HuggingFace
from tests import tiny, warm
from tests.gguf_files import TYPES, write_gguf
from tests.hub import ROOT, client_environment, serve

ROW = torch.tensor([[5, 6, 7, 8, 9]])
REQUESTS = [
    Request("loglikelihood", "Question: Which of these is made of wood?", " a table"),
    Request("loglikelihood", "", " é🙂"),
    Request("loglikelihood_rolling", "", "The following are questions.\n" * 4),
    Request("generate_until", "Question:", generation={"until": ["\n"], "max_gen_toks": 8}),
]


@pytest.fixture(scope="module", params=["llama", "qwen2"])
def base(request, tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp(request.param), architecture=request.param)


def load(folder, file, **stated):
    given = {"pretrained": str(folder), "gguf_file": file, "dtype": "float32", **stated}
    return HuggingFace.from_arguments(given, device="cpu")


def answers(lm):
    found = {}
    for pack in lm.answer(lm.encode(REQUESTS)):
        found.update(pack)
    return [(found[i].loglikelihood, found[i].text) for i in sorted(found)]


@pytest.mark.parametrize("kind", ["F32", "F16"])
def test_plain_numbers_are_those_of_the_model(base, tmp_path, kind):
    write_gguf(base, tmp_path / "m.gguf", kind)
    lm = load(tmp_path, "m.gguf")
    given = AutoModelForCausalLM.from_pretrained(base).eval()
    if kind == "F16":
        with torch.no_grad():
            for weight in given.parameters():
                weight.copy_(weight.half().float() if weight.dim() > 1 else weight)
        given.save_pretrained(tmp_path / "rounded")
    with torch.inference_mode():
        assert torch.equal(lm._model(ROW).logits, given(ROW).logits)
    if kind == "F32":
        plain = HuggingFace.from_arguments(
            {"pretrained": str(base), "dtype": "float32"}, device="cpu"
        )
        requests = [lm.encode(REQUESTS), plain.encode(REQUESTS)]
        tokens = [[request.tokens for request in encoded] for encoded in requests]
        assert tokens[0] == tokens[1]
        for found, expected in zip(answers(lm), answers(plain), strict=True):
            assert found == (pytest.approx(expected[0], abs=1e-4), expected[1])
    assert lm.info.quantisation is None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "auto"])
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
def test_packed_weights_are_those_that_transformers_unpacks(base, tmp_path, kind, dtype):
    write_gguf(base, tmp_path / "m.gguf", kind)
    lm = load(tmp_path, "m.gguf", dtype=dtype)
    theirs = AutoModelForCausalLM.from_pretrained(
        tmp_path,
        gguf_file="m.gguf",
        dtype=dtype if dtype == "auto" else getattr(torch, dtype),
        quantization_config=GgufConfig(dequantize=True),
    ).eval()
    with torch.inference_mode():
        assert torch.equal(lm._model(ROW).logits, theirs(ROW).logits)
    assert lm.info.quantisation == f"gguf {kind}"
    assert lm.info.dtype == str(theirs.dtype).removeprefix("torch.")


def test_the_file_is_in_the_key(base, tmp_path):
    keys = {}
    for kind in TYPES:
        write_gguf(base, tmp_path / "m.gguf", kind)
        info = load(tmp_path, "m.gguf").info
        name, _, digest = info.gguf_file.partition("@")
        assert (name, len(digest)) == ("m.gguf", 64)
        assert info.as_json()["gguf_file"] == info.gguf_file
        keys[info.model_key] = info.tokenizer_digest
    assert len(keys) == len(TYPES)
    assert len({*keys.values()}) == 1
    (tmp_path / "m.gguf").rename(tmp_path / "n.gguf")
    assert load(tmp_path, "n.gguf").info.model_key not in keys


def test_it_says_what_it_would_read_without_its_weights(base, tmp_path):
    write_gguf(base, tmp_path / "m.gguf")
    given = {"pretrained": str(tmp_path), "gguf_file": "m.gguf", "dtype": "float32"}
    reading = HuggingFace.from_arguments(given, device="cpu", weights=False)
    keys = [
        [request.key for request in lm.encode(REQUESTS)]
        for lm in (reading, load(tmp_path, "m.gguf"))
    ]
    assert keys[0] == keys[1]


def test_what_lies_beside_the_file_is_not_read(base, tmp_path):
    """transformers would take the tokenizer of the folder, and its arguments of generation."""
    write_gguf(base, tmp_path / "m.gguf")
    alone = load(tmp_path, "m.gguf")
    for file in tiny.make(tmp_path / "other", words=True).iterdir():
        shutil.copy(file, tmp_path)
    stated = {"quantization_config": {"quant_method": "gptq", "bits": 4}, "max_new_tokens": 2}
    for name in ("config.json", "generation_config.json"):
        (tmp_path / name).write_text(json.dumps(stated))
    beside = load(tmp_path, "m.gguf")
    assert beside.info == alone.info
    keys = [[request.key for request in lm.encode(REQUESTS)] for lm in (alone, beside)]
    assert keys[0] == keys[1]
    named = load(tmp_path, "m.gguf", tokenizer=str(tmp_path / "other"))
    assert named.info.tokenizer_digest != alone.info.tokenizer_digest


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (
            {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
            r"its positions are scaled \(rope\.scaling\.type linear\)",
        ),
        ({"rope_freqs.weight": np.full(8, 2, np.float32)}, r"scaled \(rope_freqs\.weight\)"),
        (
            {"blk.2.attn_norm.weight": np.ones(64, np.float32)},
            r"holds 117,888 numbers, and transformers makes a model of 117,824 of it",
        ),
    ],
    ids=["scaled", "frequencies", "left over"],
)
def test_what_transformers_would_pass_over_is_refused(tmp_path, stated, said):
    base = tiny.make(tmp_path / "base")
    write_gguf(base, tmp_path / "m.gguf", **stated)
    with pytest.raises(ModelError, match=said):
        load(tmp_path, "m.gguf")


def test_frequencies_that_change_nothing_are_no_concern(tmp_path):
    base = tiny.make(tmp_path / "base")
    write_gguf(base, tmp_path / "m.gguf", **{"rope_freqs.weight": np.ones(8, np.float32)})
    assert load(tmp_path, "m.gguf").info.parameters == 117_824


def test_a_file_that_lacks_weights_is_refused(tmp_path):
    base = tiny.make(tmp_path / "base")
    write_gguf(base, tmp_path / "m.gguf", without="o_proj")
    with pytest.raises(ModelError, match=r"its files lack weights .* 2 in all, such as .*o_proj"):
        load(tmp_path, "m.gguf")


def test_a_broken_file_is_its_makers_matter(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    with pytest.raises(ModelError, match="cannot be loaded"):
        load(tmp_path, "m.gguf")
    with pytest.raises(ModelError, match=r"gguf_file: .* has no file n\.gguf"):
        load(tmp_path, "n.gguf")


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"gguf_file": "../m.gguf"}, "gguf_file: expected the name of one file"),
        ({"gguf_file": "m-00001-of-00003.gguf"}, "gguf_file: expected one whole file"),
        ({"gguf_file": "m.gguf", "peft": "a/b"}, "gguf_file and peft"),
        ({"gguf_file": "m.gguf", "load_in_8bit": "True"}, "gguf_file and load_in_8bit"),
    ],
)
def test_what_does_not_go_with_it_is_said(stated, said):
    with pytest.raises(ModelError, match=said):
        HuggingFace.from_arguments({"pretrained": "a", **stated})


def test_the_package_that_reads_it_is_named_where_it_is_not_there(monkeypatch):
    monkeypatch.setattr("evalcore.model.hf.gguf.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install 'plumbline\[gguf\]'"):
        load("owner/name", "m.gguf")


PROGRAM = """
import json, sys
from evalcore.model.hf.choice import HuggingFace
given = {"pretrained": "own/packed", "gguf_file": "b.gguf", "dtype": "float32"}
lm = HuggingFace.from_arguments(given, device="cpu")
print(json.dumps(lm.info.as_json()))
"""


def test_only_the_one_file_is_downloaded(tmp_path):
    own = tmp_path / "hub" / "models" / "own" / "packed"
    base = tiny.make(tmp_path / "base")
    shutil.copytree(base, own)
    for kind, name in (("Q8_0", "a.gguf"), ("F16", "b.gguf")):
        write_gguf(base, own / name, kind)
    home = tmp_path / "home"
    with serve([tmp_path / "hub"]) as url:
        done = warm.run(
            ["-c", PROGRAM],
            cwd=ROOT,
            env=client_environment(url, home),
            timeout=300,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    assert [file.name for file in home.rglob("snapshots/*/*")] == ["b.gguf"]
    info = json.loads(done.stdout)
    assert len(info["commit"]) == 40
    assert info["gguf_file"].startswith("b.gguf@")
    assert info["gguf_file"].partition("@")[2] == load(own, "b.gguf").info.files_digest
