"""`python -m demo.generated`: fill the configured database with a board of made-up answers.

PLUMBLINE_DATABASE_URL names the database; 10,000 models × 60 benchmarks × 3 styles want PostgreSQL.
`--serve` then starts the site alone: workers would try to evaluate what waits in its queue.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import django
from django.core.management import call_command

from leaderboard import environment as env
from runners import supervisor
from runners.supervisor import CannotStart


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    try:
        home = supervisor.home_folder(supervisor.ROOT / "var" / "generated")
        port = env.integer("PLUMBLINE_PORT", 8000)
        os.environ |= {**supervisor.settle(home, port), "PLUMBLINE_SUITE": "generated"}
        django.setup()
        call_command("migrate", interactive=False, verbosity=0)
        if not (options.serve and _is_filled()):
            generate(options)
        if options.serve:
            _serve(port)
    except CannotStart as problem:
        sys.stderr.write(f"demo.generated: {problem}\n")
        return 1
    return 0


def generate(options: argparse.Namespace) -> None:
    """From the population to the snapshots; raises CannotStart for a database in use."""
    # Tables can be imported only now, with the settings in place.
    from demo.generated.benchmarks import make_benchmarks
    from demo.generated.files import write_files
    from demo.generated.fill import fill
    from demo.generated.population import populate
    from leaderboard.snapshot import published
    from leaderboard.tasks import items

    _refuse_a_database_in_use(beside=options.beside)
    until = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with _timed("models and questions"):
        population = populate(options.models, seed=options.seed, until=until)
        benchmarks = make_benchmarks(options.tasks, seed=options.seed, largest=options.largest)
    with _timed("runs, results and answers by question"):
        filled = fill(population, benchmarks, seed=options.seed, until=until, say=_say)
    _say(f"{filled.runs:,} finished runs")
    with _timed("sample files"):
        write_files(filled, models=options.files)
    with _timed("statistics of the database"):
        _analyse()
    for style in published.styles_of(filled.suite):
        with _timed(f"board of style {style}"):
            published.build(filled.suite, style)
    with _timed("analysis of questions"):
        while items.analyse_due():
            pass


def _refuse_a_database_in_use(*, beside: bool) -> None:
    from django.db import connection

    from demo.generated.fill import SUITE
    from leaderboard.models import Suite

    name = connection.settings_dict["NAME"]
    if Suite.objects.filter(name=SUITE).exists():
        raise CannotStart(f"the database {name} has a generated suite: drop it, or name another")
    others = Suite.objects.order_by("name").values_list("name", flat=True)
    if others and not beside:
        raise CannotStart(
            f"the database {name} has the suites {', '.join(others)}: name an empty one in "
            "PLUMBLINE_DATABASE_URL, or say --beside to put invented models among those there"
        )


def _is_filled() -> bool:
    from demo.generated.fill import SUITE
    from leaderboard.models import BoardSnapshot

    return BoardSnapshot.objects.filter(suite__name=SUITE, published=True).exists()


def _analyse() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


def _serve(port: int) -> None:
    call_command("collectstatic", interactive=False, verbosity=0)
    supervisor.check_port(port, "PLUMBLINE_PORT")
    supervisor.run({"site": supervisor.parts()["site"]}, os.environ)


@contextmanager
def _timed(what: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    _say(f"{what}: {time.perf_counter() - begin:.1f} s")


def _say(line: str) -> None:
    print(line, flush=True)


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"expected a whole number from {least}, got {text!r}")
        return int(text)

    return number


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m demo.generated", description=__doc__)
    parser.add_argument("--models", type=_at_least(10), default=1_000, help="variants (1,000)")
    parser.add_argument("--tasks", type=_at_least(1), default=20,
                        help="benchmarks, in 3 styles each (20)")  # fmt: skip
    parser.add_argument("--largest", type=_at_least(40), default=14_000, metavar="N",
                        help="questions of the largest benchmark (14,000)")  # fmt: skip
    parser.add_argument("--files", type=int, default=6, metavar="MODELS",
                        help="models with sample files of the largest benchmark (6)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of everything (0)")
    parser.add_argument("--beside", action="store_true", help="even where other suites are")
    parser.add_argument("--serve", action="store_true",
                        help="start the site; fills the database only if it is not")  # fmt: skip
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
