"""Images of a document: how a task names them, what they are known by, and what is kept of them."""

from __future__ import annotations

import importlib.util
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml
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
from evalcore.model.text_lm import TextLM
from evalcore.record import RunRecord, read_samples
from evalcore.task.asking.item import Item
from evalcore.task.asking.task import Task
from evalcore.task.config import TaskSpec
from evalcore.task.identity.digest import doc_digest, json_ready
from evalcore.task.library.load import TaskLibrary
from evalcore.verify import verify
from tests import warm
from tests.drawn import drawn, encoded, write_rows
from tests.hub import ROOT

CODE = """
def seen(doc):
    return [doc["second"] or doc["picture"], doc["picture"]]

def words(doc):
    return ["no", "image"]
"""


def rows(count: int = 6) -> list[dict[str, Any]]:
    return [
        {
            "question": f"What is on it, number {number}?",
            "answer": f"a line {number}",
            "picture": encoded(drawn(number), "JPEG" if number % 2 else "PNG"),
            "second": encoded(drawn(20 + number)) if number % 3 else None,
        }
        for number in range(count)
    ]


class World:
    """A folder with a data set of images and tasks on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tasks").mkdir()
        (folder / "tasks" / "code.py").write_text(CODE)
        file = write_rows(folder / "test.parquet", rows(), "picture", "second")
        self._data = {
            "dataset_path": "parquet",
            "dataset_kwargs": {
                "data_files": {"test": str(file), "train": str(file)},
                "cache_dir": str(folder / "cache"),
            },
            "test_split": "test",
        }

    def write(self, name: str = "looks", function: str = "", **keys: Any) -> None:
        values = {
            "task": name,
            **self._data,
            "output_type": "generate_until",
            "doc_to_text": "<image>{{question}}",
            "doc_to_target": "answer",
            "doc_to_image": ["picture"],
            "generation_kwargs": {"until": ["\n"], "max_gen_toks": 8},
            "metric_list": [{"metric": "exact_match"}],
            **keys,
        }
        if function:
            del values["doc_to_image"]
        text = yaml.safe_dump(values)
        text += f"doc_to_image: !function code.{function}\n" if function else ""
        (self.folder / "tasks" / f"{name}.yaml").write_text(text)

    def spec(self, name: str = "looks", **keys: Any) -> TaskSpec:
        self.write(name, **keys)
        spec = TaskLibrary([self.folder / "tasks"]).one(name)
        assert isinstance(spec, TaskSpec)
        return spec

    def items(self, *, shots: int | None = None, **keys: Any) -> list[Item]:
        return Task(self.spec(**keys), num_fewshot=shots).items()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("images"))


def seen_by(item: Item) -> list[str]:
    (request,) = item.requests
    return [picture.digest for picture in request.images]


def digest(number: int, format: str = "PNG") -> str:
    return Picture(Image.open(BytesIO(encoded(drawn(number), format)))).digest


def test_a_request_carries_the_images_that_its_task_names(world: World) -> None:
    both = {"doc_to_image": ["picture", "second"], "doc_to_text": "<image><image>{{question}}"}
    first, second, *_ = world.items(**both)
    assert seen_by(first) == [digest(0)]  # the other column is empty here
    assert seen_by(second) == [digest(1, "JPEG"), digest(21)]
    assert first.prompt == "<image><image>What is on it, number 0?"
    assert seen_by(world.items(doc_to_image="picture")[0]) == [digest(0)]
    assert seen_by(world.items(function="seen")[1]) == [digest(21), digest(1, "JPEG")]


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"doc_to_image": "question"}, "'question' gives str 'What is on it, number 0?'"),
        ({"doc_to_image": ["{{answer}}"]}, "gives str 'a line 0'"),
        ({"function": "words"}, "gives str 'no'"),
    ],
)
def test_what_is_no_image_is_refused_with_the_document(
    world: World, keys: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TaskError) as refused:
        world.items(**keys)
    assert "document 0 of test: doc_to_image must give images" in str(refused.value)
    assert complaint in str(refused.value)


def test_examples_bring_the_images_that_their_questions_have_places_for(world: World) -> None:
    items = world.items(shots=2, fewshot_split="train")
    of_row = {doc_id: digest(doc_id, "JPEG" if doc_id % 2 else "PNG") for doc_id in range(6)}
    for item in items:
        shown = [of_row[row] for _, row in item.shots]
        assert seen_by(item) == [*shown, of_row[item.doc_id]]
        assert item.prompt.count("<image>") == 3
    compat = Task(world.spec(fewshot_split="train"), mode="compat", num_fewshot=2).items()
    assert [len(seen_by(item)) for item in compat] == [1] * 6  # as in lm-eval
    few = {"doc_to_text": "{{question}}"}
    without = world.items(shots=2, fewshot_split="train", fewshot_config=few)
    assert [len(seen_by(item)) for item in without] == [1] * 6


def test_what_is_asked_without_its_question_is_asked_without_its_image(world: World) -> None:
    item, *_ = world.items(
        output_type="multiple_choice",
        doc_to_choice=["a line", "a dot"],
        doc_to_target=0,
        metric_list=[{"metric": "acc"}, {"metric": "acc_mutual_info"}],
    )
    assert [len(request.images) for request in item.requests] == [1, 1, 0, 0]


def test_documents_hold_files_and_not_pixels(world: World) -> None:
    task = Task(world.spec())
    assert all(item.doc["picture"].fp is not None for item in task.items())
    turned = Image.new("RGB", (8, 4))
    exif = turned.getexif()
    exif[0x0112] = 6  # on its side, which `datasets` turns
    file = BytesIO()
    turned.save(file, "JPEG", exif=exif)
    data = [{**rows(1)[0], "picture": file.getvalue()}]
    path = write_rows(world.folder / "turned.parquet", data, "picture", "second")
    kwargs = {"data_files": {"test": str(path)}, "cache_dir": str(world.folder / "cache")}
    (item,) = world.items(dataset_kwargs=kwargs)
    (request,) = item.requests
    assert (request.images[0].width, request.images[0].height) == (4, 8)


MODES = ("RGB", "L", "RGBA", "P", "1", "CMYK")


@settings(deadline=None)
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


@settings(deadline=None)
@given(st.sampled_from(MODES), st.integers(1, 700), st.integers(1, 700))
def test_a_thumbnail_is_small_and_of_the_same_shape(mode: str, width: int, height: int) -> None:
    picture = Picture(drawn(1, mode=mode, size=(max(width, 16), max(height, 16))))
    small = Image.open(BytesIO(picture.thumbnail))
    assert small.format == "JPEG"
    assert max(small.size) <= min(THUMBNAIL, max(picture.width, picture.height))
    assert len(picture.thumbnail) < 25_000


def evaluated(model: Any, world: World, name: str = "looks", **how: Any) -> Evaluation:
    (found,) = evaluate(model, name, include_path=world.folder / "tasks", **how)
    return found


def looking(request: Request, repeat: int) -> str:
    return f"a line {len(request.images)} {request.images[0].width}"


def test_samples_and_journal_keep_digest_size_and_thumbnail(world: World, tmp_path: Path) -> None:
    world.write()
    evaluation = evaluated(FakeLM(looking, identity="looks"), world, use_cache=tmp_path / "kept")
    record, file = evaluation.write(tmp_path, "x")
    samples = list(read_samples(file))
    for number, sample in enumerate(samples):
        (image,) = sample["images"]
        assert image["digest"] == digest(number, "JPEG" if number % 2 else "PNG")
        assert (image["width"], image["height"]) == drawn(number).size
        assert Image.open(BytesIO(image["thumbnail"])).size == drawn(number).size
        doc = json.loads(sample["doc"])
        assert doc["picture"] == {key: image[key] for key in ("width", "height")} | {
            "image": image["digest"]
        }
        assert sample["responses"][0]["text"] == f"a line 1 {image['width']}"
    lines = [
        json.loads(line)
        for segment in (tmp_path / "kept").rglob("*.jsonl")
        for line in segment.read_text().splitlines()
    ]
    kept = {image["digest"]: image for sample in samples for image in sample["images"]}
    assert len(lines) == len(samples)
    for line in lines:
        (said,) = line["images"]
        word, size = said.removeprefix("sha256:").split()
        assert size == f"{kept[word]['width']}x{kept[word]['height']}"
    (run,) = read_runs([record])
    assert verify(run, TaskLibrary([world.folder / "tasks"]), "rescore").ok
    # No file of an image is in either: only thumbnails, which are JPEGs.
    assert encoded(drawn(0))[:8] not in file.read_bytes()
    silent = FakeLM(lambda *_: pytest.fail("asked again"), identity="looks")
    again = evaluated(silent, world, use_cache=tmp_path / "kept")
    assert RunRecord.read(record).docs_digest == again.record.docs_digest


def test_a_benchmark_that_stays_offline_shows_no_thumbnail(world: World) -> None:
    world.write("offline", metadata={"benchmark": "b", "publish_samples": "ids"})
    for number, sample in enumerate(evaluated(FakeLM(looking), world, "offline").samples):
        (image,) = sample["images"]
        assert image["thumbnail"] is None
        assert image["digest"] == digest(number, "JPEG" if number % 2 else "PNG")


def test_a_request_with_another_image_has_another_key() -> None:
    model = FakeLM(looking, identity="looks")
    asked = [
        Request("generate_until", "<image>?", images=(Picture(drawn(number)),))
        for number in (0, 1, 0)
    ]
    keys = [
        request.key for request in model.encode([*asked, Request("generate_until", "<image>?")])
    ]
    assert keys[0] == keys[2]
    assert len(set(keys)) == 3


class Reads:
    def generate_until(self, requests: list[Any]) -> list[str]:
        return ["" for _ in requests]


class Sees(Reads):
    MULTIMODAL = True
    asked: list[Any]

    def generate_until(self, requests: list[Any]) -> list[str]:
        self.asked = [request.args for request in requests]
        return ["" for _ in requests]


def test_a_model_that_sees_nothing_is_refused_before_it_is_asked(world: World) -> None:
    world.write()
    with pytest.raises(ModelError, match="Reads sees no images, which looks needs: leave them out"):
        evaluated(TextLM(Reads()), world)


def test_a_model_of_lm_evals_that_sees_is_given_images(world: World) -> None:
    lm = Sees()
    world.write()
    evaluated(TextLM(lm), world)
    context, arguments, seen = lm.asked[0]
    assert (context, arguments["until"]) == ("<image>What is on it, number 0?", ["\n"])
    assert [image.size for image in seen["visual"]] == [drawn(0).size]


@pytest.mark.peer
@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="extra `peer`")
def test_lm_eval_asks_the_same_with_the_same_images(world: World) -> None:
    """Prompts, and images by their pixels, for each way to name them."""
    named: dict[str, dict[str, Any]] = {
        "one_column": {"doc_to_image": ["picture"]},
        "two_columns": {
            "doc_to_image": ["picture", "second"],
            "doc_to_text": "<image><image>{{question}}",
        },
        "by_function": {"function": "seen", "doc_to_text": "<image> {{question}}\n<image>"},
    }
    for name, keys in named.items():
        world.write(name, **keys)
    done = warm.run(
        ["-m", "tests.evalcore.peer_images", world.folder / "tasks", *named], cwd=ROOT, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = json.loads(done.stdout)
    library = TaskLibrary([world.folder / "tasks"])
    for name in named:
        spec = library.one(name)
        assert isinstance(spec, TaskSpec)
        ours = [
            [item.prompt, [json_ready(picture.image) for picture in item.images]]
            for item in Task(spec).items()
        ]
        assert ours == theirs[name], name


def test_a_run_with_images_comes_back_whole_from_every_eval_ever(
    world: World, tmp_path: Path
) -> None:
    world.write()
    found = evaluated(FakeLM(looking), world)
    samples = found.samples
    lines = list(instances_of(found.record, samples, "an evaluation"))
    back = [sample_of(line["metadata"]["sample"]) for line in lines]
    assert [each["images"] for each in back] == [each["images"] for each in samples]
    assert "images" not in whole_sample({**samples[0], "images": None})
