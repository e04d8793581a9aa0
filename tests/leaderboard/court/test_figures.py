"""The second figure: every score without disputed questions, computed as the first."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as some

from evalcore.score.numbers import uncertainty
from leaderboard import court, disputed
from leaderboard.court.bench import bench
from leaderboard.disputed import figures
from leaderboard.models import Result, SecondFigure, Suite, User, Variant
from leaderboard.samples import Layout, Vector, path_of
from leaderboard.snapshot import OWN, published
from tests.leaderboard import factories as make


@pytest.fixture
def suite(db: None, settings: Any, one_minute: None) -> Suite:
    """Four models, each with at least ten right and ten wrong answers."""
    settings.PLUMBLINE_SUITE = "demo"
    suite = make.make_suite(benchmarks=("facts", "sums"), styles=("cloze", "mmlu"))
    for number, skill in enumerate((0.7, 0.6, 0.5, 0.4)):
        make.evaluated(f"lab/m{number}", suite, {"cloze": skill, "mmlu": skill}, n=80)
    make.publish(suite)
    return suite


@pytest.fixture
def both(ada: User, bo: User) -> list[User]:
    return [ada, bo]


def dispute(both: list[User], *docs: int, task: str = "facts") -> None:
    said = {"verdict": "wrong", "answer": "", "reason": "because", "source": ""}
    for doc in docs:
        for by in both:
            court.rule(bench(task).question(f"{task}:{doc}"), **said, by=by)
    disputed.compute_due()


def result_of(model: str, task: str = "facts") -> Result:
    variant = Variant.objects.get(hub_model__repo_id=model)
    return Result.objects.get(run__variant=variant, run__task__name=task, subset="", metric="acc")


def from_the_samples(result: Result, without: set[int]) -> uncertainty.Measured:
    """Counted anew from the stored answers, by other code than the site's."""
    file = pq.read_table(path_of(result.run.artifacts.get(kind="samples").sha256)).to_pylist()
    return uncertainty.measure(
        [
            next(score["value"] for score in row["scores"] if score["metric"] == "acc")
            for row in file
            if row["doc_id"] not in without
        ]
    )


def test_it_is_the_score_of_the_questions_that_are_left(suite: Suite, both: list[User]) -> None:
    dispute(both, 3, 7, 11)
    for model in ("lab/m0", "lab/m1", "lab/m2", "lab/m3"):
        result = result_of(model)
        second = disputed.of_results([result.pk])[result.pk]
        told = from_the_samples(result, {3, 7, 11})
        assert (second.removed, second.score.n, told.n) == (3, 77, 77)
        assert second.score.interval == told.interval
        before = Result.objects.get(pk=result.pk)
        assert (before.value, before.n) == (result.value, 80), "the first stays as it was"
    other = result_of("lab/m0", "sums")
    assert disputed.of_results([other.pk]) == {}, "other benchmarks have none"


def test_it_comes_and_goes_with_the_rulings_and_with_new_results(
    suite: Suite, both: list[User]
) -> None:
    result = result_of("lab/m0")
    dispute(both, 3)
    assert result.pk in disputed.of_results([result.pk])
    assert disputed.compute_due() == 0, "nothing is computed twice"
    make.evaluated("lab/new", suite, {"cloze": 0.5, "mmlu": 0.5}, n=80)
    new = result_of("lab/new")
    assert new.pk not in disputed.of_results([new.pk])
    disputed.compute_due()
    assert new.pk in disputed.of_results([new.pk])
    mine = both[0].rulings.get(ended=None)
    court.withdraw(mine, by=both[0])
    assert disputed.of_results([result.pk]) == {}, "at once, before anything is computed"
    disputed.compute_due()
    assert not SecondFigure.objects.exists()


