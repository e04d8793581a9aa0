"""Where an adapter comes from: its own revision, from a real Hub, and what it was trained on."""

from __future__ import annotations

import json
import shutil

import pytest

from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.remarks import remarks_on
from tests import tiny, warm
from tests.evalcore.toys import write_toys
from tests.hub import ROOT, client_environment, serve

PROGRAM = """
import json, pathlib, os, sys
from evalcore.errors import EvalError
from evalcore.model.hf.choice import HuggingFace
for stated in json.loads(sys.argv[1]):
    told = {}
    try:
        lm = HuggingFace.from_arguments({"dtype": "float32", **stated}, device="cpu")
        names = ("commit", "adapter", "delta", "name", "model_key")
        told = {name: getattr(lm.info, name) for name in names}
        told["tokens"] = len(lm.tokenizer)
    except EvalError as error:
        told["refused"] = str(error)
    home = pathlib.Path(os.environ["HF_HOME"])
    told["weights"] = sorted(
        {path.parts[-4] for path in home.rglob("model.safetensors")}
    )
    print(json.dumps(told))
"""

STATED = {
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
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    root = tmp_path_factory.mktemp("hub")
    own = root / "models" / "own"
    tiny.make(own / "base")
    tiny.make(own / "base" / ".revisions" / "step1000", seed=5)
    tiny.make(own / "other", architecture="gpt2")
    tiny.make(own / "narrow", width=32)
    adapter = tiny.adapt(own / "base", own / "adapter")
    tiny.make(own / "delta", seed=2)
    tiny.make(own / "delta" / ".revisions" / "v1", seed=3)
    first = tiny.adapt(own / "base", adapter / ".revisions" / "v1", seed=8)
    words = tiny.make(tmp_path_factory.mktemp("words"), words=True)
    for file in words.glob("tokenizer*"):
        shutil.copy(file, first)
    with serve([root]) as url:
        yield url


@pytest.fixture(scope="module")
def outcomes(hub, tmp_path_factory):
    done = warm.run(
        ["-c", PROGRAM, json.dumps(list(STATED.values()))],
        cwd=ROOT,
        env=client_environment(hub, tmp_path_factory.mktemp("home")),
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(STATED, map(json.loads, done.stdout.splitlines()), strict=True))


def test_an_adapter_has_a_revision_of_its_own_which_is_main_by_default(outcomes):
    main, step, first = (outcomes[name] for name in ("main", "of a step", "v1"))
    assert step["commit"] != main["commit"] == first["commit"]
    assert step["adapter"] == main["adapter"] != first["adapter"]
    for told in (main, step, first):
        name, _, commit = told["adapter"].partition("@")
        assert told["name"] == name == "own/adapter"
        assert len(commit) == 40
        assert commit != told["commit"]
    assert len({told["model_key"] for told in (main, step, first)}) == 3


def test_so_have_differences(outcomes):
    told, step = outcomes["delta"], outcomes["of a step"]
    name, _, commit = told["delta"].partition("@")
    assert told["name"] == name == "own/delta"
    assert told["commit"] == step["commit"]
    assert len(commit) == 40
    assert told["weights"] == ["models--own--base", "models--own--delta"]


def test_a_tokenizer_of_the_adapters_repository_is_of_its_revision(outcomes):
    """The model's revision is none of that repository's."""
    assert outcomes["its tokenizer"]["tokens"] != outcomes["v1"]["tokens"]
    assert outcomes["its tokenizer"]["adapter"] == outcomes["v1"]["adapter"]


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("none there", "own/adapter at v9: the Hub knows no such revision"),
        ("no adapter", "peft: own/other is no adapter: it has no adapter_config.json"),
        ("wrong base", "Target modules {"),
        ("narrow base", "8 weights of its file have other shapes"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_models_weights_are_downloaded(
    outcomes, case, said
):
    assert said in outcomes[case]["refused"]
    assert outcomes[case]["weights"] == []
    if "base" in case:
        assert "own/adapter does not fit the model" in outcomes[case]["refused"]
        assert "give the model that it was trained on (" in outcomes[case]["refused"]
    assert outcomes["main"]["weights"] == ["models--own--base"]


def test_another_name_than_the_one_it_was_trained_on_is_a_remark(tmp_path):
    """Folders may have any name, so names refuse nothing."""
    tasks = write_toys(tmp_path)
    base = tiny.make(tmp_path / "Llama-Tiny")
    adapter = tiny.adapt(base, tmp_path / "adapter")
    for stated, expected in [
        ("meta/llama-tiny", None),
        ("/home/ada/llama-tiny", None),
        (None, None),
        ("meta/llama-large", "meta/llama-large"),
    ]:
        config = json.loads((adapter / "adapter_config.json").read_text())
        config["base_model_name_or_path"] = stated
        (adapter / "adapter_config.json").write_text(json.dumps(config))
        given = {"pretrained": str(base), "dtype": "float32", "peft": str(adapter)}
        lm = HuggingFaceLM(Arguments.of(given), device="cpu")
        assert lm.info.as_json().get("adapter_base") == expected
        (evaluation,) = evaluate(lm, ["toy_choice"], include_path=tasks, limit=2)
        remarks = [line for line in remarks_on([evaluation.record]) if "was trained on" in line]
        assert len(remarks) == (expected is not None)
    assert remarks[0].startswith(f"the adapter {adapter} says that it was trained on meta/llama-")


@pytest.mark.parametrize("stated", ["owner/name@", "@main"])
def test_half_a_name_is_refused(stated):
    with pytest.raises(ModelError, match="peft: expected a folder, owner/name or owner/name@rev"):
        Arguments.of({"pretrained": "a", "peft": stated})


def test_a_fetch_brings_every_adapter_that_a_run_will_want(hub, tmp_path):
    home, tasks = tmp_path / "home", write_toys(tmp_path)
    adapters = ["own/adapter", "own/adapter@v1"]
    asked = ["--tasks", "toy_choice", "--include_path", str(tasks), "--adapters", *adapters]
    model = ["--model_args", "pretrained=own/base,dtype=float32"]
    for command, offline in (["fetch"], "0"), (["run", "--limit", "2"], "1"):
        done = warm.run(
            ["-m", "evalcore", *command, *model, *asked],
            cwd=ROOT,
            env=client_environment(hub, home, HF_HUB_OFFLINE=offline),
            timeout=240,
        )
        assert done.returncode == 0, done.stderr[-2000:]
    found = {path.parent.name for path in home.rglob("adapter_model.safetensors")}
    assert len(found) == 2
