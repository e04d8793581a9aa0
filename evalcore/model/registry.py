"""The models that a command can name."""

from __future__ import annotations

from importlib import import_module

from evalcore.errors import ModelError, did_you_mean
from evalcore.model.base import Backend
from evalcore.model.own import own_backend

HUGGING_FACE = "evalcore.model.hf.choice:HuggingFace"
LITELLM = "evalcore.model.servers.litellm:LiteLLM"

MODELS = {
    "hf": HUGGING_FACE,
    "hf-auto": HUGGING_FACE,
    "huggingface": HUGGING_FACE,
    "hf-multimodal": "evalcore.model.hf.multimodal:MultimodalLM",
    "hf-audiolm-qwen": "evalcore.model.hf.audio:AudioLM",
    "vllm": "evalcore.model.vllm.backend:VllmLM",
    "vllm-vlm": "evalcore.model.vllm.vlm:VllmVLM",
    "dummy": "evalcore.model.fake:DummyLM",
    "local-completions": "evalcore.model.servers.completions:LocalCompletions",
    "local-chat-completions": "evalcore.model.servers.chat:LocalChatCompletions",
    "openai-completions": "evalcore.model.servers.completions:OpenAICompletions",
    "openai-chat-completions": "evalcore.model.servers.chat:OpenAIChatCompletions",
    "sglang-generate": "evalcore.model.servers.sglang:SGLangGenerate",
    "litellm": LITELLM,
    "litellm-chat": LITELLM,
    "litellm-chat-completions": LITELLM,
    "textsynth": "evalcore.model.servers.textsynth:TextSynth",
    "anthropic-chat": "evalcore.model.servers.anthropic:AnthropicChat",
    "anthropic-chat-completions": "evalcore.model.servers.anthropic:AnthropicChat",
}
"""By the name of `--model`: the class, loaded when it is wanted."""

SERVICE = (
    "its interface is not spoken here: ask a server of OpenAI's interface (--model "
    "local-chat-completions), or evaluate the published model with --model hf"
)
ENGINE = "the weights are evaluated with transformers or vLLM: --model hf, or --model vllm"
IMAGES = "models that see are evaluated with --model hf-multimodal, or --model vllm-vlm"

_NOT_HERE = {
    SERVICE: ("anthropic-completions watsonx_llm"),
    ENGINE: (
        "ggml gguf habana ipex mamba_ssm megatron_lm nemo_lm neuronx onnxruntime "
        "onnxruntime-genai openvino sglang steered trtllm winml"
    ),
    IMAGES: "hf-mistral3",
}
ELSEWHERE = {
    **{name: why for why, names in _NOT_HERE.items() for name in names.split()},
    "openai-chat": "the name is openai-chat-completions",
    "gpt2": "--model names a backend: --model hf --model_args pretrained=gpt2",
    "hf-causal": "the name is hf now",
    "hf-causal-experimental": "the name is hf now",
    "hf-seq2seq": "the name is hf now, which reads in config.json that a model has an encoder",
}
"""lm-evaluation-harness's other names, and what to do instead."""


def backend_of(name: str) -> Backend:
    """The class that `--model` names, imported: one of ours, or one's own (`evalcore.model.own`).

    Raises ModelError for a name that is neither.
    """
    if name not in MODELS:
        if (own := own_backend(name)) is not None:
            return own
        raise ModelError(f"--model {name}{_remedy(name)}")
    module, _, attribute = MODELS[name].partition(":")
    backend: Backend = getattr(import_module(module), attribute)
    return backend


def _remedy(name: str) -> str:
    if name in ELSEWHERE:
        return f": {ELSEWHERE[name]}"
    known = ", ".join(MODELS)
    return f"{did_you_mean(name, MODELS)}: there are {known}; a class of your own is module:Class"
