"""`make image-check`: build the images with buildah, start what compose.yaml starts, use it.

Wants root, buildah and debootstrap (Debian packages), PostgreSQL and Redis on 127.0.0.1, and no
Docker engine. The base image is made of the machine's own Debian mirror, or is the one that
PLUMBLINE_IMAGE_BASE names. Ends with 0 only when a model submitted to the site in the images was
evaluated by the worker in the image and stands on the board.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import yaml

ROOT = Path(__file__).resolve().parents[1]
TARGETS = ("site", "worker")
"""What compose.yaml starts."""
MODEL = Path("models/plumbline-demo/scholar-llama")
OWNER = 10001
POSTGRESQL = os.environ.get("PLUMBLINE_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
REDIS = os.environ.get("PLUMBLINE_TEST_REDIS", "redis://127.0.0.1:6379/9")
SECONDS = 600.0


def main() -> int:
    for program in ("buildah", "debootstrap"):
        if shutil.which(program) is None:
            sys.exit(f"image-check: {program} is not installed: apt-get install {program}")
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plumbline-images-")))
        os.environ.setdefault("BUILDAH_ISOLATION", "chroot")
        os.environ.setdefault("STORAGE_DRIVER", "overlay" if overlays(work) else "vfs")
        stack.enter_context(images_removed())
        say("base image")
        base = os.environ.get("PLUMBLINE_IMAGE_BASE") or make_base(work)
        containers: dict[str, str] = {}
        for target in TARGETS:
            say(f"image of the {target}")
            build(target, base, work)
            containers[target] = stack.enter_context(container(f"localhost/plumbline-{target}"))
            check_image(target, containers[target])
        say("image of the worker-cuda")
        build("worker-cuda", base, work)
        with container("localhost/plumbline-worker-cuda") as name:
            check_image("worker-cuda", name)
        use(stack, containers, work)
    say("the images are built, start, and evaluate a model")
    return 0


def say(what: str) -> None:
    print(f"image-check: {what}", flush=True)


def overlays(work: Path) -> bool:
    """Whether the kernel lays folders over each other; else each layer copies the one below."""
    parts = {name: work / name for name in ("lowerdir", "upperdir", "workdir")}
    over = work / "over"
    for folder in (*parts.values(), over):
        folder.mkdir()
    options = ",".join(f"{name}={folder}" for name, folder in parts.items())
    mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(over)]
    if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode != 0:
        return False
    subprocess.run(["umount", str(over)], check=True)
    return True


def buildah(*arguments: str, **options: Any) -> str:
    done = subprocess.run(
        ["buildah", *arguments], stdout=subprocess.PIPE, text=True, check=True, **options
    )
    return done.stdout.strip()


def make_base(work: Path) -> str:
    """Debian as the machine's own mirror has it."""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    mirror = next(line for line in told.stdout.splitlines() if line.rstrip("/").endswith("debian"))
    root = work / "root"
    command = ["debootstrap", "--variant=minbase", "bookworm", str(root), mirror]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    made = buildah("from", "scratch")
    buildah("add", "--quiet", made, str(root), "/")
    buildah("commit", "--quiet", "--rm", made, "localhost/plumbline-base")
    shutil.rmtree(root)
    return "localhost/plumbline-base"


def build(target: str, base: str, work: Path) -> None:
    """One image, by the machine's own pip configuration, and whatever folders that names.

    Stages that images begin with are built once. The base is another one in each run, so
    nothing of an earlier run is taken.
    """
    # Where CI runs there is no build of torch for CUDA, and no GPU to try one on.
    cuda = ["--build-arg", "REQUIRE_CUDA="] if target == "worker-cuda" else []
    volumes = [part for volume in pip_configuration(work) for part in ("--volume", volume)]
    buildah(
        "build", "--quiet", "--layers", "--format", "docker", "--target", target,
        "--build-arg", f"BASE={base}", *cuda, *volumes, "--tag", f"localhost/plumbline-{target}",
        str(ROOT),
    )  # fmt: skip


