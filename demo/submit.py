"""`python -m demo.submit URL FOLDER`: submit a folder's models by the site's own form, and watch.

Ends with 0 when the board ranks all of them, with 1 and the reason where it never will. With
`--stay` it goes on until it is stopped, so that the tree that it is part of does, too.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import httpx2

from demo.page import Page

START_SECONDS = 90.0
BOARD_SECONDS = 60.0
"""After the last result: a board is built in the background."""
EVERY = 2.0
SUBMISSION = r"/submissions/[0-9a-f-]{36}"


class NotFilled(Exception):
    """The board will not be filled; the message says why."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.submit", description=__doc__)
    parser.add_argument("url", help="address of the site")
    parser.add_argument("folder", type=Path, help="holds models/<organisation>/<name>/")
    parser.add_argument("--within", type=float, metavar="SECONDS", default=float("inf"))
    parser.add_argument("--stay", action="store_true", help="go on when the board is filled")
    parser.add_argument(
        "--leave-one", action="store_true", help="leave the last model for the reader to submit"
    )
    options = parser.parse_args()
    models = sorted(models_in(options.folder))
    left = models.pop() if options.leave_one else None
    try:
        # A connection for each request: one that is kept is closed by the site after two seconds,
        # which is when we come back.
        limits = httpx2.Limits(max_keepalive_connections=0)
        with httpx2.Client(base_url=options.url, timeout=30, limits=limits) as site:
            fill(site, models, options.within)
            # A model that nobody submitted has no page.
            nobody_has = left and site.get(f"/models/{left}").status_code == 404
        say(f"\n\n    The board is filled: {options.url}")
        if nobody_has:
            say(f"    Your turn: submit {left} at {options.url}/submit")
        say("    Ctrl-C stops everything.\n")
    except NotFilled as problem:
        say(f"the board is not filled: {problem}")
        if not options.stay:
            return 1
    while options.stay:
        signal.pause()
    return 0


def models_in(folder: Path) -> Iterable[str]:
    for config in (folder / "models").glob("*/*/config.json"):
        yield f"{config.parent.parent.name}/{config.parent.name}"


def fill(site: httpx2.Client, models: list[str], seconds: float) -> None:
    """Submit what is not there yet, and wait until the board ranks every model."""
    deadline = time.monotonic() + seconds
    if not models:
        raise NotFilled("there are no models to submit")
    wait_for(site)
    say(f"the site answers at {site.base_url}; submitting {len(models)} models")
    waiting = {model: submit(site, model) for model in models}
    said: dict[str, str] = {}
    while waiting:
        for model, submission in list(waiting.items()):
            state = how_far(Page(site.get(submission).raise_for_status().text))
            if state != said.get(model):
                say(f"{model}: {state}")
                said[model] = state
            if "failed" in state:
                raise NotFilled(f"{model}: {state}; see {site.base_url.join(submission)}")
            if state.startswith("all"):
                del waiting[model]
        if time.monotonic() > deadline:
            raise NotFilled(f"{', '.join(waiting)} not done within {seconds:.0f} seconds")
        time.sleep(EVERY if waiting else 0)
    board_deadline = time.monotonic() + BOARD_SECONDS
    while True:
        ranked = set(Page(site.get("/").raise_for_status().text).ranked_models())
        missing = set(models) - ranked
        if not missing:
            return
        if time.monotonic() > board_deadline:
            raise NotFilled(f"the board does not rank {', '.join(sorted(missing))}")
        time.sleep(EVERY)


def wait_for(site: httpx2.Client) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            if site.get("/healthz").is_success:
                return
        except httpx2.TransportError:
            pass  # not listening yet
        if time.monotonic() > deadline:
            raise NotFilled(f"the site did not answer within {START_SECONDS:.0f} seconds")
        time.sleep(0.2)


def submit(site: httpx2.Client, model: str) -> str:
    """The address of the model's submission: of a new one, or of the one that was there."""
    form = Page(site.get("/submit").raise_for_status().text)
    # Two models of the demo may have equal weights: the form would ask first.
    fields = {**form.hidden, "model": model, "revision": "main", "do": "copy"}
    deadline = time.monotonic() + START_SECONDS
    answer = site.post("/submit", data=fields)
    while answer.status_code == 202 and time.monotonic() < deadline:  # the Hub is being asked
        time.sleep(0.5)
        answer = site.post("/submit", data=fields)
    if answer.is_redirect:
        say(f"{model}: submitted")
        return answer.headers["location"]
    page = Page(answer.text)
    if existing := page.link(SUBMISSION):
        return existing
    reasons = " ".join(page.problems) or page.text[-600:]
    raise NotFilled(f"{model} was refused ({answer.status_code}): {reasons}")


def how_far(page: Page) -> str:
    """The sentence of a submission's page that counts its runs."""
    if done := re.search(r"All (\d+) runs? done", page.text):
        return f"all {done[1]} runs done"
    counted = re.search(r"\d+ of \d+ runs? done(?:, \d+ failed)?", page.text)
    if not counted:
        raise NotFilled(f"a submission's page counts no runs: {page.text[:300]}")
    return counted[0]


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
