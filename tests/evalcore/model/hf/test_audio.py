"""Models that hear (`--model hf-audiolm-qwen`): a tiny Qwen2-Audio with its real processor."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from evalcore.cli import main
from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Request, Response
from evalcore.model.conformance import examine
from evalcore.model.registry import backend_of
from evalcore.model.sounds import Sound, at_rate
from evalcore.record import RunRecord, read_samples
from tests import tiny
from tests.hearing import RATE, make_hearing, sound_file, sound_keys, tone

SHORT = {"until": ["\n"], "max_gen_toks": 6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_hearing(tmp_path_factory.mktemp("hearing"))


def loaded(folder: Path, batch_size: int | None = None, **stated: Any) -> Any:
    how = {name: stated.pop(name) for name in ("mode", "weights") if name in stated}
    return backend_of("hf-audiolm-qwen").from_arguments(  # type: ignore[arg-type]
        {"pretrained": str(folder), "dtype": "float32", **stated},
        batch_size=batch_size,
        device="cpu",
        **how,
    )


def sound(number: int, *, seconds: float = 0.5, rate: int = RATE) -> Sound:
    samples = tone(number, seconds=seconds, rate=rate)
    return Sound({"array": samples, "sampling_rate": rate})


def asked(text: str, *sounds: Sound) -> Request:
    return Request("generate_until", text, generation=SHORT, sounds=sounds)


def answers(model: Any, requests: list[Request]) -> list[Response]:
    encoded = model.encode(requests)
    found = {index: response for pack in model.answer(encoded) for index, response in pack}
    return [found[index] for index in range(len(requests))]


def test_texts_do_not_depend_on_what_is_written_together(folder: Path) -> None:
    requests = [
        asked(f"<audio>What is it{'?' * number}", sound(number, seconds=0.2 + 0.3 * number))
        for number in range(4)
    ]
    requests += [asked("a <audio> and a <audio>?", sound(1), sound(3)), asked("No sound?")]
    together = answers(loaded(folder), requests)
    alone = answers(loaded(folder, batch_size=1), requests)
    assert [each.text for each in together] == [each.text for each in alone]
    assert len({each.text for each in together}) > 3
    assert [len(each.sounds) for each in together] == [1, 1, 1, 1, 2, 0]
    assert together[0].sounds == (sound(0, seconds=0.2).said,)


def test_it_conforms(folder: Path) -> None:
    report = examine(loaded(folder))
    assert report.passed, str(report)


def test_loglikelihoods_are_those_of_the_model_itself(folder: Path) -> None:
    """By transformers' own processor and model, in one pass, in float64."""
    model = loaded(folder)
    heard = [sound(0), sound(5, seconds=1.2)]
    requests = [
        Request("loglikelihood", f"<audio>What is number {number}?", " a tone", sounds=(each,))
        for number, each in enumerate(heard)
    ]
    processor, network = model._sense._processor, model._model
    for number, response in enumerate(answers(model, requests)):
        mark = "<|audio_bos|><|AUDIO|><|audio_eos|>"
        inputs = processor(
            text=[f"{mark}What is number {number}? a tone"],
            audio=[heard[number].samples],
            sampling_rate=RATE,
            return_tensors="pt",
        )
        with torch.inference_mode():
            said = network(**inputs).logits[0].double().log_softmax(-1)
        tokens = inputs["input_ids"][0].tolist()
        places = range(len(tokens) - len(response.token_ids), len(tokens))
        expected = sum(float(said[place - 1, tokens[place]]) for place in places)
        assert response.loglikelihood == pytest.approx(expected, abs=1e-4)


def test_a_key_is_of_the_sounds_and_a_pin_of_what_is_done_to_them(folder: Path) -> None:
    model = loaded(folder, weights=False)
    requests = [asked("<audio>?", sound(number)) for number in (0, 1, 0)]
    keys = [request.key for request in model.encode([*requests, asked("?")])]
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3
    strict = loaded(folder, weights=False, mode="strict")
    assert strict.info.processor != model.info.processor


def test_strict_brings_a_sound_to_the_rate_of_the_model(folder: Path) -> None:
    """compat gives it as it is, as lm-evaluation-harness does: three times as slow."""
    fast = sound(1, rate=3 * RATE)
    same = Sound({"array": at_rate(fast.samples, 3 * RATE, RATE), "sampling_rate": RATE})
    slow = Sound({"array": fast.samples, "sampling_rate": RATE})
    text = "<audio>What is it?"
    for mode, meant in (("strict", same), ("compat", slow)):
        model = loaded(folder, mode=mode)
        one, other = answers(model, [asked(text, fast), asked(text, meant)])
        assert (one.text, one.n_context_tokens) == (other.text, other.n_context_tokens)


REFUSED: dict[str, tuple[dict[str, Any], Request, type[Exception], str]] = {
    "no place": ({}, asked("What?", sound(0)), TaskError, "has no places for sounds (<audio>) and"),
    "more than max_audios": (
        {"max_audios": 1},
        asked("<audio><audio>", sound(0), sound(1)),
        ModelError,
        "max_audios=1: a prompt has 2 sounds, and without some of them it would be another",
    ),
    "not heard to its end": (
        {},
        asked("<audio>", sound(0, seconds=2.5)),
        ModelError,
        "a sound of 2.5 s, of which the model hears 2 s: cut it in doc_to_audio, or leave",
    ),
    "too long": (
        {"max_length": 30},
        asked("<audio>" + "a long question " * 4, sound(0)),
        ModelError,
        "a prompt with 1 sounds has ",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_prompt_that_cannot_be_read_is_refused(folder: Path, name: str) -> None:
    stated, request, kind, complaint = REFUSED[name]
    with pytest.raises(kind) as refused:
        loaded(folder, weights=False, **stated).encode([request])
    assert complaint in str(refused.value)


def test_a_model_without_ears_or_a_processor_is_refused_before_its_weights(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=r"\(model_type: llama\) is no model of sound"):
        loaded(tiny.make(tmp_path / "text"))
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "processor_config.json").unlink()
    for file in copy.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(ModelError, match="has no processor "):
        loaded(copy)
    with pytest.raises(ModelError, match=r"unknown argument 'max_audio' .did you mean max_audios"):
        loaded(copy, max_audio=3)


def test_a_command_evaluates_a_task_with_sounds(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"question": "What?", "answer": "x", "clip": sound_file(tone(number))}
        for number in range(3)
    ]
    keys = {**sound_keys(tmp_path, rows, "clip"), "task": "hears"}
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "hears.yaml").write_text(yaml.safe_dump(keys))
    said = ["run", "--include_path", str(tmp_path / "tasks"), "--tasks", "hears"]
    said += ["--model_args", f"pretrained={folder},dtype=float32", "--device", "cpu"]
    assert main([*said, "--model", "hf"]) != 0
    assert "hf hears no sounds, which hears needs: leave them out" in capsys.readouterr().err
    out = tmp_path / "out"
    how = ["--model", "hf-audiolm-qwen", "--output_path", str(out), "--log_samples"]
    assert main([*said, *how]) == 0, capsys.readouterr().err
    (path,) = out.rglob("record_hears_*.json")
    record = RunRecord.read(path)
    assert record.model["processor"]
    samples = list(read_samples(path.parent / record.samples.file))
    assert [each["sounds"][0]["seconds"] for each in samples] == [0.5] * 3
    assert np.unique([each["sounds"][0]["digest"] for each in samples]).size == 3
