"""Models of many architectures with random weights, and requests that share much of one another."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from evalcore.model.base import EncodedRequest
from evalcore.model.packs import attention
from tests.evalcore.model.asking import in_order, plain_score

VOCABULARY, WINDOW = 200, 24

GROUPED = {"num_key_value_heads": 2}
WINDOWED = {**GROUPED, "sliding_window": WINDOW}
WIDE_HEADS = {**GROUPED, "head_dim": 16}
EXPERTS = {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}
SOFT_CAPS = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}

MAIN: dict[str, dict[str, Any]] = {
    "llama": {**GROUPED, "attention_bias": True},
    "gpt_neox": {},
    "mistral": WINDOWED,
    "mixtral": {**EXPERTS, "sliding_window": WINDOW},
    "bloom": {},
    "mamba": {"state_size": 8},
}
"""Each goes a way of its own: packs with grouped heads and with whole ones, a window, experts,
attention of its own by shared contexts, a state that is wrong after several tokens."""

FURTHER: dict[str, dict[str, Any]] = {
    "gpt2": {},
    "gpt_bigcode": {"multi_query": True},
    "qwen2": {**WINDOWED, "use_sliding_window": True, "max_window_layers": 1},
    "qwen3": WIDE_HEADS,
    "gemma": WIDE_HEADS,
    "gemma2": {**WIDE_HEADS, **SOFT_CAPS, "sliding_window": WINDOW},
    "gemma3_text": {**WIDE_HEADS, "sliding_window": WINDOW, "num_hidden_layers": 7},
    "phi": {},
    "phi3": GROUPED,
    "olmo2": {},
    "granite": {**GROUPED, "logits_scaling": 3.0, "attention_multiplier": 0.3},
    "cohere": {**GROUPED, "logit_scale": 0.3, "use_qk_norm": True},
    "stablelm": {**GROUPED, "use_qkv_bias": True},
    "starcoder2": {**GROUPED, "use_bias": True},
    "opt": {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "gpt_oss": {**EXPERTS, "head_dim": 16, "sliding_window": WINDOW},
    "deepseek_v3": {
        "num_key_value_heads": 4,
        **{"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16},
        **{"v_head_dim": 12, "n_routed_experts": 4, "n_group": 1, "topk_group": 1},
        **{"num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 1},
    },
    "gptj": {"rotary_dim": 8, "n_inner": 128},
    "gpt_neo": {
        **{"attention_types": [[["global", "local"], 1]], "window_size": WINDOW},
        **{"num_layers": 2, "num_heads": 4},
    },
    "falcon": {"alibi": True, "new_decoder_architecture": False},
    "mamba2": {"state_size": 16, "head_dim": 32, "num_heads": 4, "n_groups": 1},
    "rwkv": {"attention_hidden_size": 64},
    "lfm2": {**GROUPED, "layer_types": ["conv", "full_attention"]},
    "jamba": {
        **{**GROUPED, "mamba_d_state": 8, "num_experts": 2, "use_mamba_kernels": False},
        **{"attn_layer_period": 2, "attn_layer_offset": 1},
    },
    "llama4_text": {**EXPERTS, "head_dim": 16, "attention_chunk_size": 16},
    "recurrent_gemma": {
        **{"lru_width": 64, "attention_window_size": WINDOW, "num_key_value_heads": 1},
        "block_types": ["recurrent", "attention"],
    },
}
"""Attention in many forms, soft caps, sinks, keys and values of unequal size, learnt positions,
logits that are scaled behind the head, states, experts."""

IN_PACKS = (
    *("llama", "gpt_neox", "mistral", "mixtral", "gpt2", "gpt_bigcode", "qwen2", "gemma2"),
    *("gemma3_text", "phi", "granite", "cohere", "gpt_oss", "deepseek_v3"),
)
"""Kinds that must not fall back: most models that people submit are like them."""

WRONG_MEMORY = ("mamba", "jamba")
"""What they keep between two calls loses something where several tokens follow."""


def model_of(architecture: str, *, vocabulary: int = VOCABULARY, **more: Any) -> Any:
    """Random weights with some spread, and biases and norms that are not what they begin with."""
    from transformers import AutoConfig, AutoModelForCausalLM

    stated = {
        **{"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2},
        **{"num_attention_heads": 4, "max_position_embeddings": 512, "bos_token_id": 0},
        **{"eos_token_id": 1, "pad_token_id": 1, **{**MAIN, **FURTHER}[architecture], **more},
    }
    config = AutoConfig.for_model(architecture, vocab_size=vocabulary, **stated)
    model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.eval().float().named_parameters():
            noise = torch.randn(weight.shape, generator=draw)
            if weight.dim() > 1:
                weight.copy_(noise * (0.5 if vocabulary in weight.shape else 0.1))
            elif "bias" in name or "norm" in name:
                weight.add_(0.2 * noise)
    return model


def request(context: tuple[int, ...], targets: tuple[int, ...]) -> EncodedRequest:
    tokens = context + targets[:-1]
    return EncodedRequest(
        key=EncodedRequest.key_of(tokens, targets),
        tokens=tokens,
        targets=targets,
        n_context_tokens=len(context),
    )


def requests(
    seed: int = 0, documents: int = 24, longest: int = 25, choices: int = 4
) -> list[EncodedRequest]:
    """Documents after one introduction, each with choices of one to six tokens."""
    draw = random.Random(seed)

    def some(n: int) -> tuple[int, ...]:
        return tuple(draw.randrange(2, VOCABULARY) for _ in range(n))

    introduction, found = some(30), []
    for document in range(documents):
        context = introduction[: 30 if document % 3 else 10] + some(draw.randint(5, longest))
        for _ in range(choices):
            found.append(request(context, some(draw.randint(1, 6))))
    return found


def with_greedy_ones(model: Any, asked: list[EncodedRequest]) -> list[EncodedRequest]:
    """Some more of them, whose targets the model itself finds likeliest."""
    found = []
    for scored in asked[::9]:
        context = scored.tokens[: scored.n_context_tokens]
        for _ in range(3):
            with torch.inference_mode():
                context += (int(model(torch.tensor([context])).logits[0, -1].argmax()),)
        found.append(request(context[:-3], context[-3:]))
    return [*asked, *found]


def slightly_off(by: float) -> Any:
    """The attention of packs with numbers that are a little larger."""

    def attend(module: Any, *states: Any, **said: Any) -> Any:
        answer, _ = attention.packed_attention(module, *states, **said)
        return answer * (1 + by), None

    return attend


def off_by_one(module: Any, *states: Any, **said: Any) -> Any:
    """The attention of packs with a window that is a token too long."""
    if said.get("sliding_window"):
        said["sliding_window"] += 1
    return attention.packed_attention(module, *states, **said)


def rounding_batches(model: Any, by: float) -> Any:
    """As a GPU does, which computes several rows by other products than one."""

    def moved(given: Any, answer: Any) -> Any:
        return answer * (1 + by) if len(given[0]) > 1 else answer

    changed(model.get_decoder().layers[0].mlp.down_proj, moved)
    return model


def changed(module: Any, change: Callable[[Any, Any], Any]) -> None:
    """A module whose class is another from now on: `change` makes its answer of what it was given
    and would have answered."""
    own = type(module)

    class Changed(own):  # type: ignore[misc, valid-type]
        def forward(self, *given: Any, **named: Any) -> Any:
            return change(given, super().forward(*given, **named))

    module.__class__ = Changed


def answers_of(scorer: Any, asked: Sequence[EncodedRequest]) -> list[Any]:
    """What a scorer of loglikelihoods says, whichever way it takes."""
    return in_order(scorer.answers(asked), len(asked))


def scores_of(path: Any, asked: Sequence[EncodedRequest], *, budget: int) -> list[Any]:
    """What one way to compute them says (`scores` of `plain.py` and `packed.py`)."""
    sequences, targets = [one.tokens for one in asked], [one.targets for one in asked]
    return in_order(path.scores(sequences, targets, budget=budget), len(asked))


def check(model: Any, asked: Sequence[EncodedRequest], answers: Sequence[Any]) -> None:
    """Each answer is that of a plain pass over the request alone."""
    for scored, answer in zip(asked, answers, strict=True):
        total, is_greedy = plain_score(model, scored)
        found = answer.loglikelihood if hasattr(answer, "key") else sum(answer.logprobs)
        assert abs(found - total) <= 1e-4 + 1e-6 * abs(total)
        assert answer.is_greedy == is_greedy
