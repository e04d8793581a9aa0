"""What a model or a backend may do besides the protocol (`evalcore.model.base`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from evalcore.model.base import LM, Mode
from evalcore.model.capabilities import Capabilities


@runtime_checkable
class Computing(Protocol):
    """A model that chooses how it is computed, and says so; others need not."""

    @property
    def execution(self) -> Mapping[str, Any]:
        """By kind of request: path, step and reason, tokens in a pass, and how often the memory was
        too small for as many (`halvings`). Of the last requests; changes no number."""
        ...


@runtime_checkable
class KeepingChecks(Protocol):
    """A model that checks how it is computed, which need be done once on a machine; others need
    not."""

    def keep_checks(self, *, again: bool = False) -> None:
        """Asked before anything else is: what is found from now on is kept, and what was found
        before holds, unless the model is to be checked `again`."""
        ...


@runtime_checkable
class Spelled(Protocol):
    """A model whose tokens can be read; others need not show them."""

    def token_texts(self, tokens: Sequence[int]) -> list[str | None]:
        """The text of each by itself; None for a number that stands for none."""
        ...


@runtime_checkable
class Foretelling(Protocol):
    """A backend that says before it loads a model what that one can be asked; others need not."""

    def capabilities_of(self, arguments: Mapping[str, Any]) -> Capabilities:
        """At most, of the model that `--model_args` say, whose weights are not downloaded."""
        ...


@runtime_checkable
class Adapting(Protocol):
    """A backend that puts adapters, one after the other, over weights that it loads once; others
    need not."""

    def with_adapters(
        self,
        arguments: Mapping[str, Any],
        adapters: Sequence[str],
        *,
        batch_size: int | None = None,
        device: str | None = None,
        mode: Mode = "compat",
    ) -> list[Callable[[], LM]]:
        """For each adapter what loads the model of `--model_args` with it, to the same answers,
        keys and pins as `from_arguments` gives with that adapter alone; a class method. Each is
        done with before the next is loaded. Raises as `from_arguments`."""
        ...


@runtime_checkable
class Lasting(Protocol):
    """A backend that can keep weights from one model to the next; others need not."""

    def lasting(self) -> Callable[..., LM]:
        """A `from_arguments` whose next model has the weights of the last where they are the same,
        to the same answers, keys and pins; a class method. Each is done with before the next."""
        ...
