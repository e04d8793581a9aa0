from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leaderboard.models import Suite
from leaderboard.samples import store as artifacts
from leaderboard.samples.bucket import Bucket
from leaderboard.snapshot import OWN, published
from leaderboard.snapshot import file as snapshot_file
from tests import s3
from tests.leaderboard import factories as make


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.Server]:
    with s3.server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Where this machine keeps what it fetched from the bucket."""
    return tmp_path / "fetched"


@pytest.fixture
def bucket(s3_server: s3.Server, here: Path, settings: Any) -> Bucket:
    """An empty bucket in which this site stores, by the settings of the site."""
    options = {
        "here": here,
        "most_bytes": 10**9,
        "bucket_name": f"plumbline-{uuid.uuid4().hex[:8]}",
        "endpoint_url": s3_server.address,
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
def site_with_bucket(bucket: Bucket, here: Path, settings: Any) -> Suite:
    """A run in each column, and a board; then as on a machine that has read nothing yet."""
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze", "mmlu"))
    settings.PLUMBLINE_SUITE = suite.name
    make.evaluated("lab/first", suite, {"cloze": 0.6, "mmlu": 0.4}, n=30)
    published.build(suite, OWN)
    forget_what_was_fetched(here)
    return suite


def forget_what_was_fetched(here: Path) -> None:
    """As on a machine that has read nothing yet."""
    for file in here.glob("??/*"):
        file.unlink()
    snapshot_file._boards.clear()
    for folder in (here / "boards").iterdir():
        snapshot_file._remove(folder)
