r"""AGIEval's written answers as lm-evaluation-harness reads and compares them."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

from evalcore.task.transforms.agieval_written import found, is_right


@pytest.mark.parametrize(
    ("answer", "response", "right"),
    [
        ("8", "2 + 6 = 8", True),
        ("8", r"It is $x=8$, not 9.", True),
        (r"$\frac{1}{2}$", r"\boxed{0.5}", True),
        (r"$\frac{1}{2}$", "$1/2$", True),
        (r"\frac{1}{2}", "2", True),
        ("8", "eight", False),
        ("none", "nothing", True),
    ],
)
def test_an_answer_is_found_and_compared(answer: str, response: str, right: bool) -> None:
    assert is_right(answer, response) is right


PARTS = (
    *(
        "\\boxed{",
        "}",
        "{",
        "$",
        "=",
        "x",
        "1",
        "2",
        "0.5",
        ".5",
        "/",
        "\\frac",
        "\\sqrt",
        " ",
        "3",
    ),
    *("\\text{ cm}", "\\text{ ", "%", "\\%", "\\$", "tfrac", "dfrac", "\\left(", "\\right)", "7/8"),
    *("^\\circ", "\n", "\\n", ".", "y= ", "\\fbox{3}", "\\boxed", "\\dfrac12", "\\frac{1}{2}"),
)


@pytest.mark.peer
def test_as_lm_evals_own_code_does(capsys: pytest.CaptureFixture[str]) -> None:
    package = importlib.util.find_spec("lm_eval")
    if package is None or package.origin is None:
        pytest.skip("lm_eval is not installed (extra `peer`)")
    file = Path(package.origin).parent / "tasks" / "agieval" / "utils.py"
    spec = importlib.util.spec_from_file_location("agieval_of_lm_eval", file)
    assert spec is not None
    assert spec.loader is not None
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    generator = random.Random(5)
    for _ in range(20_000):
        answer = "".join(generator.choices(PARTS, k=generator.randint(0, 6)))
        other = "".join(generator.choices(PARTS, k=generator.randint(0, 3)))
        response = generator.choice((answer, other, answer + other))
        assert found(answer) == theirs.parse_math_answer(answer)
        assert is_right(answer, response) == theirs.is_equiv(response, answer), (answer, response)
    capsys.readouterr()
