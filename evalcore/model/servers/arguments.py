"""The `--model_args` of models behind servers: which there are, and what each may be.

The names are lm-evaluation-harness's. What of its own is not here says why, or what does it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from evalcore import values
from evalcore.errors import ModelError, did_you_mean
from evalcore.model.hf.arguments import TYPES as OF_HF
from evalcore.model.hf.arguments import mapping

NOT_TAKEN = {
    "auth_token": "a key stands in the environment alone",
    "api_key": "a key stands in the environment alone",
    "batch_size": "the option --batch_size says how many prompts a request has",
    "truncate": "a prompt that is too long is always cut from the left",
    "max_images": "models are asked with text alone",
    "thinking_budget": "a server ends thoughts by itself: --gen_kwargs thinking_token_budget=N "
    "tells one that can",
}
"""What lm-evaluation-harness takes and this engine does not."""

FOR_TOKENS = (
    "tokenizer",
    "use_fast_tokenizer",
    "add_bos_token",
    "custom_prefix_token_id",
    "max_length",
    "enable_thinking",
    "chat_template_args",
)
"""Arguments without meaning where a server reads messages by itself."""

SECRET_NAME = re.compile(r"auth|key|token|secret|password|cookie|sig(nature)?$", re.IGNORECASE)
"""Names of headers and of parts of an address that hold what nobody may read."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What is stated of a model behind a server (docs/models.md lists them)."""

    model: str
    """Its name on the server."""
    base_url: str = ""
    """The address that completions are asked of, in full."""
    tokenizer: str | None = None
    """Repository or folder of the tokenizer; by default the one that the model is named by."""
    tokenizer_backend: str = "auto"
    """huggingface, or none: texts are sent, and nobody here knows their tokens."""
    tokenized_requests: bool = True
    """Whether prompts are sent as token ids, else as texts."""
    revision: str = "main"
    """Of the tokenizer."""
    use_fast_tokenizer: bool = True
    trust_remote_code: bool = False
    add_bos_token: bool | None = None
    custom_prefix_token_id: int | None = None
    max_length: int | None = None
    """Tokens of prompt and answer together; by default what the server says."""
    max_gen_toks: int | None = None
    """Tokens of an answer where a task does not say how many."""
    eos_string: str | None = None
    """How the model writes the end of a text; by default as the tokenizer says."""
    think_end_token: str | None = None
    enable_thinking: bool | None = None
    chat_template_args: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    """Of sampled answers, in the place of the command's."""
    num_concurrent: int = 1
    max_retries: int = 3
    timeout: float = 300.0
    header: Mapping[str, str] = field(default_factory=dict)
    verify_certificate: bool = True
    ca_cert_path: str | None = None
    max_requests: int | None = None
    max_total_tokens: int | None = None
    """Read and written, of the whole run."""
    max_cost: float | None = None
    prices: str | None = None
    """A file with the prices of models."""

    @classmethod
    def of(cls, given: Mapping[str, Any], *, messages: bool = False) -> Arguments:
        """Typed from the command line's texts; raises ModelError naming every wrong one.

        `messages`: of a server that is sent conversations.
        """
        return cls(**_values_of(given, messages=messages))

    @property
    def reads_tokens(self) -> bool:
        """Whether a tokenizer is at hand."""
        return self.tokenizer_backend != "none"

    def as_json(self) -> dict[str, Any]:
        """What differs from the defaults and may change a number, and the name of the model."""
        handling = (
            "num_concurrent", "max_retries", "timeout", "header", "verify_certificate",
            "ca_cert_path", "trust_remote_code", "base_url", "max_requests", "max_total_tokens",
            "max_cost", "prices",
        )  # fmt: skip
        default = asdict(Arguments(model=""))
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in handling and value != default[name]
        }


def _values_of(given: Mapping[str, Any], *, messages: bool) -> dict[str, Any]:
    problems, found = [], {}
    if "pretrained" in given and "model" in given:
        problems.append("pretrained and model are the same argument: give one of them")
    for stated_name, stated in given.items():
        name = "model" if stated_name == "pretrained" else stated_name
        if stated in (None, "None") and name != "tokenizer_backend":
            continue
        if name not in TYPES:
            # The value may be a key, which no message shows.
            problems.append(_unknown(name))
            continue
        try:
            found[name] = TYPES[name](stated)
        except ValueError as problem:
            problems.append(f"{name}: {_expectation(problem, stated)}")
    if not found.get("model"):
        problems.append("missing argument 'model': the model's name on the server")
    problems += _about(found, messages)
    if problems:
        raise ModelError(f"--model_args: {'; '.join(problems)}")
    return found


