"""The bench in small: both engines' answers to every workload against the plain forward pass; the
table of a GPU, made on the CPU, of which what cannot be right is found; the page of results, which
is what the files of docs/benchmarks/ give; and that of the site, whose every page answers."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.backends.__main__ import median, together
from bench.engines import Answer, Ask, Ours, Reference, Theirs
from bench.equality import difference
from bench.ideal import work_of
from bench.models import ARCHITECTURES, Model, save_model, save_tokenizer
from bench.page import write_page
from bench.site.page import section as section_of_site
from bench.site.results import Results
from bench.texts import running_text
from bench.verdict import wrong
from bench.workloads import WORKLOADS
from evalcore.building import task_of
from evalcore.task.library.load import TaskLibrary
from tests.evalcore.both_scorers import peer
from tests.hub import ROOT
from tests.services import postgresql

SMALL = {"documents": 2, "most_shots": 4}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def loaded(request, tmp_path_factory) -> tuple[Any, Any]:
    """A model and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("model")
    wanted = Model(request.param, "tiny", 2000)
    texts = [text for _, text in zip(range(2000), running_text(), strict=False)]
    save_tokenizer(wanted, texts, folder)
    save_model(wanted, folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def asks_of(name: str, folder: Path) -> list[Ask]:
    workload = WORKLOADS[name]
    shots = min(workload.shots, SMALL["most_shots"])
    replace(workload, documents=SMALL["documents"], shots=shots).write(folder)
    spec: Any = TaskLibrary([folder]).one(name)
    return [
        Ask(request.kind, request.context, request.continuation, request.generation, number)
        for number, item in enumerate(task_of(spec, mode="compat").items())
        for request in item.requests
    ]


@peer
@pytest.mark.parametrize("name", WORKLOADS)
def test_both_engines_answer_as_the_model_does_when_fed_one_request_at_a_time(
    name, loaded, tmp_path
):
    asks = asks_of(name, tmp_path / name)
    window = 256 if WORKLOADS[name].window else None
    right = Reference(*loaded).answer(asks, window)
    for engine in (Ours(*loaded), Theirs(*loaded, rows=4)):
        found = difference(asks, engine.answer(asks, window), right)
        assert (found.beyond, found.changed or 0) == (0, 0), engine


@given(
    st.lists(
        st.lists(st.integers(0, 2), min_size=1, max_size=8).flatmap(
            lambda tokens: st.tuples(st.just(tokens), st.integers(1, len(tokens)))
        ),
        max_size=12,
    )
)
def test_the_least_work_is_each_distinct_prefix_once(fed):
    sequences = [tokens for tokens, _ in fed]
    work = work_of(sequences, [count for _, count in fed])
    prefixes = {tuple(tokens[:end]) for tokens in sequences for end in range(1, len(tokens) + 1)}
    read = {
        tuple(tokens[:end])
        for tokens, count in fed
        for end in range(len(tokens) - count + 1, len(tokens) + 1)
    }
    assert work.unique == len(prefixes)
    assert work.read == len(read)
    assert work.depths == sum(map(len, prefixes))
    assert work.fed == sum(map(len, sequences))


def test_changed_predictions_and_wrong_loglikelihoods_are_counted_apart():
    def lls(*numbers: float) -> Sequence[Answer]:
        return [Answer(number, False) for number in numbers]

    asks = [Ask("loglikelihood", "Q", answer, None, 0) for answer in (" a", " b")]
    found = difference(asks, lls(-1.00001, -1.0), lls(-1.0, -1.00001))
    assert (found.beyond, found.changed) == (0, 1)
    found = difference(asks, lls(-1.0, -5.001), lls(-1.0, -5.0))
    assert (found.beyond, found.changed) == (1, 0)
    assert found.largest == pytest.approx(0.001)


TOY = ("--device", "cpu", "--share", "0.1", "--dtype", "float32", "--architecture", "mistral")


@pytest.fixture(scope="module")
def gpu() -> Any:
    """The benchmark; to import it is to import torch."""
    from bench import gpu

    return gpu


@pytest.fixture(scope="module")
def table(gpu: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of a model on this machine, where nothing is wrong; half precision is slow on a CPU."""
    file = tmp_path_factory.mktemp("gpu") / "found.json"
    assert gpu.main([*TOY, "--output", str(file)]) == 0
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def test_every_model_workload_and_way_is_in_the_table(gpu: Any, table: dict[str, Any]):
    assert set(table["mistral float32"]) == {*gpu.ASKED}
    for name, row in table["mistral float32"].items():
        for way in ("ours", "alone", "again", "known", "shuffled", "smaller"):
            assert row[way]["of"] > 0, (name, way)
    how = table["mistral float32"]["arc_25_shot_fixed"]["how"]
    assert how["loglikelihood"]["step"] == "in packs"


def test_loglikelihoods_that_are_off_other_picks_texts_and_failures_are_found(
    table: dict[str, Any],
):
    assert not wrong(table)
    half = copy.deepcopy(table["mistral float32"])
    broken = copy.deepcopy(table) | {"mistral bfloat16": half}
    full = broken["mistral float32"]
    full["mmlu_5_shot"]["shuffled"]["largest"] = 0.002
    full["gsm8k_stops"]["ours"]["changed"] = 1
    full["mmlu_5_shot"]["known"]["changed"] = 2
    half["arc_25_shot_fixed"]["ours"]["largest"] = float("nan")
    half["gsm8k_stops"]["ours"]["changed"] = 1  # rounding may decide a text
    half["hellaswag_0_shot"]["ours"]["largest"] = 0.06
    half["nearly full"] = {"128 MiB": {"failed": "OutOfMemoryError: no"}}
    broken["gemma2 bfloat16"] = {"failed": "RuntimeError: no kernel"}
    assert wrong(broken) == [
        "mistral float32 mmlu_5_shot: 2 of 2 picks are others (known)",
        "mistral float32 mmlu_5_shot: off by 0.002 nats, 0.0003 are allowed (shuffled)",
        "mistral float32 gsm8k_stops: 1 of 2 texts are others (ours)",
        "mistral bfloat16 arc_25_shot_fixed: off by nan nats, 0.05 are allowed (ours)",
        "mistral bfloat16 hellaswag_0_shot: off by 0.06 nats, 0.05 are allowed (ours)",
        "mistral bfloat16 with 128 MiB of memory left: failed: OutOfMemoryError: no",
        "gemma2 bfloat16: failed: RuntimeError: no kernel",
    ]


def test_a_kernel_that_answers_otherwise_is_found(monkeypatch: pytest.MonkeyPatch):
    """As the one of a GPU would: here is none, so another is in its place."""
    import torch

    from bench.kernel import attention_of_stretches
    from evalcore.model.packs import stretches
    from tests.evalcore.model.packs.test_packed import plain_kernel

    def kernel(shift: int) -> Any:
        def flash(query: Any, key: Any, value: Any, call: Any, scale: float) -> Any:
            window = None if call.window is None else call.window + shift
            return plain_kernel(query, key, value, replace(call, window=window), scale)

        return flash

    monkeypatch.setattr(stretches, "takes", lambda *_: True)
    monkeypatch.setattr(stretches, "flash", kernel(0))
    found = attention_of_stretches(torch.device("cpu"))
    assert len(found) == 40
    assert not wrong({"alone on the device": {"attention": found}})
    monkeypatch.setattr(stretches, "flash", kernel(1))
    found = attention_of_stretches(torch.device("cpu"))
    told = wrong({"alone on the device": {"attention": found}})
    assert told
    assert all("a window of 33: " in problem for problem in told)


# The page of results

FOLDER = ROOT / "docs" / "benchmarks"


def test_the_page_of_results_is_what_its_files_give(tmp_path: Path):
    write_page(FOLDER, tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "benchmarks.md").read_text()


def test_what_is_measured_again_takes_the_place_of_what_was_and_leaves_the_rest():
    before = {"model": "old", "workloads": {"gsm8k_stops": 1, "arc_25_shot": 2}}
    again = {"model": "new", "workloads": {"arc_25_shot": 3}, "growth": {"shots": 4}}
    found = together(before, again)
    assert found["workloads"] == {"arc_25_shot": 3, "gsm8k_stops": 1}
    assert (found["model"], found["growth"]) == ("new", {"shots": 4})


def test_of_several_runs_each_workload_is_that_of_its_median():
    def run(start: float, one: float, other: float) -> object:
        return {"start": start, "workloads": {"a": {"seconds": one}, "b": {"seconds": other}}}

    found = median([run(3.0, 1.0, 9.0), run(1.0, 8.0, 2.0), run(2.0, 4.0, 5.0)])
    assert found == run(2.0, 4.0, 5.0)


COMMAND = [sys.executable, "-m", "bench.site", "--quick", "--rate", "10", "--seconds", "3"]


def test_a_quick_run_measures_every_kind_of_page_without_an_error(tmp_path: Path):
    output = tmp_path / "results" / "site.json"
    with postgresql() as url:
        done = subprocess.run(
            [*COMMAND, "--output", str(output)],
            env={**os.environ, "PLUMBLINE_DATABASE_URL": url, "PLUMBLINE_HOME": str(tmp_path)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found = Results.read(output)
    assert [row.kind for row in found.kinds if row.errors] == []
    assert [load.times.errors for load in found.loads] == [0, 0, 0]
    assert found.loads[-1].times.n == 30
    assert sum(found.loads[-1].shares.values()) == 100
    assert set(found.loads[-1].cores) == {"load generator", "site", "PostgreSQL", "everything else"}
    beside = found.beside_worker
    assert beside is not None
    assert beside.times.n == 30
    assert beside.times.errors == beside.refused
    assert beside.cores["worker"] > 0.1
    assert found.rows["runs"] > found.rows["vectors of answers"] > 3_000
    styles = ["own", "cloze", "mmlu", "hybrid", "all"]
    assert list(found.boards_after_run) == styles
    assert sorted(found.boards_after_run.values()) == list(found.boards_after_run.values())
    text = section_of_site(output.parent)
    assert "### Boards after a run has ended" in text
    assert "10 requests a second without an error | 0 errors of 30; " in text
    assert all(row.kind in text for row in found.kinds)
    assert "| 10, beside a worker | 30 | " in text
