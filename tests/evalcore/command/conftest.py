"""A Hub with a model and data sets, and task files, for commands that are run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tiny
from tests.evalcore.toys import write_toys
from tests.hub import serve


@pytest.fixture(scope="session")
def hub(test_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Hub that has the model `tiny/llama` and the data sets of our tasks."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "models" / "tiny").mkdir(parents=True)
    tiny.make(folder / "models" / "tiny" / "llama", positions=1024)
    with serve([folder, test_data / "hub"]) as url:
        yield url


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    """The folder of the toys' task files."""
    return write_toys(tmp_path / "toys")
