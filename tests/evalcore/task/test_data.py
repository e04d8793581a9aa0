"""Data of a task: from the Hub at one commit, with and without network; files of this machine, data
that a function makes, and prepared data read directly.

Every client of the Hub runs in a process of its own: libraries read HF_ENDPOINT once, on import.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import ClassLabel, Dataset, Features, LargeList, List, Translation, Value

from evalcore.errors import TaskError
from evalcore.selection import select
from evalcore.task.config import TaskSpec
from evalcore.task.data.dataset import load_data
from evalcore.task.data.prepared import Prepared, cache_folder
from evalcore.task.data.rows import rows_of
from evalcore.task.identity.digest import config_digest, resolved_config
from evalcore.task.library.load import TaskLibrary
from tests.evalcore.worlds import World, capitals, task_text, write_tasks
from tests.hub import run_client, serve, set_faults

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
os.environ["HF_UPDATE_DOWNLOAD_COUNTS"] = "1"
def asked(host, *more, **others):
    print("asked for", host, flush=True)
    os._exit(3)
socket.getaddrinfo = asked
"""


class Client:
    """Reads the documents of `org/capitals` in a fresh process, with a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(
        self, url: str, *, offline: bool = False, before: str = "", **keys: Any
    ) -> tuple[str, Any]:
        """(commit, prompts), or the error's class and message; the task's `keys` may differ."""
        alone = {"training_split": None, "fewshot_split": None}
        World(self.folder).spec(**{"dataset_path": "org/capitals", **alone, **keys})
        extra = {"HF_HUB_OFFLINE": "1"} if offline else {}
        code = before + READ.format(folder=str(self.folder / "tasks"))
        printed = run_client(code, url, self.folder / "hf_home", **extra)
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
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("hub")
    publish(root, {"test": capitals(3), "train": capitals(2)})
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
        pinned = client.read(url, dataset_kwargs={"revision": old[0]})
    assert old == again
    assert (len(old[1]), len(new[1])) == (3, 5)
    assert len(old[0]) == 40
    assert new[0] != old[0]
    # The old commit comes from the cache, where a newer one lies beside it.
    assert pinned == old
    gone = "http://127.0.0.1:9"
    assert client.read(gone, offline=True) == new
    assert client.read(gone, offline=True, dataset_kwargs={"revision": old[0]}) == old


def test_local_files_have_no_commit_and_no_server_is_asked_for_them(
    tmp_path: Path, client: Client
) -> None:
    publish(tmp_path, {"test": capitals(2)})
    folder = tmp_path / "datasets" / "org" / "capitals"
    nowhere = "http://127.0.0.1:9"
    commit, prompts = client.read(nowhere, dataset_path=str(folder))
    assert (commit, len(prompts)) == (None, 2)
    keys = {"data_files": {"test": str(folder / "test.jsonl")}}
    _, prompts = client.read(nowhere, before=NOBODY_ASKED, dataset_path="json", dataset_kwargs=keys)
    assert len(prompts) == 2


NOT_THERE: list[tuple[dict[str, Any], str]] = [
    ({"dataset_path": "org/nowhere"}, "The data set org/nowhere does not exist on the Hub"),
    ({"dataset_name": "easy"}, "configuration easy cannot be loaded: .*not found.*default"),
    ({"test_split": "dev"}, "has no split 'dev'; it has test, train"),
    ({"dataset_kwargs": {"revision": "v9"}}, "revision v9 has no such revision"),
]


def test_a_data_set_that_is_not_there_is_the_authors_to_correct(hub: str, client: Client) -> None:
    for keys, message in NOT_THERE:
        kind, found = client.read(hub, **keys)
        assert kind == "TaskError", found
        assert _matches(message, found)


def test_a_hub_that_refuses_is_told_apart_from_one_that_fails(hub: str, client: Client) -> None:
    for fault, kind, message in REFUSALS:
        set_faults(hub, [{"match": "/api/datasets/org/capitals*", **fault}])
        found = client.read(hub)
        assert found[0] == kind, found
        assert _matches(message, found[1])
    # Once it answers again, nothing of the failures is left.
    set_faults(hub, [])
    assert len(client.read(hub)[1]) == 3


REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    ({"status": 403, "code": "GatedRepo"}, "TaskError", "is gated: its owner must grant"),
    (
        {"status": 403, "message": "Access to this resource is disabled."},
        "TaskError",
        "was disabled on the Hub",
    ),
    ({"status": 503}, "InfraError", "the Hub answered 503; try again later"),
    ({"status": 429}, "InfraError", "the Hub answered 429; try again later"),
]


def test_without_network_and_without_a_fetch_the_remedy_is_told(client: Client) -> None:
    kind, found = client.read("http://127.0.0.1:9", offline=True)
    assert kind == "InfraError"
    assert _matches("is not in the cache, and the Hub cannot be reached: fetch it first", found)


def _matches(message: str, found: object) -> bool:
    return re.search(message, str(found), re.DOTALL) is not None


# Data on this machine


ROWS = capitals(4)


def task(folder: Path, stated: Mapping[str, Any] | None = None, /, **keys: Any) -> TaskSpec:
    """The task `t` of a file with these keys."""
    values = {"task": "t", "test_split": "test", "doc_to_text": "question", **keys}
    files = {"t.yaml": task_text(values)}
    (spec,) = write_tasks(folder, files).select(["t"], metadata=stated or {})
    assert isinstance(spec, TaskSpec)
    return spec


IMPORTED_BY_ANOTHER_THREAD = """
import sys, threading, time
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from evalcore.task.data.dataset import load_data
from evalcore.task.library.load import TaskLibrary