def _about(found: Mapping[str, Any], messages: bool) -> Iterator[str]:
    """What is wrong with values that are each well formed."""
    if messages:
        for name in FOR_TOKENS:
            if name in found:
                yield (
                    f"{name} is not taken: the server is sent messages, which it reads by its own "
                    "tokenizer and template: leave it out"
                )
        if found.get("tokenized_requests") or found.get("tokenizer_backend") == "huggingface":
            yield "tokenized_requests: messages are no tokens: leave it out"
    elif found.get("tokenizer_backend") == "none":
        if found.get("tokenized_requests"):
            yield "tokenized_requests=True needs a tokenizer: leave tokenizer_backend=None out"
        for name in FOR_TOKENS:
            if name in found and name != "max_length":
                yield f"{name} needs a tokenizer: leave tokenizer_backend=None out"
    if found.get("enable_thinking") and found.get("think_end_token") is None:
        yield "enable_thinking needs think_end_token, the text at which the thinking ends"
    if found.get("trust_remote_code"):
        yield "trust_remote_code: code from a repository is never run: leave it out"


def _unknown(name: str) -> str:
    if name in NOT_TAKEN:
        return f"argument {name!r} is not taken: {NOT_TAKEN[name]}"
    if name in OF_HF:
        return f"argument {name!r} is the server's own matter: leave it out"
    return f"unknown argument {name!r}{did_you_mean(name, TYPES)}"


def _expectation(problem: ValueError, stated: Any) -> str:
    told = str(problem)
    return told if told.startswith("expected") else f"expected {told}, got {stated!r}"


def _address(stated: Any) -> str:
    """An address without secrets: it stands in records and in the list of processes."""
    parts = urlsplit(str(stated))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address such as http://localhost:8000/v1/completions")
    if parts.username or parts.password:
        raise ValueError("expected an address without a user or password: it is recorded")
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if SECRET_NAME.search(name):
            raise ValueError(f"expected an address without {name!r}: it is recorded")
    return str(stated)


def _header(stated: Any) -> dict[str, str]:
    found = {str(name): str(value) for name, value in mapping(stated).items()}
    for name in found:
        if SECRET_NAME.search(name):
            raise ValueError(
                f"expected no {name!r}: what is stated here can be read by all who list the "
                "machine's processes, so a key stands in the environment alone"
            )
    return found


def _tokenizer_backend(stated: Any) -> str:
    name = str(stated).lower()
    if name == "remote":
        raise ValueError(
            "expected huggingface or None: the tokenizer is read from its repository "
            "(tokenizer=ORG/NAME), and the server's is compared with it"
        )
    if name == "tiktoken":
        raise ValueError(
            "expected huggingface or None: name a repository with the same tokenizer "
            "(tokenizer=ORG/NAME), or generate from texts (tokenizer_backend=None)"
        )
    if name not in ("auto", "huggingface", "none"):
        raise ValueError("huggingface or None")
    return name


TYPES: Mapping[str, Callable[[Any], Any]] = {
    "model": str,
    "base_url": _address,
    "tokenizer": str,
    "tokenizer_backend": _tokenizer_backend,
    "tokenized_requests": values.flag,
    "revision": str,
    "use_fast_tokenizer": values.flag,
    "trust_remote_code": values.flag,
    "add_bos_token": values.flag,
    "custom_prefix_token_id": values.count,
    "max_length": values.positive,
    "max_gen_toks": values.positive,
    "eos_string": str,
    "think_end_token": str,
    "enable_thinking": values.flag,
    "chat_template_args": mapping,
    "seed": values.count,
    "num_concurrent": values.positive,
    "max_retries": values.count,
    "timeout": values.amount,
    "header": _header,
    "verify_certificate": values.flag,
    "ca_cert_path": str,
    "max_requests": values.positive,
    "max_total_tokens": values.positive,
    "max_cost": values.amount,
    "prices": str,
}
"""Every argument, and what reads it."""
