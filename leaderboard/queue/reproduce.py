"""The command that evaluates a run: the one its page shows is the one its worker starts."""

from __future__ import annotations

from collections.abc import Sequence

from leaderboard.models import Run, Variant
from leaderboard.models.packing import arguments_of, packing_of
from leaderboard.models.variant import TRANSFORMERS

USUAL_SEEDS = (0, 1234, 1234, 1234)
"""Those of python, numpy, torch and the draw of examples, as `--seed` has them."""


def command(
    run: Run,
    *companions: Run,
    include_path: str = "",
    output_path: str = "results",
    model_args: str = "",
) -> list[str]:
    """`evalcore run …` for a run, and for others of the same variant, shots, draw and mode.

    `model_args`: what the machine adds, which changes no number.
    """
    return [
        *("evalcore", "run", "--model", run.variant.backend),
        *_what(run.variant, [run, *companions], include_path, model_args),
        *(["--apply_chat_template"] if run.variant.chat else []),
        *("--num_fewshot", str(run.shots)),
        *("--mode", run.mode),
        *_draw(run),
        *("--output_path", output_path),
        "--log_samples",
    ]


def _draw(run: Run) -> list[str]:
    """How examples are drawn, where it is not as usual."""
    if not run.shots:
        return []
    draw = [] if run.fewshot_draw == "per-document" else ["--fewshot_draw", run.fewshot_draw]
    if run.fewshot_seed != USUAL_SEEDS[3]:
        draw += ["--seed", ",".join(map(str, (*USUAL_SEEDS[:3], run.fewshot_seed)))]
    return draw


def fetch_command(
    run: Run, *companions: Run, include_path: str = "", documents: Sequence[str] = ()
) -> list[str]:
    """`evalcore fetch …`: download what `command` needs, run nothing of it.

    It says what these tasks ask: `documents`.
    """
    model = [] if run.variant.backend == TRANSFORMERS else ["--model", run.variant.backend]
    words = ["evalcore", "fetch", *model, *_what(run.variant, [run, *companions], include_path)]
    told = ["--documents", ",".join(documents), "--mode", run.mode] if documents else []
    return [*words, *told]


def _what(
    variant: Variant, runs: Sequence[Run], include_path: str, model_args: str = ""
) -> list[str]:
    repo_id, commit = variant.whole
    pins = f"pretrained={repo_id},revision={commit},dtype={variant.dtype}"
    if variant.adapter:
        pins += f",peft={variant.adapter}"
    packing = packing_of(variant.quantisation, variant.dtype)
    for name, value in arguments_of(packing, variant.dtype).items():
        pins += f",{name}={value}"
    if variant.code:
        pins += ",trust_remote_code=True"
    if variant.code_elsewhere:
        pins += f",code_revision={variant.code_elsewhere}"
    if model_args:
        pins += f",{model_args}"
    tasks = ",".join(run.task.name for run in runs)
    folder = ["--include_path", include_path] if include_path else []
    return ["--model_args", pins, "--tasks", tasks, *folder]
