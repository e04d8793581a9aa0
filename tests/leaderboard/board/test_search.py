"""Search: what a query finds, and what it says of one that cannot be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaderboard.board.search import FIELDS, MOST_PARTS, Catalogue, Query, SearchError, parse
from leaderboard.snapshot import Flags, Model, Models
from tests.leaderboard.boards import synthetic_board

MODELS = synthetic_board(200, 2).models
ONE = MODELS[0]


def matches(query: Query, models: Sequence[Model]) -> Flags:
    """Which models any term finds, shape (models,)."""
    return query.found(Catalogue(Models.of(models)))[0]


def model(repo_id: str, **fields: object) -> Model:
    return replace(ONE, repo_id=repo_id, **fields)  # type: ignore[arg-type]


HERON = model(
    "workshop/Heron-7b-chat",
    commit="abc123" + 34 * "0",
    dtype="bfloat16",
    quantisation="",
    architecture="LlamaForCausalLM",
    model_type="llama",
    parameters=7_241_732_096,
    licence="apache-2.0",
    kind="chat",
    base_model="workshop/heron-7b",
)
GULL = model(
    "harbour/gull-70m",
    commit="def456" + 34 * "0",
    dtype="float16",
    quantisation="",
    architecture="GPTNeoXForCausalLM",
    model_type="gpt_neox",
    parameters=70_426_624,
    licence="",
    kind="",
    base_model="",
)
BARE = model(
    "gpt2",
    commit=40 * "9",
    dtype="float32",
    quantisation="4bit",
    architecture="GPT2LMHeadModel",
    model_type="gpt2",
    parameters=124_000_000,
    licence="mit",
    kind="pretrained",
    base_model="",
)
THREE = [HERON, GULL, BARE]


def found(query: str) -> list[str]:
    hits = matches(parse(query), THREE)
    return [one.repo_id for one, hit in zip(THREE, hits, strict=True) if hit]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["workshop/Heron-7b-chat", "harbour/gull-70m", "gpt2"]),
        (" ; ;", ["workshop/Heron-7b-chat", "harbour/gull-70m", "gpt2"]),
        ("heron", ["workshop/Heron-7b-chat"]),
        ("shop/her", ["workshop/Heron-7b-chat"]),
        ("HERON chat", ["workshop/Heron-7b-chat"]),
        ("heron gull", []),
        ("heron; gull", ["workshop/Heron-7b-chat", "harbour/gull-70m"]),
        ("@author:harbour", ["harbour/gull-70m"]),
        ("@org:work", ["workshop/Heron-7b-chat"]),
        ("@model:gpt", ["gpt2"]),
        ("@author:gpt", []),
        ("@arch:llama", ["workshop/Heron-7b-chat"]),
        ("@architecture:neoxforcausal", ["harbour/gull-70m"]),
        ("@type:chat", ["workshop/Heron-7b-chat"]),
        ("@type:not-stated", ["harbour/gull-70m"]),
        ("@license:APACHE", ["workshop/Heron-7b-chat"]),
        ("@licence:not-stated @model:gull", ["harbour/gull-70m"]),
        ("@precision:float16", ["harbour/gull-70m"]),
        ("@dtype:4bit", ["gpt2"]),
        ("@precision:float32", []),
        ("@base:heron", ["workshop/Heron-7b-chat"]),
        ("@commit:ABC", ["workshop/Heron-7b-chat"]),
        ("@commit:123", []),
        (r"/heron-\d+b/", ["workshop/Heron-7b-chat"]),
        ("/^(gpt|harbour/)/", ["harbour/gull-70m", "gpt2"]),
        (r"/shop\/heron/", ["workshop/Heron-7b-chat"]),
        ("/gull|x;y/; gpt", ["harbour/gull-70m", "gpt2"]),
        ("@author:/^w.*p$/", ["workshop/Heron-7b-chat"]),
        ("@author:harbour /70m$/; heron @size:>7B", ["workshop/Heron-7b-chat", "harbour/gull-70m"]),
    ],
)
def test_a_query_finds(query: str, names: list[str]) -> None:
    assert found(query) == names


@pytest.mark.parametrize(
    ("size", "heron", "gull"),
    [
        ("7B", True, False),
        ("7.2b", True, False),
        ("7.1B", False, False),
        ("70M", False, True),
        ("<7B", False, True),
        (">7B", True, False),
        ("<=70.426624M", False, True),
        ("<70.426624M", False, False),
        (">=70426.624K", True, True),
        ("1B-8B", True, False),
        ("1-8B", True, False),
        ("70M–7.25B", True, True),
    ],
)
def test_sizes_are_compared_in_parameters(size: str, heron: bool, gull: bool) -> None:
    assert matches(parse(f"@size:{size}"), [HERON, GULL]).tolist() == [heron, gull]


@pytest.mark.parametrize(
    ("query", "part", "says"),
    [
        ("llama @authr:x", "@authr:x", "Did you mean @author?"),
        ("@nonsense:x", "@nonsense:x", "There are @author"),
        ("@author", "@author", "has no value"),
        ("@author: google", "@author:", "has no value"),
        ("@author://", "@author://", "has no value"),
        ("gull; /(a/", "/(a/", "missing ): (a"),
        ("/(?=x)/", "/(?=x)/", "invalid perl operator: (?="),
        ("/heron", "/heron", "Put a / behind it"),
        ("/(.?){900}/", "/(.?){900}/", "too large"),
        ("@size:7", "@size:7", "@size:<7B"),
        ("@size:big", "@size:big", "@size:<7B"),
        ("@size:7B-1B", "@size:7B-1B", "smaller size first"),
        ("@size:/7/", "@size:/7/", "@size:<7B"),
        ("a " * (MOST_PARTS + 1), ("a " * (MOST_PARTS + 1)).strip(), f"at most {MOST_PARTS}"),
        ("x" * 301, "x" * 20 + "…", "at most 300"),
    ],
)
def test_what_cannot_be_read_is_named_with_a_remedy(query: str, part: str, says: str) -> None:
    with pytest.raises(SearchError) as caught:
        parse(query)
    assert caught.value.part == part
    assert says in str(caught.value)
    assert caught.value.remedy.endswith((".", "?"))


def test_hits_are_counted_for_each_term() -> None:
    query = parse("heron ;gull; /g/ ; nobody")
    hits = query.found(Catalogue(Models.of(THREE)))[1]
    assert hits == [("heron", 1), ("gull", 1), ("/g/", 2), ("nobody", 0)]


def test_every_field_can_be_asked() -> None:
    for field in FIELDS:
        value = "<1B" if field == "size" else "a"
        assert len(matches(parse(f"@{field}:{value}"), MODELS)) == len(MODELS)


_PIECES = st.sampled_from(
    [*";@/:\\()*+?[]{}^$|<>-., é\ud800", "a", "7B", "llama", "@author:", "@size:", "@type:/"]
)


@settings(deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(_PIECES, max_size=25).map("".join)))
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    try:
        found_models = matches(parse(text), MODELS[:10])
    except SearchError:
        return
    assert found_models.shape == (10,)


_WORDS = st.sampled_from(
    [
        "llama",
        "lab-1",
        "7",
        "@type:chat",
        "@size:<7B",
        "@arch:phi",
        r"/-0\d*1/",
        "@author:/[02468]$/",
    ]
)
_TERMS = st.lists(_WORDS, min_size=1, max_size=3).map(" ".join)


@settings(deadline=None)
@given(st.lists(_TERMS, min_size=1, max_size=4))
def test_a_semicolon_is_or_and_a_space_is_and(terms: list[str]) -> None:
    union = matches(parse("; ".join(terms)), MODELS)
    alone = [matches(parse(term), MODELS) for term in terms]
    assert (union == reduce(np.logical_or, alone)).all()
    for term, whole in zip(terms, alone, strict=True):
        parts = [matches(parse(word), MODELS) for word in term.split()]
        assert (whole == reduce(np.logical_and, parts)).all()


_SIMPLE = st.lists(
    st.sampled_from(["lab", "-", "[0-9]", r"\d+", ".*", "a?", "(llama|phi)", "^", "$", "b", "0+"]),
    min_size=1,
    max_size=6,
).map("".join)


@settings(deadline=None)
@given(_SIMPLE)
def test_regular_expressions_find_what_pythons_find(pattern: str) -> None:
    expected = [bool(re.search(pattern, one.repo_id, re.IGNORECASE)) for one in MODELS]
    assert matches(parse(f"/{pattern}/"), MODELS).tolist() == expected


@pytest.mark.parametrize("evil", ["(a+)+$", "^(a|a)*$", "(a*)*b", "(.*a){20}$"])
def test_no_regular_expression_takes_more_than_linear_time(evil: str) -> None:
    # A backtracking engine would need longer than the universe has: 2 to the power of 20,000.
    trap = model("a" * 20_000 + "!")
    assert not matches(parse(f"/{evil}/"), [trap]).any(), "and this comes to an end"
