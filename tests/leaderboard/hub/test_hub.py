"""What the Hub says of a model, as a real Hub process tells it.

Where its weights come from and what became of it; repositories whose files do not fit together, or
say anything at all: each check ends in a sentence, and no page breaks.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from django.core.cache import caches
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaderboard.hub import Problem, faults
from leaderboard.hub import repository as hub
from leaderboard.hub import state as hub_state
from leaderboard.hub.origin import Origin
from leaderboard.models import HubModel, User, Variant
from leaderboard.submissions import precheck
from leaderboard.submissions.precheck import Way
from leaderboard.submissions.submit import submit
from tests import awkward
from tests.leaderboard.conftest import TINY, Fail, OwnHub
from tests.leaderboard.factories import make_variant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
TEMPLATE_DIGEST = hashlib.sha256(TEMPLATE.encode()).hexdigest()


def card(**fields: object) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "README.md").write_text(f"---\n{json.dumps(fields)}\n---\nA model.\n")

    return write


def config(**changes: object) -> Callable[[Path], None]:
    return lambda folder: awkward.change_config(folder, **changes)


def template_among_several(folder: Path) -> None:
    file = folder / "tokenizer_config.json"
    named = [{"name": "tools", "template": "x"}, {"name": "default", "template": TEMPLATE}]
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": named}))


def template_file(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def default_among_named_files(folder: Path) -> None:
    """Which comes before chat_template.jinja."""
    (folder / "chat_template.jinja").write_text("another")
    named_files(default=TEMPLATE, tools="x")(folder)


def named_files(**templates: str) -> Callable[[Path], None]:
    """Beside one in the tokenizer's configuration, which transformers then passes over."""

    def write(folder: Path) -> None:
        file = folder / "tokenizer_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": "unread"}))
        (folder / "additional_chat_templates").mkdir()
        for name, text in templates.items():
            (folder / "additional_chat_templates" / f"{name}.jinja").write_text(text)

    return write


MODELS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "bare": (card(), "", ""),
    "pretrained": (card(tags=["pretrained"]), "pretrained", ""),
    "tuned": (card(base_model="lab/bare"), "fine-tuned", "lab/bare"),
    "merge": (card(base_model=["lab/bare", "lab/tuned"]), "merge", "lab/bare"),
    "merge-by-tag": (card(tags=["mergekit"]), "merge", ""),
    "related": (card(base_model="lab/bare", base_model_relation="merge"), "merge", "lab/bare"),
    "chat": (template_file, "chat", ""),
    "chat-by-tokenizer": (template_among_several, "chat", ""),
    "chat-by-named-file": (named_files(default=TEMPLATE), "chat", ""),
    "chat-by-default-among-files": (default_among_named_files, "chat", ""),
    "experts": (config(num_local_experts=8), "", ""),
    "one-expert": (config(num_local_experts=1), "", ""),
    "experts-in-a-part": (
        config(ffn_config={"moe_num_experts": 16, "moe_top_k": 4}),
        "",
        "",
    ),
    "experts-by-layer": (config(text_config={"moe_num_experts": [64, 64]}), "", ""),
    "experts-that-see": (config(vision_config={"num_experts": 8}, num_experts=0), "", ""),
    "experts-by-tag": (card(tags=["moe"]), "", ""),
    "odd-card": (card(base_model={"a": 1}, tags="merge, moe", license=["mit", "x"]), "", ""),
}
"""By name how a model differs from the fine one, its kind and its base model."""


@pytest.fixture(scope="module")
def models(hub_of_own_models: OwnHub) -> None:
    for name, (change, _, _) in MODELS.items():
        hub_of_own_models.write(f"lab/{name}", change)
    awkward.sharded(hub_of_own_models.fine, hub_of_own_models.models / "lab" / "sharded")


@pytest.fixture
def lab(models: None, own_hub: OwnHub) -> None:
    """The site asks a Hub that has these models."""


