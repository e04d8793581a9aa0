"""Which model, and its files on this machine: pinned to one commit, weights in safetensors only.

Runs nothing of the model and imports neither torch nor transformers: a fetch is quick and safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from huggingface_hub import errors as hub
from huggingface_hub import snapshot_download

from evalcore.digest import digest_of, digest_of_file
from evalcore.errors import InfraError, ModelError

FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
"""What a model needs: configuration, weights without code, tokenizer files."""

OTHER_FILES = ["*/*", "consolidated*"]
"""Folders with other forms of the model, and the same weights in their makers' own layout."""

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

    @property
    def files_digest(self) -> str | None:
        """What stands for the commit where there is none: the digest of what is loaded."""
        if self.commit:
            return None
        files = sorted([self.folder / "config.json", *self.folder.glob("*.safetensors")])
        return digest_of([[file.name, digest_of_file(file)] for file in files if file.is_file()])


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


@contextmanager
def _errors_named(arguments: Arguments) -> Iterator[None]:
    """Turn what the Hub's client raises into the class of who must act, with what to do."""
    what = f"{arguments.pretrained} at {arguments.revision}"
    try:
        yield
    except hub.LocalEntryNotFoundError as problem:
        raise InfraError(f"{what}: not downloaded, and the Hub cannot be reached") from problem
    except hub.GatedRepoError as problem:
        raise ModelError(f"{what} is gated: its owner must open it, or grant access") from problem
    except hub.RevisionNotFoundError as problem:
        raise ModelError(f"{what}: the Hub knows no such revision of the model") from problem
    except hub.RepositoryNotFoundError as problem:
        raise ModelError(f"{what} is not on the Hub, or is private: check the ID") from problem
    except hub.DisabledRepoError as problem:
        raise ModelError(f"{what} was disabled on the Hub") from problem
    except hub.HFValidationError as problem:
        raise ModelError(f"{what} is no model ID: expected owner/name or a folder") from problem
    except (hub.HfHubHTTPError, OSError) as problem:
        raise InfraError(f"{what} could not be downloaded: {problem}") from problem
