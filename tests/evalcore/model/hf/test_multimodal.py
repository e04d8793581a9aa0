"""`--model hf-multimodal`: what it refuses, what its keys and pins hold, and that batches change
nothing. Its prompts and texts are compared with lm-evaluation-harness's in tests/parity."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from evalcore.cli import main
from evalcore.errors import ModelError, TaskError
from evalcore.model.base import Conversation, Request, Response, Turn
from evalcore.model.conformance import examine
from evalcore.model.hf.eyes import smaller
from evalcore.model.pictures import Picture
from evalcore.model.registry import backend_of
from evalcore.record import RunRecord, read_samples
from tests import tiny
from tests.drawn import drawn, encoded, write_rows
from tests.seeing import make_seeing

ARCHITECTURES = ("llava", "idefics3", "qwen2_vl")
SHORT = {"until": ["\n"], "max_gen_toks": 6}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        name: make_seeing(tmp_path_factory.mktemp(name), architecture=name)
        for name in ARCHITECTURES
    }


def loaded(folder: Path, batch_size: int | None = None, **stated: Any) -> Any:
    mode = stated.pop("mode", "compat")
    weights = stated.pop("weights", True)
    return backend_of("hf-multimodal").from_arguments(  # type: ignore[arg-type]
        {"pretrained": str(folder), "dtype": "float32", **stated},
        batch_size=batch_size,
        device="cpu",
        mode=mode,
        weights=weights,
    )


def asked(text: str, *numbers: int, **generation: Any) -> Request:
    seen = tuple(Picture(drawn(number)) for number in numbers)
    return Request("generate_until", text, generation={**SHORT, **generation}, images=seen)


def answers(model: Any, requests: list[Request]) -> list[Response]:
    encoded_ = model.encode(requests)
    found = {index: response for pack in model.answer(encoded_) for index, response in pack}
    return [found[index] for index in range(len(requests))]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_texts_do_not_depend_on_what_is_written_together(
    folders: dict[str, Path], architecture: str
) -> None:
    requests = [asked(f"<image>What is on it, {'x' * number}?", number) for number in range(5)]
    requests += [asked("a <image> and a <image>?", 1, 3), asked("No image?"), asked("None, too?")]
    together, alone = loaded(folders[architecture]), loaded(folders[architecture], batch_size=1)
    texts = [response.text for response in answers(together, requests)]
    assert texts == [response.text for response in answers(alone, requests)]
    assert together.execution["generate_until"]["step"] == "in batches"
    assert texts == [answers(together, [request])[0].text for request in requests]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_conforms(folders: dict[str, Path], architecture: str) -> None:
    report = examine(loaded(folders[architecture]))
    assert report.passed, str(report)
    not_asked = {finding.check for finding in report.findings if finding.verdict == "not asked"}
    assert not_asked == {"whole texts"}, str(report)


class Confused:
    """A processor that gives every prompt of a batch the first one's image."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    def __call__(self, *, text: list[str], images: list[Any], **how: Any) -> Any:
        return self._processor(text=text, images=[images[0]] * len(images), **how)


def test_rows_that_would_change_each_other_are_written_alone(folders: dict[str, Path]) -> None:
    requests = [asked("<image>What is it?", number) for number in range(3)]
    expected = [response.text for response in answers(loaded(folders["llava"], 1), requests)]
    model = loaded(folders["llava"])
    model._sense._processor = Confused(model._sense._processor)
    assert [response.text for response in answers(model, requests)] == expected
    assert model.execution["generate_until"]["step"] == "one by one"


def test_answers_say_which_images_were_seen(folders: dict[str, Path]) -> None:
    one, none = answers(loaded(folders["llava"]), [asked("<image>?", 2), asked("?")])
    picture = Picture(drawn(2))
    assert one.images == (f"sha256:{picture.digest} {picture.width}x{picture.height}",)
    assert none.images == ()


def test_a_key_is_of_the_images_and_a_pin_of_what_is_done_to_them(
    folders: dict[str, Path],
) -> None:
    folder = folders["llava"]
    model = loaded(folder, weights=False)
    requests = [asked("<image>?", 0), asked("<image>?", 1), asked("<image>?", 0), asked("?")]
    keys = [request.key for request in model.encode(requests)]
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3
    pins = {
        str(stated): loaded(folder, weights=False, **stated).info.model_key
        for stated in (
            {},
            {"image_width": 20},
            {"image_max_side": 20},
            {"convert_img_format": True},
        )
    }
    assert len(set(pins.values())) == len(pins)
    assert loaded(folder, weights=False, max_images=3).info.model_key == pins["{}"]


