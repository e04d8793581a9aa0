"""Tokenizer and weights from the Hub or a folder: pinned, safetensors only, no code of theirs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import errors as hub
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from evalcore.errors import InfraError, ModelError

FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
"""What a model needs: configuration, weights without code, tokenizer files."""

OTHER_FILES = ["*/*", "consolidated*"]
"""Folders with other forms of the model, and the same weights in their makers' own layout."""

# Where a repository has no safetensors, transformers would send its name and the token to a service
# that converts it.
os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"

DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The `--model_args` of the `hf` backend."""

    pretrained: str
    revision: str = "main"
    dtype: str = "auto"
    max_length: int | None = None
    add_bos_token: bool | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Arguments:
        """Typed from the command line's texts; raises ModelError naming every wrong one."""
        known = {field.name for field in fields(cls)}
        problems = [f"unknown argument {name!r}" for name in given if name not in known]
        values: dict[str, Any] = {name: text for name, text in given.items() if name in known}
        if not values.get("pretrained"):
            problems.append("missing argument 'pretrained': the Hub ID or folder of the model")
        if values.get("dtype", "auto") not in DTYPES:
            problems.append(f"dtype: expected one of {', '.join(DTYPES)}, got {values['dtype']!r}")
        if "max_length" in values:
            if values["max_length"].isdigit() and int(values["max_length"]) > 0:
                values["max_length"] = int(values["max_length"])
            else:
                problems.append(f"max_length: expected a count, got {values['max_length']!r}")
        if "add_bos_token" in values:
            if values["add_bos_token"].lower() in ("true", "false"):
                values["add_bos_token"] = values["add_bos_token"].lower() == "true"
            else:
                problems.append(
                    f"add_bos_token: expected True or False, got {values['add_bos_token']!r}"
                )
        if problems:
            raise ModelError(f"--model_args: {'; '.join(problems)}")
        return cls(**values)


@dataclass(frozen=True)
class Snapshot:
    """A model's files on this machine."""

    folder: Path
    commit: str | None
    """Commit of the Hub repository; None for a local folder."""


def download(arguments: Arguments) -> Snapshot:
    """The model's files at the commit that the revision names now; downloads what is missing.

    Offline, the answer of the last download counts. Raises ModelError for a repository that is not
    there, not open or without safetensors, InfraError where the Hub cannot be reached.
    """
    if Path(arguments.pretrained).is_dir():
        snapshot = Snapshot(Path(arguments.pretrained), None)
    else:
        with _errors_named(arguments):
            folder = snapshot_download(
                arguments.pretrained,
                revision=arguments.revision,
                allow_patterns=FILES,
                ignore_patterns=OTHER_FILES,
            )
        snapshot = Snapshot(Path(folder), Path(folder).name)
    if not list(snapshot.folder.glob("*.safetensors")):
        raise ModelError(
            f"{arguments.pretrained} has no weights in safetensors format, and no other is loaded "
            "here (pickled weights can run code): publish them with save_pretrained"
        )
    return snapshot


def load_tokenizer(arguments: Arguments, snapshot: Snapshot) -> Any:
    with _errors_named(arguments, snapshot):
        return AutoTokenizer.from_pretrained(snapshot.folder, trust_remote_code=False)


def load_model(arguments: Arguments, snapshot: Snapshot) -> Any:
    dtype = arguments.dtype if arguments.dtype == "auto" else getattr(torch, arguments.dtype)
    with _errors_named(arguments, snapshot):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            snapshot.folder,
            dtype=dtype,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    model, report = loaded
    if missing := sorted(report["missing_keys"]):
        # transformers fills them with random numbers and goes on: the score would be of no model.
        raise ModelError(
            f"{arguments.pretrained}: {len(missing)} weights are missing from its files, "
            f"such as {missing[0]}: publish all of them"
        )
    return model


@contextmanager
def _errors_named(arguments: Arguments, snapshot: Snapshot | None = None) -> Iterator[None]:
    """Turn what the libraries raise into the class of who must act."""
    what = f"{arguments.pretrained} at {arguments.revision}"

    def first_line(problem: BaseException) -> str:
        lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
        text = lines[0] if lines else type(problem).__name__
        # A path of this machine would tell the reader nothing.
        return text.replace(str(snapshot.folder), arguments.pretrained) if snapshot else text

    try:
        yield
    except hub.LocalEntryNotFoundError as problem:
        raise InfraError(f"{what}: not downloaded, and the Hub cannot be reached") from problem
    except (
        hub.RepositoryNotFoundError,
        hub.RevisionNotFoundError,
        hub.EntryNotFoundError,
        hub.HFValidationError,
    ) as problem:
        raise ModelError(f"{what}: {first_line(problem)}") from problem
    except hub.HfHubHTTPError as problem:
        raise InfraError(f"{what}: the Hub answered {first_line(problem)}") from problem
    except ConnectionError as problem:
        raise InfraError(f"{what}: {first_line(problem)}") from problem
    except torch.OutOfMemoryError as problem:
        raise ModelError(f"{what}: out of memory: {first_line(problem)}") from problem
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        # What transformers raises for a repository it cannot read; each means: not loadable so.
        raise ModelError(f"{what} cannot be loaded: {first_line(problem)}") from problem
    except (RuntimeError, ImportError, SafetensorError) as problem:
        raise ModelError(f"{what} cannot be loaded: {first_line(problem)}") from problem
