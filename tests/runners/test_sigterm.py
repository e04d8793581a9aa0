"""A worker that is asked to stop gives its runs back within ten seconds, whatever it is at."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import databases
from tests.hub import get_json, serve, set_faults
from tests.runners import place

SUBMIT = f"""
from django.contrib.auth.models import AnonymousUser
from leaderboard.submissions import submit
submit.submit({place.MODEL!r}, user=AnonymousUser())
"""
RUNS = "print(*Run.objects.values_list('state', 'attempt', 'lease_token'))"
GIVEN_BACK = "('queued', 0, None) ('queued', 0, None)"
SECONDS = 10.0
SLOW_PROMPTS = """\
import sys, time
def as_they_are(dataset):
    return dataset.map(lambda doc: {"question": doc["question"]})
def slowly(doc):
    print("a prompt is rendered", file=sys.stderr, flush=True)
    for _ in range(600):
        time.sleep(0.1)
    return doc["question"]
"""
DOC_TO_TEXT = 'doc_to_text: "Question: {{question}}\\nAnswer:"'


@dataclass
class Site:
    """A prepared home with a submission that waits; its worker is the test's to start."""

    variables: dict[str, str]
    hub: str
    home: Path
    onlooker: place.Onlooker

    def log(self) -> str:
        """What the worker and its children said."""
        return "".join(log.read_text() for log in self.home.glob("**/*log"))

    def stopped_when(self, at_work: Callable[[], bool]) -> float:
        """Start a worker, stop it by SIGTERM when it is at work; the seconds until it was gone."""
        with (self.home / "worker.log").open("ab") as output:
            worker = subprocess.Popen(
                [sys.executable, "-m", "runners", "evaluate"],
                cwd=place.ROOT, env=self.variables, stdout=output, stderr=output,
            )  # fmt: skip
        try:
            place.wait_until(at_work, place.STARTS_WITHIN, lambda: self.log()[-5000:])
            sent = time.monotonic()
            worker.send_signal(signal.SIGTERM)
            worker.wait(60)
            return time.monotonic() - sent
        finally:
            worker.kill()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("sigterm")
    tasks, home = place.write_tasks(folder / "tasks"), folder / "home"
    (tasks / "documents.py").write_text(SLOW_PROMPTS)
    for task in tasks.glob("*.yaml"):
        text = task.read_text()
        assert DOC_TO_TEXT in text
        task.write_text(text.replace(DOC_TO_TEXT, "doc_to_text: !function documents.slowly"))
    databases.begin_at(home)
    (home / "secret_key").write_text("a key of the test's own, long enough for Django")
    with serve([place.write_content(folder / "content", rows=12)]) as hub:
        variables = place.environment(home, tasks, hub)
        variables["PLUMBLINE_SECRET_KEY_FILE"] = str(home / "secret_key")
        variables["DJANGO_SETTINGS_MODULE"] = "leaderboard.settings"
        subprocess.run(
            [sys.executable, "-m", "runners.prepare"], cwd=place.ROOT, env=variables, check=True
        )
        onlooker = place.Onlooker(variables)
        try:
            onlooker.ask(SUBMIT)
            yield Site(variables, hub, home, onlooker)
        finally:
            onlooker.end()


def test_while_the_hub_is_slow(site: Site) -> None:
    most = 1000
    set_faults(site.hub, [{"match": "*datasets/*/resolve/*", "delay": 120.0, "times": most}])
    try:
        took = site.stopped_when(lambda: get_json(site.hub, "/_faults")[0]["times"] < most)
    finally:
        set_faults(site.hub, [])
    assert took < SECONDS
    assert site.onlooker.ask(RUNS) == GIVEN_BACK


def test_while_prompts_are_rendered(site: Site) -> None:
    took = site.stopped_when(lambda: "a prompt is rendered" in site.log())
    assert took < SECONDS
    assert site.onlooker.ask(RUNS) == GIVEN_BACK
