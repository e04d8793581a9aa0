"""One Hub, one cache and one run of both engines for all parity tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub import ROOT, serve
from tests.parity.both import Pair, census_of, drawn_of, parts_of, run_both
from tests.parity.census import Candidate, Census


@pytest.fixture(scope="session")
def hub(test_data: Path) -> Iterator[str]:
    """The address of a Hub with the real data and the demo's models."""
    with serve([ROOT / "demo" / "content", test_data / "hub"]) as url:
        yield url


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the clients of the Hub keep what they fetched."""
    return tmp_path_factory.mktemp("hf_home")


@pytest.fixture(scope="session")
def census(test_data: Path, index: Path) -> Census:
    return census_of(test_data, index)


@pytest.fixture(scope="session")
def drawn(census: Census) -> list[Candidate]:
    return drawn_of(census)


@pytest.fixture(scope="session")
def pairs(
    drawn: list[Candidate],
    hub: str,
    home: Path,
    exported: Path,
    index: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Pair]:
    """Both engines' outcomes for every task of every part under every setting."""
    work = tmp_path_factory.mktemp("both")
    return run_both(hub, home, work, parts_of(drawn, exported), index)
