"""How a repository says that its weights are quantised, in a few words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, Protocol

LONGEST = 32
LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "bitsandbytes": ("bitsandbytes", "accelerate"),
    "torchao": ("torchao",),
    "gptq": ("gptqmodel", "optimum"),
    "awq": ("gptqmodel", "accelerate"),
    "compressed-tensors": ("compressed_tensors",),
}
"""The methods whose weights are computed as they are packed, each with what must be installed."""


def method_of(quantisation: str) -> str:
    """The method in the words of `quantisation_of` or `at_loading`."""
    return quantisation.partition(" ")[0]


def installed_methods() -> list[str]:
    """Those of LIBRARIES whose libraries are here; imports none of them. Whether this machine's
    processors can run them only loading tells."""
    return [
        method for method, needed in LIBRARIES.items() if all(find_spec(name) for name in needed)
    ]


def quantisation_of(config: Mapping[str, Any]) -> str | None:
    """Method and bits, such as "gptq 4-bit", from the content of a config.json.

    None where it has no `quantization_config`; of a model of text and images that of either.
    """
    stated = stated_in(config)
    if stated is None:
        return None
    bits = next(_bits(stated), None)
    method = stated.get("quant_method") or "unnamed"
    method = getattr(method, "value", method)  # of an initialised model it is an enumeration's
    # The word of a stranger, which goes into keys and a database.
    word = "".join(letter for letter in str(method) if letter.isprintable())
    return (f"{word} {bits}-bit" if bits else word)[:LONGEST]


class Loading(Protocol):
    """What of the `--model_args` decides how weights are quantised as they are loaded."""

    @property
    def load_in_8bit(self) -> bool: ...
    @property
    def load_in_4bit(self) -> bool: ...
    @property
    def bnb_4bit_quant_type(self) -> str | None: ...
    @property
    def bnb_4bit_use_double_quant(self) -> bool | None: ...
    @property
    def bnb_4bit_compute_dtype(self) -> str | None: ...


def at_loading(arguments: Loading) -> str | None:
    """The same of weights that are quantised as they are loaded, with all that decides how."""
    if arguments.load_in_8bit:
        return "bitsandbytes 8-bit at loading"
    if not arguments.load_in_4bit:
        return None
    kind = arguments.bnb_4bit_quant_type or "fp4"
    twice = " double" if arguments.bnb_4bit_use_double_quant else ""
    computed = arguments.bnb_4bit_compute_dtype or "float32"
    return f"bitsandbytes 4-bit {kind}{twice} {computed} at loading"


def stated_in(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The `quantization_config` of a config.json, or of its part for texts."""
    for place in (config, config.get("text_config")):
        if isinstance(place, Mapping) and isinstance(place.get("quantization_config"), Mapping):
            return dict(place["quantization_config"])
    return None


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
