"""What the board shows: searches, filters, order, pages, columns and pins, on boards in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest
from django.test import RequestFactory
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.stats import Interval, mean_interval
from leaderboard.board import filters
from leaderboard.board.filters import Facets, facets_of
from leaderboard.board.query import BoardQuery
from leaderboard.board.search import MOST_PARTS, Catalogue, Query, SearchError, parse
from leaderboard.board.view import DEFAULT_COLUMNS, PAGE, View, view_of
from leaderboard.snapshot import Board, Flags, Model, Models
from tests.leaderboard.boards import synthetic_board

MODELS = synthetic_board(200, 2).models
ONE = MODELS[0]


def matches(query: Query, models: Sequence[Model]) -> Flags:
    """Which models any term finds, shape (models,)."""
    return query.found(Catalogue(Models.of(models)))[0]


def model(repo_id: str, **fields: object) -> Model:
    """A model of which nothing is stated but this."""
    bare: dict[str, Any] = {"quantisation": "", "licence": "", "kind": "", "base_model": ""}
    return replace(ONE, repo_id=repo_id, **{**bare, **fields})


HERON = model(
    "workshop/Heron-7b-chat",
    commit="abc123" + 34 * "0",
    dtype="bfloat16",
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
    architecture="GPTNeoXForCausalLM",
    model_type="gpt_neox",
    parameters=70_426_624,
)
BARE = replace(GULL, repo_id="gpt2", dtype="float32", quantisation="4bit", licence="mit")
BY_NAME = {"heron": HERON, "gull": GULL, "gpt2": BARE}
SEARCHES = {
    # Words are looked for in names, whatever their case.
    " ; ;": ["heron", "gull", "gpt2"],
    "shop/her": ["heron"],
    "HERON chat": ["heron"],
    "heron gull": [],
    "heron; gull": ["heron", "gull"],
    # A field is looked into alone, from its beginning or anywhere.
    "@author:harbour": ["gull"],
    "@org:work": ["heron"],
    "@model:gpt": ["gpt2"],
    "@author:gpt": [],
    "@architecture:neoxforcausal": ["gull", "gpt2"],
    "@type:chat": ["heron"],
    "@type:not-stated": ["gull", "gpt2"],
    "@license:APACHE": ["heron"],
    "@licence:not-stated @model:gull": ["gull"],
    "@precision:float16": ["gull"],
    "@dtype:4bit": ["gpt2"],
    "@precision:float32": [],
    "@base:heron": ["heron"],
    "@commit:ABC": ["heron"],
    "@commit:123": [],
    # Between slashes stands a regular expression.
    "/^(gpt|harbour/)/": ["gull", "gpt2"],
    r"/shop\/heron/": ["heron"],
    "/gull|x;y/; gpt": ["gull", "gpt2"],
    "@author:/^w.*p$/": ["heron"],
    "@author:harbour /70m$/; heron @size:>7B": ["heron", "gull"],
    # Sizes are compared in parameters.
    "@size:7.2b": ["heron"],
    "@size:7.1B": [],
    "@size:70M": ["gull", "gpt2"],
    "@size:<7B": ["gull", "gpt2"],
    "@size:>7B": ["heron"],
    "@size:<=70.426624M": ["gull", "gpt2"],
    "@size:<70.426624M": [],
    "@size:>=70426.624K": ["heron", "gull", "gpt2"],
    "@size:1-8B": ["heron"],
    "@size:70M–7.25B": ["heron", "gull", "gpt2"],
}


@pytest.mark.parametrize(("query", "expected"), SEARCHES.items())
def test_a_search_finds_the_models_that_it_describes(query: str, expected: list[str]) -> None:
    hits = matches(parse(query), list(BY_NAME.values()))
    assert [name for name, hit in zip(BY_NAME, hits, strict=True) if hit] == expected


@pytest.mark.parametrize(
    ("query", "part", "says"),
    [
        ("llama @authr:x", "@authr:x", "Did you mean @author?"),
        ("@nonsense:x", "@nonsense:x", "There are @author"),
        ("@author: google", "@author:", "has no value"),
        ("gull; /(a/", "/(a/", "missing ): (a"),
        ("/heron", "/heron", "Put a / behind it"),
        ("/(.?){900}/", "/(.?){900}/", "too large"),
        ("@size:7", "@size:7", "@size:<7B"),
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


def test_no_regular_expression_takes_more_than_linear_time() -> None:
    # A backtracking engine would need longer than the universe has: 2 to the power of 20,000.
    trap = model("a" * 20_000 + "!")
    for evil in ("(a+)+$", "^(a|a)*$", "(a*)*b", "(.*a){20}$"):
        assert not matches(parse(f"/{evil}/"), [trap]).any(), "and this comes to an end"


BOARD = synthetic_board(230, 14, uncounted=1)
FROM_CHANCE = synthetic_board(60, 4, normalisation="chance")


def asked(address: str) -> BoardQuery:
    """What a browser asks for that opens this address."""
    return BoardQuery.of(RequestFactory().get(address))


def seen(board: Board = BOARD, **fields: Any) -> View:
    return view_of(board, BoardQuery(**fields))


def names(shown: View) -> list[str]:
    return [shown.board.models[row].repo_id for row in shown.rows]


def has(board: Board, **fields: Any) -> np.ndarray:
    """Which rows show fields like these, as a mask."""
    shown = view_of(board, BoardQuery(**fields))
    mask = np.zeros(len(board.models), np.bool_)
    mask[shown.rows] = True
    return mask


FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "q": st.sampled_from(["llama", "lab-1; lab-2", "@size:<3B", r"/[02468]-\d/", "nobody"]),
        "type": st.sampled_from(["chat", "merge,pretrained", "not-stated"]),
        "precision": st.sampled_from(["bfloat16", "float16,4bit", "int3"]),
        "size": st.sampled_from(["-3", "3-", "1-7", "0-0.5"]),
        "arch": st.sampled_from(["llama", "phi,olmo"]),
        "licence": st.sampled_from(["mit", "not-stated", "apache-2.0,mit"]),
        **{
            name: st.sampled_from(["only", "hide"])
            for name in ("merged", "moe", "flagged", "official", "chat", "gone")
        },
    },
)
SORTS = st.sampled_from(
    ["average", "-average", "model", "-model", "size", "added", "bench_02", "-bench_02", "bench_13"]
)
PINS = st.lists(st.integers(1, 240), max_size=4, unique=True).map(
    lambda found: ",".join(map(str, found))
)


@settings(deadline=None)
@given(FILTERS)
def test_filters_are_an_intersection(filters: dict[str, str]) -> None:
    alone = [has(BOARD, **{name: value}) for name, value in filters.items()]
    every = np.ones(len(BOARD.models), np.bool_)
    assert (has(BOARD, **filters) == reduce(np.logical_and, alone, every)).all()
    assert seen(**filters).found == reduce(np.logical_and, alone, every).sum()


@settings(deadline=None)
@given(FILTERS, SORTS, PINS)
def test_pages_part_the_rows_and_lose_none(filters: dict[str, str], sort: str, pin: str) -> None:
    first = seen(**filters, sort=sort, pin=pin)
    pages = [seen(**filters, sort=sort, pin=pin, page=str(n + 1)) for n in range(first.pages)]
    assert [row for page in pages for row in page.page_rows] == first.rows.tolist()
    assert all(len(page.page_rows) == PAGE for page in pages[:-1])
    assert [page.first for page in pages if page.page_rows] == [
        page.last - len(page.page_rows) + 1 for page in pages if page.page_rows
    ]
    assert set(first.rows) | (set(first.pins) & set(np.flatnonzero(has(BOARD, **filters)))) == set(
        np.flatnonzero(has(BOARD, **filters))
    )
    assert not set(first.rows) & set(first.pins)


@settings(deadline=None)
@given(FILTERS, SORTS)
def test_rows_are_in_order_and_those_without_a_number_last(
    filters: dict[str, str], sort: str
) -> None:
    shown = seen(**filters, sort=sort)
    values = {
        "average": BOARD.average.value,
        "size": np.array([model.parameters for model in BOARD.models], float),
        "added": np.array([model.added.timestamp() for model in BOARD.models]),
        "bench_02": BOARD.scores.value[:, 2],
        "bench_13": BOARD.scores.value[:, 13],
    }
    if sort.endswith("model"):
        listed = [name.lower() for name in names(shown)]
        assert listed == sorted(listed, reverse=sort.startswith("-"))
        return
    found = values[sort.removeprefix("-")][shown.rows]
    known = found[~np.isnan(found)]
    assert not np.isnan(found[: len(known)]).any()
    steps = np.diff(known)
    assert (steps >= 0).all() if shown.ascending else (steps <= 0).all()
    # Equal ones stand as they do on the board.
    assert (np.diff(shown.rows[: len(known)])[steps == 0] > 0).all()
    assert (np.diff(shown.rows[len(known) :]) > 0).all()


def test_every_order_begins_with_what_readers_look_for_and_bands_are_of_the_average_alone() -> None:
    falling, rising = ["average", "bench_02", "added"], ["-average", "model", "size", "-added"]
    assert [seen(sort=sort).ascending for sort in falling] == [False] * 3
    assert [seen(sort=sort).ascending for sort in rising] == [True] * 4
    assert seen(sort="bench_13").ascending, "a perplexity: less is better"
    assert seen().bands
    assert seen(q="llama", flagged="hide").bands
    assert not seen(sort="-average").bands
    assert not seen(sort="bench_01").bands
    assert not seen(score="chance").bands


def test_the_first_ten_columns_are_shown_and_those_that_do_not_count_have_no_average() -> None:
    shown = seen()
    assert shown.columns == list(range(DEFAULT_COLUMNS))
    assert shown.folded == 4
    assert not shown.own_choice
    assert shown.average is BOARD.average
    assert seen(cols="all").columns == list(range(14))
    assert seen(cols="all").average is BOARD.average
    assert not seen(cols="all").folded
    shown = seen(cols="bench_13")
    assert np.isnan(shown.average.value).all()
    assert "None of the columns" in shown.why_unranked
    assert len(shown.rows) == len(BOARD.models)
    shown = seen(cols=",".join(f"bench_{number:02}" for number in range(13)))
    assert len(shown.columns) == 13
    assert not shown.own_choice


@pytest.mark.parametrize(
    ("board", "fields", "columns", "needed"),
    [
        (BOARD, {"cols": "bench_03,bench_01,bench_12"}, [1, 3, 12], [1, 3, 12]),
        (BOARD, {"cols": "bench_03,bench_13"}, [3], [3, 13]),
        (BOARD, {"score": "chance"}, list(range(13)), list(range(14))),
        (BOARD, {"score": "chance", "cols": "bench_02,bench_04"}, [2, 4], [2, 4]),
        (FROM_CHANCE, {"score": "raw"}, [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
)
def test_an_own_choice_has_the_mean_of_its_columns_and_no_ranks(
    board: Board, fields: dict[str, str], columns: list[int], needed: list[int]
) -> None:
    shown = seen(board, **fields)
    from_chance = fields.get("score", "chance" if board.by_chance else "raw") == "chance"
    scores = board.normalised if from_chance else board.scores
    assert shown.own_choice
    assert not shown.bands
    assert "no ranks" in shown.why_unranked
    sides = (scores.low, scores.value, scores.high)
    found = zip(shown.average.low, shown.average.value, shown.average.high, strict=True)
    for row, bounds in enumerate(found):
        if np.isnan(scores.value[row, needed]).any():
            assert np.isnan(bounds).all()
            continue
        cells = [Interval(*(float(side[row, column]) for side in sides)) for column in columns]
        expected = mean_interval(cells)
        assert bounds == pytest.approx((expected.low, expected.value, expected.high), abs=1e-12)
    averages = shown.average.value[shown.rows]
    assert (np.diff(averages[~np.isnan(averages)]) <= 0).all()


@pytest.mark.parametrize(
    ("given", "short"),
    [
        ("/?cols=" + "&cols=".join(f"bench_{n:02}" for n in range(10)), "/"),
        ("/?cols=" + ",".join(f"bench_{n:02}" for n in range(14)), "/?cols=all"),
        (
            "/?style=nonsense&score=raw&sort=nonsense&page=99&flagged=maybe&rows=huge&utm=x",
            "/?page=5",
        ),
        ("/?size=1&size=7&type=chat&type=merge&q=+x+", "/?q=x&type=chat%2Cmerge&size=1-7"),
        ("/?size=3&size=", "/?size=3-"),
        ("/?m=3&m=1&pin=", "/?m=3%2C1"),
        ("/?rows=compact&at_model=5&page=3", "/?rows=compact&at_model=5"),
    ],
)
def test_what_a_plain_form_sends_becomes_the_short_address(given: str, short: str) -> None:
    assert view_of(BOARD, asked(given)).query.url() == short


@settings(deadline=None)
@given(FILTERS)
def test_ways_out_and_chips_keep_what_they_promise(filters: dict[str, str]) -> None:
    shown = seen(**filters, page="2")
    assert len(shown.chips) == len(filters)
    for _, url in shown.chips:
        assert len(view_of(BOARD, asked(url)).chips) == len(filters) - 1
    if shown.found:
        assert shown.ways_out == []
    for label, url, models in shown.ways_out:
        assert models == view_of(BOARD, asked(url)).found > 0
        assert (label, url) in shown.chips


def test_a_model_of_several_licences_is_found_by_each_however_they_are_written() -> None:
    licences = ("Apache-2.0", "apache-2.0, mit", "mit", "", "llama3.1")
    board = synthetic_board(len(licences), 3)
    models = [
        replace(model, licence=licence)
        for model, licence in zip(board.models, licences, strict=True)
    ]
    facets = Facets(Models.of(models))
    options = {option.value: option.models for option in facets.choices("licence")}
    assert options == {"apache-2.0": 2, "llama3.1": 1, "mit": 2, "not-stated": 1}
    assert facets.having("licence", ["mit"]).tolist() == [False, True, True, False, False]
    assert facets.having("licence", ["apache-2.0", "llama3.1"]).tolist() == [
        True, True, False, False, True,
    ]  # fmt: skip


def test_filters_are_named_in_words() -> None:
    shown = seen(q="phi", type="chat,not-stated", size="1-7", flagged="hide", official="only")
    assert [label for label, _ in shown.chips] == [
        "“phi”",
        "Type: Chat, Not stated",
        "Size: 1–7 B",
        "Without: Flagged models",
        "Only: Official models",
    ]
    assert [label for label, _ in seen(size="3-").chips] == ["Size: 3 B and more"]


def test_options_say_how_many_rows_each_has_flagged_and_vanished_ones_shown_unless_hidden() -> None:
    query = BoardQuery(precision="bfloat16,int3")
    options = filters.options(facets_of(BOARD), query)
    for name, of_one in options.items():
        assert sum(option.models for option in of_one) == len(BOARD.models), name
    chosen = [(o.value, o.models > 0) for o in options["precision"] if o.chosen]
    assert chosen == [("bfloat16", True), ("int3", False)]
    assert ("not-stated", "Not stated") in [(o.value, o.label) for o in options["licence"]]
    for option in options["arch"]:
        assert seen(arch=option.value).found == option.models
    flagged = [row for row, model in enumerate(BOARD.models) if model.flagged]
    gone = [row for row, model in enumerate(BOARD.models) if model.hub_state == "gone"]
    assert set(flagged) | set(gone) <= set(seen().rows)
    assert set(seen(flagged="only").rows) == set(flagged)
    assert not set(seen(gone="hide").rows) & set(gone)
    assert (BOARD.ranks.rank[flagged] == 0).all()


def test_a_deep_link_opens_the_page_of_its_model_and_marks_it() -> None:
    row = 173
    model = BOARD.models[row]
    for name in (model.repo_id.upper(), str(model.variant)):
        shown = seen(at_model=name, sort="-size")
        assert shown.marked == row
        assert row in shown.page_rows
        assert shown.problems == []
    pinned = seen(at_model=str(model.variant), pin=model.repo_id, page="2")
    assert (pinned.marked, pinned.pins, pinned.page) == (row, [row], 2), "on top"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"q": "@nonsense:x"}, "“@nonsense:x” asks for an unknown field."),
        ({"size": "7"}, "Size “7” is no range."),
        ({"size": "7-1"}, "ends before it begins"),
        ({"at": "yesterday"}, "“yesterday” is no date. Write it as 2025-01-31."),
        ({"at": "9999-12-31"}, "is no date"),
        ({"cols": "bench_01,sums"}, "Not on this board: “sums”."),
        ({"pin": "who/knows"}, "Pinned, but not on this board: “who/knows”."),
        ({"pin": ",".join(map(str, range(1, 40)))}, "the first 20 are shown"),
        ({"at_model": "9" * 30}, "is not on this board"),
        ({"at_model": BOARD.models[0].repo_id, "q": "nobody"}, "these filters leave it out"),
    ],
)
def test_what_cannot_be_shown_is_said_and_the_rest_is_shown(
    fields: dict[str, str], says: str
) -> None:
    shown = seen(**fields)
    assert any(says in problem for problem in shown.problems)
    assert ("q" in fields and fields["q"] == "nobody") or shown.page_rows
    # The reader's own text stays in the address, so that it can be put right.
    for name in fields:
        assert name in shown.query.url()
