"""Whatever a repository's files make a library raise is the model's fault, and ours stays ours."""

from __future__ import annotations

import errno
import json

import pytest
import torch

from evalcore.errors import InfraError, ModelError
from evalcore.model.base import Request
from evalcore.model.faults import libraries_fault, models_fault
from evalcore.model.hf.huggingface import HuggingFaceLM
from evalcore.model.hf.snapshot import Arguments
from tests import tiny

QUESTION = {"role": "user", "content": "Which?"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("whole"), chat_template=tiny.CHAT)


@pytest.fixture
def folder(whole, tmp_path):
    for file in whole.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def state(folder, file, **values):
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def use(folder):
    """All that a run does: load, write a conversation, encode, answer, spell."""
    model = HuggingFaceLM(Arguments(pretrained=str(folder)), device="cpu")
    assert model.info.model_key
    model.chat_template().render([QUESTION], True)
    requests = [
        Request("loglikelihood", "Question: Which", " a table"),
        Request("generate_until", "Question", generation={"until": ["\n"], "max_gen_toks": 3}),
    ]
    for pack in model.answer(model.encode(requests)):
        for _, response in pack:
            model.token_texts(response.token_ids)
    return model


# A special token that the tokenizer does not have: its Rust code panics when it is first used.
PANICS = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}],
    "pair": [],
    "special_tokens": {},
}


@pytest.mark.parametrize(
    ("file", "values", "said"),
    [
        ("config.json", {"num_attention_heads": 0}, "cannot be loaded: .*zero"),
        ("config.json", {"hidden_size": "abc"}, "cannot be loaded: .*hidden_size"),
        ("config.json", {"sliding_window": []}, "it cannot write, with .*'>=' not"),
        ("config.json", {"transformers_weights": "adapter_model.bin"}, "transformers_weights: exp"),
        ("tokenizer_config.json", {"model_max_length": "abc"}, "model_max_length: .* got 'abc'"),
        ("tokenizer.json", {"post_processor": PANICS}, "its tokenizer fails: no entry found"),
        ("generation_config.json", {"num_beams": "abc"}, "num_beams: expected a count, got 'abc'"),
        ("generation_config.json", {"temperature": float("nan")}, "temperature cannot be nan"),
        ("generation_config.json", {"assistant_early_exit": []}, "num_hidden_layers"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_a_file_says_is_the_models_fault(folder, file, values, said):
    state(folder, file, **values)
    with pytest.raises(ModelError, match=said):
        use(folder)


def test_a_template_that_divides_by_zero_is_the_models_fault(folder):
    (folder / "chat_template.jinja").write_text("{{ 1 / 0 }}")
    with pytest.raises(ModelError, match="its chat template cannot be used: ZeroDivisionError"):
        use(folder)


def test_a_file_without_end_is_the_models_fault(folder):
    (folder / "config.json").write_text("[" * 100_000)
    with pytest.raises(ModelError, match="cannot be loaded"):
        use(folder)


@pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation"])
def test_a_configuration_does_not_choose_the_code_that_computes_it(folder, key):
    """A name with a slash is a repository of kernels, which transformers fetches and runs."""
    state(folder, "config.json", **{key: "somebody/kernel"})
    assert use(folder)._model.config._attn_implementation == "sdpa"


def test_a_configuration_that_wants_tuples_is_computed_all_the_same(folder):
    state(folder, "config.json", return_dict=False)
    assert use(folder)._model.config.return_dict


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_what_the_machine_lacks_is_ours(number):
    with (
        pytest.raises(InfraError, match="it cannot be loaded"),
        models_fault("it cannot be loaded"),
    ):
        raise OSError(number, "whatever")


@pytest.mark.parametrize(
    ("raised", "whose"),
    [
        (torch.AcceleratorError("CUDA error: unspecified launch failure"), InfraError),
        (torch.AcceleratorError("CUDA error: uncorrectable ECC error encountered"), InfraError),
        (torch.AcceleratorError("CUDA error: device-side assert triggered"), ModelError),
        (RuntimeError("Unexpected error from cudaGetDeviceCount(). Error 304: OS"), InfraError),
        (RuntimeError("No CUDA GPUs are available"), InfraError),
        (RuntimeError("CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling"), ModelError),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), ModelError),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_broken_gpu_is_ours_and_what_a_model_does_to_one_is_not(raised, whose):
    with pytest.raises(whose, match="it fails"), models_fault("it fails"):
        raise raised


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA starts here")
def test_a_gpu_that_nvml_counts_and_cuda_cannot_start_is_ours(folder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InfraError, match=r"--device cuda:0: CUDA does not start .*nvidia-smi"):
        HuggingFaceLM(Arguments(pretrained=str(folder)), device="cuda:0")


def test_a_fault_of_our_own_code_is_not_the_models():
    with pytest.raises(ZeroDivisionError), libraries_fault("it fails"):
        _ = 1 / 0
    with pytest.raises(ModelError, match="it fails"), libraries_fault("it fails"):
        torch.nn.Linear(2, 2)(torch.zeros(3))
