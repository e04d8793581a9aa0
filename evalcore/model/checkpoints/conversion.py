"""A training checkpoint written as a folder of the Hub's form, and loaded back.

The story: find the shards, say what model they are, join them weight by weight, save the model with
its tokenizer, load the folder as `--model hf` does, and only then give it its name.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from evalcore.errors import InfraError, ModelError
from evalcore.model.checkpoints.bloom import bloom_layout
from evalcore.model.checkpoints.joining import Copies
from evalcore.model.checkpoints.layout import Layout, weights_of
from evalcore.model.checkpoints.neox import neox_layout
from evalcore.model.checkpoints.neox_settings import read_settings
from evalcore.model.checkpoints.shards import Checkpoint, find
from evalcore.model.faults import libraries_fault
from evalcore.model.hf.arguments import named_with_revision
from evalcore.model.hf.description import load_tokenizer
from evalcore.model.hf.loading import load_model
from evalcore.model.hf.repository import TEMPLATES, TOKENIZER
from evalcore.model.hf.snapshot import Arguments, Snapshot, download, download_tokenizer

CONFIGS = ("configs/*.yml", "configs/*.yaml", "../configs/*.yml", "../configs/*.yaml")
"""Where GPT-NeoX's settings lie: in the folder of the step, or beside it in the first releases."""

TRIED = "The quick brown fox jumps over the lazy dog."
"""A text that the converted model must be able to read."""


@dataclass(frozen=True)
class Conversion:
    """What was written."""

    folder: Path
    parameters: int
    ranks: int
    remarks: tuple[str, ...]
    """What may make the model another than the one that was trained."""


def convert_checkpoint(
    folder: Path,
    into: Path,
    *,
    tokenizer: str,
    config_files: Sequence[Path] = (),
    vocab_size: int | None = None,
) -> Conversion:
    """Writes the model of the checkpoint in `folder` to the new folder `into`.

    `tokenizer`: a folder, or owner/name with @ and a revision, whose tokenizer is copied;
    `config_files`: the settings, where they do not lie with the checkpoint; `vocab_size`: rows of
    the tables that are kept, None for all. Raises ModelError for what cannot be converted;
    then nothing is left at `into`.
    """
    checkpoint = find(folder)
    copies = Copies()
    with libraries_fault(f"{folder} cannot be converted"):
        layout = _layout(checkpoint, config_files)
        source, tokens = _tokenizer(tokenizer)
        kept = _kept_rows(layout, vocab_size, tokens)
        _name_special_tokens(layout.config, tokens)
        model = _model(checkpoint, layout, kept, copies)
    into.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{into.name}-", dir=into.parent))
    try:
        parameters = sum(weight.numel() for weight in model.parameters())
        with libraries_fault(f"{into} cannot be written"):
            model.save_pretrained(unfinished)
        del model
        gc.collect()
        _copy_tokenizer(source.folder, unfinished)
        with libraries_fault(f"{into} cannot be loaded back", folder=unfinished, name="it"):
            _check(unfinished)
        unfinished.chmod(0o755)
        unfinished.replace(into)
    except OSError as problem:
        raise InfraError(
            f"{into} cannot be written: {problem}: make room, and try again"
        ) from problem
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return Conversion(into, parameters, checkpoint.ranks, (*layout.remarks, *_on_copies(copies)))


def _layout(checkpoint: Checkpoint, config_files: Sequence[Path]) -> Layout:
    """By the names of the weights in the third layer, which the programs number alike."""
    if 3 not in checkpoint.layers and 2 not in checkpoint.layers:
        raise ModelError(
            f"{checkpoint.folder}: neither layer 2 nor layer 3 is there, one of which is a block "
            "in every layout that is known: copy all files of the step"
        )
    names = checkpoint.shards(3 if 3 in checkpoint.layers else 2)[0]
    if any(name.startswith("attention.") for name in names):
        files = list(config_files) or _settings_beside(checkpoint.folder)
        return neox_layout(checkpoint, read_settings(files))
    if any(name.startswith("self_attention.") for name in names):
        if len(config_files) != 1:
            raise ModelError(
                f"{checkpoint.folder} is a checkpoint of Megatron-DeepSpeed, which does not say "
                "what it is: give --config_file with one config.json of transformers"
            )
        return bloom_layout(config_files[0])
    raise ModelError(
        f"{checkpoint.folder}: unknown layout: its blocks hold {', '.join(sorted(names)[:3])}, and "
        "those of GPT-NeoX (attention.…) and of Megatron-DeepSpeed (self_attention.…) are converted"
    )


