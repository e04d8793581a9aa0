"""Which GPUs a worker has, what is free on them, that no two workers share a name, and that no run
is taken where CUDA does not start in a process like its model's.

No GPU is here: `nvidia-smi` is a stand-in that prints what the real one does when it is asked so,
another device stands for the card, and the driver's library is a few lines of C that do what the
real one did on an H100, and report what it did.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from evalcore.sandbox import confinement
from evalcore.sandbox.confinement import WAYS, Way
from runners import (
    celery,
    devices,
    sandboxed,
    supervisor,
)
from runners.celery import app
from runners.devices import NoSuchDevice
from runners.registration import own_name
from tests.runners import place
from tests.runners.conftest import works

pytestmark = pytest.mark.django_db(transaction=True)

H100 = "GPU-0a"
CARDS = (
    f"0, {H100}, NVIDIA H100 80GB HBM3, 81044, 500, 81559, 9.0",
    "1, GPU-1b, NVIDIA H100 80GB HBM3, 40000, 41544, 81559, 9.0",
    "2, GPU-2c, Tesla T4, 14900, 12, 15360, 7.5",
)
MIB = 2**20
PYTHON = (sys.executable,)

Cards = Callable[..., None]


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cards:
    """Puts a stand-in for nvidia-smi on the PATH that lists these cards, or fails so."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PLUMBLINE_DEVICES"):
        # First set, so that what a test's code sets is taken back too.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)

    def list_them(*lines: str, status: int = 0) -> None:
        asked = "--query-gpu=index,uuid,name,memory.free,memory.used,memory.total,compute_cap"
        program.write_text(
            "#!/bin/sh\n# A stand-in.\n"
            f'[ "$1" = {asked} ] && [ "$2" = --format=csv,noheader,nounits ] || exit 2\n'
            + "".join(f"echo '{line}'\n" for line in lines)
            + f"exit {status}\n"
        )
        program.chmod(0o755)

    return list_them


def test_what_is_free_counts_and_the_weakest_gpu_says_in_what_is_computed(cards: Cards) -> None:
    cards(*CARDS)
    large = devices.capacity_of("0,1", PYTHON)
    assert large.memory_bytes == (81044 + 40000) * MIB
    assert (large.device, set(large.dtypes)) == (
        "2 x NVIDIA H100 80GB HBM3",
        {"float32", "float16", "bfloat16"},
    )
    assert set(devices.capacity_of("1,2", PYTHON).dtypes) == {"float32", "float16"}


