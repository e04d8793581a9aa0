"""The models that a command can name."""

from __future__ import annotations

from importlib import import_module

from evalcore.errors import ModelError, did_you_mean
from evalcore.model.base import Backend

HUGGING_FACE = "evalcore.model.hf.huggingface:HuggingFaceLM"

MODELS = {
    "hf": HUGGING_FACE,
    "hf-auto": HUGGING_FACE,
    "huggingface": HUGGING_FACE,
    "dummy": "evalcore.model.fake:DummyLM",
}
"""By the name of `--model`: the class, loaded when it is wanted."""

SERVICE = "a service cannot be pinned to weights: evaluate the published model with --model hf"
ENGINE = "the weights are evaluated with transformers alone: --model hf"
IMAGES = "images and sound are not evaluated: --model hf takes the text model alone"

ELSEWHERE = {
    "anthropic-chat": SERVICE,
    "anthropic-chat-completions": SERVICE,
    "anthropic-completions": SERVICE,
    "litellm": SERVICE,
    "litellm-chat": SERVICE,
    "litellm-chat-completions": SERVICE,
    "local-chat-completions": SERVICE,
    "local-completions": SERVICE,
    "openai-chat": SERVICE,
    "openai-chat-completions": SERVICE,
    "openai-completions": SERVICE,
    "textsynth": SERVICE,
    "watsonx_llm": SERVICE,
    "ggml": ENGINE,
    "gguf": ENGINE,
    "habana": ENGINE,
    "ipex": ENGINE,
    "mamba_ssm": ENGINE,
    "megatron_lm": ENGINE,
    "nemo_lm": ENGINE,
    "neuronx": ENGINE,
    "onnxruntime": ENGINE,
    "onnxruntime-genai": ENGINE,
    "openvino": ENGINE,
    "sglang": ENGINE,
    "sglang-generate": ENGINE,
    "steered": ENGINE,
    "trtllm": ENGINE,
    "vllm": ENGINE,
    "winml": ENGINE,
    "hf-audiolm-qwen": IMAGES,
    "hf-mistral3": IMAGES,
    "hf-multimodal": IMAGES,
    "vllm-vlm": IMAGES,
    "gpt2": "--model names a backend: --model hf --model_args pretrained=gpt2",
    "hf-causal": "the name is hf now",
    "hf-causal-experimental": "the name is hf now",
    "hf-seq2seq": "encoder-decoder models are not evaluated",
}
"""lm-evaluation-harness's other names, and what to do instead."""


def backend_of(name: str) -> Backend:
    """The class that `--model` names, imported. Raises ModelError for a name that is not ours."""
    if name not in MODELS:
        raise ModelError(f"--model {name}{_remedy(name)}")
    module, _, attribute = MODELS[name].partition(":")
    backend: Backend = getattr(import_module(module), attribute)
    return backend


def _remedy(name: str) -> str:
    if name in ELSEWHERE:
        return f": {ELSEWHERE[name]}"
    return f"{did_you_mean(name, MODELS)}: there are {', '.join(MODELS)}"
