"""A model behind a server: how its backend begins, and what its records call it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from evalcore.errors import ModelError
from evalcore.model.base import ModelInfo
from evalcore.model.servers.arguments import Arguments
from evalcore.model.servers.client import OPENAI, Dialect
from evalcore.model.servers.secret import Secret
from evalcore.model.servers.served import Served, Service, meet, service_of

UNKNOWN_LENGTH = 2**31 - 1

NOT_MET = Served(window=None, is_vllm=False, facts={"url": "not asked"})


def key_of(variable: str, backend: str, *, needed: bool, header: str = "Authorization") -> Secret:
    """The key of a service, sent in `header`. Raises ModelError where it is needed and there is
    none."""
    secret = Secret.of(variable, header)
    if needed and not secret.value:
        raise ModelError(f"{backend} needs a key: set the variable {variable}")
    return secret


def started(
    arguments: Arguments,
    url: str,
    secret: Secret,
    example: str,
    *,
    meets: bool,
    dialect: Dialect = OPENAI,
) -> tuple[Service, Served]:
    """The server, and what it says of itself where it is met. Raises as `service_at` and `meet`."""
    service = service_at(arguments, url, secret, example, dialect)
    return service, meet(service) if meets else NOT_MET


def service_at(
    arguments: Arguments, url: str, secret: Secret, example: str, dialect: Dialect = OPENAI
) -> Service:
    """Raises ModelError for an address that is missing, or of something else than `example`."""
    ending = urlsplit(example).path.removeprefix("/v1")
    if not url:
        raise ModelError(
            f"--model_args: missing argument 'base_url': the address in full, such as {example}"
        )
    if not url.partition("?")[0].endswith(ending):
        raise ModelError(
            f"--model_args: base_url: expected an address in full, such as {example}, got {url}"
        )
    return service_of(arguments, url, secret, dialect)


def info_of(
    backend: str, arguments: Arguments, served: Served, pins: dict[str, Any] | None = None
) -> ModelInfo:
    """Nothing of it can be pinned; what the server says of itself stands for that.

    `pins`: what is known of how it reads, where a tokenizer is at hand.
    """
    unread = {
        "max_length": served.window or UNKNOWN_LENGTH,
        "tokenizer_digest": "unknown",
        "bos_policy": "unknown",
        "prefix_token": 0,
    }
    return ModelInfo(
        repository=arguments.model,
        commit=None,
        files_digest=None,
        architecture="unknown",
        parameters=0,
        dtype="unknown",
        softmax_dtype="unknown",
        device="server",
        arguments=arguments.as_json(),
        service={"interface": backend, **served.facts},
        **(unread if pins is None else pins),
    )
