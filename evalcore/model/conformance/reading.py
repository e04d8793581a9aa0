"""Checks of what a backend reads: tokens, BOS, empty contexts, long prompts, conversations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evalcore.errors import ModelError
from evalcore.model.base import EncodedRequest, Request
from evalcore.model.conformance.examinee import (
    CONTEXTS,
    SCORED,
    WORD,
    Examinee,
    Failed,
    NotAsked,
    asked_of,
    shown,
    written,
)
from evalcore.model.unsaid import unsaid

LONGEST_WRITTEN = 200_000
"""Tokens of a window beyond which no prompt is written that leaves it."""


def answers(examinee: Examinee) -> str:
    """Each request is answered once, under its key; equal requests have one key, others another."""
    try:
        requests = asked_of(examinee, most_scored=4, most_written=2)
    except NotAsked as nothing:
        raise Failed(str(nothing)) from None
    found = examinee.ask(requests)
    keys = [encoded.key for encoded, _ in found]
    if len(set(keys)) != len(keys):
        raise Failed("two requests that differ have one key, and would share an answer")
    if [encoded.key for encoded in examinee.model.encode(requests)] != keys:
        raise Failed("the same requests have other keys when they are read again")
    for request, (_, response) in zip(requests, found, strict=True):
        if response.kind != request.kind:
            raise Failed(f"{shown(request)}: a {request.kind} is answered by a {response.kind}")
        if (response.text is not None) != (request.kind == "generate_until"):
            raise Failed(f"{shown(request)}: the answer is {response.text!r}")
        if not float("-inf") < response.loglikelihood < float("inf"):
            raise Failed(f"{shown(request)}: its loglikelihood is {response.loglikelihood}")
    doubled = replace(SCORED[0], repeats=2)
    if examinee.can.loglikelihood and len(examinee.model.encode([doubled])) != 2:
        raise Failed("a request that is to be repeated twice is not asked twice")
    return f"{len(found)} requests"


def tokenisation(examinee: Examinee) -> str:
    """The continuation is what one text of both has beyond as many tokens as the context has alone
    (docs/engine.md), and the context is read as the tokenizer reads it; where an encoder reads it,
    the continuation is tokenised by itself."""
    examinee.needs("loglikelihood", tokens=True)
    reference = examinee.known_reference()
    compared = 0
    for request, encoded in zip(SCORED, examinee.model.encode(SCORED), strict=True):
        context = reference.tokens(request.context.rstrip())
        if examinee.can.encoder:
            targets = _without_specials(examinee, request)
            found = [*encoded.tokens[: -len(encoded.targets)], *encoded.targets]
        else:
            targets = reference.tokens(request.context + request.continuation)[len(context) :]
            found = [*encoded.tokens, encoded.targets[-1]]
        if encoded.n_truncated or not targets:  # a token spans the two
            continue
        if (found, list(encoded.targets)) != (context + targets, targets):
            raise Failed(
                f"{shown(request)}: it reads {found}, of which {len(encoded.targets)} are scored; "
                f"the tokenizer reads {context + targets}, of which {len(targets)} are"
            )
        compared += 1
    return f"{compared} texts"


def _without_specials(examinee: Examinee, request: Request) -> list[int]:
    """A continuation as the tokenizer reads it, but for what it adds at either end: what it makes
    of no text."""
    reference = examinee.known_reference()
    space = request.context[len(request.context.rstrip()) :]
    added = set(reference.tokens(""))
    return [token for token in reference.tokens(space + request.continuation) if token not in added]


def beginning(examinee: Examinee) -> str:
    """BOS stands where the policy says, once, and alike before what is scored and written."""
    examinee.needs("loglikelihood", tokens=True)
    bos = examinee.info.special_tokens.get("bos")
    context = CONTEXTS[0]
    (encoded,) = examinee.model.encode([Request("loglikelihood", context, " a table")])
    if examinee.can.generate:
        (prompt,) = examinee.model.encode([written(context, tokens=1)])
        if not encoded.n_truncated and prompt.tokens[:1] != encoded.tokens[:1]:
            raise Failed(
                f"what is scored begins with token {encoded.tokens[0]}, what is written with "
                f"{prompt.tokens[0]}"
            )
    if bos is None:
        return "it has no BOS"
    text, token = bos
    policy = examinee.info.bos_policy
    is_stated = policy in ("always", "never") and not encoded.n_truncated
    if is_stated and (encoded.tokens[0] == token) != (policy == "always"):
        raise Failed(f"the policy is {policy}, and a text begins with token {encoded.tokens[0]}")
    (said,) = examinee.model.encode([Request("loglikelihood", text + context, " a table")])
    if not said.n_truncated and said.tokens[:2].count(token) != 1:
        raise Failed(f"a text that begins with {text!r} begins with the tokens {said.tokens[:2]}")
    return f"policy {policy}"


def end(examinee: Examinee) -> str:
    """Nothing is put behind a text, or what is scored and written would come after its end."""
    examinee.needs("loglikelihood", tokens=True)
    if examinee.can.encoder:
        return "its encoder reads a text with its end"
    texts = [f"{context} a table" for context in CONTEXTS]
    makes: list[Callable[[str], Request]] = [lambda text: Request("loglikelihood", text, " Paris")]
    if examinee.can.generate:
        makes.append(lambda text: written(text, tokens=1))
    for make in makes:
        short, long = (
            [_context_of(encoded) for encoded in examinee.model.encode([*map(make, asked)])]
            for asked in (CONTEXTS, texts)
        )
        if not any(b[: len(a)] == a for a, b in zip(short, long, strict=True)):
            raise Failed(
                f"no text begins as its own beginning does: {shown(make(CONTEXTS[0]))} is read as "
                f"{[*short[0]]}, of which what is scored or written comes behind the last"
            )
    return f"{len(CONTEXTS)} texts"


def _context_of(encoded: EncodedRequest) -> tuple[int, ...]:
    return tuple(encoded.tokens[: encoded.n_context_tokens])


def empty_context(examinee: Examinee) -> str:
    """A continuation without context has an answer, after BOS or what stands for it."""
    examinee.needs("loglikelihood")
    ((encoded, response),) = examinee.ask([Request("loglikelihood", "", " a table")])
    if not response.loglikelihood <= 1e-6:
        raise Failed(f"its loglikelihood is {response.loglikelihood}")
    if not (examinee.can.tokens_in and examinee.can.tokens_out):
        return "answered"
    fed, targets = encoded.tokens, encoded.targets
    # A decoder begins with a token of its own, behind what the encoder reads.
    count = len(targets) + examinee.can.encoder
    if fed[:1] != (examinee.info.prefix_token,) or len(fed) != count:
        raise Failed(
            f"it is fed {list(fed)} for {list(targets)}: expected the prefix token "
            f"{examinee.info.prefix_token} and the continuation"
        )
    return f"after token {examinee.info.prefix_token}"


def long_prompts(examinee: Examinee) -> str:
    """A prompt that is too long loses its beginning, which is counted; a continuation that is, is
    refused."""
    examinee.needs("loglikelihood", tokens=True)
    length = examinee.known_length()
    if length > LONGEST_WRITTEN:
        raise NotAsked(f"a window of {length:,} tokens is not filled here")
    long = WORD * (length + 10)
    (encoded,) = examinee.model.encode([Request("loglikelihood", long + CONTEXTS[1], " Paris")])
    (short,) = examinee.model.encode([Request("loglikelihood", CONTEXTS[1], " Paris")])
    # The length is the encoder's own where there is one, and holds nothing else.
    n_written = len(encoded.targets) if examinee.can.encoder else 0
    scored = encoded.tokens[: len(encoded.tokens) - n_written]
    _check_cut(scored, encoded.n_truncated, length, "a prompt that is scored")
    # But for BOS, and a token across the join.
    kept = max(1, min(len(short.tokens), length) - 2)
    if encoded.targets != short.targets or encoded.tokens[-kept:] != short.tokens[-kept:]:
        raise Failed("a prompt that is too long loses something else than its beginning")
    if examinee.can.generate and length > 1:
        (prompt,) = examinee.model.encode([written(long, tokens=1)])
        room = length + 1 if examinee.can.encoder else length - 1
        _check_cut(prompt.tokens, prompt.n_truncated, room, "a prompt that is written after")
    try:
        examinee.model.encode([Request("loglikelihood", "", long)])
    except ModelError:
        return f"cut to {length} tokens"
    raise Failed(f"a continuation that is longer than {length} tokens is not refused")


def _check_cut(tokens: tuple[int, ...], n_truncated: int, room: int, what: str) -> None:
    if len(tokens) > room:
        raise Failed(f"{what} has {len(tokens)} tokens, and there is room for {room}")
    if not n_truncated:
        raise Failed(f"{what} is cut, and not counted as cut")


def conversations(examinee: Examinee) -> str:
    """A chat template writes every turn, ends where the answer begins, or within it."""
    if examinee.can.chat is None:
        raise NotAsked("it states that it takes no conversation")
    try:
        template = examinee.model.chat_template()
    except ModelError as problem:
        raise NotAsked(problem.reason) from None
    question = {"role": "user", "content": "Which of these is made of wood?"}
    begun = {"role": "assistant", "content": "It is the"}
    asked, continued = template.render([question], True), template.render([question, begun], False)
    if question["content"] not in asked or question["content"] not in continued:
        raise Failed(f"the question is not in the prompt: {asked!r}")
    if not continued.endswith(begun["content"]):
        raise Failed(f"an answer that is begun does not end the prompt: {continued[-60:]!r}")
    if asked == template.render([question], False):
        raise Failed(f"nothing says where the answer begins: {asked[-60:]!r}")
    bos = examinee.info.special_tokens.get("bos")
    if bos and examinee.can.tokens_in and examinee.can.loglikelihood:
        (encoded,) = examinee.model.encode([Request("loglikelihood", asked, " a table")])
        if encoded.tokens[:2] == (bos[1], bos[1]):
            raise Failed("the prompt begins with BOS twice")
    turns = [question, {**begun, "content": "It is the table."}, {**question, "content": "Why?"}]
    if missing := unsaid(turns, template.render(turns, True)):
        raise Failed(
            f"of a conversation of three turns the {missing.pop()}'s are not in the prompt"
        )
    told = [{"role": "system", "content": "Be brief."}, question]
    try:
        without = unsaid(told, template.render(told, True))
    except ModelError:
        without = {"system"}
    name = f"template {template.name or 'by default'}"
    return f"{name}, which writes no system turn" if without else name
