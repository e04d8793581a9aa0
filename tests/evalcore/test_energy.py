"""Energy by the machine's own counters, read from a folder laid out as the kernel lays out its."""

from __future__ import annotations

import pytest

from evalcore.energy import Meter, processor_counters
from evalcore.evaluation import evaluate
from evalcore.journal import Journal
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from evalcore.record import RunRecord
from evalcore.settings import Settings
from evalcore.task.library.load import TaskLibrary
from evalcore.watch import Silent
from tests import tiny
from tests.evalcore.toys import ToyLM, write_toys

PACKAGE, MEMORY = ("RAPL", "package-0"), ("RAPL", "package-0 memory")
RANGE = 262_143_328_850


class Powercap:
    """The counters of a machine with one processor package."""

    def __init__(self, folder):
        self.folder = folder
        self._zone("intel-rapl:0", "package-0")
        self._zone("intel-rapl:0:0", "core")
        self._zone("intel-rapl:0:1", "dram")
        self._zone("intel-rapl:1", "psys")
        (folder / "intel-rapl").mkdir()

    def _zone(self, zone, name):
        place = self.folder / zone
        place.mkdir()
        (place / "name").write_text(f"{name}\n")
        (place / "max_energy_range_uj").write_text(f"{RANGE}\n")
        (place / "energy_uj").write_text("1000\n")

    def stands_at(self, microjoules, zone="intel-rapl:0"):
        (self.folder / zone / "energy_uj").write_text(f"{microjoules}\n")

    def meter(self):
        return Meter([*processor_counters(self.folder)])


@pytest.fixture
def machine(tmp_path):
    folder = tmp_path / "powercap"
    folder.mkdir()
    return Powercap(folder)


def test_packages_and_memory_are_counted_and_nothing_that_is_in_another(machine):
    assert {counter.part for counter in processor_counters(machine.folder)} == {PACKAGE, MEMORY}


def test_joules_are_what_the_counter_has_gone_up_by(machine):
    meter = machine.meter()
    machine.stands_at(5_001_000)
    assert meter.read() == {PACKAGE: pytest.approx(5.0), MEMORY: 0.0}
    machine.stands_at(7_001_000)
    assert meter.read()[PACKAGE] == pytest.approx(7.0)


def test_a_counter_that_begins_again_at_its_end_has_gone_on(machine):
    machine.stands_at(RANGE - 2_000_000)
    meter = machine.meter()
    machine.stands_at(1_000_000)
    assert meter.read()[PACKAGE] == pytest.approx(3.0)
    machine.stands_at(500_000)
    assert meter.read()[PACKAGE] == pytest.approx(RANGE / 1e6 + 2.5)


@pytest.mark.parametrize("content", [None, "", "not a number\n"])
def test_a_counter_that_cannot_be_read_any_more_is_not_in_the_sum(machine, content):
    meter = machine.meter()
    machine.stands_at(9_001_000)
    file = machine.folder / "intel-rapl:0:1" / "energy_uj"
    file.unlink()
    if content is not None:
        file.write_text(content)
    assert meter.read() == {PACKAGE: pytest.approx(9.0)}


def test_a_machine_without_counters_measures_nothing(tmp_path):
    assert Meter([*processor_counters(tmp_path / "none")]).read() == {}


class Warm(ToyLM):
    """A model whose every pack of answers takes the package ten joules."""

    def __init__(self, machine):
        super().__init__("")
        self._machine, self._stands = machine, 1_000

    def answer(self, requests):
        for pack in super().answer(requests):
            self._stands += 10_000_000
            self._machine.stands_at(self._stands)
            yield pack


def records(machine, tasks, names, journal=None) -> list[RunRecord]:
    specs = [TaskLibrary([tasks]).one(name) for name in names]
    settings, meter = Settings(bootstrap_iters=0), machine.meter()
    found = evaluate(Warm(machine), specs, settings, Silent(), journal, meter=meter)
    return [evaluation.record for evaluation in found]


def test_a_record_has_what_its_answers_took_and_its_source(machine, tmp_path):
    (record,) = records(machine, write_toys(tmp_path), ["toy_choice"])
    assert record.energy == [
        {"source": "RAPL", "part": "package-0", "joules": 10.0},
        {"source": "RAPL", "part": "package-0 memory", "joules": 0.0},
    ]


def test_where_an_earlier_process_had_answered_the_energy_is_not_known(machine, tmp_path):
    tasks = write_toys(tmp_path)
    model_key = Warm(machine).info.model_key
    for measured in (True, False):
        journal = Journal(tmp_path / "journal", model_key)
        (record,) = records(machine, tasks, ["toy_likely"], journal)
        journal.close()
        assert bool(record.energy) == measured


def test_a_model_on_the_processor_is_measured_by_its_counters_alone(machine, tmp_path):
    folder = tiny.make(tmp_path / "model")
    model = HuggingFaceLM(Arguments(pretrained=str(folder), dtype="float32"), device="cpu")
    assert set(Meter.of(model, machine.folder).read()) == {PACKAGE, MEMORY}


class Elsewhere:
    """A model on an accelerator that nothing here can measure."""

    accelerators = ("",)


@pytest.mark.parametrize("model", [Elsewhere(), object()])
def test_a_model_that_computes_where_nothing_counts_is_not_measured(machine, model):
    assert Meter.of(model, machine.folder).read() == {}
