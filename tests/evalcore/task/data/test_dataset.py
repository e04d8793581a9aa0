"""Data of a task at one commit: the same with and without network, and whose fault a failure is.

Every client runs in a process of its own: the libraries read HF_ENDPOINT once, on import.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.evalcore.worlds import capitals, write_tasks
from tests.hub import run_client, serve, set_faults

TASK = """
task: capitals
dataset_path: {path}
dataset_name: {name}
dataset_kwargs: {kwargs}
test_split: {split}
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: choices
doc_to_target: answer
"""

READ = """
import json, sys
from pathlib import Path
from evalcore.errors import EvalError
from evalcore.task.library.load import TaskLibrary
from evalcore.task.asking.task import Task
task = Task(TaskLibrary([Path({folder!r})]).one("capitals"))
try:
    found = [task.dataset_commit, [item.prompt for item in task.items()]]
except EvalError as error:
    found = [type(error).__name__, str(error)]
print("\\n" + json.dumps(found))
"""


NOBODY_ASKED = """
import os, socket
def asked(host, *more, **others):
    print("asked for", host, flush=True)
    os._exit(3)
socket.getaddrinfo = asked
"""


class Client:
    """Reads the task's documents in a fresh process with a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "hf_home"

    def read(self, url: str, *, offline: bool = False, **task: Any) -> tuple[str, Any]:
        """(commit, prompts), or the error's class and message."""
        values = {"path": "org/capitals", "name": "null", "kwargs": "{}", "split": "test", **task}
        write_tasks(self.folder / "tasks", {"capitals.yaml": TASK.format(**values)})
        extra = {"HF_HUB_OFFLINE": "1"} if offline else {}
        code = READ.format(folder=str(self.folder / "tasks"))
        printed = run_client(code, url, self.home, **extra)
        commit, found = json.loads(printed.splitlines()[-1])
        return commit, found


def publish(root: Path, splits: Mapping[str, list[dict[str, Any]]]) -> None:
    folder = root / "datasets" / "org" / "capitals"
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in splits.items():
        (folder / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    files = "".join(f"  - {{split: {split}, path: {split}.jsonl}}\n" for split in splits)
    (folder / "README.md").write_text(
        f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}---\n# Capitals\n"
    )


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hub")
    publish(root, {"test": capitals(3), "train": capitals(2)})
    return root


@pytest.fixture(scope="module")
def hub(root: Path) -> Iterator[str]:
    with serve([root]) as url:
        yield url


def test_without_network_the_commit_is_read_that_was_fetched_last(
    tmp_path: Path, client: Client
) -> None:
    root = tmp_path / "hub"
    publish(root, {"test": capitals(3)})
    with serve([root]) as url:
        old = client.read(url)
        again = client.read(url)
    publish(root, {"test": capitals(5)})
    with serve([root]) as url:
        new = client.read(url)
        pinned = client.read(url, kwargs=f"{{revision: {old[0]}}}")
    assert old == again
    assert (len(old[1]), len(new[1])) == (3, 5)
    assert len(old[0]) == 40
    assert new[0] != old[0]
    # The old commit comes from the cache, where a newer one lies beside it.
    assert pinned == old
    gone = "http://127.0.0.1:9"
    assert client.read(gone, offline=True) == new
    assert client.read(gone, offline=True, kwargs=f"{{revision: {old[0]}}}") == old


def test_local_files_have_no_commit(tmp_path: Path, client: Client) -> None:
    publish(tmp_path, {"test": capitals(2)})
    folder = tmp_path / "datasets" / "org" / "capitals"
    commit, prompts = client.read("http://127.0.0.1:9", path=str(folder))
    assert commit is None
    assert len(prompts) == 2


def test_local_files_are_read_without_asking_any_server(tmp_path: Path) -> None:
    publish(tmp_path, {"test": capitals(2)})
    file = tmp_path / "datasets" / "org" / "capitals" / "test.jsonl"
    files = f"{{data_files: {{test: {file}}}}}"
    task = TASK.format(path="json", name="null", kwargs=files, split="test")
    write_tasks(tmp_path / "tasks", {"capitals.yaml": task})
    code = NOBODY_ASKED + READ.format(folder=str(tmp_path / "tasks"))
    counted = {"HF_UPDATE_DOWNLOAD_COUNTS": "1"}
    printed = run_client(code, "http://127.0.0.1:9", tmp_path / "hf_home", **counted)
    assert len(json.loads(printed.splitlines()[-1])[1]) == 2


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"path": "org/nowhere"}, "The data set org/nowhere does not exist on the Hub"),
        ({"name": "easy"}, "configuration easy cannot be loaded: .*not found.*default"),
        ({"split": "dev"}, "has no split 'dev'; it has test, train"),
        ({"kwargs": "{revision: v9}"}, "revision v9 has no such revision"),
    ],
)
def test_a_data_set_that_is_not_there_is_the_authors_to_correct(
    hub: str, client: Client, task: dict[str, str], message: str
) -> None:
    kind, found = client.read(hub, **task)
    assert kind == "TaskError", found
    assert _matches(message, found)


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ({"status": 403, "code": "GatedRepo"}, "TaskError", "is gated: its owner must grant"),
        (
            {"status": 403, "message": "Access to this resource is disabled."},
            "TaskError",
            "was disabled on the Hub",
        ),
        ({"status": 503}, "InfraError", "the Hub answered 503; try again later"),
        ({"status": 429}, "InfraError", "the Hub answered 429; try again later"),
    ],
)
def test_a_hub_that_refuses_is_told_apart_from_one_that_fails(
    root: Path, client: Client, fault: dict[str, Any], kind: str, message: str
) -> None:
    with serve([root], faults=[{"match": "/api/datasets/org/capitals*", **fault}]) as url:
        found = client.read(url)
        assert found[0] == kind, found
        assert _matches(message, found[1])
        # Once it answers again, nothing of the failure is left.
        set_faults(url, [])
        assert len(client.read(url)[1]) == 3


def test_without_network_and_without_a_fetch_the_remedy_is_told(client: Client) -> None:
    kind, found = client.read("http://127.0.0.1:9", offline=True)
    assert kind == "InfraError"
    assert _matches("is not in the cache, and the Hub cannot be reached: fetch it first", found)


def _matches(message: str, found: object) -> bool:
    return re.search(message, str(found), re.DOTALL) is not None
