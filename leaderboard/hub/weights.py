"""How many parameters, and how many bytes they take: as the files tell, or as the Hub counts.

The head of a safetensors file (https://github.com/huggingface/safetensors, "Format") is eight
bytes with the length of a table, then that table of tensors: name, precision, shape, place.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from leaderboard.hub import cleaning

FIRST_BYTES = 100_000
"""Asked for at first: the whole head of most files."""
MAX_HEAD_BYTES = 25_000_000
MOST_HEADS = 32
"""Files of weights whose heads are all read; of more the Hub's count is taken where it fits."""
MOST_BYTES_OF_AN_ENTRY = 500
"""Of a tensor in a head: its name, precision, shape and place."""
MAX_FILE_BYTES = 2**50
MAX_PARAMETERS = 10**15
"""No count beyond it is believed; the largest models have some 10**12."""
MOST_DIMENSIONS = 16
FLOATS = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2}
"""Bytes of each number; whole numbers may be packed, so nothing is said of their size."""

BYTES = {**FLOATS, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "F8_E4M3": 1, "F8_E5M2": 1}
"""The same with those that packed weights are stored in."""

WHOLE = {"I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8}
"""Bits of whole numbers, which hold packed weights."""

OF_EXPERTS = re.compile(r"(^|\.)experts\.(?!.*(router|gate\.weight|bias_correction))")
"""In the name of a tensor; shared experts, which every token uses, are called otherwise."""

TABLE = re.compile(
    r"(transformer|model|gpt_neox|backbone)\.(decoder\.)?"
    r"(embed_tokens|wte|embed_in|word_embeddings|embeddings)\.weight"
)
"""The name of the table that a text is read by, in models of text alone."""

Read = Callable[[int], bytes]
"""The first so many bytes of a file, or fewer where it ends before."""


@dataclass(frozen=True)
class Weights:
    """`count` parameters, by safetensors' names of their precisions where known.

    None at all where the file is empty.
    """

    count: int
    by_dtype: Mapping[str, int]
    data_bytes: int = 0
    """What they take in their files, and"""
    head_bytes: int = 0
    """what their tables take before them; 0 where no head was read."""
    of_experts: int = 0
    """How many of them are of experts, of which each token uses some, by the names in the heads."""
    table_rows: int = 0
    """Of the table that a text is read by, by its name in the heads; 0 where none is told."""

    @property
    def file_bytes(self) -> int:
        """How long a file is that is whole, as its head says."""
        return self.head_bytes + self.data_bytes

    def fits(self, held: int, tensors: int) -> bool:
        """Whether files of so many bytes together, with so many tensors, hold what was counted."""
        if sum(self.by_dtype.values()) != self.count or not self.by_dtype.keys() <= BYTES.keys():
            return False
        stored = sum(BYTES[name] * n for name, n in self.by_dtype.items())
        return stored <= held <= stored + tensors * MOST_BYTES_OF_AN_ENTRY

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
        return Weights(0, {}, head_bytes=8)
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
    data_bytes = of_experts = table_rows = 0
    for name, tensor in table.items():
        if name == "__metadata__":
            continue
        size, end = _size(tensor), _end(tensor)
        if size is None or end is None:
            return None
        counts[tensor["dtype"]] += size
        data_bytes = max(data_bytes, end)
        of_experts += size if OF_EXPERTS.search(name) else 0
        if TABLE.fullmatch(name) and len(tensor["shape"]) == 2:
            table_rows = tensor["shape"][0]
    total = sum(counts.values())
    if not 0 < total <= MAX_PARAMETERS:
        return None
    return Weights(total, dict(counts), data_bytes, length + 8, of_experts, table_rows)


def together(parts: Iterable[Weights | None]) -> Weights | None:
    """Of several files; None where that of one is not known."""
    counts: Counter[str] = Counter()
    count = data_bytes = head_bytes = of_experts = table_rows = 0
    for part in parts:
        if part is None:
            return None
        counts.update(part.by_dtype)
        count += part.count
        data_bytes += part.data_bytes
        head_bytes += part.head_bytes
        of_experts += part.of_experts
        table_rows = max(table_rows, part.table_rows)
    return Weights(count, dict(counts), data_bytes, head_bytes, of_experts, table_rows)


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


def _end(tensor: object) -> int | None:
    """Where a tensor ends behind the head; None where its entry does not say."""
    place = tensor.get("data_offsets") if isinstance(tensor, dict) else None
    if not isinstance(place, list) or len(place) != 2:
        return None
    return cleaning.count(place[1], MAX_FILE_BYTES)


def from_index(index: dict[str, Any], dtype: str) -> Weights | None:
    """From the sum of bytes in an index of shards, where all are in this precision."""
    stored = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}.get(dtype, "")
    total = total_size(index)
    if not stored or total is None or total < FLOATS[stored]:
        return None
    count = total // FLOATS[stored]
    return Weights(count, {stored: count})


def total_size(index: dict[str, Any]) -> int | None:
    """The bytes of all tensors, as an index says; None where it says nothing that can be true."""
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    # Older writers wrote it as a decimal number. The comparison is false for NaN and Infinity too.
    if isinstance(total, float) and 0 <= total <= 4 * MAX_PARAMETERS:
        total = int(total)
    return cleaning.count(total, 4 * MAX_PARAMETERS)
