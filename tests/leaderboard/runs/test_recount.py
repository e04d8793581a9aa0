"""Counting a run's number again: from the very files, loud where they do not give it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches
from django.test import Client

from evalcore.record import read_samples, write_samples
from leaderboard.models import Artifact, Run
from leaderboard.runs import recount
from leaderboard.samples import store as artifacts
from tests.leaderboard import engine_runs
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nobody_asked_before() -> None:
    caches["throttle"].clear()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return engine_runs.finished(tmp_path, ["toy_choice"])["toy_choice"]


def words(response: Any) -> str:
    return " ".join(response.content.decode().split())


def stored(run: Run, kind: str) -> Path:
    return artifacts.path_of(run.artifacts.get(kind=kind).sha256)


def test_a_run_as_it_was_measured_checks_out(client: Client, run: Run) -> None:
    said = words(client.get(f"/runs/{run.pk}/recount"))
    value = run.results.get(metric="acc", subset="").value
    assert f"The number checks out: {100 * value:.1f} percent, the same." in said
    assert "All 12 questions scored again" in said
    assert "differs" not in said


def test_the_page_of_the_run_leads_there_and_no_crawler_follows(client: Client, run: Run) -> None:
    page = words(client.get(run.get_absolute_url()))
    assert f'href="/runs/{run.pk}/recount" rel="nofollow"' in page
    answer = client.get(f"/runs/{run.pk}/recount")
    assert (answer["Cache-Control"], answer["X-Robots-Tag"]) == ("no-store", "noindex")
    assert client.post(f"/runs/{run.pk}/recount").status_code == 405


def test_a_changed_file_is_shown_loudly_and_logged(
    client: Client, run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = stored(run, Artifact.Kind.SAMPLES)
    rows = list(read_samples(path))
    score = next(score for score in rows[3]["scores"] if score["metric"] == "acc")
    score.update(value=1.0 - score["value"], item=None)
    write_samples(tmp_path / "changed.parquet", rows)
    path.chmod(0o644)
    path.write_bytes((tmp_path / "changed.parquet").read_bytes())
    with caplog.at_level(logging.ERROR):
        said = words(client.get(f"/runs/{run.pk}/recount"))
    assert "This does not come out as it was published." in said
    assert "SHA-256 of the answers: stated" in said
    assert "document 3: acc (none)" in said
    assert "checks out" not in said
    (line,) = [record for record in caplog.records if record.name == recount.__name__]
    assert str(run.pk) in line.getMessage()


def test_a_changed_number_is_shown_loudly_and_logged(
    client: Client, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    result = run.results.get(metric="acc", subset="")
    run.results.filter(pk=result.pk).update(value=(result.value + result.high) / 2)
    changed = run.results.get(pk=result.pk).value
    with caplog.at_level(logging.ERROR):
        said = words(client.get(f"/runs/{run.pk}/recount"))
    assert "This does not come out as it was published." in said
    assert f"Published: {100 * changed:.1f} percent." in said
    assert f"The stored answers give {100 * result.value:.1f}." in said
    assert f"value: stated {changed!r}, computed {result.value!r}" in said
    assert any(record.name == recount.__name__ for record in caplog.records)


def test_a_number_that_no_answer_gives_is_found(client: Client, run: Run) -> None:
    result = run.results.get(metric="acc", subset="")
    result.pk, result.subset = None, "hard ones"
    result.save()
    said = words(client.get(f"/runs/{run.pk}/recount"))
    assert "hard ones acc none: stated" in said
    assert "This does not come out" in said


def test_a_changed_record_is_found(client: Client, run: Run) -> None:
    path = stored(run, Artifact.Kind.RECORD)
    path.chmod(0o644)
    path.write_text(path.read_text() + " ")
    assert "SHA-256 of the record: stated" in words(client.get(f"/runs/{run.pk}/recount"))


def test_a_lost_file_is_said(client: Client, run: Run) -> None:
    stored(run, Artifact.Kind.SAMPLES).unlink()
    said = words(client.get(f"/runs/{run.pk}/recount"))
    assert "its file is not in the store" in said
    assert "This does not come out" in said


def test_a_file_that_is_nothing_is_said(client: Client, run: Run) -> None:
    path = stored(run, Artifact.Kind.SAMPLES)
    path.chmod(0o644)
    path.write_bytes(b"nothing")
    said = words(client.get(f"/runs/{run.pk}/recount"))
    assert "the file of the answers cannot be read" in said


def test_answers_whose_text_is_withheld_are_added_up_and_no_more(
    client: Client, tmp_path: Path
) -> None:
    run = engine_runs.finished(tmp_path, ["toy_choice"], publish="ids")["toy_choice"]
    said = words(client.get(f"/runs/{run.pk}/recount"))
    assert "The number checks out" in said
    assert "scored again" not in said
    assert "texts are withheld" in said


def test_who_asks_too_often_waits(client: Client, run: Run, one_minute: None) -> None:
    address = f"/runs/{run.pk}/recount"
    answers = [client.get(address).status_code for _ in range(recount.PER_MINUTE + 1)]
    assert answers == [200] * recount.PER_MINUTE + [429]
    late = client.get(address)
    assert 0 < int(late["Retry-After"]) <= 60
    assert "Not counted: too many ask at once." in words(late)


def test_a_second_reader_waits_for_the_first(
    client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recount, "WAITS", 0.01)
    with recount._AT_ONCE:
        assert client.get(f"/runs/{run.pk}/recount").status_code == 429
    assert client.get(f"/runs/{run.pk}/recount").status_code == 200


def test_a_run_without_answers_has_none_to_count(client: Client) -> None:
    waiting = make.make_submission(make.make_variant("lab/one"), make.make_suite()).runs.first()
    assert client.get(f"/runs/{waiting.pk}/recount").status_code == 404
