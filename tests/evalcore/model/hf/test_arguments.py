"""The arguments of the `hf` backend, and the names that `--model` may have."""

from __future__ import annotations

import json

import pytest

from evalcore.cli import main
from evalcore.errors import ModelError
from evalcore.model.hf.snapshot import Arguments
from evalcore.model.registry import ELSEWHERE, MODELS, backend_of
from tests import tiny
from tests.evalcore.toys import write_toys

TYPED = {
    "pretrained": "owner/name",
    "dtype": "float16",
    "max_length": 128,
    "prefix_token_id": 3,
    "think_end_token": 151668,
    "enable_thinking": True,
    "chat_template_args": {"tools": None},
    "rolling_stride": 16,
}


def test_texts_of_the_command_line_mean_what_typed_values_mean():
    texts = {
        **{name: str(value) for name, value in TYPED.items()},
        "dtype": "torch.half",
        "enable_thinking": "true",
        "chat_template_args": '{"tools": null}',
    }
    assert Arguments.of(texts) == Arguments.of(TYPED) == Arguments(**TYPED)


def test_an_argument_that_is_none_is_not_stated():
    assert Arguments.of({"pretrained": "a", "max_length": "None", "peft": None}) == Arguments(
        pretrained="a"
    )


def test_arguments_that_change_no_number_are_passed_over():
    assert Arguments.of(
        {
            **{"pretrained": "a", "device": "cuda:0", "batch_size": "8", "logits_cache": "True"},
            **{"low_cpu_mem_usage": "True", "token": "hf_x", "cache_dir": "/tmp"},
            **{"local_files_only": "True", "trust_remote_code": "False"},
        }
    ) == Arguments(pretrained="a")


def test_what_is_passed_over_is_said_once_and_no_secret_stands_in_a_file(tmp_path, capsys):
    tasks = write_toys(tmp_path)
    model = tiny.make(tmp_path / "m", positions=512)
    said = main([
        "run", "--tasks", "toy_choice", "--include_path", str(tasks), "--limit", "2",
        "--model_args", f"pretrained={model},token=hf_secret,torch_dtype=float32,"
        "trust_remote_code=True,cache_dir=/tmp",
        "--output_path", str(tmp_path / "out"),
    ])  # fmt: skip
    written = capsys.readouterr()
    assert said == 0, written.err
    for note in ("token: the variable HF_TOKEN", "cache_dir: "):
        assert written.err.count(f"--model_args: {note}") == 1
    assert "hf_secret" not in written.err + written.out
    (record,) = (tmp_path / "out").rglob("record_*.json")
    (results,) = (tmp_path / "out").rglob("results_*.json")
    assert json.loads(record.read_text())["model"]["dtype"] == "float32"
    assert "trust_remote_code" not in record.read_text()
    assert not any("hf_secret" in file.read_text() for file in (record, results))


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"max_lenght": "3"}, "unknown argument 'max_lenght' (did you mean max_length"),
        ({"trust_remote_code": "yes"}, "trust_remote_code: expected True or False, got 'yes'"),
        ({"torch_dtype": "half", "dtype": "float32"}, "torch_dtype and dtype are the same"),
        ({"backend": "seq3seq"}, "backend: expected one of default, causal, seq2seq"),
        ({"autogptq": "True"}, "'autogptq' is not taken"),
        ({"load_in_8bit": "8"}, "load_in_8bit: expected True or False, got '8'"),
        ({"load_in_8bit": "True", "load_in_4bit": "True"}, "give one of them"),
        ({"peft": "a/b", "delta": "a/c"}, "peft and delta: a model has one or the other"),
        ({"delta": "a/c", "load_in_4bit": "True"}, "delta and load_in_4bit: a difference is"),
        ({"delta": "a/c@"}, "delta: expected a folder, owner/name or owner/name@revision"),
        ({"bnb_4bit_quant_type": "nf4"}, "bnb_4bit_quant_type needs load_in_4bit=True"),
        ({"load_in_4bit": "True", "bnb_4bit_quant_type": "int4"}, "expected one of fp4, nf4"),
        ({"gguf_file": "x.bin"}, "gguf_file: expected the name of one file"),
        ({"max_length": "-1"}, "max_length: expected a count, got '-1'"),
        ({"chat_template_args": "nothing"}, "chat_template_args: expected an object"),
        ({"enable_thinking": "True"}, "enable_thinking needs think_end_token"),
        ({"code_revision": "a" * 40}, "code_revision needs trust_remote_code=True"),
        ({"trust_remote_code": "True", "code_revision": "main"}, "expected a commit, in full"),
        ({"trust_remote_code": "True", "delta": "a/b"}, "trust_remote_code and delta: code is run"),
        ({"use_accelerate": "True"}, "the name is parallelize now"),
        ({"data_parallel_size": "2"}, "is not taken: the option --data_parallel says how many"),
    ],
)
def test_every_other_argument_says_why_not_or_what_instead(stated, said):
    with pytest.raises(ModelError) as refused:
        Arguments.of({"pretrained": "a", **stated})
    assert said in str(refused.value)


def test_all_wrong_arguments_are_named_at_once():
    with pytest.raises(ModelError, match=r"'pretraind'.*max_length.*'pretrained'"):
        Arguments.of({"pretraind": "x", "max_length": "long"})


@pytest.mark.parametrize(
    ("architecture", "stated", "said"),
    [
        ("llama", {"prefix_token_id": "9999"}, r"prefix_token_id: expected a token from 0 to \d+"),
        ("gpt2", {"max_length": "65"}, "max_length: expected at most 64, the positions .* learnt"),
        ("opt", {"max_length": "65"}, "max_length: expected at most 64, the positions .* learnt"),
    ],
)
def test_an_argument_beyond_the_models_tables_is_refused_at_once(
    tmp_path, architecture, stated, said
):
    model = tiny.make(tmp_path, architecture=architecture, positions=64)
    with pytest.raises(ModelError, match=said):
        backend_of("hf").from_arguments({"pretrained": str(model), **stated}, device="cpu")


def test_positions_that_are_computed_have_no_end(tmp_path):
    model = tiny.make(tmp_path, positions=64)
    assert backend_of("hf").from_arguments(
        {"pretrained": str(model), "max_length": "65"}, device="cpu"
    )


def test_what_was_stated_is_what_a_record_shows():
    assert Arguments.of(TYPED).as_json() == TYPED


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_the_other_backends_of_lm_eval_get_a_sentence(name):
    assert name not in MODELS
    with pytest.raises(ModelError, match="--model"):
        backend_of(name).from_arguments({})


def test_a_name_that_is_nearly_one_is_told_so():
    with pytest.raises(ModelError, match="did you mean dummy"):
        backend_of("dumy").from_arguments({})


def test_a_backend_is_made_by_its_name():
    assert (
        backend_of("dummy").from_arguments({}, batch_size=3, device="cpu").info.repository
        == "dummy"
    )
