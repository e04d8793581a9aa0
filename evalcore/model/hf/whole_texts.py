"""Whole texts by the loglikelihoods of their windows, whoever computes those."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evalcore.model.base import Answers, EncodedRequest, Response
from evalcore.model.writing.generation import GenerationRequest, RollingRequest

Score = Callable[[Sequence[EncodedRequest]], Answers]
"""Scores targets after what is fed: answers in packs, each with its place among the requests."""


def scored(requests: Sequence[EncodedRequest], score: Score) -> Answers:
    """Loglikelihoods, of whole texts once all their windows are scored; what is to be written is
    passed over."""
    parts: list[tuple[int, int, EncodedRequest]] = []
    windows: dict[int, dict[int, Response]] = {}
    done: list[tuple[int, Response]] = []
    for index, request in enumerate(requests):
        if isinstance(request, RollingRequest):
            windows[index] = {}
            parts += [(index, place, window) for place, window in enumerate(request.windows)]
            if not request.windows:
                done.append((index, _whole(request, {})))
        elif not isinstance(request, GenerationRequest):
            parts.append((index, 0, request))
    if done:
        yield done
    for pack in score([part for _, _, part in parts]):
        done = []
        for number, response in pack:
            index, place, _ = parts[number]
            one = requests[index]
            if not isinstance(one, RollingRequest):
                done.append((index, response))
                continue
            windows[index][place] = response
            if len(windows[index]) == len(one.windows):
                done.append((index, _whole(one, windows.pop(index))))
        if done:
            yield done


def _whole(request: RollingRequest, windows: Mapping[int, Response]) -> Response:
    """The response to a text from those to its windows, by their place in it."""
    sums = tuple(windows[place].loglikelihood for place in sorted(windows))
    paths = {window.path for window in windows.values()}
    return Response(
        key=request.key,
        kind="loglikelihood_rolling",
        loglikelihood=float(sum(sums)),
        is_greedy=all(window.is_greedy for window in windows.values()),
        token_ids=request.tokens,
        token_logprobs=sums,
        n_context_tokens=request.n_context_tokens,
        n_truncated=0,
        # Windows computed in two ways, the plainer one for want of memory, count as plain.
        path=paths.pop() if len(paths) == 1 else "plain",
    )