def origin(name: str) -> Origin:
    checked = precheck.check(f"lab/{name}", thorough=True)
    return checked.facts.origin


@pytest.mark.parametrize("name", MODELS)
def test_the_kind_is_what_card_and_tags_say(lab: None, name: str) -> None:
    _, kind, base = MODELS[name]
    found = origin(name)
    assert (found.kind, found.base_model) == (kind, base)
    assert found.merged == (kind == "merge")
    mixtures = ("experts", "experts-by-tag", "experts-in-a-part", "experts-by-layer")
    assert found.moe == (name in mixtures), "more than one expert"
    template = TEMPLATE_DIGEST if kind == "chat" else ""
    assert found.chat_template_digest == template, "by its text, wherever it stands"


@pytest.mark.parametrize(
    ("stated", "active"),
    [
        ({"num_local_experts": 8, "num_experts_per_tok": 2}, 1_000 + 200 + 2 * 100),
        ({"ffn_config": {"moe_num_experts": 8, "moe_top_k": 1}}, 1_000 + 200 + 100),
        ({"num_local_experts": 8}, None),
        ({"num_local_experts": [8, 4], "num_experts_per_tok": 2}, None),
        ({"num_experts_per_tok": 2}, None),
    ],
    ids=str,
)
def test_the_parameters_that_a_token_uses_are_told_where_files_and_configuration_do(
    own_hub: OwnHub, client: Client, ada: User, stated: dict[str, Any], active: int | None
) -> None:
    def mix(folder: Path) -> None:
        awkward.change_config(folder, vocab_size=100, hidden_size=10, **stated)
        experts = {
            f"model.layers.0.block_sparse_moe.experts.{n}.w1.weight": [10, 10] for n in range(8)
        }
        shared = {"model.layers.0.mlp.shared_experts.up_proj.weight": [20, 10]}
        shapes = {"model.embed_tokens.weight": [100, 10], **experts, **shared}
        size = awkward.write_safetensors_header(folder / hub.WEIGHTS, shapes)
        (folder / ".hub.yaml").write_text(json.dumps({"sizes": {hub.WEIGHTS: size}}))

    own_hub.write("lab/mixture", mix)
    found = precheck.check("lab/mixture").facts
    assert found.parameters == 1_000 + 8 * 100 + 200
    assert found.origin.active_parameters == active
    variant = submit("lab/mixture", user=ada).variant
    assert variant.active_parameters == active
    for page in ("/submit?model=lab/mixture", "/models/lab/mixture"):
        assert ("used for a token" in client.get(page).content.decode()) == (active is not None)


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"license": ["mit", "apache-2.0"]}, "apache-2.0, mit"),
        ({"license": "Apache-2.0"}, "apache-2.0"),
        ({"license": "other", "license_name": "Deepseek"}, "deepseek"),
        ({"license": ["mit", "other"], "license_name": "a, b"}, "a  b, mit"),
        ({"license": "other", "license_name": ["x"]}, "other"),
        ({"license": [None, 3, ""]}, ""),
    ],
    ids=str,
)
def test_a_licence_is_told_in_one_way_however_the_card_writes_it(
    own_hub: OwnHub, stated: dict[str, Any], told: str
) -> None:
    own_hub.write("lab/licensed", card(**stated))
    assert precheck.check("lab/licensed").facts.licence == told


def named_in_a_list(folder: Path) -> None:
    file = folder / "tokenizer_config.json"
    named = [{"name": name, "template": TEMPLATE} for name in ("rag", "tools")]
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": named}))


@pytest.mark.parametrize("change", [named_files(tools="x", rag="y"), named_in_a_list])
def test_of_several_chat_templates_without_a_default_one_none_is_asked_in(
    own_hub: OwnHub, change: Callable[[Path], None]
) -> None:
    own_hub.write("lab/named", change)
    [problem] = precheck.check("lab/named", way=Way(chat=True)).problems
    assert (problem.field, problem.code) == ("asked", "no_default_template")
    assert "with names (rag, tools)" in problem.message
    assert precheck.check("lab/named", thorough=True).ok