def pip_configuration(work: Path) -> list[str]:
    """What to mount so that pip finds in a container what it finds on this machine."""
    pip = [sys.executable, "-m", "pip", "config", "list"]
    told = subprocess.run(pip, capture_output=True, text=True, check=True).stdout
    settings: dict[str, str] = {}
    mounted: dict[str, str] = {}
    for line in told.splitlines():
        name, _, value = line.partition("=")
        value = value.strip("'")
        for path in re.findall(r"(?:file://)?/[\w./-]+", value):
            here = Path(path.removeprefix("file://"))
            # The pages of an index lead to files beside its folder.
            here = here.parent if path.startswith("file://") else here
            if here.exists():
                # Where the image has a file of its own ours goes beside it.
                mounted[str(here)] = f"/mnt{here}" if here.is_relative_to("/etc") else str(here)
                value = value.replace(str(here), mounted[str(here)])
        # The variables of the environment come first, and overrule the files.
        settings.setdefault(name.rpartition(".")[2], value)
    (work / "pip.conf").write_text(
        "\n".join(["[global]", *(f"{name} = {value}" for name, value in settings.items()), ""])
    )
    mounted[str(work / "pip.conf")] = "/etc/pip.conf"
    return [f"{here}:{there}:ro" for here, there in mounted.items()]


@contextmanager
def images_removed() -> Iterator[None]:
    """Have all images that are made meanwhile gone at the end: they take gigabytes of the disk."""
    before = images()
    try:
        yield
    finally:
        # An image that another one was made from goes after it.
        while made := images() - before:
            subprocess.run(["buildah", "rmi", "--force", *made], capture_output=True)
            if images() - before == made:
                say(f"cannot remove the images {', '.join(sorted(made))}")
                break


def images() -> set[str]:
    return set(buildah("images", "--all", "--quiet", "--no-trunc").split())


@contextmanager
def container(image: str) -> Iterator[str]:
    name = buildah("from", image)
    try:
        yield name
    finally:
        buildah("rm", name)


def check_image(target: str, name: str) -> None:
    """What holds of it before anything runs: no root, a health check, a working engine."""
    configuration = json.loads(buildah("inspect", name))["Docker"]["config"]
    assert configuration["Healthcheck"]["Test"], f"{target}: no health check"
    assert inside(name, "id", "-u") == str(OWNER), f"{target}: runs as root"
    if target == "site":
        small = "import importlib.util as u; print(u.find_spec('torch'))"
        assert inside(name, "python", "-c", small) == "None", "site: holds torch"
        return
    assert "usage: evalcore" in inside(name, "evalcore", "--help")
    assert "arc_easy" in inside(name, "evalcore", "ls", "tasks")


def inside(name: str, *command: str, **variables: str) -> str:
    return buildah("run", *_options(variables), name, "--", *command)


def _options(variables: Mapping[str, str], home: Path | None = None) -> list[str]:
    options = [part for name, value in variables.items() for part in ("--env", f"{name}={value}")]
    return options + ([] if home is None else ["--volume", f"{home}:/var/lib/plumbline"])


