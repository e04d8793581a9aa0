"""Repositories whose files say anything at all: each check ends in a sentence, and no page breaks.

Served by a real Hub process and read by the real client; only what the repositories hold is
made up.
"""

from __future__ import annotations

import json
import math
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches
from django.test import Client
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leaderboard.hub import client as hub
from leaderboard.hub import state as hub_state
from leaderboard.models import HubModel, Variant
from leaderboard.submissions import precheck
from tests import awkward
from tests.hub import serve

Write = Callable[[str, Any], None]
NAME = "org/hostile"
LONGEST_PAGE = 60_000

TEXTS = st.sampled_from(
    ["", "llama", "llama\ud800", "a\0b", "\udfff" * 3, "x" * 70_000, "<script>", "{{ 1 }}", "a/b"]
) | st.text(st.characters(exclude_categories=()), max_size=8)
NUMBERS = st.sampled_from([0, 1, -1, 300, 2**31, 2**63, -(2**63) - 1, 10**30, 10**4000]) | (
    st.floats() | st.sampled_from([math.nan, math.inf, 1e300])
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(TEXTS.filter(lambda key: len(key) < 100), inside, max_size=3)
    ),
    max_leaves=6,
)


def some(*keys: str) -> st.SearchStrategy[dict[str, Any]]:
    """A few of these keys, with values that nobody expects there."""
    return st.dictionaries(st.sampled_from(keys), VALUES, min_size=1, max_size=3)


CONFIGS = VALUES | some(
    "model_type", "architectures", "dtype", "torch_dtype", "vocab_size", "hidden_size",
    "quantization_config", "auto_map", "is_encoder_decoder", "num_local_experts", "text_config",
)  # fmt: skip
TEMPLATES = st.fixed_dictionaries(
    {"name": VALUES | st.just("default"), "template": VALUES}, optional={"more": VALUES}
)
TOKENIZERS = VALUES | st.fixed_dictionaries(
    {"chat_template": VALUES | st.lists(TEMPLATES, max_size=3)}
)
TENSORS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "BF16", "I8"]) | VALUES,
        "shape": st.lists(st.integers(0, 9) | NUMBERS, max_size=4) | VALUES,
        "data_offsets": VALUES,
    }
)
HEADERS = VALUES | st.dictionaries(
    st.sampled_from(["w", "b", "__metadata__"]), TENSORS | VALUES, max_size=3
)
CARDS = some("license", "base_model", "base_model_relation", "tags", "library_name", "model-index")
SIBLINGS = st.fixed_dictionaries(
    {"rfilename": st.sampled_from(["config.json", "tokenizer.json", "model.safetensors"]) | VALUES},
    optional={"size": VALUES, "lfs": VALUES, "blobId": VALUES},
)
INFOS = st.dictionaries(
    st.sampled_from(["tags", "cardData", "config", "safetensors", "siblings", "sha", "id"]),
    VALUES,
    min_size=1,
    max_size=2,
) | st.fixed_dictionaries(
    {},
    optional={
        "siblings": st.lists(SIBLINGS, max_size=4),
        "safetensors": st.fixed_dictionaries({"total": VALUES, "parameters": VALUES}),
        "config": TOKENIZERS | st.fixed_dictionaries({"tokenizer_config": TOKENIZERS}),
        "cardData": CARDS,
        "tags": st.lists(VALUES, max_size=3),
    },
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]
hostile = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    root = tmp_path_factory.mktemp("hub")
    awkward.write_tiny_llama(root / "fine")
    (root / "models").mkdir()
    with serve([root]) as url:
        yield root, url


@pytest.fixture
def write(served: tuple[Path, str], settings: Any) -> Iterator[Write]:
    """Makes the repository anew, with one of its files replaced by, or changed to, a value."""
    root, settings.HF_ENDPOINT = served
    settings.PLUMBLINE_OPEN_SUBMIT = True
    settings.PLUMBLINE_OPEN_QUOTA = 10_000
    folder = root / "models" / NAME

    def change(name: str, value: Any) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(root / "fine", folder)
        caches["local"].clear()
        if name == "model.safetensors":
            head = json.dumps(value).encode()
            (folder / name).write_bytes(struct.pack("<Q", len(head)) + head)
        elif name == ".hub.yaml":
            # YAML takes no such character, escaped or not, where JSON does.
            text = json.dumps({"info": value}).replace("\x7f", "\\u007f")
            (folder / name).write_text(text)
        else:
            whole = json.loads((folder / name).read_text())
            merged = {**whole, **value} if isinstance(value, dict) else value
            (folder / name).write_text(json.dumps(merged))

    yield change
    shutil.rmtree(folder, ignore_errors=True)


