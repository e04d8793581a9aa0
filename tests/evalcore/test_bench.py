"""The bench in small: both engines' answers to every workload against the plain forward pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engines import Answer, Ask, Ours, Reference, Theirs
from bench.equality import difference
from bench.ideal import work_of
from bench.models import ARCHITECTURES, Model, save_model, save_tokenizer
from bench.texts import running_text
from bench.workloads import WORKLOADS
from evalcore.building import task_of
from evalcore.task.library.load import TaskLibrary
from tests.evalcore.both_scorers import peer

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
    from dataclasses import replace

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


@peer
def test_greedy_continuations_are_found_greedy_by_all(loaded, tmp_path):
    """What the model itself wrote is asked about, since random weights seldom agree with a text."""
    prompts = asks_of("gsm8k_fixed_length", tmp_path / "written")
    written = Reference(*loaded).answer(prompts, None)
    asks = [
        Ask("loglikelihood", prompt.context, str(answer.text)[:length], None, number)
        for number, (prompt, answer) in enumerate(zip(prompts, written, strict=True))
        for length in (1, 2, 3, 5, 8, 13)
    ]
    right = Reference(*loaded).answer(asks, None)
    assert any(answer.greedy for answer in right)
    for engine in (Ours(*loaded), Theirs(*loaded)):
        assert difference(asks, engine.answer(asks, None), right).changed == 0


def test_a_profile_shares_out_the_whole_time(loaded, tmp_path):
    shares = Ours(*loaded).profile(asks_of("mmlu_5_shot", tmp_path / "asked"), None)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["matrix products"] > 0
    assert shares["attention"] > 0


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


def lls(*numbers: float) -> Sequence[Answer]:
    return [Answer(number, False) for number in numbers]


def test_a_changed_prediction_is_counted_where_the_loglikelihoods_hardly_move():
    asks = [Ask("loglikelihood", "Q", answer, None, 0) for answer in (" a", " b")]
    found = difference(asks, lls(-1.00001, -1.0), lls(-1.0, -1.00001))
    assert (found.beyond, found.changed) == (0, 1)


def test_a_wrong_loglikelihood_is_counted_where_no_prediction_changes():
    asks = [Ask("loglikelihood", "Q", answer, None, 0) for answer in (" a", " b")]
    found = difference(asks, lls(-1.0, -5.001), lls(-1.0, -5.0))
    assert (found.beyond, found.changed) == (1, 0)
    assert found.largest == pytest.approx(0.001)


@peer
def test_the_check_of_an_accelerator_tells_all_sides_of_a_model(monkeypatch, tmp_path, capsys):
    from bench import gpu

    monkeypatch.setattr(gpu, "ASKED", {"arc_0_shot": 2, "gsm8k_stops": 2})
    monkeypatch.setattr(gpu, "TOKENS", 3)
    kept = tmp_path / "found.json"
    gpu.main(
        ["--device", "cpu", "--architecture", "gpt2", "--dtype", "float32", "--output", str(kept)]
    )
    found = json.loads(kept.read_text())["gpt2 float32"]
    chosen, written = found["arc_0_shot"], found["gsm8k_stops"]
    for side in ("ours", "alone", "theirs", "again", "known", "shuffled", "smaller"):
        assert chosen[side]["largest"] < 1e-3
        assert chosen[side]["changed"] == written[side]["changed"] == 0
    assert chosen["again"]["largest"] == 0.0
    assert chosen["operations"] > 100
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in said[1:]] == ["arc_0_shot", "gsm8k_stops"]
