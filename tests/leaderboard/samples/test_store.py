"""The store and its rows, in a folder and in a bucket of a real S3 server.

What is missing, damaged or left over is told; what is needed is kept. What a site does with files
in a bucket is what it does else.
"""

from __future__ import annotations

import io
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from leaderboard.models import Artifact, BoardSnapshot, ItemAnalysis, Run, Suite
from leaderboard.samples import checking, path_of
from leaderboard.samples import store as artifacts
from leaderboard.samples.bucket import Bucket
from leaderboard.snapshot import OWN, published
from leaderboard.tasks import items
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db
LONG = 2 * checking.ORPHAN_AFTER.total_seconds()


@pytest.fixture
def kept(artifacts_folder: Path) -> Suite:
    """Runs, a board and an analysis with their files, all of them old."""
    suite = make.make_suite(benchmarks=("facts",))
    for name in range(items.ENOUGH):
        make.evaluated(f"lab/{name}", suite, {"cloze": 0.6, "mmlu": 0.5, "hybrid": 0.6}, n=20)
    published.build(suite, OWN)
    items._looked.clear()  # columns rest for an hour, also from one test to the next
    items.analyse_due()
    age(*artifacts_folder.rglob("*"))
    return suite


def age(*files: Path) -> None:
    then = time.time() - LONG
    for file in files:
        os.utime(file, (then, then))


def told(*arguments: str) -> tuple[int, list[str]]:
    """Exit status and lines of the command."""
    said = io.StringIO()
    try:
        call_command("check_artifacts", *arguments, stdout=said)
    except SystemExit as ended:
        return int(str(ended.code)), said.getvalue().splitlines()
    return 0, said.getvalue().splitlines()


def test_a_whole_store_has_no_fault_and_nothing_of_it_is_collected(
    kept: Suite, artifacts_folder: Path
) -> None:
    before = sorted(artifacts_folder.rglob("*"))
    assert ItemAnalysis.objects.exists()
    assert told("--collect") == (0, ["0 faults"])
    assert sorted(artifacts_folder.rglob("*")) == before


@pytest.mark.parametrize("table", [Artifact, BoardSnapshot, ItemAnalysis])
def test_a_file_that_is_missing_or_another_one_is_told_with_what_to_do(
    kept: Suite, table: Any
) -> None:
    row = table.objects.order_by("pk").first()
    file = path_of(row.sha256)
    whole = file.read_bytes()
    for damage, said in (
        (bytes(len(whole)), "its content is not what was stored"),
        (whole[:-1], f"{len(whole)} were stored" if hasattr(row, "bytes") else "its content"),
        (None, "No such file or directory"),
    ):
        file.unlink() if damage is None else file.write_bytes(damage)
        status, (line, count) = told()
        assert (status, count) == (1, "1 fault")
        assert line.startswith(f"{file}: ")
        assert said in line
        assert "back-up" in line


def test_only_old_files_that_nothing_names_are_collected(
    kept: Suite, artifacts_folder: Path
) -> None:
    folder = artifacts_folder
    old, young = (artifacts.store_open(io.BytesIO(text), kind="lost") for text in (b"1", b"2"))
    writing, killed = folder / "incoming-now", folder / "incoming-then"
    for file in (writing, killed, folder / "notes.txt", folder / "not-ours"):
        file.write_text("x")
    age(path_of(old.sha256), killed, folder / "notes.txt", folder / "not-ours")
    status, lines = told()
    assert status == 1
    assert {line.partition(": ")[0] for line in lines[:-1]} == {
        str(path_of(old.sha256)),
        str(killed),
    }
    assert all("--collect" in line for line in lines[:-1])
    status, lines = told("--collect")
    assert (status, lines[-1]) == (0, "0 faults")
    assert not path_of(old.sha256).exists()
    assert not killed.exists()
    assert path_of(young.sha256).exists()
    assert {"incoming-now", "notes.txt", "not-ours"} <= {file.name for file in folder.iterdir()}


def test_what_is_stored_again_while_it_is_collected_stays(artifacts_folder: Path) -> None:
    stored = artifacts.store_open(io.BytesIO(b"again"), kind="lost")
    age(path_of(stored.sha256))
    (orphan,) = checking.orphans()
    artifacts.store_open(io.BytesIO(b"again"), kind="lost")
    assert checking.collect(orphan) is False
    assert path_of(stored.sha256).read_bytes() == b"again"
    assert [file.name for file in artifacts_folder.iterdir()] == [stored.sha256[:2]]


# In a bucket


