"""Two computations of one model: answers within rounding agree, anything more does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalcore.agreement import BOUNDS, NotTheSame, agreement_of
from evalcore.cli import main
from evalcore.formats.run_files import Run, read_runs
from evalcore.library import evaluate
from evalcore.model.base import Request
from evalcore.model.fake import FakeLM
from tests.evalcore.toys import ToyLM, write_run, write_toys

TASKS = "toy_choice,toy_written"
Change = Callable[[Request, Any], Any]


class OtherBackend(ToyLM):
    """The toy model, whose answers another backend rounds otherwise."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        own = self._by_rule
        FakeLM.__init__(
            self, lambda request, repeat: change(request, own(request, repeat)), identity="toy"
        )


def moved_by(nats: float) -> Change:
    def change(request: Request, answer: Any) -> Any:
        if request.kind != "loglikelihood":
            return answer
        return answer[0] + (nats if len(request.continuation) % 2 else -nats), answer[1]

    return change


def written_otherwise(request: Request, answer: Any) -> Any:
    return f"{answer}!" if request.kind == "generate_until" else answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("agreement")
    write_toys(folder / "toys")
    return folder


def run_of(folder: Path, name: str, change: Change, **how: Any) -> Path:
    if not (folder / name).exists():
        model = OtherBackend(change)
        evaluations = evaluate(
            model, TASKS.split(","), include_path=folder / "toys", bootstrap_iters=10, **how
        )
        write_run(folder / name, evaluations)
    return folder / name


def agree(capsys: pytest.CaptureFixture[str], a: Path, b: Path) -> tuple[int, dict[str, Any]]:
    status = main(["agree", str(a), str(b), "--json"])
    return status, {row["task"]: row for row in json.loads(capsys.readouterr().out)}


def test_rounding_agrees_and_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = run_of(folder, "a", moved_by(0.0))
    status, rows = agree(capsys, a, run_of(folder, "rounded", moved_by(2e-4)))
    assert status == 0
    choice = rows["toy_choice"]
    assert choice["within"]
    assert choice["largest"] == pytest.approx(2e-4)
    assert (choice["documents"], choice["beyond"], choice["scored_otherwise"]) == (12, 0, 0)
    assert choice["responses"] > choice["documents"]
    assert rows["toy_written"]["responses"] >= rows["toy_written"]["documents"]


def test_more_than_rounding_does_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = run_of(folder, "a", moved_by(0.0))
    status, rows = agree(capsys, a, run_of(folder, "moved", moved_by(0.5)))
    assert status == 1
    assert rows["toy_choice"]["beyond"] == rows["toy_choice"]["responses"]
    assert not rows["toy_choice"]["within"]
    assert rows["toy_written"]["within"]
    assert main(["agree", str(a), str(folder / "moved")]) == 1
    assert "loglikelihoods are too far apart" in capsys.readouterr().out


def test_texts_that_differ_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = run_of(folder, "a", moved_by(0.0))
    _, rows = agree(capsys, a, run_of(folder, "texts", written_otherwise))
    assert rows["toy_written"]["texts"] == rows["toy_written"]["responses"]
    assert rows["toy_choice"]["texts"] == 0


def test_runs_that_were_asked_otherwise_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = run_of(folder, "a", moved_by(0.0))
    other = run_of(folder, "shots", moved_by(0.0), num_fewshot=1)
    assert main(["agree", str(a), str(other)]) == 2
    assert "another way of asking" in capsys.readouterr().err


def only(folder: Path, task: str) -> Run:
    return next(run for run in read_runs([folder]) if run.record.task == task)


@given(st.floats(-0.9, 0.9), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_every_response_within_its_bound_agrees_and_any_beyond_does_not(
    folder: Path, share: float, at: int
) -> None:
    run = only(run_of(folder, "a", moved_by(0.0)), "toy_choice")
    fixed, relative = BOUNDS
    moved = json.loads(json.dumps(run.samples))
    places = [(s, r) for s, sample in enumerate(moved) for r in range(len(sample["responses"]))]
    s, r = places[at % len(places)]
    own = moved[s]["responses"][r]["loglikelihood"]
    bound = fixed + relative * abs(own)
    for times, beyond in ((share, 0), (1.1 if share > 0 else -1.1, 1)):
        moved[s]["responses"][r]["loglikelihood"] = own + times * bound
        found = agreement_of(run.record, run.samples, run.record, moved)
        assert found.beyond == beyond
        assert found.within == (beyond == 0)


def changed(folder: Path, change: Callable[[list[Any]], object], **pins: Any) -> Any:
    """What is found where the other run has these samples, and both these pins."""
    run = only(run_of(folder, "a", moved_by(0.0)), "toy_choice")
    record = replace(run.record, model={**run.record.model, **pins})
    samples = json.loads(json.dumps(run.samples))
    change(samples)
    return agreement_of(record, run.samples, record, samples)


@pytest.mark.parametrize(
    ("dtype", "nats", "within"),
    [
        ("float32", 0.05, False),
        ("bfloat16", 0.05, True),
        ("float16", 0.05, True),
        ("bfloat16", 2.0, False),
    ],
)
def test_half_precision_has_wider_bounds(
    folder: Path, dtype: str, nats: float, within: bool
) -> None:
    def move(samples: list[Any]) -> None:
        samples[0]["responses"][0]["loglikelihood"] += nats

    assert changed(folder, move, dtype=dtype).within == within


def test_documents_that_score_otherwise_are_bounded_where_no_likelihood_moved(
    folder: Path,
) -> None:
    def turn(samples: list[Any]) -> None:
        samples[0]["correct"] = 1 - samples[0]["correct"]

    found = changed(folder, turn)
    assert (found.beyond, found.scored_otherwise) == (0, 1)
    assert found.problems == ["1 of 12 documents score otherwise"]


def test_a_score_that_moves_is_bounded_in_its_own_errors(folder: Path) -> None:
    run = only(run_of(folder, "a", moved_by(0.0)), "toy_choice")
    (own, *others) = run.record.results
    assert own.stderr
    for errors, within in ((0.2, True), (0.3, False), (-0.3, False)):
        row = replace(own, value=own.value + errors * own.stderr)
        other = replace(run.record, results=[row, *others], primary_metric=own.metric)
        mine = replace(run.record, primary_metric=own.metric)
        assert agreement_of(mine, run.samples, other, run.samples).within == within


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        ("commit", "another commit"),
        ("dtype", "another precision"),
        ("adapter", "another adapter"),
        ("quantisation", "another quantisation"),
        ("tokenizer_digest", "another tokenizer"),
    ],
)
def test_runs_of_two_models_are_refused(folder: Path, pin: str, said: str) -> None:
    run = only(run_of(folder, "a", moved_by(0.0)), "toy_choice")
    other = replace(run.record, model={**run.record.model, pin: "other"})
    with pytest.raises(NotTheSame, match=said):
        agreement_of(run.record, run.samples, other, run.samples)


def test_answers_to_other_tokens_are_not_compared(folder: Path) -> None:
    def feed(samples: list[Any]) -> None:
        samples[3]["responses"][1]["key"] = "0" * 64

    with pytest.raises(NotTheSame, match="document 3: the two were fed other tokens"):
        changed(folder, feed)


def test_a_file_that_ends_early_is_not_compared(folder: Path) -> None:
    with pytest.raises(NotTheSame, match="ends before the other"):
        changed(folder, lambda samples: samples.pop())
