"""The files of a run in the forms of other tools, and its number counted again from them.

All is made of runs that the engine made.
"""

from __future__ import annotations

import html as html_module
import json
import logging
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import jsonschema
import pytest
from django.core.cache import caches
from django.test import Client

from evalcore.cli import main
from evalcore.formats.run_files import read_runs
from evalcore.record import RunRecord, read_samples, write_samples
from evalcore.verify import recount as verify
from leaderboard.models import Artifact, Run
from leaderboard.runs import headline, recount
from leaderboard.runs.downloads import DIALECTS
from leaderboard.samples import store as artifacts
from leaderboard.web import background
from leaderboard.web.background import Background
from tests.leaderboard import engine_runs
from tests.leaderboard import factories as make
from tests.leaderboard.pages import download, get
from tests.leaderboard.rows import clear_site, once_per_module
from tests.services import missing

pytestmark = pytest.mark.django_db

FILES = [dialect.file for dialect in DIALECTS]
STORED = ["record.json", "samples.parquet"]


@once_per_module
def runs() -> dict[str, Run]:
    with tempfile.TemporaryDirectory() as folder:
        return engine_runs.finished(Path(folder))


@pytest.fixture
def run(runs: dict[str, Run]) -> Run:
    return Run.objects.get(pk=runs["toy_written"].pk)


@pytest.fixture
def spoiled(runs: dict[str, Run]) -> Iterator[Run]:
    """A run whose stored files a test may change or remove; they are put back."""
    run = Run.objects.get(pk=runs["toy_choice"].pk)
    caches["throttle"].clear()
    caches["default"].clear()
    paths = [artifacts.path_of(artifact.sha256) for artifact in run.artifacts.all()]
    contents = [path.read_bytes() for path in paths]
    for path in paths:
        path.chmod(0o644)
    yield run
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
        path.chmod(0o444)


def stored(run: Run, kind: str) -> Path:
    return artifacts.path_of(run.artifacts.get(kind=kind).sha256)


def content(response: Any) -> bytes:
    return b"".join(response.streaming_content)


def fetched(client: Client, run: Run, file: str) -> bytes:
    return download(client, f"/runs/{run.pk}/{file}")


def saved(client: Client, run: Run, folder: Path, *files: str) -> Path:
    """Downloads under the names that the site gives them."""
    folder.mkdir(parents=True)
    for file in files:
        response = client.get(f"/runs/{run.pk}/{file}")
        name = re.fullmatch(r'attachment; filename="([^"/]+)"', response["Content-Disposition"])
        (folder / name[1]).write_bytes(content(response))
    return folder


def test_every_file_is_offered_with_a_name_and_a_tag_and_is_no_page(
    client: Client, run: Run
) -> None:
    tags, page = set(), get(client, f"/runs/{run.pk}")
    for file in (*FILES, *STORED):
        address = f"/runs/{run.pk}/{file}"
        assert f'href="{address}"' in page
        response = client.get(address)
        assert response.streaming
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response["Content-Disposition"].startswith('attachment; filename="')
        assert not response["Content-Type"].startswith("text/html")
        assert content(response) == content(client.get(address)), file
        tags.add(response["ETag"])
        known = client.get(address, headers={"If-None-Match": response["ETag"]})
        assert (known.status_code, known.content) == (304, b"")
        assert client.head(address).status_code == 200
        assert client.post(address).status_code == 405
    assert len(tags) == len(FILES) + len(STORED)
    for known_by in ("W/{}", '"another", {}', "*"):
        headers = {"If-None-Match": known_by.format(response["ETag"])}
        assert client.get(address, headers=headers).status_code == 304, known_by


