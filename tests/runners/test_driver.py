"""A worker with a GPU takes no run where CUDA does not start in a process like its model's.

No GPU is here: nvidia-smi is a stand-in, another device stands for the card, and the driver's
library is a few lines of C that do what the real one did on an H100, and report what it did.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest

from leaderboard.models import Worker
from leaderboard.queue import claims, live_workers
from runners import confinement, driver, shown, worker
from runners.confinement import WAYS, Way
from runners.registration import Registration
from tests.runners import rows
from tests.runners.conftest import OF_ANY_USER, works

pytestmark = pytest.mark.django_db(transaction=True)

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
TORCH = driver.TORCH
ONCE = Namespace(devices="0", drain=True, until_idle=None, launch=None)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose nvidia-smi lists one card."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nvidia-smi").write_text("#!/bin/sh\necho '0, GPU-0a, A card, 8000, 0, 8000, 7.5'\n")
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):  # the worker sets them for good
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(driver, "TORCH", "")  # that of this machine may know no GPU
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


@pytest.mark.parametrize("way", OF_ANY_USER, ids=lambda way: way.name)
def test_where_cuda_starts_confined_the_worker_works_and_where_not_it_takes_no_run(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], way: Way
) -> None:
    if shown.has_cuda():
        pytest.skip("this machine has GPUs")
    build_library(bin_folder)
    works(way)
    (run,) = rows.queued("arc")
    monkeypatch.setattr(confinement, "here", lambda: way)
    # Without a device of NVIDIA's, a process is confined as it was before we had seen one.
    assert worker.main(ONCE) == 1
    said = capsys.readouterr().err
    assert f"({way.name}): cuInit ends with 304, CUDA_ERROR_OPERATING_SYSTEM; it starts" in said
    assert "nvidia-modprobe -c0 -u" in said
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("queued", 0)
    assert not Worker.objects.exists()
    monkeypatch.setattr(shown, "OF_CUDA", "full")
    monkeypatch.setattr(claims, "claim_next", lambda _: None)
    assert worker.main(ONCE) == 0, capsys.readouterr().err
    assert Worker.objects.get().device == "1 x A card"


def test_where_cuda_wants_what_the_strictest_way_forbids_the_next_one_that_confines_is_taken(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    strictest, second, *_ = WAYS
    works(strictest)
    monkeypatch.setattr(shown, "OF_CUDA", "full")
    monkeypatch.setattr(confinement, "_taken", [])
    confinement.here.cache_clear()
    build_library(bin_folder, lists='"/dev"')  # which Landlock has nobody list
    assert driver.refusal() is None
    assert confinement.here() == second
    assert f"CUDA does not start with {strictest.name} (cuInit ends with 304" in caplog.text
    assert f"models are confined by {second.name} alone" in caplog.text
    monkeypatch.setattr(confinement, "_taken", [])
    confinement.here.cache_clear()
    build_library(bin_folder, lists='"/nowhere"')
    said = driver.refusal()
    assert said is not None
    assert f"({strictest.name}): cuInit ends with 304" in said
    assert confinement.here() == strictest


def test_a_driver_without_gpus_is_refused_and_no_driver_at_all_is_not(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "OF_CUDA", "full")
    (bin_folder / "libcuda.so.1").write_text("no library")  # nor is one found elsewhere then
    assert driver.refusal() is None
    build_library(bin_folder, count=0)
    said = driver.refusal()
    assert said is not None
    assert "it finds no GPU; nor without confinement" in said


def test_where_torch_knows_no_gpu_no_run_is_taken(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = importlib.metadata.version("torch")
    if "+cpu" not in version:
        pytest.skip("torch is built for GPUs here")
    monkeypatch.setattr(driver, "TORCH", TORCH)
    assert driver.refusal() is None  # there is no CUDA, so the GPU is another maker's
    monkeypatch.setattr(shown, "OF_CUDA", "full")
    build_library(bin_folder)
    said = driver.refusal()
    assert said is not None
    assert f"torch {version} is built without it" in said
    assert "PLUMBLINE_DEVICES=cpu" in said


def test_a_worker_that_is_to_stay_says_so_tries_again_and_ends_nothing_else(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refusals = iter(["the card is asleep", "still", None])
    rows = []

    def refusal() -> str | None:
        rows.extend(Worker.objects.values_list("device", "memory_bytes", "dtypes", "refusal"))
        assert not live_workers()
        return next(refusals)

    monkeypatch.setattr(driver, "refusal", refusal)
    monkeypatch.setattr(worker, "BETWEEN_TRIES", 0.01)
    worked: list[str] = []
    monkeypatch.setattr(worker, "work", lambda name, *_: worked.append(name))
    stays = Namespace(devices="0", drain=False, until_idle=None, launch=None)
    assert worker.main(stays) == 0
    assert len(worked) == 1
    assert "--devices 0: the card is asleep" in capsys.readouterr().err
    nothing = ("1 x A card", 0, [])
    assert rows == [(*nothing, "the card is asleep"), (*nothing, "still")]
    with Registration(worked[0], "cpu", None) as here:
        assert here.announce().refusal == ""
    assert not live_workers()  # it has said that it ends


def test_the_device_that_only_root_can_make_is_made_or_asked_for(
    bin_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    dev = tmp_path / "dev"
    dev.mkdir()
    monkeypatch.setattr(driver, "DEV", dev)
    program = bin_folder / "nvidia-modprobe"
    program.write_text(f"#!/bin/sh\n[ \"$*\" = '-c0 -u' ] && touch {dev}/nvidia-uvm\n")
    program.chmod(0o755)
    driver.make_devices()
    assert not list(dev.iterdir())  # no card, nothing to make
    (dev / "nvidiactl").touch()
    driver.make_devices()
    assert (dev / "nvidia-uvm").exists()
    assert not caplog.records
    (dev / "nvidia-uvm").unlink()
    program.unlink()
    driver.make_devices()
    assert "run `nvidia-modprobe -c0 -u` as root" in caplog.text