def test_pages_show_it_beside_the_first_and_no_rank_moves(suite: Suite, both: list[User]) -> None:
    client = Client()
    before = published.newest(suite, OWN)
    assert before is not None
    assert "disputed" not in client.get("/").text
    dispute(both, 3, 7)
    make.publish(suite)
    after = published.newest(suite, OWN)
    assert after is not None
    assert after.data_version == before.data_version, "the board is the same to the last bit"
    run = result_of("lab/m1").run
    value = 100 * from_the_samples(result_of("lab/m1"), {3, 7}).interval.value
    words = f"w/o 2: </span>{value:.1f} "
    for address in ("/", "/tasks/facts", "/models/lab/m1"):
        page = client.get(address).text
        assert "without 2 disputed questions" in page, address
        assert words in page, address
    assert "2 disputed" in client.get("/").text
    assert f"{value:.1f}" in client.get(run.get_absolute_url()).text
    assert "Without 2 disputed questions" in client.get(run.get_absolute_url()).text
    assert "w/o" not in client.get("/?score=chance").text


def test_files_have_it_in_fields_of_their_own(suite: Suite, both: list[User]) -> None:
    def rows(address: str) -> list[dict[str, str]]:
        text = b"".join(Client().get(address).streaming_content).decode()
        return list(csv.DictReader(text.splitlines()))

    assert not any("without" in name for name in rows("/board.csv")[0])
    tag = Client().get("/board.csv")["ETag"]
    dispute(both, 3)
    assert Client().get("/board.csv")["ETag"] != tag
    for row in rows("/board.csv"):
        told = from_the_samples(result_of(row["model"]), {3})
        assert float(row["facts.cloze.without_disputed"]) == told.interval.value
        assert float(row["facts.cloze.without_disputed.low"]) == told.interval.low
        assert int(row["facts.cloze.without_disputed.n"]) == 79
        assert float(row["facts.cloze"]) == result_of(row["model"]).value
        assert "sums.cloze.without_disputed" not in row


def test_where_the_result_is_not_that_of_its_answers_there_is_none(
    suite: Suite, both: list[User]
) -> None:
    result = result_of("lab/m0")
    Result.objects.filter(pk=result.pk).update(high=result.high + 0.01)
    dispute(both, 3)
    assert result.pk not in disputed.of_results([result.pk])
    assert result_of("lab/m1").pk in disputed.of_results([result_of("lab/m1").pk])


def vector(scores: list[float], parts: list[int], *, by_part: bool) -> Vector:
    n, names = len(scores), tuple(f"part{number}" for number in range(max(parts) + 1))
    task = np.array(parts, np.int32)
    layout = Layout(
        tasks=names, task=task, doc_id=np.arange(n, dtype=np.int32), parts=names, part=task,
        docs_digest="d", cluster=None,
    )  # fmt: skip
    return Vector(layout, by_part, np.array(scores))


@given(
    some.lists(some.tuples(some.integers(0, 1), some.integers(0, 2)), min_size=30, max_size=60),
    some.sets(some.integers(0, 29), max_size=6),
    some.booleans(),
)
def test_of_a_group_it_is_the_mean_of_what_is_left_over_its_leaf_tasks(
    answers: list[tuple[int, int]], without: set[int], by_part: bool
) -> None:
    answers = [(1, 0), (0, 1), (1, 2), *answers]
    scores, parts = [float(right) for right, _ in answers], [part for _, part in answers]
    one = vector(scores, parts, by_part=by_part)
    left = figures.kept(one.layout, [[f"part{parts[doc]}", doc] for doc in without])
    assert (~left).nonzero()[0].tolist() == sorted(without)
    found = figures.measured(one, left)
    means = [
        np.mean([s for s, p, keep in zip(scores, parts, left, strict=True) if keep and p == part])
        for part in sorted({p for p, keep in zip(parts, left, strict=True) if keep})
    ]
    mean = np.mean(means) if by_part else np.array(scores)[left].mean()
    assert found.value == pytest.approx(mean)
    assert found.low <= found.value <= found.high


def test_a_question_of_the_same_number_in_another_leaf_task_stays() -> None:
    one = vector([1.0, 0.0, 1.0, 0.0], [0, 0, 1, 1], by_part=False)
    one.layout.doc_id[:] = [0, 1, 0, 1]
    assert figures.kept(one.layout, [["part1", 0]]).tolist() == [True, True, False, True]
