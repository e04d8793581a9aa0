"""Test documents found in training text, whatever it lies in."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.contamination import decontaminate, sources
from evalcore.contamination.decontaminate import Decontamination, gram_size
from evalcore.errors import InfraError, TaskError
from tests.hub import ROOT, run_client, serve

PLANTED = "The quick brown fox doesn't jump over the lazy dog, because it is far too tired today."
CLEAN = "Seventeen green elephants quietly painted their fence while nobody was looking there."
IN_TRAINING = (
    "the QUICK brown fox\ndoesn’t jump -- over the lazy\n\ndog because it is far too tired today"
)
FILLER = "Nothing to see in this line but a few words of filler that nobody asks about."
SHORT = "Who wrote it?"


def write_text(folder: Path, opened: Callable = open) -> None:
    with opened(folder, "wt") as file:
        file.write(f"{FILLER}\n{IN_TRAINING}\n{FILLER}\n")


def rows() -> list[dict]:
    return [{"id": 1, "text": FILLER}, {"id": 2, "text": f"{FILLER} {IN_TRAINING}"}]


def lines() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows())


def write_frames(path: Path) -> None:
    # As the Pile's shards: one frame after the other.
    compress = zstandard.ZstdCompressor().compress
    path.write_bytes(b"".join(compress(line + b"\n") for line in lines().splitlines()))


def write_saved(path: Path) -> None:
    import datasets

    datasets.DatasetDict({"train": datasets.Dataset.from_list(rows())}).save_to_disk(str(path))


def write_folder(path: Path) -> None:
    (path / "deeper").mkdir(parents=True)
    (path / "a.txt").write_text(FILLER)
    (path / "deeper" / "b.jsonl").write_bytes(lines())


WRITERS = {
    "text.txt": write_text,
    "no_suffix": write_text,
    "text.txt.gz": lambda path: write_text(path, gzip.open),
    "rows.jsonl": lambda path: path.write_bytes(lines()),
    "rows.json.gz": lambda path: path.write_bytes(gzip.compress(lines())),
    "rows.jsonl.zst": write_frames,
    "rows.parquet": lambda path: pq.write_table(pa.Table.from_pylist(rows()), path),
    "saved": write_saved,
    "folder": write_folder,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_planted_passage_is_found_and_a_clean_one_is_not(tmp_path, name):
    WRITERS[name](tmp_path / name)
    found = Decontamination([tmp_path / name]).search([[CLEAN, PLANTED, SHORT]])[0]
    assert found == [[], [PLANTED.rstrip(".")], None]


def test_a_data_set_of_the_hub_is_streamed_by_its_training_split(tmp_path):
    folder = tmp_path / "hub" / "datasets" / "org" / "pages"
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_text(json.dumps({"body": IN_TRAINING}) + "\n")
    (folder / "test.jsonl").write_text(json.dumps({"body": CLEAN}) + "\n")
    code = f"""
from evalcore.errors import EvalError
from evalcore.contamination.decontaminate import Decontamination
for name in ("org/pages", "org/pages:default:test", "org/pages:default:tset", "org/nothing"):
    try:
        print([bool(p) for p in Decontamination([name]).search([[{PLANTED!r}, {CLEAN!r}]])[0]])
    except EvalError as error:
        print(type(error).__name__, error.reason.split(":")[1].strip())
