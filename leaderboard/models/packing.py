"""Weights that are packed as they are loaded: what the form offers, and how the engine is asked.

What each choice is called in records is asked of the engine, so that the two cannot differ.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from django.db import models

from evalcore.model.hf.quantisation import at_loading
from leaderboard.models.variant import weight_bytes


class Packing(models.TextChoices):
    EIGHT_BITS = "8bit", "8 bits, packed when loaded"
    FOUR_BITS = "4bit", "4 bits (nf4), packed when loaded"


@dataclass(frozen=True, kw_only=True)
class _Loading:
    """The `--model_args` by which weights are packed, by their names."""

    load_in_8bit: bool = False
    load_in_4bit: bool = False
    bnb_4bit_quant_type: str | None = None
    bnb_4bit_use_double_quant: bool | None = None
    bnb_4bit_compute_dtype: str | None = None


def _loading(packing: str, dtype: str) -> _Loading:
    if packing == Packing.EIGHT_BITS:
        return _Loading(load_in_8bit=True)
    if packing == Packing.FOUR_BITS:
        return _Loading(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    return _Loading()


def arguments_of(packing: str, dtype: str) -> dict[str, str]:
    """The `--model_args` that pack a model so; none for weights that are left as they are."""
    return {name: str(value) for name, value in asdict(_loading(packing, dtype)).items() if value}


def quantisation_by(packing: str, dtype: str) -> str:
    """What the engine says of weights that are packed so; empty for weights as they are."""
    return at_loading(_loading(packing, dtype)) or ""


def packing_of(quantisation: str, dtype: str) -> str:
    """The choice behind a variant's quantisation; empty where its weights are taken as stored."""
    by_word = {quantisation_by(packing, dtype): packing for packing in Packing.values}
    return by_word.get(quantisation, "")


def packed_bytes(packing: str, dtype: str, parameters: int, of_tables: int) -> int:
    """Bytes of a model that is packed so: its linear layers packed, its tables of tokens not.

    `of_tables` of its parameters are such tables. Four bits have one number more, in float32, for
    each block of 64 (Dettmers et al. 2023, QLoRA, section 3).
    """
    each = {Packing.EIGHT_BITS: 1.0, Packing.FOUR_BITS: 0.5 + 4 / 64}[Packing(packing)]
    tables = min(of_tables, parameters)
    return int((parameters - tables) * each) + weight_bytes(tables, dtype)
