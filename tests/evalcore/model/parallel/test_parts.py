"""A model whose layers are divided between two processes says what it says in one."""

from __future__ import annotations

import signal

import pytest
import torch
from torch import distributed

from evalcore.errors import InfraError, ModelError
from evalcore.model.forward.memory import end_where_divided
from evalcore.model.hf.choice import HuggingFace
from evalcore.model.parallel.messages import Loading
from evalcore.model.parallel.replicas import Replicas, replicas_of
from tests import tiny
from tests.evalcore.model.parallel.test_replicas import answers_of, check_equal, requests

TWO = ["cpu", "cpu"]


def loading_of(folder, **more):
    stated = {"pretrained": str(folder), "dtype": "float32", "tp_plan": "auto", **more}
    return Loading(backend="hf", arguments=stated, batch_size=None, device="cpu", mode="compat")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("model") / "llama", positions=1024)


@pytest.fixture(scope="module")
def divided(folder) -> Replicas:
    return replicas_of(loading_of(folder), TWO)


@pytest.fixture(scope="module")
def whole(folder):
    return HuggingFace.from_arguments({"pretrained": str(folder), "dtype": "float32"}, device="cpu")


def test_a_divided_model_says_what_the_whole_one_says(divided, whole):
    assert divided.info.model_key == whole.info.model_key
    assert divided.info.parameters == whole.info.parameters
    encoded = divided.encode(requests(120))
    check_equal(answers_of(divided, encoded), answers_of(whole, encoded))
    # Who stops reading finds both processes in step again.
    for _ in divided.answer(encoded):
        break
    check_equal(answers_of(divided, encoded[::-1]), answers_of(whole, encoded[::-1]))


def test_a_part_that_is_killed_ends_the_model(divided):
    second = divided._replicas[0].members[1].process
    assert second is not None
    second.send_signal(signal.SIGKILL)
    with pytest.raises(InfraError, match="part 2 of 2 of the model, on cpu, ended by signal 9"):
        answers_of(divided, divided.encode(requests(8)))


def test_a_model_of_which_nobody_says_how_it_is_divided_is_refused(tmp_path):
    bloom = tiny.make(tmp_path / "bloom", architecture="bloom")
    given = {"pretrained": str(bloom), "tp_plan": "auto"}
    with pytest.raises(ModelError, match="is none of the models of which transformers says how"):
        HuggingFace.from_arguments(given, device="cpu", weights=False)


def test_one_process_cannot_hold_a_divided_model(folder):
    with pytest.raises(ModelError, match="torchrun --nproc_per_node N"):
        HuggingFace.from_arguments({"pretrained": str(folder), "tp_plan": "auto"}, device="cpu")


@pytest.mark.parametrize("other", ["peft=org/adapter", "load_in_4bit=True", "parallelize=True"])
def test_what_cannot_be_divided_is_refused_before_anything_is_loaded(folder, other):
    name, _, value = other.partition("=")
    given = {"pretrained": str(folder), "tp_plan": "auto", name: value}
    with pytest.raises(ModelError, match=f"tp_plan and {name}"):
        HuggingFace.from_arguments(given, device="cpu")


def test_where_one_part_finds_no_memory_the_run_ends_for_the_others_would_wait(tmp_path):
    """In a group of one process, which is all that a test needs to come together."""
    distributed.init_process_group(
        "gloo", init_method=(tmp_path / "meeting").as_uri(), rank=0, world_size=1
    )
    try:
        with pytest.raises(InfraError, match="a process that holds a part of the model ran out"):
            end_where_divided(torch.OutOfMemoryError("too much"))
    finally:
        distributed.destroy_process_group()
    end_where_divided(torch.OutOfMemoryError("too much"))