def test_the_same_weights_have_the_same_digest_whatever_the_name(lab: None) -> None:
    assert len(origin("bare").weights_digest) == 64
    assert origin("bare").weights_digest == origin("tuned").weights_digest
    assert origin("sharded").weights_digest not in ("", origin("bare").weights_digest)


def test_a_submission_keeps_the_origin_once_for_a_commit(lab: None, ada: User) -> None:
    first = submit("lab/chat", user=ada)
    variant = first.variant
    assert (variant.kind, variant.moe, variant.merged) == ("chat", False, False)
    assert variant.chat_template_digest == TEMPLATE_DIGEST
    assert variant.weights_digest == origin("bare").weights_digest
    assert HubModel.objects.get().hub_checked is not None
    live = precheck.check("lab/chat").facts
    assert live.origin.chat_template_digest is None, "a live check does not ask for it"
    Variant.objects.update(chat_template_digest="", weights_digest="")
    first.state = "withdrawn"
    first.save()
    assert submit("lab/chat", user=ada).variant == variant


# What became of a model


def look_at(repo_id: str) -> HubModel:
    if not HubModel.objects.exists():
        make_variant(repo_id)
    hub_state.look()
    return HubModel.objects.get(repo_id=repo_id)


def long_ago() -> datetime:
    return timezone.now() - timedelta(hours=25)


@pytest.mark.parametrize(
    ("name", "state", "renamed_to"),
    [
        ("tiny-llama", "present", ""),
        ("gated", "private", ""),
        ("private", "private", ""),
        ("disabled", "private", ""),
        ("deleted-since", "gone", ""),
        ("renamed", "renamed", TINY),
    ],
)
def test_each_fate_is_noted(hub: Fail, name: str, state: str, renamed_to: str) -> None:
    """Whatever it was before."""
    make_variant(f"awkward/{name}")
    HubModel.objects.update(hub_state="gone", renamed_to="a/b", hub_checked=long_ago())
    model = look_at(f"awkward/{name}")
    assert (model.hub_state, model.renamed_to) == (state, renamed_to)
    assert model.hub_checked > long_ago()


@pytest.mark.parametrize(
    "fault", [{"status": 500}, {"status": 404}, {"garbage": True}, {"delay": 30}], ids=str
)
def test_a_silent_hub_changes_nothing(
    hub: Fail, fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_state, "SECONDS", 0.5)
    hub([{"match": "/api/models/*", **fault}])
    model = look_at(TINY)
    assert (model.hub_state, model.hub_checked) == ("present", None)
    # What does not exist and what is private look alike to a visitor of the public Hub.
    hub([{"match": "/api/models/awkward/*", "status": 401, "code": "RepoNotFound"}])
    assert look_at(TINY).hub_state == "private"


def test_a_submission_and_a_later_look_keep_the_day_of_release(hub: Fail, ada: User) -> None:
    first_of_2026 = datetime(2026, 1, 1, tzinfo=UTC)
    submit(TINY, user=ada)
    assert HubModel.objects.get().released == first_of_2026
    HubModel.objects.update(released=None, hub_checked=long_ago())
    assert look_at(TINY).released == first_of_2026


@pytest.mark.parametrize("day", ["2022-03-02T23:29:04.000Z", "2999-01-01T00:00:00.000Z"])
def test_no_release_is_told_by_the_hubs_date_of_all_older_models_or_by_a_future_one(
    write: Write, day: str
) -> None:
    write(".hub.yaml", {"createdAt": day})
    assert precheck.check(NAME).facts.released is None
    assert look_at(NAME).released is None