def use(stack: ExitStack, containers: Mapping[str, str], work: Path) -> None:
    """Start the services of compose.yaml and have a model evaluated through the site's form."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    home = work / "home"
    home.mkdir()
    os.chown(home, OWNER, OWNER)
    content = work / "content"
    (content / MODEL.parent).mkdir(parents=True)
    shutil.copytree(ROOT / "demo" / "content" / MODEL, content / MODEL)
    shutil.copytree(ROOT / "demo" / "content" / "datasets", content / "datasets")
    hub_port, site_port = free_port(), free_port()
    address = f"http://127.0.0.1:{site_port}"
    given = {
        "PLUMBLINE_SECRET_KEY": secrets.token_urlsafe(64),
        "PLUMBLINE_DATABASE_PASSWORD": "unused",
        "PLUMBLINE_SUITE": "demo",
        "PLUMBLINE_OPEN_SUBMIT": "1",
        "HF_ENDPOINT": f"http://127.0.0.1:{hub_port}",
    }
    # There are no networks of containers here: two services have the machine's own address.
    other = {
        "PLUMBLINE_DATABASE_URL": stack.enter_context(database()),
        "PLUMBLINE_BROKER_URL": REDIS,
        "PLUMBLINE_PORT": str(site_port),
        "PLUMBLINE_BIND": "127.0.0.1",
    }

    def options(service: str) -> tuple[str, list[str]]:
        written = services[service]["environment"]
        variables = {name: interpolated(value, given) for name, value in written.items()} | other
        target = services[service]["build"]["target"]
        return containers[target], _options(variables, home)

    def run(service: str, *command: str) -> str:
        name, how = options(service)
        return buildah("run", *how, name, "--", *command)

    def command_of(service: str) -> list[str]:
        if command := services[service].get("command"):
            return list(command)
        name = containers[services[service]["build"]["target"]]
        return list(json.loads(buildah("inspect", name))["Docker"]["config"]["Cmd"])

    say("manage.py check --deploy, and a migration")
    name, how = options("site")
    checked = ["python", "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    buildah("run", *how, "--env", "PLUMBLINE_HTTPS=1", name, "--", *checked)
    run("prepare", *command_of("prepare"))
    hub = [sys.executable, "-m", "demo.hub", str(content), "--port", str(hub_port)]
    stack.enter_context(process(hub))
    for service in ("site", "beat", "chores", "boards", "evaluate"):
        say(f"starting {service}")
        name, how = options(service)
        stack.enter_context(process(["buildah", "run", *how, name, "--", *command_of(service)]))
    wait_for(f"{address}/healthz")
    wait_for(f"{address}/readyz")
    health = json.loads(buildah("inspect", containers["site"]))["Docker"]["config"]["Healthcheck"]
    assert health["Test"][0] == "CMD"
    asked = [part.replace(":8000", f":{site_port}") for part in health["Test"][1:]]
    run("site", *asked)
    written = services["site"]["healthcheck"]["test"]
    run("site", *(part.replace(":8000", f":{site_port}") for part in written[1:]))
    page = urllib.request.urlopen(f"{address}/", timeout=30).read().decode()
    style = re.search(r'href="(/static/[^"]+\.css)"', page)
    assert style, "the page names no stylesheet"
    urllib.request.urlopen(address + style[1], timeout=30).close()
    say("a model through the form, the worker and the board")
    submit = [sys.executable, "-m", "demo.submit", address, str(content)]
    subprocess.run([*submit, "--within", str(SECONDS)], cwd=ROOT, check=True)
    run("evaluate", "python", "-m", "runners", "health")


def interpolated(text: str, given: Mapping[str, str]) -> str:
    """Compose's `${NAME:-default}` and `${NAME:?message}`."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        if kind == "?" and not given.get(name):
            raise SystemExit(f"compose.yaml: {name}: {rest}")
        return given.get(name) or (rest if kind == "-" else "")

    return re.sub(r"\$\{(\w+):([-?])([^}]*)\}", value, text)


@contextmanager
def database() -> Iterator[str]:
    """The address of an empty one, dropped at the end."""
    name = f"plumbline_images_{secrets.token_hex(6)}"
    server = psycopg2.connect(POSTGRESQL)
    server.autocommit = True
    with server.cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{POSTGRESQL.rpartition('/')[0]}/{name}"
        finally:
            cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    server.close()


@contextmanager
def process(command: list[str]) -> Iterator[None]:
    started = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        yield
        assert started.poll() is None, f"ended by itself: {' '.join(command[-3:])}"
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(started.pid, number)
                started.wait(10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def wait_for(address: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
