"""docs/parity.md says what the tests prove: it is written by a command and never by hand."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator

import pytest

from tests.hub import ROOT
from tests.parity.both import FAMILIES
from tests.parity.census import SEED, Candidate, Census, draw
from tests.parity.commands import CASES
from tests.parity.report import (
    DOCUMENT,
    behind_servers,
    by_vllm,
    hearing,
    put_on_models,
    quantised,
    seeing,
    shared_names,
)

needs_lm_eval = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]
AGAIN = "write it again: python -m tests.parity.report"


@pytest.fixture(scope="module")
def written() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


def test_every_family_and_every_model_is_in_the_document(written: str) -> None:
    families = {path.name for path in FAMILIES.glob("*.yaml") if path.name != "subgroup.yaml"}
    assert {name for name in families if f"`{name}`" not in written} == set(), AGAIN
    assert [case.name for case in CASES if f"| {case.name} |" not in written] == [], AGAIN


def test_the_document_knows_of_no_difference(written: str) -> None:
    counted = [
        line.rsplit("|", 2)[-2].strip()
        for table in re.findall(
            r"^\| .*differences \|\n\|(?: --- \|)+\n((?:\|.*\n)+)", written, re.M
        )
        for line in table.splitlines()
    ]
    assert len(counted) > 60
    assert set(counted) == {"0"}


@pytest.mark.parametrize(
    "part", [shared_names, put_on_models, seeing, hearing, quantised, by_vllm, behind_servers]
)
def test_a_part_without_figures_is_as_the_command_writes_it(
    written: str, part: Callable[[], Iterator[str]]
) -> None:
    assert "\n".join(part()) in written, AGAIN


def test_every_test_that_the_document_names_is_there(written: str) -> None:
    """By its path, or by its name alone within a folder that was named before it."""
    named = set(re.findall(r"`(?:tests/\S+/)?(test_\w+\.py)`", written))
    assert len(named) > 15
    assert named - {path.name for path in (ROOT / "tests").rglob("test_*.py")} == set()
    paths = set(re.findall(r"`(tests/\S+\.py)`", written))
    assert [path for path in paths if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize("size", [0, 1, 7, 40])
def test_a_draw_takes_from_every_folder_before_it_takes_twice_from_one(size: int) -> None:
    candidates = [
        Candidate(f"folder {number % 7}", "multiple_choice", f"task {number}", "data")
        for number in range(40)
    ]
    drawn = draw(candidates, size, seed=3)
    assert len(set(drawn)) == size
    assert drawn == draw(candidates[::-1], size, seed=3)
    per_folder = [
        sum(candidate.folder == f"folder {number}" for candidate in drawn) for number in range(7)
    ]
    assert max(per_folder) - min(per_folder) <= 1


class TestAgainstTheFolder:
    pytestmark = needs_lm_eval

    def test_the_document_lists_what_is_drawn(
        self, written: str, census: Census, drawn: list[Candidate]
    ) -> None:
        assert [
            candidate.name for candidate in drawn if f"`{candidate.name}`" not in written
        ] == [], AGAIN
        assert f"seed {SEED}" in " ".join(written.split())
        assert f"{len(census.candidates)} have" in " ".join(written.split())
