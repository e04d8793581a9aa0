"""The site's settings under test: a home folder and a database of the test run's own.

pytest-django reads settings before any conftest, so the environment is completed here.
"""

# ruff: noqa: F403, F405
from __future__ import annotations

import atexit
import os
import shutil
import tempfile

if "PLUMBLINE_HOME" not in os.environ:
    os.environ["PLUMBLINE_HOME"] = tempfile.mkdtemp(prefix="plumbline-tests-")
    atexit.register(shutil.rmtree, os.environ["PLUMBLINE_HOME"], ignore_errors=True)
os.environ.setdefault("PLUMBLINE_TESTS_SHARED", os.environ["PLUMBLINE_HOME"])
# What earlier runs of this machine have found out of models is not to be known.
os.environ["EVALCORE_CACHE"] = os.environ["PLUMBLINE_TESTS_SHARED"] + "/evalcore"
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # Of several test processes each has a home, and with it files and a database, of its own.
    os.environ["PLUMBLINE_HOME"] += f"/{worker}"
os.environ.setdefault("PLUMBLINE_DEBUG", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# `datasets` reports each data set that is read to a server that tests do not ask for anything;
# where there is no network, it waits seconds for it.
os.environ["HF_UPDATE_DOWNLOAD_COUNTS"] = "0"

from leaderboard.settings import *

# A password takes half a second to be turned into what is kept of it: it is to be slow to guess.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# All tests come from one address; those of the limits set their own.
PLUMBLINE_CHECKS_PER_MINUTE = PLUMBLINE_SIGN_INS_PER_MINUTE = 0
PLUMBLINE_PAGES_PER_MINUTE = PLUMBLINE_DOWNLOADS_PER_MINUTE = 0
PLUMBLINE_VISITOR_QUOTA = 10_000

# A file, as in production: SQLite in memory has other locks, and one connection for all threads.
DATABASES["default"]["TEST"] = {
    "NAME": os.environ["PLUMBLINE_HOME"] + f"/test-{os.getpid()}.sqlite3"
    if DATABASES["default"]["ENGINE"].endswith("sqlite3")
    else f"plumbline_test_{os.getpid()}"
}

STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # WhiteNoise warns of a folder that is not there
