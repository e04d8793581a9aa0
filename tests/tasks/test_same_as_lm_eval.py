"""Our tasks beside lm-evaluation-harness: it reads and runs all that is exported and says the same,
and a name that both have means the same task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalcore.task.config import TaskSpec
from evalcore.task.functions import FunctionRef
from evalcore.task.library.load import TaskLibrary
from evalcore.task.yaml_file import OWN_TASKS
from tests import warm
from tests.evalcore.worlds import task_in
from tests.hub import ROOT, TEST_DATA, client_environment, serve
from tests.parity import NEEDS_LM_EVAL
from tests.parity.both import Pair
from tests.services import missing
from tests.tasks.both import pairs_of
from tests.tasks.data import has_real, merged
from tests.tasks.golden import folder_of
from tests.tasks.shared_names import differences, libraries, shared, stand_ins

pytestmark = [*NEEDS_LM_EVAL]

ONLY_OURS = ("acc_tokens",)
"""Metrics that need what the recording does not have: how many tokens were scored."""
NOT_ON_FEW_ROWS = "gives nan"
"""A figure about one kind of rows, where a part of few rows has none of them."""

GUESSES = "mmmu_val"
"""Tasks whose score is a draw where no letter is found, from a generator that whatever ran before
has used, too. test_found_answers.py compares their scores answer by answer, from one seed."""


def told(pairs: list[Pair]) -> list[str]:
    """What differs, and what only one of the engines could do."""
    wrong = []
    for pair in pairs:
        if pair.compared is None:
            wrong.append(f"{pair}: {pair.ours.get('failed')} / {pair.theirs.get('failed')}")
            continue
        numbers = () if pair.name.startswith(GUESSES) else ("score", "aggregate")
        wrong += [
            f"{pair}: {difference}"
            for difference in pair.compared.differences
            if difference.kind in ("text", "hash", "response", *numbers)
        ]
        wrong += [
            f"{pair}: {failure}"
            for failure in pair.ours["failures"]
            if NOT_ON_FEW_ROWS not in failure and not any(name in failure for name in ONLY_OURS)
        ]
    return wrong


def representatives(library: TaskLibrary) -> list[TaskSpec]:
    """The first task, by name, of each folder, benchmark, style and kind of scoring.

    The other members of a family differ from it by their list's fields only; each of them is
    rendered and held to its pin, and `python -m tests.tasks.both` runs any of them in both engines.
    """
    found: dict[tuple[object, ...], TaskSpec] = {}
    for name in library.tasks:
        spec = task_in(library, name)
        metrics = tuple(metric.name for metric in spec.metric_list)
        folder = folder_of(spec)
        family = folder if spec.about.benchmark.startswith(folder) else spec.about.benchmark
        key = (folder, family, spec.about.style, spec.output_type, metrics, spec.description == "")
        found.setdefault(key, spec)
    return list(found.values())


@pytest.fixture(scope="module")
def library() -> TaskLibrary:
    return TaskLibrary([OWN_TASKS])


def test_both_say_the_same_of_every_benchmark_and_style_on_rows_of_our_own(
    library: TaskLibrary, tmp_path: Path, exported: Path, index: Path
) -> None:
    names = [spec.name for spec in representatives(library)]
    assert len(names) > 300
    pairs = pairs_of(names, tmp_path, exported, index, real=False, shots=[0, 2], limit=5)
    assert len(pairs) == 2 * len(names)
    assert not told(pairs)
    asked = [pair.compared.requests for pair in pairs if pair.compared]
    assert min(asked) > 0


def test_both_say_the_same_on_real_samples_where_there_are_some(
    library: TaskLibrary, tmp_path: Path, exported: Path, index: Path
) -> None:
    if not TEST_DATA.is_dir():
        missing(f"the test data, {TEST_DATA}")
    names = [spec.name for spec in representatives(library) if has_real(spec)]
    assert len(names) > 60
    assert not told(pairs_of(names, tmp_path, exported, index, real=True, shots=[0, 3], limit=6))


# A name that lm-evaluation-harness has, too, means the same task here


KNOWN = {
    "coqa": (
        "theirs cannot be asked, ['num_fewshot']",
        "its function fails on training rows, which have no further people's answers",
    ),
    "mgsm_direct": (
        "only ours [], only theirs ['mgsm_direct_es_spanish_bench']",
        "a tag there, of which another collection makes use for its copy of the Spanish task",
    ),
}
"""By name the difference that remains, and why it is none of the task's."""


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[TaskLibrary, TaskLibrary]]:
    with stand_ins():
        yield libraries()


def told_of(both: tuple[TaskLibrary, TaskLibrary], names: list[str]) -> list[str]:
    wrong = []
    for name in names:
        found = differences(*both, name)
        known, _ = KNOWN.get(name, ("", ""))
        wrong += [
            f"{name}: {difference}" for difference in found if not known or known not in difference
        ]
        if known and not any(known in difference for difference in found):
            wrong.append(f"{name}: the difference that KNOWN lists is gone")
    return wrong


def test_a_shared_name_means_the_same_task(both: tuple[TaskLibrary, TaskLibrary]) -> None:
    names = shared(*both)
    assert len(names) > 900
    assert KNOWN.keys() <= set(names)
    assert not told_of(both, names)


