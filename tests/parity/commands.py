"""Both engines' commands on the same models, and the files that they write."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests import warm
from tests.hub import ROOT, client_environment
from tests.parity.both import AT_ONCE, FAMILIES, TIMEOUT, kept_in
from tests.parity.compare import MEASURED, compare, compare_likelihoods

OWN = ROOT / "tasks"
MODELS = ROOT / "demo" / "content" / "models" / "plumbline-demo"
DEMO_TASKS = tuple(
    f"{benchmark}{style}"
    for benchmark in ("demo_facts", "demo_sums")
    for style in ("", "_mmlu", "_hybrid")
)
REAL_TASKS = ("arc_easy", "arc_challenge", "arc_easy_mmlu", "arc_challenge_hybrid")
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}"
    "{% if not loop.last or add_generation_prompt %}</s>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


@dataclass(frozen=True)
class Case:
    """One model asked some tasks by both commands."""

    name: str
    model: str
    tasks: tuple[str, ...]
    options: tuple[str, ...]
    folder: Path = OWN
    chat: bool = False


SHORT = ("--gen_kwargs", "max_gen_toks=24")
CASES = (
    Case("a llama", "novice-llama", DEMO_TASKS, ("--num_fewshot", "0", "--limit", "40")),
    Case("a mistral", "traveller-mistral", DEMO_TASKS, ("--num_fewshot", "1", "--limit", "20")),
    Case(
        "a neox on real data",
        "examinee-neox",
        (*REAL_TASKS, "mmlu_social_sciences"),
        ("--num_fewshot", "2", "--limit", "20"),
    ),
    Case(
        "every kind of request",
        "scholar-llama",
        (
            "parity_all_choice_metrics",
            "parity_all_text_metrics",
            "parity_filters",
            "parity_several_answers",
            "parity_last_word",
            "parity_whole_texts",
            "parity_contexts",
        ),
        ("--num_fewshot", "1", "--limit", "6", "--gen_kwargs", "max_gen_toks=16,do_sample=False"),
        folder=FAMILIES,
    ),
    Case(
        "conversations",
        "storyteller-gpt2",
        ("parity_prefix_choices", "parity_letters", "parity_own_split", "parity_own_scores"),
        (
            *("--num_fewshot", "2", "--limit", "6", *SHORT),
            *("--system_instruction", "Be brief.", "--apply_chat_template"),
            *("--fewshot_as_multiturn", "True"),
        ),
        folder=FAMILIES,
        chat=True,
    ),
)
ENGINES = ("evalcore", "lm_eval")


@dataclass(frozen=True)
class Files:
    """What one engine wrote: its results JSON, and its samples by leaf task."""

    results: dict[str, Any]
    samples: dict[str, list[dict[str, Any]]]

    @property
    def outcome(self) -> Mapping[str, Any]:
        return {"groups": {}, **self.results, "samples": self.samples}

    @property
    def lines(self) -> dict[tuple[str, int, str], dict[str, Any]]:
        return {
            (task, line["doc_id"], line["filter"]): line
            for task, lines in self.samples.items()
            for line in lines
        }


def evaluate(
    engine: str, case: Case, model: str, out: Path, environment: Mapping[str, str]
) -> Files:
    command = ["-m", "tests.parity.quick_start", engine, "run", "--model", "hf"]
    command += ["--model_args", f"pretrained={model},dtype=float32"]
    command += ["--tasks", ",".join(case.tasks), "--include_path", str(case.folder)]
    command += ["--output_path", str(out), "--log_samples", "--device", "cpu", *case.options]
    if engine == "lm_eval":
        command += ["--batch_size", "1"]
    done = warm.run(command, cwd=ROOT, env=environment, timeout=TIMEOUT)
    if done.returncode:
        raise RuntimeError(f"{engine} on {case.name} ended: {done.stderr[-3000:]}")
    return read(out)


def read(out: Path) -> Files:
    (results,) = out.rglob("results_*.json")
    samples: dict[str, list[dict[str, Any]]] = {}
    for path in out.rglob("samples_*.jsonl"):
        name = path.name.removeprefix("samples_").rsplit("_", 1)[0]
        for line in path.read_text().splitlines():
            sample = json.loads(line)
            if "brier_score" in sample:
                sample["brier_score"] = [_array(part) for part in sample["brier_score"]]
            samples.setdefault(sample.pop("task", name), []).append(sample)
    return Files(json.loads(results.read_text()), samples)


def _array(part: Any) -> Any:
    """lm-eval writes an array as the text that numpy prints."""
    return [float(number) for number in part.strip("[]").split()] if isinstance(part, str) else part


def chat_model(folder: Path) -> Path:
    """A trained model of the demo that can write a conversation."""
    made = shutil.copytree(MODELS / "storyteller-gpt2", folder / "talker")
    path = made / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": CHAT_TEMPLATE}))
    return made


def run_commands(
    hub: str,
    home: Path,
    out: Path,
    cases: Sequence[Case] = CASES,
    exported: Path | None = None,
    index: Path | None = None,
) -> dict[str, tuple[Files, Files]]:
    """By case our files and theirs; that engine finds our tasks in `exported`, and keeps what it
    knows of them in `index`."""
    talker = chat_model(out)
    environment = client_environment(
        hub, home, TQDM_DISABLE="1", DISABLE_MULTIPROC="1", **kept_in(index)
    )

    def run(engine: str, case: Case) -> Files:
        model = str(talker) if case.chat else f"plumbline-demo/{case.model}"
        theirs = engine == "lm_eval" and case.folder == OWN
        asked = replace(case, folder=exported or OWN) if theirs else case
        return evaluate(engine, asked, model, out / engine / case.name, environment)

    asked = [(engine, case) for case in cases for engine in ENGINES]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        files = list(pool.map(lambda one: run(*one), asked))
    return {case.name: (files[2 * place], files[2 * place + 1]) for place, case in enumerate(cases)}


def assert_same(ours: Files, theirs: Files) -> None:
    """Every request, hash, text, loglikelihood, score and standard error."""
    compared = compare(ours.outcome, theirs.outcome, MEASURED)
    assert [str(difference) for difference in compared.differences] == []
    assert compared.documents >= 24
    assert compared.numbers >= 10
    assert ours.results["task_hashes"] == theirs.results["task_hashes"]
    report = compare_likelihoods(ours.lines, theirs.lines)
    assert report.beyond == []
    assert report.wrongly_changed == []
