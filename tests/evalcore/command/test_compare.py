"""`evalcore compare`: paired differences, and refusals that name what differs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from evalcore.cli import main
from evalcore.compare import compare
from evalcore.formats.lmeval.results import results_json
from evalcore.formats.run_files import read_runs
from evalcore.library import evaluate
from evalcore.stats import mcnemar, paired_difference
from tests import tiny
from tests.evalcore.toys import evaluated, evaluated_strictly, write_run, write_toys


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Runs of two models on the same, and of the first one under other settings."""
    folder = tmp_path_factory.mktemp("compare")
    tasks = write_toys(folder)
    settings = {
        "a": {},
        "b": {"salt": "another model"},
        "shots": {"num_fewshot": 1},
        "limited": {"limit": 6},
        "seeded": {"fewshot_seed": 7},
        "system": {"system_instruction": "Be good."},
    }
    for name, how in settings.items():
        write_run(folder / name, evaluated(tasks, **how))
    write_run(folder / "strict", evaluated_strictly(tasks))
    return folder


def scores(run: Path, task: str, metric: str) -> np.ndarray:
    return np.array(
        [
            score["value"]
            for known in read_runs([run])
            for sample in known.samples
            if sample["task"] == task
            for score in sample["scores"]
            if (score["metric"], score["filter"]) == (metric, "none")
        ]
    )


def test_the_difference_is_that_of_the_same_documents(runs):
    differences, _ = compare(list(read_runs([runs / "a"])), list(read_runs([runs / "b"])))
    (one,) = [
        difference
        for difference in differences
        if (difference.task, difference.metric) == ("toy_choice", "acc")
    ]
    a, b = scores(runs / "a", "toy_choice", "acc"), scores(runs / "b", "toy_choice", "acc")
    assert (one.n, one.a, one.b) == (12, pytest.approx(a.mean()), pytest.approx(b.mean()))
    assert one.paired == paired_difference(a, b)
    assert (one.only_a, one.only_b) == ((a > b).sum(), (a < b).sum())
    assert one.p_mcnemar == mcnemar(one.only_a, one.only_b)
    assert all(other.p_holm >= other.paired.p_value for other in differences)


def test_a_group_is_compared_over_the_documents_of_its_tasks(runs):
    differences, _ = compare(list(read_runs([runs / "a"])), list(read_runs([runs / "b"])))
    (one,) = [difference for difference in differences if difference.task == "toy_group"]
    assert one.n == 24
    assert one.paired.difference == pytest.approx(one.a - one.b)


def test_what_is_no_mean_over_documents_is_refused(runs):
    _, refusals = compare(list(read_runs([runs / "a"])), list(read_runs([runs / "b"])))
    assert {refusal.metric for refusal in refusals} == {
        "mcc", "bleu", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("shots", "shots ("),
        ("strict", "mode (compat and strict)"),
        ("limited", "limit (None and 6)"),
        ("seeded", "seed of the examples (1234 and 7)"),
        ("system", "system instruction (None and Be good.)"),
    ],
)
def test_what_was_asked_otherwise_is_not_compared(runs, capsys, other, reason):
    main(["compare", str(runs / "a"), str(runs / other)])
    said = capsys.readouterr().out.splitlines()
    (line,) = [line for line in said if line.startswith("not compared: toy_shots, acc (none)")]
    assert "not comparable: " in line
    assert reason in line


THINKS = tiny.CHAT + "{% if enable_thinking %}<think>{% endif %}{{ style | default('') }}"


@pytest.fixture(scope="module")
def chats(tmp_path_factory) -> Path:
    """Runs of one model that thinks or not, under one journal; in our form and lm-eval's."""
    folder = tmp_path_factory.mktemp("chats")
    model = tiny.make(folder / "model", chat_template=THINKS)
    tasks = write_toys(folder / "toys")
    told = {
        "plain": {},
        "again": {},
        "thinking": {"enable_thinking": True, "think_end_token": "</think>"},
        "no thinking": {"enable_thinking": False},
        "brief": {"chat_template_args": {"style": "!"}},
        "cut": {"think_end_token": "</think>"},
    }
    for name, arguments in told.items():
        of_model = {"pretrained": str(model), "dtype": "float32", **arguments}
        runs = evaluate(
            "hf", "toy_written", model_args=of_model, include_path=tasks, limit=3, device="cpu",
            apply_chat_template=True, use_cache=folder / "journal", bootstrap_iters=0,
        )  # fmt: skip
        records = write_run(folder / name, runs)
        assert main(["verify", *map(str, records)]) == 0
        theirs = results_json([run.record for run in runs], {"model_args": of_model})
        (folder / f"{name}.json").write_text(json.dumps(theirs))
    return folder


@pytest.mark.parametrize("suffix", ["", ".json"])
@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("thinking", "arguments of the chat template (None and {'enable_thi"),
        ("no thinking", "arguments of the chat template (None and {'enable_thi"),
        ("brief", "arguments of the chat template (None and {'style': '!'})"),
        ("cut", "whether thoughts are cut (False and True)"),
    ],
)
def test_what_a_chat_template_is_told_is_part_of_the_question(chats, capsys, suffix, other, reason):
    main(["compare", str(chats / f"plain{suffix}"), str(chats / f"{other}{suffix}")])
    said = capsys.readouterr().out.splitlines()
    (line,) = [
        line for line in said if line.startswith("not compared: toy_written, exact_match (st")
    ]
    assert "not comparable: " in line
    assert reason in line
    main(["compare", str(chats / f"plain{suffix}"), str(chats / f"again{suffix}")])
    assert "not comparable" not in capsys.readouterr().out


def test_a_journal_gives_no_answer_that_was_told_to_think_otherwise(chats):
    journalled = {
        run.source.parent.name: run.record.requests["journalled"]
        for run in read_runs(
            [chats / name for name in ("plain", "again", "thinking", "brief", "cut")]
        )
    }
    assert journalled == {"plain": 0, "again": 6, "thinking": 0, "brief": 0, "cut": 0}


def test_the_json_has_every_number_and_every_refusal(runs, capsys):
    assert main(["compare", str(runs / "a"), str(runs / "b"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {number["metric"] for number in said["numbers"]} == {"acc", "acc_norm", "exact_match"}
    first = said["numbers"][0]
    assert first["low"] <= first["difference"] <= first["high"]
    assert all(refusal["reason"] for refusal in said["refused"])


def test_nothing_to_compare_has_its_own_status(runs, tmp_path):
    (record,) = (runs / "a").glob("record_toy_plain_*.json")
    (other,) = (runs / "b").glob("record_toy_group_*.json")
    assert main(["compare", str(record), str(other)]) == 1


def test_foreign_results_compare_with_ours_in_their_own_form(runs, tmp_path, capsys):
    for name in ("a", "b", "shots"):
        main(["convert", str(runs / name), "--to", "lm-eval", "-o", str(tmp_path / name)])
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert "toy_choice" in capsys.readouterr().out
    main(["compare", str(tmp_path / "a"), str(tmp_path / "shots")])
    said = capsys.readouterr().out
    assert "not compared: toy_group, acc (none): not comparable: " in said
    assert "shots (" in said
    main(["compare", str(tmp_path / "a"), str(runs / "a")])
    assert "convert the other" in capsys.readouterr().out
