"""The tests of confinement once more, in each way that this machine has and not in its own alone;
and as an ordinary user, since some limits do not bind root."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

import evalcore
from evalcore.sandbox.confinement import WAYS, Way
from runners import sandboxed
from tests.runners.conftest import works
from tests.runners.place import printed
from tests.runners.programs import SYSTEM_PYTHON
from tests.runners.test_confinement import (  # noqa: F401 - collected here as well
    like_cuda,
    orders,
    shared_memory,
    test_a_download_has_the_network_and_nothing_else,
    test_a_models_process_finds_the_engine_compiled,
    test_a_models_process_reaches_nothing_that_is_not_its_own,
    test_a_program_that_a_model_wrote_reaches_nothing,
    test_cudas_driver_may_start_where_there_is_a_gpu_and_nothing_of_others_is_reached,
    test_what_is_shown_to_be_read_cannot_be_written,
    test_with_a_loopback_a_process_reaches_itself_and_nobody_else,
)
from tests.runners.test_devices import (  # noqa: F401
    bin_folder,
    cards,
    test_cuda_is_tried_as_a_models_process_is_confined,
)

pytestmark = pytest.mark.django_db(transaction=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "way" in metafunc.fixturenames:
        ways = [way for way in WAYS if way.namespaces or "namespaces" not in metafunc.fixturenames]
        metafunc.parametrize("way", ways, indirect=True, ids=[way.name for way in ways])


@pytest.fixture
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Way:
    """Models are confined so, where the machine has it."""
    way: Way = works(request.param)
    monkeypatch.setattr(sandboxed, "way_of_machine", lambda: way)
    return way


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path(SYSTEM_PYTHON).exists() or not shutil.which("runuser"),
    reason="only root can become an ordinary user, who needs a Python outside root's home",
)
def test_an_ordinary_users_models_and_programs_are_held_by_each_way_too() -> None:
    """By the number of their processes too, which binds no root."""
    for way in WAYS:
        works(way)
    packages = f"{Path(pytest.__file__).parents[1]}:{Path(evalcore.__file__).parents[1]}"
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": packages,
        "PLUMBLINE_DEBUG": "1",
        "DJANGO_SETTINGS_MODULE": "leaderboard.settings",
    }
    with tempfile.TemporaryDirectory(prefix="ordinary-") as name:
        shutil.chown(name, "nobody")
        script = str(Path(__file__).with_name("ordinary_user.py"))
        command = ["runuser", "-u", "nobody", "--", SYSTEM_PYTHON, script, name]
        outcome = json.loads(printed(command, {**variables, "PLUMBLINE_HOME": name}))
    assert len(outcome.pop("free")) == 10
    kinds = ("a model", "a program")
    assert outcome == {f"{kind}, {way.name}": [] for way in WAYS for kind in kinds}