def test_another_processor_is_another_model(folders: dict[str, Path], tmp_path: Path) -> None:
    """Weights and tokenizer are the same; a local folder's digest is of the weights alone."""
    copy = shutil.copytree(folders["llava"], tmp_path / "copy")
    file = copy / "processor_config.json"
    stated = json.loads(file.read_text())
    stated["image_processor"]["image_mean"] = [0.1, 0.2, 0.3]
    file.write_text(json.dumps(stated))
    before, after = loaded(folders["llava"]).info, loaded(copy).info
    assert before.files_digest == after.files_digest
    assert before.processor != after.processor


REFUSED: dict[str, tuple[dict[str, Any], tuple[str, tuple[int, ...]], type[Exception], str]] = {
    "no place": (
        {},
        ("What?", (0,)),
        TaskError,
        "a prompt has no places for images (<image>) and 1 image: write <image> into doc_to_text",
    ),
    "a place too many": ({}, ("<image> <image>", (0,)), TaskError, "2 places for images"),
    "more than max_images": (
        {"max_images": 1},
        ("<image><image>", (0, 1)),
        ModelError,
        "max_images=1: a prompt has 2 images, and without some of them it would be another",
    ),
    "a mark that is none": (
        {"image_string": "[IMG]"},
        ("<image>?", (0,)),
        ModelError,
        "its processor fails, image_string=[IMG]: ",
    ),
    "too long": (
        {"max_length": 20},
        ("<image>" + "a long question " * 4, (0,)),
        ModelError,
        "the model's length of 20 leaves room for 14: lower max_gen_toks, make images smaller",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_prompt_that_cannot_be_read_is_refused(folders: dict[str, Path], name: str) -> None:
    stated, (text, images), kind, complaint = REFUSED[name]
    with pytest.raises(kind) as refused:
        loaded(folders["qwen2_vl"], weights=False, **stated).encode([asked(text, *images)])
    assert complaint in str(refused.value)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_loglikelihoods_are_those_of_the_model_itself(
    folders: dict[str, Path], architecture: str
) -> None:
    """By transformers' own processor and model, in one pass, in float64."""
    model = loaded(folders[architecture])
    asked_ = [("<image>What is on it?\nAnswer:", " a line", (1,)), ("<image>Is it", " x ", (2,))]
    asked_.append(("<image>or <image>? ", "the first", (0, 3)))
    requests = [
        Request(
            "loglikelihood",
            context,
            continuation,
            images=tuple(Picture(drawn(number)) for number in numbers),
        )
        for context, continuation, numbers in asked_
    ]
    processor, network = model._sense._processor, model._model
    mark = processor.tokenizer.decode([network.config.image_token_id])
    for response, (context, continuation, numbers) in zip(
        answers(model, requests), asked_, strict=True
    ):
        text = (context + continuation).replace("<image>", mark)
        inputs = processor(
            text=[text], images=[[drawn(number) for number in numbers]], return_tensors="pt"
        )
        with torch.inference_mode():
            said = network(**inputs).logits[0].double().log_softmax(-1)
        tokens = inputs["input_ids"][0].tolist()
        written = processor.tokenizer.decode(tokens[-len(response.token_ids) :])
        assert written == continuation or written == " " + continuation  # whose space comes first
        expected = sum(
            float(said[place - 1, tokens[place]])
            for place in range(len(tokens) - len(response.token_ids), len(tokens))
        )
        assert response.loglikelihood == pytest.approx(expected, abs=1e-4)
        greedy = [int(row.argmax()) for row in said[-len(response.token_ids) - 1 : -1]]
        assert response.is_greedy == (greedy == list(response.token_ids))


def test_a_continuation_is_likelier_or_not_by_its_image(folders: dict[str, Path]) -> None:
    requests = [
        Request("loglikelihood", "<image>?", " a line", images=(Picture(drawn(number)),))
        for number in (0, 1, 0)
    ]
    model = loaded(folders["llava"])  # whose images have as many tokens, all of them
    keys = [request.key for request in model.encode(requests)]
    assert keys[0] == keys[2] != keys[1]
    first, other, again = answers(model, requests)
    assert first.loglikelihood == again.loglikelihood != other.loglikelihood
    assert first.images == (Picture(drawn(0)).said,)


class Blind(Confused):
    """A processor that passes over images."""

    def __call__(self, *, text: list[str], images: list[Any], **how: Any) -> Any:
        return self._processor.tokenizer([each.replace("<image>", "") for each in text], **how)


def test_an_image_that_would_not_be_seen_is_refused(folders: dict[str, Path]) -> None:
    model = loaded(folders["llava"], weights=False)
    model._sense._processor = Blind(model._sense._processor)
    with pytest.raises(ModelError, match="no tokens for 1 image, which would not be seen: state"):
        model.encode([asked("<image>?", 0)])


@pytest.mark.parametrize(
    ("stated", "complaint"),
    [
        ({"peft": "some/adapter"}, "argument 'peft' is not taken: models that see or hear are"),
        ({"add_bos_token": True}, "argument 'add_bos_token' is not taken: the processor adds"),
        ({"max_imges": 3}, "unknown argument 'max_imges' (did you mean max_images"),
        ({"max_images": "some"}, "max_images: expected a count of images, got 'some'"),
        ({"image_max_side": 9, "image_height": 9}, "image_max_side and image_height: an image"),
    ],
)
def test_arguments_are_refused_before_anything_is_loaded(
    stated: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ModelError) as refused:
        loaded(Path("nobody/nothing"), **stated)
    assert complaint in str(refused.value)


def test_a_model_without_a_processor_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    copy = shutil.copytree(folders["llava"], tmp_path / "copy")
    (copy / "processor_config.json").unlink()
    for file in copy.glob("*.safetensors"):
        file.unlink()  # it is refused before they are wanted
    with pytest.raises(ModelError, match="has no processor "):
        loaded(copy)


def test_a_model_of_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is no model of images and text that"):
        loaded(tiny.make(tmp_path))


def test_a_conversation_has_its_images_where_its_text_has_them(folders: dict[str, Path]) -> None:
    template = loaded(folders["llava"], weights=False).chat_template()
    turns = (Turn("system", "Look."), Turn("user", "a <image> b <image>"))
    text = Conversation(turns, answer_begins=True, template=template).text
    assert text == "<|system|>Look.\n<|user|>a <image> b <image>\n<|assistant|>"
    first = loaded(folders["llava"], weights=False, interleave=False).chat_template()
    text = Conversation(turns[1:], answer_begins=True, template=first).text
    assert text == "<|user|><image><image>a  b \n<|assistant|>"


def test_strict_writes_one_bos(folders: dict[str, Path]) -> None:
    """compat doubles one that a chat template wrote, as lm-evaluation-harness does."""
    bos = 0
    for mode, expected in (("compat", 2), ("strict", 1)):
        model = loaded(folders["llava"], weights=False, mode=mode)
        (read,) = model.encode([asked("<s><image>?", 0)])
        assert read.tokens.count(bos) == expected


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        ((None, None, None), (60, 40)),
        ((30, None, None), (30, 20)),
        ((None, 10, None), (15, 10)),
        ((30, 10, None), (15, 10)),
        ((None, None, 30), (30, 20)),
        ((90, 90, None), (60, 40)),
        ((90, None, None), (60, 40)),
        ((None, None, 90), (60, 40)),
    ],
)
def test_an_image_is_made_smaller_in_its_shape(
    limits: tuple[int | None, int | None, int | None], size: tuple[int, int]
) -> None:
    image = drawn(1, size=(60, 40))
    assert smaller(image, *limits).size == size
    upright = image.transpose(2)
    width, height, longest = limits
    assert smaller(upright, height, width, longest).size == size[::-1]


