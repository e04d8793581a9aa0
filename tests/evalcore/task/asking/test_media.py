"""Images and sounds of a document: how a task names them, their digests, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from evalcore.errors import ModelError, TaskError
from evalcore.evaluation import Evaluation
from evalcore.formats.every_eval_ever.instances import instances_of, sample_of, whole_sample
from evalcore.formats.run_files import read_runs
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.fake import FakeLM
from evalcore.model.pictures import THUMBNAIL, Picture
from evalcore.model.sounds import Recording, Sound, at_rate
from evalcore.model.text_lm import TextLM
from evalcore.record import RunRecord, read_samples
from evalcore.task.asking.item import Item
from evalcore.task.asking.task import Task
from evalcore.task.config import TaskSpec
from evalcore.task.data.undecoded import undecoded
from evalcore.task.identity.digest import doc_digest, json_ready
from evalcore.task.library.load import TaskLibrary
from evalcore.verify import verify
from tests.drawn import drawn, encoded, write_rows
from tests.evalcore.both_scorers import load_in_lm_eval, peer, requests_of
from tests.evalcore.worlds import task_in, task_text, write_tasks
from tests.senses import RATE, sound_file, sound_keys, tone

CODE = """
def seen(doc):
    return [doc["second"] or doc["picture"], doc["picture"]]

def heard(doc):
    return [{"array": doc["clip"]["array"], "sampling_rate": doc["clip"]["sampling_rate"]}]

def words(doc):
    return ["no", "image"]
