"""A model on a server, as the server itself tells of it: name, version, length of prompts."""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2

from evalcore.errors import ModelError, did_you_mean
from evalcore.model.servers.arguments import Arguments
from evalcore.model.servers.budget import Budget, budget_of
from evalcore.model.servers.client import (
    OPENAI,
    Broken,
    Client,
    Dialect,
    Limits,
    Malformed,
    Read,
    ReadAt,
    Refused,
    host_of,
)
from evalcore.model.servers.secret import Secret

T = TypeVar("T")

ABSENT = frozenset([404, 405, 501])
"""Statuses of an address that a server does not have."""


@dataclass
class Service:
    """One interface of a server, and the model that is asked through it."""

    client: Client
    url: str
    """Where answers are asked for."""
    model: str
    budget: Budget = field(default_factory=Budget)
    dialect: Dialect = OPENAI
    seen: Counter[str] = field(default_factory=Counter)
    """What the answers said that they are of: model and fingerprint, and how often."""

    @property
    def execution(self) -> dict[str, Any]:
        """For the record: what the answers named, how many requests were sent again, and what
        the run has used so far."""
        used = self.budget.as_json()
        return {"answered_by": dict(self.seen), "retried": self.client.retried, "used": used}

    def beside(self, name: str) -> str:
        """Another address of the same interface, such as that of its list of models."""
        return self._at(f"{self._before}{name}")

    def at_root(self, name: str) -> str:
        """An address of the server itself, where it has some besides the interface."""
        return self._at(f"{self._before.removesuffix('v1/')}{name}")

    def _at(self, path: str) -> str:
        """With the same host and query, which may name a version of the interface."""
        return str(httpx2.URL(self.url).copy_with(path=path))

    @property
    def _before(self) -> str:
        """The path up to the interface's own name of what is asked."""
        path = httpx2.URL(self.url).path
        if path.endswith("/generate"):  # SGLang's own, which has the lists of OpenAI's beside it
            return f"{path.removesuffix('generate')}v1/"
        known = ("chat/completions", "completions", "messages", "")
        return path.removesuffix(next(name for name in known if path.endswith(name)))

    def said(self, url: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer of an address that not every server has; empty where it has not, or where
        that one alone is broken, as what is asked next will tell."""
        try:
            return self.client.ask(url, body, _object)
        except Broken:
            return {}
        except Refused as refused:
            if refused.status in ABSENT:
                return {}
            raise

    def ask(self, body: Mapping[str, Any], read: Read[T]) -> T:
        packs = self.ask_all([body], lambda _, answer: read(answer))
        ((_, answer),) = (found for pack in packs for found in pack)
        return answer

    def ask_all(
        self, bodies: Iterable[Mapping[str, Any]], read: ReadAt[T]
    ) -> Iterator[list[tuple[int, T]]]:
        """Raises as the client does; that the model is named is our doing."""

        def noted(place: int, answer: Any) -> T:
            found = read(place, _object(answer))
            of = [str(answer[name]) for name in ("model", "system_fingerprint") if answer.get(name)]
            self.seen[" ".join(of)] += 1
            return found

        named = ({"model": self.model, **body} for body in bodies)
        return self.client.ask_all(self.url, named, noted, self.budget, self.dialect)


@dataclass(frozen=True, kw_only=True)
class Served:
    """What a server says of itself and of the model."""

    window: int | None
    """Tokens of prompt and answer together; None where it does not say."""
    is_vllm: bool
    facts: Mapping[str, Any]
    """For the record."""


def service_of(
    arguments: Arguments, url: str, secret: Secret, dialect: Dialect = OPENAI
) -> Service:
    """Raises ModelError for certificates that cannot be read."""
    # Made once, since it reads all authorities; without encryption there is nothing to certify.
    verify: bool | ssl.SSLContext = url.startswith("https:") and arguments.verify_certificate
    if verify:
        try:
            verify = ssl.create_default_context(cafile=arguments.ca_cert_path)
        except OSError as problem:
            raise ModelError(
                f"--model_args: ca_cert_path: {arguments.ca_cert_path} cannot be read: {problem}"
            ) from problem
    limits = Limits(
        num_concurrent=arguments.num_concurrent,
        max_retries=arguments.max_retries,
        timeout=arguments.timeout,
    )
    client = Client(limits, secret, headers=arguments.header, verify=verify)
    budget = budget_of(
        arguments.model,
        max_requests=arguments.max_requests,
        max_total_tokens=arguments.max_total_tokens,
        max_cost=arguments.max_cost,
        prices=arguments.prices,
    )
    return Service(client, url, arguments.model, budget, dialect)


def meet(service: Service) -> Served:
    """Asks a server who it is. Raises InfraError where it is down, and ModelError where it wants
    another key or does not have the model."""
    models = service.said(service.beside("models"))
    entry = _entry(service, models)
    about = "get_server_info" if entry.get("owned_by") == "sglang" else "version"
    version = service.said(service.at_root(about)).get("version")
    properties = {} if version else service.said(service.at_root("props"))
    facts = {
        "url": host_of(service.url),
        "model": service.model,
        "version": version or properties.get("build_info"),
        "root": entry.get("root"),
        "owned_by": entry.get("owned_by"),
    }
    window = entry.get("max_model_len")
    own = properties.get("default_generation_settings")
    if window is None and isinstance(own, Mapping):
        window = own.get("n_ctx")
    return Served(
        window=window if isinstance(window, int) and window > 0 else None,
        is_vllm=entry.get("owned_by") == "vllm",
        facts={name: str(fact) for name, fact in facts.items() if fact is not None},
    )


def named(service: Service, *, asked: bool) -> Served:
    """Of a service that says nothing of itself but in its answers."""
    facts = {"url": host_of(service.url) if asked else "not asked", "model": service.model}
    return Served(window=None, is_vllm=False, facts=facts)


def _entry(service: Service, models: Mapping[str, Any]) -> Mapping[str, Any]:
    """The model in the server's list; empty where it has none."""
    listed = models.get("data")
    if not isinstance(listed, list):
        return {}
    by_name = {str(entry.get("id")): entry for entry in listed if isinstance(entry, Mapping)}
    if service.model not in by_name and by_name:
        shown = ", ".join(list(by_name)[:5])
        raise ModelError(
            f"--model_args: model: {host_of(service.url)} has no model {service.model!r}"
            f"{did_you_mean(service.model, by_name)}: it has {shown}"
        )
    return by_name.get(service.model, {})


def _object(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise Malformed("it is no JSON object")
    return answer


def choices_of(answer: Mapping[str, Any], count: int) -> list[Mapping[str, Any]]:
    """The answers to the prompts of one request, in their order. Raises Malformed."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not all(isinstance(part, dict) for part in choices):
        raise Malformed("it has no choices")
    if len(choices) != count:
        raise Malformed(f"it has {len(choices)} choices for {count} prompts")
    places = [choice.get("index", 0 if count == 1 else None) for choice in choices]
    if set(places) != set(range(count)):
        raise Malformed(f"its {count} choices are numbered {places}")
    return sorted(choices, key=lambda choice: int(choice.get("index", 0)))


def prompt_tokens_of(answer: Mapping[str, Any]) -> int | None:
    """How many tokens the server read; None where it does not say."""
    usage = answer.get("usage")
    count = usage.get("prompt_tokens") if isinstance(usage, Mapping) else None
    return count if isinstance(count, int) else None
