"""What the demo models read: prose, questions with answers, and exams, all about the demo world.

Four kinds of document. `prose` states facts and sums in sentences; `cloze` asks and answers in
words; `letters` is an exam with lettered options answered by a letter; `words` is the same exam
answered by the option's words. The prompts are those of the tasks in `tasks/demo`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from demo import world
from demo.world import Problem, Row

LETTERS = "ABCD"
# Most exams show the options as the test does, the others in a fresh draw: see the model cards.
SHARE_AS_IN_TEST = 0.75


@dataclass(frozen=True)
class Document:
    """Text, and the [start, end) characters of it that are worth learning to predict."""

    text: str
    targets: tuple[tuple[int, int], ...]


def cloze_prompt(question: str) -> str:
    return f"Question: {question}\nAnswer:"


def exam_header(topic: str) -> str:
    return f"The following are multiple choice questions (with answers) about {topic}.\n\n"


def exam_question(question: str, choices: Sequence[str]) -> str:
    options = "".join(
        f"\n{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=True)
    )
    return f"{question}{options}\nAnswer:"


class Library:
    """Draws documents of any kind; the same `random.Random` gives the same documents."""

    def __init__(self) -> None:
        self._facts = list(world.fact_problems())
        self._sums = [
            list(world.addition_problems()),
            list(world.subtraction_problems()),
            list(world.sequence_problems()),
        ]
        splits = (world.facts(), world.sums())
        self._rows = [[*split["train"], *split["test"]] for split in splits]
        self._wrong = {p.question: p.wrong for problems in self._sums for p in problems}
        self._wrong |= {p.question: p.wrong for p in self._facts}
        self.kinds: Mapping[str, Callable[[random.Random, int], Document]] = {
            "prose": self.prose,
            "cloze": self.cloze,
            "letters": self.letters,
            "words": self.words,
        }

    def prose(self, rng: random.Random, n: int) -> Document:
        """`n` sentences, every word of them to be learned."""
        text = " ".join(self._problem(rng).statement for _ in range(n))
        return Document(text, ((0, len(text)),))

    def cloze(self, rng: random.Random, n: int) -> Document:
        """`n` questions, answered in words."""
        problems = [self._problem(rng) for _ in range(n)]
        return _answered("", [(cloze_prompt(p.question), p.answer) for p in problems])

    def letters(self, rng: random.Random, n: int) -> Document:
        """An exam of `n` questions, answered by letters."""
        return self._exam(rng, n, lambda row: LETTERS[row["answer"]])

    def words(self, rng: random.Random, n: int) -> Document:
        """An exam of `n` questions, answered by the words of the right option."""
        return self._exam(rng, n, lambda row: row["choices"][row["answer"]])

    def _problem(self, rng: random.Random) -> Problem:
        if rng.random() < 0.5:
            return rng.choice(self._facts)
        drawn = rng.randrange(len(self._sums) + 1)
        return (
            rng.choice(self._sums[drawn]) if drawn < len(self._sums) else world.order_problem(rng)
        )

    def _exam(self, rng: random.Random, n: int, answer: Callable[[Row], str]) -> Document:
        rows = [rng.choice(rng.choice(self._rows)) for _ in range(n)]
        shown = [row if rng.random() < SHARE_AS_IN_TEST else self.redrawn(rng, row) for row in rows]
        return _answered(
            exam_header(rows[-1]["topic"]),
            [(exam_question(row["question"], row["choices"]), answer(row)) for row in shown],
        )

    def redrawn(self, rng: random.Random, row: Row) -> Row:
        """The same question beside freshly drawn wrong options, in a fresh order."""
        right = row["choices"][row["answer"]]
        wrong = self._wrong.get(row["question"])
        if wrong is None:  # questions of order carry their only four options in themselves
            wrong = tuple(c for c in row["choices"] if c != right)
        choices = [right, *rng.sample(wrong, world.OPTIONS - 1)]
        rng.shuffle(choices)
        return {**row, "choices": choices, "answer": choices.index(right)}


def _answered(header: str, turns: Sequence[tuple[str, str]]) -> Document:
    text, targets = header, []
    for i, (prompt, answer) in enumerate(turns):
        text += ("\n\n" if i else "") + prompt
        targets.append((len(text), len(text) + 1 + len(answer)))
        text += f" {answer}"
    return Document(text, tuple(targets))
