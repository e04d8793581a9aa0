"""docs/method.md says how every number is made that the engine can print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evalcore.score.filters.registry import FILTERS
from evalcore.score.metrics.aggregations import AGGREGATIONS
from evalcore.score.metrics.registry import known_metrics

PAGE = (Path(__file__).parents[2] / "docs" / "method.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text of the page's sections whose title begins so."""
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    return "".join(part for part in parts if part.startswith(title))


@pytest.mark.parametrize("name", sorted(known_metrics()))
def test_every_metric_has_its_paragraph(name):
    paragraphs = section("Metrics").split("\n\n")
    heads = [re.match(r"((?:`[^`]+`,?\s)*`[^`]+`)[^:]*:", paragraph) for paragraph in paragraphs]
    assert any(head and f"`{name}`" in head[1] for head in heads), name


@pytest.mark.parametrize(
    ("title", "names"), [("Aggregations", [*AGGREGATIONS]), ("Filters", [*FILTERS])]
)
def test_every_aggregation_and_filter_is_described(title, names):
    assert [name for name in names if f"`{name}`" not in section(title)] == []


@pytest.mark.parametrize("name", ["normal", "none", "clustered", "wilson", "bootstrap", "pooled"])
def test_every_kind_of_interval_has_its_formula(name):
    assert f"\n- `{name}`: " in section("Standard errors")
