"""The local Hub as its clients see it: the real ones, each in a process and a cache of its own."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.awkward import DATASET, build
from tests.hub import TEST_DATA, run_client, serve

TINY = "awkward/tiny-llama"
needs_data = pytest.mark.skipif(
    not TEST_DATA.is_dir(), reason=f"no data sets at {TEST_DATA}: set PLUMBLINE_TEST_DATA"
)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("content"))


@pytest.fixture(scope="module")
def hub(content: Path) -> Iterator[str]:
    with serve([content]) as url:
        yield url


@pytest.fixture(scope="module")
def data_hub() -> Iterator[str]:
    with serve([TEST_DATA]) as url:
        yield url


def ask(
    url: str, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """One request exactly as given: no redirect is followed and no path is tidied up."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        response = connection.getresponse()
        return (
            response.status,
            {k.lower(): v for k, v in response.getheaders()},
            response.read(),
        )
    finally:
        connection.close()


def get_json(url: str, path: str) -> Any:
    status, _, body = ask(url, "GET", path)
    assert status == 200, body
    return json.loads(body)


def test_model_info_is_computed_from_the_files(hub: str, content: Path, tmp_path: Path) -> None:
    code = f"""
import json
from huggingface_hub import HfApi
info = HfApi().model_info({TINY!r}, files_metadata=True)
files = {{f.rfilename: [f.size, f.blob_id, f.lfs and f.lfs.sha256] for f in info.siblings}}
print(json.dumps({{
    "sha": info.sha, "library": info.library_name, "pipeline": info.pipeline_tag,
    "config": info.config, "license": info.card_data.license, "tags": info.tags,
    "parameters": info.safetensors.parameters, "total": info.safetensors.total, "files": files,
    "gated": info.gated, "private": info.private, "updated": info.last_modified.isoformat(),
}}))
"""
    info = json.loads(run_client(code, hub, tmp_path))
    folder = content / "models" / TINY
    weights = (folder / "model.safetensors").read_bytes()
    card = (folder / "README.md").read_bytes()
    assert re.fullmatch("[0-9a-f]{40}", info["sha"])
    assert info["library"] == "transformers"
    assert info["pipeline"] == "text-generation"
    assert info["config"] == {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    assert info["license"] == "apache-2.0"
    assert {"tiny", "safetensors", "llama", "license:apache-2.0"} <= set(info["tags"])
    assert info["total"] == info["parameters"]["F32"] == 37792
    assert (info["gated"], info["private"]) == (False, False)
    assert set(info["files"]) == {file.name for file in folder.iterdir() if file.is_file()}
    assert info["files"]["model.safetensors"][::2] == [
        len(weights),
        hashlib.sha256(weights).hexdigest(),
    ]
    git_oid = hashlib.sha1(b"blob %d\0" % len(card) + card).hexdigest()
    assert info["files"]["README.md"] == [len(card), git_oid, None]


def test_lists_files_folders_refs_and_commits(hub: str, tmp_path: Path) -> None:
    code = f"""
import json
from huggingface_hub import HfApi
api = HfApi()
refs = api.list_repo_refs({TINY!r})
print(json.dumps({{
    "models": sorted(m.id for m in api.list_models(author="awkward", limit=100)),
    "found": [m.id for m in api.list_models(search="NaN-w")],
    "coded": [m.id for m in api.list_models(filter="custom_code")],
    "datasets": [d.id for d in api.list_datasets()],
    "files": api.list_repo_files({TINY!r}),
    "tree": [entry.path for entry in api.list_repo_tree({TINY!r}, expand=True)],
    "some": [e.path for e in api.get_paths_info({TINY!r}, ["config.json", "absent"], expand=True)],
    "refs": [[r.name, r.target_commit] for r in refs.branches + refs.tags],
    "commits": [c.commit_id for c in api.list_repo_commits({TINY!r}, revision="v1")],
    "exists": [api.file_exists({TINY!r}, name) for name in ("config.json", "absent")],
    "v1": api.model_info({TINY!r}, revision="v1").sha,
    "main": api.model_info({TINY!r}).sha,
}}))
"""
    seen = json.loads(run_client(code, hub, tmp_path))
    assert TINY in seen["models"]
    assert not {"awkward/private", "awkward/disabled", "awkward/renamed"} & set(seen["models"])
    assert seen["found"] == ["awkward/nan-weights"]
    assert seen["coded"] == ["awkward/custom-code"]
    assert seen["datasets"] == [DATASET]
    assert seen["files"] == seen["tree"]
    assert seen["some"] == ["config.json"]
    assert seen["exists"] == [True, False]
    assert seen["v1"] != seen["main"]
    assert seen["refs"] == [["main", seen["main"]], ["v1", seen["v1"]]]
    assert seen["commits"] == [seen["v1"]]


def test_revisions_are_found_by_name_and_by_commit_and_hold_their_own_files(
    hub: str, content: Path, tmp_path: Path
) -> None:
    commit = get_json(hub, f"/api/models/{TINY}/revision/v1")["sha"]
    code = f"""
from pathlib import Path
from huggingface_hub import hf_hub_download
for revision in ("v1", {commit!r}):
    path = Path(hf_hub_download({TINY!r}, "README.md", revision=revision))
    print(path.parent.name, path.read_text().splitlines()[-1])
"""
    assert run_client(code, hub, tmp_path).splitlines() == [f"{commit} The first version."] * 2


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("model_info('awkward/absent')", "RepositoryNotFoundError"),
        ("model_info('no-organisation')", "RepositoryNotFoundError"),
        (f"model_info({DATASET!r})", "RepositoryNotFoundError"),
        (f"dataset_info({TINY!r})", "RepositoryNotFoundError"),
        (f"model_info({TINY!r}, revision='absent')", "RevisionNotFoundError"),
        (f"model_info({TINY!r}, revision='refs/pr/1')", "RevisionNotFoundError"),
        (f"hf_hub_download({TINY!r}, 'config.json', revision='0' * 40)", "RevisionNotFoundError"),
        (f"hf_hub_download({TINY!r}, 'absent.json')", "RemoteEntryNotFoundError"),
        (f"hf_hub_download({TINY!r}, '.hub.yaml')", "RemoteEntryNotFoundError"),
        ("hf_hub_download('awkward/gated', 'config.json')", "GatedRepoError"),
        ("hf_hub_download('awkward/gated', 'config.json', token='hf_x')", "GatedRepoError"),
        ("auth_check('awkward/gated')", "GatedRepoError"),
        ("model_info('awkward/private')", "RepositoryNotFoundError"),
        ("model_info('awkward/private', token='hf_x')", "RepositoryNotFoundError"),
        ("model_info('awkward/disabled')", "DisabledRepoError"),
        ("whoami(token='hf_x')", "HfHubHTTPError"),
        ("create_repo('awkward/new', token='hf_x')", "HfHubHTTPError"),
        ("delete_repo('awkward/tiny-llama', token='hf_x')", "HfHubHTTPError"),
    ],
)
def test_refusals_arrive_as_the_clients_own_exceptions(
    hub: str, tmp_path: Path, call: str, error: str
) -> None:
    code = f"""
from huggingface_hub import HfApi
try:
    print(HfApi().{call})
except Exception as refusal:
    print(type(refusal).__name__)
"""
    assert run_client(code, hub, tmp_path) == error