def check_everywhere(client: Client) -> precheck.Precheck:
    """By the check, the page and a submission: each says something, and nothing is stored of it
    that a database or a file could not hold."""
    found = precheck.check(NAME, thorough=True)
    page = client.get(f"/submit?model={NAME}")
    assert page.status_code == 200
    assert len(page.content) < LONGEST_PAGE
    assert client.post("/submit", {"model": NAME}).status_code in (302, 409, 422)
    for problem in (*found.problems, *found.warnings):
        assert len(str(problem)) < 1500
    for variant in Variant.objects.all():
        for text in (variant.model_type, variant.architecture, variant.licence, variant.base_model):
            assert b"\0" not in text.encode()
    return found


@hostile
@given(config=CONFIGS)
def test_any_config_is_answered(client: Client, write: Write, config: Any) -> None:
    write("config.json", config)
    assert check_everywhere(client).checked


@hostile
@given(tokenizer=TOKENIZERS)
def test_any_tokenizer_configuration_is_answered(
    client: Client, write: Write, tokenizer: Any
) -> None:
    write("tokenizer_config.json", tokenizer)
    assert check_everywhere(client).checked


@hostile
@given(header=HEADERS)
def test_any_head_of_the_weights_is_answered(client: Client, write: Write, header: Any) -> None:
    write("model.safetensors", header)
    assert check_everywhere(client).checked


@hostile
@given(info=INFOS)
def test_any_answer_of_the_hub_is_a_sentence(client: Client, write: Write, info: Any) -> None:
    write(".hub.yaml", info)
    found = check_everywhere(client)
    assert found.checked or found.hub_trouble is not None
    if found.hub_trouble is not None:
        assert "500" not in found.hub_trouble.message
    HubModel.objects.get_or_create(repo_id=NAME)
    hub_state.look()
    assert "\0" not in HubModel.objects.get(repo_id=NAME).renamed_to


@hostile
@given(card=CARDS)
@example(card={"license": None, "tags": 0.5})
def test_any_card_is_answered(client: Client, write: Write, card: Any) -> None:
    write(".hub.yaml", {"cardData": card})
    assert check_everywhere(client).checked


@pytest.mark.parametrize(
    ("file", "value", "said"),
    [
        ("config.json", {"model_type": "llama\ud800", "vocab_size": 300}, ""),
        ("config.json", {"architectures": ["Llama\ud800ForCausalLM"]}, "unknown_architecture"),
        ("config.json", {"architectures": ["X" * 70_000]}, "not_generative"),
        ("config.json", {"vocab_size": 10**4000}, "impossible_size"),
        ("tokenizer_config.json", {"chat_template": [{"name": [], "template": "x"}]}, ""),
        ("model.safetensors", [], "unknown_size"),
        ("model.safetensors", {"w": "x"}, "unknown_size"),
        (".hub.yaml", {"safetensors": {"total": 10**30, "parameters": {}}}, ""),
        (".hub.yaml", {"cardData": {"license": "a\0b"}, "tags": ["base_model:a\0"]}, ""),
    ],
    ids=range(9),
)
def test_what_was_found_in_the_wild_of_our_own_tests(
    client: Client, write: Write, file: str, value: Any, said: str
) -> None:
    write(file, value)
    found = check_everywhere(client)
    assert [problem.code for problem in found.problems] == ([said] if said else [])
    assert found.checked


def test_a_number_of_thousands_of_digits_is_not_read_out(client: Client, write: Write) -> None:
    write("config.json", {"vocab_size": 10**4000})
    assert "0" * 50 not in client.get(f"/submit?model={NAME}").content.decode()


def test_lists_within_lists_are_a_broken_config(write: Write, served: tuple[Path, str]) -> None:
    write("config.json", {})
    (served[0] / "models" / NAME / "config.json").write_text("[" * 200_000)
    [problem] = precheck.check(NAME).problems
    assert problem.code == "broken_config"
    assert len(problem.message) < 200


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def padded(file: Path) -> None:
    with file.open("r+b") as weights:
        weights.truncate(101 * 2**20)  # more than the room that other things may take


@pytest.mark.parametrize("spoil", [cut, padded])
@pytest.mark.parametrize("counted", [True, False], ids=["counted by the Hub", "by the head alone"])
def test_weights_that_were_cut_short_or_padded_are_refused(
    write: Write, served: tuple[Path, str], spoil: Callable[[Path], None], counted: bool
) -> None:
    write(".hub.yaml", {} if counted else {"safetensors": None})
    spoil(served[0] / "models" / NAME / hub.WEIGHTS)
    [problem] = precheck.check(NAME).problems
    assert problem.code == "wrong_size"
    assert "151,168 bytes" in problem.message


def test_shards_that_hold_less_than_their_index_says_are_refused(
    write: Write, served: tuple[Path, str]
) -> None:
    write("config.json", {})
    folder = served[0] / "models" / NAME
    shutil.rmtree(folder)
    awkward.sharded(served[0] / "fine", folder)
    (folder / ".hub.yaml").write_text('{"info": {"safetensors": null}}')
    caches["local"].clear()
    assert precheck.check(NAME).ok
    cut(next(folder.glob("model-00001*.safetensors")))
    caches["local"].clear()
    [problem] = precheck.check(NAME).problems
    assert problem.code == "wrong_size"