def test_what_is_in_use_is_told_of_each_gpu_that_the_worker_has(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards(*CARDS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    told = devices.memory_in_use("2 x anything", 0)
    assert told == [("1", 41544 * MIB, 81559 * MIB), ("2", 12 * MIB, 15360 * MIB)]
    cards(CARDS[1], CARDS[2].replace("12, 15360", "[N/A], [N/A]"))
    assert [gpu.free_bytes for gpu in devices.find_gpus("")] == [40000 * MIB, 14900 * MIB]
    assert devices.memory_in_use("2 x anything", 0) == [("1", 41544 * MIB, 81559 * MIB)]
    cards("NVIDIA-SMI has failed: no driver", status=9)
    assert devices.memory_in_use("2 x anything", 0) == []


def test_a_tree_has_a_worker_for_each_gpu_or_for_the_groups_that_are_named(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards(*CARDS)
    assert list(supervisor.workers()) == ["evaluate-0", "evaluate-1", "evaluate-2"]
    assert supervisor.workers()["evaluate-2"][-2:] == ["--devices", "2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1b,2")
    assert devices.groups() == ["1", "2"]
    monkeypatch.setenv("PLUMBLINE_DEVICES", "0,1 2")
    assert devices.groups() == ["0,1", "2"]
    monkeypatch.delenv("PLUMBLINE_DEVICES")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert list(supervisor.workers()) == ["evaluate"]


def test_a_child_sees_the_chosen_gpus_by_the_numbers_of_nvidia_smi(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards(*CARDS)
    devices.keep_to(devices.find_gpus(f"2,{H100}"))
    seen = sys.modules["os"].environ
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["CUDA_DEVICE_ORDER"]) == ("2,0", "PCI_BUS_ID")
    assert devices.device_option(devices.find_gpus("")) == "0,2"


def test_a_model_that_one_gpu_does_not_hold_is_spread_over_all_that_the_worker_counts(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards(*CARDS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    both = devices.capacity_of("0,1", PYTHON)
    assert sandboxed.model_args(both.device, 81559 * MIB) == ""
    assert both.memory_bytes > 81560 * MIB
    assert sandboxed.model_args(both.device, 81560 * MIB) == "parallelize=True"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert sandboxed.model_args(devices.capacity_of("0,2", PYTHON).device, 20000 * MIB) != ""
    assert sandboxed.model_args(devices.capacity_of("0", PYTHON).device, 90000 * MIB) == ""
    assert sandboxed.model_args("cpu, 8 cores", 2**50) == ""


def test_a_gpu_that_is_not_there_is_refused_and_a_driver_that_fails_leaves_the_processor(
    cards: Cards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards(*CARDS)
    assert devices.device_option(devices.find_gpus("GPU-")) == "0"  # as CUDA reads beginnings
    for stated, why in (
        ("7", "no GPU '7'.*leave 0, 1, 2"),
        ("0,0", "twice"),
        ("0,", "no GPU ''"),
    ):
        with pytest.raises(NoSuchDevice, match=why):
            devices.find_gpus(stated)
    cards("NVIDIA-SMI has failed: no driver", status=9)
    assert devices.groups() == ["cpu"]
    with pytest.raises(NoSuchDevice, match="NVIDIA-SMI has failed: no driver"):
        devices.find_gpus("0")
    monkeypatch.setenv("PATH", str(tmp_path))  # where there is no nvidia-smi
    assert devices.groups() == ["cpu"]
    with pytest.raises(NoSuchDevice, match="nvidia-smi does not tell of GPUs"):
        devices.find_gpus("0")


def test_torch_says_once_for_each_version_of_it_in_a_home_in_what_the_processor_computes(
    tmp_path: Path, settings: Any
) -> None:
    settings.PLUMBLINE_HOME = tmp_path
    version, asked, answer = tmp_path / "version", tmp_path / "asked", tmp_path / "answer"
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$2" in *importlib.metadata*) exec cat {version};; esac\n'
        # To import torch takes seconds: what it answers first is its answer to all questions.
        f"echo asked >>{asked}\n"
        f'[ -e {answer} ] || {sys.executable} "$@" >{answer}\nexec cat {answer}\n'
    )
    python.chmod(0o755)
    for stated, times in (("2.13.0", 1), ("2.13.0", 1), ("2.14.0", 2), ("2.13.0", 2)):
        version.write_text(f"{stated}\n")
        devices.cpu_dtypes.cache_clear()
        found = devices.capacity_of("cpu", (str(python),))
        assert "float32" in found.dtypes
        assert len(asked.read_text().split()) == times
    assert found.device.startswith("cpu, ")
    assert 0 < found.memory_bytes <= devices.host_memory()
    for spoilt in ("half a fi", "[1]", '{"a": 1}'):
        (tmp_path / "precisions.json").write_text(spoilt)
        devices.cpu_dtypes.cache_clear()
        assert devices.capacity_of("cpu", (str(python),)) == found
    with pytest.raises(NoSuchDevice, match="No module named 'torch'"):
        devices.cpu_dtypes((sys.executable, "-I", "-S"))


def test_two_workers_of_a_host_have_two_names_and_a_gpu_has_one_worker(
    tmp_path: Path, cards: Cards
) -> None:
    cards(*CARDS)
    first, second = devices.find_gpus("0"), devices.find_gpus("1")
    with own_name(tmp_path, first) as a, own_name(tmp_path, second) as b:
        host = socket.gethostname()
        assert (a, b) == (f"evaluate-cuda0@{host}", f"evaluate-cuda1@{host}")
        with pytest.raises(NoSuchDevice, match=f"GPU 0 \\({H100}\\) has a worker already"):
            own_name(tmp_path, first).__enter__()
        # As in a job of an engine, which calls its only GPU 0, whichever that is.
        cards("0, GPU-other, NVIDIA H100 80GB HBM3, 81044, 500, 81559, 9.0")
        with own_name(tmp_path, devices.find_gpus("0")) as c:
            assert c == f"evaluate-cuda0.2@{host}"
    with own_name(tmp_path, []) as one, own_name(tmp_path, []) as other:
        assert (one, other) == (f"evaluate-cpu@{host}", f"evaluate-cpu.2@{host}")
    with own_name(tmp_path, []) as again:
        assert again == one


LIBRARY = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
static pid_t started;
static pthread_barrier_t both;
static void *wait_for_ever(void *_) {
    started = gettid();
    pthread_barrier_wait(&both);
    pause();
    return 0;
}
int cuInit(unsigned flags) {
    pthread_t thread;
    pthread_barrier_init(&both, 0, 2);
    if (pthread_create(&thread, 0, wait_for_ever, 0)) return 2;
    pthread_barrier_wait(&both);
    char place[100];
    snprintf(place, sizeof place, "/proc/self/task/%d/comm", started);
    FILE *comm = fopen(place, "w");
    if (!comm || fputs("cuda-EvtHandlr", comm) < 0 || fclose(comm)) return 304;
    struct sockaddr_un name = {AF_UNIX};
    int length = snprintf(name.sun_path + 1, 100, "cuda-uvmfd-%d", getpid());
    int server = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (server < 0 || bind(server, (struct sockaddr *)&name, 3 + length)) return 304;
    if (listen(server, 16)) return 304;
    return FOLDER && !opendir(FOLDER) ? 304 : 0;
}
int cuDeviceGetCount(int *count) { *count = COUNT; return 0; }
int cuGetErrorName(int number, const char **name) {
    *name = number == 304 ? "CUDA_ERROR_OPERATING_SYSTEM" : "ANOTHER";
    return 0;
}
"""
TORCH_PROBE = sandboxed.TORCH_PROBE


@pytest.fixture
def bin_folder(cards: Cards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose nvidia-smi lists one card."""
    folder = tmp_path / "bin"
    cards("0, GPU-0a, A card, 8000, 0, 8000, 7.5")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setattr(sandboxed, "TORCH_PROBE", "")  # that of this machine may know no GPU
    monkeypatch.setattr("signal.signal", lambda *_: None)
    # Done already. Again, it closes the streams of handlers such as absl's, which are pytest's.
    monkeypatch.setattr("django.setup", lambda: None)
    return folder


def build_library(folder: Path, *, count: int = 1, lists: str = "0") -> None:
    """`lists`: a folder that it wants to list, as C has it."""
    if not shutil.which("gcc"):
        pytest.skip("there is no gcc")
    source = folder / "cuda.c"
    source.write_text(LIBRARY)
    library = str(folder / "libcuda.so.1")
    build = ["gcc", f"-DCOUNT={count}", f"-DFOLDER={lists}", "-shared", "-fPIC", "-pthread"]
    build += ["-o", library, str(source)]
    subprocess.run(build, check=True, capture_output=True)


def test_cuda_is_tried_as_a_models_process_is_confined(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    if confinement.has_cuda():
        pytest.skip("this machine has GPUs")
    build_library(bin_folder)
    monkeypatch.setattr(sandboxed, "way_of_machine", lambda: way)
    # Without a device of NVIDIA's, a process is confined as it was before we had seen one.
    said = sandboxed.cuda_refusal()
    assert said is not None
    assert f"({way.name}): cuInit ends with 304, CUDA_ERROR_OPERATING_SYSTEM; it starts" in said
    assert "nvidia-modprobe -c0 -u" in said
    monkeypatch.setattr(confinement, "OF_CUDA", "full")
    assert sandboxed.cuda_refusal() is None


def test_where_cuda_wants_what_the_strictest_way_forbids_the_next_one_that_confines_is_taken(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    strictest, second, *_ = WAYS
    works(strictest)
    monkeypatch.setattr(confinement, "OF_CUDA", "full")
    monkeypatch.setattr(sandboxed, "_fallbacks", [])
    sandboxed.way_of_machine.cache_clear()
    # A process of this machine, which no process table of a namespace shows.
    build_library(bin_folder, lists=f'"/proc/{os.getpid()}"')
    assert sandboxed.cuda_refusal() is None
    assert sandboxed.way_of_machine() == second
    assert f"CUDA does not start with {strictest.name} (cuInit ends with 304" in caplog.text
    assert f"models are confined by {second.name} alone" in caplog.text
    monkeypatch.setattr(sandboxed, "_fallbacks", [])
    sandboxed.way_of_machine.cache_clear()
    build_library(bin_folder, lists='"/nowhere"')
    said = sandboxed.cuda_refusal()
    assert said is not None
    assert f"({strictest.name}): cuInit ends with 304" in said
    assert sandboxed.way_of_machine() == strictest


def test_a_driver_without_gpus_is_refused_and_so_is_a_torch_that_knows_none(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "OF_CUDA", "full")
    monkeypatch.setattr(sandboxed, "TORCH_PROBE", TORCH_PROBE)
    (bin_folder / "libcuda.so.1").write_text("no library")  # nor is one found elsewhere then
    assert sandboxed.cuda_refusal() is None  # there is no CUDA, so the GPU is another maker's
    build_library(bin_folder, count=0)
    assert "it finds no GPU; nor without confinement" in (sandboxed.cuda_refusal() or "")
    version = importlib.metadata.version("torch")
    if "+cpu" not in version:
        pytest.skip("torch is built for GPUs here")
    build_library(bin_folder)
    said = sandboxed.cuda_refusal() or ""
    assert f"torch {version} is built without it" in said
    assert "PLUMBLINE_DEVICES=cpu" in said


REFUSED_WORKER = """
import json, sys
import django
django.setup()
from leaderboard.models import Worker
from runners import sandboxed, worker
from runners.celery import app
refusals = iter(json.loads(sys.argv[1]))
def refusal():
    rows = Worker.objects.values_list("device", "memory_bytes", "dtypes", "refusal")
    print(json.dumps([*rows]), flush=True)
    return next(refusals)
sandboxed.cuda_refusal = refusal
worker.GPU_PAUSE = 0.01
sys.exit(app.start(["--quiet", "worker", "--queues", "evaluate", "--devices", "0", *sys.argv[2:]]))
"""
"""A worker whose driver says this, and which prints the rows of workers whenever it asks."""


def test_a_worker_whose_gpu_is_refused_takes_nothing_and_ends_or_tries_again(
    tmp_path: Path,
) -> None:
    variables, onlooker = place.prepared(tmp_path, "http://127.0.0.1:9")
    here = place.Site(variables, onlooker, tmp_path / "home")
    here.add_gpus("0, GPU-0a, A card, 8000, 0, 8000, 7.5")

    def command(*refusals: str | None) -> list[str]:
        return [sys.executable, "-c", REFUSED_WORKER, json.dumps(refusals)]

    drains = subprocess.run(
        [*command("the card is asleep"), "--drain"],
        cwd=place.ROOT, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (drains.returncode, drains.stdout) == (1, "[]\n")
    assert "plumbline: --devices 0: the card is asleep" in drains.stderr
    nothing = ["1 x A card", 0, []]
    with subprocess.Popen(
        command("the card is asleep", "still", None),
        cwd=place.ROOT, env=variables, stdout=subprocess.PIPE, text=True,
    ) as stays:  # fmt: skip
        try:
            assert stays.stdout is not None
            rows = [json.loads(stays.stdout.readline()) for _ in range(3)]
            assert rows == [[], [[*nothing, "the card is asleep"]], [[*nothing, "still"]]]
            refusal = "print(Worker.objects.get().refusal or None)"
            here.wait_for(refusal, lambda said: said == "None")
            stays.send_signal(signal.SIGTERM)
            assert stays.wait() == 0
        finally:
            stays.kill()
    assert here.ask("from leaderboard.queue import live_workers as l\nprint(l())") == "[]"
    onlooker.end()


def test_the_device_that_only_root_can_make_is_made_or_asked_for(
    bin_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    dev = tmp_path / "dev"
    dev.mkdir()
    monkeypatch.setattr(sandboxed, "DEV", dev)
    program = bin_folder / "nvidia-modprobe"
    program.write_text(f"#!/bin/sh\n[ \"$*\" = '-c0 -u' ] && touch {dev}/nvidia-uvm\n")
    program.chmod(0o755)
    sandboxed.make_cuda_device()
    assert not list(dev.iterdir())  # no card, nothing to make
    (dev / "nvidiactl").touch()
    sandboxed.make_cuda_device()
    assert (dev / "nvidia-uvm").exists()
    assert not caplog.records
    (dev / "nvidia-uvm").unlink()
    program.unlink()
    sandboxed.make_cuda_device()
    assert "run `nvidia-modprobe -c0 -u` as root" in caplog.text


def test_a_worker_stays_idle_for_as_many_minutes_as_it_is_told() -> None:
    (option,) = [one for one in app.user_options["worker"] if one.name == "until_idle"]
    parser = click.Command("worker", params=[option], callback=lambda until_idle: until_idle)

    def minutes(*words: str) -> float | None:
        return parser.main([*words], standalone_mode=False)

    assert minutes() is None
    assert minutes("--until-idle") == celery.IDLE_MINUTES
    assert minutes("--until-idle", "0.5") == 0.5
    for stated in ("0", "-1", "inf", "long"):
        with pytest.raises(click.UsageError):
            minutes(f"--until-idle={stated}")
