"""Checks of texts that a backend writes: they end where they are told to."""

from __future__ import annotations

from collections.abc import Iterator

from evalcore.model.conformance.examinee import (
    CONTEXTS,
    NEW_TOKENS,
    Examinee,
    Failed,
    NotAsked,
    shown,
    written,
)

UNREADABLE = "\ufffd"


def stop_strings(examinee: Examinee) -> str:
    """A text ends at a stop, which is no part of it."""
    examinee.needs("generate_until")
    if not examinee.can.stops:
        raise NotAsked("it states that it looks for no stop")
    tried = 0
    requests = [written(context) for context in CONTEXTS]
    for request, (_, free) in zip(requests, examinee.ask(requests), strict=True):
        text = free.text or ""
        for stop in _stops_in(text):
            ((_, response),) = examinee.ask([written(request.context, [stop])])
            expected = text.partition(stop)[0]
            if response.text != expected:
                raise Failed(
                    f"{shown(request)}: with the stop {stop!r} it writes {response.text!r}, "
                    f"expected {expected!r}"
                )
            if response.finish_reason != "stop":
                raise Failed(f"{shown(request)}: it ended by {response.finish_reason}, not a stop")
            tried += 1
    if not tried:
        raise NotAsked("it wrote no text that could be stopped")
    return f"{tried} stops"


def _stops_in(text: str) -> Iterator[str]:
    """A few beginnings of what could be a stop: within the text, and readable."""
    for width in (1, 3):
        for place in (len(text) // 2, 1):
            stop = text[place : place + width]
            if len(stop) == width and stop.strip() and UNREADABLE not in stop:
                yield stop
                break


def length(examinee: Examinee) -> str:
    """A text ends after as many tokens as it was given, and says so."""
    examinee.needs("generate_until", tokens=True)
    requests = [written(context, tokens=count) for context in CONTEXTS[:2] for count in (1, 5)]
    for request, (_, response) in zip(requests, examinee.ask(requests), strict=True):
        most = int((request.generation or {})["max_gen_toks"])
        if len(response.token_ids) > most:
            raise Failed(f"{shown(request)}: {len(response.token_ids)} tokens, {most} were given")
        ended = response.finish_reason == "length"
        if ended and len(response.token_ids) < most:
            raise Failed(f"{shown(request)}: it ended by length after {len(response.token_ids)}")
    return f"{len(requests)} texts, up to {NEW_TOKENS} tokens"
