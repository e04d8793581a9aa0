"""What the engine writes, to compare two checkouts while it is rebuilt.

    python -m tests.golden_runs make /tmp/models /tmp/before       # in the checkout of before
    python -m tests.golden_runs make /tmp/models /tmp/after        # in the changed one
    python -m tests.golden_runs compare /tmp/before /tmp/after

Runs small models of every kind on tasks of every kind through the command line and through
`simple_evaluate`, and keeps each file and each table that comes out, without times and places.
Floating-point numbers differ between processors in their last bits, so both sides are made on one
machine; nothing is stored in the project. Some five minutes on two cores.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TASKS = ROOT / "tests" / "parity" / "tasks"
OF_PARITY = (
    *("parity_group", "parity_all_text_metrics", "parity_class"),
    *("parity_choice_map", "parity_contexts", "parity_defaults_of_loglikelihood", "parity_inline"),
    *("parity_leaky", "parity_made_here", "parity_named_prompt"),
    *("parity_own_scores", "parity_own_split", "parity_prefix_spaced"),
    *("parity_processed", "parity_several_answers", "parity_several_right", "parity_stated_zero"),
    *("parity_translation", "parity_whole_texts"),
)
"""Tasks of the parity tests: all kinds of requests, groups, filters, code and classes."""
OURS = (
    *("arc_easy", "arc_challenge", "hellaswag", "boolq", "piqa"),
    *("gsm8k", "truthfulqa_mc2", "copa", "wikitext"),
)
"""Tasks of the project, over real rows from PLUMBLINE_TEST_DATA."""


@dataclass(frozen=True)
class Scenario:
    """One run: a model of MODELS by name, and what else the command says."""

    name: str
    model: str
    options: Sequence[str] = ()
    arguments: str = "dtype=float32"
    tasks: str = ""
    """By commas; empty for those of the parity tests."""
    backend: str = "hf"
    killed: bool = False
    """Whether the run is killed at its first answers, and begun again."""


SCENARIOS = (
    Scenario("llama-compat", "llama", ["--mode", "compat"]),
    Scenario("llama-strict", "llama", ["--mode", "strict"]),
    Scenario("neox-compat", "gpt_neox", ["--mode", "compat", "--num_fewshot", "1"]),
    Scenario("mamba-compat", "mamba", ["--mode", "compat"]),
    Scenario("t5-compat", "t5", ["--mode", "compat"], tasks="parity_group,parity_translation"),
    Scenario("adapter-strict", "llama", ["--mode", "strict"], "dtype=float32,peft={models}/lora"),
    Scenario("bfloat16-compat", "llama", ["--mode", "compat"], "dtype=bfloat16"),
    Scenario(
        "chat-compat",
        "chat",
        [
            *("--mode", "compat", "--apply_chat_template", "--num_fewshot", "2"),
            *("--system_instruction", "Answer in one word."),
        ],
    ),
    Scenario(
        "cut-compat",
        "llama",
        ["--mode", "compat", "--num_fewshot", "3"],
        "dtype=float32,max_length=400",
        tasks="parity_letters,parity_all_choice_metrics,parity_filters",
    ),
    Scenario("ours-compat", "llama", ["--mode", "compat", "--limit", "6"], tasks=",".join(OURS)),
    Scenario("ours-strict", "llama", ["--mode", "strict", "--limit", "6"], tasks=",".join(OURS)),
    Scenario("resumed", "llama", ["--mode", "strict"], killed=True),
)


def make_models(folder: Path) -> None:
    """The models that both sides evaluate; once made, they are kept."""
    from tests import tiny

    if (folder / "made").exists():
        return
    for architecture in ("llama", "gpt_neox", "mamba"):
        tiny.make(folder / architecture, architecture=architecture)
    tiny.make(folder / "chat", chat_template=tiny.CHAT, seed=3)
    tiny.make_seq2seq(folder / "t5")
    tiny.adapt(folder / "llama", folder / "lora")
    (folder / "made").touch()


def make(models: Path, out: Path, only: Sequence[str]) -> None:
    """Write what comes out of every scenario to `out`, one folder for each."""
    from tests.hub import TEST_DATA, serve

    make_models(models)
    with serve([TEST_DATA]) as hub:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
            "HF_ENDPOINT": hub,
            "HF_HOME": str(models / "hf"),
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            "COLUMNS": "120",
        }
        for scenario in SCENARIOS:
            if not only or scenario.name in only:
                began = time.monotonic()
                status = run(scenario, models, out / scenario.name, environment)
                print(f"{scenario.name}: status {status}, {time.monotonic() - began:.0f} s")
    if not only or "simple_evaluate" in only:
        folder = out / "simple_evaluate"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(text_of(live_results(models)))


def run(scenario: Scenario, models: Path, folder: Path, environment: Mapping[str, str]) -> int:
    """One command, with its files and what it printed in `folder`; its exit status."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tasks = scenario.tasks or ",".join(OF_PARITY)
    arguments = scenario.arguments.format(models=models)
    command = [
        *(sys.executable, "-m", "evalcore", "run", "--model", scenario.backend),
        *("--model_args", f"pretrained={models / scenario.model},{arguments}"),
        *(
            "--include_path",
            str(TASKS),
            "--tasks",
            tasks,
            "--output_path",
            str(folder / "out"),
            "--log_samples",
        ),
        *("--use_cache", str(folder / "journal"), "--device", "cpu", "--verbosity", "ERROR"),
        *("--bootstrap_iters", "200", "--limit", "12", "--check_again", *scenario.options),
    ]
    if scenario.killed:
        kill_at_first_answers(command, folder, environment)
    done = subprocess.run(
        command, cwd=ROOT, env=dict(environment), capture_output=True, text=True, check=False
    )
    (folder / "printed.txt").write_text(done.stdout)
    (folder / "errors.txt").write_text(done.stderr)
    return done.returncode