def test_each_model_is_asked_about_once_a_day_and_a_few_at_a_time(hub: Fail) -> None:
    make_variant(TINY)
    make_variant("awkward/sharded")
    assert hub_state.look() == 2
    assert hub_state.look() == 0
    HubModel.objects.filter(repo_id="awkward/sharded").update(hub_checked=long_ago())
    assert hub_state.look() == 1
    for number in range(hub_state.MODELS_PER_LOOK + 3):
        make_variant(f"awkward/nothing-{number}")
    assert hub_state.look() == hub_state.MODELS_PER_LOOK
    assert HubModel.objects.filter(hub_state="gone").count() == hub_state.MODELS_PER_LOOK


def test_variants_of_before_are_described_later(hub: Fail, ada: User) -> None:
    variant = submit(TINY, user=ada).variant
    digest = variant.weights_digest
    assert digest
    Variant.objects.update(weights_digest="", base_model="nobody/knows")
    HubModel.objects.update(hub_checked=long_ago())
    hub_state.look()
    variant.refresh_from_db()
    assert (variant.weights_digest, variant.base_model) == (digest, "")


# Files that do not fit together


Change = Callable[[Path], object]
Write = Callable[[str, Any], None]
NAME = "org/hostile"
LONGEST_PAGE = 60_000


@pytest.fixture
def spoil(own_hub: OwnHub) -> Iterator[Callable[[Change], precheck.Precheck]]:
    """Checks a fine model after its files were changed."""

    def check(change: Change) -> precheck.Precheck:
        own_hub.write(NAME, change)
        caches["local"].clear()
        return precheck.check(NAME)

    yield check
    shutil.rmtree(own_hub.models / NAME, ignore_errors=True)


Spoil = Callable[[Change], precheck.Precheck]


def only_problem(outcome: precheck.Precheck) -> Problem:
    assert outcome.checked
    [problem] = outcome.problems
    assert len(problem.message) < 250
    return problem


def keep_only(*names: str) -> Change:
    """Leaves these files, empty."""

    def change(folder: Path) -> None:
        shutil.rmtree(folder)
        folder.mkdir()
        for name in names:
            (folder / name).write_bytes(b"{}")

    return change


def in_shards(change: Change) -> Change:
    """Changes the model after it was stored in two files of weights."""

    def store(folder: Path) -> None:
        fine = folder.rename(folder.with_name("whole"))
        awkward.sharded(fine, folder)
        shutil.rmtree(fine)
        change(folder)

    return store


def writes(name: str, text: str) -> Change:
    return lambda folder: (folder / name).write_text(text)


