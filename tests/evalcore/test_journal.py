"""The journal keeps every final answer and nothing else."""

from __future__ import annotations

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


def test_a_torn_last_line_is_ignored_and_the_rest_kept(tmp_path):
    journal = Journal(tmp_path, "model")
    journal.append([response("a"), response("b")])
    journal.close()
    (segment,) = (tmp_path / "model").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes()[:-20])
    again = Journal(tmp_path, "model")
    assert "a" in again
    assert "b" not in again


def test_a_line_that_is_no_response_is_named(tmp_path):
    Journal(tmp_path, "model").append([response("a")])
    (segment,) = [path for path in (tmp_path / "model").glob("*.jsonl") if path.stat().st_size]
    segment.write_text("garbage\n" + segment.read_text())
    with pytest.raises(InfraError, match=segment.name):
        Journal(tmp_path, "model")


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
