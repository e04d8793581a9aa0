"""The command line, with lm-evaluation-harness's names for its options.

Nothing heavy is imported before it is needed: `--help` and `ls` must answer at once.
"""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from evalcore.command.notes import noted_once
from evalcore.command.options import (
    MODEL_OPTIONS,
    OPTIONS,
    PROMPT_OPTIONS,
    TASK_OPTIONS,
    OptionError,
    add_options,
    refuse_old_spellings,
    settle,
)
from evalcore.command.stay import Staying
from evalcore.engine import COLLECTIONS, VERSION
from evalcore.errors import (
    DISK_IS_FULL,
    EvalError,
    InfraError,
    Stopped,
    did_you_mean,
    for_want_of_room,
)
from evalcore.model.hf.arguments import NAMES, notes_on
from evalcore.model.parallel.launch import launched
from evalcore.progress import in_words
from evalcore.stopping import STOPPED
from evalcore.values import count

WRONG_OPTION = 2
"""Exit status when an option is wrong, as argparse has it."""

INTERRUPTED = 130
"""Exit status when SIGINT, or the end of who reads along, ended a command that is no run."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where a disk is full, or a limit on files reached."""

NOTES = {
    "cache_requests": "prompts are built afresh each time; nothing is cached",
    "check_integrity": "it does nothing here; `evalcore validate` builds the tasks' prompts",
    "trust_remote_code": "code of a data set is never run; a model's own is, with --model hf",
    "wandb_args": "nothing is sent; the results are in --output_path",
    "wandb_config_args": "nothing is sent; the results are in --output_path",
    "trackio_args": "nothing is sent; the results are in --output_path",
    "hf_hub_log_args": "nothing is sent; the results are in --output_path",
}
"""What is said about an option that is accepted and changes nothing."""


OF_TEMPLATES = ("enable_thinking", "chat_template_args")
"""Arguments of a model that say something to its chat template alone."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status (see `docs/engine.md`)."""
    gc.set_threshold(*COLLECTIONS)
    _quiet_libraries()
    given = _with_command(sys.argv[1:] if arguments is None else arguments)
    if (one_of_many := launched(os.environ)) and one_of_many.rank > 0:
        return _help_rank_0(given)
    staying = Staying()
    status = _once(given, staying)
    try:
        while status == 0 and (following := staying.next_command()):
            status = _once(following, staying)
    except OptionError as error:
        sys.stderr.write(f"evalcore: {error}\n")
        return WRONG_OPTION
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _once(given: Sequence[str], staying: Staying) -> int:
    """One command; `staying` has what the process keeps from one run to the next."""
    parser = _parser()
    options = argparse.Namespace()
    try:
        refuse_old_spellings(given)
        options, unknown = parser.parse_known_args(given)
        if not hasattr(options, "function"):
            parser.print_help(sys.stderr)
            return WRONG_OPTION
        if unknown:
            raise _unknown(unknown[0], options)
        if options.options:
            options = settle(options, options.options, getattr(options, "config", None))
            _note(options)
        options.staying = staying
        with nullcontext() if getattr(options, "verbosity", None) else noted_once():
            status: int = options.function(options)
    except OptionError as error:
        sys.stderr.write(f"evalcore: {error}\n")
        return WRONG_OPTION
    except EvalError as error:
        show = getattr(options, "show", None)
        for other in (*error.others, error):
            if show:
                show.error(other)
            else:
                sys.stderr.write(in_words(other))
        return _status_of(error)
    except Stopped:
        options.show.stopped()
        return STOPPED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # such as `evalcore ls | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # it may be what is full
        full = InfraError(f"a file cannot be written: {problem}: make room, and try again")
        full.__cause__ = problem
        sys.stderr.write(in_words(full))
        return _status_of(full)
    finally:
        if show := getattr(options, "show", None):
            show.close()
    return status


def _status_of(error: EvalError) -> int:
    ours = isinstance(error, InfraError)
    return DISK_IS_FULL if ours and for_want_of_room(error) else error.exit_code


def _help_rank_0(given: Sequence[str]) -> int:
    """What another of a launcher's processes does: rank 0 alone reads options and writes files."""
    if given[:1] != ["run"] or {"-h", "--help"} & {*given}:
        return 0
    from evalcore.model.parallel.replica import join

    return join()


def _unknown(argument: str, options: argparse.Namespace) -> OptionError:
    name = argument.partition("=")[0]
    near = did_you_mean(name, [f"--{known}" for known in options.options])
    return OptionError(
        f"{name}: no option of {options.command}{near}; `evalcore {options.command} --help` "
        "lists them"
    )


