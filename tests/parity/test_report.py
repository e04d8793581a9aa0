"""docs/parity.md says what the tests prove: it is written by a command and never by hand."""

from __future__ import annotations

import re

import pytest

from tests.parity.both import FAMILIES
from tests.parity.census import Candidate, draw
from tests.parity.commands import CASES
from tests.parity.report import DOCUMENT, TEMPLATE, lists_of_tests

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


def test_the_words_are_those_of_the_template(written: str) -> None:
    paragraphs = TEMPLATE.read_text(encoding="utf-8").rstrip().split("\n\n")
    assert [one for one in paragraphs if "{" not in one and one not in written] == [], AGAIN
    assert [one for one in lists_of_tests().values() if one not in written] == [], AGAIN


def test_a_draw_takes_from_every_folder_before_it_takes_twice_from_one() -> None:
    candidates = [
        Candidate(f"folder {number % 7}", "multiple_choice", f"task {number}", "data")
        for number in range(40)
    ]
    drawn = draw(candidates, 16, seed=3)
    assert len(set(drawn)) == 16
    assert drawn == draw(candidates[::-1], 16, seed=3)
    per_folder = [
        sum(candidate.folder == f"folder {number}" for candidate in drawn) for number in range(7)
    ]
    assert max(per_folder) - min(per_folder) <= 1
