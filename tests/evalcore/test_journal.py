"""The journal keeps every final answer and nothing else."""

from __future__ import annotations

import multiprocessing
import resource
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore.errors import InfraError
from evalcore.journal import Journal
from evalcore.model.base import Response


def response(key: str, loglikelihood: float = -1.5) -> Response:
    return Response(
        key=key,
        kind="loglikelihood",
        loglikelihood=loglikelihood,
        is_greedy=False,
        token_ids=(3, 4),
        token_logprobs=(loglikelihood, 0.0),
        n_context_tokens=2,
        n_truncated=0,
    )


@given(st.floats(-1e5, 0))
def test_an_answer_comes_back_to_the_last_bit(tmp_path_factory, loglikelihood):
    folder = tmp_path_factory.mktemp("journal")
    with_answer = Journal(folder, "model")
    with_answer.append([response("k", loglikelihood)])
    assert Journal(folder, "model")["k"] == response("k", loglikelihood)


def test_thoughts_come_back_and_take_no_place_where_there_are_none(tmp_path):
    thought = replace(response("a"), thoughts="so", n_thought_tokens=1, thinking="ended")
    journal = Journal(tmp_path, "model")
    journal.append([thought, response("b")])
    again = Journal(tmp_path, "model")
    assert (again["a"], again["b"]) == (thought, response("b"))
    (segment,) = {path for path in (tmp_path / "model").glob("*.jsonl") if path.stat().st_size}
    first, second = segment.read_text().splitlines()
    assert "thoughts" in first
    assert "think" not in second


def test_a_torn_last_line_is_ignored_and_the_rest_kept(tmp_path):
    journal = Journal(tmp_path, "model")
    journal.append([response("a"), response("b")])
    journal.close()
    (segment,) = (tmp_path / "model").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes()[:-20])
    again = Journal(tmp_path, "model")
    assert "a" in again
    assert "b" not in again


@pytest.mark.parametrize("garbage", [b"garbage\n", b"\xff\xfe\n", b"{}\n", b"[]\n", b"3\n", b"\n"])
def test_a_line_that_is_no_response_is_named_and_the_others_count(tmp_path, garbage, caplog):
    journal = Journal(tmp_path, "model")
    journal.append([response("a"), response("b")])
    journal.close()
    (segment,) = (tmp_path / "model").glob("*.jsonl")
    first, second = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(first + garbage + second)
    again = Journal(tmp_path, "model")
    assert "a" in again
    assert "b" in again
    assert f"{segment.name} has a line 2 that is no response" in caplog.text


def test_of_two_answers_the_first_written_wins(tmp_path):
    journal = Journal(tmp_path, "model")
    journal.append([response("a", -1.0)])
    journal.append([response("a", -2.0)])
    assert journal["a"].loglikelihood == -1.0
    assert Journal(tmp_path, "model")["a"].loglikelihood == -1.0


def test_two_models_never_share_an_answer(tmp_path):
    Journal(tmp_path, "one").append([response("a")])
    assert "a" not in Journal(tmp_path, "another")


def test_a_folder_that_cannot_be_written_is_our_fault(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InfraError, match="file"):
        Journal(tmp_path / "file", "model")


def test_a_full_disk_is_our_fault_and_loses_nothing_that_was_written(tmp_path):
    journal = Journal(tmp_path, "model")
    journal.append([response("a")])
    (segment,) = (tmp_path / "model").glob("*.jsonl")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (segment.stat().st_size + 20, limits[1]))
    try:
        with pytest.raises(InfraError, match=r"cannot be written.*make room"):
            journal.append([response("b")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "b" not in journal
    journal.append([response("c")])
    again = Journal(tmp_path, "model")
    assert ["a" in again, "b" in again, "c" in again] == [True, False, True]


def _write_many(folder, first):
    journal = Journal(folder, "model")
    for number in range(first, first + 50):
        journal.append([response(f"k{number}", -float(number))])


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(tmp_path, first)) for first in (0, 25, 50)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    both = Journal(tmp_path, "model")
    assert [both[f"k{number}"].loglikelihood for number in range(100)] == [
        -float(number) for number in range(100)
    ]
