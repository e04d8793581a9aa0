"""A server is tried before it is trusted: it must read what we mean, and mean what it says.

Tokens that are not those of our tokenizer, a BOS too many, an echo that is shifted by a place or is
about something else: each gives a number that looks like a score. So a few tokens are asked about
in two ways, as part of a prompt and as what follows one, and what differs is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalcore.errors import ModelError
from evalcore.model.hf.reading import Reader
from evalcore.model.servers.client import Broken, Malformed, Refused, host_of
from evalcore.model.servers.scoring import MANNERS, Manner, Token, top_of
from evalcore.model.servers.served import Service, choices_of, prompt_tokens_of
from evalcore.model.servers.writing import tokens_of

TEXTS = (
    "Question: Which of these is made of wood?\nAnswer: a table",
    "été 🙂  two spaces\tand\n\nlines",
    "def f(x):\n    return x2 + 1234",
)
"""Words, signs beyond ASCII, and what tokenizers treat in different ways."""

ASKED = TEXTS[0].partition(" a table")[0]

UNREADABLE = "\ufffd"

ABSOLUTE, RELATIVE = 5e-2, 1e-2
"""Nats, and share of a log-probability, by which a server may differ from itself: in half precision
a token is computed a little differently as part of a prompt and after one."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a server does, as it was seen to do it."""

    shows_tokens: bool
    """Whether its answers have the numbers of the tokens that were written."""
    manner: Manner | None
    """How it says how likely the tokens of a prompt are; None where it does not, or is wrong."""
    why_not: str = ""


