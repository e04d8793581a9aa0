"""The site as a WSGI application, for gunicorn (`leaderboard/gunicorn_config.py`)."""

import atexit
import gc
import os
import threading
from wsgiref.util import setup_testing_defaults

import scipy.stats  # noqa: F401 takes its time, which no reader's first request shall wait for
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")

WARM_UP_SECONDS = 15.0
"""For so long at most the process waits before it takes requests; gunicorn gives it thirty."""

application = get_wsgi_application()


def warm_up() -> None:
    """Show boards and queue once, so that no reader waits for what is done once a process."""
    from django.conf import settings
    from django.db import DatabaseError, connection
    from django.urls import reverse

    from leaderboard.board import BoardQuery
    from leaderboard.snapshot import (
        EVERY,
        published,  # tables can be imported only after the setup
    )

    try:
        for style in published.styles_shown(settings.PLUMBLINE_SUITE):
            address = reverse("styles") if style == EVERY else BoardQuery(style=style).url()
            _show(address, settings.ALLOWED_HOSTS[0])
        _show(reverse("queue"), settings.ALLOWED_HOSTS[0])
    except (DatabaseError, OSError):
        pass  # a database that is not there yet, or a lost file: the pages will say so
    finally:
        connection.close()
    # A full pass of the collector over all that was loaded would hold up a request now and then.
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else it would not be cleared away at the end of the process


def _show(address: str, host: str) -> None:
    """As to a reader, through everything that a request passes."""
    from leaderboard.health import UNCOUNTED

    path, _, query = address.partition("?")
    environ: dict[str, object] = {
        UNCOUNTED: True,
        "HTTP_HOST": host.lstrip(".*") or "localhost",
        "HTTP_X_FORWARDED_PROTO": "https",
        "HTTP_ACCEPT_ENCODING": "gzip",
        "PATH_INFO": path,
        "QUERY_STRING": query,
    }
    setup_testing_defaults(environ)
    application.get_response(application.request_class(environ)).close()


# In a thread of its own: a database that does not answer must not keep the process from starting.
_warming = threading.Thread(target=warm_up, daemon=True)
_warming.start()
_warming.join(WARM_UP_SECONDS)
