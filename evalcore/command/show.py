"""`evalcore show`: what the model would be asked, exactly; or the task's file, in full."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any

from evalcore.authoring.export import own_name
from evalcore.command.options import OptionError
from evalcore.command.selection import (
    model_of,
    own_rows_of,
    settings_of,
    specs_of,
)
from evalcore.selection import library_of
from evalcore.task.library.family_files import as_yaml, in_order


def show(options: argparse.Namespace) -> int:
    """Prints the first documents of each task: prompt, requests and, with a model, tokens."""
    if options.file:
        return _show_files(options)
    from evalcore.building import chat_of, tasks_of

    settings = settings_of(options)
    if settings.samples is None:
        settings = dataclasses.replace(settings, limit=options.documents)
    specs, data_of = specs_of(options), own_rows_of(options)
    model = model_of(options, weights=False) if options.model_args else None
    if model is None and settings.apply_chat_template:
        raise OptionError("--apply_chat_template: the template is the model's: give --model_args")
    chat = chat_of(model, settings) if model is not None else None
    for spec in specs:
        for task in tasks_of(spec, settings, chat, data_of):
            for item in task.items()[: options.documents]:
                sys.stdout.write("".join(f"{line}\n" for line in _lines(task, item, model)))
    return 0


def _show_files(options: argparse.Namespace) -> int:
    """Prints what the task files say, included files and families' lists merged in."""
    files = library_of(options.include_path).files
    shown: dict[str, str] = {}
    for spec in specs_of(options):
        name = own_name(spec.name)
        if spec.source and name not in shown:
            keys = files.named(spec.source, name).values
            shown[name] = f"# {name}, of {spec.source}\n{as_yaml(in_order(keys))}"
    sys.stdout.write("\n".join(shown.values()))
    return 0


def _lines(task: Any, item: Any, model: Any) -> Iterator[str]:
    examples = ", ".join(f"{split} {row}" for split, row in item.shots) or "none"
    yield f"=== {task.name}, document {item.doc_id} of {item.split} ({task.mode})"
    yield f"examples: {examples}"
    yield f"target: {item.target!r}" + (f", right choices: {item.gold}" if item.gold else "")
    previous = None
    for number, request in enumerate(item.requests):
        yield f"--- request {number}: {request.kind}" + (
            f", {request.repeats} times" if request.repeats > 1 else ""
        )
        if request.context and request.context != previous:
            yield f"context, {len(request.context)} characters:\n{request.context}"
        elif request.kind != "loglikelihood_rolling":
            yield "context: as before" if request.context else "context: none"
        previous = request.context or previous
        for number, picture in enumerate(request.images, start=1):
            yield f"image {number}: {picture.width} × {picture.height}, {picture.digest}"
        for number, sound in enumerate(request.sounds, start=1):
            yield f"sound {number}: {sound.seconds:.2f} s at {sound.rate} Hz, {sound.digest}"
        if request.kind == "generate_until":
            yield f"generation: {json.dumps(request.generation, ensure_ascii=False, default=str)}"
        else:
            yield f"continuation: {request.continuation!r}"
        if model is not None:
            yield from _tokens(model, request)


def _tokens(model: Any, request: Any) -> Iterator[str]:
    (encoded, *_) = model.encode([dataclasses.replace(request, repeats=1)])
    yield f"tokens fed ({len(encoded.tokens)}): {list(encoded.tokens)}"
    if encoded.targets:
        yield f"tokens scored ({len(encoded.targets)}): {list(encoded.targets)}"
    if encoded.n_truncated:
        yield f"tokens cut off at the beginning: {encoded.n_truncated}"
