"""The site's settings under test: a home folder of the test run's own.

pytest-django reads settings before any conftest, so the environment is completed here.
"""

# ruff: noqa: E402, F403
from __future__ import annotations

import atexit
import os
import shutil
import tempfile

if "PLUMBLINE_HOME" not in os.environ:
    os.environ["PLUMBLINE_HOME"] = tempfile.mkdtemp(prefix="plumbline-tests-")
    atexit.register(shutil.rmtree, os.environ["PLUMBLINE_HOME"], ignore_errors=True)
os.environ.setdefault("PLUMBLINE_DEBUG", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from leaderboard.settings import *
