"""The local Hub as its clients see it, on the wire, told to fail, and on the command line.

The awkward repositories go wrong for the real clients in exactly the way that their names say.
"""

from __future__ import annotations

import hashlib
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from demo.hub.__main__ import main
from tests.awkward import DATASET, MODELS, build
from tests.hub import ROOT, ask, get_json, run_client, serve, set_faults

TINY = "awkward/tiny-llama"


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("content"))


@pytest.fixture(scope="module")
def hub(content: Path) -> Iterator[str]:
    with serve([content]) as url:
        yield url


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
    "renamed": api.model_info("awkward/renamed").id,
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
    assert seen["renamed"] == TINY


REFUSALS = {
    "model_info('awkward/absent')": "RepositoryNotFoundError",
    "model_info('no-organisation')": "RepositoryNotFoundError",
    f"model_info({DATASET!r})": "RepositoryNotFoundError",
    f"dataset_info({TINY!r})": "RepositoryNotFoundError",
    f"model_info({TINY!r}, revision='absent')": "RevisionNotFoundError",
    f"model_info({TINY!r}, revision='refs/pr/1')": "RevisionNotFoundError",
    f"hf_hub_download({TINY!r}, 'config.json', revision='0' * 40)": "RevisionNotFoundError",
    f"hf_hub_download({TINY!r}, 'absent.json')": "RemoteEntryNotFoundError",
    f"hf_hub_download({TINY!r}, '.hub.yaml')": "RemoteEntryNotFoundError",
    "hf_hub_download('awkward/gated', 'config.json')": "GatedRepoError",
    "hf_hub_download('awkward/gated', 'config.json', token='hf_x')": "GatedRepoError",
    "auth_check('awkward/gated')": "GatedRepoError",
    "model_info('awkward/private')": "RepositoryNotFoundError",
    "model_info('awkward/private', token='hf_x')": "RepositoryNotFoundError",
    "model_info('awkward/disabled')": "DisabledRepoError",
    "whoami(token='hf_x')": "HfHubHTTPError",
    "create_repo('awkward/new', token='hf_x')": "HfHubHTTPError",
    "delete_repo('awkward/tiny-llama', token='hf_x')": "HfHubHTTPError",
}


def test_refusals_arrive_as_the_clients_own_exceptions(hub: str, tmp_path: Path) -> None:
    code = f"""
import json
from huggingface_hub import HfApi

def outcome(call):
    try:
        return str(eval("HfApi()." + call))
    except Exception as refusal:
        return type(refusal).__name__

print(json.dumps({{call: outcome(call) for call in {list(REFUSALS)!r}}}))
"""
    assert json.loads(run_client(code, hub, tmp_path).splitlines()[-1]) == REFUSALS
    assert get_json(hub, "/api/models/awkward/gated")["gated"] == "manual", "its info is public"


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


LOADED = "loaded"
OUTCOMES = {
    # name: (what its tokenizer says, what its model says)
    "tiny-llama": (LOADED, LOADED),
    "sharded": (LOADED, LOADED),
    "no-safetensors": (LOADED, "does not appear to have a file named model.safetensors"),
    "custom-code": (LOADED, "contains custom code which must be executed"),
    "broken-config": ("is not a valid JSON file", "is not a valid JSON file"),
    "no-tokenizer": ("Couldn't instantiate the backend tokenizer", LOADED),
    "unknown-architecture": (LOADED, "model type `hexaflow`"),
    "truncated-weights": (LOADED, "incomplete metadata, file not fully covered"),
    "nan-weights": (LOADED, "loaded, and answers nan"),
    "huge": (LOADED, "too large to be downloaded"),
    "gguf-only": ("Couldn't instantiate the backend tokenizer", "Unrecognized model"),
    "encoder-decoder": (LOADED, "Unrecognized configuration class"),
    "gated": ("gated repo", "gated repo"),
    "private": ("is not a valid model identifier", "is not a valid model identifier"),
    "disabled": ("couldn't connect", "couldn't connect"),
    "renamed": (LOADED, LOADED),
}


