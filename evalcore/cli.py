"""The command line, with lm-evaluation-harness's names for its options.

Nothing heavy is imported before it is needed: `--help` and `ls` must answer at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import evalcore
from evalcore.errors import EvalError

TASKS = Path(__file__).resolve().parent.parent / "tasks"
"""Our own task files; `--include_path` adds others, which win over ours."""

STOPPED = 75
"""Exit status after SIGTERM or SIGINT: run the same command again to go on."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status (see `docs/engine.md`)."""
    options = _parser().parse_args(_with_command(sys.argv[1:] if arguments is None else arguments))
    try:
        status: int = options.function(options)
    except EvalError as error:
        options.show.error(error)
        return error.exit_code
    return status


def _with_command(arguments: Sequence[str]) -> list[str]:
    """`evalcore --model …` means `evalcore run --model …`, as in lm-evaluation-harness."""
    given = list(arguments)
    starts_with_option = bool(given) and given[0].startswith("-")
    return ["run", *given] if starts_with_option and given[0] not in _OWN_OPTIONS else given


_OWN_OPTIONS = ("-h", "--help", "--version")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evalcore", description="Evaluate language models.")
    parser.add_argument("--version", action="version", version=f"evalcore {evalcore.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    run = commands.add_parser("run", help="evaluate a model on tasks", allow_abbrev=False)
    _add_subject(run)
    run.add_argument("--model", "-M", default="hf", choices=["hf"], help="kind of model")
    run.add_argument("--num_fewshot", "-f", type=_count, help="examples before each question")
    run.add_argument("--limit", "-L", type=_limit, help="documents per task: a count, or a share")
    run.add_argument("--batch_size", "-b", type=_batch_size, default="auto", help="rows, or auto")
    run.add_argument("--device", help="such as cpu or cuda:0; default: a GPU where there is one")
    run.add_argument("--output_path", "-o", type=Path, help="folder for the results")
    run.add_argument(
        "--log_samples", "-s", action="store_true", help="write every prompt and answer, too"
    )
    run.add_argument("--use_cache", "-c", type=Path, help="folder of the journal, to go on from")
    run.add_argument("--mode", choices=["compat", "strict"], default="compat")
    run.add_argument("--seed", type=int, default=1234, help="seed of the few-shot draw")
    run.set_defaults(function=_run)

    fetch = commands.add_parser("fetch", help="download what a run needs; runs no model code")
    _add_subject(fetch)
    fetch.set_defaults(function=_fetch)

    ls = commands.add_parser("ls", help="list tasks, groups or tags")
    ls.add_argument("kind", nargs="?", default="tasks", choices=["tasks", "groups", "tags"])
    _add_include_path(ls)
    ls.set_defaults(function=_ls)
    for command in (run, fetch, ls):
        command.add_argument(
            "--progress",
            dest="show",
            type=_show,
            default="bar",
            metavar="bar|json",
            help="for people, or one JSON object a line on standard output",
        )
    return parser


def _add_subject(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--model_args",
        "-a",
        type=_pairs,
        required=True,
        metavar="pretrained=…,revision=…,dtype=…",
    )
    command.add_argument("--tasks", "-t", type=_names, required=True, help="names, by commas")
    _add_include_path(command)


def _add_include_path(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--include_path", type=Path, action="append", default=[], help="another folder of tasks"
    )


def _run(options: argparse.Namespace) -> int:
    from evalcore.commands import run

    return run(options)


def _fetch(options: argparse.Namespace) -> int:
    from evalcore.commands import fetch

    return fetch(options)


def _ls(options: argparse.Namespace) -> int:
    from evalcore.commands import ls

    return ls(options)


def _show(name: str) -> object:
    from evalcore.progress import SHOWS

    if name not in SHOWS:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(SHOWS)}, got {name!r}")
    return SHOWS[name]()


def _pairs(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if wrong := [name for name, sign, _ in pairs if not sign]:
        raise argparse.ArgumentTypeError(f"expected name=value by commas, got {wrong[0]!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise argparse.ArgumentTypeError("expected at least one task")
    return names


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a whole number from 0, got {text!r}")
    return int(text)


def _limit(text: str) -> float:
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if limit <= 0 or (limit >= 1 and limit != int(limit)):
        raise argparse.ArgumentTypeError(f"expected a count, or a share below 1, got {text!r}")
    return limit


def _batch_size(text: str) -> int | None:
    """None for `auto`: the engine's token budget alone decides."""
    if text == "auto" or text.startswith("auto:"):
        return None
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a count from 1, or auto, got {text!r}")
    return int(text)
