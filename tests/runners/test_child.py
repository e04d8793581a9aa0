"""A child and what wraps it end with their parent, however it ends; a part that dies comes back.

And what a child leaves: folders however deep, files that are handed over, its log. What it says is
an event or nothing; what the pages are told of it meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalcore import watch as engine
from evalcore.watch import LOOKS, Stratum
from leaderboard.models import Run, Worker
from leaderboard.queue import claims
from runners import folders, supervisor
from runners.failures import harmless, tail
from runners.folders import DEEPEST, Footprint, Hidden, entries, remove
from runners.process import Child, Done, Event, Failure, Look, Phase, Progress, TaskDone, Use, parse
from runners.results import open_inside, read_bounded, read_record
from runners.sandboxed import child_environment
from runners.watch import STOP_GRACE, Heartbeat, Stopping, Taken, Watch
from tests.runners import rows
from tests.runners.place import STARTS_WITHIN, wait_until
from tests.runners.standin import dig

ROOT = Path(__file__).resolve().parents[2]
PARENT = """
import sys, time
from pathlib import Path
from runners.process import Child
folder = Path(sys.argv[1])
with Child(sys.argv[2:], environment={}, folder=folder, log=folder / "log"):
    time.sleep(600)
"""
# Starts a process of its own, as a data loader does, and ignores being asked to stop.
FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
open(f"{sys.argv[1]}/{os.getpid()}.pid", "w").close()
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for_the_end_of(pids: list[int]) -> None:
    def living() -> list[int]:
        return [pid for pid in pids if is_alive(pid)]

    wait_until(lambda: not living(), STARTS_WITHIN, lambda: f"they live: {living()}")


def family_in(folder: Path) -> list[int]:
    """The process that was started and its own child, when both are there."""

    def pids() -> list[int]:
        return [int(file.stem) for file in folder.glob("*.pid")]

    wait_until(lambda: len(pids()) == 2, STARTS_WITHIN, lambda: f"there are {pids()}")
    return pids()


def child_of(folder: Path, program: str, *words: str) -> Child:
    command = [sys.executable, "-c", program, *words]
    return Child(command, environment={}, folder=folder, log=folder / "log")


def follow_to_the_end(child: Child) -> None:
    while not child.has_ended():
        child.next_event(0.1)


def status_of(child: Child) -> int:
    """Of a child, when it has ended."""
    follow_to_the_end(child)
    return child.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_worker_takes_the_model_and_all_that_it_started_with_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    worker = subprocess.Popen([*command, sys.executable, "-c", FAMILY, str(tmp_path)])
    family = family_in(tmp_path)
    started = [process.pid for process in psutil.Process(worker.pid).children(recursive=True)]
    assert set(family) < set(started)
    worker.send_signal(number)
    worker.wait()
    wait_for_the_end_of(started)


def test_a_killed_wrapper_takes_the_model_with_it(tmp_path: Path) -> None:
    with child_of(tmp_path, FAMILY, str(tmp_path)) as child:
        family = family_in(tmp_path)
        os.kill(child.pid, signal.SIGKILL)
        follow_to_the_end(child)
        wait_for_the_end_of(family)
        assert child.kill() == -signal.SIGKILL


def test_a_child_leaves_as_its_command_left_and_imports_nothing_of_its_work_folder(
    tmp_path: Path,
) -> None:
    for name in ("runners", "subprocess"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(99)")
    for program, status in (
        # The command itself has `-c`, and the work folder first on its path; the wrapper has not.
        ("pass", 0),
        ("raise SystemExit(75)", 75),
        ("import os; os.kill(os.getpid(), 11)", -11),
    ):
        with child_of(tmp_path, program) as child:
            assert status_of(child) == status, (tmp_path / "log").read_text()


HOLDS_THE_PIPE = """
import os, sys, time
if not os.fork():
    os.setsid()
    if not os.fork():
        open(sys.argv[1] + "/left", "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not os.path.exists(sys.argv[1] + "/left"):
    time.sleep(0.01)
"""


def test_a_stray_descendant_neither_lives_on_nor_holds_the_worker(tmp_path: Path) -> None:
    """Also where nothing confines it: with the wrapper alone."""
    with child_of(tmp_path, HOLDS_THE_PIPE, str(tmp_path)) as child:
        assert status_of(child) == 0
    assert not is_alive(int((tmp_path / "left").read_text()))


def test_the_memory_of_all_that_it_started_is_counted(tmp_path: Path) -> None:
    """What is its own and what is shared, of a session of its own, too, where a group's limits
    would not find it."""
    held = 100 * 2**20
    code = (
        "import mmap, os, time\n"
        f"if os.fork(): held = b'x' * {held}\n"
        f"else: os.setsid(); held = mmap.mmap(-1, {held}); held.write(b'x' * {held})\n"
        "time.sleep(600)"
    )
    with child_of(tmp_path, code) as child:
        wait_until(
            lambda: child.use().memory_bytes > 2 * held,
            STARTS_WITHIN,
            lambda: f"it takes {child.use()}",
        )


COUNT = "import sys; open(sys.argv[1], 'a').write('x'); sys.exit(3)"
SLEEP = "import sys, time; open(sys.argv[1], 'a').write('x'); time.sleep(600)"
TREE = """
import os, sys
from runners import supervisor
part = {"part": [sys.executable, "-c", *sys.argv[1:]]}
sys.exit(supervisor.exit_status(supervisor.run(part, dict(os.environ))))
"""
ASKED_AS_IT_STARTS = f"""
import os, signal, subprocess
start = subprocess.Popen
def asked_meanwhile(*words, **named):
    os.kill(os.getpid(), signal.SIGTERM)
    return start(*words, **named)
subprocess.Popen = asked_meanwhile
{TREE}"""


def tree_of(program: str, file: Path, code: str = TREE) -> psutil.Popen:
    return psutil.Popen(
        [sys.executable, "-c", code, program, str(file)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_starts(file: Path, expected: int) -> None:
    def starts() -> int:
        return len(file.read_text()) if file.exists() else 0

    wait_until(lambda: starts() >= expected, STARTS_WITHIN, lambda: f"it began {starts()} times")


def test_a_part_that_never_starts_well_is_given_up_and_the_tree_names_it(tmp_path: Path) -> None:
    tree = tree_of(COUNT, tmp_path / "starts")
    said, _ = tree.communicate()
    assert tree.returncode == 1
    assert (tmp_path / "starts").read_text() == "xxxxx"
    assert "'part' ended by itself with status 3" in said


def test_a_part_that_was_not_there_yet_when_its_tree_was_stopped_is_stopped_too(
    tmp_path: Path,
) -> None:
    tree = tree_of(SLEEP, tmp_path / "starts", ASKED_AS_IT_STARTS)
    said, _ = tree.communicate()
    assert tree.returncode == 0, said


def test_a_killed_part_comes_back_and_a_stopped_one_does_not(tmp_path: Path) -> None:
    file = tmp_path / "starts"
    tree = tree_of(SLEEP, file)
    try:
        wait_for_starts(file, 1)
        tree.children()[0].kill()
        wait_for_starts(file, 2)
        every = tree.children(recursive=True)
        tree.terminate()
        said, _ = tree.communicate()
        assert tree.returncode == 0
        assert not any(map(alive, every))
        assert file.read_text() == "xx"
        assert f"part | ended with status {-signal.SIGKILL}" in said
    finally:
        if tree.is_running():
            for process in [*tree.children(recursive=True), tree]:
                process.kill()


def alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


LONG = "x" * 200


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Of which nothing stays: pytest removes its own folders by what cannot remove such."""
    place = tmp_path / "place"
    place.mkdir()
    yield place
    subprocess.run(["rm", "-rf", place], check=True)


def deep(top: Path, folders_in_each_other: int) -> None:
    """With a file of a byte at the bottom; by names that together are longer than a path may be."""
    before = Path.cwd()
    os.chdir(top)
    for _ in range(folders_in_each_other):
        Path(LONG).mkdir()
        os.chdir(LONG)
    Path("file").write_text("1")
    os.chdir(before)


def test_what_lies_further_down_than_a_path_is_long_is_seen_unless_it_is_too_deep(
    place: Path,
) -> None:
    (place / "deep").mkdir()
    deep(place / "deep", DEEPEST - 1)
    sizes = [e.status.st_size for e in entries(place / "deep") if e.path.name == "file"]
    assert sizes == [1]
    (place / "deeper").mkdir()
    dig(place / "deeper")
    seen = []
    with pytest.raises(Hidden):
        seen.extend(entry.path.name for entry in entries(place / "deeper"))
    assert len(seen) == DEEPEST + 1, "all else was told before"


def test_links_are_seen_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "link").symlink_to("/etc")
    assert [entry.path.name for entry in entries(tmp_path / "own")] == ["link"]
    (tmp_path / "other").symlink_to(tmp_path / "own")
    remove(tmp_path / "other")
    assert (tmp_path / "own" / "link").is_symlink()


