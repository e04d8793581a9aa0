"""Whether evalcore's numbers are right on an accelerator, and what it asks of one.

`python -m bench.gpu` computes models of many architectures with random weights in float32, bfloat16
and float16: by evalcore as it chooses, by evalcore one request at a time, by
lm-evaluation-harness's HFLM in batches; each beside the same weights in float32, one at a time.
Then the same requests again, in another order and in smaller passes; how often the device is
started and waited for; what happens where its memory is nearly full; on a stream of its own beside
another; its energy. A table comes last, and what of it cannot be right: the exit status is then 1.
Speed beside lm-evaluation-harness is what `python -m bench --device cuda` measures; `make
bench-gpu` runs both.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.engines import Answer, Ask, Reference, _answer, _requests
from bench.equality import difference
from bench.kernel import attention_of_stretches
from bench.models import Model, save_tokenizer
from bench.on_device import asked_of_device, energy, nearly_full
from bench.texts import running_text
from bench.timing import silence
from bench.verdict import wrong
from bench.workloads import WORKLOADS, Workload

GROUPED = {"num_key_value_heads": 2}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": GROUPED,
    "qwen2": GROUPED,
    "mistral": GROUPED | {"sliding_window": 64},
    "gemma2": GROUPED | {"head_dim": 64, "sliding_window": 64},
    "gpt_neox": {},
    "gpt2": {},
    "opt": {"word_embed_proj_dim": 256},
    "mixtral": GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "bloom": {},
    "mamba": {"state_size": 16},
}
"""What each needs besides its size: windows, soft caps, experts, learned positions, states."""

SIZE = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
INNER = ("intermediate_size", "ffn_dim")
DTYPES = ("float32", "bfloat16", "float16")
VOCABULARY, POSITIONS, TOKENS = 4096, 2048, 24
ASKED = {"arc_25_shot_fixed": 6, "mmlu_5_shot": 10, "hellaswag_0_shot": 12, "gsm8k_stops": 8}
"""Documents of each workload."""

OF_DEVICE = ("launches", "flash", "waits", "busy", "operations")
LEFT_OUT = {"left out": "for want of time"}


def main(arguments: Sequence[str]) -> int:
    """Returns 1 where something cannot be right."""
    options = _options(arguments)
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    found: dict[str, Any] = {"device": _name(options.device), "torch": torch.__version__}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if options.processes > 1:
            found |= _in_processes(options, end, folder)
        else:
            found |= _in_turn(options, end, folder)
        if options.device.startswith("cuda") and not options.answers:
            found["alone on the device"] = _alone(options.device, folder)
    if options.output:
        options.output.write_text(json.dumps(found, indent=1))
    lines = [line for name, told in found.items() for line in _lines(name, told)]
    print("\n".join([f"{found['device']}, torch {found['torch']}", *lines]))
    for problem in (problems := wrong(found)):
        print(f"WRONG: {problem}")
    return 1 if problems else 0


def _in_turn(options: argparse.Namespace, end: float, folder: Path) -> dict[str, Any]:
    """By model and precision, what was found."""
    found: dict[str, Any] = {}
    tokenizer, asks = _prepared(folder, options.share)
    for architecture in options.architecture:
        for dtype in options.dtype:
            name = f"{architecture} {dtype}"
            began = time.monotonic()
            if began > end:
                found[name] = LEFT_OUT
                continue
            try:
                with silence():
                    found[name] = _of_model(architecture, dtype, options.device, tokenizer, asks)
            except Exception as problem:  # one that fails takes none of the others with it
                found[name] = {"failed": f"{type(problem).__name__}: {problem}"[:400]}
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def _in_processes(options: argparse.Namespace, end: float, folder: Path) -> dict[str, Any]:
    """As `_in_turn`, each architecture in a process of its own: such small models leave a GPU idle,
    and Python is what is waited for."""

    def of(architecture: str) -> dict[str, Any]:
        kept = folder / f"{architecture}.json"
        left = (end - time.monotonic()) / 60
        if left <= 0:
            return {
                f"{architecture} {of}": {"left out": "for want of time"} for of in options.dtype
            }
        command = [sys.executable, "-m", "bench.gpu", "--answers", "--architecture", architecture]
        command += ["--dtype", *options.dtype, "--device", options.device]
        command += ["--share", str(options.share), "--output", str(kept)]
        command += ["--minutes", str(left)] if end < float("inf") else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if not kept.is_file():
            return {architecture: {"failed": f"its process ended with {done.returncode}"}}
        told: dict[str, Any] = json.loads(kept.read_text())
        return {name: row for name, row in told.items() if name not in ("device", "torch")}

    with ThreadPoolExecutor(options.processes) as pool:
        return {
            name: row for told in pool.map(of, options.architecture) for name, row in told.items()
        }


def _alone(device: str, folder: Path) -> dict[str, Any]:
    """What nothing else may use the device beside."""
    tokenizer, asks = _prepared(folder, 1.0)
    model = made("llama").to(torch.bfloat16).to(device).eval()

    def asked() -> tuple[Any, list[Answer]]:
        lm = ours(model, tokenizer)
        return lm, answered(lm, asks["mmlu_5_shot"])

    return {
        "attention": attention_of_stretches(model.device),
        "nearly full": nearly_full(model.device, asked, partial(_gap, asks["mmlu_5_shot"])),
        "energy": energy(asked),
    }


def _prepared(folder: Path, share: float) -> tuple[Any, dict[str, list[Ask]]]:
    """The tokenizer, and the requests of each workload."""
    from transformers import AutoTokenizer

    place = Path(tempfile.mkdtemp(dir=folder))
    save_tokenizer(Model("llama", "tiny", VOCABULARY), running_text(), place / "tokenizer")
    asks = {
        name: _asks(WORKLOADS[name], max(2, round(count * share)), place)
        for name, count in ASKED.items()
    }
    return AutoTokenizer.from_pretrained(place / "tokenizer"), asks


def _of_model(
    architecture: str, dtype: str, device: str, tokenizer: Any, asks: Mapping[str, list[Ask]]
) -> dict[str, Any]:
    model = made(architecture).to(getattr(torch, dtype)).to(device).eval()
    reference = Reference(copy.deepcopy(model).float(), tokenizer)
    told: dict[str, Any] = {}
    for name, of_workload in asks.items():
        right = reference.answer(of_workload, None)
        lm = ours(model, tokenizer)
        found = answered(lm, of_workload)
        sides = {
            "ours": found,
            "alone": answered(ours(model, tokenizer, path="plain", rows=1), of_workload),
            "theirs": _theirs(model, tokenizer, of_workload, rows=16),
        }
        row: dict[str, Any] = {
            side: _gap(of_workload, answers, right) for side, answers in sides.items()
        }
        row["how"] = lm.execution
        # As another process would, and as this one does when the model is known.
        row["again"] = _gap(of_workload, answered(ours(model, tokenizer), of_workload), found)
        row["known"] = _gap(of_workload, answered(lm, of_workload), found)
        row["shuffled"] = _gap(of_workload, _shuffled(ours(model, tokenizer), of_workload), found)
        with smaller_passes():
            row["smaller"] = _gap(of_workload, answered(ours(model, tokenizer), of_workload), found)
        row["two streams"] = _on_two_streams(model, tokenizer, of_workload, device, found)
        row |= asked_of_device(partial(answered, lm, of_workload), device)
        told[name] = row
    return told


def made(architecture: str) -> Any:
    """A model with random weights drawn wide, the same at every call."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        architecture,
        vocab_size=VOCABULARY,
        max_position_embeddings=POSITIONS,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        **dict.fromkeys(INNER, 2 * SIZE["hidden_size"]),
        **SIZE,
        **ARCHITECTURES[architecture],
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            for weights in model.parameters():
                if weights.dim() > 1:
                    weights.normal_(0, 1.5 / weights.shape[-1] ** 0.5)
    return model


