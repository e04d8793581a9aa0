"""Models in one GGUF file, as transformers unpacks them: what the file says of its weights, and
that all of them have found their place.

transformers takes what it has a name for and passes over the rest without a word.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evalcore.errors import ModelError
from evalcore.model.hf.snapshot import Snapshot

PLAIN = ("F32", "F16", "BF16")
"""Types of numbers that are not packed."""

SCALES = "rope_freqs.weight"
"""Factors of the rotary frequencies, which transformers does not read; ones change nothing."""


@contextmanager
def alone(snapshot: Snapshot) -> Iterator[Path]:
    """A folder to load a snapshot from: for a GGUF file one with nothing else in it, as
    transformers would take the tokenizer or generation arguments of files that lie beside it."""
    if not snapshot.file:
        yield snapshot.folder
        return
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / snapshot.file).symlink_to((snapshot.folder / snapshot.file).absolute())
        yield Path(place)


def check_readable(name: str) -> None:
    """Raises ModelError where the package that unpacks such files is not there."""
    if find_spec("gguf") is None:
        raise ModelError(
            f"--model_args: gguf_file: {name}: the package gguf, which reads the file, is not "
            "installed: pip install 'plumbline[gguf]'"
        )


def check_metadata(snapshot: Snapshot) -> None:
    """Raises ModelError for what a file states and transformers does not read: the model that it
    makes of it would be another."""
    reader = _reader(snapshot)
    what = f"{snapshot.name}: {snapshot.file}"
    scaling = _stated(reader, "rope.scaling.type")
    if scaling not in (None, "none") and _stated(reader, "architecture") != "gpt-oss":
        raise ModelError(
            f"{what}: its positions are scaled (rope.scaling.type {scaling}), which transformers "
            "does not read in such a file: evaluate the model in safetensors"
        )
    for tensor in reader.tensors:
        if tensor.name == SCALES and not (tensor.data == 1).all():
            raise ModelError(
                f"{what}: its positions are scaled ({SCALES}), which transformers does not read in "
                "such a file: evaluate the model in safetensors"
            )


def check_complete(model: Any, snapshot: Snapshot) -> None:
    """Raises ModelError where the file holds more numbers than the model has taken.

    Unpacking turns and divides tensors, but each number of the file is one of the model; that none
    is missing, transformers' report says.
    """
    sizes = {
        str(tensor.name): math.prod(int(length) for length in tensor.shape)
        for tensor in _reader(snapshot).tensors
        if tensor.name != SCALES
    }
    if model.config.get_text_config().tie_word_embeddings:
        sizes.pop("output.weight", None)
    own = sum(weight.numel() for weight in model.parameters())
    if (held := sum(sizes.values())) > own:
        raise ModelError(
            f"{snapshot.name}: {snapshot.file} holds {held:,} numbers, and transformers makes a "
            f"model of {own:,} of it, passing over the others: evaluate the model in safetensors"
        )


def packing_of(snapshot: Snapshot) -> str | None:
    """How most of the weights are packed, such as "gguf Q8_0"; None where they are plain."""
    taken: Counter[str] = Counter()
    for tensor in _reader(snapshot).tensors:
        taken[tensor.tensor_type.name] += int(tensor.n_bytes)
    packed = [kind for kind, _ in taken.most_common() if kind not in PLAIN]
    return f"gguf {packed[0]}" if packed else None


def _reader(snapshot: Snapshot) -> Any:
    from gguf import GGUFReader

    return GGUFReader(snapshot.folder / snapshot.file)


def _stated(reader: Any, key: str) -> str | None:
    """What the metadata say under a key of the model's kind; the kind itself is `architecture`."""
    kind = str(reader.fields["general.architecture"].contents())
    if key == "architecture":
        return kind
    field = reader.fields.get(f"{kind}.{key}")
    return None if field is None else str(field.contents())
