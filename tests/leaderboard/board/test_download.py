"""The board as CSV, JSON and parquet: what is read back is what the page shows."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from leaderboard.board.view import View, view_of
from leaderboard.board.wanted import Wanted
from leaderboard.models import Suite
from leaderboard.snapshot import Board
from leaderboard.snapshot import published as snapshots
from tests.leaderboard import factories as make
from tests.leaderboard.boards import publish, synthetic_board

BOARD = synthetic_board(130, 12, uncounted=1)
QUERIES = [
    "",
    "?q=llama;@size:<3B&sort=-bench_02&flagged=hide",
    "?cols=bench_01,bench_11&pin=7,90",
    "?score=chance&sort=model",
    "?cols=all&precision=bfloat16&at=2030-01-01",
]


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "synthetic"
    return make.make_suite("synthetic")


@pytest.fixture
def published(suite: Suite) -> Board:
    publish(BOARD, suite)
    return BOARD


def get(client: Client, address: str, status: int = 200) -> bytes:
    response = client.get(address)
    content = b"".join(response.streaming_content) if response.streaming else response.content  # type: ignore[attr-defined]
    assert response.status_code == status, content[:500]
    return bytes(content)


def csv_rows(client: Client, query: str = "") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(get(client, f"/board.csv{query}").decode())))


def json_file(client: Client, query: str = "") -> dict[str, Any]:
    return dict(json.loads(get(client, f"/board.json{query}")))


def parquet_table(client: Client, query: str = "") -> Any:
    return pyarrow.parquet.read_table(io.BytesIO(get(client, f"/board.parquet{query}")))


def page(query: str) -> View:
    """What the page with this query shows, pages apart."""
    fields = [part.split("=", 1) for part in query.removeprefix("?").split("&") if part]
    return view_of(BOARD, Wanted(**dict(fields)))


@pytest.mark.parametrize("query", QUERIES)
def test_a_file_has_the_pages_rows_columns_and_numbers(
    client: Client, published: Board, query: str
) -> None:
    shown = page(query)
    rows = [*shown.pins, *shown.rows.tolist()]
    found = json_file(client, query)["models"]
    assert [row["model"] for row in found] == [published.models[row].repo_id for row in rows]
    names = [f"bench_{c:02}.{published.columns[c].style}" for c in shown.columns]
    assert [key for key in found[0] if key.startswith("bench") and key.count(".") == 1] == names
    for row, told in zip(rows, found, strict=True):
        average = shown.average.value[row]
        assert told["average"] == (None if np.isnan(average) else average)
        rank = int(published.ranks.rank[row])
        assert told["rank"] == (None if shown.own_choice or not rank else rank)
        assert told["pinned"] == (row in shown.pins)
        for name, column in zip(names, shown.columns, strict=True):
            value = shown.scores.value[row, column]
            if np.isnan(value):
                assert [told[name], told[f"{name}.low"], told[f"{name}.n"]] == [None] * 3
                assert told[f"{name}.standing"] == "queued"
            else:
                assert told[name] == value
                assert told[f"{name}.low"] == shown.scores.low[row, column]
                assert told[f"{name}.high"] == shown.scores.high[row, column]
                assert told[f"{name}.n"] == 1000
            run = published.run_id(row, column)
            assert told[f"{name}.run"] == f"http://testserver/runs/{run}"


@pytest.mark.parametrize("query", QUERIES)
def test_all_forms_say_the_same_to_the_last_digit(
    client: Client, published: Board, query: str
) -> None:
    told = json_file(client, query)
    table = parquet_table(client, query)
    rows = csv_rows(client, query)
    assert table.column_names == list(told["models"][0])
    assert list(rows[0])[: len(table.column_names)] == table.column_names
    for of_json, of_parquet, of_csv in zip(told["models"], table.to_pylist(), rows, strict=True):
        for name, value in of_json.items():
            if name == "added":
                assert of_parquet[name].isoformat() == value
                assert of_csv[name].startswith(value[:10])
                continue
            assert of_parquet[name] == value
            if value is None:
                assert of_csv[name] == ""
            elif isinstance(value, bool):
                assert of_csv[name] == str(value).lower()
            else:
                assert type(value)(of_csv[name]) == value


def test_a_file_says_what_it_is_of(client: Client, published: Board) -> None:
    query = "?cols=bench_01,bench_03&q=llama"
    about = json_file(client, query)["about"]
    assert about["suite"] == "synthetic"
    assert about["suite_version"] == "1.0"
    assert about["data_version"] == published.data_version
    assert about["built"] == published.built.isoformat()
    assert "no ranks" in about["note"]
    assert [column["title"] for column in about["columns"]] == ["Bench 1", "Bench 3"]
    metadata = parquet_table(client, query).schema.metadata
    row = csv_rows(client, query)[0]
    for name in ("suite", "style", "scale", "address", "note"):
        assert metadata[name.encode()].decode() == row[name] == about[name]


def test_the_address_in_a_file_leads_to_the_same_data(client: Client, suite: Suite) -> None:
    publish(BOARD, suite)
    address = json_file(client, "?sort=model")["about"]["address"]
    assert address.startswith("http://testserver/?suite=synthetic%401.0&at=")
    later = synthetic_board(20, 12, seed=8)
    publish(replace(later, built=BOARD.built + timedelta(days=3)), suite)
    assert len(csv_rows(client)) == 20
    same = address.replace("http://testserver/", "/board.csv")
    assert len(list(csv.DictReader(io.StringIO(get(client, same).decode())))) == 130


def test_what_strangers_wrote_is_no_formula(client: Client, suite: Suite) -> None:
    hostile = replace(
        BOARD.models[0], licence="=HYPERLINK(1)", base_model="@x", architecture="-2+3"
    )
    publish(replace(BOARD, models=(hostile, *BOARD.models[1:])), suite)
    row = csv_rows(client)[0]
    assert (row["licence"], row["base_model"], row["architecture"]) == (
        "'=HYPERLINK(1)",
        "'@x",
        "'-2+3",
    )
    assert json_file(client)["models"][0]["licence"] == "=HYPERLINK(1)"


def test_a_file_without_rows_has_its_fields(client: Client, published: Board) -> None:
    header = get(client, "/board.csv?q=nobody").decode().splitlines()
    assert len(header) == 1
    assert "bench_03.mmlu.run" in header[0]
    assert json_file(client, "?q=nobody")["models"] == []
    assert parquet_table(client, "?q=nobody").num_rows == 0


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_client_that_has_the_file_is_not_sent_it_again(
    client: Client, published: Board, ending: str
) -> None:
    first = client.get(f"/board.{ending}?q=llama")
    etag = first.headers["ETag"]
    disposition = first.headers["Content-Disposition"]
    assert disposition == f'attachment; filename="plumbline-synthetic-1.0-own-2025-07-20.{ending}"'
    same = client.get(f"/board.{ending}?q=llama&page=2", headers={"If-None-Match": etag})
    assert same.status_code == 304
    others = ("?q=phi", "?q=llama&sort=model", "?q=llama&cols=all", "?q=llama&pin=1")
    for other in others:
        response = client.get(f"/board.{ending}{other}", headers={"If-None-Match": etag})
        assert response.status_code == 200


@pytest.mark.parametrize("query", ["?q=/(/", "?size=many", "?cols=nothing", "?at=never"])
def test_a_query_that_cannot_be_read_gives_no_file(
    client: Client, published: Board, query: str
) -> None:
    answer = get(client, f"/board.csv{query}", status=400).decode()
    assert query.partition("=")[2] in answer


def test_there_is_no_file_of_what_is_not_there(client: Client, suite: Suite) -> None:
    for address in ("/board.csv", "/board.csv?suite=nothing", "/board.parquet?at=2001-01-01"):
        get(client, address, status=404)


def test_the_database_is_asked_as_often_for_any_number_of_rows(
    client: Client, suite: Suite
) -> None:
    asked = []
    for models, day in ((10, 1), (1000, 2)):
        board = synthetic_board(models, 12)
        publish(replace(board, built=board.built + timedelta(days=day)), suite)
        get(client, "/board.json")
        with CaptureQueriesContext(connection) as captured:
            assert len(json_file(client)["models"]) == models
        asked.append(len(captured))
    assert asked[0] == asked[1] <= 3


def test_the_runs_of_a_file_are_real_pages(client: Client, db: None, settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze",))
    variant = make.evaluated("lab/one", suite, {"cloze": 0.6})
    waiting = make.make_submission(make.make_variant("lab/two"), suite)
    snapshots.build(suite, "own")
    one, two = csv_rows(client)
    result = variant.runs.get().results.get(metric="acc", subset="")
    assert float(one["facts.cloze"]) == result.value
    assert (one["rank"], one["rank_low"], one["rank_high"]) == ("1", "1", "1")
    assert client.get(one["facts.cloze.run"]).status_code == 200
    assert (two["facts.cloze"], two["rank"], two["average"]) == ("", "", "")
    assert two["facts.cloze.standing"] == "queued"
    assert two["facts.cloze.run"].endswith(str(waiting.runs.get().pk))
