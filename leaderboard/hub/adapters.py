"""What the repository of an adapter says: which model it is put on, and whether it is whole.

That its weights fit this model is found by the worker's second process, which is confined (a
ModelError names what does not): what downloads both looks into neither.
"""

from __future__ import annotations

from evalcore.model.hf.bases import stated_base
from leaderboard.hub import cleaning, client, files, model_id
from leaderboard.hub.client import Repository
from leaderboard.hub.model_id import Asked
from leaderboard.web import Problem, Refused

# peft 0.21; a test compares them.
_IN_LAYERS = """
ADALORA ADAMSS ADAPTION_PROMPT BEFT BOFT C3A DEFT DELORA FOURIERFT FROD GLORA GRALORA HIRA HRA IA3
LILY LN_TUNING LOHA LOKR LORA MISS OFT OSF PEANUT POLY PSOFT PVERA RANDLORA ROAD SHADOW SHIRA
SUPERTUNING TINYLORA TRAINABLE_TOKENS UNILORA VBLORA VERA WAVEFT XLORA
"""
_PROMPTS = "CARTRIDGE CPT MULTITASK_PROMPT_TUNING PREFIX_TUNING PROMPT_TUNING P_TUNING"
IN_LAYERS, PROMPTS = frozenset(_IN_LAYERS.split()), frozenset(_PROMPTS.split())
"""Kinds of adapters: prompts are trained tokens before the text, and no layers."""


def problems_with(repository: Repository) -> list[Problem]:
    """What keeps an adapter from being put on anything."""
    repo_id, remedy = repository.repo_id, "Save it again with save_pretrained() of peft."
    if repository.adapter_config is None:
        code = "broken_config"
        message = (
            f"The {client.ADAPTER_CONFIG} of {repo_id} cannot be read: {repository.config_error}."
        )
    elif client.ADAPTER_WEIGHTS not in repository.files:
        code = "no_safetensors"
        message = f"{repo_id} is an adapter without {client.ADAPTER_WEIGHTS}."
    elif repository.weights is None or repository.weights.count < 1:
        code = "unknown_size"
        message = f"The {client.ADAPTER_WEIGHTS} of {repo_id} cannot be read, or holds no weights."
    elif (kind := cleaning.text(repository.adapter_config.get("peft_type"), 40)) in PROMPTS:
        code, remedy = "adapter_of_prompts", "Submit an adapter that lies in the model's layers."
        message = (
            f"{repo_id} is an adapter of the kind {kind}: tokens before the text, which are not "
            "evaluated."
        )
    elif kind not in IN_LAYERS:
        code = "unknown_adapter"
        message = (
            f"The {client.ADAPTER_CONFIG} of {repo_id} says peft_type: "
            f"{kind or 'nothing'}, and the installed peft knows no such kind."
        )
    else:
        return files.wrong_size(repository)
    return [Problem("model", code, message, remedy)]


def base_of(repository: Repository, typed: str) -> Asked:
    """The model that the adapter is put on: the one typed, else the one that it names.

    Raises Refused with one problem, of field `base`.
    """
    named = typed.strip() or stated_base(repository.adapter_config or {})
    if not named:
        raise Refused(_no_base(f"{repository.repo_id} does not say which model it is put on."))
    try:
        return model_id.read(named)
    except Refused as refused:
        if typed.strip():
            raise Refused(*of_base(refused.problems)) from None
        message = f"{repository.repo_id} was trained on “{named}”, which is no model on the Hub."
        raise Refused(_no_base(message)) from None


def is_another(repository: Repository, base: str) -> str:
    """What the adapter names as its base, where that is not called as `base` is."""
    named = stated_base(repository.adapter_config or {})
    name = named.partition("@")[0]
    return "" if name.rpartition("/")[2].lower() == base.rpartition("/")[2].lower() else name


def of_base(problems: tuple[Problem, ...] | list[Problem]) -> list[Problem]:
    """Problems of the model that an adapter is put on, at the field where it is named."""
    return [
        Problem("base", problem.code, problem.message, problem.remedy, problem.offers)
        for problem in problems
    ]


def _no_base(message: str) -> Problem:
    return Problem(
        "base", "no_base", message, "Give the model as in its address on the Hub: owner/name."
    )
