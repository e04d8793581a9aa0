"""What all tests share; `tests/settings.py` sets their environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def test_data() -> Path:
    """The folder of real benchmark data and models that PLUMBLINE_TEST_DATA names."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PLUMBLINE_TEST_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"NO TEST DATA: {folder} is no folder; set PLUMBLINE_TEST_DATA")
    return folder
