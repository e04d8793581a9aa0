"""`python -m evalcore` and the command `evalcore`."""

from __future__ import annotations

import sys

from evalcore.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
