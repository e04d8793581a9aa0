"""What each `--model` can do is told by the backends, on the command line and in docs/models.md."""

from __future__ import annotations

import pytest

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.model.protocols import Adapting
from evalcore.model.registry import MODELS, backend_of
from tests.hub import ROOT

Table = dict[str, dict[str, str]]


@pytest.fixture
def listed(capsys: pytest.CaptureFixture[str]) -> Table:
    assert main(["ls", "models"]) == 0
    head, *rows = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert head[0] == "--model"
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def documented() -> Table:
    """The table of docs/models.md, whose head is the one with `copies`."""
    lines = (ROOT / "docs" / "models.md").read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.endswith("| copies |"))
    rows = []
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    head, _, *bodies = rows
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in bodies}


def test_the_guide_says_of_every_model_what_its_code_says(listed: Table) -> None:
    assert documented() == listed
    assert list(documented()) == list(MODELS)


def test_a_row_is_the_statement_of_the_backend(listed: Table) -> None:
    for name, told in listed.items():
        can = backend_of(name).capabilities
        assert {what: word == "yes" for what, word in told.items() if what != "conversations"} == {
            "continuations": can.loglikelihood,
            "whole texts": can.rolling,
            "writing": can.generate,
            "images": can.images,
            "sound": can.sounds,
            "adapters": can.adapters,
            "quantised": can.quantised,
            "copies": can.copies,
        }
        assert told["conversations"] == (f"as {can.chat}" if can.chat else "no")


@pytest.mark.parametrize("name", sorted({*MODELS} - {"dummy"}))  # which takes anything
def test_an_adapter_is_taken_where_that_is_said(name: str) -> None:
    """Several adapters are put on by `hf` alone; others say which argument they do not know."""
    backend = backend_of(name)
    if backend.capabilities.adapters:
        assert isinstance(backend, Adapting) or name == "vllm"
        return
    with pytest.raises(ModelError, match="peft"):
        backend.from_arguments({"pretrained": "a", "model": "a", "peft": "b/c"})
