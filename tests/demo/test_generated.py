"""The generated board: its numbers are those of its answers, and its files say the same."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from django.db import connection

from demo.generated.answers import Answers
from demo.generated.benchmarks import STYLES, Benchmark, make_benchmarks
from demo.generated.files import write_files
from demo.generated.fill import Filled, fill
from demo.generated.numbers import measure
from demo.generated.population import Population, populate
from evalcore.formats.run_files import Run as RunFile
from evalcore.record import RunRecord, read_samples
from evalcore.score.numbers import uncertainty
from evalcore.stats import interval
from evalcore.task.library.load import TaskLibrary
from evalcore.verify import verify
from leaderboard.models import Artifact, HubModel, Result, Run, Submission, Variant
from leaderboard.models.run import State
from leaderboard.samples import store as artifacts
from leaderboard.samples import vectors
from leaderboard.snapshot import EVERY, OWN, published
from tests.services import postgresql

UNTIL = datetime(2026, 6, 1, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[2]


def silent(_: str) -> None:
    pass


def small(models: int = 80, tasks: int = 9) -> tuple[Population, list[Benchmark]]:
    """Nine benchmarks have one of each kind: single, in passages, in parts by size and alike."""
    return populate(models, seed=3, until=UNTIL), make_benchmarks(tasks, seed=3, largest=400)


@pytest.fixture
def filled(db: None) -> Filled:
    return fill(*small(), seed=3, until=UNTIL, say=silent)


def kinds(benchmarks: list[Benchmark]) -> set[tuple[bool, bool, bool]]:
    return {(bool(b.parts), b.by_parts, bool(b.passages)) for b in benchmarks}


def test_small_boards_have_every_kind_of_benchmark():
    _, benchmarks = small()
    assert kinds(benchmarks) == {
        (False, False, False),
        (False, False, True),
        (True, False, False),
        (True, True, False),
    }


@pytest.mark.parametrize("asked", small()[1], ids=lambda asked: asked.name)
def test_numbers_of_many_models_are_the_engine_s_numbers_of_each(asked: Benchmark):
    """Among them models that get nearly all wrong or right, where Wilson's interval is used."""
    population, _ = small()
    (_, right), *_ = Answers(asked, population, seed=3).blocks("mmlu")
    right[0], right[1], right[2] = False, True, False
    right[2, :3] = True
    right[3] = True
    right[3, -4:] = False
    found = measure(right, asked)
    for row, scores in enumerate(right.astype(float)):
        expected = engine_measures(scores, asked)
        stated = (found.low[row], found.value[row], found.high[row])
        bounds = expected.interval
        assert stated == pytest.approx((bounds.low, bounds.value, bounds.high), abs=1e-12)
        assert found.stderr[row] == pytest.approx(expected.stderr or 0.0, abs=1e-12)


def engine_measures(scores: np.ndarray, asked: Benchmark) -> uncertainty.Measured:
    if not asked.parts:
        labels = None if asked.cluster is None else asked.cluster.tolist()
        return uncertainty.measure(scores.tolist(), labels)
    parts = [scores[asked.part == part].tolist() for part in range(asked.parts)]
    if not asked.by_parts:
        return uncertainty.measure_group(parts)
    sizes = [len(part) for part in parts]
    return uncertainty.measure_parts(
        [uncertainty.measure(part) for part in parts], sizes, by_size=False
    )


def test_plain_intervals_are_those_of_evalcore_stats():
    population, benchmarks = small()
    plain = next(b for b in benchmarks if not b.parts and not b.passages)
    (_, right), *_ = Answers(plain, population, seed=3).blocks("cloze")
    found = measure(right, plain)
    middling = np.flatnonzero((right.sum(axis=1) >= 10) & ((~right).sum(axis=1) >= 10))
    assert len(middling) > 20
    for row in middling:
        bounds = interval(right[row].astype(float))
        assert (found.low[row], found.high[row]) == pytest.approx((bounds.low, bounds.high))


