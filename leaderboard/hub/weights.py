"""How many parameters, and how many bytes they take: as the Hub counts, or as the files tell.

The head of a safetensors file (https://github.com/huggingface/safetensors, "Format") is eight
bytes with the length of a table, then that table of tensors: name, precision, shape, place.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from leaderboard.hub import cleaning

FIRST_BYTES = 100_000
"""Asked for at first: the whole head of most files."""
MAX_HEAD_BYTES = 25_000_000
MAX_PARAMETERS = 10**15
"""No count beyond it is believed; the largest models have some 10**12."""
MOST_DIMENSIONS = 16
FLOATS = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2}
"""Bytes of each number; whole numbers may be packed, so nothing is said of their size."""

WHOLE = {"I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8}
"""Bits of whole numbers, which hold packed weights."""

Read = Callable[[int], bytes]
"""The first so many bytes of a file, or fewer where it ends before."""


@dataclass(frozen=True)
class Weights:
    """`count` parameters, by safetensors' names of their precisions where known.

    None at all where the file is empty.
    """

    count: int
    by_dtype: Mapping[str, int]

    @property
    def n_bytes(self) -> int | None:
        """What they take in a file; None where a precision is unknown or packed."""
        if not self.by_dtype or not self.by_dtype.keys() <= FLOATS.keys():
            return None
        return sum(FLOATS[name] * n for name, n in self.by_dtype.items())

    def unpacked(self, quantisation: str) -> int:
        """Parameters of weights that are packed so ("gptq 4-bit"): each whole number that is wider
        holds several. Scales and zero points count too, which is a few in a hundred."""
        bits = re.search(r"(\d+)-bit", quantisation)
        if bits is None:
            return self.count
        each = {name: max(1, width // int(bits[1])) for name, width in WHOLE.items()}
        return sum(n * each.get(name, 1) for name, n in self.by_dtype.items()) or self.count


def as_counted(total: object, by_dtype: object) -> Weights | None:
    """From the Hub's own count; None where there is none, or none that can be true."""
    parameters = cleaning.count(total, MAX_PARAMETERS)
    parts = cleaning.cleaned(by_dtype)
    counts = {
        name: n
        for name, value in (parts.items() if isinstance(parts, dict) else ())
        if (n := cleaning.count(value, MAX_PARAMETERS)) is not None
    }
    return Weights(parameters, counts) if parameters else None


def in_head(read: Read) -> Weights | None:
    """From the head of a file; None where it cannot be read."""
    first = read(FIRST_BYTES)
    if not first:
        return Weights(0, {})
    length = int.from_bytes(first[:8], "little")
    if len(first) < 8 or not 0 < length <= MAX_HEAD_BYTES:
        return None
    head = first if length + 8 <= len(first) else read(length + 8)
    if len(head) < length + 8:
        return None
    table, _ = cleaning.json_object(head[8 : length + 8], MAX_HEAD_BYTES)
    if table is None:
        return None
    counts: Counter[str] = Counter()
    for name, tensor in table.items():
        if name == "__metadata__":
            continue
        size = _size(tensor)
        if size is None:
            return None
        counts[tensor["dtype"]] += size
    total = sum(counts.values())
    return Weights(total, dict(counts)) if 0 < total <= MAX_PARAMETERS else None


def _size(tensor: object) -> int | None:
    """How many numbers a tensor has; None where its entry says no such thing."""
    shape = tensor.get("shape") if isinstance(tensor, dict) else None
    if not isinstance(tensor, dict) or not isinstance(tensor.get("dtype"), str):
        return None
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
        return None
    sizes = [cleaning.count(size, MAX_PARAMETERS) for size in shape]
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def from_index(index: dict[str, Any], dtype: str) -> Weights | None:
    """From the sum of bytes in an index of shards, where all are in this precision."""
    bytes_each = {"float32": 4, "bfloat16": 2, "float16": 2}.get(dtype)
    total = total_size(index)
    if bytes_each is None or total is None or total < bytes_each:
        return None
    return Weights(total // bytes_each, {})


def total_size(index: dict[str, Any]) -> int | None:
    """The bytes of all tensors, as an index says; None where it says nothing that can be true."""
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    # Older writers wrote it as a decimal number. The comparison is false for NaN and Infinity too.
    if isinstance(total, float) and 0 <= total <= 4 * MAX_PARAMETERS:
        total = int(total)
    return cleaning.count(total, 4 * MAX_PARAMETERS)
