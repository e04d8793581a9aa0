"""Users that root lends to models' processes: each its own, and what they had comes back."""

from __future__ import annotations

import os
import re
import signal
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any

import psutil
import pytest

from runners import confinement, other_user, owned
from runners.confinement import Needs
from runners.folders import DEEPEST
from runners.kept import Keeper
from tests.runners import rows
from tests.runners.conftest import SYSTEM_PYTHON, keep_to, let_others_start_the_stand_in
from tests.runners.place import STARTS_WITHIN, environment_of_site, printed, wait_until
from tests.runners.rows import evaluate_next
from tests.runners.standin import dig

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")


def no_wait() -> None:
    raise AssertionError("somebody waits for a user")


@pytest.fixture(autouse=True)
def home(passed_folder: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = passed_folder / "home"
    home.mkdir(mode=0o700)
    settings.PLUMBLINE_HOME = home
    monkeypatch.delenv("HF_HOME", raising=False)
    return home


def folder(home: Path, name: str) -> Path:
    made = home / name
    made.mkdir(parents=True)
    return made


def does(user: int, program: str) -> subprocess.CompletedProcess[str]:
    """What another user does."""
    return subprocess.run(
        ["/bin/sh", "-c", program],
        user=user, group=user, extra_groups=[], capture_output=True, text=True, check=False,
    )  # fmt: skip


def owner_and_mode(place: Path) -> tuple[int, int]:
    status = place.lstat()
    return status.st_uid, stat.S_IMODE(status.st_mode)


def test_a_user_has_its_own_folder_and_nothing_of_another_or_of_us(home: Path) -> None:
    secret = home / "db.sqlite3"
    secret.write_text("secret")
    one, other = folder(home, "work/one"), folder(home, "work/other")
    for place in (one, other):
        (place / "file").write_text("own")
    with (
        other_user.lent([one], downloads=False, wait=no_wait) as first,
        other_user.lent([other], downloads=False, wait=no_wait) as second,
    ):
        assert first != second
        assert does(first, f"cat {one}/file && echo more > {one}/new").stdout == "own"
        for barred in (other / "file", secret, home / "users" / str(second)):
            assert does(first, f"cat {barred}").returncode, barred
        for barred in (home, home / "work", other):
            assert does(first, f"ls {barred}").returncode, barred
    for place in (one, other):
        assert does(first, f"cat {place}/file").returncode


def test_what_a_download_wrote_is_ours_and_everybodys_to_read(home: Path) -> None:
    model = folder(home, "hf/hub/models--a--b")
    with other_user.lent([model], downloads=True, wait=no_wait) as user:
        made = "mkdir -m 700 blobs; echo weights > blobs/x; chmod 4777 blobs/x; ln -s blobs/x w"
        assert does(user, f"cd {model}; {made}").returncode == 0
    assert owner_and_mode(model / "blobs") == (0, 0o755)
    assert owner_and_mode(model / "blobs/x") == (0, 0o644)
    assert does(user, f"cat {model}/w").stdout == "weights\n"
    assert does(user, f"echo worse > {model}/blobs/x").returncode


def let_in(user: int) -> bytes:
    """A list by which this user may write, and others only read: as the kernel keeps it."""
    nobody = 0xFFFFFFFF
    entries = ((1, 6, nobody), (2, 7, user), (4, 4, nobody), (16, 7, nobody), (32, 4, nobody))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def test_nothing_is_given_away_by_a_second_name_or_a_link_and_no_list_lets_others_in(
    home: Path, passed_folder: Path
) -> None:
    ours = passed_folder / "ours"
    ours.write_text("ours")
    model = folder(home, "hf/hub/models--a--b")
    with other_user.lent([model], downloads=True, wait=no_wait):
        pass  # from now on others pass through the home folder
    os.link(ours, model / "second-name")
    (model / "link").symlink_to(ours)
    os.mkfifo(model / "pipe")
    (model / "weights").write_text("weights")
    with suppress(OSError):  # a file system without such lists
        os.setxattr(model / "weights", owned.ACCESS_LISTS[0], let_in(70_000))
        assert does(70_000, f"echo worse > {model}/weights").returncode == 0
    with other_user.lent([model], downloads=True, wait=no_wait):
        assert ours.stat().st_uid == 0
    assert (ours.read_text(), owner_and_mode(ours)) == ("ours", (0, 0o644))
    assert sorted(entry.name for entry in model.iterdir()) == ["link", "weights"]
    assert does(70_000, f"echo worse > {model}/weights").returncode
    assert owned.ACCESS_LISTS[0] not in os.listxattr(model / "weights")


def test_folders_too_deep_to_be_looked_through_do_not_change_hands(home: Path) -> None:
    model = folder(home, "hf/hub/models--a--b")
    dig(model)
    with other_user.lent([model], downloads=True, wait=no_wait):
        depth, place = 0, os.open(model, os.O_RDONLY)
        while names := [entry.name for entry in os.scandir(place)]:
            inner = os.open(names[0], os.O_RDONLY, dir_fd=place)
            os.close(place)
            depth, place = depth + 1, inner
        os.close(place)
    assert depth == DEEPEST


def test_what_a_user_started_ends_and_what_it_left_where_all_may_write_goes(home: Path) -> None:
    work = folder(home, "work/one")
    with other_user.lent([work], downloads=False, wait=no_wait) as user:
        stray = Path(f"/tmp/left-by-{user}")
        does(user, f"mkdir -p {stray}/inner; setsid sleep 600 </dev/null >/dev/null 2>&1 &")
        wait_until(lambda: bool(list(of(user))), STARTS_WITHIN, lambda: "it did not begin")
        assert stray.exists()
    assert not list(of(user))
    assert not stray.exists()


def of(user: int) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if user in process.uids() and process.status() != psutil.STATUS_ZOMBIE:
                yield process


KILLED = """
import os, signal, subprocess, sys
import django
django.setup()
from pathlib import Path
from runners import other_user
place = Path(sys.argv[1])
with other_user.lent([place], downloads=False, wait=lambda: None) as user:
    (place / "file").write_text("")
    own = {"user": user, "group": user, "extra_groups": []}
    subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL, **own)
    print(user, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_worker_that_was_killed_had_lent_is_taken_back_before_it_is_lent_again(
    home: Path,
) -> None:
    work, other = folder(home, "work/one"), folder(home, "work/other")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(work)],
        env=environment_of_site(home), stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    user = int(killed.stdout)
    assert list(of(user))
    assert owner_and_mode(work)[0] == user
    with other_user.lent([other], downloads=False, wait=no_wait) as again:
        assert again == user
        assert not list(of(user))
        assert owner_and_mode(work) == (0, 0o700)


@pytest.mark.parametrize("downloads", [True, False])
def test_who_wants_what_another_has_waits_until_it_is_free_or_is_told_to_stop(
    home: Path, downloads: bool
) -> None:
    """A journal that another worker's model writes; downloads wait for any other."""
    journal, cached = folder(home, "journal/1"), folder(home, "hf/hub/models--a--b")
    place = cached if downloads else journal
    other = folder(home, "hf/hub/models--c--d") if downloads else journal
    waited = threading.Event()
    order: list[str] = []

    def second() -> None:
        with other_user.lent([other], downloads=downloads, wait=waited.set):
            order.append("second")

    with other_user.lent([place], downloads=downloads, wait=no_wait):
        thread = threading.Thread(target=second)
        thread.start()
        assert waited.wait(STARTS_WITHIN)
        with (
            pytest.raises(AssertionError, match="somebody waits"),
            other_user.lent([other], downloads=downloads, wait=no_wait),
        ):
            pass
        order.append("first")
        sleep(0.1)
    thread.join(STARTS_WITHIN)
    assert order == ["first", "second"]


def test_where_others_cannot_pass_or_pass_already_it_is_said_what_to_change(
    home: Path, passed_folder: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.backends.PYTHON", (SYSTEM_PYTHON,))
    way = confinement.WAYS[-1]
    passed_folder.chmod(0o700)
    assert f"{passed_folder} lets no other user pass to {home}" in str(confinement._why_not(way))
    passed_folder.chmod(0o711)
    home.chmod(0o755)
    assert f"PLUMBLINE_HOME={home} is not root's alone" in str(confinement._why_not(way))
    home.chmod(0o700)
    password = passed_folder / "password"
    password.write_text("secret")
    monkeypatch.setenv("PLUMBLINE_DATABASE_URL_FILE", str(password))
    assert f"other users can reach {password}" in str(confinement._why_not(way))
    password.chmod(0o600)
    assert confinement._why_not(way) is None


ASKED = """
import django
django.setup()
from runners import backends, confinement
backends.PYTHON = ("/usr/bin/python3",)
print(confinement._why_not(confinement.WAYS[-1]))
"""


def test_where_root_has_no_other_users_that_is_said(home: Path) -> None:
    """As in a namespace, or a container, that maps root alone."""
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-c", ASKED]
    told = printed(command, environment_of_site(home))
    assert told.startswith("nothing can be given to another user")


def test_a_command_runs_as_that_user_with_a_limit_on_its_processes_that_binds(home: Path) -> None:
    work = folder(home, "work/one")
    program = "id -u; id -G; umask; cat /proc/self/limits /proc/self/status"
    needs = Needs(folder=work, write=[work])
    with confinement.confined(["/bin/sh", "-c", program], needs, confinement.WAYS[-1]) as command:
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        user, _ = owner_and_mode(work)
    assert other_user.FIRST <= user < 100_000
    assert told.split()[:3] == [str(user), str(user), "0022"]
    assert re.search(rf"Max processes +{confinement._processes()} ", told)
    assert re.search(r"NoNewPrivs:\s1", told)
    assert re.search(r"CapEff:\s0+\n", told)


@pytest.mark.django_db(transaction=True)
def test_a_kept_model_keeps_its_user_and_gives_all_back_when_it_goes(
    home: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_to(home, settings, monkeypatch)
    let_others_start_the_stand_in(monkeypatch)
    monkeypatch.setattr(confinement, "here", lambda: confinement.WAYS[-1])
    settings.PLUMBLINE_KEEP_MODEL = 3600
    worker, model = rows.worker(), rows.variant("standin/stays")
    with Keeper() as keeper:
        users = []
        for shots in (0, 5):
            (run,) = rows.queued("arc", variant=model, shots=shots)
            evaluate_next(worker, keeper=keeper)
            run.refresh_from_db()
            assert (run.state, run.environment["confinement"]) == ("done", "another user")
            (journal,) = (home / "journal").iterdir()
            users.append(owner_and_mode(journal)[0])
        assert users[0] == users[1] >= other_user.FIRST
        assert list(of(users[0]))
    assert not list(of(users[0]))
    assert {owner_and_mode(entry)[0] for entry in home.rglob("*")} == {0}