def kill_at_first_answers(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> None:
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=dict(environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        while child.poll() is None:
            written = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())
            if written > 20_000:
                os.killpg(child.pid, signal.SIGKILL)
                return
            time.sleep(0.05)
    raise SystemExit("the run to be killed ended before it had answers: ask it more")


def live_results(models: Path) -> dict[str, Any]:
    """What `simple_evaluate` returns for a model in memory."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from evalcore import simple_evaluate

    folder = str(models / "llama")
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)  # type: ignore[no-untyped-call]
    results: dict[str, Any] = simple_evaluate(
        model="hf",
        model_args={"pretrained": model, "tokenizer": tokenizer},
        tasks=[str(TASKS / f"{name}.yaml") for name in ("letters", "filters", "binary")],
        bootstrap_iters=200,
    )
    return json.loads(json.dumps(results, default=str))


TIMES = re.compile(
    r"(time|seconds|date|start|end|pretty_env|git_hash|upper_git|wall|memory|bytes_peak|began|host"
    r"|created|path|cpu|processor|joules|energy|per_second|checked)",
    re.IGNORECASE,
)
"""Keys of results and records that two equal runs have different values of."""


def text_of(value: Any) -> str:
    """As JSON without what differs from run to run."""
    return json.dumps(without_times(value), indent=1, sort_keys=True, ensure_ascii=False)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_times(inner)
            for key, inner in value.items()
            if not (TIMES.search(str(key)) and not isinstance(inner, (dict, list)))
        }
    if isinstance(value, list):
        return [without_times(inner) for inner in value]
    return value


@dataclass
class Output:
    """The files of one side's scenario by a name without times, as texts to compare."""

    folder: Path
    files: dict[str, str] = field(default_factory=dict)

    def read(self) -> Mapping[str, str]:
        """The pieces of a journal, which processes name and fill by their order, are one file."""
        for file in sorted(self.folder.rglob("*")):
            if file.is_file():
                name = str(file.relative_to(self.folder))
                name = re.sub(r"\d{4}-\d\d-\d\dT[\d.:-]+", "TIME", name)
                piece = re.sub(r"/\d+-[0-9a-f]{8}(?=\.jsonl$)", "/PIECES", name)
                lines = [*self.files.get(piece, "").split("\n"), *self._text(file).split("\n")]
                self.files[piece] = "\n".join(sorted(lines) if piece != name else lines).strip()
        return self.files

    def _text(self, file: Path) -> str:
        places = str(self.folder.parent)
        if file.suffix == ".json":
            text = text_of(json.loads(file.read_text()))
        elif file.suffix in (".jsonl", ".journal"):
            lines = file.read_text().split("\n")
            text = "\n".join(
                text_of(json.loads(line)) for line in lines if line.startswith(("{", "["))
            )
        elif file.suffix == ".parquet":
            import pyarrow.parquet as pq

            rows = pq.read_table(file).to_pylist()
            text = "\n".join(text_of(json.loads(json.dumps(row, default=str))) for row in rows)
        else:
            text = file.read_bytes().decode("utf-8", "replace")
        return re.sub(
            r"[\d,]+(\.\d+)? (s|ms|min|tokens/s)(?!\w)", "TIME", text.replace(places, "OUT")
        )


def compare(before: Path, after: Path) -> int:
    """Print where the two differ, each file by its first lines; the number of files that do."""
    differ = 0
    names = sorted({f.name for side in (before, after) for f in side.iterdir() if f.is_dir()})
    for name in names:
        one, other = Output(before / name).read(), Output(after / name).read()
        for file in sorted(one.keys() | other.keys()):
            left, right = one.get(file), other.get(file)
            if left == right:
                continue
            differ += 1
            print(f"{name}/{file}: " + ("differs" if left and right else "is on one side only"))
            for line in _first_lines(left or "", right or ""):
                print(f"    {line}")
    print(f"{len(names)} scenarios, {differ} files differ")
    return differ


def _first_lines(left: str, right: str) -> Iterator[str]:
    lines = difflib.unified_diff(left.splitlines(), right.splitlines(), n=0, lineterm="")
    for number, line in enumerate(lines):
        if number >= 12:
            return
        yield line[:200]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("models", type=Path)
    making.add_argument("out", type=Path)
    making.add_argument("--only", nargs="*", default=[])
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        return 1 if compare(given.before, given.after) else 0
    make(given.models, given.out, given.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