def in_bytes(encoding: str) -> Change:
    def change(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(file.read_text(), encoding=encoding)

    return change


def lose_a_shard(folder: Path) -> None:
    min(folder.glob("*.safetensors")).unlink()


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (writes(hub.WEIGHTS, ""), "empty_weights", f"The model.safetensors of {NAME} is empty"),
        (in_shards(lose_a_shard), "missing_shard", "model-00001-of-00002.safetensors"),
        (keep_only("README.md"), "no_safetensors", "has neither model.safetensors nor"),
        (keep_only("adapter_config.json", "adapter_model.safetensors"), "unknown_size", ""),
        (keep_only("tiny.gguf"), "gguf_only", "tiny.gguf"),
        (config(vocab_size=10**7), "vocabulary_too_large", "10000000 tokens"),
        (writes("config.json", "[" * 200_000), "broken_config", ""),
        (config(architectures=[]), "no_architecture", "does not say which architecture"),
        (
            config(vocab_size=303),
            "other_table",
            "has 300 rows, and its config.json says vocab_size",
        ),
        (writes("tokenizer.json", ""), "file_size", "tokenizer.json of org/hostile is empty"),
        (
            writes(".hub.yaml", "sizes: {tokenizer.json: 300000000}"),
            "file_size",
            "has 300,000,000 bytes, of which 268,435,456 are the most",
        ),
        (config(model_type="hexaflow"), "unknown_model_type", "says model_type: hexaflow, and"),
        (config(model_type="clip"), "unknown_model_type", "(LlamaForCausalLM) is named"),
        (config(model_type=None), "unknown_model_type", "does not say which model_type"),
        (config(dtype="bf16"), "unknown_stored_dtype", "says dtype: “bf16”, which PyTorch"),
        (config(torch_dtype="auto"), "unknown_stored_dtype", "says torch_dtype: “auto”"),
        (config(dtype="torch.bfloat16"), "unknown_stored_dtype", "“torch.bfloat16”"),
        (config(text_config={"dtype": "fp16"}), "unknown_stored_dtype", "“fp16”"),
        (in_bytes("utf-8-sig"), "broken_config", "Unexpected UTF-8 BOM"),
        (in_bytes("utf-16"), "broken_config", "it is not text in UTF-8"),
        (writes("adapter_config.json", "{}"), "model_and_adapter", "a whole model and an adapter"),
        (
            config(num_hidden_layers=4097),
            "impossible_size",
            "num_hidden_layers: 4,097; a model has from 0 to 4,096 layers",
        ),
        (config(vocab_size=-1), "impossible_size", "vocab_size: -1;"),
        (
            config(max_position_embeddings=1e300),
            "impossible_size",
            "max_position_embeddings: more than 1,000,000,000,000,000;",
        ),
        (
            config(text_config={"num_attention_heads": 10**9}),
            "impossible_size",
            "num_attention_heads: 1,000,000,000;",
        ),
    ],
)
def test_a_repository_that_cannot_be_evaluated_has_one_sentence(
    spoil: Spoil, change: Change, code: str, words: str
) -> None:
    problem = only_problem(spoil(change))
    assert problem.code == code
    assert words in problem.message


@pytest.mark.parametrize(
    "told",
    [
        {"total": 200, "parameters": {"F32": 37_792}},
        {"total": 37_792, "parameters": {"F32": 200}},
        {"total": 200, "parameters": {"F32": 200}},
        {"total": 10**12, "parameters": {}},
    ],
    ids=str,
)
@pytest.mark.parametrize("sharded", [False, True])
def test_the_weights_own_heads_say_how_many_parameters_whatever_the_hub_counts(
    spoil: Spoil, told: dict[str, Any], sharded: bool
) -> None:
    def miscount(folder: Path) -> None:
        (folder / ".hub.yaml").write_text(json.dumps({"info": {"safetensors": told}}))

    found = spoil(in_shards(miscount) if sharded else miscount)
    assert found.ok
    assert found.facts.parameters == 37_792
    [note] = [warning for warning in found.warnings if warning.code == "other_count"]
    assert f"The Hub says that {NAME} has" in note.message
    assert "hold 37,792" in note.message


