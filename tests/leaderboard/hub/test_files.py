"""Repositories whose files do not fit together: one sentence says what is wrong with them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches

from leaderboard.hub import architectures
from leaderboard.submissions import precheck
from tests import awkward
from tests.hub import serve

Change = Callable[[Path], object]
Spoilt = Callable[..., precheck.Precheck]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder of repositories, and the address of the Hub that serves it as it changes."""
    root = tmp_path_factory.mktemp("hub")
    (root / "models" / "org").mkdir(parents=True)
    awkward.write_tiny_llama(root / "fine")
    with serve([root]) as url:
        yield root, url


@pytest.fixture
def spoilt(served: tuple[Path, str], settings: Any) -> Iterator[Spoilt]:
    """Checks a tiny model, sharded or not, after its files were changed."""
    root, settings.HF_ENDPOINT = served
    folder = root / "models" / "org" / "spoilt"
    caches["local"].clear()

    def check(change: Change, *, sharded: bool = False) -> precheck.Precheck:
        if sharded:
            awkward.sharded(root / "fine", folder)
        else:
            shutil.copytree(root / "fine", folder)
        change(folder)
        return precheck.check("org/spoilt")

    yield check
    shutil.rmtree(folder)


def keep_only(*names: str) -> Change:
    """Leaves these files, empty."""

    def change(folder: Path) -> None:
        shutil.rmtree(folder)
        folder.mkdir()
        for name in names:
            (folder / name).write_bytes(b"{}")

    return change


def test_an_empty_weights_file_is_called_empty(spoilt: Spoilt) -> None:
    outcome = spoilt(lambda folder: (folder / "model.safetensors").write_bytes(b""))
    [problem] = outcome.problems
    assert problem.code == "empty_weights"
    assert "The model.safetensors of org/spoilt is empty" in problem.message
    assert outcome.checked


def test_a_shard_that_is_not_there_is_named(spoilt: Spoilt) -> None:
    def lose_one(folder: Path) -> None:
        sorted(folder.glob("*.safetensors"))[0].unlink()

    outcome = spoilt(lose_one, sharded=True)
    [problem] = outcome.problems
    assert problem.code == "missing_shard"
    assert "model-00001-of-00002.safetensors" in problem.message


@pytest.mark.parametrize(
    ("files", "code"),
    [
        (["README.md"], "no_safetensors"),
        (["adapter_config.json", "adapter_model.safetensors"], "unknown_size"),
        (["tiny.gguf"], "gguf_only"),
    ],
)
def test_a_repository_of_another_kind_gets_one_sentence(
    spoilt: Spoilt, files: list[str], code: str
) -> None:
    assert [p.code for p in spoilt(keep_only(*files)).problems] == [code]


def test_a_vocabulary_larger_than_the_model_is_refused(spoilt: Spoilt) -> None:
    outcome = spoilt(lambda folder: awkward.change_config(folder, vocab_size=10**7))
    [problem] = outcome.problems
    assert problem.code == "vocabulary_too_large"
    assert "10000000 tokens" in problem.message


@pytest.mark.parametrize("total", ["NaN", "Infinity", "-1", '"many"', "1e400", "1" + "0" * 400])
def test_an_index_with_an_odd_total_size_tells_no_number_of_parameters(
    spoilt: Spoilt, total: str
) -> None:
    def spoil(folder: Path) -> None:
        (folder / ".hub.yaml").write_text("info: {safetensors: null}\n")  # it does not count
        index = folder / "model.safetensors.index.json"
        sized = re.sub(r'"total_size": [^,}\s]+', f'"total_size": {total}', index.read_text())
        assert total in sized
        index.write_text(sized)

    [problem] = spoilt(spoil, sharded=True).problems
    assert problem.code == "unknown_size"


def test_code_of_a_repository_is_not_needed_for_a_native_architecture() -> None:
    config = {
        "architectures": ["Phi3ForCausalLM"],
        "auto_map": {"AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"},
    }
    assert architectures.problem_with(config, "org/phi") is None


def test_a_masked_language_model_is_not_generative() -> None:
    problem = architectures.problem_with({"architectures": ["BertForMaskedLM"]}, "org/bert")
    assert problem is not None
    assert problem.code == "not_generative"
