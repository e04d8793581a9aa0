"""Runs orders through both engines, each in a process of its own, and pairs what they say."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests import warm
from tests.hub import ROOT, client_environment
from tests.parity.census import CENSUS, DRAWN, Candidate, Census, draw
from tests.parity.compare import Compared, Kind, compare
from tests.parity.orders import ORDER, RARE_SETTINGS, Order, Setting
from tests.parity.quick_start import INDEX

AT_ONCE = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
"""Processes: where several test processes share the machine, one of each."""
TIMEOUT = 560

FAMILIES = ROOT / "tests" / "parity" / "tasks"
"""A task file of this project for each family of features."""

NOT_RUN_BY_LM_EVAL = {
    "ifeval": "its checker needs a tokenizer that nltk downloads",
    "mbpp": "its metric is a script that `evaluate` downloads",
    "mbpp_instruct": "its metric is a script that `evaluate` downloads",
}
"""Candidates that lm-evaluation-harness itself cannot load without a network."""


@dataclass(frozen=True)
class Pair:
    """What both engines said about one name under one setting."""

    part: str
    name: str
    setting: str
    ours: Mapping[str, Any]
    theirs: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.name}, {self.setting}"

    @property
    def failed_in_both(self) -> bool:
        return "failed" in self.ours and "failed" in self.theirs

    @cached_property
    def compared(self) -> Compared | None:
        """None where one of the engines failed."""
        if "failed" in self.ours or "failed" in self.theirs:
            return None
        return compare(self.ours, self.theirs)


def differences(pairs: Sequence[Pair], *kinds: Kind) -> list[str]:
    return [
        f"{pair}: {difference}"
        for pair in pairs
        if pair.compared
        for difference in pair.compared.differences
        if difference.kind in kinds
    ]


def lost_metrics(pairs: Sequence[Pair]) -> list[str]:
    """A group may name a metric that none of its tasks has, as one of lm-eval's own does."""
    return [
        f"{pair}: {failure}"
        for pair in pairs
        for failure in pair.ours.get("failures", [])
        if "no task of the group" not in failure
    ]


def run_both(
    hub: str,
    home: Path,
    work: Path,
    parts: Mapping[str, Sequence[Order]],
    index: Path | None = None,
) -> list[Pair]:
    """The pairs of all orders; `home` keeps the clients' caches, `work` the engines' files, and
    `index` what lm-evaluation-harness knows of task files."""
    environment = client_environment(
        hub, home, DISABLE_MULTIPROC="1", TQDM_DISABLE="1", PYTHONPATH=str(ROOT), **kept_in(index)
    )
    shards = [
        (part, order, work / f"{place}-{number}")
        for place, (part, orders) in enumerate(parts.items())
        for number, order in enumerate(orders)
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = pool.map(lambda shard: _run_one(*shard, environment), shards)
        return [pair for pairs in done for pair in pairs]


def _run_one(part: str, order: Order, folder: Path, environment: dict[str, str]) -> list[Pair]:
    folder.mkdir(parents=True)
    (folder / "order.json").write_bytes(ORDER.dump_json(order))
    for side in ("lm_eval_side", "our_side"):
        module = f"tests.parity.{side}"
        command = ["-m", "tests.parity.quick_start", module, folder]
        output = folder / f"{side}.log"
        with output.open("w") as log:
            done = warm.run(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, timeout=TIMEOUT
            )
        if done.returncode:
            raise RuntimeError(f"{side} of {part} ended: {output.read_text()[-3000:]}")
    return list(_paired(part, order, folder))


def _paired(part: str, order: Order, folder: Path) -> Iterator[Pair]:
    theirs, ours = _outcomes(folder / "lm_eval.jsonl"), _outcomes(folder / "evalcore.jsonl")
    for name in order.names:
        not_loaded = theirs.get((name, None))
        for setting in order.settings:
            key = (name, setting.name)
            yield Pair(part, name, setting.name, ours[key], not_loaded or theirs[key])


def _outcomes(path: Path) -> dict[tuple[str, str | None], dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        outcomes = map(json.loads, lines)
        return {(outcome["name"], outcome["setting"]): outcome for outcome in outcomes}


def kept_in(index: Path | None) -> dict[str, str]:
    return {} if index is None else {INDEX: str(index)}


def census_of(test_data: Path, index: Path | None = None) -> Census:
    """lm-evaluation-harness's own tasks on this data; it is asked in a process of its own."""
    done = warm.run(
        ["-m", "tests.parity.census", test_data],
        cwd=ROOT,
        env={**os.environ, **kept_in(index)},
        timeout=TIMEOUT,
    )
    if done.returncode:
        raise RuntimeError(f"the census ended: {done.stderr[-3000:]}")
    return CENSUS.validate_json(done.stdout)


def drawn_of(census: Census) -> list[Candidate]:
    """The 200 that are run: of those, lm-evaluation-harness can load each."""
    return draw(
        [candidate for candidate in census.candidates if candidate.name not in NOT_RUN_BY_LM_EVAL],
        DRAWN,
    )


LM_EVALS_GROUPS = (
    "bbh_zeroshot",
    "xcopa",
    "leaderboard_bbh",
    "mmlu_flan_n_shot_generative",
)
OUR_TASKS = (
    *(
        f"arc_{level}{style}"
        for level in ("easy", "challenge")
        for style in ("", "_mmlu", "_hybrid")
    ),
    "mmlu",
    "mmlu_hybrid_social_sciences",
)
RARELY_ASKED = (
    "parity_own_split",
    "parity_filters",
    "parity_binary",
    "parity_contexts",
    "parity_all_choice_metrics",
    "parity_whole_texts",
    "parity_last_word",
    "parity_own_scores",
)
FEW_DOCUMENTS = (
    Setting(name="zero-shot", num_fewshot=0, limit=6),
    Setting(name="five-shot", num_fewshot=5, limit=6),
)
ONE_LOOK = (Setting(name="two-shot", num_fewshot=2, limit=3),)


def parts_of(drawn: Sequence[Candidate], exported: Path) -> dict[str, list[Order]]:
    """Everything that is run, from the largest part to the smallest.

    `exported` has our tasks as lm-evaluation-harness loads them.
    """
    names = [candidate.name for candidate in drawn]
    families = sorted(f"parity_{path.stem}" for path in FAMILIES.glob("*.yaml"))
    return {
        OURS: [
            Order(
                names=OUR_TASKS,
                settings=FEW_DOCUMENTS,
                folders=(str(ROOT / "tasks"),),
                exported=(str(exported),),
                lm_evals_own=False,
            )
        ],
        DRAWN_PART: [Order(names=tuple(names[shard::AT_ONCE])) for shard in range(AT_ONCE)],
        FAMILY_PART: [
            Order(names=tuple(families), folders=(str(FAMILIES),), lm_evals_own=False),
            Order(
                names=RARELY_ASKED,
                settings=RARE_SETTINGS,
                folders=(str(FAMILIES),),
                lm_evals_own=False,
            ),
        ],
        GROUP_PART: [Order(names=LM_EVALS_GROUPS, settings=ONE_LOOK)],
    }


DRAWN_PART = "lm-eval's own task files, drawn by seed"
FAMILY_PART = "a task file of ours for each family of features"
GROUP_PART = "lm-eval's own groups"
OURS = "the tasks of this project"
