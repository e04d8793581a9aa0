"""Whatever a child prints, its parent reads an event or nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore import watch as engine
from evalcore.watch import Stratum
from runners.protocol import Done, Failure, Look, Phase, Progress, TaskDone, parse

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["event", "phase", "task", "done", "total", "record", "class", "message"])
kinds = st.sampled_from(["phase", "progress", "task", "error", "done"])
nearly = st.dictionaries(names, anything | kinds | st.integers(-1, 9) | st.just("ModelError"))


@given(st.binary())
def test_bytes_of_any_kind_never_raise(line: bytes) -> None:
    assert parse(line) is None or line.lstrip().startswith(b"{")


@given(nearly)
def test_an_event_that_is_read_can_be_stored(said: dict[str, object]) -> None:
    match parse(json.dumps(said).encode()):
        case Progress(task, done, total):
            assert 0 <= done <= total < 2**31
            task.encode()
        case Failure(_, message, _):
            assert "\0" not in message
            message.encode()


@given(st.text(min_size=1).filter(lambda text: "\0" not in text), st.integers(0, 10**6))
def test_progress_is_read_as_it_was_said(task: str, done: int) -> None:
    said = {"event": "progress", "task": task, "done": done, "total": done + 1}
    assert parse(json.dumps(said).encode()) == Progress(task, done, done + 1)


def test_each_event_of_the_engine_is_known() -> None:
    lines = [
        b'{"event": "phase", "phase": "load"}',
        b'{"event": "task", "task": "arc", "record": "r.json", "samples": "s.parquet"}',
        b'{"event": "error", "class": "TaskError", "message": "no column"}',
        b'{"event": "done", "files": {}}',
    ]
    assert [parse(line) for line in lines] == [
        Phase("load"),
        TaskDone("arc", "r.json", "s.parquet"),
        Failure("TaskError", "no column", None),
        Done(),
    ]


def test_a_reason_that_cannot_be_stored_as_it_is_is_told_all_the_same() -> None:
    """Without it a failure of the model would be taken for ours, and tried again."""
    said = {"event": "error", "class": "ModelError", "message": "a\0b \ud800", "task": "a\0"}
    assert parse(json.dumps(said).encode()) == Failure("ModelError", "a\ufffdb \ufffd", None)
    assert parse(b'{"event": "error", "class": "ModelError", "message": ""}') == Failure(
        "ModelError", "no reason was given", None
    )


def test_more_done_than_there_is_says_nothing() -> None:
    assert parse(b'{"event": "progress", "task": "arc", "done": 3, "total": 2}') is None


def test_an_error_of_no_known_class_says_nothing() -> None:
    for name in (b'"ValueError"', b"[]", b"{}", b"null"):
        assert parse(b'{"event": "error", "class": ' + name + b', "message": "no"}') is None


STRATUM = {"weight": 1.0, "documents": 240, "answered": 30, "right": 12.0, "zero_or_one": True}


def look(*strata: object, **fields: object) -> Look | object:
    said = {"event": "look", "task": "arc", "metric": "acc", "strata": list(strata), **fields}
    return parse(json.dumps(said).encode())


def test_a_look_is_read_as_the_engine_says_it() -> None:
    said = engine.Look(task="arc", metric="acc", strata=[Stratum(**STRATUM)])  # type: ignore[arg-type]
    line = json.dumps({"event": "look", **said.as_json()})
    assert parse(line.encode()) == Look("arc", "acc", (Stratum(**STRATUM),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"answered": 241},
        {"answered": 0},
        {"answered": 30.0},
        {"documents": True},
        {"documents": 2**40, "answered": 1},
        {"right": 31},
        {"right": -1},
        {"right": float("nan")},
        {"right": 11.5},
        {"weight": 0.5},
        {"weight": float("inf")},
        {"weight": "1"},
        {"zero_or_one": 1},
    ],
    ids=str,
)
def test_a_look_that_cannot_be_is_none(wrong: dict[str, object]) -> None:
    assert look({**STRATUM, **wrong}) is None


def test_a_look_has_strata_a_task_and_a_metric() -> None:
    assert isinstance(look(STRATUM), Look)
    assert look() is None
    assert look(STRATUM, task="") is None
    assert look(STRATUM, metric="\0") is None
    assert look(*[{**STRATUM, "weight": 1 / 501}] * 501) is None
    assert look(None) is None


@given(st.lists(st.dictionaries(st.sampled_from([*STRATUM]), anything), max_size=3))
def test_strata_of_any_kind_never_raise(strata: list[dict[str, object]]) -> None:
    assert look(*strata) is None or isinstance(look(*strata), Look)
