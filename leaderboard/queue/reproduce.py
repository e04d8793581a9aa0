"""The command that evaluates a run: the one its page shows is the one its worker starts."""

from __future__ import annotations

from collections.abc import Sequence

from leaderboard.models import Run, Variant

USUAL_SEEDS = (0, 1234, 1234, 1234)
"""Those of python, numpy, torch and the draw of examples, as `--seed` has them."""


def command(
    run: Run, *companions: Run, include_path: str = "", output_path: str = "results"
) -> list[str]:
    """`evalcore run …` for a run, and for others of the same variant, shots, draw and mode."""
    return [
        *("evalcore", "run", "--model", "hf"),
        *_what(run.variant, [run, *companions], include_path),
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


def fetch_command(run: Run, *companions: Run, include_path: str = "") -> list[str]:
    """`evalcore fetch …`: download what `command` needs, run nothing of it."""
    return ["evalcore", "fetch", *_what(run.variant, [run, *companions], include_path)]


def _what(variant: Variant, runs: Sequence[Run], include_path: str) -> list[str]:
    pins = f"pretrained={variant.hub_model.repo_id},revision={variant.commit},dtype={variant.dtype}"
    tasks = ",".join(run.task.name for run in runs)
    folder = ["--include_path", include_path] if include_path else []
    return ["--model_args", pins, "--tasks", tasks, *folder]
