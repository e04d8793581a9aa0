"""What the command line and a --config file mean; nothing is evaluated here."""

from __future__ import annotations

import argparse
import ast
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
from tests.evalcore.toys import write_toys

LM_EVAL_OPTIONS = (
    "config", "tasks", "model", "model_args", "apply_chat_template", "limit", "use_cache",
    "num_fewshot", "batch_size", "max_batch_size", "device", "gen_kwargs", "output_path",
    "log_samples", "samples", "cache_requests", "check_integrity", "system_instruction",
    "fewshot_as_multiturn", "include_path", "verbosity", "write_out", "show_config", "wandb_args",
    "wandb_config_args", "trackio_args", "hf_hub_log_args", "predict_only", "seed",
    "trust_remote_code", "confirm_run_unsafe_code", "metadata",
)  # fmt: skip


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
    assert stated <= known
    assert {flag[2:] for flag in stated if flag[:2] == "--"} - {"help"} == set(LM_EVAL_OPTIONS)


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


def test_what_an_object_or_a_mapping_calls_text_stays_text():
    wanted = {"until": "7", "revision": "0012", "temperature": 0.5}
    assert values.typed_pairs(wanted) == wanted
    assert values.typed_pairs([json.dumps(wanted)]) == wanted
    assert values.typed_pairs("until=7") == {"until": 7}


@given(st.dictionaries(NAMES, PLAIN, min_size=1, max_size=4))
def test_pairs_json_and_a_mapping_mean_the_same(wanted):
    assert values.typed_pairs([json.dumps(wanted)]) == values.typed_pairs(wanted)
    spread = [f"{name}={value}" for name, value in wanted.items()]
    assert values.typed_pairs(spread) == values.typed_pairs([",".join(spread)])


def test_model_arguments_stay_texts():
    assert parsed("--model_args", "revision=1e5,dtype=float32", "max_length=8").model_args == {
        "revision": "1e5",
        "dtype": "float32",
        "max_length": "8",
    }
    assert values.as_texts({"a": True, "b": None, "c": {"x": [1]}}) == {
        "a": "True",
        "c": '{"x": [1]}',
    }


def test_tasks_by_commas_and_spaces_and_repeated():
    assert parsed("-t", "a,b", "c", "--tasks", "d").tasks == ["a", "b", "c", "d"]


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
    in_file = [None if seed is None else seed for seed in seeds]
    assert values.seeds(in_file) == seeds


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
        (["--limit", "2.5"], "share below 1"),
        (["--num_fewshot", "-1"], "whole number from 0"),
        (["--batch_size", "none"], "a count from 1, auto or auto:N, got 'none'"),
        (["--batch_size", "auto:x"], "a count from 1, auto or auto:N, got 'auto:x'"),
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
        (["--verbosity", "loud"], "one of CRITICAL"),
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


@pytest.mark.parametrize("option", ["--no_cache", "--output_base_path=x", "--use_accelerate"])
def test_an_old_spelling_gets_one_sentence(capsys, option):
    assert main(["--model", "hf", option]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert option.split("=")[0] in line


def test_samples_may_stand_in_a_file(tmp_path):
    file = tmp_path / "rows.json"
    file.write_text('{"arc_easy": [3, 1]}')
    assert parsed("--samples", str(file)).samples == {"arc_easy": [3, 1]}


def test_folders_of_tasks_may_be_several(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    assert parsed("--include_path", f"{one}:{two}").include_path == [one, two]
    assert parsed("--include_path", str(one), str(two)).include_path == [one, two]


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


def test_a_note_that_is_true_of_many_files_is_said_once(tmp_path, capsys):
    tasks = write_toys(tmp_path)
    toy = (tasks / "toy_choice.yaml").read_text().replace("tag: toys", "tag: mine")
    for number in range(12):
        own = toy.replace("task: toy_choice", f"task: my_{number}")
        (tasks / f"my_{number:02}.yaml").write_text(f"{own}group: older\n")
    command = ["run", "--model", "dummy", "--tasks", "mine", "--include_path", str(tasks)]
    assert main([*command, "--limit", "1"]) == 0
    written = capsys.readouterr().err.splitlines()
    said = [line for line in written if "group in the file of one task" in line]
    assert len(said) == 2, written
    assert said[0].startswith(f"evalcore: {tasks}/my_00.yaml:")
    assert said[1].startswith("evalcore: 11 more files with: ")


@given(st.text("ab,[]()'\"{}=", max_size=30))
def test_splitting_loses_no_sign_but_the_commas_it_splits_at(text):
    parts = values.split_outside_brackets(text)
    assert "".join(parts).replace(",", "") == text.replace(",", "")


def test_typed_values_that_python_reads():
    assert values.typed("['a', 'b']") == ast.literal_eval("['a', 'b']")
    assert values.typed("TRUE") is True
    assert values.typed("8") == 8
    assert values.typed("1e-3") == 0.001


@pytest.mark.parametrize("chat", [True, False])
def test_what_only_a_chat_template_heeds_is_noted_without_one(tmp_path, capsys, chat):
    stated = f"pretrained={tmp_path / 'nowhere'},enable_thinking=False"
    template = ["--apply_chat_template"] if chat else []
    assert main(["show", "--tasks", "arc_easy", "--model_args", stated, *template]) != 0
    said = "enable_thinking is told the chat template, and without --apply_chat_template"
    assert (said in capsys.readouterr().err) == (not chat)