def test_stored_results_follow_from_the_stored_answers(filled: Filled):
    results = Result.objects.filter(subset="").select_related("vector")
    assert results.count() == filled.runs
    by_name = {column.name: column for column in filled.columns}
    for result in results.order_by("pk")[::41]:
        found = vectors.matrix([result.pk])
        column = by_name[result.task_name]
        layouts = (column.layout, column.changed_layout)
        assert found.layout.docs_digest in {layout.docs_digest for layout in layouts}
        expected = engine_measures(found.scores[0].astype(float), column.benchmark)
        assert (result.low, result.value, result.high) == pytest.approx(
            (expected.interval.low, expected.interval.value, expected.interval.high), abs=1e-9
        )
        assert result.n == found.layout.n == column.benchmark.n
        assert bytes(result.vector.values) == vectors.pack_values(found.scores[0])


def test_keys_and_states_are_as_the_site_makes_them(filled: Filled):
    assert filled.suite.entries.count() == len(filled.columns) == 27
    for column in filled.columns:
        entry = filled.suite.entries.get(task__name=column.name)
        runs = Run.objects.filter(run_key=entry.run_key, state=State.DONE)
        assert runs.count() > 70
        comparable = Result.objects.filter(comparability_key=entry.comparability_key)
        assert 70 < comparable.count() <= runs.count()
    assert Variant.objects.count() == 80
    assert Submission.objects.count() == 80
    connection.check_constraints()


def test_the_same_seed_gives_the_same_answers_and_another_seed_others():
    population, benchmarks = small()
    asked = benchmarks[0]

    def answers(seed: int) -> bytes:
        made = Answers(asked, population, seed)
        return b"".join(right.tobytes() for _, right in made.blocks("hybrid"))

    assert answers(3) == answers(3)
    assert answers(3) != answers(4)
    assert populate(80, seed=3, until=UNTIL).models == population.models
    assert populate(80, seed=4, until=UNTIL).models != population.models


def test_a_large_column_is_answered_in_blocks(
    monkeypatch: pytest.MonkeyPatch,
):
    population, benchmarks = small()
    whole = [right for _, right in Answers(benchmarks[0], population, 3).blocks("mmlu")]
    assert len(whole) == 1
    monkeypatch.setattr("demo.generated.answers.CELLS", 400 * 16)
    rows = [rows for rows, _ in Answers(benchmarks[0], population, 3).blocks("mmlu")]
    assert len(rows) > 3
    assert [row for part in rows for row in range(part.start, part.stop)] == list(range(80))


def test_boards_have_something_to_find():
    """Twins answer alike; relatives more alike than strangers; letters cost small models points."""
    population = populate(1200, seed=1, until=UNTIL)
    asked = make_benchmarks(1, seed=1, largest=1500)[0]
    answers = Answers(asked, population, 1)
    right = {style: np.concatenate([r for _, r in answers.blocks(style)]) for style in STYLES}
    assert len(population.twins)
    for twin in population.twins:
        assert (right["mmlu"][twin] == right["mmlu"][twin - 1]).all()
    cloze = right["cloze"]
    ability, family = population.of("ability"), population.family
    pairs = [(a, b) for a in range(240) for b in range(a + 1, 240)]
    pairs = [(a, b) for a, b in pairs if abs(ability[a] - ability[b]) < 0.05]
    alike: dict[bool, list[float]] = {True: [], False: []}
    for a, b in pairs:
        alike[bool(family[a] == family[b])].append(float((cloze[a] == cloze[b]).mean()))
    assert np.mean(alike[True]) > np.mean(alike[False]) + 0.05
    small_ones = ability < -0.6
    lost = right["cloze"].mean(axis=1) - right["mmlu"].mean(axis=1)
    assert lost[small_ones].mean() > 0.03 > lost[ability > 1].mean()
    rest = right["mmlu"].sum(axis=1)
    discrimination = np.array([np.corrcoef(of_one, rest)[0, 1] for of_one in right["mmlu"].T])
    wrong = answers.items.wrong_key
    assert 3 <= wrong.sum() <= 40
    assert discrimination[wrong].mean() < -0.05 < 0.15 < discrimination[~wrong].mean()


