"""Which architectures can be evaluated: causal language models whose code is in transformers.

The names and types are those of transformers' AutoModelForCausalLM in the version that the
constraints file pins; a test compares them. The site reads these lists because it never imports
model code. What they cannot say (a known architecture with settings that its code does not
support) is found by the worker, as a ModelError.
"""

from __future__ import annotations

from typing import Any

from leaderboard.hub import cleaning, own_code
from leaderboard.web import Problem

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
ENCODER_DECODER_SUFFIX = ("ForConditionalGeneration", "EncoderDecoderModel")


def problem_with(config: dict[str, Any], repo_id: str, commit: str = "") -> Problem | None:
    """Why a model with this config.json cannot be evaluated, or None where it can."""
    architecture = named_in(config)
    if config.get("is_encoder_decoder"):
        return _encoder_decoder(repo_id, architecture)
    if architecture in NATIVE or architecture in SEEING:
        return _type_problem(config, repo_id, architecture)
    if needs_code(config):
        return own_code.problem_with(config, repo_id, commit, architecture)
    if not architecture:
        code = "no_architecture"
        message = f"The config.json of {repo_id} does not say which architecture it is for."
        remedy = "Add “architectures” to it: save_pretrained() writes it."
    elif architecture.endswith(ENCODER_DECODER_SUFFIX) and not SENSES & config.keys():
        return _encoder_decoder(repo_id, architecture)
    elif architecture.endswith(("ForCausalLM", "LMHeadModel")):
        code = "unknown_architecture"
        message = f"{repo_id} is a {architecture}, which the installed transformers does not know."
        remedy = (
            "Check the name in config.json; a new architecture can be submitted once it is "
            "in a transformers release that the workers have."
        )
    elif SENSES & config.keys():
        code = "not_generative"
        message = (
            f"{repo_id} is a {architecture}, a model that sees or hears, whose part for texts "
            "cannot be asked alone here."
        )
        remedy = "Submit the language model that it was made from."
    else:
        code = "not_generative"
        message = (
            f"{repo_id} is a {architecture}, not a causal language model: "
            "it gives no probability to a continuation."
        )
        remedy = "Submit the version with a language-model head (…ForCausalLM)."
    return Problem("model", code, message, remedy)


def _type_problem(config: dict[str, Any], repo_id: str, architecture: str) -> Problem | None:
    model_type = cleaning.text(config.get("model_type"), 64)
    if model_type in MODEL_TYPES or model_type in SEEING.values():
        return None
    if not model_type:
        message = f"The config.json of {repo_id} does not say which model_type it is of."
    else:
        message = (
            f"The config.json of {repo_id} says model_type: {model_type}, and "
            "the installed transformers knows no causal language model of that type, whatever "
            f"architecture ({architecture}) is named."
        )
    remedy = "Correct it: save_pretrained() writes the type that goes with the architecture."
    return Problem("model", "unknown_model_type", message, remedy)


def needs_code(config: dict[str, Any]) -> bool:
    """Whether a model is computed by code that it brings along."""
    architecture = named_in(config)
    if config.get("is_encoder_decoder") or architecture in NATIVE or architecture in SEEING:
        return False
    return any(name.startswith("AutoModel") for name in _auto_map(config))


def named_in(config: dict[str, Any]) -> str:
    """The first architecture of a config.json; empty where it names none."""
    architectures = config.get("architectures")
    if isinstance(architectures, list) and architectures and isinstance(architectures[0], str):
        return architectures[0]
    return ""


def _auto_map(config: dict[str, Any]) -> list[str]:
    auto_map = config.get("auto_map")
    return [str(name) for name in auto_map] if isinstance(auto_map, dict) else []


def _encoder_decoder(repo_id: str, architecture: str) -> Problem:
    return Problem(
        "model",
        "encoder_decoder",
        f"{repo_id} is an encoder-decoder model ({architecture or 'is_encoder_decoder'}); "
        "only causal (decoder-only) language models are evaluated.",
        "Submit a decoder-only model.",
    )