def test_a_folder_goes_however_deep_it_is_and_by_its_place_too(place: Path) -> None:
    for name in ("one", "other"):
        (place / name).mkdir()
        dig(place / name)
    remove(place / "one")
    here = os.open(place, os.O_RDONLY)
    remove("other", below=here)
    os.close(here)
    assert list(place.iterdir()) == []


CLOSED = """
import os, sys, tempfile
from runners.folders import hides_files, remove
top = tempfile.mkdtemp()
os.makedirs(f"{top}/a/b")
open(f"{top}/a/b/file", "w").close()
for closed in (f"{top}/a", top):
    os.chmod(closed, 0)
    assert hides_files(top), f"{closed} was passed over"
remove(top)
assert not os.path.exists(top), "a closed folder stays"
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_is_closed_to_its_owner_is_noticed_and_goes() -> None:
    ended = subprocess.run(
        ["/usr/bin/python3", "-c", CLOSED],
        env={"PYTHONPATH": str(Path(folders.__file__).parents[1])},
        user="nobody", cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("nobody else's business")
    (tmp_path / "work" / "results").mkdir(parents=True)
    return tmp_path / "work"


def test_what_is_no_regular_file_below_the_folder_is_refused(work: Path) -> None:
    results, secret = work / "results", work.parent / "secret"
    (results / "link").symlink_to(secret)
    (work / "elsewhere").symlink_to(work.parent)
    os.mkfifo(results / "pipe")
    names = ("link", "pipe", "nothing", "", "../../secret")
    wanted = [*(f"{results}/{name}" for name in names), f"{work}/elsewhere/secret", str(secret)]
    for name in (*wanted, "results/record.json"):
        with pytest.raises(ValueError, match="no file of the run"), open_inside(work, name):
            pass


def test_a_file_is_read_as_it_was_opened_and_no_further_than_it_may_be_long(work: Path) -> None:
    record = work / "results" / "record.json"
    record.write_text("x" * 100)
    with open_inside(work, str(record)) as file:
        record.unlink()
        record.symlink_to(work.parent / "secret")
        with pytest.raises(ValueError, match="more than"):
            read_bounded(file, most=99)
        file.seek(0)
        assert read_bounded(file, most=100) == b"x" * 100


@pytest.mark.django_db
def test_a_record_with_a_field_of_another_type_or_a_number_that_is_none_is_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / "record.json"
    rows.record(rows.unsaved()).write(file)
    text = file.read_text()
    assert read_record(text.encode()).results[0].high == 0.6
    for right, wrong, says in (
        ('"high": 0.6', '"high": Infinity', "Infinity"),
        ('"value": 0.5', '"value": "0.5"', "record: results.0.value"),
        ('"engine": {', '"engine": [], "old": {', "record: engine"),
    ):
        assert right in text
        with pytest.raises(ValueError, match=says):
            read_record(text.replace(right, wrong).encode())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("requests", {}, "requests.total"),
        ("datasets", {"arc": {"commit": ["e"]}}, "datasets.arc"),
        ("energy", [{}], "energy.0.source"),
        ("energy", [{"source": "RAPL", "part": "cpu", "joules": 10**400}], "energy.0.joules"),
        ("timing", {"answers": "soon"}, "timing.answers"),
        ("seconds", -1.0, "seconds"),
        ("distribution", [{"metric": "m"}], "distribution.0"),
        ("model", {"bos_policy": ["a"]}, "model.bos_policy"),
        ("model", {"max_length": {"a": 1}}, "model.max_length"),
        ("samples", {"file": "../../.bashrc", "sha256": "a" * 64, "rows": 1}, "samples.file"),
        ("samples", {"file": "a\x1b]0;x\n.parquet", "sha256": "a" * 64, "rows": 1}, "samples.file"),
    ],
)
def test_what_a_page_reads_of_a_record_has_its_form(field: str, value: Any, says: str) -> None:
    told = rows.record(rows.unsaved()).as_json()
    assert read_record(json.dumps(told).encode())
    with pytest.raises(ValueError, match=f"record: {says}"):
        read_record(json.dumps({**told, field: value}).encode())


@pytest.mark.django_db
def test_a_number_too_large_for_one_is_none() -> None:
    told = json.dumps(rows.record(rows.unsaved()).as_json())
    assert '"seconds": 1.0' in told
    with pytest.raises(ValueError, match="record"):
        read_record(told.replace('"seconds": 1.0', '"seconds": 1e999').encode())


def test_a_log_ends_without_progress_bars_and_with_lines_as_they_were_drawn_last(
    tmp_path: Path,
) -> None:
    bars = [f"Loading weights: {n:3}%|██ | {n}/100 [00:01<00:02, 9.1it/s]" for n in range(0, 101)]
    lines = ("first", "\r".join(bars), "3it [00:00, 12.5it/s]", "loss fell by 20% | step 3")
    lines = (*lines, "10 %\r20 %\rready", "ended as on Windows\r")
    (tmp_path / "log").write_bytes("".join(f"{line}\n" for line in lines).encode())
    assert tail(tmp_path / "log").splitlines() == [
        *("first", "loss fell by 20% | step 3", "ready", "ended as on Windows")
    ]


def test_the_hubs_token_is_in_no_log_and_only_the_child_that_downloads_is_given_it(
    tmp_path: Path, settings: Any
) -> None:
    settings.HF_TOKEN = "a token of another form"
    assert harmless("asked with a token of another form") == "asked with (hidden)"
    assert child_environment(tmp_path, online=True).get("HF_TOKEN") == settings.HF_TOKEN
    assert "HF_TOKEN" not in child_environment(tmp_path, online=False)


# What a child says

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["event", "phase", "task", "done", "total", "record", "class", "message"])
kinds = st.sampled_from(["phase", "progress", "task", "error", "done"])
STRATUM = {"weight": 1.0, "documents": 240, "answered": 30, "right": 12.0, "zero_or_one": True}
nearly = st.dictionaries(names, anything | kinds | st.integers(-1, 9) | st.just("ModelError"))


@given(st.binary() | nearly.map(lambda said: json.dumps(said).encode()))
def test_what_is_read_of_anything_can_be_stored(line: bytes) -> None:
    match parse(line):
        case None:
            pass
        case Progress(task, done, total):
            assert 0 <= done <= total < 2**31
            task.encode()
        case Failure(_, message, _):
            assert "\0" not in message
            message.encode()
        case _:
            assert line.lstrip().startswith(b"{")


def test_each_event_of_the_engine_is_known_and_none_with_counts_or_classes_that_cannot_be() -> None:
    stratum = Stratum(**STRATUM)  # type: ignore[arg-type]
    said = engine.Look(task="arc", metric="acc", strata=[stratum])
    lines = [
        b'{"event": "phase", "phase": "load"}',
        b'{"event": "progress", "task": "arc", "done": 2, "total": 3}',
        b'{"event": "task", "task": "arc", "record": "r.json", "samples": "s.parquet"}',
        b'{"event": "error", "class": "TaskError", "message": "no column"}',
        json.dumps({"event": "look", **said.as_json()}).encode(),
        b'{"event": "done", "files": {}}',
    ]
    assert [parse(line) for line in lines] == [
        Phase("load"),
        Progress("arc", 2, 3),
        TaskDone("arc", "r.json", "s.parquet"),
        Failure("TaskError", "no column", None),
        Look("arc", "acc", (stratum,)),
        Done(),
    ]
    assert parse(b'{"event": "progress", "task": "arc", "done": 3, "total": 2}') is None
    for name in (b'"ValueError"', b"[]", b"{}", b"null"):
        assert parse(b'{"event": "error", "class": ' + name + b', "message": "no"}') is None


def test_a_reason_that_cannot_be_stored_as_it_is_is_told_all_the_same() -> None:
    """Without it a failure of the model would be taken for ours, and tried again."""
    said = {"event": "error", "class": "ModelError", "message": "a\0b \ud800", "task": "a\0"}
    assert parse(json.dumps(said).encode()) == Failure("ModelError", "a\ufffdb \ufffd", None)
    assert parse(b'{"event": "error", "class": "ModelError", "message": ""}') == Failure(
        "ModelError", "no reason was given", None
    )


def test_a_look_that_cannot_be_is_none() -> None:
    def look(*strata: object, **fields: object) -> Event | None:
        said = {"event": "look", "task": "arc", "metric": "acc", "strata": list(strata), **fields}
        return parse(json.dumps(said).encode())

    assert isinstance(look(STRATUM), Look)
    for wrong in (
        {"answered": 241},
        {"answered": 0},
        {"answered": 30.0},
        {"documents": True},
        {"documents": 2**40, "answered": 1},
        {"right": 31},
        {"right": -1},
        {"right": float("nan")},
        {"right": 11.5},
        {"weight": 0.5},
        {"weight": float("inf")},
        {"weight": "1"},
        {"zero_or_one": 1},
    ):
        assert look({**STRATUM, **wrong}) is None, wrong
    assert look() is None
    assert look(STRATUM, task="") is None
    assert look(STRATUM, metric="\0") is None
    assert look(*[{**STRATUM, "weight": 1 / 501}] * 501) is None
    assert look(None) is None


class Script:
    """A child that says what it is given, one event a turn."""

    def __init__(self, *events: Event) -> None:
        self._events = list(events)

    def next_event(self, _seconds: float) -> Event | None:
        return self._events.pop(0)

    def has_ended(self) -> bool:
        return not self._events

    def use(self) -> Use:
        return Use(0, 0)


@pytest.fixture
def watch(db: None, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Over two runs, arc and mmlu; what it hears is stored at once."""
    monkeypatch.setattr("runners.watch.STORE_EVERY", 0.0)
    rows.queued("arc", "mmlu")
    worker = rows.worker()
    claim = rows.claimed_by(worker)
    runs = {run.task.name: run for run in claim.runs}
    return Watch(claim, worker, Heartbeat(claim, worker), runs, threading.Event())


