"""What a machine keeps of models and runs: nothing for ever, and nothing that a live run uses. Each
machine is swept by whoever works there, one at a time, and nobody waits for it."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import scan_cache_dir

from leaderboard.models import Run, Variant
from runners import broker, cleanup, jobs
from runners.cleanup import Sweeper
from runners.registration import own_name
from tests.runners import rows
from tests.runners.place import STARTS_WITHIN

DAY = 24 * 3600
SIZE = 1000

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.PLUMBLINE_HOME = tmp_path
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path


def age(days: float, *paths: Path) -> None:
    """Have these be written last so many days ago."""
    then = time.time() - days * DAY
    for path in paths:
        os.utime(path, (then, then))


def keep(variant: Variant, home: Path, *, days: float) -> None:
    """Puts a model into the cache as the Hub's client does, last used so many days ago."""
    repo = home / "hf" / "hub" / f"models--{variant.hub_model.repo_id.replace('/', '--')}"
    snapshot = repo / "snapshots" / variant.commit
    for folder in (repo / "blobs", repo / "refs", snapshot):
        folder.mkdir(parents=True)
    blob = repo / "blobs" / "0123"
    blob.write_bytes(b"x" * SIZE)
    (repo / "refs" / "main").write_text(variant.commit)
    (snapshot / "model.safetensors").symlink_to("../../blobs/0123")
    age(days, blob, snapshot, repo)


def keep_journal(variant: Variant, home: Path, *, days: float) -> None:
    folder = home / "journal" / str(variant.pk)
    folder.mkdir(parents=True)
    (folder / "answers.jsonl").write_bytes(b"x" * SIZE)
    age(days, folder / "answers.jsonl", folder)


def journals(home: Path) -> set[str]:
    return {path.name for path in (home / "journal").iterdir()}


def kept(home: Path) -> set[str]:
    return {repo.repo_id for repo in scan_cache_dir(home / "hf" / "hub").repos}


def models(home: Path, **days: float) -> dict[str, Variant]:
    """Variants by name, in the cache since so many days."""
    found = {name: rows.variant(f"org/{name}") for name in days}
    for number, (name, variant) in enumerate(found.items()):
        variant.commit = f"{number:040x}"
        variant.save()
        keep(variant, home, days=days[name])
    return found


def test_models_are_evicted_by_age_but_not_while_a_run_or_one_of_an_adapter_on_them_is_alive(
    home: Path,
) -> None:
    found = models(home, old=40, queued=40, running=40, adapter=40, base=40, fresh=3)
    rows.queued("arc", variant=found["running"])
    rows.claimed_by(rows.worker())
    rows.queued("arc", variant=found["queued"])
    adapter, base = found["adapter"], found["base"]
    adapter.adapter_base, adapter.adapter_base_commit = "org/base", base.commit
    adapter.save()
    rows.queued("arc", variant=adapter)
    assert cleanup.make_room() == SIZE
    assert kept(home) == {f"org/{name}" for name in found if name != "old"}


def test_models_are_evicted_by_size_the_oldest_first_and_for_one_that_the_disk_does_not_hold(
    home: Path, settings: Any
) -> None:
    found = models(home, first=9, second=6, third=3, queued=1)
    rows.queued("arc", variant=found["queued"])
    settings.PLUMBLINE_CACHE_BYTES = 2 * SIZE
    cleanup.make_room()
    assert kept(home) == {"org/third", "org/queued"}
    found["queued"].parameters = 10**15
    cleanup.make_room(found["queued"])
    assert kept(home) == {"org/third", "org/queued"}, "what is here needs no room"
    found["queued"].commit = "f" * 40
    cleanup.make_room(found["queued"])
    assert kept(home) == {"org/queued"}


def test_a_link_out_of_the_cache_is_removed_and_what_it_names_is_not(home: Path) -> None:
    """As a download leaves one that its own repository took over."""
    database, secrets = home / "db.sqlite3", home / "artifacts" / "aa"
    secrets.mkdir(parents=True)
    for file in (database, secrets / "file"):
        file.write_text("nobody else's business")
    models(home, linked=40, deep=40, honest=40)
    repos = {name: home / "hf/hub" / f"models--org--{name}" for name in ("linked", "deep")}
    ((snapshot,), (other,)) = ([*repo.glob("snapshots/*")] for repo in repos.values())
    (snapshot / "config.json").symlink_to(database)
    (other / "more").symlink_to(secrets.parent)
    cleanup.make_room()
    assert database.is_file()
    assert (secrets / "file").is_file()
    assert not any(repo.exists() for repo in repos.values())
    assert not kept(home)


def test_journals_that_no_run_needs_go_by_age_and_by_size_the_oldest_first(
    home: Path, settings: Any
) -> None:
    found = {name: rows.variant(f"org/{name}") for name in ("needed", "first", "second", "third")}
    rows.queued("arc", variant=found["needed"])
    for name, days in (("needed", 15), ("first", 15), ("second", 13), ("third", 12)):
        keep_journal(found[name], home, days=days)
    settings.PLUMBLINE_JOURNAL_BYTES = 4 * SIZE
    assert cleanup.remove_leftovers() == 1
    assert journals(home) == {str(found[name].pk) for name in ("needed", "second", "third")}
    settings.PLUMBLINE_JOURNAL_BYTES = 2 * SIZE + 1
    assert cleanup.remove_leftovers() == 1
    assert journals(home) == {str(found["needed"].pk), str(found["third"].pk)}


