"""The tables of a run and of a comparison, in terminals and files of any width."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import yaml

from evalcore.progress import empty_table, say
from evalcore.record import RunRecord
from evalcore.remarks import remarks_on
from evalcore.result_table import result_table
from tests.evalcore.toys import evaluated, write_toys

ROWS = (
    ("gsm8k", "strict-match", "exact_match ↑", "0.0123", "0.0077–0.0198", "1319"),
    ("  mmlu_high_school_world_history", "none", "acc ↑", "0.2532", "0.2016–0.3125", "237"),
)


@pytest.fixture
def shown(monkeypatch, capsys):
    def shown(*, width: int, terminal: bool) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TTY_COMPATIBLE", "1" if terminal else "0")
        table = empty_table("task", "filter", "metric", "value", "95 % interval", "n")
        for row in ROWS:
            table.add_row(*row)
        say(table)
        return [re.sub(r"\x1b\[\d*m", "", line) for line in capsys.readouterr().out.splitlines()]

    return shown


def test_a_narrow_terminal_gets_names_folded_and_every_number_whole(shown):
    lines = shown(width=62, terminal=True)
    assert max(map(len, lines)) <= 62
    for *_, value, interval, n in ROWS:
        assert any(all(part in line for part in (value, interval, n)) for line in lines)


@pytest.mark.parametrize(("width", "terminal"), [(62, False), (200, True), (20, True)])
def test_a_row_is_one_line_in_a_file_and_where_it_fits_or_nothing_helps(shown, width, terminal):
    lines = shown(width=width, terminal=terminal)
    for row in ROWS:
        assert any(all(cell in line for cell in row) for line in lines)


LONG = "toy_choice_of_the_largest_city_of_every_country_that_has_several"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The printed table and the files of one command, in a process whose output is a file."""
    folder = tmp_path_factory.mktemp("table")
    tasks = write_toys(folder)
    keys = yaml.safe_load((tasks / "toy_choice.yaml").read_text())
    (tasks / "long.yaml").write_text(yaml.safe_dump({**keys, "task": LONG}))
    outcome = subprocess.run(
        [
            sys.executable, "-m", "evalcore", "--model", "dummy", "--include_path", tasks,
            "--tasks", f"toy_group,toy_plain,{LONG}", "--output_path", folder / "out",
            "--bootstrap_iters", "1000",
        ],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return outcome.stdout, folder / "out" / "dummy"


def cells(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in table.splitlines()
        if line.startswith("|")
    ]


def test_the_table_of_a_run_is_markdown_of_80_columns_with_whole_names(run):
    printed, _ = run
    head, rule, *rows = cells(printed)
    assert head[:1] + head[-3:] == ["Task", "Value", "Stderr", "95 %"]
    assert all(re.fullmatch(r"-+:?", cell) for cell in rule)
    assert {len(row) for row in rows if row[0] != LONG} == {len(head)}
    table = [line for line in printed.splitlines() if line.startswith("|")]
    assert max(map(len, table)) <= 80
    names = {row[0] for row in rows}
    assert {"toy_group", "- toy_group::toy_inner", "- toy_written", LONG} <= names
    assert "exact_match,flexible ↑" in {row[1] for row in rows if len(row) > 1}


def test_its_numbers_are_those_of_the_results_file(run):
    printed, folder = run
    (file,) = folder.glob("results_*.json")
    results = json.loads(file.read_text())["results"]
    (head, _, *rows), name, compared = cells(printed), "", 0
    for row in rows:
        name = row[0].removeprefix("- ") or name
        stated = dict(zip(head, row, strict=False))
        if not stated.get("Value"):
            continue
        metric, _, filter = stated["Metric"].split()[0].partition(",")
        scores, key = results[name], filter or "none"
        assert stated["Value"] == f"{scores[f'{metric},{key}']:.4f}"
        error = scores[f"{metric}_stderr,{key}"]
        assert stated["Stderr"] == (error if error == "N/A" else f"{error:.4f}")
        compared += 1
    assert compared > 10


def test_a_part_that_is_the_whole_has_no_row(tmp_path):
    tasks = write_toys(tmp_path)
    keys = yaml.safe_load((tasks / "toy_choice.yaml").read_text())
    about = {"benchmark": "toy", "version": 1, "subset": "lands"}
    (tasks / "toy_choice.yaml").write_text(yaml.safe_dump({**keys, "metadata": about}))
    (evaluation,) = evaluated(tasks, "toy_choice")
    assert {row.subset for row in evaluation.record.results} == {"", "lands"}
    assert "lands" not in result_table([evaluation.record])


def test_of_fewer_than_ten_documents_it_is_markdown_too(tmp_path):
    (evaluation,) = evaluated(write_toys(tmp_path), "toy_choice", limit=4)
    head, rule, *rows = cells(result_table([evaluation.record]))
    assert (head[-1], rows[0][-1]) == ("n", "4")
    assert all(re.fullmatch(r"-+:?", cell) for cell in rule)


def test_what_is_true_of_many_tasks_is_remarked_once(run):
    _, folder = run
    (path,) = folder.glob("record_toy_plain_*.json")
    fields = json.loads(path.read_text())
    fields["requests"]["truncated"] = 2
    fields["failures"] = [{"task": "x", "metric": "m", "filter": "none", "reason": "why"}]
    many = [RunRecord.of({**fields, "task": f"task_{number}"}) for number in range(40)]
    total = 40 * fields["requests"]["total"]
    assert remarks_on(many) == [
        "not computed: x: m (none): why",
        f"‡ task_0, task_1, task_2 and 37 more: 80 of {total} prompts lost their beginning",
    ]
