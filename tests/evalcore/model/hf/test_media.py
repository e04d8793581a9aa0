"""Models that see (`--model hf-multimodal`) and that hear (`--model hf-audiolm-qwen`): tiny ones
with their real processors. What they refuse, what their keys and pins hold, and that batches change
nothing; their prompts and texts are compared with lm-evaluation-harness's in tests/parity."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from transformers import AutoModelForImageTextToText

from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Conversation, Request, Turn
from evalcore.model.conformance import examine
from evalcore.model.hf.eyes import smaller
from evalcore.model.pictures import Picture
from evalcore.model.sounds import Sound, at_rate
from tests import tiny
from tests.drawn import drawn, encoded, write_rows
from tests.evalcore.model.asking import answers_of, ends_texts, load_by, run_toys, written_in
from tests.senses import RATE, make_hearing, make_seeing, sound_file, sound_keys, tone

SEEING = ("llava", "idefics3", "qwen2_vl")
HEARING = "qwen2_audio"
SHORT = {"until": ["\n"], "max_gen_toks": 6}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {name: make_seeing(tmp_path_factory.mktemp(name), architecture=name) for name in SEEING}
    return {**made, HEARING: make_hearing(tmp_path_factory.mktemp(HEARING))}


def loaded(folder: Any, batch_size: int | None = None, **how: Any) -> Any:
    """By the backend that the folder's name tells."""
    name = "hf-audiolm-qwen" if HEARING in Path(folder).name else "hf-multimodal"
    return load_by(name, folder, batch_size=batch_size, **how)


def sound(number: int, *, seconds: float = 0.5, rate: int = RATE) -> Sound:
    samples = tone(number, seconds=seconds, rate=rate)
    return Sound({"array": samples, "sampling_rate": rate})


def looks(text: str, *numbers: int) -> Request:
    seen = tuple(Picture(drawn(number)) for number in numbers)
    return Request("generate_until", text, generation=SHORT, images=seen)


def hears(text: str, *sounds: Sound) -> Request:
    return Request("generate_until", text, generation=SHORT, sounds=sounds)


def texts_of(model: Any, requests: list[Request]) -> list[str | None]:
    return [response.text for response in answers_of(model, requests)]


@pytest.mark.parametrize("name", [*SEEING, HEARING])
def test_texts_do_not_depend_on_what_is_written_together(folders, name):
    if name == HEARING:
        requests = [
            hears(f"<audio>What is it{'?' * number}", sound(number, seconds=0.2 + 0.3 * number))
            for number in range(4)
        ]
        requests += [hears("a <audio> and a <audio>?", sound(1), sound(3)), hears("No sound?")]
    else:
        requests = [looks(f"<image>What is on it, {'x' * number}?", number) for number in range(5)]
        requests += [looks("a <image> and a <image>?", 1, 3), looks("No image?")]
    together, alone = loaded(folders[name]), loaded(folders[name], batch_size=1)
    answers = answers_of(together, requests)
    texts = [response.text for response in answers]
    assert texts == texts_of(alone, requests)
    assert len({*texts}) > 3
    if name == HEARING:
        assert answers[0].sounds == (sound(0, seconds=0.2).said,)
        assert answers[-1].sounds == ()
    else:
        picture = Picture(drawn(0))
        size = f"{picture.width}x{picture.height}"
        assert answers[0].images == (f"sha256:{picture.digest} {size}",)
        assert answers[-1].images == ()
    assert together.execution["generate_until"]["step"] == "in batches"


@pytest.mark.parametrize("name", ["qwen2_vl", HEARING])
def test_models_of_media_conform(folders, name):
    report = examine(loaded(folders[name]))
    assert report.passed, str(report)
    not_asked = {finding.check for finding in report.findings if finding.verdict == "not asked"}
    assert not_asked == {"whole texts"}, str(report)


def scored(context: str, continuation: str, **media: Any) -> Request:
    return Request("loglikelihood", context, continuation, **media)


