"""`python -m demo`: the whole product on this machine, with a local Hub and models to rank.

The site, its workers and the Hub run as one process tree; the demo's models are submitted through
the site's own form. `--check` does the same in a temporary folder, unattended, and exits with 0
only when the board ranks at least four models.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from demo.submit import models_in
from leaderboard import environment as env
from runners import supervisor
from runners.supervisor import ROOT, CannotStart, Ended

CONTENT = ROOT / "demo" / "content"
FEWEST = 4
CHECK_SECONDS = 600
PORTS_TO_TRY = 50
ACCOUNT = "operator"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="end when the board is filled; 0 means that it is"
    )
    parser.add_argument(
        "folders", nargs="*", type=Path, metavar="FOLDER", help="more for the local Hub to serve"
    )
    options = parser.parse_args()
    try:
        if options.check:
            return check()
        home = supervisor.home_folder(ROOT / "var" / "demo")
        ended = demo(home, ["--stay", "--leave-one"], options.folders)
    except CannotStart as problem:
        sys.stderr.write(f"demo: {problem}\n")
        return 1
    if ended.part is not None:
        sys.stderr.write(f"demo: everything was stopped, because {ended.part!r} ended by itself\n")
        return 1
    return 0


def check() -> int:
    """Fill a board from nothing and say whether it worked."""
    count = len(list(models_in(CONTENT)))
    if count < FEWEST:
        raise CannotStart(f"{CONTENT} holds {count} models, expected at least {FEWEST}")
    with tempfile.TemporaryDirectory(prefix="plumbline-check-") as home:
        ended = demo(Path(home), ["--within", str(CHECK_SECONDS)])
    if ended == Ended("demo", 0):
        print(f"demo --check: the board ranks {count} models")
        return 0
    sys.stderr.write(f"demo --check: failed: {ended.part!r} ended with status {ended.status}\n")
    return 1


def demo(home: Path, how: list[str], folders: Sequence[Path] = ()) -> Ended:
    """Run the tree on `home`; `how` is for the part that submits the models.

    The Hub serves `folders` besides the demo's own content, for the form to take IDs from.
    """
    with supervisor.only_one(home) as announce:
        port = choose_port("PLUMBLINE_PORT", 8000)
        hub_port = choose_port("PLUMBLINE_HUB_PORT", 8001, taken=port)
        url = supervisor.address(port)
        announce(url)
        for name in ("PLUMBLINE_DEBUG", "HF_TOKEN", "HF_TOKEN_FILE", "HF_HOME"):
            os.environ.pop(name, None)
        os.environ |= {
            "HF_ENDPOINT": supervisor.address(hub_port),
            "PLUMBLINE_SUITE": "demo",
            "PLUMBLINE_OPEN_SUBMIT": "1",
            # Systems that cannot confine a model can run the demo's: only this machine reaches it.
            "PLUMBLINE_UNCONFINED": "1",
        }
        variables = supervisor.settle(home, port)
        print(f"demo: files in {home}; preparing the database", flush=True)
        supervisor.prepare(variables)
        make_account(variables, url)
        hub = [sys.executable, "-m", "demo.hub", str(CONTENT), *map(str, folders)]
        hub += ["--port", str(hub_port)]
        submit = [sys.executable, "-m", "demo.submit", url, str(CONTENT), *how]
        commands = {"hub": hub, **supervisor.parts(), "demo": submit}
        return supervisor.run(commands, variables, until="demo")


def make_account(variables: Mapping[str, str], url: str) -> None:
    """Make the operator's account at the first start, and print its password that once.

    Raises CannotStart where Django refuses it for another reason than that it exists.
    """
    password = secrets.token_urlsafe(9)
    command = ["manage.py", "createsuperuser", "--noinput", "--username", ACCOUNT, "--email", ""]
    made = subprocess.run(
        [sys.executable, *command],
        env={**variables, "DJANGO_SUPERUSER_PASSWORD": password},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    another = f"PLUMBLINE_HOME={variables['PLUMBLINE_HOME']} .venv/bin/python manage.py"
    if made.returncode == 0:
        print(f"demo: sign in at {url}/accounts/login as {ACCOUNT}, password {password}")
        print(f"demo: shown only once; `{another} changepassword {ACCOUNT}` sets a new one")
    elif "already taken" in made.stderr:
        print(
            f"demo: sign in at {url}/accounts/login as {ACCOUNT}; "
            f"`{another} changepassword {ACCOUNT}` sets a new password"
        )
    else:
        raise CannotStart(f"the account {ACCOUNT} could not be made: {made.stderr.strip()}")


def choose_port(variable: str, default: int, taken: int | None = None) -> int:
    """The port that `variable` names, else the first free one from `default` on."""
    if wanted := env.integer(variable, 0):
        supervisor.check_port(wanted, variable)
        return wanted
    for port in range(default, default + PORTS_TO_TRY):
        if port != taken and supervisor.is_free(port):
            if port != default:
                print(f"demo: port {default} is taken, using {port} ({variable} names another)")
            return port
    raise CannotStart(f"no free port from {default} on: set {variable} to a free one")


if __name__ == "__main__":
    sys.exit(main())
