"""Which engine this is, and since when its process runs."""

from __future__ import annotations

import time

VERSION = "0.1.0"

IMPORTED_AT = time.monotonic()
"""The start of a command, but for that of Python itself."""

COLLECTIONS = (10_000, 20, 50)
"""How seldom Python looks for garbage: what a command imports stays, and to look among it again and
again took a fifth of the time that torch and transformers need to load."""