def test_a_journal_that_a_run_needs_since_the_sweep_began_stays(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = rows.variant("org/a")
    keep_journal(variant, home, days=1000)
    look = cleanup._written

    def while_somebody_submits(folder: Path) -> tuple[float, int]:
        if not Run.objects.exists():
            rows.queued("arc", variant=variant)
        return look(folder)

    monkeypatch.setattr(cleanup, "_written", while_somebody_submits)
    assert cleanup.remove_leftovers() == 0
    assert journals(home) == {str(variant.pk)}


def test_what_claims_that_live_write_stays_and_what_others_left_goes(home: Path) -> None:
    rows.queued("arc")
    claim = rows.claimed_by(rows.worker("of another process"))
    abandoned = "11111111-1111-4111-8111-111111111111"
    for name in (str(claim.token), abandoned):
        (home / "work" / name / "results").mkdir(parents=True)
    assert cleanup.remove_leftovers() == 1
    assert [folder.name for folder in (home / "work").iterdir()] == [str(claim.token)]


def test_the_name_of_a_worker_is_forgotten_two_weeks_after_it_began_and_ended(home: Path) -> None:
    with own_name(home, []) as lives, own_name(home, []):
        pass
    with own_name(home, []) as again:
        assert again == lives
        age(15, *(home / "workers").iterdir())
        assert cleanup.remove_leftovers() == 1
        (left,) = (home / "workers").iterdir()
        assert left.name.startswith("evaluate-cpu@"), "that of the one which lives"
        with own_name(home, []) as second:
            assert second == lives.replace("@", ".2@")
    with own_name(home, []):
        assert cleanup.remove_leftovers() == 0, "it has just begun to have it"


def test_a_name_that_is_forgotten_as_a_worker_takes_it_has_one_worker(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock

    def lock_too_late(file: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        (forgotten,) = (home / "workers").iterdir()
        forgotten.unlink()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", lock_too_late)
    with own_name(home, []) as one, own_name(home, []) as other:
        assert other == one.replace("@", ".2@")


def test_the_chore_removes_hints_that_nobody_took(home: Path) -> None:
    hint = Path(str(broker.transport_options(home / "broker")["data_folder_in"]), "1.hints.msg")
    hint.write_text("{}")
    age(30, hint)
    jobs.sweep()
    assert not hint.exists()


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Have each sweep do this."""
    monkeypatch.setattr(cleanup, "make_room", lambda: 0)
    return lambda does: monkeypatch.setattr(cleanup, "remove_leftovers", does)


def let_end(sweeper: Sweeper) -> None:
    assert sweeper._thread is not None
    sweeper._thread.join(STARTS_WITHIN)
    assert not sweeper._thread.is_alive()


def test_old_messages_on_files_go_with_the_sweep_of_a_worker_where_no_chores_run(
    home: Path,
) -> None:
    taken = home / "broker" / "taken"
    taken.mkdir(parents=True)
    for name in ("old", "new"):
        (taken / name).touch()
    age(1, taken / "old")
    sweeper = Sweeper(threading.Event())
    sweeper.sweep_if_due()
    let_end(sweeper)
    assert [file.name for file in taken.iterdir()] == ["new"]


def test_two_processes_of_a_machine_never_sweep_at_once(sweeps: Any) -> None:
    others: list[bool] = []
    sweeps(lambda: others.append(cleanup.sweep()) if not others else None)
    assert cleanup.sweep()
    assert others == [False]
    assert cleanup.sweep(), "the one before has ended"


def test_a_worker_does_not_wait_for_its_sweep_and_begins_no_second_one(sweeps: Any) -> None:
    begun, may_end = [], threading.Event()
    sweeps(lambda: (begun.append(1), may_end.wait(STARTS_WITHIN)))
    stopping = threading.Event()
    sweeper = Sweeper(stopping)
    sweeper.sweep_if_due()
    sweeper._due = 0.0
    sweeper.sweep_if_due()
    stopping.set()
    sweeper.wait()
    assert sweeper._thread is not None
    assert sweeper._thread.is_alive(), "nor does one that is asked to stop"
    may_end.set()
    let_end(sweeper)
    assert begun == [1]


def test_a_worker_sweeps_at_its_start_and_then_seldom_and_no_fault_ends_it(
    sweeps: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise PermissionError("the journal is somebody else's")

    sweeps(fail)
    now = 1000.0
    monkeypatch.setattr(cleanup, "monotonic", lambda: now)
    sweeper = Sweeper(threading.Event())
    for later, swept in ((0.0, 1), (5.0, 1), (cleanup.SWEEP_EVERY, 2), (5.0, 2)):
        now += later
        sweeper.sweep_if_due()
        let_end(sweeper)
        assert caplog.text.count("PermissionError: the journal") == swept