def _asks(workload: Workload, documents: int, folder: Path) -> list[Ask]:
    from evalcore.building import task_of
    from evalcore.task.library.load import TaskLibrary

    generation = workload.keys.get("generation_kwargs")
    if generation:
        keys = {**workload.keys, "generation_kwargs": {**generation, "max_gen_toks": TOKENS}}
        workload = replace(workload, keys=keys)
    workload.with_documents(documents).write(folder / workload.name)
    spec: Any = TaskLibrary([folder / workload.name]).one(workload.name)
    task = task_of(spec, mode="compat")
    assert task.docs
    return [
        Ask(request.kind, request.context, request.continuation, request.generation, number)
        for number, item in enumerate(task.items())
        for request in item.requests
    ]


def ours(model: Any, tokenizer: Any, *, path: Any = "auto", rows: int | None = None) -> Any:
    from evalcore.model.hf.huggingface import HuggingFaceLM
    from evalcore.model.hf.snapshot import Arguments

    arguments = Arguments(pretrained="bench", softmax_dtype="float32")
    return HuggingFaceLM(arguments, model=model, tokenizer=tokenizer, path=path, batch_size=rows)


def answered(lm: Any, asks: Sequence[Ask]) -> list[Answer]:
    responses = dict(one for pack in lm.answer(lm.encode(_requests(asks))) for one in pack)
    return [_answer(ask, responses[index]) for index, ask in enumerate(asks)]