def after(watch: Watch, phase: str, *events: Event) -> dict[str, tuple[str, int, int]]:
    """How the runs stand once the child has said all that."""
    for _ in watch.follow(cast(Child, Script(*events)), phase, Footprint(())):
        pass
    fields = Run.objects.values_list("task__name", "phase", "progress_done", "progress_total")
    return {name: (now, done, total) for name, now, done, total in fields}


def test_a_child_that_does_not_stop_is_given_up_before_its_worker_would_be_killed(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = now = time.monotonic()
    asked: list[float] = []

    class Deaf(Script):
        """A second of it after the other passes, whatever it is asked."""

        def next_event(self, _seconds: float) -> None:
            nonlocal now
            now += 1.0

        def has_ended(self) -> bool:
            return False

        def ask_to_stop(self) -> None:
            asked.append(now - began)

    monkeypatch.setattr("runners.watch.monotonic", lambda: now)
    watch.stopping.set()
    with pytest.raises(Stopping):
        list(watch.follow(cast(Child, Deaf()), "load", Footprint(())))
    assert asked == [1.0]
    assert STOP_GRACE < now - began - asked[0] < supervisor.STOP_SECONDS


def test_data_sets_are_counted_for_every_run_and_no_count_outlives_its_phase(watch: Watch) -> None:
    answers = after(watch, "download", Phase("download"), Progress("arc_part_2", 2, 6))
    assert answers == {"arc": ("download", 2, 6), "mmlu": ("download", 2, 6)}
    assert set(after(watch, "load", Phase("load")).values()) == {("load", 0, 0)}
    assert after(watch, "load", Phase("prepare"))["arc"] == ("prepare", 0, 0)
    assert after(watch, "load", Phase("evaluate"))["arc"] == ("evaluate", 0, 0)


def test_only_the_task_that_the_engine_names_is_being_answered_and_has_counts(
    watch: Watch,
) -> None:
    answers = after(watch, "load", Phase("prepare"), Phase("evaluate"), Progress("arc", 8, 40))
    assert answers == {"arc": ("evaluate", 8, 40), "mmlu": ("turn", 0, 0)}
    answers = after(watch, "load", Phase("evaluate"), Progress("mmlu", 3, 90))
    assert answers == {"arc": ("turn", 0, 0), "mmlu": ("evaluate", 3, 90)}
    watch.end_run("arc")
    answers = after(watch, "load", Phase("prepare"), Phase("evaluate"), Progress("mmlu", 4, 90))
    assert answers["mmlu"] == ("evaluate", 4, 90)


def test_tasks_that_are_answered_together_each_have_their_counts(watch: Watch) -> None:
    events = Phase("evaluate"), Progress("arc", 8, 40), Progress("mmlu", 3, 90)
    answers = after(watch, "load", *events)
    assert answers == {"arc": ("evaluate", 8, 40), "mmlu": ("evaluate", 3, 90)}
    script = Script(*events, TaskDone("arc", "record", "samples"))
    for event in watch.follow(cast(Child, script), "load", Footprint(())):
        if isinstance(event, TaskDone):
            watch.end_run("arc")
    mmlu = Run.objects.get(task__name="mmlu")
    assert (mmlu.phase, mmlu.progress_done, mmlu.progress_total) == ("evaluate", 3, 90)


def stands(answered: int, right: int) -> Look:
    stratum = Stratum(weight=1.0, documents=240, answered=answered, right=right, zero_or_one=True)
    return Look("arc", "acc", (stratum,))


def so_far() -> dict[str, object]:
    found: dict[str, object] = Run.objects.get(task__name="arc").so_far
    return found


def test_where_a_score_stands_so_far_is_stored_look_by_look_and_only_what_is_news(
    watch: Watch,
) -> None:
    """A second child goes on with the journal of the first; a model may say what it likes."""
    after(watch, "load", Phase("evaluate"), stands(30, 12), stands(60, 21))
    before = so_far()
    assert before["metric"] == "acc"
    first, second = cast(list[dict[str, float]], before["looks"])
    assert (first["answered"], first["documents"], first["value"]) == (30, 240, 0.4)
    assert (second["answered"], second["value"]) == (60, 0.35)
    assert first["low"] <= second["low"] < 0.35 < second["high"] <= first["high"]
    assert Run.objects.get(task__name="mmlu").so_far == {}

    after(watch, "load", Phase("evaluate"), stands(30, 12), stands(60, 60), stands(20, 20))
    assert so_far() == before
    made_up = Look("hellaswag", "acc", stands(30, 12).strata)
    after(watch, "load", Phase("evaluate"), made_up, *(stands(n, 9) for n in range(61, 90)))
    assert len(cast(list[object], so_far()["looks"])) == LOOKS

    run = watch.runs["arc"]
    claims.give_back(watch.token, why="the worker stops")
    assert claims.claim_next(Worker.objects.get()) is not None
    assert so_far() == {}, "a new attempt knows nothing of the looks before it"
    with pytest.raises(Taken):
        after(watch, "load", Phase("evaluate"), stands(30, 12))
    assert not claims.look(watch.token, run, metric="acc", looks=[{"value": 0.4}])
    assert so_far() == {}