@pytest.mark.parametrize("name", [*SEEING, HEARING])
def test_loglikelihoods_are_those_of_the_model_itself(folders, name):
    """By transformers' own processor and model, in one pass, in float64."""
    model = loaded(folders[name])
    processor, network = model._sense._processor, model._model
    if name == HEARING:
        mark = "<|audio_bos|><|AUDIO|><|audio_eos|>"
        heard = [sound(0), sound(5, seconds=1.2)]
        requests = [scored("<audio>What is it?", " a tone", sounds=(each,)) for each in heard]
        given = [{"audio": [each.samples], "sampling_rate": RATE} for each in heard]
    else:
        mark = processor.tokenizer.decode([network.config.image_token_id])
        numbers = [(1,), (2,), (0, 3)]
        texts = [("<image>On it?\nAnswer:", " a line"), ("<image>Is it", " x ")]
        texts.append(("<image>or <image>? ", "the first"))
        requests = [
            scored(*text, images=tuple(Picture(drawn(number)) for number in of))
            for text, of in zip(texts, numbers, strict=True)
        ]
        given = [{"images": [[drawn(number) for number in of]]} for of in numbers]
    for request, media, response in zip(requests, given, answers_of(model, requests), strict=True):
        text = (request.context + request.continuation).replace("<image>", mark)
        inputs = processor(text=[text.replace("<audio>", mark)], return_tensors="pt", **media)
        with torch.inference_mode():
            said = network(**inputs).logits[0].double().log_softmax(-1)
        tokens = inputs["input_ids"][0].tolist()
        written = processor.tokenizer.decode(tokens[-len(response.token_ids) :])
        assert written in (request.continuation, f" {request.continuation}")  # its space first
        places = range(len(tokens) - len(response.token_ids), len(tokens))
        expected = sum(float(said[place - 1, tokens[place]]) for place in places)
        assert response.loglikelihood == pytest.approx(expected, abs=1e-4)
        greedy = [int(row.argmax()) for row in said[-len(response.token_ids) - 1 : -1]]
        assert response.is_greedy == (greedy == list(response.token_ids))


class Confused:
    """A processor that gives every prompt of a batch the first one's image."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    def __call__(self, *, text: list[str], images: list[Any], **how: Any) -> Any:
        return self._processor(text=text, images=[images[0]] * len(images), **how)


class Blind(Confused):
    """A processor that passes over images."""

    def __call__(self, *, text: list[str], images: list[Any], **how: Any) -> Any:
        return self._processor.tokenizer([each.replace("<image>", "") for each in text], **how)


def test_rows_that_would_change_each_other_are_written_alone(folders):
    requests = [looks("<image>What is it?", number) for number in range(3)]
    expected = texts_of(loaded(folders["llava"], 1), requests)
    model = loaded(folders["llava"])
    model._sense._processor = Confused(model._sense._processor)
    assert texts_of(model, requests) == expected
    assert model.execution["generate_until"]["step"] == "one by one"


def test_an_image_that_would_not_be_seen_is_refused(folders):
    model = loaded(folders["llava"], weights=False)
    model._sense._processor = Blind(model._sense._processor)
    with pytest.raises(ModelError, match="no tokens for 1 image, which would not be seen: state"):
        model.encode([looks("<image>?", 0)])


def test_a_key_is_of_the_media_and_a_pin_of_what_is_done_to_them(folders, tmp_path):
    """Weights and tokenizer are the same; a local folder's digest is of the weights alone."""
    of_images = [looks("<image>?", 0), looks("<image>?", 1), looks("<image>?", 0), looks("?")]
    of_sounds = [*(hears("<audio>?", sound(number)) for number in (0, 1, 0)), hears("?")]
    for name, requests in (("llava", of_images), (HEARING, of_sounds)):
        keys = [each.key for each in loaded(folders[name], weights=False).encode(requests)]
        assert keys[0] == keys[2]
        assert len(set(keys)) == 3

    def info(name, **stated):
        return loaded(folders[name], weights=False, **stated).info

    assert info(HEARING, mode="strict").processor != info(HEARING).processor
    done = ({}, {"image_width": 20}, {"image_max_side": 20}, {"convert_img_format": True})
    assert len({info("llava", **stated).model_key for stated in done}) == len(done)
    assert info("llava", max_images=3).model_key == info("llava").model_key
    copy = shutil.copytree(folders["llava"], tmp_path / "copy")
    file = copy / "processor_config.json"
    stated = json.loads(file.read_text())
    stated["image_processor"]["image_mean"] = [0.1, 0.2, 0.3]
    file.write_text(json.dumps(stated))
    before, after = loaded(folders["llava"]).info, loaded(copy).info
    assert before.files_digest == after.files_digest
    assert before.processor != after.processor


def test_strict_brings_a_sound_to_the_rate_of_the_model(folders):
    """compat gives it as it is, as lm-evaluation-harness does: three times as slow."""
    fast = sound(1, rate=3 * RATE)
    same = Sound({"array": at_rate(fast.samples, 3 * RATE, RATE), "sampling_rate": RATE})
    slow = Sound({"array": fast.samples, "sampling_rate": RATE})
    for mode, meant in (("strict", same), ("compat", slow)):
        model = loaded(folders[HEARING], mode=mode)
        requests = [hears("<audio>What is it?", each) for each in (fast, meant)]
        one, other = answers_of(model, requests)
        assert (one.text, one.n_context_tokens) == (other.text, other.n_context_tokens)


