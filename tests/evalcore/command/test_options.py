"""What the command line and a --config file mean, and what `evalcore ls` says."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from evalcore import cli, values
from evalcore.cli import main
from evalcore.command.options import OPTIONS, OptionError, add_options, settle
from evalcore.command.selection import settings_of
from evalcore.errors import ModelError
from evalcore.model.protocols import Adapting
from evalcore.model.registry import MODELS, backend_of
from tests.evalcore.toys import write_toy, write_toys
from tests.hub import ROOT


def parsed(*arguments: str, config: Path | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_options(parser, OPTIONS)
    return settle(parser.parse_args(arguments), OPTIONS, config)


@pytest.mark.peer
def test_every_option_and_short_form_of_theirs_is_known():
    from lm_eval._cli.harness import HarnessCLI

    theirs = HarnessCLI()._subparsers.choices["run"]
    known = {
        flag
        for action in cli._parser()._subparsers._group_actions[0].choices["run"]._actions
        for flag in action.option_strings
    }
    stated = {flag for action in theirs._actions for flag in action.option_strings}
    assert len(stated) > 30
    assert stated <= known


NAMES = st.text("abcdefgh_", min_size=1, max_size=6)
PLAIN = st.one_of(
    st.booleans(),
    st.integers(0, 10**6),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.text("xyz /:-", min_size=1, max_size=8).filter(lambda text: text == text.strip()),
    st.lists(st.integers(0, 9), max_size=3),
    st.lists(st.text("uvw,= ", max_size=5), max_size=3),
)


@pytest.mark.peer
@given(st.dictionaries(NAMES, PLAIN, min_size=1, max_size=4))
def test_pairs_are_typed_as_they_type_them(wanted):
    from lm_eval._cli.utils import key_val_to_dict

    text = ",".join(f"{name}={value}" for name, value in wanted.items())
    assert values.typed_pairs([text]) == key_val_to_dict(text)


@pytest.mark.peer
@given(st.sampled_from(["until", "stop"]), st.text("xQ: \n\t-'", min_size=1, max_size=6))
@example("until", "\n")
@example("until", " Q:")
def test_a_generation_argument_keeps_the_white_space_of_its_text(name, text):
    """A stop sequence may be a line break."""
    from lm_eval._cli.utils import key_val_to_dict

    ours = parsed("--gen_kwargs", f"{name}={text}").gen_kwargs
    assert ours == key_val_to_dict(f"{name}={text}")


def test_values_are_typed_but_where_the_text_is_meant():
    found = [values.typed(text) for text in ("['a', 'b']", "TRUE", "8", "1e-3")]
    assert found == [["a", "b"], True, 8, 0.001]
    for stop in ("²", "½", "三", "{[]}", "{{1}}"):  # no number, and no literal of Python
        assert parsed("--gen_kwargs", f"until={stop}").gen_kwargs == {"until": stop}

    wanted = {"until": "7", "revision": "0012", "temperature": 0.5}
    assert values.typed_pairs(wanted) == wanted
    assert values.typed_pairs([json.dumps(wanted)]) == wanted
    assert values.typed_pairs("until=7") == {"until": 7}

    assert parsed("--model_args", "revision=1e5,dtype=float32", "max_length=8").model_args == {
        "revision": "1e5",
        "dtype": "float32",
        "max_length": "8",
    }
    assert values.as_texts({"a": True, "b": None, "c": {"x": [1]}}) == {
        "a": "True",
        "c": '{"x": [1]}',
    }


def test_names_rows_and_folders_have_their_forms(tmp_path):
    assert parsed("-t", "a,b", "c", "--tasks", "d").tasks == ["a", "b", "c", "d"]

    file = tmp_path / "rows.json"
    file.write_text('{"arc_easy": [3, 1]}')
    assert parsed("--samples", str(file)).samples == {"arc_easy": [3, 1]}

    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    assert parsed("--include_path", f"{one}:{two}").include_path == [one, two]
    assert parsed("--include_path", str(one), str(two)).include_path == [one, two]


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("7", (7, 7, 7, 7)),
        ("1,2,3", (1, 2, 3, 1234)),
        ("0,None,8,52", (0, None, 8, 52)),
        ("none", (None, None, None, None)),
    ],
)
def test_seeds_have_their_forms(text, seeds):
    assert parsed("--seed", text).seed == seeds
    assert values.seeds([*seeds]) == seeds


def test_a_seed_that_is_left_open_is_drawn_and_kept():
    one = settings_of(parsed("--tasks", "a", "--seed", "0,1234,None,None"))
    assert one.fewshot_seed != 1234
    assert isinstance(one.seed, int)


def test_the_command_line_wins_over_the_file_and_the_file_over_defaults(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "tasks": ["a", "b"],
                "model_args": {"pretrained": "x/y", "add_bos_token": True},
                "num_fewshot": 5,
                "limit": 10,
                "seed": 42,
                "apply_chat_template": True,
                "samples": None,
                "gen_kwargs": "temperature=0.5,until=['x','y']",
            }
        )
    )
    options = parsed("--num_fewshot", "0", config=file)
    assert options.tasks == ["a", "b"]
    assert options.num_fewshot == 0
    assert options.limit == 10.0
    assert options.seed == (42, 42, 42, 42)
    assert options.gen_kwargs == {"temperature": 0.5, "until": ["x", "y"]}
    assert options.batch_size is None
    assert options.mode == "compat"
    settings = settings_of(options)
    assert (settings.fewshot_seed, settings.apply_chat_template) == (42, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"num_fewshots": 5}, "no option 'num_fewshots' (did you mean num_fewshot?)"),
        ({"limit": "many"}, "limit: expected a count, or a share below 1, got 'many'"),
        ({"log_samples": "perhaps"}, "log_samples: expected true or false"),
        ({"tasks": 5}, "tasks: expected names, got 5"),
        ({"model_args": 7}, "model_args: expected name=value by commas, or a mapping, got 7"),
        (["tasks"], "expected a mapping of options"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path, content, said):
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(OptionError) as raised:
        parsed(config=file)
    assert said in str(raised.value)
    assert str(file) in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--limit", "0"], "share below 1"),
        (["--num_fewshot", "-1"], "whole number from 0"),
        (["--batch_size", "none"], "a count from 1, auto or auto:N, got 'none'"),
        (["--limit", "nan"], "--limit: expected a count, or a share below 1, got 'nan'"),
        (["--seed", "1,2"], "four by commas"),
        (["--samples", '{"a": 1}'], "rows by task"),
        (["--samples", "nowhere.json"], "a file with one"),
        (["--model_args", "pretrained"], "name=value"),
        (["--gen_kwargs", "{oops"], "JSON object"),
        (["--decontaminate_n", "9"], "--decontaminate_n needs --decontaminate"),
        (["--limit", "3", "--samples", '{"a": [1]}'], "exclude one another"),
        (["--fewshot_as_multiturn"], "needs --apply_chat_template"),
        (["--log_samples"], "--output_path"),
        (["--mode", "loose"], "one of compat, strict"),
    ],
)
def test_a_wrong_option_is_named_with_the_remedy(capsys, arguments, said):
    everything = ["run", "--model", "dummy", "--tasks", "arc_easy", *arguments]
    assert main(everything) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "show", "validate", "fetch"])
def test_every_command_on_tasks_asks_for_them(capsys, command):
    model = [] if command == "validate" else ["--model", "dummy"]
    assert main([command, *model]) == 2
    assert "--tasks: give at least one name" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--no_cache", "--output_base_path=x"])
def test_an_old_spelling_gets_one_sentence(capsys, option):
    assert main(["--model", "hf", option]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert option.split("=")[0] in line


def test_a_note_that_is_true_of_many_files_is_said_once(tmp_path, capsys):
    tasks = write_toys(tmp_path)
    for number in range(12):
        write_toy(tasks, f"my_{number:02}", "toy_choice", tag="mine", group="older")
    command = ["run", "--model", "dummy", "--tasks", "mine", "--include_path", str(tasks)]
    assert main([*command, "--limit", "1"]) == 0
    written = capsys.readouterr().err.splitlines()
    said = [line for line in written if "group in the file of one task" in line]
    assert len(said) == 2, written
    assert said[0].startswith(f"evalcore: {tasks}/my_00.yaml:")
    assert said[1].startswith("evalcore: 11 more files with: ")


@pytest.mark.parametrize("chat", [True, False])
def test_what_only_a_chat_template_heeds_is_noted_without_one(tmp_path, capsys, chat):
    stated = f"pretrained={tmp_path / 'nowhere'},enable_thinking=False"
    template = ["--apply_chat_template"] if chat else []
    assert main(["show", "--tasks", "arc_easy", "--model_args", stated, *template]) != 0
    said = "enable_thinking is told the chat template, and without --apply_chat_template"
    assert (said in capsys.readouterr().err) == (not chat)


# `evalcore ls`


def test_ls_lists_what_was_asked_for(tmp_path, capsys):
    (tmp_path / "t.yaml").write_text("task: my_task\ntag: my_tag\ndataset_path: x\n")
    (tmp_path / "g.yaml").write_text("group: my_group\ntask: [my_task]\n")

    def listed(kind: str) -> set[str]:
        assert main(["ls", kind, "--include_path", str(tmp_path)]) == 0
        return {name for name in capsys.readouterr().out.split() if name.startswith("my_")}

    assert listed("tasks") == {"my_task", "my_tag", "my_group"}
    assert listed("subtasks") == {"my_task"}
    assert listed("groups") == {"my_group"}
    assert listed("tags") == {"my_tag"}


def test_ls_asks_for_a_kind_and_tells_more_where_asked(tmp_path, capsys):
    assert main(["ls"]) == 2
    assert "say what to list: tasks (all that --tasks takes), groups" in capsys.readouterr().err
    (tmp_path / "README.md").write_text("\n# Mine: two riddles\n")
    (tmp_path / "t.yaml").write_text("task: my_task\ntag: my_tag\ndataset_path: x\n")
    more = ["--paths", "--descriptions", "--include_path", str(tmp_path)]
    assert main(["ls", "tasks", *more]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"my_task\t{tmp_path / 't.yaml'}\tMine: two riddles" in lines
    assert "my_tag\t\t1 tasks" in lines
    assert not [line for line in lines if line.count("\t") != 2]


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


def test_an_adapter_is_taken_where_that_is_said() -> None:
    """Several adapters are put on by `hf` alone; others say which argument they do not know."""
    for name in {*MODELS} - {"dummy"}:  # which takes anything
        backend = backend_of(name)
        if backend.capabilities.adapters:
            assert isinstance(backend, Adapting) or name == "vllm", name
            continue
        with pytest.raises(ModelError, match="peft"):
            backend.from_arguments({"pretrained": "a", "model": "a", "peft": "b/c"})
