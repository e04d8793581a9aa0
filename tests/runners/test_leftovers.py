"""What a machine keeps of models and runs: nothing for ever, and nothing that a live run uses."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from huggingface_hub import scan_cache_dir

from leaderboard.models import Launch, Run, Variant
from leaderboard.queue import claims
from runners import hub_cache, leftovers
from runners.own_name import own_name
from tests.runners import rows

DAY = 24 * 3600
SIZE = 1000

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.PLUMBLINE_HOME = tmp_path
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    return tmp_path


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
    then = time.time() - days * DAY
    for path in (blob, snapshot, repo):
        os.utime(path, (then, then))


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


def test_models_are_evicted_by_age_but_not_while_a_run_is_alive(home: Path) -> None:
    found = models(home, old=40, queued=40, running=40, fresh=3)
    rows.queued("arc", variant=found["running"])
    assert claims.claim_next(rows.worker()) is not None
    rows.queued("arc", variant=found["queued"])
    assert hub_cache.make_room() == SIZE
    assert kept(home) == {"org/queued", "org/running", "org/fresh"}


def test_the_model_under_an_adapter_is_kept_as_long_as_a_run_of_the_adapter_is_alive(
    home: Path,
) -> None:
    found = models(home, adapter=40, base=40, old=40)
    adapter, base = found["adapter"], found["base"]
    adapter.adapter_base, adapter.adapter_base_commit = "org/base", base.commit
    adapter.save()
    rows.queued("arc", variant=adapter)
    hub_cache.make_room()
    assert kept(home) == {"org/adapter", "org/base"}


def test_models_are_evicted_by_size_and_the_oldest_go_first(home: Path, settings: Any) -> None:
    models(home, first=9, second=6, third=3)
    settings.PLUMBLINE_CACHE_BYTES = SIZE
    hub_cache.make_room()
    assert kept(home) == {"org/third"}


def test_room_is_made_for_a_model_that_the_disk_does_not_hold(home: Path) -> None:
    found = models(home, other=1, queued=1)
    rows.queued("arc", variant=found["queued"])
    found["queued"].parameters = 10**15
    hub_cache.make_room(found["queued"])
    assert kept(home) == {"org/other", "org/queued"}, "what is here needs no room"
    found["queued"].commit = "f" * 40
    hub_cache.make_room(found["queued"])
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
    hub_cache.make_room()
    assert database.is_file()
    assert (secrets / "file").is_file()
    assert not any(repo.exists() for repo in repos.values())
    assert not kept(home)


def test_journals_of_variants_that_failed_go_after_two_weeks(home: Path) -> None:
    failed, waiting, fresh = (rows.variant(f"org/{name}") for name in ("a", "b", "c"))
    rows.queued("arc", variant=waiting)
    for variant, days in ((failed, 15), (waiting, 15), (fresh, 13)):
        folder = home / "journal" / str(variant.pk)
        folder.mkdir(parents=True)
        (folder / "answers.jsonl").write_text("{}\n")
        then = time.time() - days * DAY
        for path in (folder / "answers.jsonl", folder):
            os.utime(path, (then, then))
    assert leftovers.sweep() == 1
    assert {path.name for path in (home / "journal").iterdir()} == {
        str(waiting.pk),
        str(fresh.pk),
    }


def test_journals_are_bounded_in_size_and_the_oldest_that_no_run_needs_go_first(
    home: Path, settings: Any
) -> None:
    found = {name: rows.variant(f"org/{name}") for name in ("needed", "first", "second", "third")}
    rows.queued("arc", variant=found["needed"])
    for days, name in enumerate(reversed(found), start=1):
        folder = home / "journal" / str(found[name].pk)
        folder.mkdir(parents=True)
        (folder / "answers.jsonl").write_bytes(b"x" * SIZE)
        then = time.time() - days * DAY
        for path in (folder / "answers.jsonl", folder):
            os.utime(path, (then, then))
    settings.PLUMBLINE_JOURNAL_BYTES = 4 * SIZE
    assert leftovers.sweep() == 0
    settings.PLUMBLINE_JOURNAL_BYTES = 2 * SIZE + 1
    assert leftovers.sweep() == 2
    left = {path.name for path in (home / "journal").iterdir()}
    assert left == {str(found["needed"].pk), str(found["third"].pk)}


def test_a_journal_that_a_run_needs_since_the_sweep_began_stays(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = rows.variant("org/a")
    journal = home / "journal" / str(variant.pk)
    journal.mkdir(parents=True)
    os.utime(journal, (0, 0))
    look = leftovers._written

    def while_somebody_submits(folder: Path) -> tuple[float, int]:
        if not Run.objects.exists():
            rows.queued("arc", variant=variant)
        return look(folder)

    monkeypatch.setattr(leftovers, "_written", while_somebody_submits)
    assert leftovers.sweep() == 0
    assert journal.is_dir()


def test_work_folders_of_claims_that_live_stay_and_others_go(home: Path) -> None:
    rows.queued("arc")
    claim = claims.claim_next(rows.worker("of another process"))
    assert claim is not None
    abandoned = "11111111-1111-4111-8111-111111111111"
    for name in (str(claim.token), abandoned):
        (home / "work" / name / "results").mkdir(parents=True)
    assert leftovers.sweep() == 1
    assert [folder.name for folder in (home / "work").iterdir()] == [str(claim.token)]


def test_what_launches_said_goes_after_two_weeks_but_not_while_one_is_at_work(home: Path) -> None:
    Launch.objects.create(
        kind="small", engine="slurm", handle="7", state=Launch.State.UP,
        gpus=1, hours=1.0, price=1.0, asked=timezone.now(),
    )  # fmt: skip
    for job, days in (("7", 15), ("8", 15), ("9", 13)):
        folder = home / "launches" / job
        folder.mkdir(parents=True)
        (folder / f"{job}_0_log.out").write_text("a worker's words")
        then = time.time() - days * DAY
        for path in (folder / f"{job}_0_log.out", folder):
            os.utime(path, (then, then))
    assert leftovers.sweep() == 1
    assert {folder.name for folder in (home / "launches").iterdir()} == {"7", "9"}


def test_the_name_of_a_worker_is_forgotten_two_weeks_after_it_began_and_ended(home: Path) -> None:
    with own_name(home, []) as lives, own_name(home, []):
        pass
    with own_name(home, []) as again:
        assert again == lives
        for lock in (home / "workers").iterdir():
            os.utime(lock, (time.time() - 15 * DAY,) * 2)
        assert leftovers.sweep() == 1
        (left,) = (home / "workers").iterdir()
        assert left.name.endswith("_cpu.lock"), "that of the one which lives"
        with own_name(home, []) as second:
            assert second == f"{lives}.2"
    with own_name(home, []):
        assert leftovers.sweep() == 0, "it has just begun to have it"