def _settings_beside(folder: Path) -> list[Path]:
    for pattern in CONFIGS:
        root, _, rest = pattern.rpartition("/")
        if files := sorted((folder / root).glob(rest)):
            return files
    raise ModelError(
        f"{folder}: no settings (configs/*.yml) lie with the checkpoint: give --config_file with "
        "GPT-NeoX's files"
    )


def _tokenizer(stated: str) -> tuple[Snapshot, Any]:
    name, revision = named_with_revision(stated)
    arguments = Arguments(pretrained=name, revision=revision)
    snapshot = download_tokenizer(arguments)
    if not any((snapshot.folder / file).is_file() for file in TOKENIZER):
        raise ModelError(
            f"--tokenizer_from: {stated} has no file of a tokenizer, such as tokenizer.json"
        )
    return snapshot, load_tokenizer(arguments, snapshot)


def _kept_rows(layout: Layout, stated: int | None, tokenizer: Any) -> int:
    """How many rows the tables keep. Padding rows are part of what was trained: their tokens have
    a share of every probability, so they go only where somebody says so."""
    rows: int = layout.config.vocab_size
    if stated is not None and stated > rows:
        raise ModelError(f"--vocab_size: the checkpoint has {rows} rows of tokens, got {stated}")
    kept = stated or rows
    if len(tokenizer) > kept:
        raise ModelError(
            f"--tokenizer_from: it makes {len(tokenizer)} tokens, and the model has rows for "
            f"{kept}: give the tokenizer that the model was trained with"
        )
    return kept


def _model(checkpoint: Checkpoint, layout: Layout, kept: int, copies: Copies) -> Any:
    """The joined weights in a model of transformers. Raises ModelError for shapes that differ from
    what the settings ask for."""
    config = layout.config
    joined: dict[str, Tensor] = {}
    stored: set[torch.dtype] = set()
    for name, weight, precision in weights_of(checkpoint, layout, copies):
        stored.add(precision)
        if name in layout.tables and len(weight) >= config.vocab_size:
            weight = weight[:kept]
        joined[name] = weight
    config.vocab_size = kept
    config.dtype = reduce(torch.promote_types, stored)
    with torch.device("meta"):
        kind: Any = AutoModelForCausalLM
        model = kind.from_config(config)
    asked = model.state_dict()
    for name, weight in joined.items():
        if name not in asked or weight.shape != asked[name].shape:
            own = " × ".join(map(str, weight.shape))
            wanted = " × ".join(map(str, asked[name].shape)) if name in asked else "no such weight"
            raise ModelError(
                f"{checkpoint.folder}: joined, {name} is {own}, and the settings ask for {wanted}: "
                "a shard is missing, or the settings are of another model"
            )
    whole = {name: weight.to(config.dtype).contiguous() for name, weight in joined.items()}
    report = model.load_state_dict(whole, strict=False, assign=True)
    model.tie_weights()
    left = [name for name in report.missing_keys if model.get_parameter(name).is_meta]
    if left:
        raise ModelError(
            f"{checkpoint.folder}: {len(left)} weights of the model are in no layer of the "
            f"checkpoint, such as {left[0]}: copy all files of the step"
        )
    return model


def _name_special_tokens(config: Any, tokenizer: Any) -> None:
    """GPT-NeoX's settings name none, and transformers would put its own defaults there."""
    if config.model_type == "bloom":
        return
    config.bos_token_id, config.eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id


def _copy_tokenizer(source: Path, folder: Path) -> None:
    files = [source / file for file in TOKENIZER] + list(source.glob(TEMPLATES))
    for file in files:
        if file.is_file():
            place = folder / file.relative_to(source)
            place.parent.mkdir(exist_ok=True)
            shutil.copyfile(file, place)


def _check(folder: Path) -> None:
    """Loads the folder as an evaluation does, which refuses what has not found its place, and
    computes a text with it."""
    arguments = Arguments(pretrained=str(folder))
    files = download(arguments)
    tokenizer = load_tokenizer(arguments, files.tokenizer)
    model = load_model(arguments, files, "cpu")
    tokens = torch.tensor([tokenizer(TRIED)["input_ids"]])
    with torch.inference_mode():
        logits = model(tokens).logits
    if not torch.isfinite(logits).all():
        raise ModelError(
            "the converted model computes numbers that are not finite: its checkpoint is damaged, "
            "or its precision too low for it"
        )


def _on_copies(copies: Copies) -> tuple[str, ...]:
    if not copies.differ:
        return ()
    name, largest = max(copies.differ.items(), key=lambda found: found[1])
    return (
        f"{len(copies.differ)} weights that every rank has a copy of differ between the ranks (by "
        f"up to {largest:.2g} from their mean, {name}), and their means were taken: the model is "
        "nearly, not exactly, the one that was trained",
    )
