"""The local Hub as its clients see it: the real ones, each in a process and a cache of its own."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.awkward import DATASET
from tests.hub import TEST_DATA, get_json, run_client, serve

TINY = "awkward/tiny-llama"
needs_data = pytest.mark.skipif(
    not TEST_DATA.is_dir(), reason=f"no data sets at {TEST_DATA}: set PLUMBLINE_TEST_DATA"
)


@pytest.fixture(scope="module")
def data_hub() -> Iterator[str]:
    with serve([TEST_DATA]) as url:
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
