"""How a repository says that its weights are quantised, in a few words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

LONGEST = 32


def quantisation_of(config: Mapping[str, Any]) -> str | None:
    """Method and bits, such as "gptq 4-bit", from the content of a config.json.

    None where it has no `quantization_config`; of a model of text and images that of either.
    """
    stated = next(_stated(config), None)
    if stated is None:
        return None
    bits = next(_bits(stated), None)
    method = stated.get("quant_method") or "unnamed"
    method = getattr(method, "value", method)  # of an initialised model it is an enumeration's
    # The word of a stranger, which goes into keys and a database.
    word = "".join(letter for letter in str(method) if letter.isprintable())
    return (f"{word} {bits}-bit" if bits else word)[:LONGEST]


def _stated(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for place in (config, config.get("text_config")):
        if isinstance(place, Mapping) and isinstance(place.get("quantization_config"), Mapping):
            yield place["quantization_config"]


def _bits(stated: Mapping[str, Any]) -> Iterator[int]:
    """Of the weights, as the methods each say it; bitsandbytes has a switch for each number."""
    yield from (bits for bits in (4, 8) if stated.get(f"load_in_{bits}bit") is True)
    groups = stated.get("config_groups")  # compressed-tensors
    for group in groups.values() if isinstance(groups, Mapping) else ():
        if isinstance(group, Mapping) and isinstance(group.get("weights"), Mapping):
            yield from _bits(group["weights"])
    for name in ("bits", "w_bit", "num_bits"):
        if type(bits := stated.get(name)) is int and 0 < bits <= 64:
            yield bits
