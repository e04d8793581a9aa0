"""What keeps a repository from being evaluated: read `examine` and `faults_of_adapter` first.

Causal language models are evaluated whose code is in transformers, or whose own code the operator
has read: `PLUMBLINE_TRUSTED_CODE` lists repositories, each at a commit. The names and types are
those of transformers' AutoModelForCausalLM in the version that the constraints file pins; a test
compares them. The site reads these lists because it never imports model code. What they cannot say
(a known architecture with settings that its code does not support, an adapter whose weights do not
fit its base) the worker finds, as a ModelError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from evalcore.model.hf import code
from evalcore.model.hf import repository as engine
from evalcore.model.hf.bases import stated_base
from evalcore.model.hf.quantisation import LIBRARIES, method_of
from leaderboard.hub import model_id
from leaderboard.hub.model_id import ModelReference
from leaderboard.hub.problem import Problem, Refused
from leaderboard.hub.repository import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    INDEX,
    NAMED_TEMPLATES,
    TEMPLATE,
    TOKENIZER,
    WEIGHTS,
    Repository,
    clean_count,
    clean_text,
)

TOKENIZER_FILES = (
    {"tokenizer.json"},
    {"tokenizer.model"},
    {"spiece.model"},
    {"sentencepiece.bpe.model"},
    {"vocab.json", "merges.txt"},
    {"vocab.txt"},
)
"""Files of which one set must be there."""
NON_EMPTY_FILES = (TOKENIZER, "tokenizer.json")
"""Files that hold at least a pair of braces where they are there."""
PICKLE_ENDINGS = (".bin", ".pt", ".pth", ".ckpt", ".pkl")

TORCH_DTYPES = frozenset({
    "float16", "half", "bfloat16", "float32", "float", "float64", "double", "float8_e4m3fn",
    "float8_e5m2", "float8_e8m0fnu", "int8", "uint8", "int16", "int32", "int64",
})  # fmt: skip
"""What PyTorch calls the precisions in which weights are stored."""

TYPES_WITH_EXTRA_ROWS = frozenset({"moshi"})
"""Model types whose table has more rows than the vocabulary has tokens."""

WIDTHS = ("hidden_size", "n_embd", "d_model", "embedding_size", "word_embed_proj_dim")
"""Keys of config.json for the length of a token's vector; the shortest is meant."""


@dataclass(frozen=True)
class Findings:
    """What the files of a whole model say."""

    problems: list[Problem]
    """What keeps it from being evaluated."""
    notes: list[Problem]
    """What stops nobody."""
    code: tuple[str, ...]
    """The repositories whose code would be run, each with @ and its commit."""


def examine(repository: Repository) -> Findings:
    """All that its metadata tell of a whole model."""
    problems = faults_of(repository)
    if not problems and repository.parameters < 1:
        problems = [Problem("unknown_size", "model", repository.repo_id)]
    if problems:
        return Findings(problems, [], ())
    return Findings([], _miscounted(repository), _trusted_code(repository))


def faults_of(repository: Repository) -> list[Problem]:
    """All of them: of the weights, of config.json, of the tokenizer and of sizes that no model has.

    Only that of the weights where this is no repository of a model for transformers: what such a
    repository lacks beside, nobody wants to have added.
    """
    weights, sizes = _weight_faults(repository), _impossible_sizes(repository)
    if any(problem.code in ("gguf_only", "no_safetensors") for problem in weights):
        return [*weights, *sizes]
    problems = [*weights, *_config_faults(repository), *_left_over_adapter(repository)]
    problems += _file_sizes(repository)
    if not any(names <= repository.files for names in TOKENIZER_FILES):
        problems.append(Problem("no_tokenizer", "model", repository.repo_id))
    return [*problems, *sizes]


# Files


def _weight_faults(repository: Repository) -> list[Problem]:
    if repository.files & {WEIGHTS, INDEX}:
        return _incomplete(repository)
    for fault, endings in (("pickle_only", PICKLE_ENDINGS), ("gguf_only", (".gguf",))):
        if names := [name for name in repository.files if name.endswith(endings)]:
            return [Problem(fault, "model", repository.repo_id, {"file": min(names)})]
    return [Problem("no_safetensors", "model", repository.repo_id)]


