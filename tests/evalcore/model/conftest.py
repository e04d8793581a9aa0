"""What tests of models share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evalcore.toys import write_toys


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the toy tasks, which tests only read."""
    return write_toys(tmp_path_factory.mktemp("toys") / "toys")
