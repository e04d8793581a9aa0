"""What a chat template says of itself, read as a program and never run: it is a stranger's.

An instruction is a turn of the system. Templates such as Gemma 2's refuse it by
`raise_exception`, and a run in strict fails at its first benchmark with an instruction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from jinja2 import Environment, TemplateError, nodes

from leaderboard.hub import cleaning

SYSTEM = "system"
ROLES = frozenset({"user", "assistant", "model"})
LONGEST_READ = 1 << 17
"""Characters; the longest of well-known models have 20,000."""
LONGEST_WORDS = 100
"""Characters of what a template says where it refuses."""
REFUSES = "raise_exception"

_GENERATION = re.compile(r"\{%[-+]?\s*(?:end)?generation\s*[-+]?%\}")
"""Marks of transformers around what the model says, which Jinja does not know."""
_SYNTAX = Environment(autoescape=True, extensions=["jinja2.ext.loopcontrols"])


def refuses_system(template: str) -> str:
    """In what words a template refuses the system's turn; empty where it takes the turn, and where
    that cannot be told from the text.

    It refuses where each test for that role ends in a refusal; or where there is none, and a test
    for another role does.
    """
    if REFUSES not in template or len(template) > LONGEST_READ:
        return ""
    try:
        tree = _SYNTAX.parse(_GENERATION.sub("", template))
        by_test = [(branch.test, _refusal(branch.body)) for branch in tree.find_all(nodes.If)]
        if asked := [test for test in tree.find_all(nodes.Compare) if SYSTEM in _texts(test)]:
            said = {id(test): words for test, words in by_test if _is_role(test)}
            return said.get(id(asked[0]), "") if all(said.get(id(test)) for test in asked) else ""
        if SYSTEM in _texts(tree):
            return ""
        others = [
            (branch.test, words)
            for branch in tree.find_all(nodes.If)
            for words in (_refusal(branch.body), _refusal(branch.else_))
        ]
        refusals = (words for test, words in others if words and ROLES & {*_texts(test)})
        return next(refusals, "")
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
            if isinstance(call, nodes.Call) and getattr(call.node, "name", "") == REFUSES:
                words = " ".join(word for argument in call.args for word in _texts(argument))
                return cleaning.text(words, LONGEST_WORDS) or REFUSES
    return ""
