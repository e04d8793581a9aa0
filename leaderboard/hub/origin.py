"""Where a model's weights come from, and whether its chat template takes an instruction.

The kind and the base are what the authors state in card and tags, no proof; only equal digests of
weights are facts. A chat template is read as a program and never run: it is a stranger's. An
instruction is a turn of the system. Templates such as Gemma 2's refuse it by `raise_exception`, and
a run in strict fails at its first benchmark with an instruction.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jinja2 import Environment, TemplateError, nodes

from evalcore.digest import digest_of
from leaderboard.hub.repository import TEMPLATE, Repository, clean_text
from leaderboard.models.variant import Kind

EXPERT_KEYS = re.compile(r"(moe_)?(n|num)_((local|routed|moe|total)_)?experts|expert_(num|count)")
"""Keys of config.json for the number of experts, of which each token uses some."""
CHOSEN_EXPERT_KEYS = re.compile(
    r"((moe_)?(n|num)_(activated_|selected_)?experts_per_tok(en)?|(num|n)_(activated|selected)_experts"
    r"|num_experts_per_topk|moe_top_?k|top_k_experts|num_topk|moe_k)"
)
"""Keys for how many of them."""
OTHER_PARTS = ("vision", "audio", "quantization")
"""Parts of a configuration that say nothing of the part for texts."""
MAX_PART_DEPTH = 3
MERGE_TAGS = frozenset({"merge", "mergekit"})
RELATIONS = ("finetune", "merge", "adapter", "quantized")
REPOSITORY = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?", re.ASCII)


@dataclass(frozen=True)
class Origin:
    """As stored with a variant; empty and False where nothing is stated."""

    kind: str
    base_model: str
    """The first that is named."""
    merged: bool
    moe: bool
    active_parameters: int | None
    """Of a mixture of experts those that a token uses; None where nobody can tell."""
    weights_digest: str
    """Equal for the same weight files under two names; empty where the Hub tells no digests."""
    chat_template_digest: str | None
    """SHA-256 of the template's text, empty where it has none; None where nobody looked."""

    def fields(self) -> dict[str, Any]:
        """What is known, by the names of a variant's fields."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def origin_of(repository: Repository) -> Origin:
    bases = _bases(repository)
    merged = _is_merged(repository, bases)
    digests = repository.weight_digests
    return Origin(
        kind=_kind(repository, bases, merged),
        base_model=next(iter(bases), ""),
        merged=merged,
        moe=_is_moe(repository),
        active_parameters=_active_parameters(repository),
        weights_digest=digest_of(list(digests)) if digests else "",
        chat_template_digest=_template_digest(repository.chat_template),
    )


def _bases(repository: Repository) -> dict[str, str]:
    """Base models in the order of the card, each with how it was used (may be empty)."""
    bases_of_card = repository.card.get("base_model")
    names = bases_of_card if isinstance(bases_of_card, list) else [bases_of_card]
    relation = str(repository.card.get("base_model_relation") or "")
    bases = {name: relation for name in names if isinstance(name, str)}
    for tag in sorted(repository.tags):
        how, _, name = tag.removeprefix("base_model:").partition(":")
        if tag.startswith("base_model:") and name and how in RELATIONS:
            bases[name] = how
    return {name: how for name, how in bases.items() if REPOSITORY.fullmatch(name)}


def _is_merged(repository: Repository, bases: Mapping[str, str]) -> bool:
    """As the Hub takes it: a model with several bases and no other relation is a merge."""
    unstated = len(bases) > 1 and not any(bases.values())
    return unstated or "merge" in bases.values() or bool(MERGE_TAGS & repository.tags)


def _kind(repository: Repository, bases: Mapping[str, str], merged: bool) -> str:
    if merged:
        return Kind.MERGE.value
    if (
        repository.chat_template
        or TEMPLATE in repository.files
        or "conversational" in repository.tags
    ):
        return Kind.CHAT.value
    if any(how != "quantized" for how in bases.values()):
        return Kind.FINE_TUNED.value
    return Kind.PRETRAINED.value if "pretrained" in repository.tags else Kind.UNKNOWN.value


def _is_moe(repository: Repository) -> bool:
    return "moe" in repository.tags or max(_counts(repository.config, EXPERT_KEYS), default=0) > 1


def _active_parameters(repository: Repository) -> int | None:
    """How many parameters a token uses, of a mixture of experts: all but the experts that are not
    chosen for it. None where files and configuration do not tell."""
    weights = repository.weights
    experts, chosen = (
        set(_counts(repository.config, key)) - {0} for key in (EXPERT_KEYS, CHOSEN_EXPERT_KEYS)
    )
    if weights is None or not weights.of_experts or len(experts) != 1 or len(chosen) != 1:
        return None
    each, used = max(experts), max(chosen)
    if repository.quantisation or not 0 < used < each:
        return None
    return weights.count - weights.of_experts + weights.of_experts * used // each


def _counts(config: Any, key: re.Pattern[str], depth: int = MAX_PART_DEPTH) -> Iterator[int]:
    """What a configuration and its parts say under such a key; of a list each number of it."""
    if not isinstance(config, dict) or depth < 1:
        return
    for name, value in config.items():
        if key.fullmatch(name):
            numbers = value if isinstance(value, list) else [value]
            yield from (n for n in numbers if isinstance(n, int) and not isinstance(n, bool))
        elif not name.startswith(OTHER_PARTS):
            yield from _counts(value, key, depth - 1)


def _template_digest(template: str | None) -> str | None:
    if not template:
        return template
    return hashlib.sha256(template.encode(errors="surrogatepass")).hexdigest()


# Whether a chat template takes an instruction

SYSTEM = "system"
ROLES = frozenset({"user", "assistant", "model"})
MAX_TEMPLATE_CHARACTERS = 1 << 17
"""Characters; the longest of well-known models have 20,000."""
MAX_REFUSAL_CHARACTERS = 100
"""Characters of what a template says where it refuses."""
REFUSAL_CALL = "raise_exception"

_GENERATION = re.compile(r"\{%[-+]?\s*(?:end)?generation\s*[-+]?%\}")
"""Marks of transformers around what the model says, which Jinja does not know."""
_SYNTAX = Environment(autoescape=True, extensions=["jinja2.ext.loopcontrols"])


def refuses_system(template: str) -> str:
    """In what words a template refuses the system's turn; empty where it takes the turn, and where
    that cannot be told from the text.

    It refuses where each test for that role ends in a refusal; or where there is none, and a test
    for another role does.
    """
    if REFUSAL_CALL not in template or len(template) > MAX_TEMPLATE_CHARACTERS:
        return ""
    try:
        tree = _SYNTAX.parse(_GENERATION.sub("", template))
        by_test = [(branch.test, _refusal(branch.body)) for branch in tree.find_all(nodes.If)]
        system_tests = [test for test in tree.find_all(nodes.Compare) if SYSTEM in _texts(test)]
        if system_tests:
            refusal_of = {id(test): words for test, words in by_test if _is_role(test)}
            refusals = [refusal_of.get(id(test), "") for test in system_tests]
            return refusals[0] if all(refusals) else ""
        if SYSTEM in _texts(tree):
            return ""
        role_refusals = [
            (branch.test, words)
            for branch in tree.find_all(nodes.If)
            for words in (_refusal(branch.body), _refusal(branch.else_))
        ]
        of_roles = (words for test, words in role_refusals if words and ROLES & {*_texts(test)})
        return next(of_roles, "")
    except (TemplateError, RecursionError):
        return ""


def _is_role(test: nodes.Node) -> bool:
    """Whether it asks nothing else than whether the role is the system's."""
    return isinstance(test, nodes.Compare) and [operand.op for operand in test.ops] == ["eq"]


def _texts(node: nodes.Node) -> Iterator[str]:
    constants = [*node.find_all(nodes.Const), *([node] if isinstance(node, nodes.Const) else [])]
    return (constant.value for constant in constants if isinstance(constant.value, str))


def _refusal(body: Sequence[nodes.Node]) -> str:
    """With what words these statements refuse in any case."""
    for statement in body:
        for call in statement.nodes if isinstance(statement, nodes.Output) else ():
            if isinstance(call, nodes.Call) and getattr(call.node, "name", "") == REFUSAL_CALL:
                words = " ".join(word for argument in call.args for word in _texts(argument))
                return clean_text(words, MAX_REFUSAL_CHARACTERS) or REFUSAL_CALL
    return ""