class Probe:
    """One server under trial."""

    def __init__(
        self,
        service: Service,
        reader: Reader,
        tokenizer: str,
        *,
        as_tokens: bool,
        manners: Sequence[Manner] = (),
    ) -> None:
        """`tokenizer`: its name. `as_tokens`: prompts are sent as numbers of tokens, else as
        texts. `manners`: those of another interface than OpenAI's."""
        self._manners = manners or MANNERS
        self._service = service
        self._reader = reader
        self._tokenizer = tokenizer
        self._as_tokens = as_tokens
        self._where = host_of(service.url)

    def findings(self) -> Findings:
        """Raises ModelError for a server that reads other tokens than ours, in a sentence that
        ends with the way out; InfraError where it cannot be reached."""
        self._compare_tokenizers()
        shows = self._try_writing()
        manner, why_not = self._try_scoring(shows)
        return Findings(shows_tokens=shows, manner=manner, why_not=why_not)

    def _plain(self, text: str) -> list[int]:
        return list(self._reader.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _compare_tokenizers(self) -> None:
        """Whether it puts a BOS before a text is not looked at where it is sent none."""
        compared = all(self._tokens_agree(text) for text in TEXTS)
        if compared and self._as_tokens:
            return
        counts = [self._n_read(text) for text in TEXTS]
        added = {count - len(self._plain(text)) for count, text in zip(counts, TEXTS, strict=True)}
        if len(added) > 1 or not added <= {0, 1}:
            raise self._other_tokenizer(TEXTS[1], f"{counts[1]} tokens")
        begins = added == {1}
        if not self._as_tokens and len(self._reader.encoder.text(ASKED)) != self._n_read(ASKED):
            raise ModelError(
                f"{self._where} puts {'a' if begins else 'no'} BOS before a text, and here a text "
                f"is read {'without' if begins else 'with'} one: state add_bos_token={begins}, or "
                "leave tokenized_requests=False out"
            )

    def _tokens_agree(self, text: str) -> bool:
        """Whether it shows how it reads a text. Raises ModelError where that is not our way."""
        body = {
            **{"model": self._service.model, "prompt": text, "add_special_tokens": False},
            **{"content": text, "add_special": False},
        }
        tokens = self._service.said(self._service.at_root("tokenize"), body).get("tokens")
        if tokens is not None and tokens != self._plain(text):
            raise self._other_tokenizer(text, f"the tokens {str(tokens)[:60]}")
        return tokens is not None

    def _n_read(self, text: str) -> int:
        body = {"prompt": text, "max_tokens": 1, "temperature": 0.0}
        count = self._service.ask(body, prompt_tokens_of)
        if count is None:
            raise ModelError(
                f"{self._where} does not say how it reads a text (/tokenize), nor how many tokens "
                "it reads (usage), so nobody can tell whether its tokenizer is that of "
                f"{self._tokenizer}: generate without one (tokenizer_backend=None)"
            )
        return count

    def _other_tokenizer(self, text: str, reads: str) -> ModelError:
        ours = self._plain(text)
        return ModelError(
            f"{self._where} reads {text!r} as {reads}, and the tokenizer of {self._tokenizer} as "
            f"the {len(ours)} tokens {str(ours)[:60]}: name the one that it serves "
            "(--model_args tokenizer=ORG/NAME), or generate without one (tokenizer_backend=None)"
        )

    def _prompt(self, tokens: Sequence[int], text: str) -> Any:
        return list(tokens) if self._as_tokens else text

    def _try_writing(self) -> bool:
        """Whether it shows the tokens that it writes."""
        tokens = self._reader.encoder.text(ASKED)
        body = {"prompt": self._prompt(tokens, ASKED), "max_tokens": 1, "temperature": 0.0}

        def read(answer: Mapping[str, Any]) -> bool:
            (choice,) = choices_of(answer, 1)
            if not isinstance(choice.get("text"), str):
                raise Malformed("it has no text")
            count = prompt_tokens_of(answer)
            if count not in (None, len(tokens)):
                raise Malformed(
                    f"it says that it read {count} tokens, and was sent {len(tokens)}, so it adds "
                    "or drops some"
                )
            try:
                return len(tokens_of(choice)) == 1
            except Malformed:
                return False

        try:
            return self._service.ask({**body, "return_token_ids": True}, read)
        except Refused as refused:
            if refused.status not in (400, 422):
                raise
        try:
            return self._service.ask(body, read)
        except Refused as refused:
            if not self._as_tokens or refused.status not in (400, 422):
                raise
            raise ModelError(
                f"{refused.reason}: where it takes no numbers of tokens, state "
                "tokenized_requests=False"
            ) from refused

    def _try_scoring(self, shows_tokens: bool) -> tuple[Manner | None, str]:
        tokens = self._reader.encoder.text(ASKED)
        refusals = []
        for manner in self._manners:
            found = self._scored(manner, tokens, ASKED, len(tokens) - 1)
            if not isinstance(found, str):
                return self._compared(manner, tokens, shows_tokens)
            refusals.append(found)
        return None, (
            "it does not say how likely the tokens of a prompt are "
            f"({self._manners[0].name}{', or echo with logprobs' if len(self._manners) > 1 else ''}"
            f"): {refusals[-1]}"
        )

    def _scored(
        self, manner: Manner, tokens: Sequence[int], text: str, count: int
    ) -> list[Token] | str:
        """The last tokens of a prompt; else what is wrong with the answer."""

        def read(answer: Mapping[str, Any]) -> list[Token] | str:
            try:
                (choice,) = choices_of(answer, 1)
                return manner.read(choice, tokens, count)
            except Malformed as problem:  # the server's way, which is the same a second time
                return f"its answer is not what its interface says: {problem}"

        try:
            body = manner.body([self._prompt(tokens, text)], [len(tokens) - count])
            return self._service.ask(body, read)
        except Broken as broken:  # some servers fall over what they do not know
            return broken.reason
        except Refused as refused:
            if refused.status in (401, 403):
                raise
            return refused.reason

    def _compared(
        self, manner: Manner, tokens: Sequence[int], shows_tokens: bool
    ) -> tuple[Manner | None, str]:
        """The same tokens as what follows a prompt, each by a request that ends right before it."""
        prompt, text = list(tokens), ASKED
        expected: list[float] = []
        greedy: list[bool | None] = []
        for wanted_likeliest in (True, False, True):
            found = self._next(prompt, text, shows_tokens, likeliest=wanted_likeliest)
            if found is None:
                return None, "none of the tokens that it would write can be told by its text"
            token, written, logprob, is_greedy = found
            prompt, text = [*prompt, token], text + written
            expected.append(logprob)
            greedy.append(is_greedy)
        said = self._scored(manner, prompt, text, len(expected))
        if isinstance(said, str):
            return None, said
        for place, (logprob, is_top) in enumerate(said):
            reference = expected[place]
            if abs(logprob - reference) > ABSOLUTE + RELATIVE * abs(reference):
                return None, (
                    f"token {prompt[len(tokens) + place]} has the log-probability {logprob:.4g} as "
                    f"part of a prompt ({manner.name}) and {reference:.4g} after one, so one of "
                    "the two is not what it says"
                )
            if greedy[place] not in (None, is_top):
                return None, (
                    f"token {prompt[len(tokens) + place]} is told as "
                    f"{'' if is_top else 'not '}the likeliest in a prompt ({manner.name}), and "
                    "otherwise after one"
                )
        return manner, ""

    def _next(
        self, prompt: Sequence[int], text: str, shows_tokens: bool, *, likeliest: bool
    ) -> tuple[int, str, float, bool | None] | None:
        """A token that may follow: number, text, log-probability, and whether none is likelier;
        None where tokens that are written alike hide one another."""
        body = {
            **{"prompt": self._prompt(prompt, text), "max_tokens": 1},
            **{"temperature": 1.0, "logprobs": 5},  # what is drawn does not matter, only from what
            **({"return_tokens_as_token_ids": True} if shows_tokens else {}),
        }

        def read(answer: Mapping[str, Any]) -> dict[str, float]:
            (choice,) = choices_of(answer, 1)
            return top_of(choice)

        tops = self._service.ask(body, read)
        best = max(tops.values())
        # Parts of a sign beyond ASCII are all written as nothing, or as one unreadable sign.
        hides = any(not said or UNREADABLE in said for said in tops)
        ordered = sorted(tops.items(), key=lambda pair: -pair[1])
        # The sixth may be what was drawn, from anywhere.
        for said, logprob in ordered[:5] if likeliest else ordered[:5][::-1]:
            for token, written in self._tokens_named(said):
                if self._as_tokens or self._reader.encoder.text(text + written) == [*prompt, token]:
                    return token, written, logprob, None if hides else logprob >= best
        return None

    def _tokens_named(self, said: str) -> Iterator[tuple[int, str]]:
        """The token that a server writes so, with its text; none where that is not sure."""
        tokenizer = self._reader.tokenizer
        number = said.removeprefix("token_id:")
        if number != said and number.isdecimal():
            yield int(number), str(tokenizer.decode([int(number)]))
            return
        tokens = self._plain(said)
        if len(tokens) == 1 and tokenizer.decode(tokens) == said and UNREADABLE not in said:
            yield tokens[0], said
