"""Sizes that no model has are refused before any worker builds such a model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches

from leaderboard.hub import files
from leaderboard.submissions import precheck
from tests import awkward
from tests.hub import serve

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("suite")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    root = tmp_path_factory.mktemp("hub")
    awkward.write_tiny_llama(root / "fine")
    (root / "models" / "org").mkdir(parents=True)
    with serve([root]) as url:
        yield root, url


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"num_hidden_layers": 2_000_000}, "num_hidden_layers: 2,000,000; a model has from 0 to"),
        ({"hidden_size": 10**4000}, "hidden_size: more than 1,000,000,000,000,000;"),
        ({"vocab_size": -1}, "vocab_size: -1;"),
        ({"max_position_embeddings": 1e300}, "max_position_embeddings: more than"),
        ({"text_config": {"num_attention_heads": 10**9}}, "num_attention_heads: 1,000,000,000;"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_size_that_no_model_has_is_refused_with_its_value(
    served: tuple[Path, str], settings: Any, sizes: dict[str, Any], says: str
) -> None:
    root, settings.HF_ENDPOINT = served
    folder = root / "models" / "org" / "huge"
    shutil.copytree(root / "fine", folder)
    try:
        config = json.loads((folder / "config.json").read_text())
        text = json.dumps({**config, **{k: v for k, v in sizes.items() if v != 10**4000}})
        if 10**4000 in sizes.values():  # json refuses to write out so many digits, as it should
            text = text.replace('"hidden_size": ', '"hidden_size": 1' + "0" * 4000 + ', "was": ')
        (folder / "config.json").write_text(text)
        caches["local"].clear()
        problem = precheck.check("org/huge").problems[-1]
    finally:
        shutil.rmtree(folder)
    assert problem.code == "impossible_size"
    assert says in problem.message
    assert len(problem.message) < 200


def test_the_largest_published_models_are_far_within_the_bounds() -> None:
    largest = {
        "num_hidden_layers": 1_000,  # DeepNet
        "hidden_size": 20_480,  # MT-NLG
        "intermediate_size": 212_992,  # GShard
        "num_attention_heads": 128,
        "num_experts": 2_048,  # Switch-C
        "vocab_size": 1_000_000,  # XLM-V
        "max_position_embeddings": 100_000_000,  # LTM-2
    }
    for what, most, keys in files.LIMITS:
        for key in keys & largest.keys():
            assert largest[key] * 4 <= most, (what, key)
