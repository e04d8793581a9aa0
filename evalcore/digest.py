"""One way to turn a value into a digest, so that equal things have equal keys everywhere."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def digest_of(value: Any) -> str:
    """SHA-256 (hex) of its canonical JSON: sorted keys, no spaces.

    Raises TypeError for what JSON cannot hold.
    """
    canonical = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


def digest_of_bytes(raw: bytes) -> str:
    """SHA-256 (hex) of bytes as they are."""
    return hashlib.sha256(raw).hexdigest()


def digest_of_file(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def without_half_characters(text: str) -> str:
    """The text as UTF-8 can hold it: surrogates that make a pair become their character, one that
    stands alone becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
