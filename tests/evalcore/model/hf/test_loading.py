"""Models that cannot be evaluated, over the real Hub protocol: each fails with its class."""

from __future__ import annotations

import pytest

from tests import awkward, warm
from tests.hub import client_environment, serve, set_faults


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    folder = tmp_path_factory.mktemp("awkward")
    awkward.build(folder)
    with serve([folder]) as url:
        yield url


PROGRAM = """
import sys
from evalcore.errors import EvalError
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
for name in sys.argv[1:]:
    try:
        arguments = Arguments.of({"pretrained": f"awkward/{name}", "dtype": "float32"})
        print(name, "loaded", HuggingFaceLM(arguments, batch_size=1, device="cpu").info.parameters)
    except EvalError as error:
        print(name, type(error).__name__, str(error).replace("\\n", " "))
"""

MODEL_ERRORS = {
    "no-safetensors": "no weights in safetensors format",
    "custom-code": "custom code",
    "broken-config": "awkward/broken-config",
    "no-tokenizer": "",
    "unknown-architecture": "does not recognize this architecture",
    "truncated-weights": "file not fully covered",
    "gguf-only": "no weights in safetensors format",
    "gated": "gated",
    "private": "private",
    "does-not-exist": "is not on the Hub",
    "encoder-decoder": "",
}


@pytest.fixture(scope="module")
def outcomes(hub, tmp_path_factory):
    names = [*MODEL_ERRORS, "sharded", "renamed"]
    done = warm.run(
        ["-c", PROGRAM, *names],
        env=client_environment(hub, tmp_path_factory.mktemp("hf")),
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {line.split(" ", 1)[0]: line.split(" ", 1)[1] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("name", MODEL_ERRORS)
def test_a_model_that_cannot_be_loaded_is_its_submitters_matter(outcomes, name):
    assert outcomes[name].startswith("ModelError")
    assert f"awkward/{name}" in outcomes[name]
    assert MODEL_ERRORS[name].lower() in outcomes[name].lower()


@pytest.mark.parametrize("name", ["sharded", "renamed"])
def test_a_model_that_is_only_unusual_loads(outcomes, name):
    assert outcomes[name].startswith("loaded")


def test_a_disabled_repository_is_its_owners_matter(hub, tmp_path):
    disabled = "Access to this resource is disabled."
    fault = {"match": "/api/models/*", "status": 403, "message": disabled}
    set_faults(hub, [fault])
    try:
        done = warm.run(
            ["-c", PROGRAM, "sharded"], env=client_environment(hub, tmp_path), timeout=300
        )
    finally:
        set_faults(hub, [])
    assert done.stdout.startswith("sharded ModelError"), done.stdout + done.stderr[-1000:]
    assert "was disabled on the Hub" in done.stdout


def test_a_hub_that_answers_500_is_our_matter(hub, tmp_path):
    set_faults(hub, [{"match": "*", "status": 500}])
    try:
        done = warm.run(
            ["-c", PROGRAM, "sharded"], env=client_environment(hub, tmp_path), timeout=300
        )
    finally:
        set_faults(hub, [])
    assert done.stdout.startswith("sharded InfraError"), done.stdout + done.stderr[-1000:]
