"""Which files of a repository a model is loaded from, and how large they may be.

Only what transformers reads is named here: a repository may hold anything beside it, of any size.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from huggingface_hub import constants, snapshot_download
from huggingface_hub import errors as hub
from huggingface_hub.file_download import repo_folder_name

from evalcore.errors import InfraError, ModelError
from evalcore.model.hf.code import MODULES

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
ADAPTER, ADAPTER_CONFIGURATION = "adapter_model.safetensors", "adapter_config.json"
CONFIGURATION = ("config.json", "generation_config.json", ADAPTER_CONFIGURATION, INDEX)
TOKENIZER = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "tokenizer.model",
    "spiece.model",
    "spm.model",
    "spm_char.model",
    "sentencepiece.model",
    "sentencepiece.bpe.model",
    "source.spm",
    "target.spm",
    "vocab.json",
    "vocab.txt",
    "vocab-src.json",
    "vocab-tgt.json",
    "target_vocab.json",
    "entity_vocab.json",
    "merges.txt",
    "dict.txt",
    "bpe.codes",
    "tekken.json",
    "prophetnet.tokenizer",
    "normalizer.json",
    "emoji.json",
    "byte_maps.json",
    "word_shape.json",
    "word_pronunciation.json",
)
"""What transformers' tokenizers read by name; a test compares them."""
PROCESSOR = ("processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json")
"""What says how a model that sees reads an image."""
TEMPLATES = "additional_chat_templates/*.jinja"
"""A tokenizer's chat templates besides its default one, each by its name."""
VERSIONED = (
    ("config.json", "configuration_files"),
    ("tokenizer_config.json", "fast_tokenizer_files"),
)
"""Where a file names its forms for other versions of transformers, and by which key."""

LARGEST_SMALL_FILE = 256 * 2**20
"""Bytes of a file that holds no weights; the largest tokenizers in use have some 40 million."""
LARGEST_CONFIGURATION = 64 * 2**20
LARGEST_TEMPLATE, MOST_TEMPLATES = 2**20, 100
RESERVE = 2**30
"""Bytes that stay free on the disk."""


def fetch(name: str, revision: str, inside: str, *, code: bool = False) -> Path:
    """The folder with the repository's configuration and tokenizer on this machine; downloads what
    is missing, and no weights.

    `inside` is the path of the model in it, empty or with a slash at its end; `code`: with the
    repository's own code. Sizes are known
    before anything is downloaded. Offline, what was downloaded before counts. Raises ModelError
    for files that are too large, InfraError where the disk has no room, and what the Hub's client
    raises.
    """
    modules = (MODULES,) if code else ()
    folder = _download(
        name,
        revision,
        [inside + file for file in (*CONFIGURATION, *TOKENIZER, *PROCESSOR, TEMPLATES, *modules)],
    )
    if named := _versions(folder / inside):
        # The commit that was just read: a branch may have moved since.
        _download(name, folder.name, [inside + file for file in named])
    return folder


def fetch_weights(name: str, commit: str, inside: str, folder: Path) -> None:
    """The weights that the configuration in `folder` names; raises as `fetch`."""
    _download(name, commit, [inside + file for file in weight_files(folder)])


def fetch_code(name: str, commit: str) -> Path:
    """The folder of a repository with its code alone; raises as `fetch`."""
    return _download(name, commit, [MODULES])


def fetch_file(name: str, revision: str, file: str) -> Path:
    """The folder of a repository with this file of it alone; raises as `fetch`."""
    return _download(name, revision, [file])


def weight_files(folder: Path) -> list[str]:
    """The files of weights that the configuration and the index beside it name.

    All that transformers may choose from; those that are not there are not downloaded.
    """
    asked = read_object(folder / "config.json").get("transformers_weights")
    shards = read_object(folder / INDEX).get("weight_map")
    named = [WEIGHTS, ADAPTER, asked, *(shards.values() if isinstance(shards, dict) else ())]
    return _plain_names(named, ".safetensors")


def _versions(folder: Path) -> list[str]:
    named = [read_object(folder / file).get(key) for file, key in VERSIONED]
    return _plain_names(
        [name for some in named if isinstance(some, list) for name in some], ".json"
    )


def _plain_names(named: Iterable[object], suffix: str) -> list[str]:
    """Those that name one file beside the configuration, and nothing else."""
    plain = re.compile(rf"[\w.-]{{1,200}}{re.escape(suffix)}", re.ASCII)
    return sorted({name for name in named if isinstance(name, str) and plain.fullmatch(name)})


def read_object(file: Path) -> dict[str, Any]:
    """A table of JSON; empty where there is none: what is wrong with it, loading says."""
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _download(name: str, revision: str, files: list[str]) -> Path:
    try:
        planned = snapshot_download(name, revision=revision, allow_patterns=files, dry_run=True)
    except hub.DryRunError:
        planned = []  # No answer: the download itself says why, or finds all of it in the cache.
    templates = [file.filename for file in planned if file.filename.endswith(".jinja")]
    if len(templates) > MOST_TEMPLATES:
        raise ModelError(
            f"{name}: {len(templates)} chat templates, and {MOST_TEMPLATES} is the most: keep "
            "those that are used"
        )
    missing = [file for file in planned if file.will_download]
    for file in missing:
        _check_size(name, file.filename, file.file_size)
    _check_room(name, sum(file.file_size or 0 for file in missing))
    return Path(snapshot_download(name, revision=revision, allow_patterns=files))


def _check_size(name: str, file: str, size: int | None) -> None:
    if size is None:
        raise ModelError(f"{name}: the Hub does not say how large {file} is: push it again")
    most = LARGEST_CONFIGURATION if file.endswith(CONFIGURATION) else LARGEST_SMALL_FILE
    most = LARGEST_TEMPLATE if file.endswith(".jinja") else most
    if size > most and not file.endswith((".safetensors", ".gguf")):
        raise ModelError(
            f"{name}: {file} has {size:,} bytes, and {most:,} is the most for a file without "
            "weights: make it smaller"
        )


def _check_room(name: str, needed: int) -> None:
    """Raises InfraError where the disk of the cache would not keep a reserve."""
    # The model's own folder, should it be there: a confined fetch sees no other part of the cache.
    place = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=name, repo_type="model"))
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if needed and needed + RESERVE > free:
        raise InfraError(
            f"{name}: {needed:,} bytes are to be downloaded, and {place} has {free:,} free, of "
            f"which {RESERVE:,} are kept: free some, or name another disk in HF_HOME"
        ) from OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
