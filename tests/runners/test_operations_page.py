"""Commands of docs/operations.md as printed, with no variable set but those that it names."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from demo.__main__ import make_account
from tests import generated
from tests.runners import place
from tests.runners.place import ROOT, STARTS_WITHIN, printed, wait_until
from tests.services import free_port

PAGE = ROOT / "docs" / "operations.md"
BOARD = """
import os, django
os.environ["DJANGO_SETTINGS_MODULE"] = "leaderboard.settings"
django.setup()
from django.test import Client
from leaderboard.models import Run
client = Client(headers={"host": "127.0.0.1"})
print(client.get("/board.csv").getvalue().decode())
run = Run.objects.filter(artifacts__kind="samples").order_by("pk")[0]
samples = b"".join(client.get(f"/runs/{run.pk}/samples.parquet"))
import hashlib; print(len(samples), hashlib.sha256(samples).hexdigest())
"""


def commands(*titles: str) -> str:
    """The page's commands under these titles, in this order."""
    blocks = dict(re.findall(r"```bash (\w+ \w+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    return "set -e\n" + "".join(blocks[title] for title in titles)


def ran(*command: str, **variables: str) -> str:
    return printed(command, environment(**variables))


def environment(**variables: str) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": os.environ["HOME"],
        "PLUMBLINE_SUITE": "generated",
        **variables,
    }


@pytest.fixture
def databases() -> tuple[str, list[dict[str, str]]]:
    """Its kind, and what names one database and another; `test_services` has PostgreSQL."""
    return "sqlite", [{}, {}]


def test_a_board_that_was_backed_up_is_restored_as_it_was(
    tmp_path: Path, databases: tuple[str, list[dict[str, str]]]
) -> None:
    kind, (one, other) = databases
    before = {"PLUMBLINE_HOME": str(tmp_path / "before"), **one}
    after = {"PLUMBLINE_HOME": str(tmp_path / "after"), **other}
    backup = {"BACKUP": str(tmp_path / "backup")}
    if kind == "sqlite":
        generated.copy_to(tmp_path / "before")
    else:
        ran(sys.executable, "-m", "demo.generated", *generated.SMALL, **before)
    shown = ran(sys.executable, "-c", BOARD, **before)
    ran("bash", "-c", commands(f"backup {kind}", "backup files"), **before, **backup)
    (tmp_path / "before").rename(tmp_path / "gone")
    said = ran("bash", "-c", commands(f"restore {kind}", "restore files"), **after, **backup)
    assert said.splitlines()[-1] == "0 faults"
    assert ran(sys.executable, "-c", BOARD, **after) == shown
    assert len(shown.splitlines()) > 14


def test_manage_py_finds_what_the_tree_keeps_in_its_home(tmp_path: Path) -> None:
    generated.copy_to(tmp_path)
    home = {"PLUMBLINE_HOME": str(tmp_path)}
    assert (tmp_path / "secret_key").is_file()
    ran("python", "-m", "runners", "prepare", **home)
    account = ["createsuperuser", "--noinput", "--username", "ada", "--email", ""]
    ran("python", "manage.py", *account, **home, DJANGO_SUPERUSER_PASSWORD="of a test")
    assert ran("python", "manage.py", "role", "ada", **home) == "ada is operator\n"
    assert "bench-1\tinvented GPU" in ran("python", "manage.py", "pool", **home)
    assert ran("python", "manage.py", "check_artifacts", **home).endswith("0 faults\n")
    health = [sys.executable, "-m", "runners", "health"]
    told = subprocess.run(health, env=home, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr[:11]) == (1, "no worker @")


OWN = {
    "/var/lib/plumbline": "{home}",
    "/etc/plumbline": "{home}",
    "0.3.1": "0.1.0",  # by which the invented results are
    "NAME@VERSION": "{task}",
}
"""What a reader replaces by their own, and the test by its."""
ELSEWHERE = {
    "make setup": "has made the environment of these tests",
    "evalcore pin --update": "asks the Hub and rewrites tasks/pins.lock",
    "export PLUMBLINE_DATABASE_URL": "tests/runners/test_services.py has such servers",
    "export PLUMBLINE_BROKER_URL": "the same",
    "export PLUMBLINE_S3_BUCKET": "tests/leaderboard/samples has such a bucket",
}
"""Lines by how they begin, and why they are not run here."""
FLOWER = "celery -A runners flower"
BLOCKS = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def site_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    generated.copy_to(home)
    return home


@contextmanager
def worker(home: dict[str, str]) -> Iterator[None]:
    """One that answers Celery's commands."""
    command = place.worker_command("--devices", "cpu")
    with subprocess.Popen(command, cwd=ROOT, env=environment(**home)) as running:
        ping = ["celery", "-A", "runners", "inspect", "ping"]

        def answers() -> bool:
            assert running.poll() is None
            asked = subprocess.run(ping, cwd=ROOT, env=environment(**home), check=False)
            return asked.returncode == 0

        try:
            wait_until(answers, STARTS_WITHIN, lambda: "no worker answers")
            yield
        finally:
            running.terminate()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[-1][:40])
