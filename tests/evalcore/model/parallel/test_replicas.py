"""A model that is several processes, each with a copy or a part of it, says what one says and ends
as one ends; and how a command asks for them, by an option or by a launcher that starts it."""

from __future__ import annotations

import os
from dataclasses import replace
from multiprocessing import Pipe

import pytest
import torch
from torch import distributed

from evalcore.errors import InfraError, ModelError
from evalcore.model.base import EncodedRequest, Request
from evalcore.model.forward.memory import end_where_divided
from evalcore.model.parallel.launch import Launched, copies_wanted, devices_of, launched
from evalcore.model.parallel.messages import Loaded, Loading
from evalcore.model.parallel.replicas import Member, Replica, Replicas, replicas_of
from evalcore.model.parallel.shares import shares_of
from tests import tiny
from tests.evalcore.model.asking import answers_to, load_by, run_toys, written_in


def loading_of(folder, **more):
    stated = {"pretrained": str(folder), "dtype": "float32", **more}
    return Loading(backend="hf", arguments=stated, batch_size=None, device="cpu", mode="compat")


@pytest.fixture(scope="module")
def two(folder) -> Replicas:
    return replicas_of(loading_of(folder), ["cpu", "cpu"])


def requests(number: int) -> list[Request]:
    """Many enough that each copy has several shares: choices after long contexts, and texts."""
    beginning = "A river is longer than a table, and made of water. " * 8
    asked = [
        Request("loglikelihood", f"{beginning}Question {place // 4}: which is it?\nAnswer:", end)
        for place in range(number)
        for end in [(" wood", " water", " a table", " a river that is long")[place % 4]]
    ]
    texts = [
        Request("generate_until", f"{beginning}{place}.", generation={"max_gen_toks": 8})
        for place in range(12)
    ]
    return [*asked, Request("loglikelihood_rolling", "", beginning * 3), *texts]


