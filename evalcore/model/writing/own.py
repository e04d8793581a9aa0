"""Code of a model's own that may decide its texts, besides what one forward pass says.

`continuous.py` computes a text's next tokens by passes of its own, which are held against the
model's plain pass over a whole text. A `generate` of the model's own is no part of that pass, and
what acts on the prompt alone, or on each step otherwise, gives another text than that pass says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from torch.nn.modules import module as of_all
from transformers import GenerationMixin

LIBRARIES = frozenset(
    ["transformers", "torch", "accelerate", "peft", "bitsandbytes", "torchao", "evalcore"]
)
"""What they do to a model is tried in the checks of each way of computing."""

DECIDE = (
    *("_sample", "_beam_search", "_prefill", "_get_logits_processor", "_get_stopping_criteria"),
    *("_prepare_generation_config", "_prepare_special_tokens"),
)
"""Methods of transformers that its `generate` calls, and that decide a text."""


def own_generate(model: Any) -> str | None:
    """Says that the model writes by a method of its own; None where it does not."""
    if not _is_own(model.generate):
        return None
    return f"it has a `generate` of its own, in {_home(model.generate)}"


def acts_on_steps(model: Any) -> str | None:
    """Says what code of others acts on its passes, and may act on the prompt's alone; None where
    nothing does."""
    for name in DECIDE:
        if _is_own(getattr(model, name, None)):
            return f"it has a method `{name}` of its own"
    generate = getattr(model.generate, "__func__", model.generate)
    if generate is not GenerationMixin.generate and _top(_home(generate)) == "transformers":
        return f"{type(model).__name__} has another `generate` than other models of transformers"
    everywhere = (of_all._global_forward_hooks, of_all._global_forward_pre_hooks)
    if any(_is_own(hook) for hooks in everywhere for hook in hooks.values()):
        return "a hook acts on all modules"
    for name, module in model.named_modules():
        place = name or "the model itself"
        if any(map(_is_own, _hooks_of(module))):
            return f"a hook acts on {place}"
        if _is_own(vars(module).get("forward")):
            return f"another function stands for what {place} computes"
    return None


def has_own_layers(model: Any) -> bool:
    """Whether classes that no library has compute it, which may tell a prompt from a step."""
    return any(_top(type(module).__module__) not in LIBRARIES for module in model.modules())


def _hooks_of(module: Any) -> Iterator[Any]:
    hooked: Iterable[dict[int, Any]] = (module._forward_hooks, module._forward_pre_hooks)
    for hooks in hooked:
        yield from hooks.values()


def _is_own(function: Any) -> bool:
    return function is not None and _top(_home(function)) not in LIBRARIES


def _home(function: Any) -> str:
    """The module in which a function was written."""
    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    return str(getattr(function, "__module__", None) or type(function).__module__)


def _top(module: str) -> str:
    return module.partition(".")[0]
