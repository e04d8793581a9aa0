"""Where the walks over the whole site go."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from django.test import Client
from django.urls import reverse

from leaderboard.models import Run, Submission
from tests.leaderboard.counting import SIGNING_UP


def public() -> list[str]:
    """Every address of the sitemap."""
    client = Client()
    files = re.findall(r"<loc>(.+?)</loc>", client.get("/sitemap.xml").content.decode())
    pages = [client.get(urlsplit(file).path).content.decode() for file in files]
    return [urlsplit(url).path for page in pages for url in re.findall(r"<loc>(.+?)</loc>", page)]


def unlisted() -> dict[str, int]:
    """The status of pages that the sitemap leaves out, and of other states of those it has."""
    done, failed, running = (
        Run.objects.filter(state=state).order_by("task__name")[0]
        for state in ("done", "failed", "running")
    )
    submission = Submission.objects.filter(runs=failed)[0]
    others = Run.objects.filter(task=done.task, state="done").exclude(pk=done.pk)
    shown = [
        *("/?style=mmlu", "/?q=nothing", "/?at=2020-01-01", "/charts?against=time"),
        *("/charts?against=tokens", "/charts?against=seconds", "/charts?against=joules"),
        *("/submit?model=not+a+model", "/submit?model=awkward/tiny-llama"),
        *(f"/runs/{run.pk}" for run in (done, failed, running)),
        *(f"/runs/{done.pk}?outcome=wrong", f"/submissions/{submission.pk}", "/models/lab/unlucky"),
        *(f"/compare?run={done.pk},{others[0].pk}", f"/runs/{done.pk}/recount"),
        *(reverse(name) for name in ("login", *SIGNING_UP, "account-deleted")),
    ]
    faults = {"/?q=%00": 400, "/fault/forbidden": 403, "/models/lab/nosuch": 404}
    faults |= {"/fault/often": 429, "/fault/broken": 500, "/fault/away": 503}
    return {**dict.fromkeys(shown, 200), **faults}


def everywhere() -> list[str]:
    """Every page that reads well, and one that is not there."""
    shown = [address for address, status in unlisted().items() if status == 200]
    return list(dict.fromkeys([*public(), *shown, "/models/lab/nosuch"]))
