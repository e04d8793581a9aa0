"""One set of awkward models and one Hub that serves them, for all tests that only read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.awkward import build
from tests.hub import serve


@pytest.fixture(scope="session")
def content(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("content"))


@pytest.fixture(scope="session")
def hub(content: Path) -> Iterator[str]:
    with serve([content]) as url:
        yield url