def test_what_no_run_has_is_not_found(client: Client, run: Run) -> None:
    nobodys = f"/runs/{uuid4()}"
    for address in (
        f"/runs/{run.pk}/secrets.txt",
        *(f"{nobodys}{tail}" for tail in ("", "/progress", "/recount", "/results.json")),
        *(f"{nobodys}/{file}" for file in STORED),
    ):
        assert client.get(address).status_code == 404, address
    run.artifacts.all().delete()
    for file in FILES:
        assert client.get(f"/runs/{run.pk}/{file}").status_code == 404
    assert 'id="downloads"' not in get(client, f"/runs/{run.pk}")
    waiting = make.make_submission(make.make_variant("lab/one"), make.make_suite()).runs.first()
    assert client.get(f"/runs/{waiting.pk}/recount").status_code == 404
    assert client.get(f"/runs/{run.pk}/recount").status_code == 404
    part = client.get(f"/runs/{run.pk}/recount", headers={"HX-Request": "true"})
    assert (part.status_code, "not stored here" in part.text) == (200, True)


def test_a_lost_samples_file_costs_the_browser_and_not_the_number(
    client: Client, spoiled: Run
) -> None:
    stored(spoiled, Artifact.Kind.SAMPLES).unlink()
    html = get(client, f"/runs/{spoiled.pk}")
    assert "could not be read just now" in html
    assert "Right answers" in html
    assert client.get(f"/runs/{spoiled.pk}/samples.parquet").status_code == 404


# As they are stored


def test_the_parquet_file_arrives_as_it_is_stored(client: Client, spoiled: Run) -> None:
    samples = spoiled.artifacts.get(kind="samples")
    response = client.get(f"/runs/{spoiled.pk}/samples.parquet")
    assert content(response) == artifacts.path_of(samples.sha256).read_bytes()
    assert response["ETag"] == f'"{samples.sha256}"'
    assert response["Content-Length"] == str(samples.bytes)
    assert response["Content-Disposition"] == (
        'attachment; filename="lab__toy_toy_choice_samples.parquet"'
    )


def test_the_lines_of_pandas_work_on_the_downloaded_file(
    client: Client, spoiled: Run, tmp_path: Path
) -> None:
    html = get(client, f"/runs/{spoiled.pk}")
    block = html[html.index("Lines of Python") :]
    lines = html_module.unescape(re.findall(r"<code\s*>(.*?)</code>", block, re.DOTALL)[0])
    url = f"http://testserver/runs/{spoiled.pk}/samples.parquet"
    assert lines.count("\n") == 2
    file = tmp_path / "samples.parquet"
    file.write_bytes(download(client, url))
    names: dict[str, Any] = {}
    exec(lines.replace(url, str(file)), names)
    answers = names["answers"]
    responses = answers["responses"].iloc[0]
    told = [response["loglikelihood"] for response in responses]
    assert answers["loglikelihoods"].iloc[0].tolist() == told
    assert answers["correct"].mean() == spoiled.results.get(metric="acc", subset="").value


def test_a_range_is_sent_as_asked(client: Client, run: Run) -> None:
    address = f"/runs/{run.pk}/samples.parquet"
    whole = stored(run, Artifact.Kind.SAMPLES).read_bytes()
    many = "9" * 5000
    for asked, start, end in (
        ("0-9", 0, 10),
        ("-8", -8, None),
        ("20-", 20, None),
        (f"0-{many}", 0, None),
        (f"-{many}", 0, None),
    ):
        response = client.get(address, headers={"Range": f"bytes={asked}"})
        assert response.status_code == 206
        assert content(response) == whole[start:end], asked[:9]
    for beyond in (f"{len(whole)}-", f"{many}-"):
        response = client.get(address, headers={"Range": f"bytes={beyond}"})
        assert response.status_code == 416
        assert response["Content-Range"] == f"bytes */{len(whole)}"


# As other tools read them


def test_lm_eval_s_results_read_back_with_every_number(
    client: Client, runs: dict[str, Run], tmp_path: Path
) -> None:
    for task in engine_runs.ALL:
        folder = saved(client, runs[task], tmp_path / task, "results.json")
        (record,) = [one.record for one in read_runs(folder.iterdir()) if one.record.task == task]
        kept = RunRecord.of(json.loads(fetched(client, runs[task], "record.json")))
        numbers = {(row.metric, row.filter): row.value for row in kept.own_results()}
        assert {(row.metric, row.filter): row.value for row in record.own_results()} == numbers


