"""Which GPUs a worker has, what is free on them, and that no two workers share a name.

No GPU is here: `nvidia-smi` is a stand-in that prints what the real one does when it is asked so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runners import backends, capacity, devices, occupancy, supervisor
from runners.devices import NoSuchDevice
from runners.own_name import own_name
from tests.runners import place

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
    large = capacity.now("0,1", PYTHON)
    assert large.memory_bytes == (81044 + 40000) * MIB
    assert (large.device, set(large.dtypes)) == (
        "2 x NVIDIA H100 80GB HBM3",
        {"float32", "float16", "bfloat16"},
    )
    assert set(capacity.now("1,2", PYTHON).dtypes) == {"float32", "float16"}


def test_what_is_in_use_is_told_of_each_gpu_that_the_worker_has(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards(*CARDS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    told = occupancy.now("2 x anything", 0)
    assert told == [("1", 41544 * MIB, 81559 * MIB), ("2", 12 * MIB, 15360 * MIB)]
    cards(CARDS[1], CARDS[2].replace("12, 15360", "[N/A], [N/A]"))
    assert [gpu.free_bytes for gpu in devices.chosen("")] == [40000 * MIB, 14900 * MIB]
    assert occupancy.now("2 x anything", 0) == [("1", 41544 * MIB, 81559 * MIB)]
    cards("NVIDIA-SMI has failed: no driver", status=9)
    assert occupancy.now("2 x anything", 0) == []


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
    devices.keep_to(devices.chosen(f"2,{H100}"))
    seen = sys.modules["os"].environ
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["CUDA_DEVICE_ORDER"]) == ("2,0", "PCI_BUS_ID")
    assert devices.stated(devices.chosen("")) == "0,2"


def test_a_model_that_one_gpu_does_not_hold_is_spread_over_all_that_the_worker_counts(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards(*CARDS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    both = capacity.now("0,1", PYTHON)
    assert backends.arguments(both.device, 81559 * MIB) == ""
    assert both.memory_bytes > 81560 * MIB
    assert backends.arguments(both.device, 81560 * MIB) == "parallelize=True"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert backends.arguments(capacity.now("0,2", PYTHON).device, 20000 * MIB) != ""
    assert backends.arguments(capacity.now("0", PYTHON).device, 90000 * MIB) == ""
    assert backends.arguments("cpu, 8 cores", 2**50) == ""


@pytest.mark.parametrize(
    ("stated", "why"),
    [("7", "no GPU '7'.*leave 0, 1, 2"), ("0,0", "twice"), ("GPU-", None), ("0,", "no GPU ''")],
)
def test_a_gpu_that_is_not_there_is_refused(cards: Cards, stated: str, why: str | None) -> None:
    cards(*CARDS)
    if why is None:
        assert devices.stated(devices.chosen(stated)) == "0"  # as CUDA reads beginnings
        return
    with pytest.raises(NoSuchDevice, match=why):
        devices.chosen(stated)


def test_a_driver_that_fails_leaves_the_processor_but_no_gpu_that_was_named(cards: Cards) -> None:
    cards("NVIDIA-SMI has failed: no driver", status=9)
    assert devices.groups() == ["cpu"]
    with pytest.raises(NoSuchDevice, match="NVIDIA-SMI has failed: no driver"):
        devices.chosen("0")


def test_torch_says_in_what_the_processor_computes() -> None:
    holds = capacity.now("cpu", PYTHON)
    assert "float32" in holds.dtypes
    assert holds.device.startswith("cpu, ")
    assert 0 < holds.memory_bytes <= capacity.host_memory()
    with pytest.raises(NoSuchDevice, match="No module named 'torch'"):
        capacity.of_cpu((sys.executable, "-I", "-S"))


def test_torch_is_asked_once_for_each_version_of_it_in_a_home(
    tmp_path: Path, settings: Any
) -> None:
    settings.PLUMBLINE_HOME = tmp_path
    version, asked = tmp_path / "version", tmp_path / "asked"
    version.write_text("2.13.0\n")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$2" in *importlib.metadata*) exec cat {version};; esac\n'
        f'echo asked >>{asked}\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)

    def of_another_worker() -> set[str]:
        capacity.of_cpu.cache_clear()
        return set(capacity.of_cpu((str(python),)))

    assert "float32" in of_another_worker()
    assert of_another_worker() == of_another_worker()
    assert len(asked.read_text().split()) == 1
    version.write_text("2.14.0\n")
    assert "float32" in of_another_worker()
    version.write_text("2.13.0\n")
    assert "float32" in of_another_worker()
    assert len(asked.read_text().split()) == 2
    for spoilt in ("half a fi", "[1]", '{"a": 1}'):
        (tmp_path / "precisions.json").write_text(spoilt)
        assert "float32" in of_another_worker()
    assert len(asked.read_text().split()) == 5


def test_two_workers_of_a_host_have_two_names_and_a_gpu_has_one_worker(
    tmp_path: Path, cards: Cards
) -> None:
    cards(*CARDS)
    first, second = devices.chosen("0"), devices.chosen("1")
    with own_name(tmp_path, first) as a, own_name(tmp_path, second) as b:
        assert (a.rpartition("/")[2], b.rpartition("/")[2]) == ("cuda:0", "cuda:1")
        with pytest.raises(NoSuchDevice, match=f"GPU 0 \\({H100}\\) has a worker already"):
            own_name(tmp_path, first).__enter__()
        # As in a job of an engine, which calls its only GPU 0, whichever that is.
        cards("0, GPU-other, NVIDIA H100 80GB HBM3, 81044, 500, 81559, 9.0")
        with own_name(tmp_path, devices.chosen("0")) as c:
            assert c == f"{a}.2"
    with own_name(tmp_path, []) as one, own_name(tmp_path, []) as other:
        assert (one.rpartition("/")[2], other.rpartition("/")[2]) == ("cpu", "cpu.2")
    with own_name(tmp_path, []) as again:
        assert again == one


def test_a_worker_for_a_gpu_that_is_not_there_says_so_and_ends(tmp_path: Path) -> None:
    variables = place.environment(tmp_path / "home", tmp_path, "http://127.0.0.1:9")
    refused = place.command(variables, "worker", "--devices", "3")
    assert refused.returncode == 1
    assert refused.stderr.startswith("plumbline: --devices: nvidia-smi does not tell of GPUs")
    assert "Traceback" not in refused.stderr
