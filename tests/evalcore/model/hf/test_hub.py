"""What is read of repositories on a Hub, over its real protocol: which files, at which revision,
whose matter it is where a model cannot be evaluated; and code of a model's own, which runs where it
is trusted, at a commit, and never by a fetch."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, pre_tokenizers
from transformers import AutoModelForCausalLM

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.model.hf import code
from evalcore.model.hf.huggingface import HuggingFaceLM
from tests import awkward, own_code, quantised, tiny, warm
from tests.evalcore.model.asking import answers_of, load_by
from tests.evalcore.toys import write_toys
from tests.hub import ROOT, client_environment, get_json, serve, set_faults
from tests.quantised import write_gguf
from tests.senses import make_seeing

PROGRAM = """
import json, os, pathlib, sys
sys.modules["bitsandbytes"] = None  # as on a machine that does not have it
from evalcore.errors import EvalError
from evalcore.model.hf.choice import HuggingFace

def downloaded():
    files = pathlib.Path(os.environ["HF_HOME"]).rglob("snapshots/*/*")
    return {f"{file.parts[-4].partition('--')[2]}/{file.name}" for file in files}

for name, stated in json.loads(sys.argv[1]).items():
    before, told, template = downloaded(), {}, stated.pop("template", None)
    try:
        how = {"device": "cpu", "mode": stated.pop("mode", "compat")}
        lm = HuggingFace.from_arguments({"dtype": "float32", **stated}, **how)
        told = {**lm.info.as_json(), "name": lm.info.name, "model_key": lm.info.model_key}
        told["tokens"] = len(lm.tokenizer)
        if template:
            told["template"] = lm.chat_template(template).text
    except EvalError as error:
        told["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps([name, {**told, "files": sorted(downloaded() - before)}]))
"""

BROKEN = {
    "no-safetensors": "no weights in safetensors format",
    "custom-code": "custom code",
    "broken-config": "awkward/broken-config",
    "no-tokenizer": "awkward/no-tokenizer",
    "unknown-architecture": "does not recognize this architecture",
    "truncated-weights": "file not fully covered",
    "gguf-only": "no weights in safetensors format",
    "gated": "gated",
    "private": "private",
    "does-not-exist": "is not on the Hub",
}
"""Repositories of tests/awkward.py, and what is said of each."""

WITH_OTHERS = {
    "none there": {"pretrained": "own/base", "peft": "own/adapter@v9"},
    "no adapter": {"pretrained": "own/base", "peft": "own/other"},
    "wrong base": {"pretrained": "own/other", "peft": "own/adapter"},
    "narrow base": {"pretrained": "own/narrow", "peft": "own/adapter"},
    "main": {"pretrained": "own/base", "peft": "own/adapter"},
    "of a step": {"pretrained": "own/base", "revision": "step1000", "peft": "own/adapter"},
    "v1": {"pretrained": "own/base", "peft": "own/adapter@v1"},
    "delta": {"pretrained": "own/base", "revision": "step1000", "delta": "own/delta@v1"},
    "its tokenizer": {
        **{"pretrained": "own/base", "revision": "step1000", "peft": "own/adapter@v1"},
        "tokenizer": "own/adapter",
    },
    "gguf": {"pretrained": "own/gguf", "gguf_file": "b.gguf"},
    "templates in files": {"pretrained": "own/files", "template": "short", "mode": "strict"},
    "templates in a list": {"pretrained": "own/listed", "template": "short", "mode": "strict"},
}

CANNOT_RUN_HERE = {
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "optimum"),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128}, "gptqmodel"),
    "fp8": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "needs a GPU"),
    "compressed": (
        {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}},
        "compressed",
    ),
    "without": ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "requires bitsandbytes"),
    "unknown": (
        {"quant_method": "folded", "bits": 3},
        "transformers knows no quant_method 'folded': correct quant_method in its config.json",
    ),
    "unnamed": ({"bits": 3}, "no `quant_method`"),
    "hostile": ({"quant_method": "torchao", "quant_type": {"default": "rm -rf"}}, "torchao"),
}
"""Configurations of quantised weights, and what is said of each."""

SHORT = "{{ messages[-1].content }}"


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """What the Hub has."""
    root = tmp_path_factory.mktemp("hub")
    awkward.build(root)
    own = root / "models" / "own"
    base = tiny.make(own / "base")
    tiny.make(own / "base" / ".revisions" / "step1000", seed=5)
    tiny.make(own / "other", architecture="gpt2")
    tiny.make(own / "narrow", width=32)
    adapter = tiny.adapt(base, own / "adapter")
    tiny.make(own / "delta", seed=2)
    tiny.make(own / "delta" / ".revisions" / "v1", seed=3)
    first = tiny.adapt(base, adapter / ".revisions" / "v1", seed=8)
    words = tiny.make(tmp_path_factory.mktemp("words"), words=True)
    for file in words.glob("tokenizer*"):
        shutil.copy(file, first)
    gguf = tiny.make(own / "gguf")
    for kind, name in (("Q8_0", "a.gguf"), ("F16", "b.gguf")):
        write_gguf(base, gguf / name, kind)
    several = {"default": tiny.CHAT, "short": SHORT}
    files = tiny.make(own / "files", chat_template=several)
    assert (files / "additional_chat_templates" / "short.jinja").is_file()
    listed = [{"name": name, "template": text} for name, text in several.items()]
    tiny.change_config(tiny.make(own / "listed"), "tokenizer_config.json", chat_template=listed)
    whole = quantised.plain(tmp_path_factory.mktemp("whole"))
    for name, (stated, _) in CANNOT_RUN_HERE.items():
        folder = shutil.copytree(whole, root / "models" / "packed" / name)
        tiny.change_config(folder, quantization_config=stated)
    return root


@pytest.fixture(scope="module")
def hub(content):
    with serve([content]) as url:
        yield url


def tried(url, home, cases):
    """What a program that loads these models one after the other has to say of each."""
    done = warm.run(
        ["-c", PROGRAM, json.dumps(cases)], cwd=ROOT, env=client_environment(url, home), timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.fixture(scope="module")
def outcomes(hub, tmp_path_factory):
    awkward_ones = [*BROKEN, "sharded", "renamed"]
    cases = {
        **{name: {"pretrained": f"packed/{name}"} for name in CANNOT_RUN_HERE},
        **WITH_OTHERS,
        **{name: {"pretrained": f"awkward/{name}"} for name in awkward_ones},
    }
    return tried(hub, tmp_path_factory.mktemp("home"), cases)


def weights_in(outcome):
    return [file for file in outcome["files"] if file.endswith(".safetensors")]


def test_a_model_that_cannot_be_loaded_is_its_submitters_matter(outcomes):
    for name, said in BROKEN.items():
        error = outcomes[name]["error"]
        assert error.startswith("ModelError"), name
        assert f"awkward/{name}" in error
        assert said.lower() in error.lower()
    assert outcomes["sharded"]["parameters"] == outcomes["renamed"]["parameters"] > 0


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            {
                "match": "/api/models/*",
                "status": 403,
                "message": "Access to this resource is disabled.",
            },
            "ModelError: .* was disabled on the Hub",
        ),
        ({"match": "*", "status": 500}, "InfraError: "),
    ],
    ids=["disabled by its owner", "a broken Hub"],
)
def test_whose_matter_it_is_that_the_hub_gives_nothing(hub, tmp_path, fault, said):
    set_faults(hub, [fault])
    try:
        outcome = tried(hub, tmp_path, {"sharded": {"pretrained": "awkward/sharded"}})
    finally:
        set_faults(hub, [])
    assert re.match(said, outcome["sharded"]["error"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU can run some of them")
def test_quantised_weights_that_cannot_be_run_here_are_not_downloaded(outcomes):
    for name, (_, said) in CANNOT_RUN_HERE.items():
        error = outcomes[name]["error"]
        assert error.startswith("ModelError"), name
        assert f"packed/{name}: its weights are quantised" in error
        assert said in error
        assert "on a machine that has it" in error or "before it was quantised" in error
        assert f"packed--{name}/config.json" in outcomes[name]["files"]
        assert not weights_in(outcomes[name])


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("none there", "own/adapter at v9: the Hub knows no such revision"),
        ("no adapter", "peft: own/other is no adapter: it has no adapter_config.json"),
        ("wrong base", "Target modules {"),
        ("narrow base", "8 weights of its file have other shapes"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused_before_the_models_weights_are_downloaded(
    outcomes, case, said
):
    assert said in outcomes[case]["error"]
    assert weights_in(outcomes[case]) in ([], ["own--adapter/adapter_model.safetensors"])
    if "base" in case:
        assert "own/adapter does not fit the model" in outcomes[case]["error"]
        assert "give the model that it was trained on (" in outcomes[case]["error"]
    assert "own--base/model.safetensors" in outcomes["main"]["files"]


def test_adapters_and_differences_have_a_revision_of_their_own_which_is_main_by_default(outcomes):
    """So has a tokenizer of the adapter's repository: the model's revision is none of that's."""
    main, step, first = (outcomes[name] for name in ("main", "of a step", "v1"))
    assert step["commit"] != main["commit"] == first["commit"]
    assert step["adapter"] == main["adapter"] != first["adapter"]
    for told in (main, step, first):
        name, _, commit = told["adapter"].partition("@")
        assert told["name"] == name == "own/adapter"
        assert len(commit) == 40
        assert commit != told["commit"]
    assert len({told["model_key"] for told in (main, step, first)}) == 3
    assert outcomes["its tokenizer"]["tokens"] != first["tokens"]
    assert outcomes["its tokenizer"]["adapter"] == first["adapter"]
    told = outcomes["delta"]
    name, _, commit = told["delta"].partition("@")
    assert told["name"] == name == "own/delta"
    assert told["commit"] == step["commit"]
    assert len(commit) == 40
    assert weights_in(told) == ["own--delta/model.safetensors"]


def test_one_gguf_file_is_downloaded_and_named_templates_are_found(outcomes):
    told = outcomes["gguf"]
    assert told["files"] == ["own--gguf/b.gguf"]
    assert len(told["commit"]) == 40
    assert told["gguf_file"].startswith("b.gguf@")
    for place in ("templates in files", "templates in a list"):
        assert outcomes[place]["template"] == SHORT


def test_a_fetch_brings_every_adapter_that_a_run_will_want(hub, toys, tmp_path):
    home = tmp_path / "home"
    adapters = ["own/adapter", "own/adapter@v1"]
    asked = ["--tasks", "toy_choice", "--include_path", str(toys), "--adapters", *adapters]
    model = ["--model_args", "pretrained=own/base,dtype=float32"]
    for command, offline in (["fetch"], "0"), (["run", "--limit", "2"], "1"):
        done = warm.run(
            ["-m", "evalcore", *command, *model, *asked],
            cwd=ROOT,
            env=client_environment(hub, home, HF_HUB_OFFLINE=offline),
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-2000:]
    found = {path.parent.name for path in home.rglob("adapter_model.safetensors")}
    assert len(found) == 2


# Code of a model's own.


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
    made = load_by("hf", folder, **{"dtype": "auto", "trust_remote_code": "True", **stated})
    assert isinstance(made, HuggingFaceLM)
    return made


def said(lm: HuggingFaceLM) -> list[float]:
    requests = [Request("loglikelihood", "A table is made of", of) for of in (" wood", " a river")]
    return [answer.loglikelihood for answer in answers_of(lm, requests)]


def plain(folder: Path, into: Path) -> Path:
    """The same weights in the architecture that transformers has."""
    shutil.copytree(folder, into)
    own = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "auto_map": {}}
    tiny.change_config(into, **own)
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


