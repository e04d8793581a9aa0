"""Which architectures can be evaluated: causal language models whose code is in transformers.

The names are those of transformers' AutoModelForCausalLM in the version that the constraints file
pins; a test compares them. The site reads this list because it never imports model code. What the
list cannot say (a known architecture with settings that its code does not support) is found by the
worker, as a ModelError.
"""

from __future__ import annotations

from typing import Any

from leaderboard.hub import own_code
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
NATIVE = frozenset(_NAMES.split())
ENCODER_DECODER_SUFFIX = ("ForConditionalGeneration", "EncoderDecoderModel")


def problem_with(config: dict[str, Any], repo_id: str, commit: str = "") -> Problem | None:
    """Why a model with this config.json cannot be evaluated, or None where it can."""
    architecture = named_in(config)
    if config.get("is_encoder_decoder"):
        return _encoder_decoder(repo_id, architecture)
    if architecture in NATIVE:
        return None
    if needs_code(config):
        return own_code.problem_with(config, repo_id, commit, architecture)
    if not architecture:
        code = "no_architecture"
        message = f"The config.json of {repo_id} does not say which architecture it is for."
        remedy = "Add “architectures” to it: save_pretrained() writes it."
    elif architecture.endswith(ENCODER_DECODER_SUFFIX):
        return _encoder_decoder(repo_id, architecture)
    elif architecture.endswith(("ForCausalLM", "LMHeadModel")):
        code = "unknown_architecture"
        message = f"{repo_id} is a {architecture}, which the installed transformers does not know."
        remedy = (
            "Check the name in config.json; a new architecture can be submitted once it is "
            "in a transformers release that the workers have."
        )
    else:
        code = "not_generative"
        message = (
            f"{repo_id} is a {architecture}, not a causal language model: "
            "it gives no probability to a continuation."
        )
        remedy = "Submit the version with a language-model head (…ForCausalLM)."
    return Problem("model", code, message, remedy)


def needs_code(config: dict[str, Any]) -> bool:
    """Whether a model is computed by code that it brings along."""
    if config.get("is_encoder_decoder") or named_in(config) in NATIVE:
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
