"""How the state of a run is said: a mark, a phase in words, and for a failure who must act."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlencode

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from evalcore.record import RunRecord
from leaderboard.models import Run
from leaderboard.models.run import ErrorClass
from leaderboard.models.task import is_share
from leaderboard.templatetags.figures import roughly, usual_range
from leaderboard.web import Span

MEANINGS = {
    "Commit": (
        "The exact state of the repository that was loaded: a branch can move, a commit cannot."
    ),
    "Precision": "The format of numbers that the weights were computed in, and any quantisation.",
    "Adapter on": "The model whose weights the adapter changes, and its exact state.",
    "Tokenizer": "SHA-256 of all that it does: the same digest cuts every text the same way.",
    "Chat template": "What put the prompts into turns of a conversation, with its digest.",
    "Context": "The most tokens that the model takes. Longer prompts lose their beginning.",
    "Task digest": "SHA-256 of everything in the task file that can change a prompt or a score.",
    "Mode": (
        "strict: this engine’s own rules, the board’s default. "
        "compat: those of lm-evaluation-harness 0.4.13, its quirks included."
    ),
    "Documents": "SHA-256 over all documents that were scored, in their order.",
    "Comparability": (
        "SHA-256 over all that must be equal before two numbers may share a column: task, "
        "documents, prompts, examples, mode, metric and the version of the scoring."
    ),
    "Engine": "The scoring version changes when the same answers would get another number.",
    "Requests": "What the model was asked: a choice of four is four continuations of a prompt.",
    "Computing time": "Prompts, tokens, answers and scores of this run, no waiting, no loading.",
}
"""Fields of a run that do not explain themselves."""

register = template.Library()

_MARKS = {
    "done": "ok",
    "failed": "fail",
    "running": "now",
    "queued": "wait",
    "cancelled": "off",
    "superseded": "off",
    "recalled": "warn",
}
_PHASES = {
    "": "starting",
    "fetch": "downloading model and questions",
    "download": "downloading model and questions",
    "load": "loading the model",
    "prepare": "preparing the prompts",
    "turn": "waiting for its turn",
    "evaluate": "answering",
    "store": "storing the results",
}
_CHOICES_OF_SHOTS = {
    "per-document": "drawn for each question",
    "fixed": "drawn once for all questions",
    "first_n": "the first ones of the split",
    "inline per-document": "drawn for each question from those in the task file",
    "inline fixed": "drawn once for all questions from those in the task file",
    "inline first_n": "the first ones in the task file",
    "mixed": "chosen in each task’s own way",
}
_SPECIAL_TOKENS = {
    "tokenizer": "special tokens as the tokenizer adds them",
    "always": "special tokens always added",
    "never": "special tokens never added",
}


@dataclass(frozen=True)
class Failure:
    """What a failed run tells its reader beyond its own message."""

    title: str
    remedy: str
    button: str
    url: str


@register.filter
def failure(run: Run) -> Failure:
    """Who must act on a failed run, and the one next step."""
    variant = run.variant
    query = {"model": variant.hub_model.repo_id}
    same = urlencode({**query, "revision": variant.commit, "dtype": variant.dtype})
    submit = reverse("submit")
    if run.error_class == ErrorClass.MODEL:
        return Failure(
            "The model could not be evaluated",
            "Push a revision in which this is repaired, then submit that revision.",
            "Check the newest revision",
            f"{submit}?{urlencode(query)}",
        )
    if run.error_class == ErrorClass.TASK:
        return Failure(
            "The task failed",
            "Nothing is wrong with the model. The task’s author has to publish a new version; "
            "then submit the model again.",
            "Check this revision again",
            f"{submit}?{same}",
        )
    return Failure(
        "We failed",
        "As far as we can tell the fault is not the model’s. Submit it again: only what failed is "
        "repeated. Should it fail in the same way again, tell who runs this site.",
        "Submit again",
        f"{submit}?{same}",
    )


@register.simple_tag
def state_mark(run: Run) -> SafeString:
    """The run's state as a shape and a word."""
    words = run.get_state_display()
    if run.recall_id and run.state != Run.State.RECALLED:
        words = f"{words}, recalled"
    return format_html('<span class="st {}">{}</span>', _MARKS[run.state], words)


class Awaited(Protocol):
    """A turn of the queue."""

    @property
    def obstacle(self) -> str: ...

    @property
    def begins(self) -> Span | None: ...


_UNKNOWN = mark_safe('<span class="none">unknown</span>')


@register.simple_tag
def starts(turn: Awaited) -> SafeString:
    """When a turn begins, or why that cannot be said."""
    if turn.obstacle and turn.obstacle not in ("resting", "full"):
        return mark_safe('<span class="none">no worker can take it</span>')
    if turn.begins is None:
        return _UNKNOWN
    if turn.begins.high < 1:
        return mark_safe("<b>next</b>")
    return format_html("<b>{}</b>{}", roughly(turn.begins), _range_below(turn.begins))


@register.simple_tag
def takes(span: Span | None) -> SafeString:
    """How long runs take, one after the other."""
    if span is None:
        return _UNKNOWN
    return format_html("{}{}", roughly(span), _range_below(span))


def _range_below(span: Span) -> SafeString | str:
    found = usual_range(span)
    return format_html(' <span class="iv">{}</span>', found) if found else ""


@register.filter
def phase(run: Run) -> str:
    return _PHASES.get(run.phase, run.phase)


@register.filter
def so_far(run: Run) -> str:
    """How much of its phase is done, in the unit of that phase."""
    what = "data sets downloaded" if run.phase == "download" else "requests answered"
    return f"{run.progress_done:,} of {run.progress_total:,} {what}"


@register.filter
def seconds_taken(run: Run) -> float | None:
    if run.started is None or run.finished is None:
        return None
    return (run.finished - run.started).total_seconds()


@register.filter
def choice_of_shots(record: RunRecord) -> str:
    """How the worked examples were chosen; a word that this site does not know stands as it is."""
    rule = record.shot_rule.partition("/")[0]  # behind it the version of strict's draw
    words = _CHOICES_OF_SHOTS.get(rule, record.shot_rule)
    return words if record.shot_seed is None else f"{words}, seed {record.shot_seed}"


@register.filter
def special_tokens(policy: str) -> str:
    return _SPECIAL_TOKENS.get(policy, policy)


@register.filter
def error_in(stderr: float, metric: str) -> str:
    """A standard error in its metric's unit; of a share in points, to two decimals."""
    return f"{100 * stderr:.2f}" if is_share(metric) else f"{stderr:,.3g}"


@register.simple_tag
def term(label: str) -> SafeString:
    """A field's name; its meaning on hovering, and in the list of MEANINGS for everybody else."""
    return format_html('<dt><dfn title="{}">{}</dfn></dt>', MEANINGS[label], label)


@register.simple_tag
def meanings() -> list[tuple[str, str]]:
    return list(MEANINGS.items())
