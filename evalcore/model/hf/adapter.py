"""An adapter over a model: every weight of it is used, none is made up, and it changes something.

The layers and weights are put in as `PeftModel.from_pretrained` does it, which is what
lm-evaluation-harness calls: transformers' own `load_adapter` leaves DoRA's magnitudes as they were
initialised, and neither says a word about weights under other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig, PeftModel, set_peft_model_state_dict
from safetensors.torch import load_file
from torch import Tensor

from evalcore.errors import ModelError
from evalcore.model.base import Mode
from evalcore.model.forward.logits import logits_at
from evalcore.model.hf.bases import stated_base
from evalcore.model.hf.repository import ADAPTER as WEIGHTS
from evalcore.model.hf.repository import ADAPTER_CONFIGURATION as CONFIGURATION
from evalcore.model.hf.snapshot import Files
from evalcore.model.hf.width import check_filled, resize, width_of

NAME, PREFIX = "default", "base_model.model."
"""Under which its layers stand in the model, and with what their names in its file begin."""

OTHER_SHAPE = re.compile(
    r"size mismatch for (\S+): copying a param with shape torch\.Size\(\[([\d, ]*)\]\) from "
    r"checkpoint, the shape in current model is torch\.Size\(\[([\d, ]*)\]\)"
)
"""How torch says so: the weight, its shape in the file and in the model."""

TWICE = ".modules_to_save.weight"
"""With what the name of a table ends that peft writes a second time where tokens were added."""

PLACES, OWN_TOKENS = 16, 16
"""Tokens of the row that is asked with and without it: some of all, and of those that each of its
tables says something about."""

ROUNDING, ROUNDING_HALF = 1e-4, 1e-1
"""Share of the largest logit by which magnitudes that change nothing may move it all the same: DoRA
divides by a norm and multiplies by it again."""


def check_fits(skeleton: Any, files: Files, *, tokens: int, mode: Mode) -> int | None:
    """How many tokens the model's tables are to have; None where they stay as they are.

    Raises ModelError for an adapter whose layers, weights or tables are not those of the model, of
    which the skeleton is enough: before the model's own weights are downloaded. Alters the
    skeleton. `tokens`: how many the tokenizer makes.
    """
    assert files.adapter is not None  # noqa: S101  # whoever asks has one
    name = files.adapter.name
    config, weights = _read(files.adapter.folder, name)
    if isinstance(getattr(config, "init_lora_weights", None), str):
        config.init_lora_weights = True  # others are made of weights, of which there are none
    width = width_of(skeleton, weights, files, tokens=tokens, mode=mode)
    if width is not None:
        resize(skeleton, width)
    meta = {key: weight.to("meta") for key, weight in weights.items()}
    _wrapped(skeleton, config, meta, name)
    return width


def put_on(model: Any, folder: Path, name: str, width: int | None = None) -> None:
    """Puts the adapter in `folder` into the model's layers, where the model is, and gives its
    tables `width` rows.

    Raises ModelError, with names, for weights that are missing or left over, and for an adapter
    that changes no logit; `name` is the adapter's in messages. What peft and torch raise for files
    that they cannot read passes.
    """
    config, weights = _read(folder, name)
    rows = len(model.get_input_embeddings().weight)
    kept = rows if width is None else min(rows, width)
    tokens = [t for t in _telling_tokens(model, config, weights, width) if t < kept]
    without = _logits(model, tokens)
    if width is not None:
        resize(model, width)
    wrapped = _wrapped(model, config, weights, name)
    having = _logits(model, tokens)
    if having.shape[-1] > rows:
        check_filled(model, having, rows, name)
    if not torch.equal(having, _logits(wrapped, tokens)):
        raise _not_of_layers(name, config)
    _check_effective(name, without, having, weights)


def _read(folder: Path, name: str) -> tuple[Any, dict[str, Tensor]]:
    """Configuration and weights, these under their names in a model with the adapter."""
    if not (folder / WEIGHTS).is_file():
        raise ModelError(f"{name} has no {WEIGHTS}: publish it with save_pretrained")
    config = PeftConfig.from_pretrained(str(folder))
    config.inference_mode = True
    if config.is_prompt_learning:
        raise _not_of_layers(name, config)
    weights = {
        f"{PREFIX}{key.removeprefix(PREFIX)}": weight
        for key, weight in load_file(folder / WEIGHTS).items()
    }
    for key in [key for key in weights if key.endswith(TWICE)]:
        of_module = weights.get(key.replace(TWICE, ".weight"))
        if of_module is not None and torch.equal(weights[key], of_module):
            del weights[key]
    return config, weights


def _wrapped(model: Any, config: Any, weights: Mapping[str, Tensor], name: str) -> Any:
    """The model with the adapter's layers and weights in it, all of which are its file's."""
    known = {id(tensor) for tensor in model.state_dict(keep_vars=True).values()}
    try:
        wrapped: Any = PeftModel(model, config, adapter_name=NAME)
    except ValueError as problem:  # layers that the model does not have, or of another kind
        reason = " ".join(str(problem).split()).partition(". ")[0].rstrip(".")
        raise _does_not_fit(name, config, [reason]) from problem
    expected = {
        key: tensor
        for key, tensor in wrapped.state_dict(keep_vars=True).items()
        if id(tensor) not in known or _is_trained_bias(config, key)
    }
    try:
        left: Any = set_peft_model_state_dict(wrapped, dict(weights), adapter_name=NAME)
    except KeyError as problem:  # of a module that is saved whole
        said = f"its file lacks {_some([str(problem.args[0])])}, which {CONFIGURATION} asks for"
        raise _does_not_fit(name, config, [said]) from problem
    except RuntimeError as problem:
        if not (shapes := OTHER_SHAPE.findall(str(problem))):
            raise
        key, own, models = shapes[0]
        said = (
            f"{len(shapes)} weights of its file have other shapes than the model's, such as "
            f"{_some([key])} ({own}, where the model has {models})"
        )
        raise _does_not_fit(name, config, [said]) from problem
    _check_complete(name, config, expected, left.missing_keys, left.unexpected_keys)
    return wrapped


def _does_not_fit(name: str, config: Any, problems: Sequence[str]) -> ModelError:
    base = stated_base(vars(config))
    return ModelError(
        f"{name} does not fit the model: {'; '.join(problems)}: give the model that it was trained "
        f"on{f' ({base})' if base else ''} as pretrained, or publish it again with save_pretrained"
    )


def _not_of_layers(name: str, config: Any) -> ModelError:
    return ModelError(
        f"{name} is an adapter of the kind {config.peft_type.value}, which does not lie in the "
        "model's layers alone: merge it into its model and evaluate that"
    )


def _is_trained_bias(config: Any, key: str) -> bool:
    """Whether it is a bias of the model itself that the adapter has trained and must bring."""
    kind = getattr(config, "bias", "none")
    if not key.endswith("bias") or not isinstance(kind, str):
        return False
    return kind == "all" or (kind.endswith("_only") and key.endswith("base_layer.bias"))


def _check_complete(
    name: str,
    config: Any,
    expected: Mapping[str, Tensor],
    missing: Iterable[str],
    unexpected: Sequence[str],
) -> None:
    """A tensor that stands under two names (tied tables) is there if one of them was found."""
    absent = set(missing)
    found = {id(tensor) for key, tensor in expected.items() if key not in absent}
    lacking = sorted(
        key for key, tensor in expected.items() if key in absent and id(tensor) not in found
    )
    problems = []
    if lacking:
        problems.append(
            f"its file lacks {len(lacking)} weights that {CONFIGURATION} asks for, "
            f"such as {_some(lacking)}"
        )
    if unexpected:
        problems.append(
            f"{len(unexpected)} weights of its file have no place in the model, "
            f"such as {_some(sorted(unexpected))}"
        )
    if problems:
        raise _does_not_fit(name, config, problems)


def _some(names: Sequence[str]) -> str:
    return ", ".join(name.removeprefix(PREFIX).replace(f".{NAME}", "") for name in names[:3])


def _check_effective(
    name: str, without: Tensor, having: Tensor, weights: Mapping[str, Tensor]
) -> None:
    """Of tokens that the model has with and without it; those that it adds may be all it changes,
    but for a LoRA beside them that was not trained."""
    both = min(without.shape[-1], having.shape[-1])
    changed = float((having[..., :both] - without[..., :both]).abs().max())
    least = 0.0
    trained = any(weight.any() for key, weight in weights.items() if _is_update(key))
    if having.shape[-1] > both:
        updates = [weight for key, weight in weights.items() if "lora_" in key and _is_update(key)]
        if not updates or any(weight.any() for weight in updates):
            return
    if not trained:
        share = ROUNDING if without.dtype == torch.float32 else ROUNDING_HALF
        least = share * float(without.abs().max())
    if changed <= least:
        raise ModelError(
            f"{name} changes no logit of the model, as a LoRA whose B matrices are zero does: "
            "publish the adapter after its training, or evaluate the model without it"
        )


def _is_update(key: str) -> bool:
    """Whether a weight of an adapter, where it is not zero, changes something by itself."""
    return "lora_A" not in key and not key.endswith("lora_magnitude_vector")


def _telling_tokens(
    model: Any, config: Any, weights: Mapping[str, Tensor], width: int | None
) -> list[int]:
    """Tokens to ask about: some from the whole vocabulary, and of those that the adapter's own
    tables name, which may be a few of a hundred thousand. `width`: how long these tables are."""
    table = model.get_input_embeddings().weight
    size = len(table)
    tokens = [*range(0, size, max(1, size // PLACES))][:PLACES]
    named = getattr(config, "trainable_token_indices", None) or []
    for indices in named.values() if isinstance(named, Mapping) else [named]:
        tokens += [token for token in indices[:OWN_TOKENS] if 0 <= token < size]
    for weight in weights.values():
        length = next((n for n in (width, size) if n in weight.shape), None)
        if weight.dim() != 2 or length is None:
            continue
        rows = (weight if len(weight) == length else weight.T)[:size]
        if rows.shape[1] == table.shape[1]:
            rows = rows.to(table.device, table.dtype) - table.detach()[: len(rows)]
        tokens += rows.any(dim=1).nonzero()[:OWN_TOKENS, 0].tolist()
    return tokens


@torch.inference_mode()
def _logits(model: Any, tokens: Sequence[int]) -> Tensor:
    """What the model says after each token of the row, shape (tokens, vocabulary)."""
    model.eval()
    row = torch.tensor([tokens], device=model.get_input_embeddings().weight.device)
    logits: Tensor = logits_at(model, row, torch.arange(len(tokens), device=row.device))
    return logits