def test_of_very_many_files_the_hubs_count_is_taken_where_they_can_hold_it(
    spoil: Spoil, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_head = hub.weights_in_head
    monkeypatch.setattr(hub, "MAX_HEADS", 1)
    monkeypatch.setattr(hub, "weights_in_head", None)
    assert spoil(in_shards(lambda _: None)).facts.parameters == 37_792

    def miscount(folder: Path) -> None:
        monkeypatch.setattr(hub, "weights_in_head", in_head)
        told = {"total": 35_000, "parameters": {"F32": 35_000}}
        (folder / ".hub.yaml").write_text(json.dumps({"info": {"safetensors": told}}))

    found = spoil(in_shards(miscount))
    assert found.facts.parameters == 37_792
    assert "other_count" in {warning.code for warning in found.warnings}


@pytest.mark.parametrize("total", ["NaN", "-1", '"many"', "1" + "0" * 400, "10"])
def test_an_index_with_an_odd_total_size_says_nothing_against_files_that_are_whole(
    spoil: Spoil, total: str
) -> None:
    """Nor where it was written before the weights were packed."""

    def change(folder: Path) -> None:
        (folder / ".hub.yaml").write_text("info: {safetensors: null}\n")  # it does not count
        index = folder / "model.safetensors.index.json"
        sized = re.sub(r'"total_size": [^,}\s]+', f'"total_size": {total}', index.read_text())
        assert total in sized
        index.write_text(sized)

    found = spoil(in_shards(change))
    assert found.ok
    assert found.facts.parameters == 37_792


def test_packed_weights_are_whole_whatever_the_hub_counts_of_them(spoil: Spoil) -> None:
    def pack(folder: Path) -> None:
        awkward.change_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
        told = {"total": 10**9, "parameters": {"F16": 10**9}}
        (folder / ".hub.yaml").write_text(json.dumps({"info": {"safetensors": told}}))
        for index in folder.glob("*.index.json"):  # written before they were packed
            weight_map = json.loads(index.read_text())["weight_map"]
            index.write_text(
                json.dumps({"metadata": {"total_size": 10**9}, "weight_map": weight_map})
            )

    assert spoil(pack).ok
    assert spoil(in_shards(pack)).ok


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def pad(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")


@pytest.mark.parametrize("damage", [cut, pad])
@pytest.mark.parametrize("info", ["{}", "{safetensors: null}"], ids=["counted", "by the head"])
def test_weights_that_were_cut_short_or_padded_are_refused(
    spoil: Spoil, damage: Callable[[Path], None], info: str
) -> None:
    def change(folder: Path) -> None:
        (folder / ".hub.yaml").write_text(f"info: {info}\n")
        damage(folder / hub.WEIGHTS)

    problem = only_problem(spoil(change))
    assert problem.code == "wrong_size"
    assert "model.safetensors of org/hostile has" in problem.message
    assert f"{'less' if damage is cut else 'more'} than the 153," in problem.message

    def cut_a_shard(folder: Path) -> None:
        (folder / ".hub.yaml").write_text(f"info: {info}\n")
        cut(min(folder.glob("model-00001*.safetensors")))

    assert only_problem(spoil(in_shards(cut_a_shard))).code == "wrong_size"


def test_the_precisions_that_pytorch_knows_are_those_that_it_has() -> None:
    assert {name for name in faults.TORCH_DTYPES if not hasattr(torch, name)} == set()


def test_code_of_a_repository_is_not_needed_for_a_native_architecture() -> None:
    native = {
        "model_type": "phi3",
        "architectures": ["Phi3ForCausalLM"],
        "auto_map": {"AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"},
    }
    assert faults.architecture_fault(native, "org/phi") is None
    problem = faults.architecture_fault({"architectures": ["BertForMaskedLM"]}, "org/bert")
    assert problem.code == "not_generative"


# Files that say anything at all

TEXTS = st.sampled_from(
    ["", "llama", "llama\ud800", "a\0b", "\udfff" * 3, "x" * 70_000, "<script>", "{{ 1 }}", "a/b"]
) | st.text(st.characters(exclude_categories=()), max_size=8)
NUMBERS = st.sampled_from([0, 1, -1, 300, 2**31, 2**63, -(2**63) - 1, 10**30, 10**4000]) | (
    st.floats() | st.sampled_from([math.nan, math.inf, 1e300])
)
KEYS = {
    "config.json": (
        "model_type", "architectures", "dtype", "torch_dtype", "vocab_size", "hidden_size",
        "quantization_config", "auto_map", "is_encoder_decoder", "num_local_experts", "text_config",
    ),
    "tokenizer_config.json": ("chat_template",),
    hub.WEIGHTS: ("w", "b", "__metadata__"),
    ".hub.yaml": ("tags", "cardData", "config", "safetensors", "siblings", "sha", "id",
        "createdAt",
    ),
}  # fmt: skip
INNER_KEYS = (
    "name", "template", "dtype", "shape", "data_offsets", "license", "base_model",
    "base_model_relation", "tags", "library_name", "model-index", "rfilename", "size", "lfs",
    "blobId", "total", "parameters", "tokenizer_config", "chat_template",
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(INNER_KEYS), inside, max_size=3)
        | st.dictionaries(TEXTS.filter(lambda key: len(key) < 100), inside, max_size=2)
    ),
    max_leaves=6,
)
hostile = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def write(own_hub: OwnHub, settings: Any) -> Iterator[Write]:
    """Serves the fine model, with one of its files replaced by, or changed to, a value."""
    settings.PLUMBLINE_OPEN_SUBMIT = True
    settings.PLUMBLINE_OPEN_QUOTA = 10_000

    def change(name: str, value: Any) -> None:
        folder = own_hub.write(NAME)
        caches["local"].clear()
        if name == hub.WEIGHTS:
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
    shutil.rmtree(own_hub.models / NAME, ignore_errors=True)


