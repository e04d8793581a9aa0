"""gunicorn's configuration under the supervisor."""

from __future__ import annotations

import ipaddress
import logging
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from evalcore.sandbox.prctl import hide_from_peers
from leaderboard import environment as env
from leaderboard import logs

wsgi_app = "leaderboard.wsgi:application"
HOST = ipaddress.ip_address(env.address("PLUMBLINE_BIND", "127.0.0.1"))
bind = f"{f'[{HOST}]' if HOST.version == 6 else HOST}:{os.environ.get('PLUMBLINE_PORT') or 8000}"
worker_class = "leaderboard.web_server.Buffered"
workers = 2
threads = 4
graceful_timeout = 3  # the supervisor kills after 8 seconds
control_socket_disable = True
loglevel = "warning"
LOG = os.environ.get("PLUMBLINE_LOG")
if LOG == logs.JSON:
    logconfig_dict = logs.configuration(LOG)
    logconfig_dict["loggers"]["gunicorn.error"] = {"level": "WARNING", "propagate": True}
COUNTS = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which each process counts its requests; prometheus-client looks for it when
it is imported, so it is set before any process loads the site."""


def on_starting(server: Any) -> None:
    # The master reads no settings of Django's, so nothing else would hide its environment.
    hide_from_peers()
    if not (HOST.is_loopback or os.environ.get("PLUMBLINE_HOSTS")):
        server.log.warning(
            "PLUMBLINE_BIND=%s, but PLUMBLINE_HOSTS is not set: whoever asks for another name than "
            "127.0.0.1 or localhost is answered 400; set it to the names of this site",
            HOST,
        )
    os.environ[COUNTS] = tempfile.mkdtemp(prefix="plumbline-metrics-")


def post_worker_init(_worker: Any) -> None:
    """Say where the site is as soon as a process of it can answer, whichever is first, once."""
    try:
        (Path(os.environ[COUNTS]) / "said").touch(exist_ok=False)
    except FileExistsError:
        return
    said = f"the site is at http://{bind}"
    if LOG == logs.JSON:
        logging.getLogger(__name__).info(said)
        return
    sys.stdout.write(f"{said}\n")
    sys.stdout.flush()


def child_exit(_server: Any, worker: Any) -> None:
    """What a process has counted stays counted; only what was true of it alone goes."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def on_exit(_server: Any) -> None:
    shutil.rmtree(os.environ[COUNTS], ignore_errors=True)