def test_lm_eval_s_hashes_are_those_that_the_engine_writes(
    client: Client, runs: dict[str, Run], tmp_path: Path
) -> None:
    group = runs["toy_group"]
    record = RunRecord.of(json.loads(fetched(client, group, "record.json")))
    folder = tmp_path / "native"
    folder.mkdir()
    (folder / "record_x.json").write_bytes(fetched(client, group, "record.json"))
    (folder / record.samples.file).write_bytes(fetched(client, group, "samples.parquet"))
    out = str(tmp_path / "out")
    assert main(["convert", str(folder), "--to", "lm-eval", "--output_path", out]) == 0
    (written,) = Path(out).rglob("results_*.json")
    made = json.loads(fetched(client, group, "results.json"))
    assert made["task_hashes"] == json.loads(written.read_text())["task_hashes"]
    assert made["task_hashes"].keys() == {"toy_choice", "toy_shots", "toy_written"}


def test_every_eval_ever_s_files_are_valid_and_belong_together(
    client: Client, runs: dict[str, Run], test_data: Path
) -> None:
    schemas = test_data.parent / "eee"
    if not schemas.is_dir():
        missing(f"NO SCHEMAS: {schemas} is no folder")
    aggregate, instance = (
        jsonschema.Draft7Validator(json.loads((schemas / name).read_text()))
        for name in ("eval.schema.json", "inst.schema.json")
    )
    for task in engine_runs.ALL:
        whole = json.loads(fetched(client, runs[task], "every_eval_ever.json"))
        aggregate.validate(whole)
        pointer = Path(whole["detailed_evaluation_results"]["file_path"])
        response = client.get(f"/runs/{runs[task].pk}/every_eval_ever_samples.jsonl")
        assert response["Content-Disposition"] == f'attachment; filename="{pointer.name}"'
        numbers = {result["evaluation_result_id"] for result in whole["evaluation_results"]}
        lines = [json.loads(line) for line in content(response).decode().splitlines()]
        assert lines, task
        for line in lines:
            instance.validate(line)
            assert line["evaluation_id"] == whole["evaluation_id"]
            assert line.get("error") or line["evaluation_result_id"] in numbers


def test_every_eval_ever_s_aggregate_reads_back(client: Client, run: Run, tmp_path: Path) -> None:
    files = ("every_eval_ever.json", "every_eval_ever_samples.jsonl")
    folder = saved(client, run, tmp_path / "back", *files)
    (back,) = read_runs([next(folder.glob("*.json"))])
    kept = RunRecord.of(json.loads(fetched(client, run, "record.json")))
    assert back.record.results == kept.results
    assert back.record.run_key == kept.run_key == run.run_key


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


def test_the_jsonl_has_a_line_for_each_question_and_filter_in_the_peers_form(
    client: Client, run: Run
) -> None:
    lines = [json.loads(line) for line in fetched(client, run, "samples.jsonl").splitlines()]
    keys = [(line["doc_id"], line["filter"]) for line in lines]
    assert keys == [(doc, filter) for doc in range(12) for filter in ("strict", "flexible")]
    first = next(iter(read_samples(stored(run, Artifact.Kind.SAMPLES))))
    assert lines[0]["arguments"]["gen_args_0"]["arg_0"] == first["prompt"]


# Counting a run's number again: from the very files, loud where they do not give it.


def words(response: Any) -> str:
    return " ".join(response.content.decode().split())


