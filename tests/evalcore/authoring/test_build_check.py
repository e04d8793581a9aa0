"""validate really builds tasks, and survives what their code does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.authoring.build_check import BuildReport, build_checks
from evalcore.cli import main
from evalcore.record import RunRecord
from tests.evalcore.toys import write_toys
from tests.evalcore.worlds import write_tasks

CODE = """
import os, sys, time
def leave(docs):
    sys.exit("I leave")
def crash(docs):
    os.abort()
def hang(docs):
    time.sleep(600)
def shout(docs):
    print("noise")
    return docs
"""


def reports(
    folder: Path, functions: dict[str, str], seconds: float = 100, **keys: Any
) -> dict[str, BuildReport]:
    """Builds a task for each entry, with that function as its process_docs."""
    (folder / "code.py").write_text(CODE)
    rows = folder / "rows.jsonl"
    rows.write_text('{"question": "one?", "answer": "a"}\n' * 3)
    values = {
        "dataset_path": "json",
        "dataset_kwargs": {
            "data_files": {"test": str(rows)},
            "cache_dir": str(folder.parent / "cache"),
        },
        "test_split": "test",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        **keys,
    }
    files = {
        f"{name}.yaml": yaml.safe_dump({"task": name, **values})
        + (f"process_docs: !function code.{function}\n" if function else "")
        for name, function in functions.items()
    }
    specs = write_tasks(folder, files).select(sorted(functions))
    return {report.task: report for report in build_checks(specs, time_limit=seconds, limit=2)}


def test_a_task_that_exits_hangs_or_crashes_takes_no_other_with_it(tmp_path: Path) -> None:
    found = reports(
        tmp_path,
        {"a": "", "b": "leave", "c": "crash", "d": "shout", "e": "hang", "f": "nowhere", "g": ""},
        seconds=12,
    )
    assert list(found) == ["a", "b", "c", "d", "e", "f", "g"]
    assert [name for name, report in found.items() if report.ok] == ["a", "d", "g"]
    assert found["a"] == BuildReport(task="a", ok=True, requests=2)
    assert "SystemExit: I leave" in found["b"].reason
    assert "ended the process (exit status -6)" in found["c"].reason
    assert "longer than 12 s" in found["e"].reason
    assert "!function code.nowhere" in found["f"].reason
    assert found["d"].capability == "functions"


def test_what_is_wrong_only_with_examples_or_scoring_is_found(tmp_path: Path) -> None:
    found = reports(
        tmp_path,
        {"a": ""},
        num_fewshot=1,
        fewshot_config={"samples": [{"question": "no answer?"}]},
    )
    assert "answer" in found["a"].reason
    found = reports(tmp_path, {"a": ""}, metric_list=[{"metric": "exact_mach"}])
    assert "there is no metric 'exact_mach'" in found["a"].reason


CHOICE = {"output_type": "multiple_choice", "doc_to_choice": ["a", "b"]}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({**CHOICE, "doc_to_target": "anwser"}, "there is no column 'anwser' (did you mean answer"),
        ({**CHOICE, "doc_to_target": 7}, "the right answer is 7, which is none of the 2 choices"),
        ({**CHOICE, "doc_to_choice": ["b", "c"]}, "the right answer is 'a', which is none"),
        ({"doc_to_target": "key"}, "is 'key'; there is no column 'key': there are question, answ"),
        ({"doc_to_target": ""}, ""),
        ({**CHOICE, "doc_to_target": "b"}, ""),
    ],
)
def test_an_answer_that_none_could_give_is_told(tmp_path: Path, keys: dict, said: str) -> None:
    found = reports(tmp_path, {"a": ""}, **keys)["a"]
    assert found.ok == (not said)
    assert said in found.reason


def test_compat_scores_such_documents_0_and_says_so(tmp_path: Path, capsys) -> None:
    tasks = write_toys(tmp_path)
    keys = yaml.safe_load((tasks / "toy_choice.yaml").read_text()) | {"doc_to_target": "anwser"}
    (tasks / "toy_choice.yaml").write_text(yaml.safe_dump(keys))
    command = ["run", "--model", "dummy", "--tasks", "toy_choice", "--include_path", str(tasks)]
    assert main([*command, "--limit", "5", "--output_path", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "toy_choice: of 5 documents the right answer is none of the choices" in said
    (record,) = (tmp_path / "out").rglob("record_*.json")
    assert RunRecord.read(record).unanswerable == {"toy_choice": 5}
