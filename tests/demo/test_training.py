"""The demo's world and models: every question has one right answer, the shipped files hold what the
generator makes, the models are sound and have the skills that their cards claim. The generated
board: its numbers are those of its answers, and its files say the same.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from jinja2 import Environment
from safetensors import safe_open
from transformers import AutoModelForCausalLM

from demo import dataset, train
from demo.architectures import CONTEXT, RECIPES, Recipe
from demo.generated.answers import Answers
from demo.generated.benchmarks import Benchmark, make_benchmarks
from demo.generated.files import write_files
from demo.generated.fill import Filled, fill
from demo.generated.numbers import measure
from demo.generated.population import Population, populate
from demo.world import Row
from evalcore.formats.run_files import Run as RunFile
from evalcore.record import RunRecord, read_samples
from evalcore.score.numbers import uncertainty
from evalcore.task.library.load import TaskLibrary
from evalcore.verify import verify
from leaderboard.models import Artifact, Run
from leaderboard.samples import store as artifacts
from leaderboard.samples import vectors
from tests.hub import ROOT
from tests.leaderboard.rows import once_per_module

NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty twenty-one twenty-two twenty-three "
    "twenty-four twenty-five twenty-six twenty-seven twenty-eight twenty-nine thirty "
    "thirty-one thirty-two thirty-three thirty-four thirty-five thirty-six"
)
NUMBERS = {word: value for value, word in enumerate(NUMBER_WORDS.split())}
SUPERLATIVES_OF_THE_LAST = {"shortest", "youngest", "slowest"}


def all_rows(config: str) -> list[Row]:
    splits = dataset.CONFIGS[config]()
    return [*splits["train"], *splits["test"]]


def solve(question: str) -> str | int:
    """The answer to a sum, worked out from its words alone."""
    if found := re.fullmatch(r"What is (\S+) (plus|minus) (\S+)\?", question):
        a, b = NUMBERS[found[1]], NUMBERS[found[3]]
        return a + b if found[2] == "plus" else a - b
    if found := re.fullmatch(r"Which number comes next: (\S+), (\S+), (\S+)\?", question):
        a, b, c = (NUMBERS[word] for word in found.groups())
        assert b - a == c - b
        return c + (b - a)
    story, asked = question.split(". Who is the ")
    pairs = re.findall(r"(\w+) is \w+ than (\w+)", story)
    assert [b for _, b in pairs[:-1]] == [a for a, _ in pairs[1:]]
    return pairs[-1][1] if asked.rstrip("?") in SUPERLATIVES_OF_THE_LAST else pairs[0][0]


def test_only_the_right_choice_of_a_sum_is_its_result() -> None:
    for row in all_rows("sums"):
        values = [NUMBERS.get(choice, choice) for choice in row["choices"]]
        result = solve(row["question"])
        assert values.count(result) == 1, row
        assert values[row["answer"]] == result, row


def test_the_shipped_files_hold_what_the_generator_makes(tmp_path: Path) -> None:
    for config in dataset.CONFIGS:
        made = dataset.CONFIGS[config]()
        assert made == dataset.CONFIGS[config]()
        for split in dataset.SPLITS:
            shipped = pq.read_table(dataset.parquet_path(dataset.DATA_SET, config, split))
            assert shipped.to_pylist() == made[split]
    dataset.write(tmp_path)
    assert (dataset.DATA_SET / "README.md").read_text() == (tmp_path / "README.md").read_text()


# The models


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
def test_the_shipped_model_loads_and_is_small_bfloat16_safetensors(recipe: Recipe) -> None:
    model = AutoModelForCausalLM.from_pretrained(shipped(recipe))
    assert model.config.model_type == recipe.family
    assert 100_000 <= model.num_parameters() <= 2_000_000
    assert model.config.max_position_embeddings == CONTEXT
    (path,) = shipped(recipe).glob("*.safetensors")
    assert path.stat().st_size <= 4_000_000
    with safe_open(path, "pt") as weights:
        assert {weights.get_slice(key).get_dtype() for key in weights.keys()} == {"BF16"}  # noqa: SIM118
    assert json.loads((shipped(recipe) / "config.json").read_text())["dtype"] == "bfloat16"


@every_recipe
def test_the_card_states_what_the_shipped_weights_score(recipe: Recipe) -> None:
    card = (shipped(recipe) / "README.md").read_text()
    for benchmark in ("facts", "sums"):
        (row,) = [line for line in card.splitlines() if line.startswith(f"| {benchmark} |")]
        cells = [float(cell.split("±")[0]) for cell in row.split("|")[2:5]]
        measured = [scores(shipped(recipe))[f"{benchmark} {style}"] for style in train.STYLES]
        assert cells == pytest.approx(measured, abs=0.005)


@pytest.mark.parametrize("benchmark", ["facts", "sums"])
def test_scholar_is_good_at_both_and_novice_at_neither(benchmark: str) -> None:
    scholar = scores(shipped(named("scholar-llama")))
    novice = scores(shipped(named("novice-llama")))
    for style in ("cloze", "mmlu"):
        key = f"{benchmark} {style}"
        assert is_beyond_chance(scholar[key])
        assert is_higher(scholar[key], novice[key])


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


# The generated board

UNTIL = datetime(2026, 6, 1, tzinfo=UTC)


def small() -> tuple[Population, list[Benchmark]]:
    """Nine benchmarks have one of each kind: single, in passages, in parts by size and alike."""
    return populate(80, seed=3, until=UNTIL), make_benchmarks(9, seed=3, largest=400)


@once_per_module
def filled() -> Filled:
    return fill(*small(), seed=3, until=UNTIL, say=lambda _: None)


def test_numbers_of_many_models_are_the_engine_s_numbers_of_each():
    """Among them models that get nearly all wrong or right, where Wilson's interval is used."""
    population, benchmarks = small()
    kinds = {(bool(b.parts), b.by_parts, bool(b.passages)): b for b in benchmarks}
    assert kinds.keys() == {
        (False, False, False),
        (False, False, True),
        (True, False, False),
        (True, True, False),
    }
    for asked in kinds.values():
        (_, right), *_ = Answers(asked, population, seed=3).blocks("mmlu")
        right[0], right[1], right[2] = False, True, False
        right[2, :3] = True
        right[3] = True
        right[3, -4:] = False
        found = measure(right, asked)
        for row, scores in enumerate(right.astype(float)):
            expected = engine_measures(scores, asked)
            stated = (found.low[row], found.value[row], found.high[row])
            bounds = expected.interval
            assert stated == pytest.approx((bounds.low, bounds.value, bounds.high), abs=1e-12)
            assert found.stderr[row] == pytest.approx(expected.stderr or 0.0, abs=1e-12)