def _shuffled(lm: Any, asks: Sequence[Ask]) -> list[Answer]:
    order = random.Random(1).sample(range(len(asks)), len(asks))
    found = dict(zip(order, answered(lm, [asks[index] for index in order]), strict=True))
    return [found[index] for index in range(len(asks))]


@contextmanager
def smaller_passes() -> Iterator[None]:
    """Meanwhile a pass holds a fraction of the tokens, so that prefixes go from one to the next."""
    from evalcore.model.forward import memory

    usual = memory.MOST_TOKENS, memory.MOST_TOKENS_CPU
    memory.MOST_TOKENS = memory.MOST_TOKENS_CPU = 2 * memory.LEAST_TOKENS
    try:
        yield
    finally:
        memory.MOST_TOKENS, memory.MOST_TOKENS_CPU = usual


def _theirs(model: Any, tokenizer: Any, asks: Sequence[Ask], *, rows: int) -> list[Answer] | None:
    """None where lm-evaluation-harness is not installed."""
    try:
        from lm_eval.models.huggingface import HFLM
    except ImportError:
        return None
    from bench.engines import Theirs

    theirs = Theirs(model, tokenizer, rows=rows)
    theirs._loaded[rows, None] = HFLM(
        pretrained=model,
        tokenizer=tokenizer,
        batch_size=rows,
        device=str(model.device),
        softmax_dtype="float32",
    )
    return theirs.answer(asks, None)


def _gap(
    asks: Sequence[Ask], found: Sequence[Answer] | None, right: Sequence[Answer]
) -> dict[str, Any] | None:
    """Nats at most and in the mean, and how many documents or texts are others."""
    if found is None:
        return None
    told = difference(asks, found, right)
    if told.largest is None:
        return {"changed": told.changed, "of": len(asks)}
    pairs = zip(found, right, strict=True)
    gaps = [abs(float(one.loglikelihood or 0) - float(it.loglikelihood or 0)) for one, it in pairs]
    documents = asks[-1].document + 1
    mean = sum(gaps) / len(gaps)
    return {"largest": told.largest, "mean": mean, "changed": told.changed, "of": documents}


def _on_two_streams(
    model: Any, tokenizer: Any, asks: Sequence[Ask], device: str, right: Sequence[Answer]
) -> dict[str, Any] | None:
    """On a stream of its own, beside one that is kept at work; None where there are no streams."""
    if not device.startswith("cuda"):
        return None
    busy = torch.ones(4096, 4096, device=device)
    torch.cuda.synchronize(device)
    with torch.cuda.stream(torch.cuda.Stream(device)):
        for _ in range(64):
            busy = busy @ busy
    with torch.cuda.stream(torch.cuda.Stream(device)):
        found = answered(ours(model, tokenizer), asks)
    torch.cuda.synchronize(device)
    return _gap(asks, found, right)


def _lines(name: str, told: Any) -> Iterator[str]:
    if not isinstance(told, Mapping):
        return
    if "failed" in told:
        yield f"{name}: FAILED {told['failed']}"
        return
    if told == LEFT_OUT:
        yield f"{name}: LEFT OUT, for want of time"
        return
    for workload, row in told.items():
        if workload not in ASKED:
            yield f"{name} {workload}: {json.dumps(row)[:300]}"
            continue
        how = {kind: one["step"] for kind, one in row["how"].items()}
        refused = "; ".join(one["refused"] for one in row["how"].values() if one["refused"])
        sides = "  ".join(
            f"{side} {_said(row[side])}"
            for side in (
                "ours",
                "alone",
                "theirs",
                "again",
                "known",
                "shuffled",
                "smaller",
                "two streams",
            )
        )
        rest = {
            key: row[key]
            for key in ("launches", "flash", "waits", "busy", "operations")
            if key in row
        }
        yield f"{name} {workload} {how}: {sides} {rest} {refused[:120]}"


def _said(gap: Mapping[str, Any] | None) -> str:
    if gap is None:
        return "-"
    changed = f"{gap['changed']}/{gap['of']}"
    return changed if "mean" not in gap else f"{gap['largest']:.1e} ({gap['mean']:.0e}) {changed}"


def _name(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.gpu", description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--architecture", nargs="*", choices=ARCHITECTURES, default=ARCHITECTURES)
    parser.add_argument("--dtype", nargs="*", choices=DTYPES, default=DTYPES)
    parser.add_argument("--share", type=float, default=1.0, help="of the documents (1)")
    parser.add_argument(
        "--minutes", type=float, help="begin no further model after so many; it is said which"
    )
    parser.add_argument("--processes", type=int, default=1, help="architectures at a time (1)")
    parser.add_argument(
        "--answers", action="store_true", help="leave out what wants the device for itself"
    )
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="keep all that was found")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