main = threading.get_ident()
is_halfway = threading.Event()

class Halfway(SourceFileLoader):
    def exec_module(self, module):
        is_halfway.set()
        while sys._current_frames()[main].f_code.co_name != "acquire":  # of an import's lock
            time.sleep(0.01)
        super().exec_module(module)

class Finder:
    def find_spec(name, path, target=None):
        if name == "datasets.arrow_dataset":
            spec = PathFinder.find_spec(name, path)
            spec.loader = Halfway(name, spec.origin)
            return spec

(spec,) = TaskLibrary([Path(sys.argv[1])]).select(["t"])
sys.meta_path.insert(0, Finder)
threading.Thread(target=__import__, args=["datasets"], daemon=True).start()
is_halfway.wait()
print(len(load_data(spec).split("test")))
"""


def questions(spec: TaskSpec, split: str = "test") -> list[str]:
    return [doc["question"] for doc in load_data(spec).split(split)]


def write_rows(kind: str, path: Path) -> None:
    dataset = datasets.Dataset.from_list(ROWS)
    if kind == "json":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    elif kind == "arrow":
        dataset.save_to_disk(path.parent / "saved")
        (written,) = (path.parent / "saved").glob("*.arrow")
        written.rename(path)
    else:
        dataset.to_parquet(path)


@pytest.mark.parametrize("kind", ["json", "parquet", "arrow"])
def test_files_of_this_machine_are_read(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"rows.{kind}"
    write_rows(kind, file)
    kwargs = {"data_files": {"test": str(file)}}
    spec = task(tmp_path / "tasks", dataset_path=kind, dataset_kwargs=kwargs)
    assert questions(spec) == [row["question"] for row in ROWS]
    assert load_data(spec).commit is None


def test_a_folder_that_save_to_disk_wrote_is_read_with_its_splits(tmp_path: Path) -> None:
    test, train = (datasets.Dataset.from_list(rows) for rows in (ROWS, ROWS[:1]))
    saved = tmp_path / "saved"
    datasets.DatasetDict({"test": test, "train": train}).save_to_disk(saved)
    spec = task(tmp_path / "tasks", dataset_path=str(saved))
    assert (len(questions(spec)), len(questions(spec, "train"))) == (4, 1)


def test_of_several_saved_data_sets_the_configuration_names_one(tmp_path: Path) -> None:
    for name, rows in {"easy": ROWS[:1], "hard": ROWS}.items():
        datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "saved" / name)
    keys = {"dataset_path": str(tmp_path / "saved"), "dataset_name": "hard", "test_split": "train"}
    assert len(questions(task(tmp_path / "tasks", **keys), "train")) == 4


def test_a_function_makes_data_of_metadata_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        "import random\n"
        "def make(length, word, config_source, **rest):\n"
        "    text = f'{word} {length} {config_source[-6:]} {sorted(rest)} {random.random():.3f}'\n"
        "    return {'test': [{'question': text}]}\n"
    )
    keys = {
        "custom_dataset": "!function code.make",
        "metadata": {"version": 1, "length": 1},
        "dataset_kwargs": {"word": "w"},
    }
    assert questions(task(tmp_path, **keys)) == ["w 1 t.yaml ['version'] 0.844"]
    # What the command says goes over what the file says.
    assert questions(task(tmp_path, {"length": 9}, **keys)) == ["w 9 t.yaml ['version'] 0.844"]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("return []", "it must be a mapping from split to documents, the function gave list"),
        ("return {'train': []}", "has no split 'test'; it has train"),
        ("return 1 / 0", "cannot be loaded: ZeroDivisionError.* Correct the function"),
        ("return {'test': iter([])}", "the documents of 'test' must be a data set or a list"),
    ],
)
def test_a_function_that_makes_no_data_is_named(tmp_path: Path, body: str, complaint: str) -> None:
    (tmp_path / "code.py").write_text(f"def make(**_):\n    {body}\n")
    spec = task(tmp_path, custom_dataset="!function code.make")
    with pytest.raises(TaskError, match=complaint) as caught:
        questions(spec)
    assert "custom_dataset, !function code.make" in str(caught.value)


def test_the_models_arguments_reach_the_function_and_are_no_part_of_the_task(
    tmp_path: Path,
) -> None:
    (tmp_path / "code.py").write_text(
        "def make(pretrained, length, **_):\n"
        "    return {'test': [{'question': f'{pretrained} {length}'}]}\n"
    )

    def told(pretrained: str, length: int) -> TaskSpec:
        arguments = {"pretrained": pretrained, "length": 0}
        (spec,) = select(
            TaskLibrary([tmp_path]),
            ["t"],
            metadata={"length": length},
            model_args=arguments,
            mode="compat",
        )
        assert isinstance(spec, TaskSpec)
        return spec

    task(tmp_path, custom_dataset="!function code.make")
    one, other = told("a/model", 3), told("another/model", 3)
    # What the command says goes over the model's arguments, too.
    assert questions(one) == ["a/model 3"]
    assert questions(other) == ["another/model 3"]
    assert config_digest(one) == config_digest(other)
    assert resolved_config(one) == resolved_config(other)
    assert config_digest(told("a/model", 4)) != config_digest(one)


# Prepared data, read without `datasets`


PLAIN = Features(
    {
        "text": Value("string"),
        "number": Value("float64"),
        "whole": Value("int8"),
        "label": ClassLabel(names=["no", "yes"]),
        "choices": {"text": List(Value("string")), "label": List(Value("large_string"))},
        "spans": List({"at": Value("int32"), "sure": Value("bool")}),
        "far": LargeList(Value("uint16")),
        "both": Translation(languages=["de", "en"]),
        "_type": Value("string"),
        "nothing": Value("null"),
    }
)


def document(number: int) -> dict[str, Any]:
    return {
        "text": None if number % 3 == 0 else f"question {number} ü \u2028",
        "number": [0.1, float("inf"), None][number % 3],
        "whole": number % 100,
        "label": number % 2,
        "choices": {"text": [f"a{number}", None], "label": ["A", "B"]},
        "spans": [{"at": number, "sure": None}] * (number % 3),
        "far": [number, 7],
        "both": {"de": "ja", "en": "yes"},
        "_type": "Image",
        "nothing": None,
    }


def written(folder: Path, name: str, rows: Dataset, batch: int = 1000) -> str:
    """The file that `datasets` makes of these rows when it prepares them."""
    file = folder / f"{name}.arrow"
    with datasets.arrow_writer.ArrowWriter(
        features=rows.features, path=str(file), writer_batch_size=batch
    ) as writer:
        for row in rows.with_format("arrow").iter(1):
            writer.write_table(row)
        writer.finalize()
    return str(file)


def made(numbers: range) -> Dataset:
    return Dataset.from_list([document(number) for number in numbers], features=PLAIN)


def test_rows_are_those_that_datasets_gives(tmp_path: Path) -> None:
    files = [
        written(tmp_path, "one", made(range(25)), batch=7),
        written(tmp_path, "none", made(range(25)).select([])),
        written(tmp_path, "two", made(range(25, 30))),
    ]
    theirs = datasets.concatenate_datasets([Dataset.from_file(file) for file in files])
    ours = rows_of(files)
    assert ours is not None
    assert ours.columns == tuple(theirs.features)
    assert len(ours) == len(theirs) == 30
    for row, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        assert list(own) == list(other)
        assert repr(own) == repr(other) == repr(ours[row]) == repr(ours[row - 30])
    assert repr(ours[5:9]) == repr([theirs[row] for row in range(5, 9)])
    with pytest.raises(IndexError):
        _ = ours[30]


def test_what_datasets_decodes_or_casts_and_other_columns_are_left_to_it(tmp_path: Path) -> None:
    odd: list[tuple[Any, Any]] = [
        (datasets.Image(), None),
        (List(datasets.Image(decode=False)), []),
        (Value("timestamp[s]"), None),
        (Value("binary"), b"x"),
        (datasets.Array2D((1, 2), "int32"), [[1, 2]]),
    ]
    for number, (feature, value) in enumerate(odd):
        rows = Dataset.from_dict({"x": [value]}, features=Features({"x": feature}))
        file = written(tmp_path, f"odd{number}", rows)
        assert rows_of([file]) is None, feature
        splits = Prepared({"test": [file]})
        assert splits.rows("test") is splits["test"]
        assert splits["test"].features == rows.features

    files = [
        written(tmp_path, name, Dataset.from_dict({name: [1]})) for name in ("first", "second")
    ]
    assert rows_of(files) is None


@pytest.mark.parametrize(
    ("stated", "folder"),
    [
        ({}, "~/.cache/huggingface/datasets"),
        ({"HF_HOME": "~/hf"}, "~/hf/datasets"),
        ({"XDG_CACHE_HOME": "/somewhere/else"}, "/somewhere/else/huggingface/datasets"),
        ({"HF_HOME": "/somewhere/hf", "HF_DATASETS_CACHE": "/data/sets"}, "/data/sets"),
    ],
)
def test_the_cache_is_where_datasets_looks_before_that_is_imported(
    monkeypatch: pytest.MonkeyPatch, stated: dict[str, str], folder: str
) -> None:
    monkeypatch.delitem(sys.modules, "datasets.config")
    for name in ("HF_HOME", "XDG_CACHE_HOME", "HF_DATASETS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in stated.items():
        monkeypatch.setenv(name, value)
    assert str(cache_folder()) == str(Path(folder).expanduser())


def test_data_are_read_while_another_thread_imports_the_library(tmp_path: Path) -> None:
    write_rows("json", tmp_path / "rows.json")
    kwargs = {"data_files": {"test": str(tmp_path / "rows.json")}}
    task(tmp_path / "tasks", dataset_path="json", dataset_kwargs=kwargs)
    command = [sys.executable, "-c", IMPORTED_BY_ANOTHER_THREAD, str(tmp_path / "tasks")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.strip() == "4", done.stderr
