"""The tables of a run and of a comparison, in terminals and files of any width."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import astuple, replace

import pyarrow.parquet as pq
import pytest

from evalcore.cli import main
from evalcore.formats.lmeval.results import leaves_of
from evalcore.lengths import NAMES, Lengths
from evalcore.library import evaluate
from evalcore.progress import empty_table, say
from evalcore.record import RunRecord, read_samples
from evalcore.remarks import remarks_on
from evalcore.result_table import result_table
from tests import tiny
from tests.evalcore.toys import evaluated, write_run, write_toy, write_toys

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
    write_toy(tasks, LONG, "toy_choice")
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


def test_the_table_of_a_run_is_markdown_with_the_numbers_of_the_results_file(run):
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
    about = {"benchmark": "toy", "version": 1, "subset": "lands"}
    write_toy(tasks, "toy_choice", metadata=about)
    (evaluation,) = evaluated(tasks, "toy_choice")
    assert {row.subset for row in evaluation.record.results} == {"", "lands"}
    assert "lands" not in result_table([evaluation.record])


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


# How many answers and prompts of a number were cut short


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of a tiny model with little room, whose answers have eight tokens."""
    folder = tmp_path_factory.mktemp("lengths")
    model = tiny.make(folder / "model", positions=60)
    tasks = write_toys(folder / "toys")
    for name, arguments in {
        "plain": {},
        "thinking": {"think_end_token": "</think>"},
        "budget": {"think_end_token": "</think>", "thinking_budget": 5},
    }.items():
        runs = evaluate(
            "hf", "toy_group", model_args={"pretrained": str(model), **arguments},
            include_path=tasks, device="cpu", bootstrap_iters=0,
        )  # fmt: skip
        write_run(folder / name, runs)
    return folder


def record_of(folder):
    (path,) = folder.glob("record_*.json")
    return RunRecord.read(path)


def samples_of(folder):
    return list(read_samples(folder / record_of(folder).samples.file))


@pytest.mark.parametrize("name", ["plain", "thinking", "budget"])
def test_every_number_counts_the_responses_to_its_own_documents(folder, name):
    """A group those of the tasks that have the metric, a part its own."""
    record, samples = record_of(folder / name), samples_of(folder / name)
    for row in record.results:
        column = (row.metric, row.filter)
        having = {other.task for other in record.results if (other.metric, other.filter) == column}
        tasks = {row.task}
        if row.task in record.groups:
            tasks = set(leaves_of(row.task, record.groups)) & having
        responses = [
            r for sample in samples if sample["task"] in tasks for r in sample["responses"]
        ]
        written = [r for r in responses if r["kind"] == "generate_until"]
        assert row.lengths == Lengths(
            requests=len(responses),
            prompts_cut=sum(r["n_truncated"] > 0 for r in responses),
            answers=len(written),
            by_length=sum(r["finish_reason"] == "length" for r in written),
            still_thinking=sum(r["thinking"] == "unended" for r in written),
            thoughts_cut=sum(r["thinking"] == "cut" for r in written),
        )
    written = next(row.lengths for row in record.results if row.task == "toy_written")
    assert written.by_length > 0
    assert written.prompts_cut > 0
    assert (written.still_thinking > 0) == (name == "thinking")
    assert (written.thoughts_cut > 0) == (name == "budget")
    assert record.requests["by_length"] == written.by_length


def test_a_metric_that_some_documents_do_not_have_counts_the_others_alone(tmp_path):
    tasks = write_toys(tmp_path)
    (tasks / "halves.py").write_text(
        "def score(doc, results):\n"
        "    return {'whole': 1.0, **({'half': 1.0} if int(doc['number']) < 2 else {})}\n"
    )
    metrics = [
        {"metric": name, "aggregation": "mean", "higher_is_better": True}
        for name in ("whole", "half")
    ]
    own = {"metric_list": metrics, "process_results": "!function halves.score"}
    write_toy(tasks, "toy_halves", "toy_written", repeats=1, filter_list=None, **own)
    (done,) = evaluated(tasks, "toy_halves")
    counted = {row.metric: (row.n, row.lengths.answers) for row in done.record.results}
    assert counted == {"whole": (12, 12), "half": (6, 6)}


def test_a_record_has_them_and_one_from_before_is_what_it_was(folder, tmp_path):
    record = record_of(folder / "plain")
    assert RunRecord.of(json.loads(json.dumps(record.as_json()))) == record
    before = replace(record, results=[replace(row, lengths=None) for row in record.results])
    before.write(tmp_path / "record.json")
    written = json.loads((tmp_path / "record.json").read_text())
    assert all("lengths" not in row for row in written["results"])
    assert RunRecord.read(tmp_path / "record.json") == before


def test_tables_and_comparisons_mark_the_numbers_and_say_what_the_marks_mean(
    folder, capsys, tmp_path
):
    record = record_of(folder / "thinking")
    table = result_table([record], width=200)
    for row in record.results:
        if row.task == "toy_written":
            lines = [line for line in table.splitlines() if f"{row.metric},{row.filter}" in line]
            assert lines
            assert all("↑ †‡" in line for line in lines)
    counts = next(row.lengths for row in record.results if row.task == "toy_written")
    share = 100 * counts.by_length / counts.answers
    assert (
        f"† stopped by their length, before the model ended them: toy_group: {counts.by_length} of "
        f"{counts.answers} answers ({share:.1f} %), {counts.still_thinking} still thinking"
    ) in remarks_on([record])
    assert any(line.startswith("‡ toy_group: ") for line in remarks_on([record]))

    main(["compare", str(folder / "plain"), str(folder / "budget")])
    said = capsys.readouterr().out
    assert "a: † stopped by their length" in said
    assert "b: † stopped by their length" in said

    (done,) = evaluated(write_toys(tmp_path), "toy_written")
    assert "†" not in result_table([done.record])
    assert remarks_on([done.record]) == []


def test_of_many_tasks_those_with_the_largest_share_are_named(folder):
    record = record_of(folder / "plain")
    many = [
        replace(record, task=f"task_{count}", requests={"answers": 100, "by_length": count})
        for count in range(1, 8)
    ]
    (line,) = [line for line in remarks_on(many) if "†" in line]
    assert line.endswith(
        "task_7: 7 of 100 answers (7.0 %); task_6: 6 of 100 answers (6.0 %); "
        "task_5: 5 of 100 answers (5.0 %); and 4 more tasks"
    )


def test_the_counts_are_checked_and_stand_in_every_form(folder, tmp_path, capsys):
    (path,) = (folder / "budget").glob("record_*.json")
    assert main(["verify", str(path)]) == 0
    capsys.readouterr()
    for form in ("parquet", "every-eval-ever"):
        place = ["--output_path", str(tmp_path / form)]
        assert main(["convert", str(folder / "budget"), "--to", form, *place]) == 0
    (table,) = [path for path in (tmp_path / "parquet").rglob("*.parquet") if "result" in path.name]
    rows = pq.read_table(table).to_pylist()
    expected = [astuple(row.lengths) for row in record_of(folder / "budget").results]
    assert [tuple(row[name] for name in NAMES) for row in rows] == expected

    fields = json.loads(path.read_text())
    fields["results"][-1]["lengths"]["by_length"] += 1
    wrong = tmp_path / path.name
    wrong.write_text(json.dumps(fields))
    samples = path.parent / fields["samples"]["file"]
    (tmp_path / samples.name).write_bytes(samples.read_bytes())
    assert main(["verify", str(wrong)]) == 1
    assert "by_length" in capsys.readouterr().out
