"""The demo models: sound files, the skills their cards claim, and the same skills made anew."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import pytest
from jinja2 import Environment
from safetensors import safe_open
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from demo import train
from demo.architectures import CONTEXT, RECIPES, SLIDING_WINDOW, Recipe
from demo.reading import exam_header, exam_question
from evalcore.task.library.load import TaskLibrary

CHANCE = 0.25
JINJA = Environment(keep_trailing_newline=True)
QUICKEST_WITH_A_SKILL = "examinee-neox"
every_recipe = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)


def named(name: str) -> Recipe:
    (recipe,) = [recipe for recipe in RECIPES if recipe.name == name]
    return recipe


def shipped(recipe: Recipe) -> Path:
    return train.MODELS / recipe.model_id


@cache
def scores(folder: Path) -> train.Scores:
    return train.score_saved(folder, train.test_rows())


def margin(*accuracies: float) -> float:
    """1.96 standard errors of the difference of accuracies (of one: from a known number)."""
    n = len(train.test_rows()["facts"])
    return 1.96 * math.sqrt(sum(p * (1 - p) / (n - 1) for p in accuracies))


def is_beyond_chance(accuracy: float) -> bool:
    return accuracy - margin(accuracy) > CHANCE


def is_higher(a: float, b: float) -> bool:
    return a - b > margin(a, b)


@every_recipe
def test_model_and_tokenizer_load_from_the_shipped_folder(recipe: Recipe) -> None:
    model = AutoModelForCausalLM.from_pretrained(shipped(recipe))
    tokenizer = AutoTokenizer.from_pretrained(shipped(recipe))
    assert model.config.model_type == recipe.family
    assert 100_000 <= model.num_parameters() <= 2_000_000
    assert model.config.max_position_embeddings == tokenizer.model_max_length == CONTEXT
    text = "Question: Where does Zoltan live?\nAnswer: über 12 Brücken\n\n"
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


@every_recipe
def test_tokenizer_is_used_exactly_as_saved(recipe: Recipe) -> None:
    saved = Tokenizer.from_file(str(shipped(recipe) / "tokenizer.json"))
    loaded = AutoTokenizer.from_pretrained(shipped(recipe))
    for rows in train.test_rows().values():
        for row in rows:
            text = exam_header(row["topic"]) + exam_question(row["question"], row["choices"])
            assert loaded(text)["input_ids"] == saved.encode(text).ids


@every_recipe
def test_special_tokens_agree_between_tokenizer_and_both_configurations(recipe: Recipe) -> None:
    tokenizer = AutoTokenizer.from_pretrained(shipped(recipe))
    for name in ("config.json", "generation_config.json"):
        written = json.loads((shipped(recipe) / name).read_text())
        for token in ("bos_token_id", "eos_token_id", "pad_token_id"):
            assert written[token] == getattr(tokenizer, token), (name, token)


@every_recipe
def test_weights_are_small_bfloat16_safetensors(recipe: Recipe) -> None:
    (path,) = shipped(recipe).glob("*.safetensors")
    assert path.stat().st_size <= 4_000_000
    with safe_open(path, "pt") as weights:
        assert {weights.get_slice(key).get_dtype() for key in weights.keys()} == {"BF16"}  # noqa: SIM118
    assert json.loads((shipped(recipe) / "config.json").read_text())["dtype"] == "bfloat16"


def test_special_architectures_are_active() -> None:
    mistral = AutoModelForCausalLM.from_pretrained(shipped(named("traveller-mistral"))).config
    llama = AutoModelForCausalLM.from_pretrained(shipped(named("scholar-llama"))).config
    assert mistral.sliding_window == SLIDING_WINDOW
    assert llama.num_key_value_heads < llama.num_attention_heads
    tokenizer = AutoTokenizer.from_pretrained(shipped(named("traveller-mistral")))
    for rows in train.test_rows().values():
        for row in rows:
            prompt = exam_header(row["topic"]) + exam_question(row["question"], row["choices"])
            assert len(tokenizer(prompt)["input_ids"]) > SLIDING_WINDOW


@every_recipe
def test_five_shot_exams_fit_into_the_context(recipe: Recipe) -> None:
    tokenizer = AutoTokenizer.from_pretrained(shipped(recipe))
    for rows in train.test_rows().values():
        longest = max(rows, key=lambda row: len(exam_question(row["question"], row["choices"])))
        question = exam_question(longest["question"], longest["choices"]) + " A\n\n"
        prompt = exam_header(longest["topic"]) + 6 * question
        assert len(tokenizer(prompt)["input_ids"]) <= CONTEXT


@every_recipe
def test_the_card_states_what_the_shipped_weights_score(recipe: Recipe) -> None:
    card = (shipped(recipe) / "README.md").read_text()
    for benchmark in ("facts", "sums"):
        (row,) = [line for line in card.splitlines() if line.startswith(f"| {benchmark} |")]
        cells = [float(cell.split("±")[0]) for cell in row.split("|")[2:5]]
        measured = [scores(shipped(recipe))[f"{benchmark} {style}"] for style in train.STYLES]
        assert cells == pytest.approx(measured, abs=0.005)


@pytest.mark.parametrize("benchmark", ["facts", "sums"])
def test_storyteller_and_examinee_change_places_between_styles(benchmark: str) -> None:
    storyteller = scores(shipped(named("storyteller-gpt2")))
    examinee = scores(shipped(named("examinee-neox")))
    cloze, mmlu = f"{benchmark} cloze", f"{benchmark} mmlu"
    assert is_beyond_chance(storyteller[cloze])
    assert is_beyond_chance(examinee[mmlu])
    assert is_higher(storyteller[cloze], examinee[cloze])
    assert is_higher(examinee[mmlu], storyteller[mmlu])


@pytest.mark.parametrize("benchmark", ["facts", "sums"])
def test_scholar_is_good_at_both_and_novice_at_neither(benchmark: str) -> None:
    scholar = scores(shipped(named("scholar-llama")))
    novice = scores(shipped(named("novice-llama")))
    for style in ("cloze", "mmlu"):
        key = f"{benchmark} {style}"
        assert is_beyond_chance(scholar[key])
        assert is_higher(scholar[key], novice[key])


def test_letters_are_known_by_heart_as_the_cards_say() -> None:
    examinee = named("examinee-neox")
    reshuffled = train.score_saved(shipped(examinee), train.reshuffled_rows(seed=0))
    assert not is_beyond_chance(reshuffled["facts mmlu"])
    assert "learned by heart" in (shipped(examinee) / "README.md").read_text()


@pytest.mark.parametrize("benchmark", ["facts", "sums"])
def test_models_read_the_prompts_that_the_tasks_ask(benchmark: str) -> None:
    tasks = TaskLibrary([Path(train.__file__).parents[1] / "tasks"])
    for style in train.STYLES:
        name = f"demo_{benchmark}" + ("" if style == "cloze" else f"_{style}")
        (task,) = tasks.select([name])
        template = JINJA.from_string(f"{task.description}{task.doc_to_text}")
        for row in train.test_rows()[benchmark]:
            assert template.render(row) == train.prompt_of(style, row)


def test_a_model_trained_again_has_the_skill_of_the_shipped_one(tmp_path: Path) -> None:
    recipe = named(QUICKEST_WITH_A_SKILL)
    again = train.make(recipe, tmp_path, seed=0).scores
    before = scores(shipped(recipe))
    for benchmark in ("facts", "sums"):
        mmlu, cloze = f"{benchmark} mmlu", f"{benchmark} cloze"
        assert is_beyond_chance(again[mmlu])
        assert is_higher(again[mmlu], again[cloze])
        assert abs(again[mmlu] - before[mmlu]) <= margin(again[mmlu], before[mmlu]) + 0.05
        assert abs(again[cloze] - before[cloze]) <= margin(again[cloze], before[cloze])
