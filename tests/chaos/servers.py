"""The servers that fail: PostgreSQL and Redis, of the arena's own."""

from __future__ import annotations

import getpass
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg2
import redis

from tests.chaos.clock import Clock
from tests.services import STARTS_WITHIN, Server, free_port, missing, redis_server


class PostgreSQL:
    """A cluster of its own, for as long as the `with` statement lasts.

    Other hosts may enter as well: workers in other network namespaces are such.
    """

    def __init__(self, host: str) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        on_path = shutil.which("pg_ctl")
        if not programs and not on_path:
            missing("NO POSTGRESQL: there is no pg_ctl in /usr/lib/postgresql or on the PATH")
        self._programs = programs[-1] if programs else Path(str(on_path)).parent
        # Not below a folder of a test's, which its other user could not enter.
        self._data = Path(tempfile.mkdtemp(prefix="postgresql-"))
        self._host, self._port = host, free_port()
        # It refuses to run as root.
        self._as_other = ["runuser", "-u", "postgres", "--"] if getpass.getuser() == "root" else []

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{self._host}:{self._port}/postgres"

    def __enter__(self) -> PostgreSQL:
        if self._as_other:
            shutil.chown(self._data, "postgres")
        self._run("initdb", "-U", "postgres", "-A", "trust", "--no-sync")
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.0.0.0/8 trust\n")
        self._run("pg_ctl", *self._options(), "-w", "start")
        return self

    def __exit__(self, *_: object) -> None:
        self._run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(self._data, ignore_errors=True)

    def restart(self) -> None:
        """As after a power cut: whoever is connected is not."""
        self._run("pg_ctl", *self._options(), "-m", "immediate", "-w", "restart")

    def cut_connections(self) -> int:
        """End everybody's connection; how many there were."""
        with psycopg2.connect(self.url) as own, own.cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            (ended,) = cursor.fetchone() or (0,)
        own.close()
        return int(ended)

    def _options(self) -> list[str]:
        settings = f"-p {self._port} -k /tmp -c listen_addresses=* -c max_connections=200"
        return ["-l", str(self._data / "log"), "-o", settings]

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_other, str(self._programs / program), "-D", str(self._data)]
        subprocess.run(
            [*command, *arguments],
            cwd="/",
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=STARTS_WITHIN,
        )


class Redis:
    """A server that keeps its data over a restart or loses them, and whose clock may be wrong."""

    def __init__(self, folder: Path, host: str) -> None:
        self.server: Server = redis_server(folder, host)
        self._folder = folder

    @property
    def url(self) -> str:
        return f"redis://{self.server.host}:{self.server.port}/0"

    def client(self) -> redis.Redis:
        """One that waits for a second, and sees text."""
        return redis.Redis.from_url(self.url, decode_responses=True, socket_timeout=1)

    def restart(self, *, away: float = 0, keep: bool = False, hours: int = 0) -> None:
        """Kill it and start it after `away` seconds, with the data that it had where they are kept
        and with a clock that is so many hours ahead."""
        if keep:
            self.client().save()
        self.server.stop()
        time.sleep(away)
        self.server.start(Clock(self._folder, hours).before() if hours else ())
        (self._folder / "dump.rdb").unlink(missing_ok=True)  # a later start may not read it
