"""The table of a GPU is made at toy size on the CPU, and what of one cannot be right is found."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from bench.gpu import ASKED, main
from bench.kernel import attention_of_stretches
from bench.verdict import wrong
from evalcore.model.packs import stretches
from tests.evalcore.model.packs.test_stretches import plain_kernel


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of a model on this machine, where nothing is wrong; half precision is slow on a CPU."""
    file = tmp_path_factory.mktemp("gpu") / "found.json"
    toy = ["--device", "cpu", "--share", "0.1", "--dtype", "float32"]
    assert main([*toy, "--architecture", "mistral", "--output", str(file)]) == 0
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@pytest.fixture
def in_half(table: dict[str, Any]) -> dict[str, Any]:
    """The table, to be broken, with the same model as if it were in half precision, too."""
    half = copy.deepcopy(table["mistral float32"])
    return copy.deepcopy(table) | {"mistral bfloat16": half}


def test_every_model_workload_and_way_is_in_the_table(table: dict[str, Any]):
    assert set(table["mistral float32"]) == {*ASKED}
    for name, row in table["mistral float32"].items():
        for way in ("ours", "alone", "again", "known", "shuffled", "smaller"):
            assert row[way]["of"] > 0, (name, way)
    how = table["mistral float32"]["arc_25_shot_fixed"]["how"]
    assert how["loglikelihood"]["step"] == "in packs"


@pytest.mark.parametrize("way", ["ours", "again", "shuffled", "smaller"])
def test_a_loglikelihood_that_is_off_is_found(table: dict[str, Any], way: str):
    broken = copy.deepcopy(table)
    broken["mistral float32"]["mmlu_5_shot"][way]["largest"] = 0.002
    (problem,) = wrong(broken)
    assert problem == f"mistral float32 mmlu_5_shot: off by 0.002 nats, 0.0003 are allowed ({way})"
    assert not wrong(table)


def test_other_picks_texts_and_failures_are_found(in_half: dict[str, Any]):
    assert not wrong(in_half)
    full, half = in_half["mistral float32"], in_half["mistral bfloat16"]
    full["gsm8k_stops"]["ours"]["changed"] = 1
    full["mmlu_5_shot"]["known"]["changed"] = 2
    half["arc_25_shot_fixed"]["ours"]["largest"] = float("nan")
    half["gsm8k_stops"]["ours"]["changed"] = 1  # rounding may decide a text
    half["hellaswag_0_shot"]["ours"]["largest"] = 0.06
    half["nearly full"] = {"128 MiB": {"failed": "OutOfMemoryError: no"}}
    in_half["gemma2 bfloat16"] = {"failed": "RuntimeError: no kernel"}
    assert wrong(in_half) == [
        "mistral float32 mmlu_5_shot: 2 of 2 picks are others (known)",
        "mistral float32 gsm8k_stops: 1 of 2 texts are others (ours)",
        "mistral bfloat16 arc_25_shot_fixed: off by nan nats, 0.05 are allowed (ours)",
        "mistral bfloat16 hellaswag_0_shot: off by 0.06 nats, 0.05 are allowed (ours)",
        "mistral bfloat16 with 128 MiB of memory left: failed: OutOfMemoryError: no",
        "gemma2 bfloat16: failed: RuntimeError: no kernel",
    ]


def test_a_kernel_that_answers_otherwise_is_found(monkeypatch: pytest.MonkeyPatch):
    """As the one of a GPU would: here is none, so another is in its place."""

    def kernel(shift: int) -> Any:
        def flash(query: Any, key: Any, value: Any, call: Any, scale: float) -> Any:
            window = None if call.window is None else call.window + shift
            return plain_kernel(query, key, value, replace(call, window=window), scale)

        return flash

    monkeypatch.setattr(stretches, "takes", lambda *_: True)
    monkeypatch.setattr(stretches, "flash", kernel(0))
    found = attention_of_stretches(torch.device("cpu"))
    assert len(found) == 40
    assert not wrong({"alone on the device": {"attention": found}})
    monkeypatch.setattr(stretches, "flash", kernel(1))
    found = attention_of_stretches(torch.device("cpu"))
    told = wrong({"alone on the device": {"attention": found}})
    assert told
    assert all("a window of 33: " in problem for problem in told)


def test_what_time_does_not_allow_is_left_out_aloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "found.json"
    toy = ["--device", "cpu", "--share", "0.1", "--dtype", "float32", "--architecture", "mistral"]
    assert main([*toy, "--minutes", "1e-9", "--output", str(file)]) == 0
    assert "mistral float32: LEFT OUT, for want of time" in capsys.readouterr().out
