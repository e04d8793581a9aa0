"""Models that the library litellm can ask: `litellm`, of the extra `plumbline[litellm]`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import httpx2

from evalcore.errors import ModelError
from evalcore.model.servers.arguments import Arguments
from evalcore.model.servers.chat import LocalChatCompletions
from evalcore.model.servers.client import Through
from evalcore.model.servers.secret import Secret
from evalcore.model.servers.served import Served, Service, named, service_of
from evalcore.model.servers.writing import OF_OPENAI


class LiteLLM(LocalChatCompletions):
    """A model by litellm's name of it (`PROVIDER/NAME`), with our limits, retries and budget."""

    known = OF_OPENAI | {"top_k", "reasoning_effort"}
    capabilities = replace(
        LocalChatCompletions.capabilities,
        backend="litellm",
        why_not="it says nothing of the tokens of a prompt",
    )

    def _met(self, arguments: Arguments, *, meets: bool) -> tuple[Service, Served]:
        """Raises ModelError where it is not installed, or does not know the provider."""
        library = _library()
        provider = _provider(library, arguments.model)
        secret = Secret.of(f"{provider.upper()}_API_KEY")
        service = service_of(arguments, f"litellm://{provider.replace('_', '-')}", secret)
        service.client.through = _through(library, arguments)
        served = named(service, asked=meets)
        facts = {**served.facts, "version": f"litellm {metadata.version('litellm')}"}
        if arguments.base_url:
            facts["base_url"] = arguments.base_url
        return service, replace(served, facts=facts)


def _library() -> Any:
    if find_spec("litellm") is None:
        raise ModelError(
            "--model litellm needs the library litellm, which is not installed: "
            "pip install 'plumbline[litellm]'"
        )
    # Or it downloads a list of prices when it is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    return litellm


def _provider(library: Any, model: str) -> str:
    try:
        return str(library.get_llm_provider(model)[1])
    except library.exceptions.BadRequestError:
        raise ModelError(
            f"--model_args: model: litellm knows no provider of {model!r}: expected "
            "PROVIDER/NAME, such as openai/gpt-4.1"
        ) from None


def _through(library: Any, arguments: Arguments) -> Through:
    """Asks once, with nothing left out: what it would do again or drop is decided here."""

    async def asked(body: Mapping[str, Any]) -> httpx2.Response:
        stated: dict[str, Any] = {"timeout": arguments.timeout, "max_retries": 0, "num_retries": 0}
        if arguments.base_url:
            stated["api_base"] = arguments.base_url
        if arguments.header:
            stated["extra_headers"] = dict(arguments.header)
        try:
            answer = await library.acompletion(**body, **stated, drop_params=False)
        except Exception as problem:
            status = getattr(problem, "status_code", None)
            if not isinstance(status, int):
                raise
            own = getattr(getattr(problem, "response", None), "headers", None) or {}
            waits = {"retry-after": own["retry-after"]} if "retry-after" in own else {}
            said = getattr(problem, "message", None) or str(problem)
            return httpx2.Response(status, json={"error": {"message": said}}, headers=waits)
        return httpx2.Response(200, json=answer.model_dump(mode="json"))

    return asked
