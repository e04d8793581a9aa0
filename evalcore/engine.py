"""Which engine this is, and since when its process runs."""

from __future__ import annotations

import time

VERSION = "0.1.0"

IMPORTED_AT = time.monotonic()
"""The start of a command, but for that of Python itself."""
