"""A model is checked once on a machine: what that spares, and what makes it be checked again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.library import evaluate
from evalcore.model import kept_checks
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.seq2seq import Seq2SeqLM
from evalcore.model.hf.snapshot import Arguments
from tests import tiny
from tests.evalcore.toys import write_toys


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALCORE_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept" / "checks"


@pytest.fixture
def folder(tmp_path):
    return tiny.make(tmp_path / "model")


@pytest.fixture
def toys(tmp_path):
    return write_toys(tmp_path)


class Watched:
    """A model loaded as `evalcore run` does, and how many tokens it has been fed."""

    def __init__(self, folder, kind=HuggingFaceLM, *, again=False, batch_size=None, **stated):
        self.lm = kind(Arguments(pretrained=str(folder), **stated), batch_size=batch_size)
        self.lm.keep_checks(again=again)
        self.fed = 0
        self.lm._first_read.get_input_embeddings().register_forward_pre_hook(self._count)

    def _count(self, _, inputs):
        self.fed += inputs[0].numel()

    def asked(self, toys, task="toy_choice", **how):
        (done,) = evaluate(self.lm, [task], include_path=toys, bootstrap_iters=0, **how)
        return done

    def told(self, kind="loglikelihood"):
        return self.lm.execution[kind]["reason"]


def answers_of(done):
    return [
        answer.get("text") or (answer["loglikelihood"], answer["is_greedy"])
        for sample in done.samples
        for answer in sample["responses"]
    ]


def test_a_model_is_checked_once(folder, toys):
    first = Watched(folder)
    once = first.asked(toys)
    second = Watched(folder)
    twice = second.asked(toys)
    assert second.fed < 0.7 * first.fed
    assert "found on 20" in second.told()
    assert "found on" not in first.told()
    for (one, flag), (other, other_flag) in zip(answers_of(once), answers_of(twice), strict=True):
        assert one == pytest.approx(other, abs=1e-4)
        assert flag == other_flag


def test_nor_is_how_its_texts_are_written_tried_again(folder, toys):
    first = Watched(folder)
    once = first.asked(toys, "toy_written")
    second = Watched(folder)
    twice = second.asked(toys, "toy_written")
    assert second.fed < first.fed
    assert "found on 20" in second.told("generate_until")
    assert answers_of(once) == answers_of(twice)


def test_nor_one_with_an_encoder(tmp_path, toys):
    folder = tiny.make_seq2seq(tmp_path / "t5")
    first = Watched(folder, Seq2SeqLM)
    first.asked(toys)
    second = Watched(folder, Seq2SeqLM)
    second.asked(toys)
    assert second.fed < first.fed


def test_a_run_may_ask_for_the_check(folder, toys):
    counts = []
    for again in (False, True, False):
        model = Watched(folder, again=again)
        model.asked(toys)
        counts.append(model.fed)
    assert counts[0] == counts[1] > counts[2]


@pytest.mark.parametrize("other", ["weights", "precision", "rows", "library", "code"])
def test_what_computes_another_way_is_checked_again(folder, toys, other, monkeypatch, tmp_path):
    Watched(folder).asked(toys)
    how = {}
    if other == "weights":
        model = AutoModelForCausalLM.from_pretrained(folder)
        with torch.no_grad():
            model.lm_head.weight[0] += 1e-3
        model.save_pretrained(folder)
    elif other == "precision":
        how = {"dtype": "bfloat16"}
    elif other == "rows":
        how = {"batch_size": 2}
    elif other == "library":
        versions = {"transformers": "0.0.1"}
        monkeypatch.setattr(kept_checks, "version", lambda name: versions.get(name, "1"))
    else:
        copied = tmp_path / "evalcore" / "model" / "kept_checks.py"
        copied.parent.mkdir(parents=True)
        copied.write_text("# another line\n")
        monkeypatch.setattr(kept_checks, "__file__", str(copied))
        kept_checks._code_digest.cache_clear()
    again = Watched(folder, **how)
    kept_checks._code_digest.cache_clear()
    again.asked(toys)
    assert "found on" not in again.told()


def test_longer_requests_than_were_checked_are_checked(folder, toys):
    Watched(folder).asked(toys)
    longer = Watched(folder)
    longer.asked(toys, system_instruction="Think of what you know. " * 4)
    assert "found on" not in longer.told()
    shorter = Watched(folder)
    shorter.asked(toys)
    assert "found on" in shorter.told()


def test_a_way_that_fails_in_use_is_forgotten(folder, toys, cache):
    Watched(folder).asked(toys)
    (file,) = cache.iterdir()
    assert "in packs" in json.loads(file.read_text())
    failing = Watched(folder)

    def failing_forward(*_, **__):
        raise RuntimeError("no such kernel")

    own = failing.lm._model.base_model.forward
    failing.lm._model.base_model.forward = lambda *given, **named: (
        failing_forward() if named.get("position_ids") is not None else own(*given, **named)
    )
    failing.asked(toys)
    assert failing.lm.execution["loglikelihood"]["step"] != "in packs"
    assert "in packs" not in json.loads(file.read_text())


def test_a_model_that_sees_what_follows_is_refused_each_time(tmp_path, toys, folder, monkeypatch):
    monkeypatch.setattr(
        "evalcore.model.loglikelihood.scoring.moved_by_what_follows", lambda *_: 3.0
    )
    for _ in range(2):
        with pytest.raises(ModelError, match="not causal"):
            Watched(folder).asked(toys)


@pytest.mark.parametrize("damage", ["{", "[]", '{"in packs": 3}', '{"in packs": {}}', ""])
def test_a_damaged_file_is_as_none(folder, toys, cache, damage):
    Watched(folder).asked(toys)
    (file,) = cache.iterdir()
    file.write_text(damage)
    again = Watched(folder)
    again.asked(toys)
    assert "found on" not in again.told()
    assert "in packs" in json.loads(file.read_text())


def test_where_nothing_can_be_kept_the_model_is_checked(folder, toys, cache):
    cache.parent.write_text("a file, where a folder should be")
    for _ in range(2):
        model = Watched(folder)
        model.asked(toys)
        assert "found on" not in model.told()


def test_a_model_whose_code_is_run_is_always_checked(folder, toys, cache):
    model = Watched(folder)
    model.lm._files = model.lm._files.__class__(
        **{**vars(model.lm._files), "code": ("somebody/model@1234",)}
    )
    model.lm._checks.__init__()
    model.lm.keep_checks()
    model.asked(toys)
    assert not cache.exists()


def test_the_command_keeps_what_it_found_unless_told_otherwise(folder, toys, cache, capsys):
    command = [
        *("run", "--model_args", f"pretrained={folder}", "--tasks", "toy_choice"),
        *("--include_path", str(toys), "--device", "cpu", "--bootstrap_iters", "0"),
    ]

    def reason(*more: str) -> str:
        into = Path(cache.parent.parent, "-".join(("out", *more)))
        assert main([*command, "--output_path", str(into), *more]) == 0
        (record,) = into.rglob("record_*.json")
        return str(json.loads(record.read_text())["execution"]["loglikelihood"]["reason"])

    assert "found on" not in reason()
    assert "found on" in reason("--write_out")
    assert "found on" not in reason("--check_again")
