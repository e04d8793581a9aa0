"""A model of one's own: a class that the command names, evaluated and checked like any other."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint

import pytest

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.model import own
from evalcore.model.registry import backend_of
from evalcore.record import RunRecord, read_samples
from tests import tiny
from tests.evalcore.toys import write_toys

MODULE = '''
from evalcore.model.fake import DummyLM


class Protocol:
    """With the protocol, and no way to be made but its own."""

    capabilities = DummyLM.capabilities
    info = property(lambda self: self.inner.info)

    def __init__(self):
        self.inner = DummyLM()

    def encode(self, requests, *, seed=1234):
        return self.inner.encode(requests, seed=seed)

    def answer(self, requests):
        return self.inner.answer(requests)

    def chat_template(self, name=None):
        return self.inner.chat_template(name)


class Backend(DummyLM):
    pass


class LmEvals:
    """With lm-evaluation-harness's methods, or some of them."""

    def __init__(self, likely):
        self.likely = float(likely)
        self.model_identity = f"likes {likely}"

    def loglikelihood(self, requests):
        return [(self.likely - len(request.args[1]), False) for request in requests]


class Forgetful(LmEvals):
    def loglikelihood(self, requests):
        return super().loglikelihood(requests)[:-1]


NO_MODEL = 7
'''


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a module, in which a command is started."""
    (tmp_path / "our_models.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("our_models", None)


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    return write_toys(tmp_path_factory.mktemp("toys") / "toys")


def run(place, toys, *given):
    out = place / "out"
    status = main(
        ["run", *given, "--tasks", "toy_choice", "--include_path", str(toys), "--bootstrap_iters",
         "0", "--output_path", str(out)]
    )  # fmt: skip
    return status, out


def samples_in(out):
    (record,) = out.glob("*/record_*.json")
    (samples,) = out.glob("*/samples_*.parquet")
    return RunRecord.read(record), list(read_samples(samples))


@pytest.mark.parametrize("name", ["Protocol", "Backend"])
def test_a_class_with_the_protocol_is_evaluated(place, toys, name):
    status, out = run(place, toys, "--model", f"our_models:{name}")
    assert status == 0
    assert samples_in(out)[1]


def test_a_class_with_lm_evals_methods_is_evaluated_with_its_arguments(place, toys):
    status, out = run(place, toys, "--model", "our_models:LmEvals", "--model_args", "likely=-2")
    assert status == 0
    record, samples = samples_in(out)
    assert record.model["repository"] == "LmEvals"
    for sample in samples:
        for asked, answered in zip(sample["arguments"], sample["responses"], strict=True):
            assert answered["loglikelihood"] == -2 - len(asked["continuation"])


@pytest.mark.peer
def test_lm_evals_own_class_for_transformers_is_evaluated_as_it_is(place, toys):
    """It is a `TemplateLM`, which tokenises by itself; the numbers are those of our own."""
    pytest.importorskip("lm_eval")
    folder = tiny.make(place / "llama", positions=512)
    told = ["--model_args", f"pretrained={folder},dtype=float32", "--device", "cpu"]
    theirs = "lm_eval.models.huggingface:HFLM"
    status, out = run(place, toys, "--model", theirs, "--batch_size", "1", *told)
    assert status == 0
    record, samples = samples_in(out)
    out.rename(place / "theirs")
    status, out = run(place, toys, "--model", "hf", *told)
    assert status == 0
    own_record, own_samples = samples_in(out)
    assert [row.value for row in record.results] == [row.value for row in own_record.results]
    for sample, same in zip(samples, own_samples, strict=True):
        for answered, expected in zip(sample["responses"], same["responses"], strict=True):
            likely = pytest.approx(expected["loglikelihood"], abs=1e-3)
            assert answered["loglikelihood"] == likely
            assert answered["is_greedy"] == expected["is_greedy"]


def test_a_package_says_by_an_entry_point_which_models_it_brings(place, monkeypatch):
    point = EntryPoint("ours", "our_models:Backend", own.ENTRY_POINTS)
    points = {(own.ENTRY_POINTS, "ours"): [point]}
    monkeypatch.setattr(own, "entry_points", lambda group, name: points.get((group, name), []))
    assert backend_of("ours").__name__ == "Backend"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["no_such_module:Class"], "no_such_module:Class cannot be imported: ModuleNotFoundError"),
        (["our_models:NoSuch"], "our_models:NoSuch cannot be imported: AttributeError"),
        (["our_models:NO_MODEL"], "our_models:NO_MODEL is no model: expected a class with encode,"),
        (["our_models:LmEvals"], "it cannot be made of no arguments: TypeError: .*'likely'"),
        (
            ["our_models:LmEvals", "--model_args", "likely=very"],
            "it cannot be made of .*very.*: ValueError",
        ),
        (["our_modles"], "there are hf, .*a class of your own is module:Class"),
    ],
)
def test_what_is_no_model_is_refused_in_one_sentence(place, toys, given, said, capsys):
    status, _ = run(place, toys, "--model", *given)
    told = capsys.readouterr().err
    assert status == ModelError.exit_code
    assert "Traceback" not in told
    assert re.search(said, told), told


def test_check_model_ends_with_pass_or_fail(place, capsys):
    assert main(["check-model", "--model", "our_models:Backend"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("pass: ")
    stated = ["--model", "our_models:Forgetful", "--model_args", "likely=-1"]
    assert main(["check-model", *stated]) == 1
    told = capsys.readouterr().out
    assert "FAILED     requests and answers  it refuses" in told
    assert told.splitlines()[-1].startswith("fail: ")