def _incomplete(repository: Repository) -> list[Problem]:
    repo_id, missing = repository.repo_id, sorted(repository.shards - repository.files)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return [Problem("missing_shard", "model", repo_id, {"files": f"{missing[0]}{more}"})]
    if repository.weights is not None and repository.weights.count == 0:
        return [Problem("empty_weights", "model", repo_id)]
    return _wrong_size(repository)


def _wrong_size(repository: Repository) -> list[Problem]:
    """Files of weights that were cut short, or padded: safetensors loads neither."""
    wrong = []
    for name, head in sorted(repository.heads.items()):
        expected, size = head.head_bytes + head.data_bytes, repository.sizes.get(name)
        if size not in (None, expected):
            wrong.append((name, expected, size))
    if not wrong:
        return []
    name, expected, size = wrong[0]
    details = {
        "file": name,
        "size": size,
        "compared": "less" if size < expected else "more",
        "expected": expected,
        "more": f", and {len(wrong) - 1} more are wrong" if len(wrong) > 1 else "",
    }
    return [Problem("wrong_size", "model", repository.repo_id, details)]


def _miscounted(repository: Repository) -> list[Problem]:
    """That the Hub counts other parameters than the files hold, which stops nobody.

    Not of packed weights, whose numbers the Hub counts in its own way.
    """
    counted, weights = repository.counted, repository.weights
    if counted is None or weights is None or repository.quantisation:
        return []
    counts = {counted.count, sum(counted.by_dtype.values()) or counted.count}
    if counts == {weights.count}:
        return []
    listed_counts = " or ".join(f"{count:,}" for count in sorted(counts))
    details = {"counts": listed_counts, "held": weights.count}
    return [Problem("other_count", "model", repository.repo_id, details)]


def _file_sizes(repository: Repository) -> list[Problem]:
    """Of the small files that are loaded one that is empty, or larger than any is downloaded."""
    for name, size in sorted(repository.sizes.items()):
        limit = _max_bytes(name)
        if limit is None or size is None or 0 < size <= limit:
            continue
        if size == 0 and name not in NON_EMPTY_FILES:
            continue
        fault = "file_size.large" if size else "file_size.empty"
        details = {"file": name, "size": size, "limit": limit}
        return [Problem(fault, "model", repository.repo_id, details)]
    return []


def _max_bytes(name: str) -> int | None:
    if name == TEMPLATE or name.startswith(NAMED_TEMPLATES):
        return engine.LARGEST_TEMPLATE
    return engine.LARGEST_SMALL_FILE if name in engine.TOKENIZER else None


def _left_over_adapter(repository: Repository) -> list[Problem]:
    """Beside a whole model: transformers would put the adapter on once more."""
    if repository.is_adapter or ADAPTER_CONFIG not in repository.files:
        return []
    return [Problem("model_and_adapter", "model", repository.repo_id)]


# config.json

MAX_TOKENS = 2**25
SIZE_LIMITS: tuple[tuple[str, int, frozenset[str]], ...] = (
    ("layers", 4_096, frozenset({
        "num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_decoder_layers",
        "encoder_layers", "decoder_layers",
    })),
    ("as hidden size", 2**19, frozenset({
        "hidden_size", "n_embd", "d_model", "dim", "embedding_size", "word_embed_proj_dim",
        "head_dim", "kv_lora_rank", "q_lora_rank",
    })),
    ("as inner size", 2**22, frozenset({
        "intermediate_size", "n_inner", "ffn_dim", "d_ff", "moe_intermediate_size",
        "decoder_ffn_dim", "encoder_ffn_dim",
    })),
    ("heads", 2**14, frozenset({
        "num_attention_heads", "num_key_value_heads", "n_head", "n_heads", "num_heads",
        "decoder_attention_heads", "encoder_attention_heads",
    })),
    ("experts", 2**16, frozenset({
        "num_local_experts", "num_experts", "n_routed_experts", "n_shared_experts",
    })),
    ("tokens in its vocabulary", MAX_TOKENS, frozenset({"vocab_size"})),
    ("positions", 2**31, frozenset({
        "max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length",
    })),
)  # fmt: skip
"""What is meant, its largest value, and the keys under which configurations give it.

Transformers builds what config.json says before it reads any weights: two million layers of width 1
keep a worker busy for hours. The bounds are at least four times what the largest published models
have.
"""

