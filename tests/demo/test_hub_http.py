"""The local Hub on the wire: ranges, headers, what it will not serve, and commits from content."""

from __future__ import annotations

import hashlib
import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.hub import ask, get_json, serve

TINY = "awkward/tiny-llama"


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [
        ("bytes=0-99", 0, 100),
        ("bytes=100-100", 100, 101),
        ("bytes=153000-", 153000, None),
        ("bytes=-7", -7, None),
        ("bytes=153300-999999999", 153300, None),
    ],
)
def test_ranges_give_exactly_those_bytes(
    hub: str, content: Path, wanted: str, start: int, end: int | None
) -> None:
    weights = (content / "models" / TINY / "model.safetensors").read_bytes()
    status, headers, body = ask(hub, "GET", f"/{TINY}/resolve/main/model.safetensors", Range=wanted)
    first = start % len(weights)
    assert status == 206
    assert body == weights[start:end]
    assert headers["content-range"] == f"bytes {first}-{first + len(body) - 1}/{len(weights)}"


def test_range_beyond_the_end_is_refused(hub: str) -> None:
    status, headers, _ = ask(
        hub, "GET", f"/{TINY}/resolve/main/model.safetensors", Range="bytes=999999999-"
    )
    assert (status, headers["content-range"]) == (416, "bytes */153304")


def test_head_tells_commit_digest_and_size(hub: str, content: Path) -> None:
    weights = (content / "models" / TINY / "model.safetensors").read_bytes()
    status, headers, body = ask(hub, "HEAD", f"/{TINY}/resolve/main/model.safetensors")
    digest = f'"{hashlib.sha256(weights).hexdigest()}"'
    assert (status, body) == (200, b"")
    assert headers["x-repo-commit"] == get_json(hub, f"/api/models/{TINY}")["sha"]
    assert headers["etag"] == headers["x-linked-etag"] == digest
    assert headers["content-length"] == headers["x-linked-size"] == str(len(weights))
    assert headers["accept-ranges"] == "bytes"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Hub with a secret in every place that it must not serve."""
    top = tmp_path_factory.mktemp("guarded")
    model = top / "root" / "models" / "awkward" / "model"
    (model / ".revisions" / "v1").mkdir(parents=True)
    (model / ".revisions" / "v1" / "README.md").write_text("SECRET")
    (model / ".hub.yaml").write_text("private: false # SECRET")
    (model / "README.md").write_text("public")
    for folder in (top, top / "root", top / "root" / "models", model.parent):
        (folder / "secret.txt").write_text("SECRET")
    (model / "link.txt").symlink_to(top / "secret.txt")
    (model / "linked").symlink_to(top)
    with serve([top / "root"]) as url:
        assert ask(url, "GET", "/awkward/model/resolve/main/README.md")[2] == b"public"
        yield url


@pytest.mark.parametrize(
    "path",
    [
        "/awkward/model/resolve/main/../secret.txt",
        "/awkward/model/resolve/main/%2e%2e/secret.txt",
        "/awkward/model/resolve/main/..%2fsecret.txt",
        "/awkward/model/resolve/..%2f/secret.txt",
        "/awkward/model/resolve/../secret.txt",
        "/awkward/../resolve/main/secret.txt",
        "/../resolve/main/secret.txt",
        "/../root/resolve/main/secret.txt",
        "/awkward/%2e%2e/resolve/main/secret.txt",
        "/awkward/..%2f../resolve/main/secret.txt",
        "/awkward/model/resolve/main//etc/passwd",
        "/awkward/model/resolve/main/.hub.yaml",
        "/awkward/model/resolve/main/.revisions/v1/README.md",
        "/awkward/model/resolve/main/link.txt",
        "/awkward/model/resolve/main/linked/secret.txt",
        "/api/models/awkward/model/tree/main/.revisions",
        "/api/models/awkward/model/tree/main/linked",
        "/api/models/../..",
        "/awkward/model/resolve/main/line%0d%0abreak%00%ff",
    ],
)
def test_nothing_outside_a_repository_is_served(guarded: str, path: str) -> None:
    status, _, body = ask(guarded, "GET", path)
    assert status == 404
    assert b"SECRET" not in body
    assert b"root:" not in body


def test_a_connection_is_kept_even_when_a_body_is_refused(hub: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(hub).netloc, timeout=60)
    for _ in range(3):
        connection.request("POST", "/api/repos/create", b"x" * 100_000)
        first = connection.sock
        response = connection.getresponse()
        assert response.status == 405
        assert b"read-only" in response.read()
        connection.request("GET", f"/api/models/{TINY}")
        assert connection.getresponse().read()
        assert connection.sock is first
    connection.close()


def test_same_content_has_the_same_commit_and_an_edit_another(tmp_path: Path) -> None:
    first = tmp_path / "a" / "models" / "org" / "name"
    second = tmp_path / "b" / "models" / "org" / "other"
    for folder, names in ((first, ("one", "two")), (second, ("two", "one"))):
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_text(name)
    with serve([tmp_path / "a", tmp_path / "b"]) as url:
        commit = get_json(url, "/api/models/org/name")["sha"]
        assert get_json(url, "/api/models/org/other")["sha"] == commit
        (first / "one").write_text("eno")  # the same size
        edited = get_json(url, "/api/models/org/name")["sha"]
        (first / "one").rename(first / "three")
        renamed = get_json(url, "/api/models/org/name")["sha"]
    assert len({commit, edited, renamed}) == 3


def test_of_two_folders_with_a_repository_the_first_serves_it(tmp_path: Path) -> None:
    for root in ("a", "b"):
        folder = tmp_path / root / "models" / "org" / "name"
        folder.mkdir(parents=True)
        (folder / "README.md").write_text(f"from {root}")
    with serve([tmp_path / "b", tmp_path / "a"]) as url:
        assert ask(url, "GET", "/org/name/resolve/main/README.md")[2] == b"from b"