def test_every_block_of_the_page_runs_as_printed(site_home: Path, block: str) -> None:
    """In the order of the page, on one site, in an environment with nothing else set."""
    home = {"PLUMBLINE_HOME": str(site_home), "PLUMBLINE_PORT": str(free_port())}
    for written, own in OWN.items():
        if written in block:
            task = a_task(site_home) if "task" in own else ""
            block = block.replace(written, own.format(home=site_home, task=task))
    lines = [re.sub(r"\s+#.*", "", line) for line in block.splitlines()]
    lines = [line for line in lines if not line.startswith(tuple(ELSEWHERE))]
    *before, last = lines
    stays = last.startswith("python -m runners") and not last.endswith(" prepare")
    if not stays and not last.startswith(FLOWER):
        with worker(home) if "celery -A runners inspect" in block else nullcontext():
            ran("bash", "-c", "\n".join(["set -e", *lines]), **home)
        return
    script = "\n".join(["set -e", *before, f"exec {last}"])
    with (site_home / "said").open("w") as said:
        started = subprocess.Popen(
            ["bash", "-c", script], cwd=ROOT, env=environment(**home), stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip

    def told() -> str:
        return (site_home / "said").read_text()[-3000:]

    def at_work() -> bool:
        assert started.poll() is None, told()
        if last.endswith("evaluate"):
            health = [sys.executable, "-m", "runners", "health"]
            done = subprocess.run(health, env=environment(**home), cwd=ROOT, check=False)
            return done.returncode == 0
        if last.startswith(FLOWER):
            return "Visit me at http" in told()
        return "the site is at http" in told()

    try:
        wait_until(at_work, STARTS_WITHIN, told)
        started.terminate()
        assert started.wait(STARTS_WITHIN) == 0, told()
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)


def a_task(home: Path) -> str:
    """That has results on this site."""
    code = (
        "from leaderboard.models import Run; "
        "task = Run.objects.filter(state='done').order_by('pk')[0].task; "
        "print(f'{task.name}@{task.version}')"
    )
    said = ran("python", "manage.py", "shell", "-c", code, PLUMBLINE_HOME=str(home))
    return said.splitlines()[-1]


def test_the_demo_makes_an_operator_once_and_says_the_password_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generated.copy_to(tmp_path)
    variables = {"HOME": os.environ["HOME"], "PLUMBLINE_HOME": str(tmp_path)}
    make_account(variables, "http://board")
    said = capsys.readouterr().out
    password = re.search(r"http://board/accounts/login as operator, password (\S+)$", said, re.M)
    assert password
    signed_in = f"authenticate(username='operator', password={password[1]!r}).is_superuser"
    code = f"from django.contrib.auth import authenticate; print({signed_in})"
    assert ran("python", "manage.py", "shell", "-c", code, **variables).splitlines()[-1] == "True"
    make_account(variables, "http://board")
    said = capsys.readouterr().out
    assert "as operator; " in said
    assert "password " + password[1] not in said


@pytest.mark.parametrize(
    "words", [["manage.py", "pool"], ["-m", "runners", "health"], ["-m", "runners", "prepare"]]
)
def test_where_no_key_is_kept_a_sentence_says_how_to_come_to_one(
    tmp_path: Path, words: list[str]
) -> None:
    told = subprocess.run(
        [sys.executable, *words],
        env={"PLUMBLINE_HOME": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1
    assert told.stderr.startswith("plumbline: PLUMBLINE_SECRET_KEY is not set: ")
    assert f"start `python -m runners` once, which keeps one in {tmp_path}" in told.stderr
