"""`python -m runners.health`: whether a worker of this machine that evaluates was seen lately.

For the check of a container: 0 where it was, 1 with a sentence where not.
"""

from __future__ import annotations

import socket
import sys

from leaderboard.environment import start_django


def main() -> int:
    start_django()
    from leaderboard.queue import live_workers

    host = f"@{socket.gethostname()}"
    if any(worker.name.endswith(host) for worker in live_workers()):
        return 0
    sys.stderr.write(
        f"no worker {host} was seen for minutes: it does not run, or without its database\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
