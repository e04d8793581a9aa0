"""Sounds of a document: how a task names them, what they are known by, and what is kept of them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.errors import ModelError, TaskError
from evalcore.formats.every_eval_ever.instances import instances_of, sample_of
from evalcore.formats.run_files import read_runs
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.fake import FakeLM
from evalcore.model.sounds import Recording, Sound, at_rate
from evalcore.model.text_lm import TextLM
from evalcore.record import read_samples
from evalcore.task.asking.item import Item
from evalcore.task.asking.task import Task
from evalcore.task.config import TaskSpec
from evalcore.task.library.load import TaskLibrary
from evalcore.verify import verify
from tests import warm
from tests.hearing import RATE, sound_file, sound_keys, tone
from tests.hub import ROOT

CODE = """
def heard(doc):
    return [{"array": doc["clip"]["array"], "sampling_rate": doc["clip"]["sampling_rate"]}]

def words(doc):
    return ["no", "sound"]
"""
FORMATS = ("WAV", "FLAC", "OGG", "MP3")


def rows() -> list[dict[str, Any]]:
    return [
        {
            "question": f"What is heard, number {number}?",
            "answer": f"a tone {number}",
            "clip": sound_file(tone(number), format=format),
            "second": sound_file(tone(20 + number)) if number % 2 else None,
        }
        for number, format in enumerate(FORMATS)
    ]


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "code.py").write_text(CODE)
        self._keys = sound_keys(folder, rows(), "clip", "second")

    def spec(self, name: str = "hears", function: str = "", **stated: Any) -> TaskSpec:
        keys = {**self._keys, "task": name, **stated}
        if function:
            del keys["doc_to_audio"]
        text = yaml.safe_dump(keys)
        text += f"doc_to_audio: !function code.{function}\n" if function else ""
        (self.folder / f"{name}.yaml").write_text(text)
        spec = TaskLibrary([self.folder]).one(name)
        assert isinstance(spec, TaskSpec)
        return spec

    def items(self, **keys: Any) -> list[Item]:
        return Task(self.spec(**keys)).items()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("sounds"))


def digests(item: Item) -> list[str]:
    (request,) = item.requests
    return [sound.digest for sound in request.sounds]


def digest(number: int, format: str = "WAV") -> str:
    return Sound(Recording(sound_file(tone(number), format=format), None, None)).digest


def test_a_request_carries_the_sounds_that_its_task_names(world: World) -> None:
    both = {"doc_to_audio": ["clip", "second"], "doc_to_text": "<audio><audio>{{question}}"}
    first, second, *_ = world.items(**both)
    assert digests(first) == [digest(0)]  # the other column is empty here
    assert digests(second) == [digest(1, "FLAC"), digest(21)]
    for keys in ({"doc_to_audio": "clip"}, {"function": "heard"}):
        found = [digests(item) for item in world.items(**keys)]
        assert found == [[digest(i, format)] for i, format in enumerate(FORMATS)]


def test_examples_bring_the_sounds_that_their_questions_have_places_for(world: World) -> None:
    spec = world.spec(fewshot_split="train")
    strict = Task(spec, num_fewshot=1).items()
    assert [len(digests(item)) for item in strict] == [2] * 4
    compat = Task(spec, mode="compat", num_fewshot=1).items()
    assert [len(digests(item)) for item in compat] == [1] * 4  # as in lm-eval


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"doc_to_audio": "question"}, "'question' gives str 'What is heard, number 0?'"),
        ({"function": "words"}, "gives str 'no'"),
    ],
)
def test_what_is_no_sound_is_refused_with_the_document(
    world: World, keys: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(TaskError) as refused:
        world.items(**keys)
    assert "document 0 of test: doc_to_audio must give sounds" in str(refused.value)
    assert complaint in str(refused.value)


def test_a_file_that_is_no_sound_is_refused() -> None:
    with pytest.raises(TaskError, match=r"a sound \(a\.wav, 5 bytes\) cannot be decoded: .*WAV, F"):
        Sound(Recording(b"noise", "a.wav", None))
    with pytest.raises(TaskError, match=r"shape \[2, 9\] at 16000 Hz: give those of one channel"):
        Sound({"array": np.zeros((2, 9)), "sampling_rate": RATE})


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


def test_several_channels_become_their_mean_and_a_stated_rate_is_kept() -> None:
    one, other = tone(1), tone(2)
    stereo = Recording(sound_file(np.stack([one, other], axis=1)), None, None)
    assert np.allclose(stereo["array"], (one + other) / 2, atol=1e-4)
    slower = Recording(sound_file(one), None, 8000)
    assert (len(slower["array"]), slower["sampling_rate"]) == (len(one) // 2, 8000)


def test_another_rate_keeps_what_is_heard() -> None:
    """A sine stays a sine of the same pitch."""
    rate, other = 48_000, 16_000
    time = np.arange(rate) / rate
    sine = np.sin(2 * np.pi * 440 * time).astype(np.float32)
    brought = at_rate(sine, rate, other)
    wanted = np.sin(2 * np.pi * 440 * np.arange(other) / other)
    assert np.abs(brought - wanted)[200:-200].max() < 2e-3


def listening(request: Request, repeat: int) -> str:
    return f"a tone {len(request.sounds)}"


def test_samples_and_journal_keep_digest_length_and_rate(world: World, tmp_path: Path) -> None:
    world.spec()
    model = FakeLM(listening, identity="hears")
    (found,) = evaluate(model, "hears", include_path=world.folder, use_cache=tmp_path / "kept")
    record, file = found.write(tmp_path, "x")
    samples = list(read_samples(file))
    for number, (sample, format) in enumerate(zip(samples, FORMATS, strict=True)):
        (sound,) = sample["sounds"]
        assert sound == {"digest": digest(number, format), "seconds": 0.5, "rate": RATE}
        assert json.loads(sample["doc"])["clip"] == {
            "sound": sound["digest"],
            "seconds": 0.5,
            "rate": RATE,
        }
        assert sample["images"] is None
    lines = [
        json.loads(line)
        for segment in (tmp_path / "kept").rglob("*.jsonl")
        for line in segment.read_text().splitlines()
    ]
    said = {
        f"sha256:{digest(number, format)} 0.500s 16000Hz" for number, format in enumerate(FORMATS)
    }
    assert {sound for line in lines for sound in line["sounds"]} == said
    (run,) = read_runs([record])
    assert verify(run, TaskLibrary([world.folder]), "rescore").ok
    silent = FakeLM(lambda *_: pytest.fail("asked again"), identity="hears")
    evaluate(silent, "hears", include_path=world.folder, use_cache=tmp_path / "kept")
    back = [
        sample_of(line["metadata"]["sample"]) for line in instances_of(found.record, samples, "e")
    ]
    assert [each["sounds"] for each in back] == [each["sounds"] for each in samples]


class Reads:
    def generate_until(self, requests: list[Any]) -> list[str]:
        return ["" for _ in requests]


class Hears(Reads):
    MULTIMODAL = True
    asked: list[Any]

    def generate_until(self, requests: list[Any]) -> list[str]:
        self.asked = [request.args for request in requests]
        return ["" for _ in requests]


def test_only_a_model_that_hears_is_given_sounds(world: World) -> None:
    world.spec()
    with pytest.raises(
        ModelError, match="Reads hears no sounds, which hears needs: leave them out"
    ):
        evaluate(TextLM(Reads()), "hears", include_path=world.folder)
    lm = Hears()
    evaluate(TextLM(lm), "hears", include_path=world.folder)
    (sound,) = lm.asked[0][2]["audio"]
    assert sound["sampling_rate"] == RATE
    assert np.allclose(sound["array"], tone(0), atol=1e-4)


@pytest.mark.peer
@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="extra `peer`")
def test_lm_eval_asks_the_same_with_the_same_sounds(world: World) -> None:
    """Prompts, and sounds by their samples. Its data sets are given as this engine opens them: by
    itself it wants another library for that."""
    named: dict[str, dict[str, Any]] = {
        "one_column": {"doc_to_audio": ["clip"]},
        "two_columns": {"doc_to_audio": ["clip", "second"]},
        "by_function": {"function": "heard", "doc_to_text": "{{question}} <audio>"},
    }
    for name, keys in named.items():
        world.spec(name, **keys)
    done = warm.run(
        ["-m", "tests.evalcore.peer_sounds", world.folder, *named], cwd=ROOT, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    theirs = json.loads(done.stdout)
    library = TaskLibrary([world.folder])
    for name in named:
        spec = library.one(name)
        assert isinstance(spec, TaskSpec)
        ours = [
            [item.prompt, [sound.digest for sound in item.sounds]] for item in Task(spec).items()
        ]
        assert ours == theirs[name], name
