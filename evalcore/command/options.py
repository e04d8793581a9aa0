"""The options that describe an evaluation: one table for the command line and `--config` files.

Names, short forms and meanings are lm-evaluation-harness's; the last ones are our own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from evalcore import values
from evalcore.errors import did_you_mean


class OptionError(ValueError):
    """An option is wrong; the message names it, its value and what was expected."""


@dataclass(frozen=True)
class Option:
    """An option `--name`, which is also a key of a `--config` file."""

    name: str
    help: str
    read: values.Reader = values.text
    default: Any = None
    short: str | None = None
    form: Literal["one", "several", "flag", "maybe"] = "one"
    """Values on the command line: one, one or more, none, or none (true) or one."""
    metavar: str | None = None


_ALL = (
    Option("tasks", "names, tags, patterns or files, by commas or spaces", values.names,
           short="-t", form="several", metavar="NAME"),
    Option("model", "kind of model", default="hf", short="-M"),
    Option("model_args", "such as pretrained=ORG/NAME,revision=COMMIT,dtype=float32", values.pairs,
           short="-a", form="several", metavar="NAME=VALUE"),
    Option("apply_chat_template", "ask in the model's chat template (of that name)",
           values.flag_or_name, default=False, form="maybe", metavar="NAME"),
    Option("fewshot_as_multiturn", "examples as turns of the conversation (the default in a chat)",
           values.flag, form="maybe", metavar="true|false"),
    Option("system_instruction", "text before everything else"),
    Option("num_fewshot", "examples before each question", values.count, short="-f"),
    Option("limit", "documents of each task: a count, or a share below 1", values.limit,
           short="-L"),
    Option("samples", 'rows to score, such as {"arc_easy": [0, 7]}, or a file with that',
           values.rows_by_task, short="-E", metavar="JSON"),
    Option("gen_kwargs", "generation arguments over those of the tasks", values.generation_pairs,
           short=None, form="several", metavar="NAME=VALUE"),
    Option("batch_size", "most rows in a batch, or auto", values.batch_size, short="-b"),
    Option("max_batch_size", "most rows in a batch under auto", values.positive),
    Option("device", "such as cpu or cuda:0; by default a GPU where there is one"),
    Option("data_parallel", "copies of the model, each on its own GPU: a count, or auto for all",
           values.copies),
    Option("output_path", "folder for the results, or a file ending in .json", values.path,
           short="-o"),
    Option("log_samples", "write every prompt and answer, too", values.flag, default=False,
           short="-s", form="flag"),
    Option("predict_only", "write the answers, compute no metric", values.flag, default=False,
           short="-x", form="flag"),
    Option("use_cache", "folder of the journal, to go on from", values.path, short="-c"),
    Option("seed", "one seed, or those of python, numpy, torch and the few-shot draw",
           values.seeds, default=values.SEEDS, metavar="N[,N,N,N]"),
    Option("include_path", "other folders of tasks, which win over ours", values.folders,
           default=(), form="several", metavar="FOLDER"),
    Option("metadata", "for tasks that are made from arguments", values.typed_pairs,
           form="several", metavar="NAME=VALUE"),
    Option("confirm_run_unsafe_code", "run tasks that execute what the model wrote", values.flag,
           default=False, form="flag"),
    Option("write_out", "print the first prompt of each task", values.flag, default=False,
           short="-w", form="flag"),
    Option("show_config", "print the results file at the end", values.flag, default=False,
           form="flag"),
    Option("verbosity", "level of the log, such as INFO", short="-v"),
    Option("cache_requests", "accepted; prompts are built in seconds, and always afresh",
           values.anything, form="maybe"),
    Option("check_integrity", "accepted; `evalcore validate` builds the tasks' prompts",
           values.flag, default=False, form="flag"),
    Option("trust_remote_code", "run the model's own code (--model hf); that of data sets never",
           values.flag, default=False, form="flag"),
    Option("wandb_args", "accepted; nothing is sent", values.anything, form="several"),
    Option("wandb_config_args", "accepted; nothing is sent", values.anything, form="several"),
    Option("trackio_args", "accepted; nothing is sent", values.anything, form="several"),
    Option("hf_hub_log_args", "accepted; nothing is sent", values.anything, form="several"),
    # Our own.
    Option("adapters", "adapters of the model, each evaluated as with peft=NAME; loads it once",
           values.names, default=(), form="several", metavar="NAME[@REVISION]"),
    Option("check_again", "check how the model is computed, as if this machine had never done so",
           values.flag, default=False, form="flag"),
    Option("mode", "compat: lm-evaluation-harness to the draw; strict: free of its quirks",
           values.one_of("compat", "strict"), default="compat"),
    Option("fewshot_draw", "in strict: examples for each document by itself, or one draw for all",
           values.one_of("per-document", "fixed"), default="per-document"),
    Option("bootstrap_iters", "resamples behind a standard error without a formula", values.count,
           default=100_000),
    Option("forbid_truncation", "end the run where a prompt is longer than the model's window",
           values.flag, default=False, form="flag"),
    Option("max_cost", "end the run before its requests to a service cost more; needs --prices",
           values.amount),
    Option("prices", "file with what a million tokens of a service's models cost (docs/models.md)",
           values.path),
    Option("decontaminate", "training text to search for the documents: files, folders, data sets",
           values.names, default=(), form="several", metavar="SOURCE"),
    Option("decontaminate_n", "words in an n-gram of that search, 8 to 13", values.positive),
)  # fmt: skip

OPTIONS: Mapping[str, Option] = {option.name: option for option in _ALL}

MODEL_OPTIONS = ("model", "model_args", "device", "batch_size", "max_batch_size", "mode")
TASK_OPTIONS = ("tasks", "include_path", "metadata")
PROMPT_OPTIONS = (
    *TASK_OPTIONS, "model", "model_args", "apply_chat_template", "fewshot_as_multiturn",
    "system_instruction", "num_fewshot", "samples", "gen_kwargs", "device", "seed", "mode",
    "fewshot_draw", "confirm_run_unsafe_code",
)  # fmt: skip

OLD_SPELLINGS: Mapping[str, str] = {
    "--no_cache": "nothing is cached unless --use_cache says where; leave it out",
    "--decontamination_ngrams_path": "give the training text itself: --decontaminate FILE",
    "--output_base_path": "it is called --output_path now",
    "--description_dict_path": "a description stands in the task file now (key `description`)",
    "--provide_description": "a description stands in the task file now (key `description`)",
    "--bootstrap": "it is called --bootstrap_iters now",
    "--tokenizer": "give it among the model's arguments: --model_args tokenizer=NAME",
    "--pretrained": "give it among the model's arguments: --model_args pretrained=NAME",
    "--use_accelerate": "give it among the model's arguments: --model_args parallelize=True",
    "--confirm_unsafe_code": "it is called --confirm_run_unsafe_code now",
    "--chat_template": "it is called --apply_chat_template now",
}
"""Options of earlier versions and of tutorials, and what to write instead."""


def add_options(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """What is not given stays out of the namespace, so that a file can say it."""
    for name in names:
        option = OPTIONS[name]
        flags = [f"--{name}", *([option.short] if option.short else [])]
        how: dict[str, Any] = {"default": argparse.SUPPRESS, "help": option.help, "dest": name}
        if option.form == "flag":
            parser.add_argument(*flags, action="store_true", **how)
            continue
        how["metavar"] = option.metavar or name.upper()
        if option.form == "several":
            how |= {"nargs": "+", "action": "extend"}
        elif option.form == "maybe":
            how |= {"nargs": "?", "const": True}
        parser.add_argument(*flags, **how)


def refuse_old_spellings(arguments: Iterable[str]) -> None:
    for argument in arguments:
        name = argument.partition("=")[0]
        if name in OLD_SPELLINGS:
            raise OptionError(f"{name} is no option: {OLD_SPELLINGS[name]}")


def settle(
    given: argparse.Namespace, names: Iterable[str], config: Path | None
) -> argparse.Namespace:
    """Every option read: from the command line, else the file, else its default.

    Options that the command does not take have their default; in a file they are passed over, so
    that one file serves several commands. Raises OptionError naming the option, its value and what
    was expected.
    """
    stated = {} if config is None else _read_file(config)
    taken = set(names)
    settled = argparse.Namespace(**vars(given))
    for name, option in OPTIONS.items():
        if name in vars(given):
            value = _read(option, vars(given)[name], f"--{name}")
        elif name in taken and stated.get(name) is not None:
            value = _read(option, stated[name], f"{config}: {name}")
        else:
            value = option.default
        setattr(settled, name, value)
    return settled


def _read(option: Option, value: Any, place: str) -> Any:
    try:
        return option.read(value)
    except ValueError as error:
        raise OptionError(f"{place}: {error}") from error


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise OptionError(f"--config: {path} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise OptionError(f"--config: {path}: expected a mapping of options, got {values!r}")
    if unknown := [str(key) for key in values if key not in OPTIONS and key != "config"]:
        hints = ", ".join(f"{key!r}{did_you_mean(key, OPTIONS)}" for key in unknown)
        raise OptionError(f"--config: {path}: there is no option {hints}")
    return values