def _with_command(arguments: Sequence[str]) -> list[str]:
    """`evalcore --model …` means `evalcore run --model …`, as in lm-evaluation-harness."""
    given = list(arguments)
    starts_with_option = bool(given) and given[0].startswith("-")
    return ["run", *given] if starts_with_option and given[0] not in _OWN_OPTIONS else given


def _quiet_libraries() -> None:
    """Other packages' bars and warnings would stand amid ours; whoever wants them says so.

    They read this when they are imported.
    """
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # transformers heeds it, too
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


_OWN_OPTIONS = ("-h", "--help", "--version")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evalcore", description="Evaluate language models.")
    parser.add_argument("--version", action="version", version=f"evalcore {VERSION}")
    commands = parser.add_subparsers(metavar="command")

    def add(name: str, says: str, options: Sequence[str] = ()) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=says, description=says, allow_abbrev=False)
        command.set_defaults(function=partial(_call, name), command=name, options=tuple(options))
        if options:
            command.add_argument(
                "--config", "-C", type=Path, metavar="FILE", help="YAML with any of these options"
            )
            add_options(command, options)
        return command

    run = add("run", "evaluate a model on tasks", tuple(OPTIONS))
    fetch = add(
        "fetch", "download what a run needs; runs no model code", (*PROMPT_OPTIONS, "adapters")
    )
    for command in (run, fetch):
        command.add_argument(
            "--progress",
            dest="show",
            type=_show,
            default="bar",
            metavar="bar|json",
            help="for people, or one JSON object a line on standard output",
        )
    fetch.add_argument(
        "--documents",
        default="",
        metavar="TASK,...",
        help="say of these how many documents they ask, and the SHA-256 of their digests",
    )
    run.add_argument(
        "--stay",
        action="store_true",
        help="after it read another run's arguments, a JSON list on a line of standard input, and "
        "keep the weights for it; with --progress json",
    )
    check = add("check-model", "ask whether a model answers as it must", MODEL_OPTIONS)
    check.set_defaults(function=partial(_call, "check_model"))
    _add_ls(add("ls", "list tasks, groups, subtasks, tags or models"))
    validate = add(
        "validate", "build the first prompts of tasks; say what would fail", TASK_OPTIONS
    )
    validate.add_argument("--time_limit", type=float, default=120.0, help="seconds for each task")
    _add_count(validate, "--documents", 4, "prompts of each task to build")
    show = add("show", "print the first prompts exactly, with tokens", PROMPT_OPTIONS)
    _add_count(show, "--documents", 1, "documents of each task to print")
    show.add_argument(
        "--file",
        action="store_true",
        help="print each task's file instead, with all that it includes",
    )
    for command in (validate, show):
        command.add_argument(
            "--own_rows",
            action="store_true",
            help="ask the sample rows in the tasks' folder instead of the data set",
        )
    _add_file_commands(add)
    export = add(
        "export", "write tasks as files that another program loads", ("tasks", "include_path")
    )
    export.add_argument("folder", metavar="DIR", type=Path, help="a new or empty folder")
    export.add_argument("--to", metavar="lm-eval", help="whose form: lm-evaluation-harness's")
    new = add("new-task", "make the folder of a new benchmark, with all that it has to say")
    new.set_defaults(function=partial(_call, "new_task"))
    new.add_argument("name", metavar="NAME", help="of the benchmark, such as open_questions")
    new.add_argument("--dataset", required=True, metavar="ORG/NAME", help="its data on the Hub")
    new.add_argument(
        "--kind",
        choices=["choice", "generate"],
        default="choice",
        help="choice: answers to choose from, in several prompt styles (default)",
    )
    new.add_argument("--folder", type=Path, help="folder of tasks (default: our own)")
    _add_convert_checkpoint(add)
    pin = add("pin", "hold what every task asks and how it scores, by version")
    pin.add_argument("folder", nargs="?", type=Path, help="folder of tasks (default: our own)")
    pin.add_argument("--check", action="store_true", help="only say what is not as pinned")
    pin.add_argument("--update", action="store_true", help="read the data sets' commits on the Hub")
    return parser


def _add_ls(ls: argparse.ArgumentParser) -> None:
    kinds = ["tasks", "groups", "subtasks", "tags", "models"]
    says = "tasks: all that --tasks takes; models: all that --model takes, and what each can do"
    ls.add_argument("kind", nargs="?", choices=kinds, help=says)
    ls.add_argument("--paths", action="store_true", help="with the file of each")
    ls.add_argument("--descriptions", action="store_true", help="with what each is about")
    ls.add_argument("--include_path", nargs="+", action="extend", default=[], metavar="FOLDER")


