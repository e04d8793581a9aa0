"""`publish_samples: ids`: every number, and nothing that anybody wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from evalcore.cli import main
from evalcore.record import RunRecord, read_samples
from tests.evalcore.toys import evaluated, write_run, write_toys

NAMES = ("toy_choice", "toy_shots", "toy_likely", "toy_rolling", "toy_written")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tasks evaluated with their text and without."""
    folder = tmp_path_factory.mktemp("withheld")
    tasks = write_toys(folder)
    write_run(folder / "full", evaluated(tasks, ",".join(NAMES)))
    for name in NAMES:
        file = tasks / f"{name}.yaml"
        keys = yaml.safe_load(file.read_text())
        keys["metadata"] = {**keys.get("metadata", {}), "benchmark": name, "publish_samples": "ids"}
        keys["metadata"].setdefault("version", 1)
        file.write_text(yaml.safe_dump(keys))
    write_run(folder / "ids", evaluated(tasks, ",".join(NAMES)))
    return folder


def records(folder: Path) -> dict[str, RunRecord]:
    found = (RunRecord.read(path) for path in folder.glob("record_*.json"))
    return {record.task: record for record in found}


def test_the_numbers_are_those_of_the_full_samples(runs: Path) -> None:
    full, ids = records(runs / "full"), records(runs / "ids")
    assert full.keys() == ids.keys() == set(NAMES)
    for name in NAMES:
        assert ids[name].without_text == [name]
        assert ids[name].docs_digest == full[name].docs_digest
        assert [(row.metric, row.value, row.low, row.high) for row in ids[name].results] == [
            (row.metric, row.value, row.low, row.high) for row in full[name].results
        ]


def words(value: object) -> set[str]:
    """Every text of four letters or more anywhere in a document or a sample."""
    if isinstance(value, str):
        return {word for word in value.split() if len(word) > 3}
    if isinstance(value, dict):
        return {word for part in value.values() for word in words(part)}
    if isinstance(value, list | tuple):
        return {word for part in value for word in words(part)}
    return set()


def test_no_file_holds_a_word_of_a_document_or_an_answer(runs: Path, tmp_path: Path) -> None:
    written: set[str] = set()
    for record in records(runs / "full").values():
        for sample in read_samples(runs / "full" / record.samples.file):
            written |= words(json.loads(sample["doc"])) | words(sample["prompt"])
            written |= words([response["text"] for response in sample["responses"]])
    for file in runs.glob("**/*.yaml"):  # what the task's own file says is no secret
        written -= words(file.read_text().replace('"', " ").replace("'", " "))
    assert len(written) > 5
    for form in ("lm-eval", "parquet", "every-eval-ever"):
        place = ["--output_path", str(tmp_path / form)]
        assert main(["convert", str(runs / "ids"), "--to", form, *place]) == 0
    files = [file for file in (*tmp_path.rglob("*"), *(runs / "ids").iterdir()) if file.is_file()]
    assert {file.suffix for file in files} == {".json", ".jsonl", ".parquet"}
    for file in files:
        text = text_of(file)
        assert not [word for word in written if f" {word}" in text or f"{word} " in text], file


def text_of(file: Path) -> str:
    if file.suffix == ".parquet":
        return json.dumps(pq.read_table(file).to_pylist(), default=str)
    return file.read_text()


def test_token_ids_which_spell_the_text_are_gone(runs: Path) -> None:
    for record in records(runs / "ids").values():
        for sample in read_samples(runs / "ids" / record.samples.file):
            assert not any(any(response["token_ids"]) for response in sample["responses"])
            assert sample["doc_digest"]


def test_verify_computes_the_numbers_again_and_says_what_it_cannot(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(runs / "ids"), "--level", "aggregate"]) == 0
    assert main(["verify", str(runs / "ids")]) == 0
    told = capsys.readouterr().out
    assert "toy_choice: scores: its samples carry no text to score again" in told
