"""Measures the site with 10,000 models × 60 benchmarks × 3 styles: `make bench-site`.

The data stay in a PostgreSQL database of their own and in var/bench-site, and are used again;
PLUMBLINE_DATABASE_URL and PLUMBLINE_HOME name others.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import django
from django.core.management import call_command

from bench.page import write_page
from bench.results import machine
from bench.site import database
from bench.site.beside import working
from bench.site.database import FULL, QUICK, Size
from bench.site.page import FILE
from bench.site.results import Results
from bench.site.server import started
from runners import supervisor
from runners.supervisor import ROOT, CannotStart

FOLDER = ROOT / "docs" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"
SHARES_OF_RATE = (0.25, 0.5, 1.0)
"""Below the rate that is asked for, so that one sees what the server can do where it fails."""
PACKAGES = ("Django", "gunicorn", "waitress", "numpy")


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    size = QUICK if options.quick else FULL
    try:
        generation = prepare(size, anew=options.anew)
        results = measure(size, generation, rate=options.rate, seconds=options.seconds)
    except CannotStart as problem:
        sys.stderr.write(f"bench.site: {problem}\n")
        return 1
    if options.output is not None:
        results.write(options.output)
        if options.output.resolve() == FOLDER / FILE:
            write_page(FOLDER, PAGE)
    return 0


def prepare(size: Size, *, anew: bool) -> Mapping[str, float]:
    """Settings, database and data; what each part of making the data took, in seconds."""
    home = supervisor.home_folder(ROOT / "var" / "bench-site" / size.name)
    log, port = home / "generation.log", _free_port()
    url = database.create(size, anew=anew)
    os.environ.pop("PLUMBLINE_DEBUG", None)
    os.environ |= {
        **supervisor.settle(home, port),
        "PLUMBLINE_DATABASE_URL": url,
        "PLUMBLINE_SUITE": "generated",
        # One machine asks here as a thousand visitors would.
        "PLUMBLINE_PAGES_PER_MINUTE": "0",
        "PLUMBLINE_DOWNLOADS_PER_MINUTE": "0",
    }
    if anew or not log.is_file():
        database.generate(size, os.environ, log)
    django.setup()
    call_command("migrate", interactive=False, verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    return database.timings(log)


def measure(size: Size, generation: Mapping[str, float], *, rate: float, seconds: float) -> Results:
    """Everything there is to say of the site on this data."""
    # Tables can be imported only now, with the settings in place.
    from bench.site import boards
    from bench.site import measure as by
    from bench.site.addresses import kinds as kinds_of
    from leaderboard import gunicorn_config
    from leaderboard.catalogue import newest_suite

    began = time.monotonic()
    suite = newest_suite("generated")
    if suite is None:
        raise CannotStart("the database has no generated suite: make the data again with --anew")
    kinds = kinds_of(suite, filters=size.filters, models=size.pages)
    starts = []
    for _ in range(size.starts):
        with started(os.environ) as server:
            starts.append(by.first_page(server))
    with started(os.environ) as server:
        _say("pages, one after the other")
        first, *others = by.rows(server, kinds, repeated=size.repeated)
        _say("new snapshots")
        first = replace(first, cold=by.after_snapshots(server, suite, 2 * size.starts))
        loads = []
        for share in SHARES_OF_RATE:
            _say(f"{share * rate:.0f} requests a second")
            loads.append(by.load(server, kinds, rate=share * rate, seconds=seconds))
        _say(f"{rate:.0f} requests a second beside a worker that evaluates")
        with working() as worker:
            beside = by.load(server, kinds, rate=rate, seconds=seconds, worker=worker)
        memory = server.memory()
    _say("boards after one run has ended")
    built = boards.after_a_run(suite)
    threads = f"{gunicorn_config.workers} processes of {gunicorn_config.threads} threads"
    return Results(
        machine=machine(None),
        versions={"Python": sys.version.split()[0], **{name: version(name) for name in PACKAGES}},
        postgresql=database.settings(),
        date=datetime.now(UTC).date().isoformat(),
        minutes=(time.monotonic() - began) / 60,
        server=f"gunicorn with waitress, {threads}",
        models=size.models,
        columns=3 * size.tasks,
        rows=database.row_counts(),
        generation=generation,
        after_start=by.times(starts),
        kinds=[first, *others],
        loads=loads,
        memory=memory,
        boards_after_start=built.start,
        boards_after_run=built.run,
        beside_worker=beside,
    )


def _free_port() -> int:
    return next(port for port in range(8100, 8200) if supervisor.is_free(port))


def _say(line: str) -> None:
    print(line, flush=True)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.site", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200 models × 6 benchmarks: a look")
    parser.add_argument("--anew", action="store_true", help="make the data again")
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second (100)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of them (60)")
    parser.add_argument(
        "--output", type=Path, metavar="FILE.json",
        help=f"keep the results; as docs/benchmarks/{FILE} they stand on the page",
    )  # fmt: skip
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