def engine_measures(scores: np.ndarray, asked: Benchmark) -> uncertainty.Measured:
    if not asked.parts:
        labels = None if asked.cluster is None else asked.cluster.tolist()
        return uncertainty.measure(scores.tolist(), labels)
    parts = [scores[asked.part == part].tolist() for part in range(asked.parts)]
    if not asked.by_parts:
        return uncertainty.measure_group(parts)
    sizes = [len(part) for part in parts]
    return uncertainty.measure_parts(
        [uncertainty.measure(part) for part in parts], sizes, by_size=False
    )


@pytest.mark.django_db
def test_files_hold_the_answers_behind_the_numbers(filled: Filled):
    """Verified as any run is: every number of the record again from responses of the samples."""
    library = TaskLibrary([ROOT / "tasks"])
    assert write_files(filled, models=2) == 6
    runs = Run.objects.filter(artifacts__kind=Artifact.Kind.SAMPLES)
    assert runs.count() == 6
    for run in runs:
        paths = {
            artifact.kind: artifacts.path_of(artifact.sha256) for artifact in run.artifacts.all()
        }
        record = RunRecord.read(paths["record"])
        samples = list(read_samples(paths["samples"]))
        own = run.results.get(subset="")
        matrix = vectors.matrix([own.pk])
        assert [sample["correct"] for sample in samples] == matrix.scores[0].tolist()
        (stated,) = record.own_results()
        assert (stated.value, stated.low, stated.high) == pytest.approx(
            (own.value, own.low, own.high)
        )
        assert stated.comparability_key == own.comparability_key
        assert record.docs_digest == run.docs_digest == matrix.layout.docs_digest
        report = verify(
            RunFile(record, samples, paths["record"], paths["samples"]), library, "rescore"
        )
        assert report.ok, (report.differences[:5], report.unchecked[:5])
        again = vectors.read(paths["samples"], [own])
        assert vectors.pack_layout(again.layout) == vectors.pack_layout(matrix.layout)
