"""Where a model's weights come from, as a real Hub process tells it of cards, tags and files."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches

from leaderboard.hub.origin import Origin
from leaderboard.models import HubModel, User, Variant
from leaderboard.submissions import precheck
from leaderboard.submissions.submit import submit
from tests import awkward
from tests.hub import serve

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]


def card(**fields: object) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "README.md").write_text(f"---\n{json.dumps(fields)}\n---\nA model.\n")

    return write


def config(**changes: object) -> Callable[[Path], None]:
    return lambda folder: awkward.change_config(folder, **changes)


def template_file(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def template_among_several(folder: Path) -> None:
    file = folder / "tokenizer_config.json"
    named = [{"name": "tools", "template": "x"}, {"name": "default", "template": TEMPLATE}]
    file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": named}))


MODELS: dict[str, Callable[[Path], None]] = {
    "bare": card(),
    "pretrained": card(tags=["pretrained"]),
    "tuned": card(base_model="lab/bare"),
    "merge": card(base_model=["lab/bare", "lab/tuned"]),
    "merge-by-tag": card(tags=["mergekit"]),
    "related-merge": card(base_model="lab/bare", base_model_relation="merge"),
    "chat": template_file,
    "chat-by-tokenizer": template_among_several,
    "experts": config(num_local_experts=8),
    "one-expert": config(num_local_experts=1),
    "experts-by-tag": card(tags=["moe"]),
    "odd-card": card(base_model={"a": 1}, tags="merge, moe", license=["mit", "x"]),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("lab")
    fine = root / "fine"
    awkward.write_tiny_llama(fine)
    for name, change in MODELS.items():
        change(Path(shutil.copytree(fine, root / "models" / "lab" / name)))
    awkward.sharded(fine, root / "models" / "lab" / "sharded")
    with serve([root]) as url:
        yield url


@pytest.fixture(autouse=True)
def of_lab(lab: str, settings: Any) -> None:
    settings.HF_ENDPOINT = lab
    caches["local"].clear()


def origin(name: str) -> Origin:
    checked = precheck.check(f"lab/{name}", thorough=True)
    assert checked.facts is not None
    return checked.facts.origin


@pytest.mark.parametrize(
    ("name", "kind", "base"),
    [
        ("bare", "", ""),
        ("pretrained", "pretrained", ""),
        ("tuned", "fine-tuned", "lab/bare"),
        ("merge", "merge", "lab/bare"),
        ("merge-by-tag", "merge", ""),
        ("related-merge", "merge", "lab/bare"),
        ("chat", "chat", ""),
        ("chat-by-tokenizer", "chat", ""),
    ],
)
def test_the_kind_is_what_card_and_tags_say(name: str, kind: str, base: str) -> None:
    assert origin(name).kind == kind
    assert origin(name).base_model == base
    assert origin(name).merged == (kind == "merge")


def test_a_mixture_has_more_than_one_expert() -> None:
    names = ("experts", "experts-by-tag", "one-expert", "bare")
    assert [origin(name).moe for name in names] == [True, True, False, False]


def test_the_same_weights_have_the_same_digest_whatever_the_name() -> None:
    assert len(origin("bare").weights_digest) == 64
    assert origin("bare").weights_digest == origin("tuned").weights_digest
    assert origin("sharded").weights_digest not in ("", origin("bare").weights_digest)


def test_the_template_is_known_by_its_text_wherever_it_stands() -> None:
    digest = hashlib.sha256(TEMPLATE.encode()).hexdigest()
    names = ("chat", "chat-by-tokenizer", "bare")
    assert [origin(name).chat_template_digest for name in names] == [digest, digest, ""]


def test_a_live_check_does_not_ask_for_the_template() -> None:
    facts = precheck.check("lab/chat").facts
    assert facts is not None
    assert facts.origin.chat_template_digest is None
    assert facts.origin.kind == "chat"


def test_a_card_of_nonsense_states_nothing_and_stops_nobody() -> None:
    assert origin("odd-card").base_model == ""


def test_a_submission_keeps_what_was_said_and_that_the_model_was_there(ada: User) -> None:
    variant = submit("lab/chat", user=ada).variant
    assert (variant.kind, variant.moe, variant.merged) == ("chat", False, False)
    assert variant.chat_template_digest == hashlib.sha256(TEMPLATE.encode()).hexdigest()
    assert variant.weights_digest == origin("bare").weights_digest
    assert HubModel.objects.get().hub_checked is not None


def test_a_second_submission_of_a_commit_is_about_the_same_row(ada: User) -> None:
    before = submit("lab/chat", user=ada)
    Variant.objects.update(chat_template_digest="", weights_digest="")
    before.state = "withdrawn"
    before.save()
    assert submit("lab/chat", user=ada).variant == before.variant
