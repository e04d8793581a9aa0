"""Pictures of browser tests: steps are numbered, and a failing test leaves its pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub import ROOT

pytestmark = pytest.mark.browser

TESTS = """
import pytest

@pytest.fixture
def page(chromium):
    context = chromium.new_context()
    yield context.new_page()
    context.close()

def test_well(page, shot):
    page.set_content("<h1>First</h1>")
    shot(page, "the first")
    page.set_content("<h1>Second</h1>")
    shot(page, "the second")

@pytest.mark.parametrize("look", ["wide/dark"])
def test_badly(page, look):
    page.set_content("<h1>As it was</h1>")
    assert page.locator("h1").inner_text() == "As it should be"
"""


def test_steps_are_numbered_and_a_failing_test_leaves_its_pages(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    stale = tmp_path / "shots" / "some" / "well" / "03-stale.png"
    stale.parent.mkdir(parents=True)
    stale.touch()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest"),
            *("-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")),
            *("--rootdir", str(tmp_path), str(tmp_path)),
        ],
        env={**os.environ, "PLUMBLINE_ARTIFACTS": str(tmp_path / "shots")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout[-3000:]
    left = sorted(path.relative_to(tmp_path / "shots") for path in tmp_path.rglob("*.png"))
    failed = Path("some/badly-wide-dark/failed-1.png")
    assert left == [failed, Path("some/well/01-the-first.png"), Path("some/well/02-the-second.png")]
    assert f"about:blank: {tmp_path / 'shots' / failed}" in done.stdout
    assert all((tmp_path / "shots" / path).read_bytes()[1:4] == b"PNG" for path in left)
