"""From the form to the board over HTTP: the real process tree, one of whose workers is killed."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import httpx

from tests.hub import serve
from tests.runners import place

ROWS, WORDS = 801, 20
"""Questions, and words in each: seconds of work after the first answer, to be struck in."""
JOURNALLED = """
import json
from leaderboard.samples import store as artifacts
records = [json.load(artifacts.open(a.sha256)) for a in Artifact.objects.filter(kind="record")]
print(sum(record["requests"]["journalled"] for record in records))
"""
DONE = "print(*(run.events.filter(state='done').count() for run in Run.objects.all()))"
VALUE = "print(Result.objects.get(run__task__name='counting', subset='').value)"


def submit(visitor: httpx.Client, model: str) -> httpx.Response:
    """Fill in the form and send it, as a browser does."""
    form = visitor.get("/submit").raise_for_status().text
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
    assert token is not None
    fields = {"csrfmiddlewaretoken": token[1], "model": model}
    while (answer := visitor.post("/submit", data=fields)).status_code == 202:
        time.sleep(0.5)  # the Hub is being asked
    return answer.raise_for_status()


def row_of(model: str, board: str) -> str:
    """The row that links to the model: a band's heading names its leader too, without numbers."""
    found = [row for row in board.split("<tr")[1:] if f'href="/models/{model}"' in row]
    return found[0].partition("</tr>")[0] if found else ""


def test_a_submission_comes_to_the_board_although_its_worker_is_killed_meanwhile(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    content = place.write_content(tmp_path / "content", rows=ROWS, words=WORDS)
    tasks = place.write_tasks(tmp_path / "tasks")
    with serve([content]) as hub:
        variables = place.environment(home, tasks, hub)
        address = f"http://127.0.0.1:{variables['PLUMBLINE_PORT']}"
        visitor = httpx.Client(base_url=address, timeout=place.STARTS_WITHIN, follow_redirects=True)
        with visitor, place.tree(variables, tmp_path / "log") as tree:
            tree.wait_for_site()
            page = submit(visitor, place.MODEL)
            assert page.url.path.startswith("/submissions/")
            assert page.text.count('href="/runs/') >= 2

            tree.wait_for_answers()
            worker = tree.part("worker", "evaluate")
            below = worker.children(recursive=True)
            assert below
            worker.kill()
            place.wait_until(lambda: place.are_gone(below), place.STARTS_WITHIN, tree.told)
            assert tree.ask(place.STATES) == "running running"
            tree.ask(place.LET_LEASES_RUN_OUT)
            tree.wait_for(place.STATES, "done done")
            assert tree.process.poll() is None
            assert tree.part("worker", "evaluate").pid != worker.pid
            # What the worker had not yet begun is not charged with its death.
            assert "2" in tree.ask(place.ATTEMPTS)
            assert tree.ask(DONE) == "1 1"
            assert int(tree.ask(JOURNALLED)) > 0, "its answers were kept"

            shown = f"{100 * float(tree.ask(VALUE)):.1f}"
            place.wait_until(
                lambda: shown in row_of(place.MODEL, visitor.get("/").text),
                place.STARTS_WITHIN,
                tree.told,
            )
            tree.ends(signal.SIGINT)
    modes = {file.name: file.stat().st_mode & 0o777 for file in (home, *home.iterdir())}
    assert modes["home"] == 0o700
    assert {modes[name] for name in modes if name.startswith(("secret", "db."))} == {0o600}