def test_gated_repository_shows_its_info(hub: str) -> None:
    assert get_json(hub, "/api/models/awkward/gated")["gated"] == "manual"


def test_renamed_repository_is_followed(hub: str, tmp_path: Path) -> None:
    code = """
from huggingface_hub import HfApi, hf_hub_download
print(HfApi().model_info("awkward/renamed").id)
print(hf_hub_download("awkward/renamed", "config.json").rsplit("/")[-1])
"""
    assert run_client(code, hub, tmp_path).split() == [TINY, "config.json"]


def test_transformers_loads_a_model_and_again_without_the_hub(hub: str, tmp_path: Path) -> None:
    code = f"""
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
config = AutoConfig.from_pretrained({TINY!r})
tokenizer = AutoTokenizer.from_pretrained({TINY!r})
model = AutoModelForCausalLM.from_pretrained({TINY!r}, use_safetensors=True)
ids = tokenizer("Question: 1 + 2 = ?", return_tensors="pt")["input_ids"]
print(config.model_type, tokenizer.decode(ids[0]), model(ids).logits.sum().item())
"""
    online = run_client(code, hub, tmp_path)
    assert online.startswith("llama Question: 1 + 2 = ?")
    assert run_client(code, "http://127.0.0.1:9", tmp_path, HF_HUB_OFFLINE="1") == online


