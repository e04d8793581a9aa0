"""The site as a WSGI application, for gunicorn: `gunicorn leaderboard.wsgi`."""

import atexit
import gc
import os
import threading

import scipy.stats  # noqa: F401 takes a second, which no reader's first request shall wait for
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")

application = get_wsgi_application()


def warm_up() -> None:
    """In a thread of its own, so that the process answers at once."""
    from django.conf import settings
    from django.db import DatabaseError, connection

    from leaderboard import snapshots  # tables can be imported only after the setup
    from leaderboard.pages import board, kept

    try:
        kept.release()
        board.compile_templates()
        snapshots.warm_up(settings.PLUMBLINE_SUITE)
    except (DatabaseError, OSError):
        pass  # a database that is not there yet, or a lost file: the pages will say so
    finally:
        connection.close()
    # A full pass of the collector over all that was loaded would hold up a request now and then.
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else it would not be cleared away at the end of the process


threading.Thread(target=warm_up, daemon=True).start()
