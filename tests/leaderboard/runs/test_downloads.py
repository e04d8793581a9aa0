"""The files of a run in the forms of other tools, made of runs that the engine made."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import jsonschema
import pytest
from django.test import Client

from evalcore.cli import main
from evalcore.formats.run_files import read_runs
from evalcore.record import RunRecord
from leaderboard.models import Run
from leaderboard.runs.dialects import DIALECTS
from tests.leaderboard import engine_runs
from tests.leaderboard.runs.test_page import content, get
from tests.services import missing

FILES = [dialect.file for dialect in DIALECTS]


@pytest.fixture
def runs(db: None, tmp_path: Path) -> dict[str, Run]:
    return engine_runs.finished(tmp_path)


@pytest.fixture
def run(db: None, tmp_path: Path) -> Run:
    return engine_runs.finished(tmp_path, ["toy_written"])["toy_written"]


def fetched(client: Client, run: Run, file: str) -> str:
    response = client.get(f"/runs/{run.pk}/{file}")
    assert response.status_code == 200
    return content(response).decode()


def saved(client: Client, run: Run, folder: Path, *files: str) -> Path:
    """Downloads under the names that the site gives them."""
    folder.mkdir(parents=True)
    for file in files:
        response = client.get(f"/runs/{run.pk}/{file}")
        name = re.fullmatch(r'attachment; filename="([^"/]+)"', response["Content-Disposition"])
        assert name
        (folder / name[1]).write_bytes(content(response))
    return folder


def test_every_form_is_offered_with_a_link_that_works(client: Client, run: Run) -> None:
    html = get(client, f"/runs/{run.pk}")
    for file in (*FILES, "record.json", "samples.parquet"):
        assert f'href="/runs/{run.pk}/{file}"' in html
        assert fetched(client, run, file) if file != "samples.parquet" else True


@pytest.mark.parametrize("file", FILES)
def test_a_made_file_has_a_tag_a_name_and_is_no_page(client: Client, run: Run, file: str) -> None:
    address = f"/runs/{run.pk}/{file}"
    response = client.get(address)
    assert response.streaming
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Disposition"].startswith('attachment; filename="')
    assert response["Content-Type"] in ("application/json", "application/x-ndjson")
    assert content(response) == content(client.get(address))
    known = client.get(address, headers={"If-None-Match": response["ETag"]})
    assert (known.status_code, known.content) == (304, b"")
    assert client.head(address).status_code == 200
    assert client.post(address).status_code == 405


def test_no_two_forms_share_a_tag(client: Client, run: Run) -> None:
    addresses = [f"/runs/{run.pk}/{file}" for file in (*FILES, "record.json", "samples.parquet")]
    assert len({client.get(address)["ETag"] for address in addresses}) == len(addresses)


def test_a_file_that_no_run_has_is_not_found(client: Client, run: Run) -> None:
    for address in (f"/runs/{run.pk}/secrets.txt", f"/runs/{uuid4()}/results.json"):
        assert client.get(address).status_code == 404


def test_a_run_without_results_has_no_files(client: Client, run: Run) -> None:
    run.artifacts.all().delete()
    for file in FILES:
        assert client.get(f"/runs/{run.pk}/{file}").status_code == 404
    assert 'id="downloads"' not in get(client, f"/runs/{run.pk}")


@pytest.mark.parametrize("task", engine_runs.ALL)
def test_lm_eval_s_results_read_back_with_every_number(
    client: Client, runs: dict[str, Run], tmp_path: Path, task: str
) -> None:
    folder = saved(client, runs[task], tmp_path / "back", "results.json")
    (record,) = [one.record for one in read_runs(folder.iterdir()) if one.record.task == task]
    stored = RunRecord.of(json.loads(fetched(client, runs[task], "record.json")))
    numbers = {(row.metric, row.filter): row.value for row in stored.own_results()}
    assert {(row.metric, row.filter): row.value for row in record.own_results()} == numbers


def test_lm_eval_s_hashes_are_those_that_the_engine_writes(
    client: Client, runs: dict[str, Run], tmp_path: Path
) -> None:
    group = runs["toy_group"]
    record = RunRecord.of(json.loads(fetched(client, group, "record.json")))
    folder = tmp_path / "native"
    folder.mkdir()
    (folder / "record_x.json").write_text(fetched(client, group, "record.json"))
    parquet = content(client.get(f"/runs/{group.pk}/samples.parquet"))
    (folder / record.samples.file).write_bytes(parquet)
    out = str(tmp_path / "out")
    assert main(["convert", str(folder), "--to", "lm-eval", "--output_path", out]) == 0
    (written,) = Path(out).rglob("results_*.json")
    made = json.loads(fetched(client, group, "results.json"))
    assert made["task_hashes"] == json.loads(written.read_text())["task_hashes"]
    assert made["task_hashes"].keys() == {"toy_choice", "toy_shots", "toy_written"}


@pytest.mark.parametrize("task", engine_runs.ALL)
def test_every_eval_ever_s_files_are_valid_and_belong_together(
    client: Client, runs: dict[str, Run], test_data: Path, task: str
) -> None:
    schemas = test_data.parent / "eee"
    if not schemas.is_dir():
        missing(f"NO SCHEMAS: {schemas} is no folder")
    aggregate, instance = (
        jsonschema.Draft7Validator(json.loads((schemas / name).read_text()))
        for name in ("eval.schema.json", "inst.schema.json")
    )
    whole = json.loads(fetched(client, runs[task], "every_eval_ever.json"))
    aggregate.validate(whole)
    pointer = Path(whole["detailed_evaluation_results"]["file_path"])
    response = client.get(f"/runs/{runs[task].pk}/every_eval_ever_samples.jsonl")
    assert response["Content-Disposition"] == f'attachment; filename="{pointer.name}"'
    numbers = {result["evaluation_result_id"] for result in whole["evaluation_results"]}
    lines = [json.loads(line) for line in content(response).decode().splitlines()]
    assert lines
    for line in lines:
        instance.validate(line)
        assert line["evaluation_id"] == whole["evaluation_id"]
        assert line.get("error") or line["evaluation_result_id"] in numbers


def test_every_eval_ever_s_aggregate_reads_back(client: Client, run: Run, tmp_path: Path) -> None:
    files = ("every_eval_ever.json", "every_eval_ever_samples.jsonl")
    folder = saved(client, run, tmp_path / "back", *files)
    (back,) = read_runs([next(folder.glob("*.json"))])
    stored = RunRecord.of(json.loads(fetched(client, run, "record.json")))
    assert back.record.results == stored.results
    assert back.record.run_key == stored.run_key


def test_the_commands_of_the_page_verify_the_number(
    client: Client, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html = get(client, f"/runs/{run.pk}")
    commands = html[html.index("curl -fo record.json") :]
    commands = commands[: commands.index("</code>")].splitlines()
    fetches = [
        re.fullmatch(r"curl -fo (\S+) http://testserver(\S+)", line) for line in commands[:2]
    ]
    folder = tmp_path / "fetched"
    folder.mkdir()
    for fetch in fetches:
        assert fetch
        (folder / fetch[1]).write_bytes(content(client.get(fetch[2])))
    levels = []
    for command in commands[2:]:
        program, *arguments = command.split()
        arguments[1] = str(folder / arguments[1])
        assert program == "evalcore"
        assert main(arguments) == 0
        levels.append(arguments[-1])
    assert levels == ["aggregate", "rescore"]
    assert "agrees" in capsys.readouterr().out


def test_what_a_browser_saved_is_verified_under_the_names_it_gave(
    client: Client, db: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What /about asks for: both files into one folder, here those of two runs and twice each."""
    runs = engine_runs.finished(tmp_path, ["toy_choice", "toy_written"])
    folder = saved(client, runs["toy_written"], tmp_path / "downloads", *FILES)
    for name in ("toy_choice", "toy_written"):
        for file in ("record.json", "samples.parquet"):
            (path,) = saved(client, runs[name], tmp_path / name / file, file).iterdir()
            path.rename(folder / path.name)
            (folder / f"{path.stem} (1){path.suffix}").write_bytes(
                (folder / path.name).read_bytes()
            )
            if file == "samples.parquet" and name == "toy_written":
                (folder / path.name).unlink()
    assert main(["verify", str(folder / "lab__toy_toy_written_record (1).json")]) == 0
    assert "rows of the samples" not in capsys.readouterr().out
    assert main(["verify", str(folder)]) == 0
    assert capsys.readouterr().out.count("level rescore: agrees") == 4


@pytest.fixture
def sample_lines(client: Client, run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in fetched(client, run, "samples.jsonl").splitlines()]


def test_the_jsonl_has_a_line_for_each_question_and_filter(
    sample_lines: list[dict[str, Any]],
) -> None:
    keys = [(line["doc_id"], line["filter"]) for line in sample_lines]
    assert keys == [(doc, filter) for doc in range(12) for filter in ("strict", "flexible")]