def check_equal(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.key == theirs.key
        assert ours.loglikelihood == pytest.approx(theirs.loglikelihood, abs=1e-4)
        assert ours.is_greedy == theirs.is_greedy
        assert ours.token_ids == theirs.token_ids
        assert (ours.text, ours.finish_reason) == (theirs.text, theirs.finish_reason)


def test_two_processes_say_what_one_says_under_the_same_keys(two, one):
    assert two.info.model_key == one.info.model_key
    encoded = two.encode(requests(400))
    assert [request.key for request in encoded] == [r.key for r in one.encode(requests(400))]
    assert len(list(shares_of(encoded, 2))) > 4  # so that each copy has more than one
    check_equal(answers_to(two, encoded), answers_to(one, encoded))
    assert two.first_forward is not None
    assert two.execution["loglikelihood"]["copies"] == 2
    assert two.execution["loglikelihood"]["path"] == one.execution["loglikelihood"]["path"]


def test_copies_of_a_model_with_an_encoder_say_how_they_computed(tmp_path):
    """Each has statements within statements: once all was answered, the run ended with an error."""
    folder = tiny.make_seq2seq(tmp_path / "t5")
    copies = replicas_of(loading_of(folder), ["cpu", "cpu"])
    asked = [request for request in requests(200) if request.kind != "loglikelihood_rolling"]
    alone = load_by("hf", folder)
    check_equal(answers_to(copies, copies.encode(asked)), answers_to(alone, alone.encode(asked)))
    for kind, said in alone.execution.items():
        assert copies.execution[kind] == {**said, "copies": 2}


def test_copies_go_on_after_who_stopped_reading_and_after_a_refusal(two, one):
    encoded = two.encode(requests(100))
    for _ in two.answer(encoded):
        break
    too_high = EncodedRequest.scoring([5, 10**6, 7], [7])
    with pytest.raises(ModelError, match="fails when it is computed"):
        answers_to(two, [too_high])
    other = two.encode(requests(60))[::-1]
    check_equal(answers_to(two, other), answers_to(one, other))


def test_a_model_that_no_copy_can_load_is_refused_as_by_one_process(tmp_path):
    with pytest.raises(ModelError, match="no-such-model at main is no model ID"):
        replicas_of(loading_of(tmp_path / "no-such-model"), ["cpu", "cpu"])


def test_copies_of_two_models_are_no_model(folder, one):
    """As where a repository's branch moved while they were loaded."""
    other = replace(one.info, commit="of another day")
    replicas = []
    for info in (one.info, other):
        ours, theirs = Pipe()
        theirs.send(Loaded(info, ()))
        replicas.append(Replica([Member("a copy", ours, None)]))
    with pytest.raises(InfraError, match="changed while its copies were loaded"):
        Replicas(one, replicas, loading_of(folder))


def test_a_model_that_cannot_be_divided_is_refused(folder, tmp_path):
    bloom = tiny.make(tmp_path / "bloom", architecture="bloom")
    with pytest.raises(ModelError, match="is none of the models of which transformers says how"):
        load_by("hf", bloom, weights=False, tp_plan="auto")
    with pytest.raises(ModelError, match="torchrun --nproc_per_node N"):
        load_by("hf", folder, tp_plan="auto")


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


def test_one_copy_is_the_model_as_it_is(folder, toys, tmp_path):
    """On any machine, as by default."""
    stated = ["--model_args", f"pretrained={folder},dtype=float32", "--output_path", tmp_path]
    assert run_toys(toys, *stated, "--data_parallel", 1) == 0
    record, _ = written_in(tmp_path)
    assert "copies" not in record.execution["loglikelihood"]


def test_each_copy_has_a_gpu_of_its_own():
    assert devices_of("auto", None, 3) == ["cuda:0", "cuda:1", "cuda:2"]
    assert devices_of(2, None, 3) == ["cuda:0", "cuda:1"]
    assert devices_of("auto", None, 0) == ["cpu"]
    with pytest.raises(ModelError, match="--data_parallel 4: this machine has 3 GPUs"):
        devices_of(4, None, 3)
    cores = os.cpu_count() or 1
    with pytest.raises(ModelError, match=f"has {cores} processor cores"):
        devices_of(cores + 1, "cpu", 0)


def test_a_launchers_processes_are_the_copies():
    assert copies_wanted(None, None) is None
    assert copies_wanted("auto", None) == "auto"
    assert copies_wanted(None, Launched(0, 2, 2)) == 2
    with pytest.raises(ModelError, match="the launcher has started 2 processes"):
        copies_wanted(3, Launched(0, 2, 2))
    with pytest.raises(ModelError, match="4 processes, 2 of them on this machine"):
        copies_wanted(None, Launched(0, 4, 2))


def test_a_rank_without_a_number_of_processes_is_somebody_elses_variable():
    two = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
    assert launched(two) == Launched(1, 2, 2)
    four = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    assert launched(four) == Launched(1, 4, 2)
    for environment in (
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"RANK": "2", "WORLD_SIZE": "2"},
        {"RANK": "1"},
        {"RANK": "major", "WORLD_SIZE": "2"},
        {"WORLD_SIZE": "8"},
    ):
        assert launched(environment) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--data_parallel 0", "--data_parallel: expected a count from 1, or auto, got '0'"),
        (
            "--data_parallel 2 --device cpu --model dummy",
            "--model dummy is not divided among processes",
        ),
        (
            "--data_parallel 2 --device cpu --max_cost 5 --prices p.yaml",
            "a model that is run here has no price",
        ),
        (
            "--data_parallel 2 --device cpu --model_args parallelize=True",
            "parallelize=True spreads a model over all GPUs",
        ),
        (
            "--model vllm --model_args data_parallel_size=2",
            "--data_parallel 2: this machine has no GPU",
        ),
        (
            "--model vllm --model_args data_parallel_size=two",
            "data_parallel_size: expected a whole number from 1, got 'two'",
        ),
        (
            "--model vllm --model_args data_parallel_size=2 --data_parallel 3",
            "--data_parallel 3 and data_parallel_size=2 say how many copies there are to be",
        ),
    ],
)
def test_copies_that_cannot_be_are_refused_in_one_sentence(given, said, folder, toys, capsys):
    assert run_toys(toys, "--model_args", f"pretrained={folder}", *given.split()) in (2, 10)
    assert said in capsys.readouterr().err
