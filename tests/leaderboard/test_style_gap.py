"""The same questions in two styles: what depends on each other is not counted as independent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalcore.stats import interval
from leaderboard import artifacts
from leaderboard.board import Score
from leaderboard.models import Artifact, Run
from leaderboard.style_gap import Gap, gap
from tests.leaderboard import factories as make

N = 40


@pytest.fixture
def two_styles(db: None) -> tuple[Run, Run]:
    suite = make.make_suite(benchmarks=("facts",), styles=("cloze", "mmlu"))
    first, second = make.make_submission(make.make_variant(), suite).runs.order_by("task__name")
    return make.finish(first, skill=0.9, n=N), make.finish(second, skill=0.5, n=N, seed=1)


def samples(run: Run) -> pa.Table:
    return pq.read_table(artifacts.path_of(run.artifacts.get(kind="samples").sha256))


def clustered(run: Run, folder: Path, **columns: Sequence[str | None]) -> str:
    """The digest of the run's samples with these columns in place of theirs."""
    table = samples(run)
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        table = table.set_column(place, field, pa.array(values, type=field.type))
    path = folder / f"{run.pk}.parquet"
    pq.write_table(table, path)
    return artifacts.store(path, kind=Artifact.Kind.SAMPLES, rows=N).sha256


def measured(
    runs: tuple[Run, Run], labels: Sequence[str | None], folder: Path, subset: str = ""
) -> Gap:
    columns = {"cluster": labels, **({"subset": [subset] * N} if subset else {})}
    scores = [Score.of(run.results.get(metric="acc", subset="")) for run in runs]
    first, second = (clustered(run, folder, **columns) for run in runs)
    return gap(scores[0], scores[1], (first, second))


def test_questions_of_one_cluster_are_not_independent(
    two_styles: tuple[Run, Run], tmp_path: Path
) -> None:
    scores: list[list[Any]] = [samples(run).column("correct").to_pylist() for run in two_styles]
    differences = [a - b for a, b in zip(*scores, strict=True)]
    parts = samples(two_styles[0]).column("subset").to_pylist()
    # Questions that move alike share a label, as variants of one question would.
    labels = [f"moves {difference:+.0f}" for difference in differences]
    expected = interval(differences, list(zip(parts, labels, strict=True)))
    found = measured(two_styles, labels, tmp_path)
    assert found.paired
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    apart = measured(two_styles, [None] * N, tmp_path)
    assert apart.paired
    assert found.high - found.low > apart.high - apart.low


def test_one_cluster_says_nothing_of_other_questions(
    two_styles: tuple[Run, Run], tmp_path: Path
) -> None:
    assert measured(two_styles, ["all"] * N, tmp_path, subset="tools").paired is False


def test_a_label_counts_within_its_part_only(two_styles: tuple[Run, Run], tmp_path: Path) -> None:
    assert measured(two_styles, ["all"] * N, tmp_path).paired
