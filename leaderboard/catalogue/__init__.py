"""The suites and task versions as the site knows them, and how they are cited.

`manage.py sync_tasks` imports `sync` by itself: it loads the engine's library of tasks.
"""

from leaderboard.catalogue.cite import LICENCE, Citation, bibtex
from leaderboard.catalogue.suites import (
    among,
    every_suite,
    find_suite,
    newest_suite,
    suite_asked_for,
    suites_called,
)

__all__ = [
    "LICENCE",
    "Citation",
    "among",
    "bibtex",
    "every_suite",
    "find_suite",
    "newest_suite",
    "suite_asked_for",
    "suites_called",
]
