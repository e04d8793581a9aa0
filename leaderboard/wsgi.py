"""The site as a WSGI application, for gunicorn: `gunicorn leaderboard.wsgi`."""

import os

import scipy.stats  # noqa: F401 takes a second, which no reader's first request shall wait for
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "leaderboard.settings")

application = get_wsgi_application()
