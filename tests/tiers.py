"""Which tests run when.

| command           | what it runs                                               | how long   |
| ----------------- | ---------------------------------------------------------- | ---------- |
| `make test-quick` | what starts no program, no service and no browser          | 2 minutes  |
| `make test`       | each promise of the README and the docs once               | 12 minutes |
| `make test-all`   | that and all groups of the table below                     | an hour    |

A file belongs to `make test` unless a group names it or a folder above it. CI runs `make test`, the
groups that a change touches, and a fifth of the groups by turns, so that none rots unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Group:
    """Tests that `make test` leaves to `make test-all`."""

    about: str
    tests: tuple[str, ...] = ()
    """Files, and folders with a slash at the end."""
    touched_by: tuple[str, ...]
    """How the paths begin whose change makes CI run the group."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """For tests of `make test` that run once more in other surroundings."""
    target: str = ""
    """The target of the Makefile that runs them, in place of pytest in our own environment."""


GROUPS = {
    "architectures": Group(
        about="further architectures, quantised weights and checkpoint formats",
        tests=(
            "tests/evalcore/model/checkpoints/test_conversion.py",
            "tests/evalcore/model/hf/test_quantised_forms.py",
            "tests/evalcore/model/test_architectures.py",
        ),
        touched_by=("evalcore/model/",),
    ),
    "backends": Group(
        about="vLLM and Ray, in environments of their own",
        tests=("tests/backends/",),
        target="test-backends",
        touched_by=(
            "evalcore/model/vllm/",
            "evalcore/model/servers/",
            "evalcore/model/tokens/",
            "evalcore/model/base.py",
            "evalcore/model/hf/reading.py",
            "evalcore/model/hf/media_reading.py",
            "evalcore/model/hf/eyes.py",
            "evalcore/model/hf/processor.py",
            "evalcore/model/writing/ending.py",
            "evalcore/agreement.py",
            "runners/sandboxed.py",
            "evalcore/sandbox/",
            "docs/scaling.md",
            "constraints-vllm.txt",
            "pyproject.toml",
        ),
    ),
    "bench": Group(
        about="the code of the benchmarks",
        tests=("tests/bench/",),
        touched_by=("bench/",),
    ),
    "census": Group(
        about="every foreign task file, shared name and exported task beside lm-evaluation-harness",
        tests=(
            "tests/evalcore/peer/test_names.py",
            "tests/parity/test_recorded_responses.py",
            "tests/tasks/test_same_as_lm_eval.py",
            "tests/tasks/test_taken_at_the_door.py",
        ),
        touched_by=(
            *("evalcore/task/", "evalcore/peer/", "evalcore/authoring/", "evalcore/verify/"),
            "tasks/",
        ),
    ),
    "chaos": Group(
        about="rounds in which something fails while a model is evaluated",
        tests=("tests/chaos/",),
        touched_by=("runners/", "leaderboard/queue/"),
    ),
    "confinement": Group(
        about="every escape in every way of confinement",
        tests=(
            "tests/evalcore/task/transforms/test_code_sandbox_by_landlock.py",
            "tests/runners/test_every_confinement.py",
        ),
        touched_by=("runners/", "evalcore/sandbox/", "evalcore/task/transforms/code"),
    ),
    "deploy": Group(
        about="workers that Slurm, Kubernetes and systemd start",
        tests=("tests/deploy/",),
        touched_by=("docs/deploy/", "docs/scaling.md", "leaderboard/queue/wanted.py"),
    ),
    "demo": Group(
        about="the training of the demo's models, and made-up boards",
        tests=("tests/demo/test_training.py",),
        touched_by=("demo/",),
    ),
    "images": Group(
        about="the container images, built and started",
        target="image-check",
        touched_by=(
            "Dockerfile",
            ".dockerignore",
            "compose.yaml",
            "constraints.txt",
            "pyproject.toml",
            ".ci/image_check.py",
        ),
    ),
    "looks": Group(
        about="phone, dark, print and further journeys in Chromium",
        tests=(
            "tests/browser/test_board.py",
            "tests/browser/test_looks.py",
            "tests/browser/test_walks.py",
        ),
        touched_by=("templates/", "static/", "leaderboard/"),
    ),
    "packaging": Group(
        about="the wheel in an empty environment, and libraries that are imported late",
        tests=("tests/evalcore/command/test_imported_later.py", "tests/test_wheel.py"),
        touched_by=("pyproject.toml", "MANIFEST.in", "setup.py", "evalcore/command/"),
    ),
    "peer": Group(
        about="further comparisons with lm-evaluation-harness",
        tests=(
            "tests/evalcore/task/transforms/test_ifeval_peer.py",
            "tests/parity/test_further_kinds.py",
            "tests/parity/test_quantised.py",
        ),
        touched_by=("evalcore/score/", "evalcore/task/", "evalcore/formats/", "evalcore/model/"),
    ),
    "postgresql": Group(
        about="the tests of the site once more, with PostgreSQL as its database",
        tests=(
            "tests/leaderboard/",
            "tests/runners/test_queue.py",
        ),
        environment={"PLUMBLINE_DATABASE_URL": "postgresql://postgres@127.0.0.1:5432/test"},
        touched_by=("leaderboard/models/", "leaderboard/queue/", "leaderboard/migrations/"),
    ),
    "services": Group(
        about="further databases, brokers and object stores",
        tests=(
            "tests/e2e/test_whole_way.py",
            "tests/leaderboard/samples/test_bucket_away.py",
            "tests/runners/test_services.py",
        ),
        touched_by=("leaderboard/queue/", "leaderboard/samples/", "runners/"),
    ),
    "trees": Group(
        about="trees of processes, their signals and clocks",
        tests=(
            "tests/evalcore/command/test_interrupted_run.py",
            "tests/evalcore/model/parallel/test_processes.py",
            "tests/runners/test_celery_worker.py",
            "tests/runners/test_worker.py",
        ),
        touched_by=(
            "runners/",
            "evalcore/model/parallel/",
            "evalcore/stopping.py",
            "evalcore/whole_file.py",
        ),
    ),
}

NOT_QUICK = (
    *("tests/browser/", "tests/demo/", "tests/e2e/", "tests/parity/", "tests/runners/"),
    *("tests/tasks/", "tests/test_warm.py"),
    *("tests/evalcore/authoring/", "tests/evalcore/command/"),
    *("tests/evalcore/model/hf/", "tests/evalcore/model/parallel/"),
    *("tests/evalcore/model/servers/", "tests/evalcore/peer/"),
    *("tests/leaderboard/backends/", "tests/leaderboard/compare/", "tests/leaderboard/hub/"),
    *("tests/leaderboard/model_pages/", "tests/leaderboard/samples/"),
    *("tests/leaderboard/snapshot/", "tests/leaderboard/submissions/", "tests/leaderboard/web/"),
    "tests/leaderboard/test_",
)
"""What `make test-quick` leaves to `make test`, beside what is marked as one of these."""
NOT_QUICK_MARKS = frozenset({"browser", "services", "peer"})


def is_quick(item: pytest.Item) -> bool:
    return NOT_QUICK_MARKS.isdisjoint(mark.name for mark in item.iter_markers())


TURNS = (
    ("images",),
    ("backends", "packaging"),
    ("postgresql", "demo"),
    ("architectures", "census", "chaos", "deploy", "peer"),
    ("bench", "confinement", "looks", "services", "trees"),
)
"""Which groups run beside `make test` in a run of CI, by turns; each turn takes about as long."""
MANY = 4
"""Where a change touches so many groups, no other has its turn: the run is long enough."""


def left_out(path: Path, *, tier: str, groups: Iterable[str] = ()) -> bool:
    """Whether a run of this tier and these groups need not even read this file or folder.

    `tier` is quick, test, all, or none for the groups alone.
    """
    place = path.relative_to(ROOT).as_posix() + ("/" if path.is_dir() else "")
    wanted = tuple(start for name in groups for start in GROUPS[name].tests)
    if place.startswith(wanted) or any(start.startswith(place) for start in wanted):
        return False
    if tier == "none" or (tier == "quick" and place.startswith(NOT_QUICK)):
        return True
    return place.startswith(
        tuple(
            start
            for group in GROUPS.values()
            if not group.environment and (tier != "all" or group.target)
            for start in group.tests
        )
    )


def choose_groups(changed: Iterable[str], commits: int) -> dict[str, str]:
    """The groups that CI runs beside `make test`, each with the reason.

    `changed` are the files that the change touches, `commits` is how many commits main has.
    """
    files = list(changed)
    reasons = {}
    for name, group in sorted(GROUPS.items()):
        own = () if group.environment else group.tests
        touched = [file for file in files if file.startswith((*group.touched_by, *own))]
        if touched:
            reasons[name] = f"{touched[0]} changed"
    if len(reasons) < MANY:
        for name in TURNS[commits % len(TURNS)]:
            reasons.setdefault(name, "its turn")
    return reasons