LONG = "a long question " * 4
REFUSED: dict[str, tuple[str, dict[str, Any], Request, type[Exception], str]] = {
    "no place": (
        *("qwen2_vl", {}, looks("What?", 0), TaskError),
        "a prompt has no places for images (<image>) and 1 image: write <image> into doc_to_text",
    ),
    "a place too many": (
        *("qwen2_vl", {}, looks("<image> <image>", 0), TaskError),
        "2 places for images",
    ),
    "more than max_images": (
        *("qwen2_vl", {"max_images": 1}, looks("<image><image>", 0, 1), ModelError),
        "max_images=1: a prompt has 2 images, and without some of them it would be another",
    ),
    "a mark that is none": (
        *("qwen2_vl", {"image_string": "[IMG]"}, looks("<image>?", 0), ModelError),
        "its processor fails, image_string=[IMG]: ",
    ),
    "too long": (
        *("qwen2_vl", {"max_length": 20}, looks(f"<image>{LONG}", 0), ModelError),
        "the model's length of 20 leaves room for 14: lower max_gen_toks, make images smaller",
    ),
    "no place for a sound": (
        *(HEARING, {}, hears("What?", sound(0)), TaskError),
        "has no places for sounds (<audio>) and",
    ),
    "more than max_audios": (
        *(HEARING, {"max_audios": 1}, hears("<audio><audio>", sound(0), sound(1)), ModelError),
        "max_audios=1: a prompt has 2 sounds, and without some of them it would be another",
    ),
    "not heard to its end": (
        *(HEARING, {}, hears("<audio>", sound(0, seconds=2.5)), ModelError),
        "a sound of 2.5 s, of which the model hears 2 s: cut it in doc_to_audio, or leave",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_prompt_that_cannot_be_read_is_refused(folders, case):
    name, stated, request, kind, complaint = REFUSED[case]
    with pytest.raises(kind) as refused:
        loaded(folders[name], weights=False, **stated).encode([request])
    assert complaint in str(refused.value)


def test_strict_asks_about_no_image_behind_the_end_of_a_text(folders, tmp_path):
    folder = ends_texts(shutil.copytree(folders["qwen2_vl"], tmp_path / "model"), "$A </s>")
    asked = [looks("<image>What?", 0)]
    assert loaded(folder, weights=False).encode(asked)[0].tokens[-1] == 1
    with pytest.raises(ModelError, match="puts </s> behind every text, and its processor leaves"):
        loaded(folder, weights=False, mode="strict").encode(asked)


@pytest.mark.parametrize(
    ("stated", "complaint"),
    [
        ({"peft": "some/adapter"}, "argument 'peft' is not taken: models that see or hear are"),
        ({"max_imges": 3}, "unknown argument 'max_imges' (did you mean max_images"),
        ({"max_images": "some"}, "max_images: expected a count of images, got 'some'"),
        ({"image_max_side": 9, "image_height": 9}, "image_max_side and image_height: an image"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_arguments_are_refused_before_anything_is_loaded(stated, complaint):
    with pytest.raises(ModelError) as refused:
        loaded("nobody/nothing", **stated)
    assert complaint in str(refused.value)


@pytest.mark.parametrize("name", ["llava", HEARING])
def test_a_model_that_cannot_see_or_hear_is_refused_before_its_weights_are_wanted(
    folders, tmp_path, name
):
    copy = shutil.copytree(folders[name], tmp_path / f"{name} copied")
    (copy / "processor_config.json").unlink()
    for file in copy.glob("*.safetensors"):
        file.unlink()
    with pytest.raises(ModelError, match="has no processor "):
        loaded(copy)
    of_text = tiny.make(tmp_path / f"{name} of text")
    said = (
        r"\(model_type: llama\) is no model of sound"
        if name == HEARING
        else "is no model of images"
    )
    with pytest.raises(ModelError, match=said):
        loaded(of_text)


def test_a_conversation_has_its_images_where_its_text_has_them_and_one_bos_in_strict(folders):
    """compat doubles one that a chat template wrote, as lm-evaluation-harness does."""
    turns = (Turn("system", "Look."), Turn("user", "a <image> b <image>"))
    for mode, n_bos in (("compat", 2), ("strict", 1)):
        model = loaded(folders["llava"], weights=False, mode=mode)
        text = Conversation(turns, answer_begins=True, template=model.chat_template()).text
        assert text == "<|system|>Look.\n<|user|>a <image> b <image>\n<|assistant|>"
        (read,) = model.encode([looks("<s><image>?", 0)])
        assert read.tokens.count(0) == n_bos
    first = loaded(folders["llava"], weights=False, interleave=False).chat_template()
    text = Conversation(turns[1:], answer_begins=True, template=first).text
    assert text == "<|user|><image><image>a  b \n<|assistant|>"


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        ((None, None, None), (60, 40)),
        ((30, None, None), (30, 20)),
        ((30, 10, None), (15, 10)),
        ((None, None, 30), (30, 20)),
        ((90, 90, None), (60, 40)),
        ((None, None, 90), (60, 40)),
    ],
)
def test_an_image_is_made_smaller_in_its_shape(limits, size):
    image = drawn(1, size=(60, 40))
    assert smaller(image, *limits).size == size
    width, height, longest = limits
    assert smaller(image.transpose(2), height, width, longest).size == size[::-1]


def run_task(folder, tasks, name, backend, *more):
    stated = ["--model_args", f"pretrained={folder},dtype=float32", "--device", "cpu"]
    return run_toys(tasks, "--model", backend, *stated, *more, task=name)


def test_a_command_evaluates_a_task_with_images(folders, tmp_path, capsys):
    rows = [
        {"question": f"What is {number}?", "answer": "x", "picture": encoded(drawn(number))}
        for number in range(4)
    ]
    file = write_rows(tmp_path / "test.parquet", rows, "picture")
    tasks, out = tmp_path / "tasks", tmp_path / "out"
    tasks.mkdir()
    keys = {
        "dataset_path": "parquet",
        "dataset_kwargs": {
            "data_files": {"test": str(file)},
            "cache_dir": str(tmp_path / "cache"),
        },
        "test_split": "test",
        "doc_to_text": "<image>{{question}}",
        "doc_to_image": ["picture"],
    }
    written = {"doc_to_target": "answer", "output_type": "generate_until"}
    written |= {"generation_kwargs": SHORT, "metric_list": [{"metric": "exact_match"}]}
    chosen = {"doc_to_target": 0, "output_type": "multiple_choice", "doc_to_choice": ["x"]}
    chosen |= {"metric_list": [{"metric": "acc"}]}
    for name, more in (("writes", written), ("chooses", chosen)):
        told = {"task": name, **keys, **more}
        (tasks / f"{name}.yaml").write_text(yaml.safe_dump(told))
    folder = folders["idefics3"]
    assert run_task(folder, tasks, "chooses", "hf-multimodal") == 0, capsys.readouterr().err
    assert run_task(folder, tasks, "writes", "hf") != 0
    assert "hf sees no images, which writes needs" in capsys.readouterr().err
    more = ["--output_path", str(out), "--log_samples"]
    assert run_task(folder, tasks, "writes", "hf-multimodal", *more) == 0, capsys.readouterr().err
    record, samples = written_in(out)
    assert record.model["processor"]
    assert [sample["images"][0]["digest"] for sample in samples] == [
        Picture(drawn(number)).digest for number in range(4)
    ]


def test_a_command_evaluates_a_task_with_sounds(folders, tmp_path, capsys):
    rows = [
        {"question": "What?", "answer": "x", "clip": sound_file(tone(number))}
        for number in range(3)
    ]
    keys = {**sound_keys(tmp_path, rows, "clip"), "task": "hears"}
    tasks, out = tmp_path / "tasks", tmp_path / "out"
    tasks.mkdir()
    (tasks / "hears.yaml").write_text(yaml.safe_dump(keys))
    folder = folders[HEARING]
    assert run_task(folder, tasks, "hears", "hf") != 0
    assert "hf hears no sounds, which hears needs: leave them out" in capsys.readouterr().err
    more = ["--output_path", str(out), "--log_samples"]
    assert run_task(folder, tasks, "hears", "hf-audiolm-qwen", *more) == 0, capsys.readouterr().err
    record, samples = written_in(out)
    assert record.model["processor"]
    assert [each["sounds"][0]["seconds"] for each in samples] == [0.5] * 3
    assert np.unique([each["sounds"][0]["digest"] for each in samples]).size == 3


@pytest.mark.parametrize("name", SEEING)
def test_the_text_part_of_a_model_that_sees_is_asked_by_hf(folders, name):
    """transformers has no class for texts alone: it says what the whole does without images."""
    model = load_by("hf", folders[name])
    requests = [
        scored("A table is made of" * number, choice)
        for number in (1, 2, 40)
        for choice in (" wood", " a river", " x")
    ]
    ids = [list(request.tokens) for request in model.encode(requests)]
    network: Any = AutoModelForImageTextToText.from_pretrained(folders[name]).eval()
    for answer, request, row in zip(
        answers_of(model, requests), model.encode(requests), ids, strict=True
    ):
        targets = list(request.targets)
        with torch.inference_mode():
            logits = network(torch.tensor([row])).logits[0, -len(targets) :].double()
        expected = logits.log_softmax(-1).gather(1, torch.tensor(targets)[:, None]).sum()
        assert answer.loglikelihood == pytest.approx(float(expected), abs=1e-4)
    assert model.info.architecture == type(network).__name__
    [text] = texts_of(model, [Request("generate_until", "A table is made of", generation=SHORT)])
    assert text == texts_of(loaded(folders[name]), [looks("A table is made of")])[0]
    assert examine(model).passed