def test_every_board_of_the_suite_can_be_built(filled: Filled):
    for style in published.styles_of(filled.suite):
        published.build(filled.suite, style)
    board = published.newest(filled.suite, OWN)
    assert board.ranked > 60
    assert len(board.columns) == 9
    everything = published.newest(filled.suite, EVERY)
    assert len(everything.columns) == 27
    assert {"scored", "not measured"} <= {
        everything.standing_of(row, column).value
        for row in range(len(everything.models))
        for column in range(27)
    }
    assert HubModel.objects.filter(hub_state="gone").exists()


@pytest.fixture(scope="module")
def library() -> TaskLibrary:
    return TaskLibrary([ROOT / "tasks"])


def test_files_hold_the_answers_behind_the_numbers(filled: Filled, library: TaskLibrary):
    """Verified as any run is: every number of the record again from responses of the samples."""
    assert write_files(filled, models=2) == 6
    runs = Run.objects.filter(artifacts__kind=Artifact.Kind.SAMPLES)
    assert runs.count() == 6
    for run in runs:
        paths = {
            artifact.kind: artifacts.path_of(artifact.sha256) for artifact in run.artifacts.all()
        }
        record = RunRecord.read(paths["record"])
        samples = list(read_samples(paths["samples"]))
        own = run.results.get(subset="")
        matrix = vectors.matrix([own.pk])
        assert [sample["correct"] for sample in samples] == matrix.scores[0].tolist()
        (stated,) = record.own_results()
        assert (stated.value, stated.low, stated.high) == pytest.approx(
            (own.value, own.low, own.high)
        )
        assert stated.comparability_key == own.comparability_key
        assert record.docs_digest == run.docs_digest == matrix.layout.docs_digest
        report = verify(
            RunFile(record, samples, paths["record"], paths["samples"]), library, "rescore"
        )
        assert report.ok, (report.differences[:5], report.unchecked[:5])
        again = vectors.read(paths["samples"], [own])
        assert vectors.pack_layout(again.layout) == vectors.pack_layout(matrix.layout)


def test_the_command_fills_postgresql_and_refuses_a_database_in_use(tmp_path: Path):
    with postgresql() as url:
        first = generated(url, tmp_path)
        assert first.returncode == 0, first.stderr
        assert "board of style all" in first.stdout
        again = generated(url, tmp_path)
        assert again.returncode == 1
        assert "has a generated suite" in again.stderr
        counts = subprocess.run(
            [sys.executable, "-c", COUNTS], env=environment(url, tmp_path), capture_output=True,
            text=True, check=True, cwd=ROOT,
        )  # fmt: skip
    runs, results, found, indexes = counts.stdout.split()
    assert int(results) == int(found) > 0.9 * int(runs) > 0
    assert indexes == "True"


COUNTS = """
import django
django.setup()
from django.db import connection
from leaderboard.models import Result, Run, ScoreVector
with connection.cursor() as cursor:
    names = set(connection.introspection.get_constraints(cursor, Run._meta.db_table))
wanted = {"one_live_run_per_variant_and_key", "queue_order", "running_means_leased"}
whole = Result.objects.filter(subset="").count()
print(Run.objects.count(), whole, ScoreVector.objects.count(), wanted <= names)
"""


def generated(url: str, home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "demo.generated", "--models", "60", "--tasks", "5"]
    command += ["--largest", "300", "--files", "1"]
    return subprocess.run(
        command, env=environment(url, home), capture_output=True, text=True, check=False, cwd=ROOT
    )


def environment(url: str, home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
        "PLUMBLINE_HOME": str(home),
        "PLUMBLINE_DATABASE_URL": url,
    }