"""
    with serve([tmp_path / "hub"]) as url:
        printed = run_client(code, url, tmp_path / "home").splitlines()
    assert printed[:2] == ["[True, False]", "[False, True]"]
    assert printed[2].startswith("TaskError org/pages")
    assert printed[3].startswith("TaskError org/nothing")


def test_stretches_that_touch_are_one_passage_and_others_are_apart(tmp_path):
    words = [f"w{number}" for number in range(60)]
    overlapping = [words[2:14], words[10:19]]
    touching = [words[20:28], words[28:36]]
    shared = [*overlapping, *touching, words[40:48]]
    (tmp_path / "a.txt").write_text(" other ".join(map(" ".join, shared)))
    (found,) = Decontamination([tmp_path / "a.txt"], n=8).search([[" ".join(words)]])[0]
    assert found == [" ".join(words[2:19]), " ".join(words[20:36]), " ".join(words[40:48])]


def test_fewer_words_in_common_or_two_documents_are_no_passage(tmp_path):
    (tmp_path / "a.txt").write_text("It was found by seven or eight of the people who looked")
    question = "Said she: it was found by seven or nine of the people who asked"
    assert Decontamination([tmp_path / "a.txt"]).search([[question]])[0] == [[]]

    (tmp_path / "a.txt").write_text("Once: one two three four five six seven eight nine. Done")
    decontamination = Decontamination([tmp_path / "a.txt"], n=13)
    whole = "One two three four five six seven eight nine"
    longer = whole + " ten eleven twelve thirteen"
    assert decontamination.search([[whole, longer]])[0] == [[whole], []]

    words = PLANTED.split()
    parts = [{"text": " ".join(words[:7])}, {"text": " ".join(words[7:])}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(part) + "\n" for part in parts))
    assert Decontamination([tmp_path / "a.jsonl"], n=12).search([[PLANTED]])[0] == [[]]


@pytest.mark.parametrize(
    ("question", "training"),
    [
        ("Die Straße führt über die Brücke nach Köln und weiter nach Zürich", "DIE {} zürich"),
        ("भारत की राजधानी क्या है और वहाँ कितने लोग रहते हैं आज", "{}"),
        ("中国的首都是哪一座城市？请回答。", "问：{}答"),
        ("ประเทศไทยมีเมืองหลวงชื่อว่าอะไร", "{}"),
    ],
)
def test_words_of_other_scripts(tmp_path, question, training):
    (tmp_path / "a.txt").write_text("… " + training.format(question.upper()), encoding="utf-8")
    (tmp_path / "b.txt").write_text("… " + training.format(question[::-1]), encoding="utf-8")
    (found,) = Decontamination([tmp_path / "a.txt"]).search([[question]])[0]
    assert found
    assert Decontamination([tmp_path / "b.txt"]).search([[question]])[0] == [[]]


def test_accents_are_the_same_however_they_are_encoded(tmp_path):
    question = "El niño comió después un melón muy frío aquí también"
    decomposed = question.replace("ñ", "n\u0303").replace("ó", "o\u0301").replace("í", "i\u0301")
    (tmp_path / "a.txt").write_text(decomposed, encoding="utf-8")
    assert Decontamination([tmp_path / "a.txt"]).search([[question]])[0] == [[question]]


def test_n_is_the_fifth_percentile_of_a_tasks_lengths_between_8_and_13(tmp_path):
    assert gram_size([3] * 20) == 8
    assert gram_size([50] * 20) == 13
    assert gram_size([10] * 10 + [100] * 90) == 10
    assert gram_size([10] * 2 + [100] * 98) == 13

    (tmp_path / "a.txt").write_text("one two three four five six seven eight nine other")
    short, long = "one two three four five six seven eight", "one two three four five six seven "
    tasks = [[short] * 3, [long + "eight nine ten eleven twelve thirteen fourteen"], []]
    found = Decontamination([tmp_path / "a.txt"]).search(tasks)
    assert found == [[[short]] * 3, [[]], []]


def naive(training: list[str], query: list[str], n: int) -> bool:
    grams = {tuple(words[i : i + n]) for words in map(str.split, training) for i in range(999)}
    return any(tuple(query[i : i + n]) in grams for i in range(len(query) - n + 1))


@given(st.integers(0, 10**6), st.integers(8, 13), st.sampled_from([1, 5, 40, 1000]))
@settings(max_examples=60, deadline=None)
def test_what_is_found_is_what_a_plain_search_finds(tmp_path_factory, seed, n, batch):
    generator = random.Random(seed)
    training = [
        " ".join(generator.choices("abé", k=generator.randrange(60))) for _ in range(3)
    ]  # with so few words some n-grams recur by chance, and most queries are near misses
    queries = [generator.choices("abé", k=generator.randrange(13, 20)) for _ in range(8)]
    words = training[0].split()
    queries.append((words * 13)[:13] if words else ["a"] * 13)
    folder = tmp_path_factory.mktemp("training")
    for number, text in enumerate(training):
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        # So that passages lie over the seams between what is read and hashed at once.
        patch.setattr(decontaminate, "BATCH", batch)
        patch.setattr(sources, "BLOCK", max(4, batch // 2))
        found = Decontamination([folder], n=n).search([[" ".join(query) for query in queries]])[0]
    assert [bool(passages) for passages in found] == [naive(training, q, n) for q in queries]


MEASURE = """
import resource, sys
from evalcore.contamination.decontaminate import Decontamination
questions = [f"{{n}} of the green bottles number {{n}} hang on wall {{n}}" for n in range(2000)]
found = Decontamination([{path!r}]).search([[*questions, {planted!r}]])[0]
assert [bool(p) for p in found] == [False] * 2000 + [True]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_training_text(tmp_path):
    generator = random.Random(0)
    vocabulary = ["".join(generator.choices("abcdefghij", k=6)) for _ in range(5000)]
    block = "\n".join(
        json.dumps({"text": " ".join(generator.choices(vocabulary, k=300))}) for _ in range(500)
    )
    planted = json.dumps({"text": IN_TRAINING})
    peaks = []
    for times in (1, 20):
        path = tmp_path / f"{times}.jsonl.zst"
        compressor = zstandard.ZstdCompressor().compressobj()
        with path.open("wb") as file:
            for _ in range(times):
                file.write(compressor.compress(f"{block}\n".encode()))
            file.write(compressor.compress(planted.encode()) + compressor.flush())
        code = MEASURE.format(path=str(path), planted=PLANTED)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout) * 1024)
    assert len(block) * 20 > 20_000_000
    assert peaks[1] - peaks[0] < 15_000_000


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text": \n', "line 2 is not JSON"),
        ("a.jsonl.zst", b"no frame", "damaged"),
        ("a.txt.gz", b"no gzip", "damaged"),
        ("a.txt.gz", gzip.compress(b"word " * 9999, mtime=0)[:-20], "damaged"),
        ("a.parquet", b"no parquet", "damaged"),
        ("a.bin", b"words\0\1\2", "no UTF-8 text"),
    ],
)
def test_a_damaged_source_is_named(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError, match=said) as error:
        Decontamination([tmp_path / name]).search([[PLANTED]])[0]
    assert name in str(error.value)


def test_what_is_not_there_or_cannot_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    for source in (str(tmp_path / "nothing"), "./nothing", "nothing.jsonl", tmp_path / "empty"):
        with pytest.raises(TaskError, match=r"decontaminate: .*(nothing|empty)"):
            Decontamination([source])

    path = tmp_path / "a.txt"
    path.write_text(FILLER)
    decontamination = Decontamination([path])
    path.unlink()
    with pytest.raises(InfraError, match=r"a\.txt cannot be read"):
        decontamination.search([[PLANTED]])[0]

    monkeypatch.setattr(sources, "LONGEST_LINE", 1000)
    (tmp_path / "a.jsonl").write_text(json.dumps([{"text": FILLER}] * 100))
    with pytest.raises(TaskError, match="line 1 is longer than 1000 bytes"):
        Decontamination([tmp_path / "a.jsonl"]).search([[PLANTED]])[0]


@pytest.mark.parametrize("n", [7, 14])
def test_another_n_is_refused(tmp_path, n):
    with pytest.raises(TaskError, match=f"expected 8 to 13 words, got {n}"):
        Decontamination([tmp_path], n=n)
