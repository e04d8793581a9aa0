"""What a fetch takes of a repository, from a real Hub process: only what is loaded, and no more."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import transformers

from evalcore.cli import main
from evalcore.model.hf.repository import TOKENIZER
from tests import awkward, warm
from tests.hub import ROOT, client_environment, serve

PROGRAM = """
import sys
from evalcore.errors import DISK_IS_FULL, EvalError, for_want_of_room
from evalcore.model.hf.snapshot import Arguments, download
try:
    download(Arguments.of({"pretrained": sys.argv[1]}))
except EvalError as error:
    print(error, file=sys.stderr)
    sys.exit(DISK_IS_FULL if for_want_of_room(error) else error.exit_code)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    root = awkward.build(tmp_path_factory.mktemp("hub"))
    with serve([root]) as url:
        yield root / "models" / awkward.ORGANISATION, url


def fetch(url: str, home: Path, name: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """As `evalcore fetch` does before the data of its tasks."""
    return warm.run(
        ["-c", PROGRAM, f"{awkward.ORGANISATION}/{name}"],
        cwd=ROOT,
        env=client_environment(url, home, **extra),
        timeout=300,
    )


def fetched(home: Path) -> set[str]:
    return {file.name for file in home.rglob("snapshots/*/*")}


def made(folder: Path, name: str, *, of: str = "tiny-llama") -> Path:
    """A copy of a model, for a test to add to."""
    shutil.copytree(folder / of, folder / name, ignore=shutil.ignore_patterns(".revisions"))
    return folder / name


def test_only_what_is_loaded_is_fetched(served: tuple[Path, str], tmp_path: Path) -> None:
    folder, url = served
    model = made(folder, "cluttered", of="sharded")
    wanted = {file.name for file in model.iterdir()}
    for name in ("spare.safetensors", "notes.txt", "trainer_state.json", "old.model", "run.jinja"):
        (model / name).write_bytes(b"x" * 1000)
    (model / "vocab.txt").write_text("a\nb\n")
    done = fetch(url, tmp_path, "cluttered")
    assert done.returncode == 0, done.stderr
    assert fetched(tmp_path) == wanted - {"README.md"} | {"vocab.txt"}
    offline = fetch(url, tmp_path, "cluttered", HF_HUB_OFFLINE="1")
    assert offline.returncode == 0, offline.stderr


def test_an_index_cannot_name_what_is_no_file_of_weights(
    served: tuple[Path, str], tmp_path: Path
) -> None:
    folder, url = served
    model = made(folder, "reaching", of="sharded")
    index = model / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"] |= {"a": "*", "b": "../x.safetensors", "c": "README.md", "d": 5}
    index.write_text(json.dumps(content))
    assert fetch(url, tmp_path, "reaching").returncode == 0
    assert "README.md" not in fetched(tmp_path)


def enlarge_tokenizer(model: Path) -> None:
    with (model / "tokenizer.json").open("r+b") as tokenizer:
        tokenizer.truncate(2**28 + 1)


def add_templates(model: Path, count: int, length: int) -> None:
    (model / "additional_chat_templates").mkdir()
    for number in range(count):
        (model / "additional_chat_templates" / f"t{number}.jinja").write_text("x" * length)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (enlarge_tokenizer, "tokenizer.json has 268,435,457 bytes"),
        (partial(add_templates, count=1, length=2**20 + 1), "t0.jinja has 1,048,577 bytes"),
        (partial(add_templates, count=101, length=1), "101 chat templates, and 100 is the most"),
    ],
    ids=["tokenizer", "a long template", "many templates"],
)
def test_small_files_of_any_size_or_number_are_refused_before_they_are_fetched(
    served: tuple[Path, str], tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    folder, url = served
    name = f"bloated-{said.split()[0]}"
    spoil(made(folder, name))
    done = fetch(url, tmp_path, name)
    assert done.returncode == 10
    assert said in done.stderr
    assert not fetched(tmp_path)


def test_a_model_that_the_disk_does_not_hold_is_our_matter(
    served: tuple[Path, str], tmp_path: Path
) -> None:
    folder, url = served
    model = made(folder, "vast")
    (model / ".hub.yaml").write_text(json.dumps({"sizes": {"model.safetensors": 10**17}}))
    done = fetch(url, tmp_path, "vast")
    assert done.returncode == 13
    assert "100,000,000,000,000,000 bytes are to be downloaded" in done.stderr
    assert "model.safetensors" not in fetched(tmp_path)


def test_the_tokenizer_files_are_those_of_transformers() -> None:
    """Read from its sources: to import every tokenizer takes a minute."""
    sources = Path(transformers.__file__).parent.rglob("tokenization_*.py")
    tables = re.compile(r"^VOCAB_FILES_NAMES\b[^=]*= \{(.*?)\}", re.M | re.S)
    named = {
        name
        for source in sources
        for table in tables.findall(source.read_text())
        for name in re.findall(r':\s*"([^"]+\.\w+)"', table)
    }
    assert len(named) > 15
    assert named <= set(TOKENIZER), f"add {sorted(named - set(TOKENIZER))}"


def test_what_nobody_can_download_is_refused_with_what_fetches_the_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stated = ["--model_args", "model=org/name,base_url=http://localhost/v1/completions"]
    assert main(["fetch", "--model", "local-completions", *stated, "--tasks", "arc_easy"]) == 2
    told = capsys.readouterr().err
    assert "--model local-completions: models of hf, hf-auto, huggingface, vllm are down" in told
    assert "--model dummy, and no --model_args, the data of the tasks are fetched alone" in told
