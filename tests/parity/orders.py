"""What both engines are asked to do and what they are told.

Asked are tasks, each under settings. Told is one recorded table of responses, with one chat
template. A response is made of nothing but the request's own text (and, for texts, the right
answer), by a digest: some loglikelihoods are equal to others to the bit, some texts hold the
answer. What one engine was told is written down; the other is told the same, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from evalcore.task.identity.digest import json_ready

FEWSHOT_SEED = 1234
BOOTSTRAP_ITERS = 2000
"""Resamples of both engines in the first setting: two of lm-evaluation-harness's chunks of 1,000;
elsewhere fewer, for its f1 takes milliseconds each."""
FEW_ITERS = 20
SYSTEM = "You are a careful examiner."


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a task is asked: the options of both engines' commands, by their common names."""

    name: str
    num_fewshot: int | None = None
    """None: as the task file says."""
    limit: float | None = 10
    samples: tuple[int, ...] | None = None
    """Rows of every task to score instead of the first ones."""
    predict_only: bool = False
    system_instruction: str | None = None
    apply_chat_template: bool = False
    fewshot_as_multiturn: bool = False
    gen_kwargs: Mapping[str, Any] | None = None
    bootstrap_iters: int = FEW_ITERS

    def options(self, leaves: Sequence[str]) -> dict[str, Any]:
        """By the names that both engines have for them; `leaves` are the tasks that are run."""
        stated = asdict(self)
        del stated["name"]
        rows = list(self.samples) if self.samples else None
        # Recorded programs are run, in a sandbox of ours.
        return {
            **stated,
            "samples": dict.fromkeys(leaves, rows) if rows else None,
            "gen_kwargs": dict(self.gen_kwargs) if self.gen_kwargs else None,
            "confirm_run_unsafe_code": True,
        }


SETTINGS = (
    Setting(name="zero-shot", num_fewshot=0, bootstrap_iters=BOOTSTRAP_ITERS),
    Setting(name="three-shot", num_fewshot=3),
    Setting(name="own shots, system", system_instruction=SYSTEM, limit=4),
    Setting(
        name="chat, zero-shot, no bootstrap",
        num_fewshot=0,
        apply_chat_template=True,
        gen_kwargs={"temperature": 0.5, "do_sample": True, "max_gen_toks": 7},
        limit=4,
        bootstrap_iters=0,
    ),
    Setting(
        name="chat, turns, system",
        num_fewshot=2,
        system_instruction=SYSTEM,
        apply_chat_template=True,
        fewshot_as_multiturn=True,
        limit=4,
    ),
    Setting(name="chat, one turn", num_fewshot=2, apply_chat_template=True, limit=4),
)


RARE_SETTINGS = (
    Setting(name="chosen rows", num_fewshot=2, limit=None, samples=(2, 3, 7)),
    Setting(name="a share of the documents", num_fewshot=1, limit=0.03),
    Setting(name="predictions only", num_fewshot=1, limit=4, predict_only=True),
)


@dataclass(frozen=True, kw_only=True)
class Order:
    """Tasks (leaf tasks, tags, groups) of some folders, each under each setting."""

    names: tuple[str, ...]
    settings: tuple[Setting, ...] = SETTINGS
    folders: tuple[str, ...] = ()
    """Task folders besides lm-evaluation-harness's own."""
    exported: tuple[str, ...] = ()
    """What lm-evaluation-harness reads in place of these, where families are among them."""
    lm_evals_own: bool = True
    """Whether lm-evaluation-harness's own folder is read, too."""


ORDER = TypeAdapter(Order)
"""As JSON: how an order is told to another process."""


# The table of responses


Message = Mapping[str, str]

CHAT_TEMPLATE = "(tests/parity/orders.py: render_chat)"


def render_chat(messages: Sequence[Message], add_generation_prompt: bool) -> str:
    """Every role and every border of a message can be seen in the prompt."""
    closed = "".join(f"<|{message['role']}|>{message['content']}<|end|>\n" for message in messages)
    if add_generation_prompt:
        return f"{closed}<|assistant|>"
    return closed.removesuffix("<|end|>\n")


class NotRecorded(LookupError):
    """A request that the first engine never made."""


@dataclass
class Table:
    """Responses by digest of the request and number of the repeat."""

    responses: dict[str, Any] = field(default_factory=dict)

    def record(self, kind: str, arguments: Sequence[Any], repeat: int, gold: str) -> Any:
        """The response to a request, made up at the first time that it is asked."""
        key = _key(kind, arguments, repeat)
        if key not in self.responses:
            self.responses[key] = _RESPONDERS[kind](key, arguments, gold)
        return self.responses[key]

    def look_up(self, kind: str, arguments: Sequence[Any], repeat: int) -> Any:
        """Raises NotRecorded for a request that differs in one letter from all recorded ones."""
        try:
            return self.responses[_key(kind, arguments, repeat)]
        except KeyError:
            raise NotRecorded(f"no response to {kind} {arguments!r:.400}") from None

    def replace(self, kind: str, arguments: Sequence[Any], repeat: int, response: Any) -> None:
        self.responses[_key(kind, arguments, repeat)] = response

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.responses), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Table:
        return cls(json.loads(path.read_text(encoding="utf-8")))


def _key(kind: str, arguments: Sequence[Any], repeat: int) -> str:
    # An image is its pixels, on either side.
    text = json.dumps(
        [kind, list(arguments), repeat], ensure_ascii=False, sort_keys=True, default=json_ready
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _number(key: str, place: int) -> int:
    """A number below 2**16 out of the digest; each place is another one."""
    return int(key[4 * place : 4 * place + 4], 16)


def _loglikelihood(key: str, arguments: Sequence[Any], _: str) -> list[Any]:
    context, continuation = arguments
    per_character = _number(key, 0) / 2**16
    # A quarter of the contexts gives whole numbers: their choices tie often.
    tied = int(hashlib.sha256(context.encode()).hexdigest()[:2], 16) % 4 == 0
    value = -float(1 + _number(key, 1) % 3) if tied else -per_character * (1 + len(continuation))
    return [value, _number(key, 2) % 3 == 0]


def _rolling(key: str, arguments: Sequence[Any], _: str) -> float:
    return -len(arguments[0]) * (0.5 + _number(key, 0) / 2**16)


def _text(key: str, _: Sequence[Any], gold: str) -> str:
    """In the forms that the filters of published tasks look for, and in some that none does."""
    letter = "ABCD"[_number(key, 1) % 4]
    short = gold.rsplit("####", 1)[-1].strip()
    texts = (
        gold,
        f" {short}",
        f"{short}.",
        gold.lower(),
        f"Let's think step by step.\nThe answer is {short}.",
        f"So the answer is {short}. Or ({letter})?",
        f"The best answer is {short}",
        f"Two and {_number(key, 2) % 50} make it.\n#### {short}\nThe final answer is {short}",
        letter,
        f"({letter}) The answer is ({letter}). I hope it is correct.",
        f"Die L\u00f6sung, na\u00efve: {gold} \u2260 {_number(key, 3)} und {short}",
        "",
    )
    return texts[_number(key, 0) % len(texts)]


_RESPONDERS = {
    "loglikelihood": _loglikelihood,
    "loglikelihood_rolling": _rolling,
    "generate_until": _text,
}
