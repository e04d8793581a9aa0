"""A filter, metric or aggregation that task code registers belongs to the tasks of that code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from evalcore.errors import TaskError
from evalcore.refusals import check_supported
from evalcore.score.filters.registry import FILTERS
from tests.evalcore.both_scorers import GENERATE, Scene, peer, places

KEYS = f"""{GENERATE}
    process_docs: !function code.process_docs
    filter_list: [{{name: own, filter: [{{function: tidied}}, {{function: take_first}}]}}]
    metric_list: [{{metric: alike, aggregation: summed, higher_is_better: true}}]
"""
CODE = """
from lm_eval.api.registry import register_aggregation, register_filter, register_metric
from lm_eval.filters.extraction import RegexFilter

@register_filter("tidied")
class Tidied(RegexFilter):
    def apply(self, resps, docs):
        return [[text.{tidied} for text in results] for results in resps]

@register_aggregation("summed")
def summed(items):
    return {factor} * sum(items)

@register_metric(metric="alike", higher_is_better=False, output_type="generate_until",
                 aggregation="summed")
def alike(items):
    return float(items[0].lower() == items[1])

def process_docs(docs):
    return docs
"""


def scene(folder: Path, tidied: str, factor: int, keys: str = KEYS) -> Scene:
    folder.mkdir()
    return Scene(folder, places(6), keys, CODE.format(tidied=tidied, factor=factor))


def lower_case(request: Any, repeat: int) -> str:
    return "rome"


def test_two_folders_with_one_name_each_have_their_own(tmp_path: Path) -> None:
    first = scene(tmp_path / "first", "lower()", 1)
    second = scene(tmp_path / "second", "upper()", 10)
    third = scene(tmp_path / "third", "lower()", 10)
    for one in (first, second, third):
        check_supported(one.spec)
    assert [one.ours(lower_case)[0]["alike,own"] for one in (first, second, third)] == [2, 0, 20]
    assert "tidied" not in FILTERS


@peer
def test_what_is_registered_scores_as_in_lm_eval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import lm_eval.filters  # noqa: F401 (which fills the lists)
    from lm_eval.api import metrics, registry  # noqa: F401

    for kind in ("filter", "metric", "aggregation", "metric_agg", "higher_is_better"):
        whole = getattr(registry, f"{kind}_registry")
        monkeypatch.setattr(whole, "_objs", dict(whole._objs))
    keys = KEYS.replace(", aggregation: summed, higher_is_better: true", "")
    # lm-eval prints the name of a default aggregation from its own list: it is stated there.
    stated = scene(tmp_path / "stated", "lower()", 3)
    ours, failures = scene(tmp_path / "default", "lower()", 3, keys).ours(lower_case)
    assert not failures
    assert ours["alike,own"] == stated.ours(lower_case)[0]["alike,own"] == 6
    assert stated.theirs(lower_case)["alike,own"] == 6


def test_a_name_of_another_tasks_code_is_not_known(tmp_path: Path) -> None:
    check_supported(scene(tmp_path / "first", "lower()", 1).spec)
    (tmp_path / "second").mkdir()
    bare = Scene(tmp_path / "second", places(3), KEYS, "def process_docs(docs):\n    return docs\n")
    with pytest.raises(TaskError) as caught:
        check_supported(bare.spec)
    for complaint in ("tidied is not known", "metric 'alike'", "summed is not known"):
        assert complaint in str(caught.value)


def test_a_name_that_two_files_of_a_task_register_is_refused(tmp_path: Path) -> None:
    two = scene(tmp_path / "it", "lower()", 1, KEYS + "    process_results: !function other.f\n")
    folder = tmp_path / "it" / "tasks"
    (folder / "other.py").write_text(CODE.format(tidied="upper()", factor=1) + "f = summed\n")
    with pytest.raises(TaskError, match="tidied") as caught:
        check_supported(two.spec)
    assert f"{folder / 'code.py'}" in str(caught.value)
    assert f"{folder / 'other.py'}" in str(caught.value)


def test_a_name_of_a_file_that_the_code_imports_is_known(tmp_path: Path) -> None:
    importing = scene(tmp_path / "it", "lower()", 1)
    folder = tmp_path / "it" / "tasks"
    (folder / "names").mkdir()
    (folder / "names" / "lists.py").write_text((folder / "code.py").read_text())
    (folder / "code.py").write_text(
        "import lm_eval.tasks.names.lists\ndef process_docs(docs):\n    return docs\n"
    )
    check_supported(importing.spec)
    assert importing.ours(lower_case)[0]["alike,own"] == 2


def test_a_name_of_the_engine_cannot_be_taken(tmp_path: Path) -> None:
    code = CODE.replace('"tidied"', '"lowercase"')
    (tmp_path / "it").mkdir()
    taken = Scene(tmp_path / "it", places(3), KEYS, code.format(tidied="upper()", factor=1))
    with pytest.raises(TaskError, match=re.escape("filter 'lowercase'")):
        check_supported(taken.spec)
