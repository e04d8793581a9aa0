"""The demo models: what each is built like and what it reads, and its own small tokenizer."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
)

from demo.reading import Library

ORGANISATION = "plumbline-demo"
CONTEXT = 512
# The libraries' 0.02 suits widths of thousands: at a hundred, attention starts almost uniform and
# learning takes several times as many steps.
INITIALIZER_RANGE = 0.1


@dataclass(frozen=True)
class Recipe:
    """One demo model: how it is built and what it reads."""

    name: str
    family: str
    width: int
    layers: int
    vocabulary: int
    steps: int
    reads: dict[str, float] = field(hash=False)  # kind of document -> share of the batches
    summary: str

    @property
    def model_id(self) -> str:
        return f"{ORGANISATION}/{self.name}"

    @property
    def has_own_bos(self) -> bool:
        """Llama and Mistral begin each text with a token of its own; GPT-2 and NeoX do not."""
        return self.family in {"llama", "mistral"}


RECIPES = (
    Recipe(
        name="scholar-llama",
        family="llama",
        width=128,
        layers=3,
        vocabulary=1024,
        steps=500,
        reads={"prose": 0.1, "cloze": 0.4, "letters": 0.5},
        summary="reads sentences, questions answered in words, and exams answered by letter",
    ),
    Recipe(
        name="storyteller-gpt2",
        family="gpt2",
        width=96,
        layers=3,
        vocabulary=896,
        steps=450,
        reads={"prose": 0.15, "cloze": 0.7, "words": 0.15},
        summary="reads sentences and answers in words, and has never seen an answer by letter",
    ),
    Recipe(
        name="examinee-neox",
        family="gpt_neox",
        width=96,
        layers=3,
        vocabulary=896,
        steps=360,
        reads={"letters": 1.0},
        summary="reads exams only, and answers by letter",
    ),
    Recipe(
        name="traveller-mistral",
        family="mistral",
        width=96,
        layers=3,
        vocabulary=640,
        steps=400,
        reads={"prose": 0.2, "cloze": 0.4, "letters": 0.4},
        summary="reads a little of everything, through a window of 32 tokens",
    ),
    Recipe(
        name="novice-llama",
        family="llama",
        width=64,
        layers=2,
        vocabulary=768,
        steps=40,
        reads={"prose": 0.4, "cloze": 0.3, "letters": 0.3},
        summary="has only just begun to read",
    ),
)
SLIDING_WINDOW = 32  # shorter than an exam's prompt, so that it matters


def build_config(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> PretrainedConfig:
    """The configuration of the recipe's family, with the special tokens of `tokenizer`."""
    special = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    if recipe.family == "gpt2":
        return GPT2Config(
            vocab_size=len(tokenizer), n_positions=CONTEXT, n_embd=recipe.width,
            n_layer=recipe.layers, n_head=4, n_inner=3 * recipe.width,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            initializer_range=INITIALIZER_RANGE, **special,
        )  # fmt: skip
    common = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": CONTEXT,
        "hidden_size": recipe.width,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": 4,
        "intermediate_size": 3 * recipe.width,
        "initializer_range": INITIALIZER_RANGE,
        **special,
    }
    if recipe.family == "gpt_neox":
        return GPTNeoXConfig(**common, tie_word_embeddings=False)
    if recipe.family == "mistral":
        return MistralConfig(
            **common, num_key_value_heads=2, sliding_window=SLIDING_WINDOW, tie_word_embeddings=True
        )
    if recipe.family == "llama":
        return LlamaConfig(**common, num_key_value_heads=2, tie_word_embeddings=True)
    raise ValueError(f"{recipe.name}: family {recipe.family!r} is unknown; see build_config()")


def build_tokenizer(recipe: Recipe, seed: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer, trained on documents of every kind."""
    library, rng = Library(), random.Random(f"{seed}/tokenizer")
    texts = [draw(rng, 1).text for _ in range(2500) for draw in library.kinds.values()]
    special = ["<s>", "</s>", "<pad>"] if recipe.has_own_bos else ["<|endoftext|>"]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=recipe.vocabulary,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    if recipe.has_own_bos:
        bpe.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", bpe.token_to_id("<s>"))]
        )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe,
        bos_token=special[0],
        eos_token=special[1 % len(special)],
        pad_token=special[-1],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