def test_a_command_evaluates_a_task_with_images(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"question": f"What is {number}?", "answer": "x", "picture": encoded(drawn(number))}
        for number in range(4)
    ]
    file = write_rows(tmp_path / "test.parquet", rows, "picture")
    (tmp_path / "tasks").mkdir()
    keys = {
        "task": "looks",
        "dataset_path": "parquet",
        "dataset_kwargs": {
            "data_files": {"test": str(file)},
            "cache_dir": str(tmp_path / "cache"),
        },
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "<image>{{question}}",
        "doc_to_target": "answer",
        "doc_to_image": ["picture"],
        "generation_kwargs": SHORT,
        "metric_list": [{"metric": "exact_match"}],
    }
    (tmp_path / "tasks" / "looks.yaml").write_text(yaml.safe_dump(keys))
    chosen = {**keys, "task": "chooses", "output_type": "multiple_choice", "doc_to_choice": ["x"]}
    del chosen["generation_kwargs"]
    (tmp_path / "tasks" / "chooses.yaml").write_text(
        yaml.safe_dump({**chosen, "doc_to_target": 0, "metric_list": [{"metric": "acc"}]})
    )
    said = ["run", "--include_path", str(tmp_path / "tasks"), "--model", "hf-multimodal"]
    said += ["--model_args", f"pretrained={folders['idefics3']},dtype=float32", "--device", "cpu"]
    assert main([*said, "--tasks", "chooses"]) == 0, capsys.readouterr().err
    blind = ["--model", "hf", "--model_args", f"pretrained={folders['idefics3']}"]
    assert main([*said, *blind, "--tasks", "looks"]) != 0
    assert "hf sees no images, which looks needs" in capsys.readouterr().err
    out = tmp_path / "out"
    ran = main([*said, "--tasks", "looks", "--output_path", str(out), "--log_samples"])
    assert ran == 0, capsys.readouterr().err
    (path,) = out.rglob("record_looks_*.json")
    record = RunRecord.read(path)
    assert record.model["processor"]
    samples = list(read_samples(path.parent / record.samples.file))
    assert [sample["images"][0]["digest"] for sample in samples] == [
        Picture(drawn(number)).digest for number in range(4)
    ]
