"""A bucket that is chosen by the site's variables, one that is away, and a board that is gone."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from django.test import Client
from django.urls import reverse

from leaderboard.models import Run, Suite, Variant
from leaderboard.runs.downloads import DIALECTS
from leaderboard.samples.bucket import Bucket
from leaderboard.snapshot import OWN, published
from leaderboard.web import kept
from tests import s3
from tests.hub import ROOT
from tests.leaderboard import factories as make
from tests.leaderboard.samples.conftest import forget_what_was_fetched
from tests.leaderboard.site_process import python

pytestmark = [pytest.mark.django_db, pytest.mark.services]


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
    done = python(folder / "home", "-c", STORE, PLUMBLINE_DEBUG="1", **there)
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


@pytest.fixture
def stopped(s3_server: s3.Server, site_with_bucket: Suite, here: Path) -> Iterator[s3.Server]:
    """The server is stopped when this machine has read the board, and nothing else."""
    make.evaluated("lab/second", site_with_bucket, {"cloze": 0.3, "mmlu": 0.5}, n=30)
    published.build(site_with_bucket, OWN)
    for file in here.glob("??/*"):
        file.unlink()
    kept.forget()
    s3_server.stop()
    yield s3_server
    s3_server.start()
    kept.forget()


def test_downloads_say_that_the_store_is_out_of_reach_and_come_back_with_it(
    client: Client, stopped: s3.Server
) -> None:
    run = Run.objects.filter(state="done")[0]
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
        assert client.get(address).status_code == 200, address


def test_pages_do_without_the_store_and_are_whole_again_with_it(
    client: Client, stopped: s3.Server, site_with_bucket: Suite
) -> None:
    run = Run.objects.filter(state="done")[0]
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
    forget_what_was_fetched(here)
    assert client.get("/").status_code == 503
    stopped.start()
    assert "lab/first" in client.get("/").content.decode()