def test_every_awkward_model_goes_wrong_in_its_own_way(hub: str, tmp_path: Path) -> None:
    code = f"""
import json
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

def outcome(load):
    try:
        loaded = load()
    except Exception as error:
        return str(error)
    if isinstance(loaded, torch.nn.Module) and loaded(torch.tensor([[5, 6]])).logits.isnan().any():
        return "loaded, and answers nan"
    return "loaded"

print(json.dumps({{
    name: [
        outcome(lambda: AutoTokenizer.from_pretrained("awkward/" + name, trust_remote_code=False)),
        outcome(lambda: AutoModelForCausalLM.from_pretrained(
            "awkward/" + name, use_safetensors=True, trust_remote_code=False
        )),
    ]
    for name in {sorted(OUTCOMES)!r}
}}))
"""
    seen = json.loads(run_client(code, hub, tmp_path).splitlines()[-1])
    assert OUTCOMES.keys() == MODELS.keys()
    for name, said in OUTCOMES.items():
        for expected, actual in zip(said, seen[name], strict=True):
            right = actual == LOADED if expected == LOADED else expected in actual
            assert right, f"{name}: expected {expected!r}, got {actual!r}"


WEIGHTS = f"/{TINY}/resolve/main/model.safetensors"


# On the wire


def test_ranges_give_exactly_those_bytes(hub: str, content: Path) -> None:
    weights = (content / "models" / TINY / "model.safetensors").read_bytes()
    for wanted, start, end in (
        ("bytes=0-99", 0, 100),
        ("bytes=100-100", 100, 101),
        ("bytes=153000-", 153000, None),
        ("bytes=-7", -7, None),
        ("bytes=153300-999999999", 153300, None),
    ):
        status, headers, body = ask(hub, "GET", WEIGHTS, Range=wanted)
        first = start % len(weights)
        assert (status, body) == (206, weights[start:end]), wanted
        assert headers["content-range"] == f"bytes {first}-{first + len(body) - 1}/{len(weights)}"
    status, headers, _ = ask(hub, "GET", WEIGHTS, Range="bytes=999999999-")
    assert (status, headers["content-range"]) == (416, f"bytes */{len(weights)}")


def test_nothing_outside_a_repository_is_served(tmp_path: Path) -> None:
    model = tmp_path / "root" / "models" / "awkward" / "model"
    (model / ".revisions" / "v1").mkdir(parents=True)
    (model / ".revisions" / "v1" / "README.md").write_text("SECRET")
    (model / ".hub.yaml").write_text("private: false # SECRET")
    (model / "README.md").write_text("public")
    for folder in (tmp_path, tmp_path / "root", tmp_path / "root" / "models", model.parent):
        (folder / "secret.txt").write_text("SECRET")
    (model / "link.txt").symlink_to(tmp_path / "secret.txt")
    (model / "linked").symlink_to(tmp_path)
    with serve([tmp_path / "root"]) as url:
        assert ask(url, "GET", "/awkward/model/resolve/main/README.md")[2] == b"public"
        for path in (
            "/awkward/model/resolve/main/../secret.txt",
            "/awkward/model/resolve/main/%2e%2e/secret.txt",
            "/awkward/model/resolve/main/..%2fsecret.txt",
            "/awkward/model/resolve/..%2f/secret.txt",
            "/awkward/model/resolve/../secret.txt",
            "/awkward/..%2f../resolve/main/secret.txt",
            "/../root/resolve/main/secret.txt",
            "/awkward/model/resolve/main//etc/passwd",
            "/awkward/model/resolve/main/.hub.yaml",
            "/awkward/model/resolve/main/.revisions/v1/README.md",
            "/awkward/model/resolve/main/link.txt",
            "/awkward/model/resolve/main/linked/secret.txt",
            "/api/models/awkward/model/tree/main/.revisions",
            "/api/models/awkward/model/tree/main/linked",
            "/api/models/../..",
            "/awkward/model/resolve/main/line%0d%0abreak%00%ff",
        ):
            status, _, body = ask(url, "GET", path)
            assert status == 404, path
            assert b"SECRET" not in body, path
            assert b"root:" not in body, path


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


