"""Code of a model's own: run where it is trusted, at a commit, and never by a fetch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.hf import code
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.registry import backend_of
from tests import own_code, warm
from tests.evalcore.toys import write_toys
from tests.hub import ROOT, client_environment, get_json, serve


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_code.make(tmp_path_factory.mktemp("own") / "model")


@pytest.fixture(scope="module", autouse=True)
def _modules_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where transformers keeps the code that it runs: not in the home of whoever tests."""
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("modules")
        patch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(place))
        patch.setattr("sys.path", [*sys.path])
        yield
    for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
        del sys.modules[name]


def loaded(folder: Path, **stated: Any) -> HuggingFaceLM:
    given = {"pretrained": str(folder), "trust_remote_code": "True", **stated}
    made = backend_of("hf").from_arguments(given, device="cpu")
    assert isinstance(made, HuggingFaceLM)
    return made


def said(lm: HuggingFaceLM) -> list[float]:
    requests = [Request("loglikelihood", "A table is made of", of) for of in (" wood", " a river")]
    answers = dict(pair for pack in lm.answer(lm.encode(requests)) for pair in pack)
    return [answers[i].loglikelihood for i in range(len(requests))]


def plain(folder: Path, into: Path) -> Path:
    """The same weights in the architecture that transformers has."""
    shutil.copytree(folder, into)
    own_code.change(
        into / "config.json", model_type="llama", architectures=["LlamaForCausalLM"], auto_map={}
    )
    return into


def test_trusted_code_computes_the_model(model: Path, tmp_path: Path) -> None:
    own = loaded(model)
    assert own.info.architecture == "OwnForCausalLM"
    without = loaded(plain(model, tmp_path / "plain"))
    assert said(own) != pytest.approx(said(without), abs=0.1)
    llama: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "plain")
    tokens = own.encoder.text("A table is made of wood")
    context = len(own.encoder.text("A table is made of"))
    with torch.inference_mode():
        logprobs = (llama(torch.tensor([tokens])).logits[0] / 2).log_softmax(-1)
    expected = sum(float(logprobs[i - 1, tokens[i]]) for i in range(context, len(tokens)))
    assert said(own)[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.peer
def test_as_lm_evaluation_harness_with_the_same_argument(model: Path) -> None:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    peer = HFLM(str(model), trust_remote_code=True, device="cpu", dtype="float32")
    asked = [("A table is made of", of) for of in (" wood", " a river")]
    instances = [Instance("loglikelihood", {}, pair, i) for i, pair in enumerate(asked)]
    theirs = peer.loglikelihood(instances)
    assert said(loaded(model)) == pytest.approx([value for value, _ in theirs], abs=1e-4)


def test_the_pins_name_what_code_was_run(model: Path, tmp_path: Path) -> None:
    own = loaded(model).info
    (pin,) = own.code
    assert pin.startswith(f"{model}@")
    assert list(own.as_json()["code"]) == [pin]
    assert own.model_key != replace(own, code=()).model_key
    other = shutil.copytree(model, tmp_path / "other")
    (other / "halving.py").write_text("def halved(logits):\n    return logits / 3\n")
    (changed,) = loaded(other).info.code
    assert changed.rpartition("@")[2] != pin.rpartition("@")[2]
    assert "code" not in loaded(plain(model, tmp_path / "plain")).info.as_json()


def test_code_that_is_not_trusted_is_not_run(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_CODE_RAN", str(tmp_path / "ran"))
    with pytest.raises(ModelError, match="contains custom code which must be executed"):
        loaded(model, trust_remote_code="False")
    assert not (tmp_path / "ran").exists()


def test_code_of_another_repository_needs_its_commit(tmp_path: Path) -> None:
    model = own_code.make(tmp_path / "model", elsewhere="somebody/code")
    with pytest.raises(ModelError, match=r"names code of somebody/code: .* code_revision=COMMIT"):
        loaded(model)


@pytest.mark.parametrize("backend", ["hf-multimodal", "vllm"])
def test_other_backends_run_none_and_say_so(model: Path, backend: str) -> None:
    stated = {"pretrained": str(model), "trust_remote_code": "True"}
    with pytest.raises(ModelError, match=r"config.json names code of its own \(auto_map\), and"):
        backend_of(backend).from_arguments(stated, weights=False)


def test_a_commit_of_no_code_is_refused(model: Path) -> None:
    with pytest.raises(ModelError, match="names code of no other repository"):
        loaded(model, code_revision="a" * 40)


@pytest.mark.parametrize("wrong", [["a"], "a", {"AutoModel": 3}, {"AutoModel": None}, None])
def test_an_auto_map_that_is_none_names_nothing(wrong: Any) -> None:
    assert code.references({"auto_map": wrong}) == []


@given(
    own=st.lists(st.sampled_from(["m.A", "m.B"]), max_size=2),
    elsewhere=st.lists(st.sampled_from(["a/b", "c/d"]), max_size=3),
)
def test_what_an_auto_map_names(own: list[str], elsewhere: list[str]) -> None:
    named = [*own, *(f"{repository}--m.C" for repository in elsewhere)]
    config = {"auto_map": {"AutoConfig": named[:1], "AutoTokenizer": [*named[1:], None]}}
    assert code.references(config) == named
    assert code.has_own(named) == bool(own)
    assert code.others(named) == sorted(set(elsewhere))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("hub")
    own_code.make(root / "models" / "somebody" / "own")
    own_code.write_code(root / "models" / "somebody" / "code")
    own_code.make(root / "models" / "somebody" / "borrowing", elsewhere="somebody/code")
    with serve([root]) as url:
        yield url


def commit_of(url: str, name: str) -> str:
    return str(get_json(url, f"/api/models/{name}")["sha"])


def evalcore(
    command: str, url: str, home: Path, model_args: str, *more: str, **extra: str
) -> subprocess.CompletedProcess[str]:
    tasks = home / "tasks" if (home / "tasks").exists() else write_toys(home)
    stated = ["--model_args", model_args, "--tasks", "toy_choice", "--include_path", str(tasks)]
    environment = client_environment(url, home / "hf", OWN_CODE_RAN=str(home / "ran"), **extra)
    return warm.run(
        ["-m", "evalcore", command, *stated, *more],
        cwd=ROOT,
        env=environment,
        timeout=300,
    )


@pytest.mark.parametrize("name", ["own", "borrowing"])
def test_a_fetch_downloads_code_and_runs_none(served: str, tmp_path: Path, name: str) -> None:
    """What it downloads is enough for a run without a network, which runs the code."""
    commit, elsewhere = commit_of(served, f"somebody/{name}"), commit_of(served, "somebody/code")
    stated = f"pretrained=somebody/{name},revision={commit},trust_remote_code=True,dtype=float32"
    stated += f",code_revision={elsewhere}" if name == "borrowing" else ""
    fetched = evalcore("fetch", served, tmp_path, stated)
    assert fetched.returncode == 0, fetched.stderr
    assert not (tmp_path / "ran").exists()
    out = ["--limit", "2", "--output_path", str(tmp_path / "out")]
    done = evalcore("run", served, tmp_path, stated, *out, HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").exists()
    (record,) = (tmp_path / "out").rglob("record_*.json")
    pin = f"somebody/own@{commit}" if name == "own" else f"somebody/code@{elsewhere}"
    assert json.loads(record.read_text())["model"]["code"] == [pin]


def test_the_option_of_lm_evaluation_harness_is_the_argument(served: str, tmp_path: Path) -> None:
    out = ["--limit", "1", "--trust_remote_code"]
    done = evalcore("run", served, tmp_path, "pretrained=somebody/own", *out)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").exists()
