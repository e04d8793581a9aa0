"""Both engines have the same numbers on some twenty of lm-evaluation-harness's own task files and
one of ours for each family of features; and an error that is planted is found.

Once both are told the same recorded responses; this engine's process never imports lm-eval. Once
both ask the same trained models of the demo, fp32 on the CPU, lm-eval one request at a time. Errors
are planted in this process, one at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from evalcore.model.base import Conversation, Request
from evalcore.score.metrics.registry import METRICS
from evalcore.score.numbers import aggregate
from evalcore.task.asking import fewshot
from evalcore.task.library.load import TaskLibrary
from tests.hub import ROOT
from tests.parity import NEEDS_LM_EVAL
from tests.parity.beside_hf import our_answers, our_model, their_answers, their_model
from tests.parity.both import FAMILIES, Pair, differences, lost_metrics, run_both
from tests.parity.commands import CASES, Case, Files, assert_same, run_commands
from tests.parity.compare import Kind, compare, compare_likelihoods
from tests.parity.orders import BOOTSTRAP_ITERS, SYSTEM, Order, Setting, Table
from tests.parity.our_side import RecordedLM, lm_evals_tasks, run

pytestmark = [*NEEDS_LM_EVAL]

FOLDERS = {
    "arc": ("arc_easy", "arc_challenge", "arc_challenge_chat"),
    "commonsense_qa": ("commonsense_qa",),
    "gsm8k": ("gsm8k", "gsm8k_cot_zeroshot"),
    "hellaswag": ("hellaswag",),
    "mmlu/default": ("mmlu_astronomy",),
    "mmlu/flan_cot_zeroshot": ("mmlu_flan_cot_zeroshot_anatomy",),
    "piqa": ("piqa",),
    "pubmedqa": ("pubmedqa",),
    "super_glue/boolq": ("boolq", "boolq-seq2seq"),
    "super_glue/copa": ("copa",),
    "super_glue/wic": ("wic", "super_glue-wic-t5-prompt"),
    "truthfulqa": ("truthfulqa_gen", "truthfulqa_mc1", "truthfulqa_mc2"),
    "wikitext": ("wikitext",),
    "xcopa": ("xcopa_it",),
}
"""By folder of lm-evaluation-harness's tasks those that are run."""
OWN = tuple(name for names in FOLDERS.values() for name in names)
FAMILY_NAMES = tuple(sorted(f"parity_{path.stem}" for path in FAMILIES.glob("*.yaml")))

PLAIN = Setting(name="zero-shot", num_fewshot=0, limit=5, bootstrap_iters=BOOTSTRAP_ITERS)
CHAT = Setting(
    name="three-shot",
    num_fewshot=3,
    limit=9,
    system_instruction=SYSTEM,
    apply_chat_template=True,
    fewshot_as_multiturn=True,
)

CONVERSATIONS = CASES[-1]
EVERY_KIND = Case(
    "every kind of request",
    "scholar-llama",
    (
        *("arc_easy", "arc_challenge", "commonsense_qa", "hellaswag", "mmlu_astronomy", "piqa"),
        *("boolq", "copa", "wic", "truthfulqa_mc1", "truthfulqa_mc2", "xcopa_it", "gsm8k"),
        *("wikitext", "parity_all_choice_metrics", "parity_all_text_metrics", "parity_filters"),
        *("parity_last_word", "parity_whole_texts", "parity_contexts"),
    ),
    ("--num_fewshot", "1", "--limit", "3", "--gen_kwargs", "max_gen_toks=16,do_sample=False"),
)
"""Multiple choice, generation, loglikelihood and whole texts."""


@dataclass(frozen=True)
class Recording:
    """What lm-evaluation-harness was told, and what both engines made of it."""

    pairs: list[Pair]
    table: Table

    def pair(self, name: str, setting: Setting) -> Pair:
        return next(
            pair for pair in self.pairs if (pair.name, pair.setting) == (name, setting.name)
        )


@pytest.fixture(scope="module")
def few_tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of these task files alone, so that neither engine reads 14,000 for twenty."""
    into = tmp_path_factory.mktemp("tasks")
    for folder in FOLDERS:
        shutil.copytree(lm_evals_tasks() / folder, into / folder)
    return shutil.copytree(FAMILIES, into, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def recording(
    hub: str, home: Path, few_tasks: Path, tmp_path_factory: pytest.TempPathFactory
) -> Recording:
    """Both engines' outcomes for these files."""
    work = tmp_path_factory.mktemp("few") / "work"
    order = Order(
        names=(*OWN, *FAMILY_NAMES),
        settings=(PLAIN, CHAT),
        folders=(str(few_tasks),),
        lm_evals_own=False,
    )
    pairs = run_both(hub, home, work, {"few": [order]})
    return Recording(pairs, Table.read(work / "0-0" / "table.json"))


def test_recorded_responses_give_the_same_requests_hashes_and_numbers(
    recording: Recording,
) -> None:
    """To the letter of every request; metrics, aggregates and standard errors within 1e-9."""
    assert len(OWN) >= 20
    assert len(recording.pairs) == 2 * len((*OWN, *FAMILY_NAMES))
    assert [str(pair) for pair in recording.pairs if pair.compared is None] == []
    assert lost_metrics(recording.pairs) == []
    assert differences(recording.pairs, "text", "hash", "response") == []
    assert differences(recording.pairs, "score", "aggregate") == []
    compared = [pair.compared for pair in recording.pairs if pair.compared]
    assert sum(one.requests for one in compared) > 1_000
    assert sum(one.numbers for one in compared) > 400
    # Agreement on nothing but zeros would prove little.
    for setting in (PLAIN, CHAT):
        values = {
            value
            for pair in recording.pairs
            if pair.setting == setting.name
            for scores in pair.theirs["results"].values()
            for name, value in scores.items()
            if "stderr" not in name and isinstance(value, float)
        }
        assert len(values) > 10, setting.name