MAX_CONFIG_DEPTH = 3
"""Configurations of models in models (`text_config`) that are looked into."""
MAX_SHOWN_NUMBER = 10**15
"""A larger number is not written out."""


def _impossible_sizes(repository: Repository) -> list[Problem]:
    """One problem for each size that is beyond any model's, or below zero."""
    sizes = _sizes_beyond(repository.config or {}, MAX_CONFIG_DEPTH)
    return [Problem("impossible_size", "model", repository.repo_id, size) for size in sizes]


def _sizes_beyond(config: Mapping[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    for key, value in config.items():
        if isinstance(value, Mapping) and depth:
            yield from _sizes_beyond(value, depth - 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            for unit, limit, keys in SIZE_LIMITS:
                if key in keys and not 0 <= value <= limit:
                    yield {"key": key, "number": _shown(value), "limit": limit, "unit": unit}


def _shown(value: float) -> str:
    if abs(value) <= MAX_SHOWN_NUMBER:
        return f"{value:,}"
    edge = f"{MAX_SHOWN_NUMBER:,}"
    return f"more than {edge}" if value > 0 else f"less than -{edge}"


def _config_faults(repository: Repository) -> list[Problem]:
    """The first of them: what follows from it is not told."""
    repo_id, config = repository.repo_id, repository.config
    if repository.config_error:
        reason = {"reason": repository.config_error}
        return [Problem("broken_config", "model", repo_id, reason)]
    if config is None:
        return [Problem("no_config", "model", repo_id)]
    if (method := repository.quantisation) and method_of(method) not in LIBRARIES:
        details = {"method": method, "libraries": ", ".join(LIBRARIES)}
        return [Problem("quantised", "model", repo_id, details)]
    fault = (
        architecture_fault(config, repo_id, repository.commit)
        or _dtype_fault(repo_id, config)
        or _vocabulary_fault(repository, config)
        or _table_fault(repository, config)
    )
    return [fault] if fault else []


def _dtype_fault(repo_id: str, config: dict[str, Any]) -> Problem | None:
    """A precision that PyTorch has no such name for, with which no configuration loads."""
    of_text = config.get("text_config")
    for part in (config, of_text if isinstance(of_text, dict) else {}):
        for key in ("dtype", "torch_dtype"):
            dtype = part.get(key)
            if isinstance(dtype, str) and dtype not in TORCH_DTYPES:
                details = {"key": key, "dtype": dtype[:40]}
                return Problem("unknown_stored_dtype", "model", repo_id, details)
    return None


def _table_fault(repository: Repository, config: dict[str, Any]) -> Problem | None:
    """A table of tokens that has another length than the configuration says does not load."""
    tokens, weights = clean_count(config.get("vocab_size"), MAX_TOKENS), repository.weights
    native = architecture_in(config) in NATIVE and not repository.quantisation
    if not native or config.get("model_type") in TYPES_WITH_EXTRA_ROWS or not tokens:
        return None
    if weights is None or weights.table_rows in (0, tokens):
        return None
    details = {"rows": weights.table_rows, "tokens": tokens}
    return Problem("other_table", "model", repository.repo_id, details)


def _vocabulary_fault(repository: Repository, config: dict[str, Any]) -> Problem | None:
    """A vocabulary whose vectors alone are more parameters than all of the weights are."""
    tokens, weights = config.get("vocab_size"), repository.weights
    widths = [config[name] for name in WIDTHS if isinstance(config.get(name), int)]
    if isinstance(tokens, int) and tokens > MAX_TOKENS:
        return None  # an impossible size of any model
    if not isinstance(tokens, int) or not widths or weights is None or not weights.count:
        return None
    if repository.quantisation:  # several numbers are packed into one
        return None
    if tokens * min(widths) <= weights.count:
        return None
    details = {"tokens": tokens, "width": min(widths), "held": weights.count}
    return Problem("vocabulary_too_large", "model", repository.repo_id, details)


# Architecture

# transformers 5.23.0
_NAMES = """
AXK1ForCausalLM AXK2ForCausalLM AfmoeForCausalLM ApertusForCausalLM ArceeForCausalLM
AriaTextForCausalLM BailingHybridForCausalLM BambaForCausalLM BartForCausalLM BeamForCausalLM
BertGenerationDecoder BertLMHeadModel BigBirdForCausalLM BigBirdPegasusForCausalLM
BioGptForCausalLM BitNetForCausalLM BlenderbotForCausalLM BlenderbotSmallForCausalLM
BloomForCausalLM BltForCausalLM CTRLLMHeadModel CamembertForCausalLM CodeGenForCausalLM
Cohere2ForCausalLM Cohere2MoeForCausalLM CohereCompassForCausalLM CohereForCausalLM
CpmAntForCausalLM CwmForCausalLM Data2VecTextForCausalLM DbrxForCausalLM DeepseekV2ForCausalLM
DeepseekV32ForCausalLM DeepseekV3ForCausalLM DeepseekV4ForCausalLM DiffLlamaForCausalLM
DogeForCausalLM Dots1ForCausalLM Dots3NoteForCausalLM ElectraForCausalLM Emu3ForCausalLM
Ernie4_5ForCausalLM Ernie4_5_MoeForCausalLM ErnieForCausalLM Exaone4ForCausalLM
ExaoneMoeForCausalLM FalconForCausalLM FalconH1ForCausalLM FalconMambaForCausalLM
FlexOlmoForCausalLM FlintForCausalLM FuyuForCausalLM GPT2LMHeadModel GPTBigCodeForCausalLM
GPTJForCausalLM GPTNeoForCausalLM GPTNeoXForCausalLM GPTNeoXJapaneseForCausalLM
Gemma2ForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma3nForCausalLM
Gemma3nForConditionalGeneration Gemma4AssistantForCausalLM Gemma4ForCausalLM
Gemma4ForConditionalGeneration Gemma4UnifiedAssistantForCausalLM Gemma4UnifiedForCausalLM
Gemma4UnifiedForConditionalGeneration GemmaForCausalLM GitForCausalLM Glm4ForCausalLM
Glm4MoeForCausalLM Glm4MoeLiteForCausalLM GlmForCausalLM GlmMoeDsaForCausalLM
GotOcr2ForConditionalGeneration GptOssForCausalLM GraniteForCausalLM GraniteMoeForCausalLM
GraniteMoeHybridForCausalLM GraniteMoeSWAForCausalLM GraniteMoeSharedForCausalLM
GraniteSWAForCausalLM HYV3ForCausalLM HYV4ForCausalLM HeliumForCausalLM HrmTextForCausalLM
HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM HyperCLOVAXForCausalLM Inkling2ForCausalLM
InklingForCausalLM Jais2ForCausalLM JambaForCausalLM JetMoeForCausalLM KimiLinearForCausalLM
Kolibri1ForCausalLM LagunaForCausalLM Lfm2ForCausalLM Lfm2MoeForCausalLM Lfm3ForCausalLM
Llama4ForCausalLM LlamaForCausalLM LongcatFlashForCausalLM MBartForCausalLM Mamba2ForCausalLM
MambaForCausalLM MarianForCausalLM MegatronBertForCausalLM MellumForCausalLM
MiMoV2FlashForCausalLM MiniCPM3ForCausalLM MiniMaxForCausalLM MiniMaxM2ForCausalLM
MiniMaxM3VLForCausalLM Ministral3ForCausalLM MinistralForCausalLM MistralForCausalLM
MixtralForCausalLM MllamaForCausalLM ModernBertDecoderForCausalLM MoshiForCausalLM
MossTranscribeDiarizeForConditionalGeneration MptForCausalLM MusicgenForCausalLM
MusicgenMelodyForCausalLM MvpForCausalLM NanoChatForCausalLM NemotronForCausalLM
NemotronHForCausalLM OPTForCausalLM Olmo2ForCausalLM Olmo3ForCausalLM OlmoForCausalLM
OlmoHybridForCausalLM OlmoeForCausalLM OpenAIGPTLMHeadModel PLBartForCausalLM PegasusForCausalLM
PersimmonForCausalLM Phi3ForCausalLM Phi4MultimodalForCausalLM PhiForCausalLM PhimoeForCausalLM
ProphetNetForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM
Qwen3NextForCausalLM Qwen3_5ForCausalLM Qwen3_5MoeForCausalLM Qwen4ExpForCausalLM
RecurrentGemmaForCausalLM ReformerModelWithLMHead RemBertForCausalLM RoCBertForCausalLM
RoFormerForCausalLM RobertaForCausalLM RobertaPreLayerNormForCausalLM RwkvForCausalLM
SeedOssForCausalLM SmolLM3ForCausalLM SolarOpenForCausalLM StableLmForCausalLM
Starcoder2ForCausalLM TrOCRForCausalLM VaultGemmaForCausalLM WhisperForCausalLM XGLMForCausalLM
XLMRobertaForCausalLM XLMRobertaXLForCausalLM XLMWithLMHeadModel XLNetLMHeadModel
XmodForCausalLM YoutuForCausalLM Zamba2ForCausalLM ZambaForCausalLM ZayaForCausalLM
xLSTMForCausalLM
"""
_TYPES = """
afmoe apertus arcee aria_text axk1 axk2 bailing_hybrid bamba bart beam bert bert-generation big_bird
bigbird_pegasus biogpt bitnet blenderbot blenderbot-small bloom blt camembert codegen cohere cohere2
cohere2_moe cohere_compass_text cpmant ctrl cwm data2vec-text dbrx deepseek_v2 deepseek_v3
deepseek_v32 deepseek_v4 diffllama doge dots1 dots3_note dots3_note_text electra emu3 ernie ernie4_5
ernie4_5_moe exaone4 exaone_moe falcon falcon_h1 falcon_mamba flex_olmo flint fuyu gemma gemma2
gemma3 gemma3_text gemma3n gemma3n_text gemma4 gemma4_assistant gemma4_text gemma4_unified
gemma4_unified_assistant gemma4_unified_text git glm glm4 glm4_moe glm4_moe_lite glm_moe_dsa
got_ocr2 gpt-sw3 gpt2 gpt_bigcode gpt_neo gpt_neox gpt_neox_japanese gpt_oss gptj granite
granite_swa granitemoe granitemoe_swa granitemoehybrid granitemoeshared helium hrm_text
hunyuan_v1_dense hunyuan_v1_moe hy_v3 hy_v4 hyperclovax inkling2_text inkling_text internlm3
iquestcoder jais2 jamba jetmoe kimi_linear kolibri1 laguna lfm2 lfm2_moe lfm3 llama llama4
llama4_text longcat_flash mamba mamba2 marian mbart megatron-bert mellum mimo_v2_flash minicpm3
minimax minimax_m2 minimax_m3_vl_text ministral ministral3 mistral mixtral mllama modernbert-decoder
moshi moss_transcribe_diarize mpt musicgen musicgen_melody mvp nanochat nemotron nemotron_h olmo
olmo2 olmo3 olmo_hybrid olmoe openai-gpt opt pegasus persimmon phi phi3 phi4_multimodal phimoe
plbart prophetnet qwen2 qwen2_moe qwen3 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_moe
qwen3_next qwen4_exp qwen4_exp_text recurrent_gemma reformer rembert roberta roberta-prelayernorm
roc_bert roformer rwkv seed_oss smollm3 solar_open stablelm starcoder2 trocr vaultgemma whisper xglm
xlm xlm-roberta xlm-roberta-xl xlnet xlstm xmod youtu zamba zamba2 zaya
"""
_SEEING = """
aria:Aria aya_vision:AyaVision cohere2_vision:Cohere2Vision deepseek_vl:DeepseekVL
deepseek_vl_hybrid:DeepseekVLHybrid ernie4_5_vl_moe:Ernie4_5_VLMoe exaone4_5:Exaone4_5_
fast_vlm:FastVlm glm46v:Glm46V glm4v:Glm4v glm4v_moe:Glm4vMoe hunyuan_vl:HunYuanVL
hyperclovax_vision_v2:HyperCLOVAXVisionV2 idefics2:Idefics2 idefics3:Idefics3 internvl:InternVL
kimi_k25:Kimi_K25 lfm2_vl:Lfm2Vl llama4:Llama4 llava:Llava llava_next:LlavaNext
llava_next_video:LlavaNextVideo llava_onevision:LlavaOnevision mistral3:Mistral3
mllama:Mllama molmo2:Molmo2 ovis2:Ovis2 perception_lm:PerceptionLM qwen2_5_vl:Qwen2_5_VL
qwen2_vl:Qwen2VL qwen3_5:Qwen3_5 qwen3_5_moe:Qwen3_5Moe qwen3_vl:Qwen3VL
qwen3_vl_moe:Qwen3VLMoe qwen4_exp:Qwen4Exp smolvlm:SmolVLM step3p7:Step3p7
video_llava:VideoLlava vipllava:VipLlava
"""
SEEING = {
    f"{name}ForConditionalGeneration": model_type
    for model_type, _, name in (pair.partition(":") for pair in _SEEING.split())
}
"""Decoders that see as well, each with its model type: they are asked in text alone."""
NATIVE = frozenset(_NAMES.split())
MODEL_TYPES = frozenset(_TYPES.split())
"""By which transformers chooses the code, whatever architecture is named beside."""
SENSES = frozenset({"vision_config", "audio_config"})
"""Keys of config.json of models that see or hear."""
ENCODER_DECODER_ENDINGS = ("ForConditionalGeneration", "EncoderDecoderModel")


def architecture_fault(config: dict[str, Any], repo_id: str, commit: str = "") -> Problem | None:
    """Why a model with this config.json cannot be evaluated, or None where it can."""
    architecture = architecture_in(config)
    senses = bool(SENSES & config.keys())
    if config.get("is_encoder_decoder"):
        fault = "encoder_decoder"
    elif architecture in NATIVE or architecture in SEEING:
        return _type_fault(config, repo_id, architecture)
    elif needs_code(config):
        return _code_fault(config, repo_id, commit, architecture)
    elif not architecture:
        fault = "no_architecture"
    elif architecture.endswith(ENCODER_DECODER_ENDINGS) and not senses:
        fault = "encoder_decoder"
    elif architecture.endswith(("ForCausalLM", "LMHeadModel")):
        fault = "unknown_architecture"
    else:
        fault = "not_generative.senses" if senses else "not_generative"
    details = {"architecture": architecture or "is_encoder_decoder"}
    return Problem(fault, "model", repo_id, details)


def _type_fault(config: dict[str, Any], repo_id: str, architecture: str) -> Problem | None:
    model_type = clean_text(config.get("model_type"), 64)
    if model_type in MODEL_TYPES or model_type in SEEING.values():
        return None
    fault = "unknown_model_type" if model_type else "unknown_model_type.unstated"
    details = {"model_type": model_type, "architecture": architecture}
    return Problem(fault, "model", repo_id, details)


def architecture_in(config: Mapping[str, Any]) -> str:
    """The first architecture of a config.json; empty where it names none."""
    architectures = config.get("architectures")
    if isinstance(architectures, list) and architectures and isinstance(architectures[0], str):
        return architectures[0]
    return ""


# Code of the model's own


def needs_code(config: dict[str, Any]) -> bool:
    """Whether a model is computed by code that it brings along."""
    architecture = architecture_in(config)
    if config.get("is_encoder_decoder") or architecture in NATIVE or architecture in SEEING:
        return False
    auto_map = config.get("auto_map")
    names = auto_map if isinstance(auto_map, dict) else ()
    return any(str(name).startswith("AutoModel") for name in names)


def _trusted_code(repository: Repository) -> tuple[str, ...]:
    """The repositories whose code would be run, each with @ and its commit; of another one that is
    not listed, or at several commits, nothing."""
    config = repository.config or {}
    if not needs_code(config):
        return ()
    references = code.references(config)
    own_pin = (f"{repository.repo_id}@{repository.commit}",) if code.has_own(references) else ()
    trusted = ((name, sorted(_trusted_commits(name))) for name in code.others(references))
    return (*own_pin, *(f"{name}@{commits[0]}" for name, commits in trusted if len(commits) == 1))


def _code_fault(
    config: dict[str, Any], repo_id: str, commit: str, architecture: str
) -> Problem | None:
    """Why the code that a model needs is not run, or None where it is.

    Code in another repository (`owner/name--module.Class`) is run only where that one is listed,
    too.
    """

    def fault(variant: str, **details: str) -> Problem:
        details |= {"needs": architecture or "auto_map", "commit": commit[:8]}
        return Problem(f"custom_code.{variant}", "model", repo_id, details)

    if not settings.PLUMBLINE_TRUSTED_CODE:
        return fault("never")
    references = code.references(config)
    others = code.others(references)
    known = _trusted_commits(repo_id)
    if code.has_own(references) and commit not in known:
        return fault("commit", listed=min(known)) if known else fault("unlisted")
    if len(others) > 1:
        return fault("several", repositories=", ".join(others)[:200])
    for other in others:
        if not _trusted_commits(other):
            return fault("elsewhere", repository=other[:96])
        if len(_trusted_commits(other)) > 1:
            return fault("commits", repository=other[:96])
    return None


def _trusted_commits(repo_id: str) -> frozenset[str]:
    commits: frozenset[str] = settings.PLUMBLINE_TRUSTED_CODE.get(repo_id, frozenset())
    return commits


# Adapters

# peft 0.21; a test compares them.
_LAYER_KINDS = """
ADALORA ADAMSS ADAPTION_PROMPT BEFT BOFT C3A DEFT DELORA FOURIERFT FROD GLORA GRALORA HIRA HRA IA3
LILY LN_TUNING LOHA LOKR LORA MISS OFT OSF PEANUT POLY PSOFT PVERA RANDLORA ROAD SHADOW SHIRA
SUPERTUNING TINYLORA TRAINABLE_TOKENS UNILORA VBLORA VERA WAVEFT XLORA
"""
_PROMPT_KINDS = "CARTRIDGE CPT MULTITASK_PROMPT_TUNING PREFIX_TUNING PROMPT_TUNING P_TUNING"
LAYER_ADAPTERS, PROMPT_ADAPTERS = frozenset(_LAYER_KINDS.split()), frozenset(_PROMPT_KINDS.split())
"""Kinds of adapters: prompts are trained tokens before the text, and no layers."""


def faults_of_adapter(repository: Repository) -> list[Problem]:
    """What keeps an adapter from being put on anything."""
    repo_id = repository.repo_id
    if repository.adapter_config is None:
        reason = {"reason": repository.config_error}
        return [Problem("broken_config.adapter", "model", repo_id, reason)]
    if ADAPTER_WEIGHTS not in repository.files:
        return [Problem("no_safetensors.adapter", "model", repo_id)]
    if repository.weights is None or repository.weights.count < 1:
        return [Problem("unknown_size.adapter", "model", repo_id)]
    kind = clean_text(repository.adapter_config.get("peft_type"), 40)
    if kind in PROMPT_ADAPTERS:
        return [Problem("adapter_of_prompts", "model", repo_id, {"kind": kind})]
    if kind not in LAYER_ADAPTERS:
        return [Problem("unknown_adapter", "model", repo_id, {"kind": kind or "nothing"})]
    return _wrong_size(repository)


def base_of(repository: Repository, typed: str) -> ModelReference:
    """The model that the adapter is put on: the one typed, else the one that it names.

    Raises Refused with one problem, of field `base`.
    """
    typed, stated = typed.strip(), stated_base(repository.adapter_config or {})
    if not typed and not stated:
        raise Refused(Problem("no_base.unnamed", "base", repository.repo_id))
    try:
        return model_id.read(typed or stated)
    except Refused as refused:
        if typed:
            raise Refused(*at_base(refused.problems)) from None
        named = {"named": stated}
        raise Refused(Problem("no_base.elsewhere", "base", repository.repo_id, named)) from None


def another_base(adapter: Repository, base: Repository) -> list[Problem]:
    """That an adapter names another base than the one that it is put on, by the last part of it."""
    stated = stated_base(adapter.adapter_config or {}).partition("@")[0]
    if stated.rpartition("/")[2].lower() == base.repo_id.rpartition("/")[2].lower():
        return []
    details = {"adapter": adapter.repo_id, "named": stated}
    return [Problem("another_base", "base", base.repo_id, details)] if stated else []


def at_base(problems: Iterable[Problem]) -> list[Problem]:
    """Problems of the model that an adapter is put on, at the field where it is named."""
    return [replace(problem, field="base") for problem in problems]
