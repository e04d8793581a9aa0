"""What a run's number rests on: how sure it is, what it cost, how to check it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from hypothesis import assume, given
from hypothesis import strategies as st

from evalcore.stats import interval
from leaderboard.models import Run, Suite, Worker
from leaderboard.runs.materials import FEWEST_PARTS, estimate, if_other_parts
from leaderboard.templatetags.runs import energy
from tests.leaderboard import factories as make
from tests.leaderboard.runs.test_page import get, text

PARTS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=1, max_size=30)


@pytest.fixture
def run(db: None, settings: Any) -> Run:
    settings.PLUMBLINE_SUITE = "demo"
    suite: Suite = make.make_suite(benchmarks=("facts",))
    submission = make.make_submission(make.make_variant("lab/one"), suite)
    return submission.runs.get(task__name="facts_mmlu")


@given(PARTS)
def test_an_interval_for_other_parts_is_the_one_clustered_by_part(
    sizes: list[tuple[int, int]],
) -> None:
    counts = [(n, min(right, n)) for n, right in sizes]
    scores = [float(i < right) for n, right in counts for i in range(n)]
    labels = [place for place, (n, _) in enumerate(counts) for _ in range(n)]
    mean = sum(scores) / len(scores)
    found: Any = if_other_parts(
        SimpleNamespace(value=mean, n=len(scores)),  # type: ignore[arg-type]
        [SimpleNamespace(value=right / n, n=n) for n, right in counts],  # type: ignore[misc]
    )
    alike = len({right / n for n, right in counts}) == 1
    assert (found is None) == (len(counts) < FEWEST_PARTS or alike)
    assume(found)
    known = interval(scores, clusters=labels)
    assert (found.low, found.value, found.high) == pytest.approx(
        (known.low, known.value, known.high), abs=1e-9
    )


def test_a_mean_that_is_not_over_all_questions_has_no_such_interval() -> None:
    parts: Any = [SimpleNamespace(value=place / 10, n=10 * (place + 1)) for place in range(6)]
    total = sum(part.n for part in parts)
    plain = sum(part.value for part in parts) / 6
    weighted = sum(part.value * part.n for part in parts) / total
    whole: Any = SimpleNamespace
    assert if_other_parts(whole(value=weighted, n=total), parts)
    assert if_other_parts(whole(value=plain, n=total), parts) is None
    assert if_other_parts(whole(value=weighted, n=total + 1), parts) is None


def test_parts_that_are_all_alike_say_nothing_of_others() -> None:
    parts: Any = [SimpleNamespace(value=1.0, n=40) for _ in range(6)]
    assert if_other_parts(SimpleNamespace(value=1.0, n=240), parts) is None  # type: ignore[arg-type]


def test_the_number_says_how_its_interval_was_made(client: Client, run: Run) -> None:
    shown = text(get(client, f"/runs/{make.finish(run, n=60).pk}"))
    assert "(how it is made: 1.96 standard errors to each side)." in shown
    stderr = 100 * run.results.get(metric="acc", subset="").stderr
    assert f"Standard error {stderr:.2f}" in shown


def test_energy_is_rated_power_times_time_for_every_device_of_a_kind() -> None:
    one, two = estimate("1 x NVIDIA L4", 3600), estimate("2 x NVIDIA L4", 1800)
    assert one
    assert two
    assert (one.kilowatt_hours, one.watts) == (pytest.approx(0.072), 72)
    assert (two.kilowatt_hours, two.watts) == (pytest.approx(0.072), 144)


@pytest.mark.parametrize(
    "device", ["", "cpu, 2 cores", "1 x NVIDIA H1000", "2 x NVIDIA L4, Tesla T4", "0 x NVIDIA L4"]
)
def test_the_energy_of_an_unknown_device_is_unknown(device: str) -> None:
    assert estimate(device, 3600) is None


@pytest.mark.parametrize(
    ("kilowatt_hours", "shown"), [(0.0004, "0.4 Wh"), (0.0838, "84 Wh"), (2.345, "2.3 kWh")]
)
def test_energy_has_two_figures(kilowatt_hours: float, shown: str) -> None:
    assert energy(kilowatt_hours) == shown


def test_energy_is_called_an_estimate_or_unknown(client: Client, run: Run) -> None:
    make.finish(run, record={"seconds": 3600.0})
    assert "Energy unknown nothing measured it" in text(get(client, f"/runs/{run.pk}"))
    Worker.objects.update(device="1 x NVIDIA L4")
    shown = text(get(client, f"/runs/{run.pk}"))
    assert "Energy about 72 Wh an estimate, not a measurement: 72 W" in shown
    assert "CO" not in shown[shown.index("Energy about") : shown.index("Started")]


def test_energy_that_was_measured_is_said_to_be_and_by_what(client: Client, run: Run) -> None:
    counted = [
        {"source": "NVML", "part": "NVIDIA L4", "joules": 120_000.0},
        {"source": "RAPL", "part": "package-0", "joules": 60_000.0},
    ]
    make.finish(run, record={"seconds": 3600.0, "energy": counted})
    Worker.objects.update(device="1 x NVIDIA L4")
    shown = text(get(client, f"/runs/{run.pk}"))
    said = "Energy 50 Wh measured while the model answered: NVIDIA L4 (NVML), package-0 (RAPL);"
    assert said in shown
    assert "estimate" not in shown[shown.index("Energy 50 Wh") : shown.index("Started")]