@pytest.fixture(scope="module")
def files(
    hub: str, home: Path, few_tasks: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Files, Files]]:
    """By case our files and theirs."""
    cases = [replace(case, folder=few_tasks) for case in (EVERY_KIND, CONVERSATIONS)]
    return run_commands(hub, home, tmp_path_factory.mktemp("commands"), cases)


@pytest.mark.parametrize("case", [EVERY_KIND.name, CONVERSATIONS.name])
def test_the_same_model_and_data_give_the_same_answers_and_numbers(
    files: dict[str, tuple[Files, Files]], case: str
) -> None:
    ours, theirs = files[case]
    assert_same(ours, theirs)
    for name in ("chat_template", "system_instruction", "fewshot_as_multiturn"):
        assert ours.results[name] == theirs.results[name], name


TASK = "parity_made_here"


@pytest.fixture(scope="module")
def found_by(recording: Recording) -> Callable[..., set[Kind]]:
    """The checks that find something wrong with what we make of a table now.

    What was never recorded is made up, so that a wrong prompt is not the end of it.
    """

    def kinds(table: Table = recording.table) -> set[Kind]:
        model = RecordedLM(Table())
        answers = Table(dict(table.responses))

        def answer(request: Request, repeat: int) -> Any:
            return answers.record(request.kind, request.arguments, repeat, "")

        model._answer = answer
        ours = run(TaskLibrary([FAMILIES]), model, TASK, CHAT)
        theirs = recording.pair(TASK, CHAT).theirs
        return {difference.kind for difference in compare(ours, theirs).differences}

    return kinds


def test_with_nothing_planted_nothing_is_found(found_by: Callable[..., set[Kind]]) -> None:
    assert found_by() == set()


def test_a_swapped_example_is_found(
    found_by: Callable[..., set[Kind]], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = fewshot.CompatSampler.draw

    def swapped(self: Any, question: Any) -> list[int]:
        rows = drawn(self, question)
        is_hit = question.doc["text"].startswith("Word 7 ")
        return [rows[1], rows[0], *rows[2:]] if is_hit else rows

    monkeypatch.setattr(fewshot.CompatSampler, "draw", swapped)
    assert found_by() >= {"text", "hash"}


def test_one_space_more_in_a_prompt_is_found(
    found_by: Callable[..., set[Kind]], monkeypatch: pytest.MonkeyPatch
) -> None:
    text_of = Conversation.text.func
    monkeypatch.setattr(Conversation, "text", property(lambda self: text_of(self) + " "))
    assert found_by() >= {"text", "hash"}


def test_a_shifted_response_is_found(
    found_by: Callable[..., set[Kind]], recording: Recording
) -> None:
    sample = recording.pair(TASK, CHAT).theirs["samples"][TASK][0]
    arguments = list(sample["arguments"]["gen_args_0"].values())
    shifted = Table(dict(recording.table.responses))
    value, flag = shifted.look_up("loglikelihood", arguments, 0)
    shifted.replace("loglikelihood", arguments, 0, [value + 1e-9, flag])
    assert "response" in found_by(shifted)


def test_acc_norm_by_bytes_on_text_that_is_not_ascii_is_found(
    found_by: Callable[..., set[Kind]], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_bytes = METRICS["acc_bytes"]
    monkeypatch.setitem(METRICS, "acc_norm", by_bytes)
    assert found_by() == {"score", "aggregate"}


def test_a_standard_error_over_n_is_found(
    found_by: Callable[..., set[Kind]], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = aggregate.compat_stderr

    def over_n(name: str, items: Any, iters: int) -> float | None:
        value = right(name, items, iters)
        return value if value is None else value * ((len(items) - 1) / len(items)) ** 0.5

    monkeypatch.setattr(aggregate, "compat_stderr", over_n)
    assert found_by() == {"aggregate"}


def test_one_shifted_logit_of_a_model_is_found(tmp_path: Path) -> None:
    """One row of the output matrix is a thousandth off: one token's logit, nothing else."""
    import torch
    from safetensors.torch import load_file, save_file

    right = ROOT / "demo" / "content" / "models" / "plumbline-demo" / "novice-llama"
    wrong = shutil.copytree(right, tmp_path / "wrong")
    asked = [("The river", " is"), ("7 + 4 =", " 11"), ("Which of these", " is made of wood?")]
    requests = [Request("loglikelihood", *pair) for pair in asked]
    theirs = their_answers(their_model(right), "loglikelihood", asked)

    def found(folder: Path) -> tuple[list[Any], list[str]]:
        answers = our_answers(our_model(folder), requests)
        report = compare_likelihoods(
            {
                n: _line([answer.loglikelihood, answer.is_greedy])
                for n, answer in enumerate(answers)
            },
            {n: _line(logged) for n, logged in enumerate(theirs)},
        )
        return answers, report.beyond

    answers, beyond = found(right)
    assert beyond == []
    weights = load_file(wrong / "model.safetensors")
    name = "lm_head.weight" if "lm_head.weight" in weights else "model.embed_tokens.weight"
    with torch.no_grad():
        weights[name][answers[0].token_ids[0]] *= 1.01
    save_file(weights, wrong / "model.safetensors", metadata={"format": "pt"})
    assert found(wrong)[1] != []


def _line(answer: Any) -> Mapping[str, Any]:
    value, flag = answer
    return {
        "resps": [[[str(value), str(flag)]]],
        "arguments": {"gen_args_0": {"arg_0": "", "arg_1": ""}},
    }
