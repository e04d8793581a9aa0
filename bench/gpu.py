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
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.engines import Answer, Ask, Reference, _answer, _requests
from bench.equality import difference
from bench.models import Model, save_tokenizer
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


def main(arguments: Sequence[str]) -> int:
    """Returns 1 where something cannot be right."""
    options = _options(arguments)
    start = time.monotonic()
    found: dict[str, Any] = {"device": _name(options.device), "torch": torch.__version__}
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        save_tokenizer(Model("llama", "tiny", VOCABULARY), running_text(), folder / "tokenizer")
        asks = {
            name: _asks(WORKLOADS[name], max(2, round(count * options.share)), folder)
            for name, count in ASKED.items()
        }
        for architecture in options.architecture:
            for dtype in options.dtype:
                name = f"{architecture} {dtype}"
                began = time.monotonic()
                if options.minutes and began - start > 60 * options.minutes:
                    lines.append(f"{name}: LEFT OUT, for want of time")
                    continue
                try:
                    with silence():
                        found[name] = _of_model(architecture, dtype, options.device, asks, folder)
                except Exception as problem:  # one that fails takes none of the others with it
                    found[name] = {"failed": f"{type(problem).__name__}: {problem}"[:400]}
                lines += _lines(name, found[name])
                print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
                if options.output:
                    options.output.write_text(json.dumps(found, indent=1))
    print("\n".join([f"{found['device']}, torch {found['torch']}", *lines]))
    for problem in (problems := wrong(found)):
        print(f"WRONG: {problem}")
    return 1 if problems else 0


def _of_model(
    architecture: str, dtype: str, device: str, asks: Mapping[str, list[Ask]], folder: Path
) -> dict[str, Any]:
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder / "tokenizer")
    model = made(architecture).to(getattr(torch, dtype)).to(device).eval()
    reference = Reference(copy.deepcopy(model).float(), tokenizer)
    told: dict[str, Any] = {}
    for name, of_workload in asks.items():
        right = reference.answer(of_workload, None)
        lm = _ours(model, tokenizer)
        ours = _answered(lm, of_workload)
        sides = {
            "ours": ours,
            "alone": _answered(_ours(model, tokenizer, path="plain", rows=1), of_workload),
            "theirs": _theirs(model, tokenizer, of_workload, rows=16),
        }
        row: dict[str, Any] = {
            side: _gap(of_workload, answers, right) for side, answers in sides.items()
        }
        row["how"] = lm.execution
        # As another process would, and as this one does when the model is known.
        row["again"] = _gap(of_workload, _answered(_ours(model, tokenizer), of_workload), ours)
        row["known"] = _gap(of_workload, _answered(lm, of_workload), ours)
        row["shuffled"] = _gap(of_workload, _shuffled(_ours(model, tokenizer), of_workload), ours)
        with smaller_passes():
            row["smaller"] = _gap(
                of_workload, _answered(_ours(model, tokenizer), of_workload), ours
            )
        row["two streams"] = _on_two_streams(model, tokenizer, of_workload, device, ours)
        row |= _asked_of_device(partial(_answered, lm, of_workload), device)
        told[name] = row
    if device.startswith("cuda"):
        told["nearly full"] = _nearly_full(model, tokenizer, asks["mmlu_5_shot"])
        told["energy"] = _energy(model, tokenizer, asks["mmlu_5_shot"])
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


def _ours(model: Any, tokenizer: Any, *, path: Any = "auto", rows: int | None = None) -> Any:
    from evalcore.model.hf.huggingface import HuggingFaceLM
    from evalcore.model.hf.snapshot import Arguments

    arguments = Arguments(pretrained="bench", softmax_dtype="float32")
    return HuggingFaceLM(arguments, model=model, tokenizer=tokenizer, path=path, batch_size=rows)


def _answered(lm: Any, asks: Sequence[Ask]) -> list[Answer]:
    responses = dict(one for pack in lm.answer(lm.encode(_requests(asks))) for one in pack)
    return [_answer(ask, responses[index]) for index, ask in enumerate(asks)]


def _shuffled(lm: Any, asks: Sequence[Ask]) -> list[Answer]:
    order = random.Random(1).sample(range(len(asks)), len(asks))
    found = dict(zip(order, _answered(lm, [asks[index] for index in order]), strict=True))
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


def _asked_of_device(work: Callable[[], Any], device: str) -> dict[str, Any]:
    """Kernels started, waits for the device, and the share of the time in which it was busy."""
    from torch.profiler import ProfilerActivity, profile

    on_gpu = device.startswith("cuda")
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    began = time.monotonic()
    with profile(activities=kinds) as seen:
        work()
        if on_gpu:
            torch.cuda.synchronize(device)
    taken = time.monotonic() - began
    events = seen.key_averages()
    if not on_gpu:
        return {
            "operations": sum(event.count for event in events if event.key.startswith("aten::"))
        }
    waits = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
    return {
        "launches": sum(event.count for event in events if "LaunchKernel" in event.key),
        "waits": sum(event.count for event in events if event.key in waits),
        "busy": sum(event.self_device_time_total for event in events) / 1e6 / taken,
        "seconds": taken,
    }


def _nearly_full(model: Any, tokenizer: Any, asks: Sequence[Ask]) -> dict[str, Any]:
    """All but a part of the memory is taken: evalcore must end with the same answers."""
    plenty = _answered(_ours(model, tokenizer), asks)
    told: dict[str, Any] = {}
    for left in (1 << 30, 128 << 20):
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info(model.device)
        taken = torch.empty(max(0, free - left), dtype=torch.uint8, device=model.device)
        lm = _ours(model, tokenizer)
        try:
            told[f"{left >> 20} MiB"] = {
                **(_gap(asks, _answered(lm, asks), plenty) or {}),
                "how": lm.execution,
            }
        except Exception as problem:
            told[f"{left >> 20} MiB"] = {"failed": f"{type(problem).__name__}: {problem}"[:300]}
        del taken
    return told


def _on_two_streams(
    model: Any, tokenizer: Any, asks: Sequence[Ask], device: str, ours: Sequence[Answer]
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
        found = _answered(_ours(model, tokenizer), asks)
    torch.cuda.synchronize(device)
    return _gap(asks, found, ours)


def _energy(model: Any, tokenizer: Any, asks: Sequence[Ask]) -> dict[str, Any]:
    from evalcore.energy import Meter

    lm = _ours(model, tokenizer)
    meter, began = Meter.of(lm), time.monotonic()
    while time.monotonic() - began < 3:
        _answered(lm, asks)
    joules = {" ".join(part): found for part, found in meter.read().items()}
    return {"joules": joules, "seconds": time.monotonic() - began, "on": lm.accelerators}


def _lines(name: str, told: Mapping[str, Any]) -> Iterator[str]:
    if "failed" in told:
        yield f"{name}: FAILED {told['failed']}"
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
        rest = {key: row[key] for key in ("launches", "waits", "busy", "operations") if key in row}
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
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="keep all that was found")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
