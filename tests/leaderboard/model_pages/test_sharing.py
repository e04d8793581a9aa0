"""What a model's author takes along: badge, embedded table, citation, share picture."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from xml.etree import ElementTree

import pytest
from django.test import Client

from leaderboard.models import HubModel, Suite, Variant
from tests.leaderboard import factories as make
from tests.leaderboard.pages import get, text_of
from tests.leaderboard.rows import forget, once_per_module

SVG = "{http://www.w3.org/2000/svg}"
ONE = "lab/one"
EVIL = 'lab/"><script>alert(1)</script>_&#39;%24{}\\'


@once_per_module
def ranked() -> Variant:
    suite = make.make_suite()
    one = make.evaluated(ONE, suite, {"cloze": 0.9, "mmlu": 0.5, "hybrid": 0.5}, n=90)
    make.evaluated("lab/two", suite, {"cloze": 0.3, "mmlu": 0.5, "hybrid": 0.5}, n=90)
    make.publish(suite)
    return one


@pytest.fixture(autouse=True)
def one(ranked: Variant, db: None, settings: Any) -> Variant:
    settings.PLUMBLINE_SUITE = "demo"
    return ranked


def badge(client: Client, address: str) -> ElementTree.Element:
    response = client.get(address)
    assert response.status_code == 200
    assert response["Content-Type"] == "image/svg+xml"
    assert "public" in response["Cache-Control"]
    return ElementTree.fromstring(response.content)


def words(svg: ElementTree.Element) -> str:
    return " ".join(str(text.text) for text in svg.iter(f"{SVG}text"))


def test_a_badge_has_the_rank_with_its_range_and_the_average_in_both_looks(
    client: Client, one: Variant
) -> None:
    average = make.board(Suite.objects.get()).average_of(0)
    expected = f"Plumbline rank 1 (1–1) of 2 · {100 * average.value:.1f}"
    light = badge(client, f"/badge/models/{ONE}.svg")
    dark = badge(client, f"/badge/dark/models/{ONE}.svg")
    assert words(light) == words(dark) == expected
    title = light.find(f"{SVG}title")
    assert title is not None
    assert str(title.text) == expected.replace("Plumbline", "Plumbline:")
    grounds = [str(next(svg.iter(f"{SVG}rect")).get("fill")) for svg in (light, dark)]
    assert grounds[0] != grounds[1]
    ends = [
        float(str(text.get("x"))) + float(str(text.get("textLength")))
        for text in light.iter(f"{SVG}text")
    ]
    assert ends == sorted(ends)
    assert max(ends) < float(str(light.get("width")))


def test_a_badge_is_sent_once_and_changes_with_the_board(client: Client) -> None:
    address = f"/badge/models/{ONE}.svg"
    first = client.get(address)
    again = client.get(address, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    suite = Suite.objects.get()
    make.evaluated("lab/three", suite, {"cloze": 0.5, "mmlu": 0.5, "hybrid": 0.5}, n=90)
    make.publish(suite)
    assert "of 3" in words(badge(client, address))
    assert client.get(address, headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_a_badge_of_a_model_without_a_rank_or_of_a_made_up_suite_says_so(client: Client) -> None:
    assert client.get("/badge/models/lab/nobody.svg").status_code == 404
    make.make_variant("lab/bare")
    assert words(badge(client, "/badge/models/lab/bare.svg")) == "Plumbline not ranked"
    HubModel.objects.filter(repo_id=ONE).update(flag_reason="copied")
    make.publish(Suite.objects.get())
    assert "no rank" in words(badge(client, f"/badge/models/{ONE}.svg"))
    Suite.objects.update(notice="All is invented.")
    assert words(badge(client, f"/badge/models/{ONE}.svg")).endswith("invented")


def test_the_table_may_stand_in_a_frame_anywhere_and_no_other_page_may(client: Client) -> None:
    response = client.get(f"/embed/models/{ONE}")
    html = response.text
    assert "frame-ancestors *" in response["Content-Security-Policy"]
    assert "X-Frame-Options" not in response
    assert response["X-Robots-Tag"] == "noindex"
    assert not re.search(r"<script|<form|<button", html)
    assert 'href="http://testserver/models/lab/one" target="_blank" rel="noopener"' in html
    said = text_of(html)
    assert re.search(r"[\d.]+ [\d.]+–[\d.]+ average, rank 1 1–1 of 2", said)
    assert re.search(r"Facts [\d.]+ [\d.]+–[\d.]+ 1 1–1", said)
    page = client.get(f"/models/{ONE}")
    assert "frame-ancestors 'none'" in page["Content-Security-Policy"]
    assert page["X-Frame-Options"] == "DENY"
    assert client.get("/embed/models/lab/nobody").status_code == 404


def copied(html: str) -> dict[str, str]:
    """What the page offers to copy, by its name."""
    found = re.findall(r'<code tabindex="0" aria-label="([^"]+)">(.*?)</code>', html, re.S)
    return {name: unescape(text) for name, text in found}


def test_the_page_has_everything_to_copy_with_whole_addresses(client: Client) -> None:
    html = get(client, f"/models/{ONE}")
    badge_at, page_at = (
        "http://testserver/badge/models/lab/one.svg",
        "http://testserver/models/lab/one",
    )
    texts = copied(html)
    assert texts["Markdown"] == f"[![Plumbline]({badge_at})]({page_at})"
    assert "http://testserver/badge/dark/models/lab/one.svg" in texts["HTML, light and dark"]
    assert 'src="http://testserver/embed/models/lab/one"' in texts["HTML"]
    assert texts["BibTeX"].startswith("@misc{plumbline-lab-one,\n")
    assert re.search(r"note = \{Rank 1 \(1–1\) of 2, average .* Suite demo 1\.0", texts["BibTeX"])
    assert f"url = {{{page_at}}}" in texts["BibTeX"]
    for picture in re.findall(r'(?:src|srcset)="(/badge/[^"]+)"', html):
        assert client.get(picture).status_code == 200


def test_a_hostile_name_is_text_in_every_copy(client: Client) -> None:
    model = HubModel.objects.create(repo_id=EVIL)
    Variant.objects.filter(hub_model__repo_id="lab/two").update(hub_model=model)
    forget()
    for address in (model.get_absolute_url(), f"/embed{model.get_absolute_url()}"):
        html = get(client, address)
        assert "<script>alert" not in html
    texts = copied(get(client, model.get_absolute_url()))
    assert "<script>" not in texts["Markdown"] + texts["HTML"] + texts["HTML, light and dark"]
    assert re.match(r"@misc\{[a-z0-9-]+,\n", texts["BibTeX"])
    badge(client, f"/badge{model.get_absolute_url()}.svg")
