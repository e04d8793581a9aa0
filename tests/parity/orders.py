"""What both engines are asked to do: tasks, and settings under which each is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

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

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Order:
        return cls(
            **{
                **fields,
                "names": tuple(fields["names"]),
                "folders": tuple(fields["folders"]),
                "exported": tuple(fields["exported"]),
                "settings": tuple(_setting(setting) for setting in fields["settings"]),
            }
        )


def _setting(fields: Mapping[str, Any]) -> Setting:
    samples = fields["samples"]
    return Setting(**{**fields, "samples": tuple(samples) if samples else None})
