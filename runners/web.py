"""gunicorn's configuration under the supervisor."""

from __future__ import annotations

import os
import sys
from typing import Any

from runners.prctl import hide_from_peers

wsgi_app = "leaderboard.wsgi:application"
HOST = os.environ.get("PLUMBLINE_BIND") or "127.0.0.1"
bind = f"{HOST}:{os.environ.get('PLUMBLINE_PORT') or 8000}"
worker_class = "runners.web_worker.Buffered"
workers = 2
threads = 4
graceful_timeout = 3  # the supervisor kills after 8 seconds
control_socket_disable = True
loglevel = "warning"


def on_starting(_server: Any) -> None:
    """The master reads no settings of Django's, so nothing else would hide its environment."""
    hide_from_peers()


def when_ready(_server: Any) -> None:
    sys.stdout.write(f"the site is at http://{bind}\n")
    sys.stdout.flush()