# All our tasks as files: lm-evaluation-harness finds them all, and reads in each what we read


THEIRS = """
import json, sys
import yaml
yaml.SafeLoader = yaml.CSafeLoader
from lm_eval.tasks import TaskManager
manager = TaskManager(include_path=sys.argv[1], include_defaults=False)
entries = manager._index.values()
names = {entry.name: [entry.kind.name, sorted(entry.tags)] for entry in entries}
keys = {entry.name: entry.cfg for entry in entries if entry.cfg}
json.dump([names, keys, manager.all_tags and sorted(manager.all_tags)], sys.stdout, default=str)
"""


@pytest.fixture(scope="module")
def theirs(exported: Path) -> Any:
    """What lm-evaluation-harness makes of the export: names, each file's keys, tags."""
    done = warm.run(["-c", THEIRS, exported], cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_json(part: Any) -> Any:
    """As it stands in JSON; a function by its name, as does theirs before it is imported."""
    return json.loads(json.dumps(part, default=_plain))


def _plain(value: Any) -> Any:
    return f"!{value.name}" if isinstance(value, FunctionRef) else str(value)


def without_places(part: Any, exported: Path) -> Any:
    """Their function is a path, of which only the name is the file's."""
    if isinstance(part, str) and part.startswith(f"{exported}/"):
        return f"!{Path(part).name}"
    if isinstance(part, dict):
        return {key: without_places(value, exported) for key, value in part.items()}
    return [without_places(one, exported) for one in part] if isinstance(part, list) else part


def test_it_finds_every_task_group_and_tag(library: TaskLibrary, theirs: Any) -> None:
    names, _, tags = theirs
    kinds = {
        kind: [n for n, (one, _) in names.items() if one == kind] for kind in ("TASK", "GROUP")
    }
    assert sorted(kinds["TASK"]) == library.tasks
    assert sorted(kinds["GROUP"]) == library.groups
    assert tags == library.tags
    assert len(library.tasks) > 3000


def test_it_reads_in_each_what_we_read_in_the_lists(
    library: TaskLibrary, theirs: Any, exported: Path
) -> None:
    _, keys, _ = theirs
    wrong = []
    for name in (*library.tasks, *library.groups):
        path, _ = library.place_of(name)
        assert path is not None
        ours = as_json(library.files.named(path, name).values)
        if ours != without_places(keys[name], exported):
            wrong.append((name, ours, keys[name]))
    assert len(keys) >= len(library.tasks)
    assert not wrong


# Which of our tasks ask as lm-evaluation-harness's own do


LISTS = Path(__file__).parent / "intents"
"""By folder, for each benchmark that both have, `ours`, `theirs`, the `shots` and, where the
requests differ on purpose, `differs` with the reason."""


@dataclass(frozen=True)
class Intent:
    """One pair of tasks with the same intent."""

    ours: str
    theirs: str
    shots: int = 0
    differs: str | None = None

    def __str__(self) -> str:
        return f"{self.ours} as lm-eval's {self.theirs}, {self.shots}-shot"


def listed() -> list[Intent]:
    return [
        Intent(**entry)
        for file in sorted(LISTS.glob("*.yaml"))
        for entry in yaml.safe_load(file.read_text(encoding="utf-8"))
    ]


def problems(intents: Sequence[Intent], place: Path, *, real: bool) -> Iterator[str]:
    """Pairs that differ and should not, and that are the same though listed as different."""
    asked = place / "asked.json"
    pairs = [[intent.ours, intent.theirs, intent.shots] for intent in intents]
    asked.write_text(json.dumps(pairs))
    with serve([merged(place / "hub", real=real)]) as url:
        done = warm.run(
            ["-m", "tests.parity.quick_start", "tests.tasks.rendered", asked],
            cwd=ROOT,
            env=client_environment(url, place / "home", PYTHONPATH=str(ROOT)),
            timeout=560,
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    for intent, (ours, theirs) in zip(intents, json.loads(done.stdout), strict=True):
        if reason := _problem(intent, ours, theirs):
            yield f"{intent}: {reason}"


def _problem(intent: Intent, ours: Any, theirs: Any) -> str | None:
    for side, said in (("ours", ours), ("theirs", theirs)):
        if isinstance(said, str) and (side == "ours" or not intent.differs):
            return f"{side} fails: {said}"
    if intent.differs:
        return "listed as different, but the requests are the same" if ours == theirs else None
    for number, (one, other) in enumerate(zip_longest(ours, theirs)):
        if one != other:
            return f"document {number}:\n  ours   {one!r:.1500}\n  theirs {other!r:.1500}"
    return None


@pytest.mark.parametrize("real", [False, True], ids=["our own rows", "real samples"])
def test_tasks_with_the_intent_of_lm_evals_own_ask_the_same(
    library: TaskLibrary, tmp_path: Path, real: bool
) -> None:
    intents = listed()
    if real:
        if not TEST_DATA.is_dir():
            missing(f"the test data, {TEST_DATA}")
        specs = {intent: library.select([intent.ours])[0] for intent in intents}
        intents = [
            intent
            for intent, spec in specs.items()
            if all(has_real(leaf) for leaf in spec.leaves()) and not intent.differs
        ]
    assert len(intents) > 100
    assert not list(problems(intents, tmp_path, real=real))
