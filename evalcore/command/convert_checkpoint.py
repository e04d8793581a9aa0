"""`evalcore convert-checkpoint`: the shards of a training checkpoint, joined for `--model hf`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from evalcore.command.options import OptionError


def convert_checkpoint(options: argparse.Namespace) -> int:
    """Prints the folder that was written, and what is to be known of it."""
    from evalcore.model.checkpoints import conversion

    into: Path = options.output_path
    if into.exists() and not into.is_dir():
        raise OptionError(f"--output_path: {into} is a file: name a new folder")
    if into.is_dir() and any(into.iterdir()):
        raise OptionError(f"--output_path: {into} is not empty: name a new folder")
    made = conversion.convert_checkpoint(
        options.checkpoint,
        into,
        tokenizer=options.tokenizer_from,
        config_files=options.config_file,
        vocab_size=options.vocab_size,
    )
    for remark in made.remarks:
        sys.stderr.write(f"evalcore: {remark}\n")
    shards = "one shard" if made.ranks == 1 else f"{made.ranks} shards"
    sys.stdout.write(
        f"{made.folder}: {made.parameters:,} parameters, joined from {shards} of each layer, "
        "loaded back and checked\n"
    )
    return 0