def check_everywhere(client: Client) -> precheck.Precheck:
    """By the check, the page and a submission: each says something, and nothing is stored of it
    that a database or a file could not hold."""
    found = precheck.check(NAME, thorough=True)
    page = client.get(f"/submit?model={NAME}")
    assert page.status_code == 200
    assert len(page.content) < LONGEST_PAGE
    assert "0" * 50 not in page.content.decode(), "numbers of many digits are not read out"
    assert client.post("/submit", {"model": NAME}).status_code in (302, 409, 422)
    for problem in (*found.problems, *found.warnings):
        assert len(str(problem)) < 1500
    for variant in Variant.objects.all():
        for text in (variant.model_type, variant.architecture, variant.licence, variant.base_model):
            assert b"\0" not in text.encode()
    return found


@pytest.mark.parametrize("file", KEYS)
@hostile
@given(data=st.data())
def test_any_content_of_a_file_is_answered(
    client: Client, write: Write, file: str, data: st.DataObject
) -> None:
    """Values that nobody expects, alone or under the keys that are read."""
    fields = st.dictionaries(st.sampled_from(KEYS[file]), VALUES, min_size=1, max_size=3)
    write(file, data.draw(fields if file == ".hub.yaml" else fields | VALUES))
    found = check_everywhere(client)
    if file != ".hub.yaml":
        assert found.checked
        return
    assert found.checked or found.hub_trouble is not None
    if found.hub_trouble is not None:
        assert "500" not in found.hub_trouble.message
    HubModel.objects.get_or_create(repo_id=NAME)
    hub_state.look()
    assert "\0" not in HubModel.objects.get(repo_id=NAME).renamed_to


@pytest.mark.parametrize(
    ("file", "value", "code"),
    [
        ("config.json", {"model_type": "llama\ud800"}, "unknown_model_type"),
        ("config.json", {"architectures": ["Llama\ud800ForCausalLM"]}, "unknown_architecture"),
        ("config.json", {"architectures": ["X" * 70_000]}, "not_generative"),
        ("config.json", {"vocab_size": 10**4000}, "impossible_size"),
        ("tokenizer_config.json", {"chat_template": [{"name": [], "template": "x"}]}, ""),
        ("model.safetensors", [], "unknown_size"),
        ("model.safetensors", {"w": "x"}, "unknown_size"),
        (".hub.yaml", {"safetensors": {"total": 10**30, "parameters": {}}}, ""),
        (".hub.yaml", {"cardData": {"license": "a\0b"}, "tags": ["base_model:a\0"]}, ""),
        (".hub.yaml", {"cardData": {"license": None, "tags": 0.5}}, ""),
    ],
    ids=range(10),
)
def test_content_that_once_broke_a_check_is_answered(
    client: Client, write: Write, file: str, value: Any, code: str
) -> None:
    write(file, value)
    found = check_everywhere(client)
    assert [problem.code for problem in found.problems] == ([code] if code else [])
    assert found.checked
