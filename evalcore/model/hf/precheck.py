"""What can be known of a model before its weights are downloaded, and is asked then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evalcore.errors import ModelError
from evalcore.model.base import Mode
from evalcore.model.hf.delta import check_same_weights
from evalcore.model.hf.description import errors_named, load_tokenizer
from evalcore.model.hf.loading import check_started_apart, check_there, of_delta, skeleton
from evalcore.model.hf.quantisation import quantisation_of
from evalcore.model.hf.quantised import check_runs_here
from evalcore.model.hf.repository import read_object
from evalcore.model.hf.snapshot import Arguments, Files, describe


@dataclass(frozen=True)
class Prechecked:
    """A model whose weights are worth downloading."""

    files: Files
    width: int | None
    """Tokens that its tables are to have for its adapter; None where they stay as they are."""


def precheck(
    arguments: Arguments, *, device: str, mode: Mode, kind: Any, tokenizer: Any = None
) -> Prechecked:
    """Raises ModelError for weights that this machine cannot run and for an adapter that does not
    fit; InfraError for a device that is not there and where the Hub cannot be reached. `kind`: the
    class of transformers that chooses the model's own.
    """
    check_there(device)
    if arguments.tp_plan is not None:
        check_started_apart()
    files = describe(arguments)
    if not files.model.file:  # what lies beside it says nothing of it
        check_runs_here(arguments, files.model.folder, device)
    if files.delta is not None:
        _check_delta(arguments, files, kind)
    if files.adapter is None:
        return Prechecked(files, None)
    tokenizer = tokenizer or load_tokenizer(arguments, files.tokenizer)
    # Few runs have one, and its library takes a second to import.
    from evalcore.model.hf.adapter import check_fits

    model = skeleton(arguments, files, kind)
    with errors_named(files.adapter):
        width = check_fits(model, files, tokens=len(tokenizer), mode=mode)
    return Prechecked(files, width)


def _check_delta(arguments: Arguments, files: Files, kind: Any) -> None:
    assert files.delta is not None  # noqa: S101  # whoever asks has one
    for snapshot in (files.model, files.delta):
        if (method := quantisation_of(read_object(snapshot.folder / "config.json"))) is not None:
            raise ModelError(
                f"--model_args: delta: {snapshot.name} is quantised ({method}), and differences "
                "are added to plain weights: give the model as it was before"
            )
    model = skeleton(arguments, files, kind)
    delta = skeleton(*of_delta(arguments, files), kind)
    check_same_weights(model, delta, files.delta.name)