"""
SOUND_FORMATS = ("WAV", "FLAC", "OGG", "MP3")


class World:
    """A folder with a data set of images or sounds, and tasks on it."""

    def __init__(self, folder: Path, source: str, keys: Mapping[str, Any]) -> None:
        """`source`: the key of a task that names its images or sounds."""
        self.folder = folder
        self._source = source
        self._keys = keys
        (folder / "tasks").mkdir()
        (folder / "tasks" / "code.py").write_text(CODE)

    @property
    def tasks(self) -> Path:
        return self.folder / "tasks"

    def spec(self, name: str = "asks", function: str = "", **stated: Any) -> TaskSpec:
        own = {self._source: f"!function code.{function}"} if function else {}
        keys = {"task": name, **self._keys, **stated, **own}
        return task_in(write_tasks(self.tasks, {f"{name}.yaml": task_text(keys)}), name)

    def items(self, *, shots: int | None = None, **keys: Any) -> list[Item]:
        return Task(self.spec(**keys), num_fewshot=shots).items()

    def evaluated(self, model: Any, name: str = "asks", **how: Any) -> Evaluation:
        (found,) = evaluate(model, name, include_path=self.tasks, **how)
        return found


def picture_rows(count: int = 6) -> list[dict[str, Any]]:
    return [
        {
            "question": f"What is on it, number {number}?",
            "answer": f"a line {number}",
            "picture": encoded(drawn(number), "JPEG" if number % 2 else "PNG"),
            "second": encoded(drawn(20 + number)) if number % 3 else None,
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("images")
    file = str(write_rows(folder / "test.parquet", picture_rows(), "picture", "second"))
    keys = {
        "dataset_path": "parquet",
        "dataset_kwargs": {
            "data_files": {"test": file, "train": file},
            "cache_dir": str(folder / "cache"),
        },
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "<image>{{question}}",
        "doc_to_target": "answer",
        "doc_to_image": ["picture"],
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8},
        "metric_list": [{"metric": "exact_match"}],
    }
    return World(folder, "doc_to_image", keys)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("sounds")
    rows = [
        {
            "question": f"What is heard, number {number}?",
            "answer": f"a tone {number}",
            "clip": sound_file(tone(number), format=format),
            "second": sound_file(tone(20 + number)) if number % 2 else None,
        }
        for number, format in enumerate(SOUND_FORMATS)
    ]
    return World(folder, "doc_to_audio", sound_keys(folder, rows, "clip", "second"))


def digests(item: Item) -> list[str]:
    (request,) = item.requests
    return [one.digest for one in (*request.images, *request.sounds)]


def picture_digest(number: int, format: str = "PNG") -> str:
    return Picture(Image.open(BytesIO(encoded(drawn(number), format)))).digest


def sound_digest(number: int, format: str = "WAV") -> str:
    return Sound(Recording(sound_file(tone(number), format=format), None, None)).digest


# What is asked


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"doc_to_image": "question"}, "'question' gives str 'What is on it, number 0?'"),
        ({"doc_to_image": ["{{answer}}"]}, "gives str 'a line 0'"),
        ({"function": "words"}, "gives str 'no'"),
    ],
)
def test_what_is_no_image_is_refused_with_the_document(
    pictures: World, keys: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TaskError) as refused:
        pictures.items(**keys)
    assert "document 0 of test: doc_to_image must give images" in str(refused.value)
    assert complaint in str(refused.value)


def test_what_is_no_sound_is_refused(clips: World) -> None:
    with pytest.raises(TaskError, match="document 0 of test: doc_to_audio must give sounds"):
        clips.items(doc_to_audio="question")
    with pytest.raises(TaskError, match=r"a sound \(a\.wav, 5 bytes\) cannot be decoded: .*WAV, F"):
        Sound(Recording(b"noise", "a.wav", None))
    with pytest.raises(TaskError, match=r"shape \[2, 9\] at 16000 Hz: give those of one channel"):
        Sound({"array": np.zeros((2, 9)), "sampling_rate": RATE})


def test_examples_bring_the_images_that_their_questions_have_places_for(pictures: World) -> None:
    items = pictures.items(shots=2, fewshot_split="train")
    of_row = {row: picture_digest(row, "JPEG" if row % 2 else "PNG") for row in range(6)}
    for item in items:
        shown = [of_row[row] for _, row in item.shots]
        assert digests(item) == [*shown, of_row[item.doc_id]]
        assert item.prompt.count("<image>") == 3
    compat = Task(pictures.spec(fewshot_split="train"), mode="compat", num_fewshot=2).items()
    assert [len(digests(item)) for item in compat] == [1] * 6  # as in lm-eval
    few = {"doc_to_text": "{{question}}"}
    without = pictures.items(shots=2, fewshot_split="train", fewshot_config=few)
    assert [len(digests(item)) for item in without] == [1] * 6


def test_what_is_asked_without_its_question_is_asked_without_its_image(pictures: World) -> None:
    item, *_ = pictures.items(
        output_type="multiple_choice",
        doc_to_choice=["a line", "a dot"],
        doc_to_target=0,
        metric_list=[{"metric": "acc"}, {"metric": "acc_mutual_info"}],
    )
    assert [len(request.images) for request in item.requests] == [1, 1, 0, 0]


def test_documents_hold_files_and_not_pixels(pictures: World) -> None:
    assert all(item.doc["picture"].fp is not None for item in pictures.items())
    turned = Image.new("RGB", (8, 4))
    exif = turned.getexif()
    exif[0x0112] = 6  # on its side, which `datasets` turns
    file = BytesIO()
    turned.save(file, "JPEG", exif=exif)
    data = [{**picture_rows(1)[0], "picture": file.getvalue()}]
    path = write_rows(pictures.folder / "turned.parquet", data, "picture", "second")
    kwargs = {"data_files": {"test": str(path)}, "cache_dir": str(pictures.folder / "cache")}
    (item,) = pictures.items(dataset_kwargs=kwargs)
    (request,) = item.requests
    assert (request.images[0].width, request.images[0].height) == (4, 8)


# What tells one from another

MODES = ("RGB", "L", "RGBA", "P", "1", "CMYK")


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 200), st.sampled_from(MODES), st.sampled_from(MODES))
def test_an_image_is_known_by_its_pixels(number: int, mode: str, other: str) -> None:
    """However its file is written, and never as one of other pixels, colours or size."""
    image = drawn(number, mode=mode)
    known = Picture(image)
    format = "TIFF" if mode == "CMYK" else "PNG"
    again = Picture(Image.open(BytesIO(encoded(image, format))))
    assert again.digest == known.digest
    assert again.digest == Picture(again.image).digest
    assert doc_digest({"a": again.image}) == doc_digest({"a": image})
    assert (Picture(drawn(number, mode=other)).digest == known.digest) == (mode == other)
    assert Picture(drawn(number + 1, mode=mode)).digest != known.digest or mode == "1"
    assert Picture(image.transpose(Image.Transpose.ROTATE_180)).digest != known.digest


def test_the_same_numbers_under_other_colours_are_another_image() -> None:
    image = drawn(3, mode="P")
    other = image.copy()
    colours = list(other.getpalette() or ())
    other.putpalette([255 - value for value in colours])
    through = image.copy()
    through.info["transparency"] = 0
    assert len({Picture(each).digest for each in (image, other, through)}) == 3


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 50), st.sampled_from(("WAV", "FLAC")), st.sampled_from((8000, 16000, 44100)))
def test_a_sound_is_known_by_its_samples_and_their_rate(
    number: int, format: str, rate: int
) -> None:
    """However its file is written without loss; and never as another one."""
    whole = np.round(tone(number) * 2**15).astype(np.int16)
    samples = (whole / 2**15).astype(np.float32)
    known = Sound({"array": samples, "sampling_rate": rate})
    file = sound_file(whole, rate=rate, format=format)
    again = Sound(Recording(file, None, None))
    assert (again.digest, again.rate) == (known.digest, rate)
    assert again.seconds == pytest.approx(len(samples) / rate)
    assert Sound({"array": samples, "sampling_rate": rate + 1}).digest != known.digest
    assert Sound({"array": samples[:-1], "sampling_rate": rate}).digest != known.digest


def test_sounds_are_mixed_to_one_channel_and_resampled() -> None:
    one, other = tone(1), tone(2)
    stereo = Recording(sound_file(np.stack([one, other], axis=1)), None, None)
    assert np.allclose(stereo["array"], (one + other) / 2, atol=1e-4)
    slower = Recording(sound_file(one), None, 8000)
    assert (len(slower["array"]), slower["sampling_rate"]) == (len(one) // 2, 8000)

    rate, other = 48_000, 16_000
    time = np.arange(rate) / rate
    sine = np.sin(2 * np.pi * 440 * time).astype(np.float32)
    wanted = np.sin(2 * np.pi * 440 * np.arange(other) / other)
    assert np.abs(at_rate(sine, rate, other) - wanted)[200:-200].max() < 2e-3


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(MODES), st.integers(16, 700), st.integers(16, 700))
def test_a_thumbnail_is_small_and_of_the_same_shape(mode: str, width: int, height: int) -> None:
    picture = Picture(drawn(1, mode=mode, size=(width, height)))
    small = Image.open(BytesIO(picture.thumbnail))
    assert small.format == "JPEG"
    assert max(small.size) <= min(THUMBNAIL, max(picture.width, picture.height))
    assert len(picture.thumbnail) < 25_000


def test_a_request_with_another_image_has_another_key() -> None:
    without = Request("generate_until", "<image>?")
    asked = [
        Request("generate_until", "<image>?", images=(Picture(drawn(number)),))
        for number in (0, 1, 0)
    ]
    model = FakeLM(looking, identity="looks")
    keys = [request.key for request in model.encode([*asked, without])]
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3


# What is kept


def looking(request: Request, repeat: int) -> str:
    return f"a line {len(request.images)} {request.images[0].width}"


def listening(request: Request, repeat: int) -> str:
    return f"a tone {len(request.sounds)}"


def silent() -> FakeLM:
    return FakeLM(lambda *_: pytest.fail("asked again"), identity="known")


def lines_kept(cache: Path) -> list[dict[str, Any]]:
    segments = cache.rglob("*.jsonl")
    return [json.loads(line) for file in segments for line in file.read_text().splitlines()]


def test_samples_and_journal_keep_digest_size_and_thumbnail(
    pictures: World, tmp_path: Path
) -> None:
    pictures.spec()
    cache = tmp_path / "kept"
    evaluation = pictures.evaluated(FakeLM(looking, identity="known"), use_cache=cache)
    record, file = evaluation.write(tmp_path, "x")
    samples = list(read_samples(file))
    for number, sample in enumerate(samples):
        (image,) = sample["images"]
        assert image["digest"] == picture_digest(number, "JPEG" if number % 2 else "PNG")
        assert (image["width"], image["height"]) == drawn(number).size
        assert Image.open(BytesIO(image["thumbnail"])).size == drawn(number).size
        size = {key: image[key] for key in ("width", "height")}
        assert json.loads(sample["doc"])["picture"] == {"image": image["digest"], **size}
        assert sample["responses"][0]["text"] == f"a line 1 {image['width']}"
    images = [image for sample in samples for image in sample["images"]]
    lines = lines_kept(cache)
    assert len(lines) == len(samples)
    assert {image for line in lines for image in line["images"]} == {
        f"sha256:{one['digest']} {one['width']}x{one['height']}" for one in images
    }
    (run,) = read_runs([record])
    assert verify(run, TaskLibrary([pictures.tasks]), "rescore").ok
    # No file of an image is in either: only thumbnails, which are JPEGs.
    assert encoded(drawn(0))[:8] not in file.read_bytes()
    again = pictures.evaluated(silent(), use_cache=cache)
    assert RunRecord.read(record).docs_digest == again.record.docs_digest
    back = [
        sample_of(line["metadata"]["sample"])
        for line in instances_of(evaluation.record, evaluation.samples, "an evaluation")
    ]
    assert [each["images"] for each in back] == [each["images"] for each in evaluation.samples]
    assert "images" not in whole_sample({**samples[0], "images": None})


def test_samples_and_journal_keep_digest_length_and_rate(clips: World, tmp_path: Path) -> None:
    clips.spec()
    cache = tmp_path / "kept"
    found = clips.evaluated(FakeLM(listening, identity="known"), use_cache=cache)
    record, file = found.write(tmp_path, "x")
    samples = list(read_samples(file))
    expected = [sound_digest(number, format) for number, format in enumerate(SOUND_FORMATS)]
    length = {"seconds": 0.5, "rate": RATE}
    assert [sample["sounds"] for sample in samples] == [
        [{"digest": digest, **length}] for digest in expected
    ]
    assert [json.loads(sample["doc"])["clip"] for sample in samples] == [
        {"sound": digest, **length} for digest in expected
    ]
    assert {sample["images"] for sample in samples} == {None}
    assert {sound for line in lines_kept(cache) for sound in line["sounds"]} == {
        f"sha256:{digest} 0.500s 16000Hz" for digest in expected
    }
    (run,) = read_runs([record])
    assert verify(run, TaskLibrary([clips.tasks]), "rescore").ok
    clips.evaluated(silent(), use_cache=cache)
    lines = instances_of(found.record, samples, "an evaluation")
    back = [sample_of(line["metadata"]["sample"]) for line in lines]
    assert [each["sounds"] for each in back] == [each["sounds"] for each in samples]


def test_a_benchmark_that_stays_offline_shows_no_thumbnail(pictures: World) -> None:
    pictures.spec("offline", metadata={"benchmark": "b", "publish_samples": "ids"})
    for number, sample in enumerate(pictures.evaluated(FakeLM(looking), "offline").samples):
        (image,) = sample["images"]
        assert image["thumbnail"] is None
        assert image["digest"] == picture_digest(number, "JPEG" if number % 2 else "PNG")


# Which model is asked


class ReadsAlone:
    def generate_until(self, requests: list[Any]) -> list[str]:
        return ["" for _ in requests]


class SeesAndHears(ReadsAlone):
    MULTIMODAL = True
    asked: list[Any]

    def generate_until(self, requests: list[Any]) -> list[str]:
        self.asked = [request.args for request in requests]
        return super().generate_until(requests)


def test_only_a_model_that_sees_or_hears_is_given_images_or_sounds(
    pictures: World, clips: World
) -> None:
    pictures.spec()
    complaint = "ReadsAlone sees no images, which asks needs: leave them out"
    with pytest.raises(ModelError, match=complaint):
        pictures.evaluated(TextLM(ReadsAlone()))
    lm = SeesAndHears()
    pictures.evaluated(TextLM(lm))
    context, arguments, seen = lm.asked[0]
    assert (context, arguments["until"]) == ("<image>What is on it, number 0?", ["\n"])
    assert [image.size for image in seen["visual"]] == [drawn(0).size]

    clips.spec()
    complaint = "ReadsAlone hears no sounds, which asks needs: leave them out"
    with pytest.raises(ModelError, match=complaint):
        clips.evaluated(TextLM(ReadsAlone()))
    lm = SeesAndHears()
    clips.evaluated(TextLM(lm))
    (sound,) = lm.asked[0][2]["audio"]
    assert sound["sampling_rate"] == RATE
    assert np.allclose(sound["array"], tone(0), atol=1e-4)


def asked_by_lm_eval(spec: TaskSpec, kind: str) -> list[tuple[str, list[Any]]]:
    """The prompt of each document and what comes with it: its `visual` or its `audio`."""
    requests = requests_of(load_in_lm_eval(spec))
    return [(request.args[0], request.args[2][kind]) for request in requests]


@peer
def test_lm_eval_asks_the_same_with_the_same_images(pictures: World) -> None:
    """Prompts, and images by their pixels, for each way to name them."""
    two = {"doc_to_image": ["picture", "second"], "doc_to_text": "<image><image>{{question}}"}
    for spec in (
        pictures.spec("one_column", doc_to_image=["picture"]),
        pictures.spec("two_columns", **two),
        pictures.spec("by_function", "seen", doc_to_text="<image> {{question}}\n<image>"),
    ):
        expected = [
            (prompt, [json_ready(image) for image in images])
            for prompt, images in asked_by_lm_eval(spec, "visual")
        ]
        assert [
            (item.prompt, [json_ready(picture.image) for picture in item.images])
            for item in Task(spec).items()
        ] == expected


@pytest.fixture
def undecoded_in_lm_eval(monkeypatch: pytest.MonkeyPatch) -> None:
    """`datasets` decodes sounds by torchcodec, which wants FFmpeg: this engine opens the rows."""
    from lm_eval.api.task import ConfigurableTask

    download = ConfigurableTask.download

    def undecoded_download(task: Any, *arguments: Any, **keywords: Any) -> None:
        download(task, *arguments, **keywords)
        task.dataset = {split: undecoded(rows) for split, rows in task.dataset.items()}

    monkeypatch.setattr(ConfigurableTask, "download", undecoded_download)


@peer
@pytest.mark.usefixtures("undecoded_in_lm_eval")
def test_lm_eval_asks_the_same_with_the_same_sounds(clips: World) -> None:
    """Prompts, and sounds by their samples."""
    for spec in (
        clips.spec("one_column", doc_to_audio=["clip"]),
        clips.spec("two_columns", doc_to_audio=["clip", "second"]),
        clips.spec("by_function", "heard", doc_to_text="{{question}} <audio>"),
    ):
        expected = [
            (prompt, [Sound(sound).digest for sound in sounds])
            for prompt, sounds in asked_by_lm_eval(spec, "audio")
        ]
        assert [
            (item.prompt, [sound.digest for sound in item.sounds]) for item in Task(spec).items()
        ] == expected
