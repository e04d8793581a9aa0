"""Checks of loglikelihoods: the right tokens, at the right place, added up."""

from __future__ import annotations

from collections.abc import Iterator

from evalcore.model.base import EncodedRequest, Request
from evalcore.model.conformance.examinee import (
    CONTEXTS,
    SCORED,
    Examinee,
    Failed,
    NotAsked,
    Pair,
    shown,
    written,
)
from evalcore.model.tokens.windows import rolling_windows

PARTS = ((" a table", " of wood"), (" a", " river"), (" Paris", ", of course"), (" 4", "\n"))
"""Continuations in two parts."""

TEXTS = ("A text of a few words.", "One line\nand another one\n")
LONGEST_COMPUTED = 4096
"""Tokens of a window beyond which no text is scored that leaves it: it would take too long."""
GREEDY_TOKENS, GREEDY_TOKENS_HALF = 6, 1


def alignment(examinee: Examinee) -> Iterator[Pair]:
    """Each target is read off the position before it: as the model itself says, teacher-forced."""
    examinee.needs("loglikelihood")
    reference = examinee.known_reference()
    if not examinee.can.tokens_in:
        raise NotAsked("it does not show its tokens")
    for request, (encoded, response) in zip(SCORED, examinee.ask(SCORED), strict=True):
        expected, _ = reference.teacher_forced(encoded.tokens, encoded.targets)
        yield response.loglikelihood, sum(expected), shown(request)
        if examinee.can.prompt_logprobs:
            for place, found in enumerate(response.token_logprobs):
                yield found, expected[place], f"token {place} of {shown(request)}"


def sums(examinee: Examinee) -> Iterator[Pair]:
    """A loglikelihood is the sum over its tokens, each of which is shown."""
    examinee.needs("loglikelihood", tokens=True)
    if not examinee.can.prompt_logprobs:
        raise NotAsked("it does not say how likely each token is")
    for request, (encoded, response) in zip(SCORED, examinee.ask(SCORED), strict=True):
        if response.token_ids != encoded.targets:
            raise Failed(f"{shown(request)}: it scored other tokens than the continuation's")
        if len(response.token_logprobs) != len(encoded.targets):
            raise Failed(f"{shown(request)}: {len(response.token_logprobs)} log-probabilities "
                         f"of {len(encoded.targets)} tokens")  # fmt: skip
        if any(not logprob <= 1e-6 for logprob in response.token_logprobs):
            raise Failed(f"{shown(request)}: a token is more likely than certain")
        yield response.loglikelihood, sum(response.token_logprobs), shown(request)


def additivity(examinee: Examinee) -> Iterator[Pair]:
    """A continuation is as likely as its first part, and then the rest after that."""
    examinee.needs("loglikelihood", tokens=True)
    if examinee.can.encoder:
        raise NotAsked("its encoder would read the first part, and its decoder the rest")
    found = False
    for context in CONTEXTS:
        for first, rest in PARTS:
            whole, one, other = examinee.model.encode(
                [
                    Request("loglikelihood", context, first + rest),
                    Request("loglikelihood", context, first),
                    Request("loglikelihood", context + first, rest),
                ]
            )
            if whole.targets != one.targets + other.targets or whole.tokens != other.tokens:
                continue  # a token lies across the border, or a prompt was cut
            said = [given.loglikelihood for _, given in examinee.answers([whole, one, other])]
            yield said[0], said[1] + said[2], f"{first + rest!r} after {context[-30:]!r}"
            found = True
    if not found:
        raise NotAsked("its tokenizer joins all of the texts at hand, or they are too long")


def greedy(examinee: Examinee) -> str:
    """The continuation that the model itself would write is flagged, and no other."""
    examinee.needs("loglikelihood")
    flags: list[bool] = []
    if examinee.reference is not None and examinee.can.tokens_in:
        for request, (encoded, response) in zip(SCORED, examinee.ask(SCORED), strict=True):
            _, expected = examinee.reference.teacher_forced(encoded.tokens, encoded.targets)
            _compare_flags(response.is_greedy, expected, shown(request))
            flags.append(expected)
    if examinee.can.generate and examinee.can.tokens_in and examinee.can.tokens_out:
        count = GREEDY_TOKENS_HALF if examinee.is_half else GREEDY_TOKENS
        for request in (written(context, tokens=count) for context in CONTEXTS):
            ((encoded, response),) = examinee.ask([request])
            said = response.token_ids
            if not said:
                continue
            other = (*said[:-1], said[-1] + 1 if said[-1] == 0 else said[-1] - 1)
            for targets, is_own in ((said, True), (other, False)):
                tokens = (*encoded.tokens, *targets[:-1])
                expected = is_own
                if examinee.reference is not None:  # a penalty of its own may have decided
                    _, expected = examinee.reference.teacher_forced(tokens, targets)
                ((_, scored),) = examinee.answers([EncodedRequest.scoring(tokens, targets)])
                _compare_flags(scored.is_greedy, expected, f"{targets} after {shown(request)}")
                flags.append(expected)
    if not flags:
        raise NotAsked("it does not show its tokens")
    return f"{len(flags)} flags, {sum(flags)} of them true"


def _compare_flags(found: bool, expected: bool, what: str) -> None:
    if found != expected:
        right = "the greedy continuation" if expected else "not the greedy continuation"
        raise Failed(f"{what}: flagged {found}, and it is {right}")


def whole_texts(examinee: Examinee) -> Iterator[Pair]:
    """A whole text is as likely as its tokens one after the other, each scored once; one that is
    longer than the model as its windows."""
    examinee.needs("loglikelihood", "loglikelihood_rolling", tokens=True)
    length = examinee.known_length()
    texts = [*TEXTS]
    if length <= LONGEST_COMPUTED:
        texts.append(TEXTS[0] * (2 * length // len(TEXTS[0].split())))
    stated = examinee.info.arguments.get("rolling_stride")
    for text in texts:
        ((_, response),) = examinee.ask([Request("loglikelihood_rolling", "", text)])
        tokens = response.token_ids
        if examinee.reference is not None:
            read = examinee.reference.tokens(text)
            if list(tokens) not in (read, read[1:]):  # in compat a BOS that is added is scored
                raise Failed(
                    f"{text[:30]!r}: {len(tokens)} tokens were scored, and it has {len(read)}"
                )
        windows = rolling_windows(
            tokens, prefix=examinee.info.prefix_token, length=length, stride=stated
        )
        found = examinee.answers([EncodedRequest.scoring(*window) for window in windows])
        expected = sum(scored.loglikelihood for _, scored in found)
        yield response.loglikelihood, expected, f"{text[:30]!r}, {len(tokens)} tokens"