def test_snapshot_is_complete_and_is_found_again_offline(
    hub: str, content: Path, tmp_path: Path
) -> None:
    code = f"""
from huggingface_hub import snapshot_download
print(snapshot_download({TINY!r}))
"""
    snapshot = Path(run_client(code, hub, tmp_path))
    originals = [file for file in (content / "models" / TINY).iterdir() if file.is_file()]
    assert snapshot.name == get_json(hub, f"/api/models/{TINY}")["sha"]
    assert {file.name: file.read_bytes() for file in snapshot.iterdir()} == {
        file.name: file.read_bytes() for file in originals
    }
    again = run_client(code, "http://127.0.0.1:9", tmp_path, HF_HUB_OFFLINE="1")
    assert Path(again) == snapshot


def test_safetensors_metadata_of_single_sharded_and_huge_models(hub: str, tmp_path: Path) -> None:
    code = """
from huggingface_hub import get_safetensors_metadata
for name in ("tiny-llama", "sharded", "huge"):
    metadata = get_safetensors_metadata(f"awkward/{name}")
    print(metadata.sharded, *metadata.parameter_count.items())
"""
    assert run_client(code, hub, tmp_path).splitlines() == [
        "False ('F32', 37792)",
        "True ('F32', 37792)",
        "True ('BF16', 70553706496)",
    ]
    totals = [
        get_json(hub, f"/api/models/awkward/{name}")["safetensors"]["total"]
        for name in ("tiny-llama", "sharded", "huge")
    ]
    assert totals == [37792, 37792, 70553706496]


@needs_data
def test_datasets_loads_arc_and_mmlu(data_hub: str, tmp_path: Path) -> None:
    code = """
from datasets import load_dataset
arc = load_dataset("allenai/ai2_arc", "ARC-Easy")
mmlu = load_dataset("cais/mmlu", "anatomy")
print(sorted(arc), sorted(arc["test"].column_names), len(arc["test"]) > 0)
print(sorted(mmlu), sorted(mmlu["dev"].column_names), len(mmlu["dev"]))
"""
    assert run_client(code, data_hub, tmp_path).splitlines() == [
        "['test', 'train', 'validation'] ['answerKey', 'choices', 'id', 'question'] True",
        "['dev', 'test', 'validation'] ['answer', 'choices', 'question', 'subject'] 5",
    ]


@needs_data
def test_pinned_data_set_loads_offline_from_a_folder_per_commit(
    data_hub: str, tmp_path: Path
) -> None:
    commit = get_json(data_hub, "/api/datasets/cais/mmlu")["sha"]
    cache = tmp_path / "datasets" / commit
    code = f"""
from datasets import load_dataset
from huggingface_hub import snapshot_download
rows = load_dataset("cais/mmlu", "anatomy", revision={commit!r}, cache_dir={str(cache)!r})
print(rows["test"][0], len(rows["test"]))
print(snapshot_download(
    "cais/mmlu", repo_type="dataset", revision="main", allow_patterns=["README.md"]
))
"""
    online = run_client(code, data_hub, tmp_path)
    offline = run_client(code, "http://127.0.0.1:9", tmp_path, HF_HUB_OFFLINE="1")
    assert offline == online
    assert Path(online.splitlines()[-1]).name == commit


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
    connection = http.client.HTTPConnection(urlsplit(hub).netloc, timeout=10)
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


def test_long_lists_come_in_pages(tmp_path: Path) -> None:
    folder = tmp_path / "root" / "datasets" / "many" / "files"
    folder.mkdir(parents=True)
    names = [f"{number:04}.txt" for number in range(2345)]
    for name in names:
        (folder / name).touch()
    code = """
from huggingface_hub import HfApi
print(*HfApi().list_repo_files("many/files", repo_type="dataset"))
"""
    with serve([tmp_path / "root"]) as url:
        assert run_client(code, url, tmp_path / "home").split() == names


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
        (first / "one").write_text("edited while the Hub runs")
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
