"""A model of one's own that a command names, by `module:Class` or by an entry point of its package.

The class has the protocol of `evalcore.model.base`, or the methods of lm-evaluation-harness's `LM`,
whose subclasses are evaluated as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from evalcore.errors import ModelError
from evalcore.model.base import LM, Backend, Mode
from evalcore.model.capabilities import Capabilities
from evalcore.model.text_lm import OF_TEXTS, TextLM

ENTRY_POINTS = "evalcore.models"
"""The group under which an installed package says which models it brings."""

PROTOCOL = ("encode", "answer", "capabilities")
LM_EVALS = ("loglikelihood", "loglikelihood_rolling", "generate_until")


@dataclass(frozen=True)
class OwnModel:
    """A class that says nothing of how it is made from `--model_args`: they are its arguments."""

    name: str
    kind: type[Any]

    @property
    def capabilities(self) -> Capabilities:
        """At most: what an object of the class says of itself counts, once there is one."""
        stated = getattr(self.kind, "capabilities", None)
        if isinstance(stated, Capabilities):
            return stated
        of_its_own = hasattr(self.kind, "answer")
        return OF_TEXTS(
            backend=self.name,
            loglikelihood=of_its_own or hasattr(self.kind, "loglikelihood"),
            rolling=of_its_own or hasattr(self.kind, "loglikelihood_rolling"),
            generate=of_its_own or hasattr(self.kind, "generate_until"),
            chat="text",
            images=bool(getattr(self.kind, "MULTIMODAL", False)),
            sounds=bool(getattr(self.kind, "MULTIMODAL", False)),
            max_length_known=False,
        )

    def from_arguments(
        self,
        arguments: Mapping[str, Any],
        *,
        batch_size: int | None = None,
        device: str | None = None,
        mode: Mode = "compat",  # noqa: ARG002  # both modes ask such a model the same
        weights: bool = True,  # noqa: ARG002  # it knows no difference
    ) -> LM:
        """An object of the class. Raises ModelError where the class takes no such arguments."""
        given = dict(arguments)
        try:
            made = self._made(given, batch_size, device)
        except Exception as problem:  # somebody else's code
            raise ModelError(
                f"--model {self.name}: it cannot be made of {given or 'no arguments'}: "
                f"{type(problem).__name__}: {problem}"
            ) from problem
        model: LM = made if _has(made, PROTOCOL) else TextLM(made)
        return model

    def _made(self, given: dict[str, Any], batch_size: int | None, device: str | None) -> Any:
        # lm-evaluation-harness's classes are made by this method of theirs, of typed values.
        by_arguments = getattr(self.kind, "create_from_arg_obj", None)
        if by_arguments is None:
            return self.kind(**given)
        beside = {"batch_size": batch_size, "device": device}
        stated = {name: value for name, value in beside.items() if value is not None}
        return by_arguments(given, stated)


def own_backend(name: str) -> Backend | None:
    """What `module:Class`, or an entry point of that name, stands for; None where it is neither.

    Modules are also looked for in the folder where the command was started. Raises ModelError for a
    class that cannot be imported, or that is no model.
    """
    found = next(iter(entry_points(group=ENTRY_POINTS, name=name)), None)
    place = found.value if found else name
    module, colon, attribute = place.partition(":")
    if not colon:
        return None
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        kind: Any = import_module(module)
        for part in attribute.split("."):
            kind = getattr(kind, part)
    except Exception as problem:  # somebody else's code
        raise ModelError(
            f"--model {name}: {place} cannot be imported: {type(problem).__name__}: {problem}"
        ) from problem
    if _has(kind, ("capabilities", "from_arguments")):
        backend: Backend = kind
        return backend
    if not (isinstance(kind, type) and (_has(kind, PROTOCOL) or _has_some(kind, LM_EVALS))):
        raise ModelError(
            f"--model {name}: {place} is no model: expected a class with {', '.join(PROTOCOL)}, or "
            f"with {', '.join(LM_EVALS)} (docs/engine.md, Your own model)"
        )
    return OwnModel(name, kind)


def _has(thing: object, names: tuple[str, ...]) -> bool:
    return all(hasattr(thing, name) for name in names)


def _has_some(thing: object, names: tuple[str, ...]) -> bool:
    return any(hasattr(thing, name) for name in names)