def test_a_run_as_it_was_measured_checks_out_and_no_crawler_asks(
    client: Client, spoiled: Run
) -> None:
    said = words(client.get(f"/runs/{spoiled.pk}/recount"))
    value = spoiled.results.get(metric="acc", subset="").value
    right = round(12 * value)
    assert f"<b>It checks out.</b> {right} of 12 right is {100 * value:.1f}, as published." in said
    assert "All 12 questions scored again" in said
    assert "differs" not in said
    page = words(client.get(spoiled.get_absolute_url()))
    assert f'href="/runs/{spoiled.pk}/recount" rel="nofollow"' in page
    answer = client.get(f"/runs/{spoiled.pk}/recount")
    assert (answer["Cache-Control"], answer["X-Robots-Tag"]) == ("no-store", "noindex")
    assert client.post(f"/runs/{spoiled.pk}/recount").status_code == 405


def test_a_changed_file_is_shown_loudly_and_logged(
    client: Client, spoiled: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = stored(spoiled, Artifact.Kind.SAMPLES)
    rows = list(read_samples(path))
    score = next(score for score in rows[3]["scores"] if score["metric"] == "acc")
    score.update(value=1.0 - score["value"], item=None)
    write_samples(tmp_path / "changed.parquet", rows)
    path.write_bytes((tmp_path / "changed.parquet").read_bytes())
    with caplog.at_level(logging.ERROR):
        said = words(client.get(f"/runs/{spoiled.pk}/recount"))
    assert "It does not check out." in said
    assert "SHA-256 of the answers: stated" in said
    assert "document 3: acc (none)" in said
    assert "It checks out" not in said
    (line,) = [record for record in caplog.records if record.name == recount.__name__]
    assert str(spoiled.pk) in line.getMessage()


def test_a_changed_or_foreign_number_is_shown_loudly_and_logged(
    client: Client, spoiled: Run, caplog: pytest.LogCaptureFixture
) -> None:
    result = spoiled.results.get(metric="acc", subset="")
    spoiled.results.filter(pk=result.pk).update(value=(result.value + result.high) / 2)
    changed = spoiled.results.get(pk=result.pk).value
    with caplog.at_level(logging.ERROR):
        said = words(client.get(f"/runs/{spoiled.pk}/recount"))
    assert "It does not check out." in said
    computed, published = f"{100 * result.value:.1f}", f"{100 * changed:.1f}"
    assert f"The stored answers give {computed}, published is {published}." in said
    assert f"value: stated {changed!r}, computed {result.value!r}" in said
    assert any(record.name == recount.__name__ for record in caplog.records)
    result.pk, result.subset = None, "hard ones"
    result.save()
    said = words(client.get(f"/runs/{spoiled.pk}/recount"))
    assert "hard ones acc none: stated" in said
    assert "It does not check out." in said


def test_a_changed_record_and_files_that_are_lost_or_nothing_are_said(
    client: Client, spoiled: Run
) -> None:
    address = f"/runs/{spoiled.pk}/recount"
    record = stored(spoiled, Artifact.Kind.RECORD)
    record.write_text(record.read_text() + " ")
    assert "SHA-256 of the record: stated" in words(client.get(address))
    samples = stored(spoiled, Artifact.Kind.SAMPLES)
    samples.write_bytes(b"nothing")
    assert "the file of the answers cannot be read" in words(client.get(address))
    samples.unlink()
    said = words(client.get(address))
    assert "its file is not in the store" in said
    assert "It does not check out." in said


def test_answers_whose_text_is_withheld_are_added_up_and_no_more(
    client: Client, tmp_path: Path
) -> None:
    clear_site()
    withheld = engine_runs.finished(tmp_path, ["toy_choice"], publish="ids")["toy_choice"]
    said = words(client.get(f"/runs/{withheld.pk}/recount"))
    assert "It checks out." in said
    assert "scored again" not in said
    assert "texts are withheld" in said


@pytest.fixture
def slow_count(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Counting ends when the test says so, or after ten seconds."""
    monkeypatch.setattr(background, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(recount, "jobs", Background("test", threads=1, most=2, keep_seconds=60))
    go_on, count = threading.Event(), verify.recount

    def count_later(*arguments: Any, **options: Any) -> Any:
        go_on.wait(10)
        return count(*arguments, **options)

    monkeypatch.setattr(verify, "recount", count_later)
    yield go_on
    go_on.set()
    caches["default"].clear()


def test_nobody_waits_in_a_request_for_a_count_and_its_page_asks_until_it_is_there(
    client: Client, spoiled: Run, runs: dict[str, Run], slow_count: threading.Event
) -> None:
    addresses = [f"/runs/{run.pk}/recount" for run in (spoiled, runs["toy_written"])]
    began = time.monotonic()
    answers = [client.get(address) for address in addresses * 2]
    assert time.monotonic() - began < 5
    for address, answer in zip(addresses * 2, answers, strict=True):
        assert answer.status_code == 202
        assert answer["Cache-Control"] == "no-store"
        assert f'hx-get="{address}"' in words(answer)
        assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in words(answer)
    slow_count.set()
    said = until_counted(client, addresses[0])
    assert "It checks out." in said
    assert "load delay" not in said
    assert "http-equiv" not in said
    assert "It checks out." in until_counted(client, addresses[1])


def test_the_site_takes_on_only_so_many_counts_and_says_at_once_that_it_has_no_room(
    client: Client, spoiled: Run, slow_count: threading.Event
) -> None:
    others = Run.objects.exclude(pk=spoiled.pk).filter(state=Run.State.DONE)[:2]
    for other in others:
        assert client.get(f"/runs/{other.pk}/recount").status_code == 202
    began = time.monotonic()
    full = client.get(f"/runs/{spoiled.pk}/recount")
    assert time.monotonic() - began < 5
    assert (full.status_code, full["Retry-After"]) == (503, "10")
    assert "Not counted: too many ask at once." in words(full)
    slow_count.set()
    for other in others:
        until_counted(client, f"/runs/{other.pk}/recount")


def until_counted(client: Client, address: str) -> str:
    end = time.monotonic() + 60
    while (answer := client.get(address)).status_code == 202 and time.monotonic() < end:
        time.sleep(0.1)
    assert answer.status_code == 200
    return words(answer)


def test_a_part_of_a_page_gets_the_verdict_alone_and_always_as_a_success(
    client: Client, spoiled: Run, slow_count: threading.Event
) -> None:
    """htmx puts no other answer into a page, and whoever asked must read why nothing came."""
    part = {"HX-Request": "true"}
    address = f"/runs/{spoiled.pk}/recount"
    others = Run.objects.exclude(pk=spoiled.pk).filter(state=Run.State.DONE)[:2]
    for other in others:
        assert client.get(f"/runs/{other.pk}/recount", headers=part).status_code == 202
    full = client.get(address, headers=part)
    assert (full.status_code, full["Retry-After"]) == (200, "10")
    assert "Not counted: too many ask at once." in words(full)
    slow_count.set()
    for other in others:
        until_counted(client, f"/runs/{other.pk}/recount")
    while (answer := client.get(address, headers=part)).status_code == 202:
        time.sleep(0.1)
    assert "It checks out." in words(answer)
    assert words(answer).startswith('<div id="counted"')


def test_a_run_tells_when_it_was_counted_last_as_long_as_its_numbers_are_the_same(
    spoiled: Run,
) -> None:
    run = headline.runs().get(pk=spoiled.pk)
    results = list(run.results.all())
    assert recount.last_outcome(run, results) is None
    Client().get(f"/runs/{run.pk}/recount")
    last = recount.last_outcome(run, results)
    assert (last.verdict, last.at) == ("same", recount.last_counted(run.pk))
    results[0].value += 0.1
    assert recount.last_outcome(run, results) is None


def test_who_asks_too_often_waits(client: Client, spoiled: Run, one_minute: None) -> None:
    address = f"/runs/{spoiled.pk}/recount"
    answers = [client.get(address).status_code for _ in range(recount.PER_MINUTE + 1)]
    assert answers == [200] * recount.PER_MINUTE + [429]
    late = client.get(address)
    assert 0 < int(late["Retry-After"]) <= 60
    assert "Not counted: too many ask at once." in words(late)