# Told to fail

DOWNLOAD = "hf_hub_download('org/name', 'weights.bin')"
BYTES = bytes(range(256)) * 1000


@pytest.fixture(scope="module")
def unreliable_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("content")
    for name in ("name", "new-name"):
        folder = root / "models" / "org" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text('{"model_type": "llama"}')
        (folder / "weights.bin").write_bytes(BYTES)
    with serve([root]) as url:
        yield url


@pytest.fixture
def unreliable(unreliable_hub: str) -> Iterator[str]:
    """The Hub that a test tells to fail, without faults of an earlier test."""
    yield unreliable_hub
    set_faults(unreliable_hub, [])


def outcomes(hub: str, home: Path, *calls: str) -> list[str]:
    """What each call returns, or its exception's name, status and cause."""
    code = f"""
from huggingface_hub import HfApi
for call in {calls!r}:
    try:
        print(eval("HfApi()." + call))
    except Exception as error:
        response = getattr(error, "response", None)
        status = response.status_code if response is not None else "-"
        print(type(error).__name__, status, " ".join(str(error).split()))
"""
    return run_client(code, hub, home).splitlines()[-len(calls) :]


def remaining(hub: str) -> Any:
    with urllib.request.urlopen(f"{hub}/_faults", timeout=60) as response:
        return json.load(response)


def test_an_ordered_status_is_the_clients_exception(unreliable: str, tmp_path: Path) -> None:
    ordered = [
        ({"status": 404, "code": "RepoNotFound"}, "RepositoryNotFoundError 404"),
        ({"status": 404, "code": "RevisionNotFound"}, "RevisionNotFoundError 404"),
        ({"status": 403, "code": "GatedRepo"}, "GatedRepoError 403"),
        (
            {"status": 403, "message": "Access to this resource is disabled."},
            "DisabledRepoError 403",
        ),
        ({"status": 400, "message": "No."}, "BadRequestError 400"),
        ({"status": 429, "retry_after": 7}, "HfHubHTTPError 429"),
        ({"status": 500, "message": "We broke it."}, "HfHubHTTPError 500"),
    ]
    asked = "GET /api/models/org/name"
    set_faults(unreliable, [{"match": asked, "times": 1, **fault} for fault, _ in ordered])
    found = outcomes(unreliable, tmp_path, *["model_info('org/name')"] * len(ordered))
    for (fault, error), said in zip(ordered, found, strict=True):
        assert said.startswith(error)
        assert str(fault.get("message", "")) in said


def test_headers_of_a_fault_say_where_to_go_and_when_to_come_back(unreliable: str) -> None:
    path = "/api/models/org/name"
    for order, expected in (
        ({"status": 307, "location": "/elsewhere"}, {"location": "/elsewhere"}),
        ({"status": 429, "retry_after": 7}, {"retry-after": "7", "ratelimit": '"api";r=0;t=7'}),
    ):
        set_faults(unreliable, [{"match": path, **order}])
        status, headers, _ = ask(unreliable, "GET", path)
        assert status == order["status"]
        assert expected.items() <= headers.items()


def test_a_fault_happens_as_often_as_ordered_and_other_paths_are_left_alone(
    unreliable: str, tmp_path: Path
) -> None:
    order = {"match": "/api/models/org/na*", "times": 2, "status": 500}
    set_faults(unreliable, [order])
    asked = "model_info('org/name').id"
    other, first = outcomes(unreliable, tmp_path, "model_info('org/new-name').id", asked)
    assert other == "org/new-name"
    assert first.startswith("HfHubHTTPError 500")
    assert remaining(unreliable) == [{**order, "times": 1}]
    second, third = outcomes(unreliable, tmp_path, asked, asked)
    assert second.startswith("HfHubHTTPError 500")
    assert third == "org/name"


