"""What is known of a model that may be submitted, at the commits that would be evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from evalcore.model.hf.quantisation import quantisation_of
from leaderboard.hub import (
    Origin,
    Repository,
    architectures,
    chat_template,
    cleaning,
    client,
    files,
    origin_of,
    own_code,
)
from leaderboard.models.packing import packed_bytes, quantisation_by
from leaderboard.models.variant import NAMES, TRANSFORMERS, Dtype, needed_bytes, weight_bytes


@dataclass(frozen=True)
class Way:
    """How a model is made up and asked, beside its precision; as typed."""

    base: str = ""
    """Of an adapter, the model that it is put on; empty: the one that it names."""
    packing: str = ""
    """One of `Packing`; empty: the weights as they are stored."""
    chat: bool = False
    """Whether it is asked in its chat template."""
    backend: str = TRANSFORMERS


PLAIN = Way()


@dataclass(frozen=True)
class Facts:
    """What is known of a model, at the commit that would be evaluated."""

    repo_id: str
    commit: str
    architecture: str
    model_type: str
    parameters: int
    """Of an adapter with those of the model that it is put on."""
    licence: str
    stored_dtype: str
    """The precision in which its weights are stored."""
    dtype: str
    """The precision in which it would be evaluated."""
    origin: Origin
    released: datetime | None = None
    """When its repository was made, where the Hub knows it."""
    stored_quantisation: str = ""
    """Method and bits, as config.json states them."""
    stored_bytes: int | None = None
    """What its weights take where they are stored packed; None where they are not."""
    table_parameters: int = 0
    """Those of its parameters that are tables of tokens, as far as config.json tells."""
    adapter_parameters: int = 0
    adapter_base: str = ""
    adapter_base_commit: str = ""
    code: tuple[str, ...] = ()
    """What code of the model's own would be run, each repository with its commit."""
    has_template: bool | None = None
    """None where nobody looked for a chat template."""
    template_names: tuple[str, ...] = ()
    """Of several chat templates without a default one."""
    refuses_system: str = ""
    """In what words its chat template refuses an instruction; empty where none is known to."""
    packing: str = ""
    chat: bool = False
    backend: str = TRANSFORMERS

    @property
    def quantisation(self) -> str:
        """How the weights would be packed, in the engine's words."""
        return self.stored_quantisation or quantisation_by(self.packing, self.dtype)

    @property
    def weight_bytes(self) -> int:
        """What the weights take in memory."""
        if self.stored_bytes is not None:
            return self.stored_bytes + weight_bytes(self.adapter_parameters, self.dtype)
        if self.packing:
            whole = self.parameters - self.adapter_parameters
            packed = packed_bytes(self.packing, self.dtype, whole, self.table_parameters)
            return packed + weight_bytes(self.adapter_parameters, self.dtype)
        return weight_bytes(self.parameters, self.dtype)

    @property
    def needed_bytes(self) -> int:
        return needed_bytes(self.weight_bytes)

    @property
    def computed_by(self) -> str:
        """What else than transformers would compute it; empty for nothing else."""
        return "" if self.backend == TRANSFORMERS else NAMES[self.backend]

    @property
    def identity(self) -> dict[str, Any]:
        """What tells its variant from others, by the names of the fields."""
        return {
            "commit": self.commit,
            "dtype": self.dtype,
            "quantisation": self.quantisation,
            "adapter_base": self.adapter_base,
            "adapter_base_commit": self.adapter_base_commit,
            "chat": self.chat,
            "backend": self.backend,
            "code": ",".join(self.code),
        }


def facts_of(repository: Repository, adapter: Repository | None = None) -> Facts | None:
    """Of a whole model, or of an adapter on it; None where its size cannot be told."""
    config, weights = repository.config or {}, repository.weights
    if weights is None or weights.count < 1:
        return None
    own = adapter or repository
    of_adapter = adapter.weights.count if adapter and adapter.weights else 0
    quantisation = quantisation_of(config) or ""
    parameters = weights.unpacked(quantisation)
    stored = stored_dtype(repository)
    template = repository.chat_template
    origin = origin_of(own)
    if adapter:
        base = origin.base_model or repository.repo_id
        under = origin_of(repository)
        active = under.active_parameters and under.active_parameters + of_adapter
        origin = replace(origin, moe=under.moe, active_parameters=active, base_model=base)
    return Facts(
        repo_id=own.repo_id,
        commit=own.commit,
        architecture=architectures.named_in(config)[:100],
        model_type=cleaning.text(config.get("model_type"), 64),
        parameters=parameters + of_adapter,
        licence=own.licence[:100],
        stored_dtype=stored,
        dtype=stored,
        origin=origin,
        released=own.released,
        stored_quantisation=quantisation,
        stored_bytes=_stored_bytes(repository) if quantisation else None,
        table_parameters=min(_table_parameters(config), parameters),
        adapter_parameters=of_adapter,
        adapter_base=repository.repo_id if adapter else "",
        adapter_base_commit=repository.commit if adapter else "",
        code=own_code.pins(config, repository.repo_id, repository.commit)
        if architectures.needs_code(config)
        else (),
        has_template=None if template is None else bool(template or repository.template_names),
        template_names=repository.template_names,
        refuses_system=chat_template.refuses_system(template or ""),
    )


def stored_dtype(repository: Repository) -> str:
    """What config.json says; else what most weights are stored in; else float32."""
    named = client.dtype_in(repository.config or {})
    if named in Dtype.values:
        return named
    by_dtype = repository.weights.by_dtype if repository.weights else {}
    largest = max(by_dtype, key=lambda name: by_dtype[name], default="")
    return client.STORED_DTYPES.get(largest, Dtype.FLOAT32.value)


def _stored_bytes(repository: Repository) -> int | None:
    """What the files of its weights take; None where the Hub does not tell all."""
    sizes = [repository.sizes.get(name) for name in repository.weight_files]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _table_parameters(config: Mapping[str, Any]) -> int:
    """Of the tables that tokens are read from and written by: they are never packed."""
    texts = config.get("text_config")
    of_text = texts if isinstance(texts, dict) else config
    words = cleaning.count(of_text.get("vocab_size")) or 0
    widths = [width for name in files.WIDTHS if (width := cleaning.count(of_text.get(name)))]
    tables = 1 if of_text.get("tie_word_embeddings") else 2
    return tables * words * max(widths, default=0)
