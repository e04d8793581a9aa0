"""The model of which there are copies, and one copy of it in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import tiny
from tests.evalcore.model.asking import load


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("model") / "llama", positions=1024)


@pytest.fixture(scope="session")
def one(folder: Path) -> Any:
    return load(folder)