def test_a_body_cut_once_is_resumed_and_one_always_cut_is_an_error(
    unreliable: str, tmp_path: Path
) -> None:
    set_faults(unreliable, [{"match": "GET *weights.bin", "times": 1, "truncate": 1000}])
    (path,) = outcomes(unreliable, tmp_path / "once", DOWNLOAD)
    assert Path(path).read_bytes() == BYTES
    assert remaining(unreliable)[0]["times"] == 0
    set_faults(unreliable, [{"match": "GET *weights.bin", "truncate": 0}])
    (failure,) = outcomes(unreliable, tmp_path / "always", DOWNLOAD)
    assert failure.startswith(("RemoteProtocolError", "OSError"))


def test_a_wrong_order_is_refused_by_name_and_changes_nothing(unreliable: str) -> None:
    set_faults(unreliable, [{"match": "/kept", "status": 500}])
    with pytest.raises(urllib.error.HTTPError) as refusal:
        set_faults(unreliable, [{"match": "/x", "stauts": 500}, {"match": "/y", "delay": -1}])
    problems = json.load(refusal.value)["error"]
    refusal.value.close()
    assert refusal.value.code == 400
    assert "fault 1: unknown key 'stauts'" in problems
    assert "fault 2: delay: -1 is not a number of seconds" in problems
    assert remaining(unreliable) == [{"match": "/kept", "status": 500}]


# On the command line


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / "models" / "org" / "name"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# A model")
    return tmp_path / "root"


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "demo.hub", *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def address(hub: subprocess.Popen[str]) -> str:
    """The address in the one line that the command prints."""
    assert hub.stdout is not None
    line = hub.stdout.readline()
    assert re.fullmatch(r"Local Hub: 1 repositories at http://127\.0\.0\.1:\d+\n", line)
    return line.split()[-1]


def faults_in(folder: Path, faults: str) -> Path:
    file = folder / "faults.yaml"
    file.write_text(faults)
    return file


def test_what_cannot_be_served_is_refused_by_name_with_its_remedy(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusal(*arguments: object) -> str:
        assert main([*map(str, arguments)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        return err

    assert f"{tmp_path / 'absent'} is not a folder" in refusal(tmp_path / "absent")
    too_deep = f"{root / 'models'} holds neither models/ nor datasets/; name the folder above"
    assert too_deep in refusal(root / "models")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(root, "--port", port)
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "name another --port" in said
    for faults, problem in (
        ("- {match: /x, status: 99}", "status: 99 is not an HTTP status"),
        ("- {match: /x", "expected ',' or '}'"),
        ("match: /x", "expected a list of faults"),
    ):
        file = faults_in(tmp_path, faults)
        said = refusal(root, "--faults", file)
        assert f"--faults {file}: " in said
        assert problem in said
    marker = root / "models" / "org" / "name" / ".hub.yaml"
    marker.write_text("gated: maybe")
    assert f"{marker}: gated: 'maybe'" in refusal(root)


def test_it_ends_quietly_even_while_a_client_waits(root: Path, tmp_path: Path) -> None:
    file = faults_in(tmp_path, "- {match: '*', times: 1, delay: 900}\n")
    with start(root, "--faults", file) as hub:
        url = address(hub)

        def wait() -> None:
            with suppress(OSError):
                urllib.request.urlopen(f"{url}/api/models/org/name", timeout=900).close()

        client = threading.Thread(target=wait)
        client.start()
        while remaining(url)[0]["times"]:
            time.sleep(0.05)
        hub.send_signal(signal.SIGINT)
        _, err = hub.communicate(timeout=300)  # of the 900 that the client would wait
        client.join(timeout=300)
    assert err == ""
    assert not client.is_alive()