def _add_file_commands(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """The commands on files that a run wrote."""
    verify = add("verify", "compute every number of results again from their samples")
    verify.add_argument("files", nargs="+", type=Path, help="record or results files, or folders")
    verify.add_argument(
        "--level",
        choices=["aggregate", "rescore"],
        default="rescore",
        help="from the samples' scores, or from the recorded responses (default)",
    )
    verify.add_argument("--include_path", nargs="+", action="extend", default=[], metavar="FOLDER")
    convert = add("convert", "write results in another form")
    convert.add_argument("files", nargs="+", type=Path, help="record or results files, or folders")
    convert.add_argument(
        "--to",
        required=True,
        choices=["record", "lm-eval", "parquet", "every-eval-ever"],
        help="record: our own form",
    )
    convert.add_argument("--output_path", "-o", type=Path, required=True, help="folder to write in")
    convert.add_argument(
        "--organization", default="unknown", help="who ran it, for every-eval-ever"
    )
    compare = add("compare", "paired differences of two runs on the same questions")
    compare.add_argument("a", type=Path, help="record or results file, or folder")
    compare.add_argument("b", type=Path, help="the same of the other run")
    agree = add("agree", "whether two backends gave the same answers to the same requests")
    agree.add_argument("a", type=Path, help="record or results file, or folder")
    agree.add_argument("b", type=Path, help="the same model on the same tasks by another backend")
    for command in (compare, agree):
        command.add_argument("--json", action="store_true", help="JSON instead of a table")


def _add_convert_checkpoint(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    command = add("convert-checkpoint", "join a training checkpoint into a folder for --model hf")
    command.set_defaults(function=partial(_call, "convert_checkpoint"))
    command.add_argument(
        "checkpoint",
        type=Path,
        metavar="CHECKPOINT",
        help="folder of one step, as GPT-NeoX or Megatron-DeepSpeed wrote it",
    )
    command.add_argument(
        "--output_path", "-o", type=Path, required=True, help="a new folder, for the model"
    )
    command.add_argument(
        "--tokenizer_from",
        required=True,
        metavar="ORG/NAME",
        help="folder or repository (with @ and a revision) whose tokenizer is copied",
    )
    command.add_argument(
        "--config_file",
        nargs="+",
        action="extend",
        type=Path,
        default=[],
        metavar="FILE",
        help="GPT-NeoX's settings where they are not in configs/; for Megatron-DeepSpeed a "
        "config.json of transformers",
    )
    command.add_argument(
        "--vocab_size",
        type=_count,
        metavar="N",
        help="keep so many rows of tokens, and drop those that pad the table (default: all, as "
        "the model was trained)",
    )


def _add_count(command: argparse.ArgumentParser, name: str, default: int, says: str) -> None:
    command.add_argument(name, type=_count, default=default, metavar="N", help=says)


def _call(name: str, options: argparse.Namespace) -> int:
    """Calls the function `<name>` of the module `evalcore.command.<name>`."""
    module: Any = importlib.import_module(f"evalcore.command.{name}")
    status: int = getattr(module, name)(options)
    return status


def _note(options: argparse.Namespace) -> None:
    """Say what an option does that lm-evaluation-harness knows and we have no use for."""
    for name, says in NOTES.items():
        if getattr(options, name, None):
            sys.stderr.write(f"evalcore: --{name}: {says}\n")
    if getattr(options, "model", None) in NAMES:
        for note in notes_on(getattr(options, "model_args", None) or {}):
            sys.stderr.write(f"evalcore: --model_args: {note}\n")
    if getattr(options, "model", None) == "vllm":
        from evalcore.model.vllm.arguments import SAME  # its room needs more than this one

        for note in notes_on(getattr(options, "model_args", None) or {}, SAME):
            sys.stderr.write(f"evalcore: --model_args: {note}\n")
    if getattr(options, "apply_chat_template", True) in (None, False):
        for name in sorted({*OF_TEMPLATES} & {*(getattr(options, "model_args", None) or {})}):
            sys.stderr.write(
                f"evalcore: --model_args: {name} is told the chat template, and without "
                "--apply_chat_template prompts are plain text: passed over\n"
            )
    if level := getattr(options, "verbosity", None):
        known = logging.getLevelNamesMapping()
        if level.upper() not in known:
            raise OptionError(f"--verbosity: expected one of {', '.join(known)}, got {level!r}")
        logging.basicConfig(level=known[level.upper()])


def _show(name: str) -> object:
    from evalcore.progress import SHOWS

    if name not in SHOWS:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(SHOWS)}, got {name!r}")
    return SHOWS[name]()


def _count(text: str) -> int:
    try:
        return count(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
