"""Messages as files: whole when they can be seen, taken once, gone when they are stale."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kombu import Connection

from runners import broker
from tests import services
from tests.runners.place import ROOT

PRODUCER = """
import sys
from pathlib import Path
from kombu import Connection
from runners import broker
options = broker.options(Path(sys.argv[1]))
with Connection("filesystem://localhost//", transport="runners.broker:Transport",
                transport_options=options) as connection:
    queue = connection.SimpleQueue("work")
    for number in range(int(sys.argv[3])):
        queue.put(f"{sys.argv[2]}/{number}")
"""
CONSUMER = """
import sys
from pathlib import Path
from queue import Empty
from kombu import Connection
from runners import broker
options = broker.options(Path(sys.argv[1]))
with Connection("filesystem://localhost//", transport="runners.broker:Transport",
                transport_options=options) as connection:
    queue = connection.SimpleQueue("work")
    while True:
        all_is_sent = Path(sys.argv[1], "all is sent").exists()
        try:
            message = queue.get(timeout=1)
        except Empty:
            if all_is_sent:
                break
            continue
        message.ack()
        print(message.payload, flush=True)
"""


def connect(folder: Path) -> Connection:
    return Connection(
        "filesystem://localhost//",
        transport="runners.broker:Transport",
        transport_options=broker.options(folder),
    )


def test_every_message_of_several_producers_reaches_one_of_several_consumers(
    tmp_path: Path,
) -> None:
    def start(code: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, str(tmp_path), *arguments]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    consumers = [start(CONSUMER) for _ in range(3)]
    producers = [start(PRODUCER, str(number), "100") for number in range(3)]
    for producer in producers:
        producer.communicate(timeout=300)
    (tmp_path / "all is sent").touch()
    got = [line for consumer in consumers for line in consumer.communicate(timeout=300)[0].split()]
    assert all(process.returncode == 0 for process in [*producers, *consumers])
    assert sorted(got) == sorted(f"{who}/{number}" for who in range(3) for number in range(100))


def test_a_message_that_is_being_written_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    real_rename = Path.rename

    def look_before_renaming(self: Path, target: Path) -> Path:
        with connect(tmp_path) as other:
            seen.append(other.SimpleQueue("work").qsize())
        return real_rename(self, target)

    monkeypatch.setattr(Path, "rename", look_before_renaming)
    with connect(tmp_path) as connection:
        queue = connection.SimpleQueue("work")
        queue.put("hint")
        assert seen == [0]
        assert queue.qsize() == 1


def test_stale_messages_are_swept_and_fresh_ones_stay(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        queue = connection.SimpleQueue("chores")
        queue.put("old")
        (old,) = (tmp_path / "messages").iterdir()
        long_ago = time.time() - 2 * broker.STALE
        os.utime(old, (long_ago, long_ago))
        queue.put("new")
        assert broker.sweep(tmp_path) == 1
        assert queue.get(timeout=30).payload == "new"


@pytest.mark.services
def test_hints_that_nobody_reads_do_not_pile_up_in_redis(tmp_path: Path) -> None:
    with services.redis(tmp_path) as url:
        code = (
            "import django; django.setup()\n"
            "from runners import hints\n"
            "from runners.jobs import release_stalled\n"
            "for _ in range(250):\n"
            "    hints.send()\n"
            "release_stalled.apply_async()\n"
        )
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
            "PLUMBLINE_DEBUG": "1",
            "PLUMBLINE_HOME": str(tmp_path),
            "PLUMBLINE_BROKER_URL": url,
        }
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)
        with Connection(url) as connection, connection.channel() as channel:
            waiting = {name: channel.client.llen(name) for name in ("hints", "chores")}
    assert waiting == {"hints": broker.MOST_HINTS, "chores": 1}
