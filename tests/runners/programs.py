"""The escapes as programs that a model wrote: one passes where what it tries is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from evalcore.task.transforms.code_sandbox import Isolation, passes
from tests.runners import escapes

SYSTEM_PYTHON = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
"""Outside root's home, where the tests' own may lie: every user can start it."""
PROGRAM = """
os.environ["TMPDIR"] = os.getcwd()
(came_of,) = attempt([json.loads({order!r})]).values()
assert came_of.startswith("refused")
"""


def escaped_as_programs(orders: Sequence[tuple[str, str, Any]], how: Isolation) -> list[str]:
    """The names of those orders (see `escapes.attempt`) that a program carries out."""
    source = Path(escapes.__file__).read_text()
    programs = [source + PROGRAM.format(order=json.dumps(order)) for order in orders]
    with ThreadPoolExecutor(2) as pool:
        refused = list(pool.map(partial(passes, how=how), programs))
    return sorted(name for (name, *_), held in zip(orders, refused, strict=True) if not held)
