"""In compat every request has lm-eval's context and continuation, letter by letter.

Both engines read the same task files and the same real data from one local Hub.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.hub import ROOT, client_environment, serve

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("lm_eval") is None,
        reason="lm_eval is not installed (extra `peer`)",
    ),
]

Built = dict[tuple[str, int], dict[str, Any]]


@pytest.fixture(scope="module")
def hub(test_data: Path) -> Iterator[str]:
    with serve([test_data / "hub"]) as url:
        yield url


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hf_home")


def build_in_both(
    hub: str,
    home: Path,
    names: Sequence[str],
    *,
    folders: Sequence[Path] = (ROOT / "tasks",),
    shots: Sequence[int],
    limit: int,
) -> Built:
    """The comparison of each leaf task at each number of shots."""
    order = {
        "folders": [str(folder) for folder in folders],
        "names": list(names),
        "shots": list(shots),
        "limit": limit,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.parity.both_engines"],
        input=json.dumps(order),
        cwd=ROOT,
        env=client_environment(hub, home),
        capture_output=True,
        text=True,
        timeout=560,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    return {(report["task"], report["shots"]): report for report in reports}


def assert_equal_requests(built: Built) -> None:
    different = [
        f"{task} at {shots} shots: {report['difference']}"
        for (task, shots), report in built.items()
        if report["difference"]
    ]
    assert not different, "\n".join(different)
    assert built
    assert all(report["requests"] for report in built.values())


ARC = ("arc_easy", "arc_challenge")


def test_arc_asks_what_lm_eval_asks_in_every_style(hub: str, home: Path) -> None:
    names = [f"{benchmark}{style}" for benchmark in ARC for style in ("", "_mmlu", "_hybrid")]
    whole = build_in_both(hub, home, names, shots=(0,), limit=200)
    assert_equal_requests(whole)
    # Rows with three and with five choices are among them.
    assert {report["requests"] for report in whole.values()} != {4 * 200}
    assert_equal_requests(build_in_both(hub, home, names, shots=(2, 5), limit=30))


def test_all_57_subjects_of_mmlu_ask_what_lm_eval_asks(hub: str, home: Path) -> None:
    built = build_in_both(hub, home, ["mmlu", "mmlu_hybrid"], shots=(0, 5), limit=8)
    assert len(built) == 2 * 57 * 2
    assert_equal_requests(built)


LM_EVALS_OWN = {
    "arc": ("arc_easy", "arc_challenge"),
    "hellaswag": ("hellaswag",),  # process_docs, and a k + 1 draw as it names no test split
    "piqa": ("piqa",),
    "super_glue": ("boolq", "copa", "wic"),  # functions for text, target and choices
    "commonsense_qa": ("commonsense_qa",),  # the target is a letter
    "xcopa": ("xcopa_ht", "xcopa_ta"),  # partial functions, text that is not ASCII
    "truthfulqa": ("truthfulqa_mc1",),  # states 0 shots, which nothing overrides
    "blimp": ("blimp_adjunct_island", "blimp_anaphor_gender_agreement"),  # empty questions
    "mmlu": ("mmlu_anatomy", "mmlu_astronomy_continuation"),
    "leaderboard/bbh_mc": ("leaderboard_bbh_boolean_expressions",),  # inline examples
}


def test_lm_evals_own_files_ask_the_same_in_both_engines(hub: str, home: Path) -> None:
    spec = importlib.util.find_spec("lm_eval")
    assert spec is not None
    assert spec.origin is not None
    tasks = Path(spec.origin).parent / "tasks"
    folders = [tasks / folder for folder in LM_EVALS_OWN]
    names = [name for names in LM_EVALS_OWN.values() for name in names]
    built = build_in_both(hub, home, names, folders=folders, shots=(0, 3), limit=40)
    assert len({task for task, _ in built}) == len(names)
    assert_equal_requests(built)