@pytest.mark.parametrize("backend", ["hf-multimodal", "vllm"])
def test_other_backends_run_none_and_say_so(model: Path, backend: str) -> None:
    with pytest.raises(ModelError, match=r"config.json names code of its own \(auto_map\), and"):
        load_by(backend, model, weights=False, trust_remote_code="True")


def test_an_auto_map_that_is_none_names_nothing() -> None:
    for wrong in (["a"], "a", {"AutoModel": 3}, None):
        assert code.references({"auto_map": wrong}) == []


def test_code_of_other_repositories_needs_their_commit_and_only_it(
    model: Path, tmp_path: Path
) -> None:
    borrowing = own_code.make(tmp_path / "model", elsewhere="somebody/code")
    with pytest.raises(ModelError, match=r"names code of somebody/code: .* code_revision=COMMIT"):
        loaded(borrowing)
    with pytest.raises(ModelError, match="names code of no other repository"):
        loaded(model, code_revision="a" * 40)


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


def test_a_fetch_downloads_code_and_runs_none(served: str, tmp_path: Path) -> None:
    """What it downloads is enough for a run without a network, which runs the code."""
    commit, elsewhere = (commit_of(served, f"somebody/{name}") for name in ("borrowing", "code"))
    stated = f"pretrained=somebody/borrowing,revision={commit},trust_remote_code=True"
    stated += f",dtype=float32,code_revision={elsewhere}"
    fetched = evalcore("fetch", served, tmp_path, stated)
    assert fetched.returncode == 0, fetched.stderr
    assert not (tmp_path / "ran").exists()
    out = ["--limit", "2", "--output_path", str(tmp_path / "out")]
    done = evalcore("run", served, tmp_path, stated, *out, HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").exists()
    (record,) = (tmp_path / "out").rglob("record_*.json")
    assert json.loads(record.read_text())["model"]["code"] == [f"somebody/code@{elsewhere}"]


def test_the_option_of_lm_evaluation_harness_is_the_argument(served: str, tmp_path: Path) -> None:
    out = ["--limit", "1", "--trust_remote_code"]
    done = evalcore("run", served, tmp_path, "pretrained=somebody/own", *out)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ran").exists()


# Rules of transformers for single IDs.

READ_BY_ID = """
import json, sys
from transformers import AutoTokenizer
from evalcore.model.registry import backend_of

text = "Which of these is made of wood?"
for name, stated, mode in json.loads(sys.argv[1]):
    backend = "hf-multimodal" if "image_width" in stated else "hf"
    arguments = {"pretrained": name, "dtype": "float32", **stated}
    lm = backend_of(backend).from_arguments(arguments, device="cpu", mode=mode)
    theirs = AutoTokenizer.from_pretrained(stated.get("tokenizer", name))
    print(json.dumps([lm.encoder.text(text), theirs(text)["input_ids"]]))
"""

SEES = {"image_width": 28, "image_height": 28}
OWN_SPLIT = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(Regex(r"\p{L}{1,2}"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
)


@pytest.fixture(scope="module")
def with_rules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Models whose class of tokenizer splits words otherwise than their tokenizer.json."""
    models = tmp_path_factory.mktemp("hub") / "models"
    named = tiny.make(models / "deepseek-ai" / "deepseek-coder-tiny")
    seeing = make_seeing(models / "stepfun-ai" / "step-3.7-tiny", architecture="qwen2_vl")
    for folder in (named, seeing):
        file = folder / "tokenizer.json"
        own: Any = Tokenizer.from_file(str(file))
        own.pre_tokenizer = OWN_SPLIT
        own.save(str(file))
        tiny.change_config(folder, "tokenizer_config.json", tokenizer_class="GPT2Tokenizer")
    shutil.copytree(seeing, models / "somebody" / "seeing")
    shutil.copytree(named, models / "somebody" / "copy")
    shutil.copytree(named, models / "allenai" / "dolma2-tokenizer")
    alone = models / "somebody" / "tokenizer-alone"
    alone.mkdir()
    for file in named.glob("tokenizer*"):
        shutil.copy(file, alone)
    with serve([models.parent]) as url:
        yield url


def test_a_tokenizer_is_the_one_that_transformers_gives_for_the_id(
    with_rules: str, tmp_path: Path
) -> None:
    """With a network and, from what was downloaded then, without one, in both modes."""
    cases = [
        (name, stated, mode)
        for mode in ("compat", "strict")
        for name, stated in (
            ("deepseek-ai/deepseek-coder-tiny", {}),
            ("somebody/copy", {}),
            ("somebody/copy", {"tokenizer": "allenai/dolma2-tokenizer"}),
            ("somebody/copy", {"tokenizer": "somebody/tokenizer-alone"}),
            ("stepfun-ai/step-3.7-tiny", SEES),
            ("somebody/seeing", SEES),
        )
    ]
    for offline in ("0", "1"):
        done = warm.run(
            ["-c", READ_BY_ID, json.dumps(cases)],
            cwd=ROOT,
            env=client_environment(with_rules, tmp_path, HF_HUB_OFFLINE=offline),
            timeout=300,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        lengths = []
        for ours, theirs in map(json.loads, done.stdout.splitlines()):
            assert ours == theirs
            lengths.append(len(ours))
        assert lengths[0] == lengths[2] > lengths[1] == lengths[3]
        assert lengths[4] > lengths[5]
        assert lengths[6:] == lengths[:6]


def test_a_rule_for_an_id_and_a_file_that_is_ignored_are_remarked(
    with_rules: str, tmp_path: Path
) -> None:
    for name, remark in (
        (
            "deepseek-ai/deepseek-coder-tiny",
            "has a rule for the ID deepseek-ai/deepseek-coder-tiny",
        ),
        ("somebody/copy", "somebody/copy as a GPT2Tokenizer and not as its tokenizer.json says"),
    ):
        out = tmp_path / name
        stated = f"pretrained={name},dtype=float32"
        done = evalcore(
            "run", with_rules, tmp_path, stated, "--limit", "1", "--output_path", str(out)
        )
        assert done.returncode == 0, done.stderr
        assert remark in done.stdout + done.stderr
        (record,) = out.rglob("record_*.json")
        (note,) = json.loads(record.read_text())["model"]["tokenizer_notes"]
        assert remark in note
