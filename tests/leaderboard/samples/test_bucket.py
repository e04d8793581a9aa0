"""Stored files in a bucket of a real S3 server: what a site does with them is what it does else."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
import tomllib
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from leaderboard.models import Artifact, BoardSnapshot, Run, Suite, Variant
from leaderboard.runs.dialects import DIALECTS
from leaderboard.samples import checking, path_of
from leaderboard.samples import store as artifacts
from leaderboard.samples.bucket import Bucket
from leaderboard.snapshot import OWN, published
from leaderboard.snapshot import file as snapshot_file
from leaderboard.web import kept
from tests import s3
from tests.hub import ROOT
from tests.leaderboard import factories as make

pytestmark = [pytest.mark.django_db, pytest.mark.services]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.Server]:
    with s3.server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "fetched"


@pytest.fixture
def bucket(server: s3.Server, here: Path, settings: Any) -> Bucket:
    """An empty bucket in which this site stores, by the settings of the site."""
    options = {
        "here": here,
        "most_bytes": 10**9,
        "bucket_name": f"plumbline-{uuid.uuid4().hex[:8]}",
        "endpoint_url": server.address,
        "region_name": "us-east-1",
        "access_key": s3.ACCESS,
        "secret_key": s3.SECRET,
        "addressing_style": "path",
    }
    backend = {"BACKEND": "leaderboard.samples.bucket.Bucket", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "artifacts": backend}
    made = artifacts.storage()
    assert isinstance(made, Bucket)
    made.bucket.create()
    return made


@pytest.fixture
def site(bucket: Bucket, here: Path, settings: Any) -> Suite:
    """A run in each column, and a board; then as on a machine that has read nothing yet."""
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze", "mmlu"))
    settings.PLUMBLINE_SUITE = suite.name
    make.evaluated("lab/first", suite, {"cloze": 0.6, "mmlu": 0.4}, n=30)
    published.build(suite, OWN)
    forget(here)
    return suite


def forget(here: Path) -> None:
    for file in here.glob("??/*"):
        file.unlink()
    snapshot_file._boards.clear()
    for folder in (here / "boards").iterdir():
        snapshot_file._remove(folder)


def answer(client: Client, address: str, **headers: str) -> tuple[int, bytes, Any]:
    response = client.get(address, headers=headers)
    return response.status_code, b"".join(response), response.headers


def test_board_run_and_downloads_come_from_the_bucket(
    client: Client, site: Suite, here: Path
) -> None:
    run = Run.objects.filter(state="done").first()
    assert run is not None
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


def test_a_file_that_is_missing_or_another_one_is_told_and_never_read(
    client: Client, site: Suite, bucket: Bucket
) -> None:
    assert told() == ["0 faults"]
    first, second = Artifact.objects.filter(kind="samples")
    bucket.bucket.Object(artifacts.name_of(first.sha256)).delete()
    bucket.bucket.Object(artifacts.name_of(second.sha256)).put(Body=b"x" * second.bytes)
    lines = told()
    assert lines[-1] == "2 faults"
    assert lines[0].startswith(f"s3://{bucket.bucket_name}/{artifacts.name_of(first.sha256)}: ")
    assert "its content is not what was stored" in lines[1]
    assert client.get(reverse("run-parquet", args=[first.run_id])).status_code == 404
    assert not path_of(first.sha256).exists()
    assert not path_of(second.sha256).exists()


def test_a_board_whose_file_is_gone_is_built_again(site: Suite, bucket: Bucket) -> None:
    row = BoardSnapshot.objects.get()
    published.forget()
    assert published._is_whole(row)
    artifacts.remove(row.sha256)
    assert not published._is_whole(row)
    published.build(site, OWN)
    newest = BoardSnapshot.objects.latest()
    assert newest.pk != row.pk
    assert artifacts.holds(newest.sha256)


def test_only_old_files_that_nothing_names_are_collected(
    site: Suite, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = artifacts.store_open(io.BytesIO(b"nobody's"), kind="lost")
    assert list(checking.orphans()) == []
    time.sleep(1.1)  # a bucket's times have no parts of seconds
    monkeypatch.setattr(checking, "ORPHAN_AFTER", timedelta(seconds=0.5))
    assert list(checking.orphans()) == [artifacts.name_of(lost.sha256)]
    assert told("--collect")[-1] == "0 faults"
    assert not artifacts.holds(lost.sha256)
    assert told() == ["0 faults"]


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


STORE = """
import io, django; django.setup()
from leaderboard.samples import store
stored = store.store_open(io.BytesIO(b"by its variables"), kind="lost")
store.path_of(stored.sha256).unlink()
print(store.storage().shown(store.name_of(stored.sha256)), store.open(stored.sha256).read())
"""


def test_the_variables_of_the_site_choose_the_bucket(bucket: Bucket, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(s3.SECRET)
    there = {
        "PLUMBLINE_S3_BUCKET": bucket.bucket_name,
        "PLUMBLINE_S3_ENDPOINT": bucket.endpoint_url,
        "PLUMBLINE_S3_ACCESS_KEY": s3.ACCESS,
        "PLUMBLINE_S3_SECRET_KEY_FILE": str(secret),
    }
    told = stored_by_a_site(there, tmp_path)
    assert told.startswith(f"s3://{bucket.bucket_name}/")


def stored_by_a_site(there: dict[str, str], folder: Path) -> str:
    """A site with these variables stores a file and reads it; what it says of it."""
    variables = {
        "PATH": os.environ["PATH"],
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_DEBUG": "1",
        "PLUMBLINE_HOME": str(folder / "home"),
        **there,
    }
    done = subprocess.run(
        [sys.executable, "-c", STORE],
        cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.endswith(" b'by its variables'\n")
    return done.stdout


def test_the_bucket_of_compose_is_the_one_that_its_site_is_given(
    bucket: Bucket, tmp_path: Path
) -> None:
    """As the page says to start it; a real S3 server stands in the place of its image."""
    page = (ROOT / "docs/configuration.md").read_text()
    (block,) = (text for text in page.split("```") if "COMPOSE_PROFILES" in text)
    script = f"{block}\nexport PLUMBLINE_SECRET_KEY=x PLUMBLINE_DATABASE_PASSWORD=y\nenv -0"
    said = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True)
    given = dict(line.split("=", 1) for line in said.stdout.split("\0") if line)
    text = re.sub(
        r"\$\{(\w+)(?::[-?]([^}]*))?\}",
        lambda found: given.get(found[1]) or found[2] or "",
        (ROOT / "compose.yaml").read_text(),
    )
    whole = yaml.safe_load(text)
    services = whole["services"]
    own, written = services["bucket"]["environment"], whole["configs"]["bucket"]["content"]
    config = tomllib.loads(written)
    assert services["bucket"]["profiles"] == [given["COMPOSE_PROFILES"]]
    for name in ("site", "chores", "boards", "evaluate"):
        has = services[name]["environment"]
        assert has["PLUMBLINE_S3_BUCKET"] == own["GARAGE_DEFAULT_BUCKET"] != ""
        assert has["PLUMBLINE_S3_ACCESS_KEY"] == own["GARAGE_DEFAULT_ACCESS_KEY"]
        assert has["PLUMBLINE_S3_SECRET_KEY"] == own["GARAGE_DEFAULT_SECRET_KEY"]
        assert has["PLUMBLINE_S3_REGION"] == config["s3_api"]["s3_region"]
        port = config["s3_api"]["api_bind_addr"].rpartition(":")[2]
        assert has["PLUMBLINE_S3_ENDPOINT"] == f"http://bucket:{port}"
    # What Garage takes for a key, its secret, and the secret of its nodes.
    assert re.fullmatch(r"GK[0-9a-f]{24}", own["GARAGE_DEFAULT_ACCESS_KEY"])
    assert re.fullmatch(r"[0-9a-f]{64}", own["GARAGE_DEFAULT_SECRET_KEY"])
    assert re.fullmatch(r"[0-9a-f]{64}", own["GARAGE_RPC_SECRET"])
    kept = {mount.partition(":")[2] for mount in services["bucket"]["volumes"]}
    assert kept == {config["metadata_dir"], config["data_dir"]}

    site = services["site"]["environment"]
    there = {name: site[name] for name in site if name.startswith("PLUMBLINE_S3_")} | {
        "PLUMBLINE_S3_ENDPOINT": str(bucket.endpoint_url),
        "PLUMBLINE_S3_ACCESS_KEY": s3.ACCESS,
        "PLUMBLINE_S3_SECRET_KEY": s3.SECRET,
    }
    bucket.connection.create_bucket(Bucket=there["PLUMBLINE_S3_BUCKET"])
    assert stored_by_a_site(there, tmp_path).startswith("s3://plumbline/")
    assert [*bucket.connection.Bucket("plumbline").objects.all()]


def test_a_bucket_that_does_not_answer_is_our_trouble_and_told(
    client: Client, site: Suite, bucket: Bucket, settings: Any, here: Path
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


@pytest.fixture
def stopped(server: s3.Server, site: Suite, here: Path) -> Iterator[s3.Server]:
    """The server is stopped when this machine has read the board, and nothing else."""
    make.evaluated("lab/second", site, {"cloze": 0.3, "mmlu": 0.5}, n=30)
    published.build(site, OWN)
    for file in here.glob("??/*"):
        file.unlink()
    kept.forget()
    server.stop()
    yield server
    server.start()
    kept.forget()


def test_downloads_say_that_the_store_is_out_of_reach_and_come_back_with_it(
    client: Client, stopped: s3.Server
) -> None:
    run = Run.objects.filter(state="done").first()
    assert run is not None
    files = ("run-parquet", "run-record")
    addresses = [reverse(name, args=[run.pk]) for name in files]
    addresses += [reverse("run-file", args=[run.pk, dialect.file]) for dialect in DIALECTS]
    for address in addresses:
        away = client.get(address)
        assert (away.status_code, away["Retry-After"]) == (503, "60"), address
        assert away["Cache-Control"] == "no-store"
        assert "Content-Disposition" not in away.headers
        text = away.content.decode()
        assert "The stored files are out of reach" in text
        assert "All numbers are safe" in text
    stopped.start()
    for address in addresses[: len(files)]:
        assert answer(client, address)[0] == 200, address


def test_pages_do_without_the_store_and_are_whole_again_with_it(
    client: Client, stopped: s3.Server, site: Suite
) -> None:
    run = Run.objects.filter(state="done").select_related("task").first()
    assert run is not None
    own, task = run.get_absolute_url(), reverse("task", args=[run.task.name])
    page = client.get(own)
    assert page.status_code == 200
    assert "Answers and downloads are out of reach" in page.content.decode()
    assert "is not in the store" not in page.content.decode()
    page = client.get(task)
    assert page.status_code == 200
    assert "The questions are out of reach" in page.content.decode()
    assert client.get("/queue").status_code == 200
    both = ",".join(str(pk) for pk in Variant.objects.order_by("pk").values_list("pk", flat=True))
    compared = client.get("/compare", {"m": both, "task": "facts"}, follow=True)
    assert compared.status_code == 200
    assert "not in the store just now: who was right is known" in compared.content.decode()
    assert client.get("/compare.parquet", {"m": both}).status_code == 503
    stopped.start()
    assert "Which tool number" in client.get(own).content.decode(), "what was shown is not kept"
    assert "out of reach" not in client.get(task).content.decode()
    compared = client.get("/compare", {"m": both, "task": "facts"}, follow=True)
    assert "not in the store" not in compared.content.decode()


def test_a_board_that_was_not_read_yet_is_out_of_reach_and_one_that_was_is_shown(
    client: Client, stopped: s3.Server, here: Path
) -> None:
    assert "lab/first" in client.get("/").content.decode()
    kept.forget()
    forget(here)
    assert client.get("/").status_code == 503
    stopped.start()
    assert "lab/first" in client.get("/").content.decode()


def told(*arguments: str) -> list[str]:
    said = io.StringIO()
    with suppress(SystemExit):
        call_command("check_artifacts", *arguments, stdout=said)
    return said.getvalue().splitlines()
