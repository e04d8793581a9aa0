"""What the repository of an adapter says: which model it is put on, and whether it is whole.

That its weights fit this model is found by the worker's second process, which is confined (a
ModelError names what does not): what downloads both looks into neither.
"""

from __future__ import annotations

from evalcore.model.hf.bases import stated_base
from leaderboard.hub import client, files, model_id
from leaderboard.hub.client import Repository
from leaderboard.hub.model_id import Asked
from leaderboard.web import Problem, Refused


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
