"""The units of docs/deploy/systemd are ones that systemd takes, each for a part that there is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from runners.supervisor import commands
from tests import services
from tests.runners.place import ROOT

UNITS = sorted((ROOT / "docs" / "deploy" / "systemd").glob("*.service"))


def test_systemd_takes_each_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        services.missing("NO SYSTEMD: there is no systemd-analyze on the PATH")
    for unit in UNITS:
        # systemd looks whether the programs are there: those of this checkout are.
        text = unit.read_text().replace("/srv/plumbline/", f"{ROOT}/")
        (tmp_path / unit.name).write_text(text.replace("/srv/plumbline", str(ROOT)))
    units = [str(tmp_path / unit.name.replace("@.", "@0.")) for unit in UNITS]
    told = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    # It also warns of units of this machine.
    assert [line for line in told.stderr.splitlines() if "plumbline" in line] == []
    assert told.returncode == 0, told.stderr


def test_there_is_a_unit_for_each_part_and_one_for_the_worker_of_a_device() -> None:
    parts = [f"plumbline-{part}.service" for part in commands()]
    assert [unit.name for unit in UNITS] == sorted([*parts, "plumbline-worker@.service"])
    for unit in UNITS:
        (program,) = re.findall("^ExecStart=(.+)$", unit.read_text(), re.MULTILINE)
        if "@" not in unit.name:
            assert program.endswith(f"/python -m runners {unit.stem.removeprefix('plumbline-')}")
