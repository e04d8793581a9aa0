"""A model that is made in a second: random weights with some spread, and a real tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TEXTS = [
    "Question: Which of these is made of wood?\nA. a table\nB. a river\nAnswer: A",
    "The following are multiple choice questions (with answers) about everything.",
]


CHAT = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

ARCHITECTURES: dict[str, dict[str, int]] = {
    "llama": {"num_key_value_heads": 2},
    "mistral": {"num_key_value_heads": 2, "sliding_window": 24},
    "qwen2": {"num_key_value_heads": 2},
    "gemma2": {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 24},
    "gpt_neox": {},
    "gpt2": {},
    "gptj": {"rotary_dim": 16},
    "opt": {"ffn_dim": 128, "word_embed_proj_dim": 64},
    "bloom": {},
    "mamba": {"state_size": 8},
}
"""Kinds of model and what each needs besides its size; states, positions and windows differ."""


def make(
    folder: Path,
    *,
    architecture: str = "llama",
    adds_bos: bool = False,
    words: bool = False,
    positions: int = 512,
    seed: int = 0,
    width: int = 64,
    padding: int = 0,
    chat_template: str | dict[str, str] | None = None,
) -> Path:
    """A model of 0.1 M parameters with weights large enough that its answers differ.

    `padding`: rows of its tables for which there is no token.
    `words`: a tokenizer that marks the beginnings of words, as SentencePiece does, and not bytes.
    `width`: of its rows; vLLM's heads are 32 wide at least, of which there are four.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    tokenizer = _words(adds_bos) if words else bytes_tokenizer(adds_bos)
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        chat_template=chat_template,
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = AutoConfig.for_model(
        architecture,
        vocab_size=tokenizer.get_vocab_size() + padding,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=positions,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        initializer_range=0.3,
        init_std=0.3,
        **ARCHITECTURES[architecture],
    )
    model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    return folder


SEQ2SEQ: dict[str, dict[str, Any]] = {
    "t5": {
        "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4,
        "feed_forward_proj": "gated-gelu", "decoder_start_token_id": 0, "initializer_factor": 1.5,
    },
    "bart": {
        "d_model": 64, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "init_std": 0.3, "decoder_start_token_id": 1,
    },
}  # fmt: skip
SEQ2SEQ["mbart"] = SEQ2SEQ["bart"]
SEQ2SEQ["switch_transformers"] = {
    **SEQ2SEQ["t5"],
    **{"num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    **{"num_experts": 2, "expert_capacity": 4},
}
"""Kinds of model with an encoder; a decoder begins with T5's pad token, or BART's EOS."""


def make_seq2seq(
    folder: Path, *, architecture: str = "t5", positions: int = 512, seed: int = 0, **stated: Any
) -> Path:
    """A model with encoder and decoder: T5-like (tokens that mark the beginnings of words, EOS
    behind every text, no BOS, no learnt positions) or BART-like (bytes, BOS and EOS around a text).

    `stated` goes into the configuration.
    """
    import torch
    from tokenizers import processors
    from transformers import AutoConfig, AutoModelForSeq2SeqLM, PreTrainedTokenizerFast

    is_t5 = architecture in ("t5", "switch_transformers")
    tokenizer = _words(adds_bos=False) if is_t5 else bytes_tokenizer(adds_bos=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>" if is_t5 else "<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    if not is_t5:
        tokenizer.add_special_tokens(["<pad>"])
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=None if is_t5 else "<s>",
        eos_token="</s>",
        pad_token="<s>" if is_t5 else "<pad>",
        model_max_length=positions,
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    length = {} if is_t5 else {"max_position_embeddings": positions, "bos_token_id": 0}
    config = AutoConfig.for_model(
        architecture,
        vocab_size=tokenizer.get_vocab_size(),
        eos_token_id=1,
        pad_token_id=0 if is_t5 else tokenizer.token_to_id("<pad>"),
        **{"forced_eos_token_id": None, **length, **SEQ2SEQ[architecture], **stated},
    )
    model: Any = AutoModelForSeq2SeqLM.from_config(config)  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    return folder


def change_config(folder: Path, file: str = "config.json", **changes: Any) -> None:
    """Something else stands in one of a model's files then."""
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def subtract(folder: Path, base: Path, into: Path, dtype: str = "float32") -> Path:
    """The differences of two models' weights, as a repository of delta weights has them."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    own = dict(AutoModelForCausalLM.from_pretrained(base).named_parameters())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight -= own[name]
    model.to(getattr(torch, dtype)).save_pretrained(into)
    return into


def adapt(
    folder: Path,
    into: Path,
    *,
    seed: int = 3,
    added: int = 0,
    padding: int = 0,
    moved: bool = True,
    **options: Any,
) -> Path:
    """A LoRA adapter for the model in `folder`; every weight was moved from where it began.

    `added`: so many more tokens, whose tokenizer lies with it, and `padding` rows of no token
    behind them. `options` are peft's.
    """
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(folder)
    if added:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        tokenizer.add_tokens([f"<|{number}|>" for number in range(added)])
        tokenizer.save_pretrained(into)
        model.resize_token_embeddings(len(tokenizer) + padding)
    stated = {"target_modules": ["q_proj", "v_proj"], "init_lora_weights": False, **options}
    adapter: Any = get_peft_model(model, LoraConfig(**stated))
    with torch.no_grad():
        for weight in adapter.parameters():
            if weight.requires_grad and moved:
                weight.add_(0.1 * torch.randn_like(weight))
    adapter.save_pretrained(str(into))
    return into


def bytes_tokenizer(adds_bos: bool) -> Any:
    """Every text is bytes, and some of them are one token; of `tokenizers`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(TEXTS * 20, trainer)
    return _with_bos(tokenizer) if adds_bos else tokenizer


def _words(adds_bos: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, trainers

    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    special = ["<s>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=450, special_tokens=special[:3])
    tokenizer.train_from_iterator(TEXTS * 20, trainer)
    tokenizer.add_tokens(special[3:])
    return _with_bos(tokenizer) if adds_bos else tokenizer


def _with_bos(tokenizer: Any) -> Any:
    from tokenizers import processors

    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return tokenizer
