"""`python -m runners.health`: whether this machine's evaluating worker was seen lately.

For the check of a container: 0 where it was, 1 with a sentence where not.
"""

from __future__ import annotations

import socket
import sys

import django


def main() -> int:
    django.setup()
    from leaderboard.queue import live_workers

    name = f"evaluate@{socket.gethostname()}"
    if any(worker.name == name for worker in live_workers()):
        return 0
    sys.stderr.write(f"{name} was not seen for minutes: it does not run, or without its broker\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