def answer(client: Client, address: str, **headers: str) -> tuple[int, bytes, Any]:
    response = client.get(address, headers=headers)
    return response.status_code, b"".join(response), response.headers


@pytest.mark.services
def test_board_run_and_downloads_come_from_the_bucket(
    client: Client, site_with_bucket: Suite, here: Path
) -> None:
    run = Run.objects.filter(state="done")[0]
    samples = run.artifacts.get(kind="samples")
    address = reverse("run-parquet", args=[run.pk])
    status, whole, headers = answer(client, address)
    assert (status, len(whole)) == (200, samples.bytes) == (200, int(headers["Content-Length"]))
    assert not list(here.glob("??/*")), "streamed, and not fetched before"
    for asked, part in (
        ("bytes=0-9", whole[:10]),
        (f"bytes=100-{2**40}", whole[100:]),
        ("bytes=-7", whole[-7:]),
    ):
        status, content, headers = answer(client, address, range=asked)
        assert (status, content) == (206, part)
        assert headers["Content-Range"].endswith(f"/{samples.bytes}")
    assert answer(client, address, range=f"bytes={samples.bytes}-")[0] == 416
    page = client.get(run.get_absolute_url())
    assert page.status_code == 200
    assert "Which tool number" in page.content.decode()
    assert path_of(samples.sha256).read_bytes() == whole
    assert answer(client, address, range="bytes=5-8")[1] == whole[5:9], "from this machine"
    assert "lab/first" in client.get("/").content.decode()
    ready = client.get("/readyz").json()
    assert (ready["wrong"], ready["ready"]) == ([], True)


@pytest.mark.services
def test_a_file_of_a_bucket_that_is_missing_or_another_one_is_told_and_never_read(
    client: Client, site_with_bucket: Suite, bucket: Bucket
) -> None:
    assert told() == (0, ["0 faults"])
    first, second = Artifact.objects.filter(kind="samples")
    bucket.bucket.Object(artifacts.name_of(first.sha256)).delete()
    bucket.bucket.Object(artifacts.name_of(second.sha256)).put(Body=b"x" * second.bytes)
    _, lines = told()
    assert lines[-1] == "2 faults"
    assert lines[0].startswith(f"s3://{bucket.bucket_name}/{artifacts.name_of(first.sha256)}: ")
    assert "its content is not what was stored" in lines[1]
    assert client.get(reverse("run-parquet", args=[first.run_id])).status_code == 404
    assert not path_of(first.sha256).exists()
    assert not path_of(second.sha256).exists()


@pytest.mark.services
def test_only_old_files_that_nothing_names_are_collected_from_a_bucket(
    site_with_bucket: Suite, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = artifacts.store_open(io.BytesIO(b"nobody's"), kind="lost")
    assert list(checking.orphans()) == []
    monkeypatch.setattr(checking, "ORPHAN_AFTER", -timedelta(minutes=5))
    assert list(checking.orphans()) == [artifacts.name_of(lost.sha256)]
    assert told("--collect")[1][-1] == "0 faults"
    assert not artifacts.holds(lost.sha256)
    assert told() == (0, ["0 faults"])


@pytest.mark.services
def test_copies_are_bounded_and_those_asked_for_last_stay(bucket: Bucket, here: Path) -> None:
    stored = [
        artifacts.store_open(io.BytesIO(bytes([number]) * 1000), kind="lost") for number in range(4)
    ]
    assert len(list(here.glob("??/*"))) == 4
    bucket._most = 2500
    path_of(stored[0].sha256)
    artifacts.store_open(io.BytesIO(b"y" * 1000), kind="lost")
    left = {file.name for file in here.glob("??/*")}
    assert len(left) == 2
    assert stored[0].sha256 in left
    assert path_of(stored[1].sha256).read_bytes() == bytes([1]) * 1000


@pytest.mark.services
def test_a_bucket_that_does_not_answer_is_our_trouble_and_told(
    client: Client, site_with_bucket: Suite, bucket: Bucket, settings: Any, here: Path
) -> None:
    options = {**settings.STORAGES["artifacts"]["OPTIONS"], "endpoint_url": "http://127.0.0.1:1"}
    backend = {**settings.STORAGES["artifacts"], "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "artifacts": backend}
    with pytest.raises(OSError, match="the bucket does not answer"):
        artifacts.store_open(io.BytesIO(b"z"), kind="lost")
    assert not list(here.glob("incoming-*"))
    ready = client.get("/readyz")
    assert ready.status_code == 503
    assert "the bucket of the artifacts cannot be used" in str(ready.json()["wrong"])
