"""What other sites read of a page: its lasting address, title, description and picture."""

from __future__ import annotations

import io
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client
from PIL import Image

from leaderboard.models import Suite
from leaderboard.snapshot import published
from leaderboard.web import canvas
from leaderboard.web.canvas import SIZE
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db


@pytest.fixture
def suite(settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite()


def meta(html: str) -> dict[str, str]:
    found = re.findall(r'<meta\s+(?:property|name)="([\w:]+)"\s+content="([^"]*)"', html)
    return {name: unescape(content) for name, content in found}


def canonical(html: str) -> str:
    found = re.search(r'<link rel="canonical" href="([^"]+)"', html)
    return unescape(found[1]) if found else ""


@pytest.mark.parametrize(
    "address", ["/", "/styles", "/tasks/facts", "/suites/demo", "/method", "/queue"]
)
def test_title_and_description_are_those_of_the_page(
    client: Client, suite: Suite, address: str
) -> None:
    html = client.get(address).content.decode()
    said = meta(html)
    title = re.search(r"<title>(.+?) · Plumbline</title>", html)
    assert title
    assert said["og:title"] == unescape(title[1])
    assert said["og:description"] == said["description"]
    assert len(said["description"]) > 30
    assert "  " not in said["description"]
    assert re.fullmatch(r"http://testserver/og/demo(@1\.0)?\.png", said["og:image"])
    assert said["og:url"] == canonical(html) == f"http://testserver{address}"


def test_only_fields_that_make_another_page_stay_in_the_lasting_address(
    client: Client, suite: Suite
) -> None:
    make.evaluated("lab/one", suite, {"cloze": 0.8, "mmlu": 0.5, "hybrid": 0.5})
    published.build(suite, "mmlu")
    html = client.get("/?style=mmlu&q=one&utm_source=x", follow=True).content.decode()
    assert canonical(html) == "http://testserver/?style=mmlu"


@pytest.mark.parametrize("address", ["/nosuch", "/suites/nosuch"])
def test_what_is_not_found_has_no_address_and_is_not_indexed(
    client: Client, suite: Suite, address: str
) -> None:
    html = client.get(address).content.decode()
    assert canonical(html) == ""
    assert meta(html)["robots"] == "noindex"


def test_a_suites_picture_is_of_that_version(client: Client, suite: Suite) -> None:
    old = client.get("/suites/demo@1.0").content.decode()
    assert meta(old)["og:image"] == "http://testserver/og/demo@1.0.png"
    assert meta(client.get("/method").content.decode())["og:image"].endswith("/og/demo.png")


def picture(client: Client, address: str = "/og/demo.png") -> Image.Image:
    response = client.get(address)
    assert response.status_code == 200
    assert response["Content-Type"] == "image/png"
    image = Image.open(io.BytesIO(response.content))
    assert image.size == SIZE == (1200, 630)
    return image.convert("RGB")


def test_the_picture_shows_the_board_and_changes_with_it(client: Client, suite: Suite) -> None:
    empty = picture(client)
    make.evaluated("lab/one", suite, {"cloze": 0.8, "mmlu": 0.5, "hybrid": 0.5})
    published.build(suite, "own")
    one = picture(client)
    assert one.tobytes() != empty.tobytes()
    make.evaluated("lab/two", suite, {"cloze": 0.4, "mmlu": 0.5, "hybrid": 0.5})
    published.build(suite, "own")
    assert picture(client).tobytes() != one.tobytes()


def test_a_picture_that_is_known_is_not_sent_again(client: Client, suite: Suite) -> None:
    first = client.get("/og/demo.png")
    again = client.get("/og/demo.png", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    Suite.objects.update(title="Another name")
    renamed = client.get("/og/demo.png", headers={"If-None-Match": first["ETag"]})
    assert renamed.status_code == 200


def test_a_picture_of_no_suite_is_not_found(client: Client, suite: Suite) -> None:
    assert client.get("/og/nosuch.png").status_code == 404


def test_names_too_long_for_the_picture_are_cut(client: Client, suite: Suite) -> None:
    Suite.objects.update(title="A title that is far too long for a picture, " * 2)
    name = f"a-very-long-organisation/{'with-a-very-long-name-' * 6}"[:200]
    make.evaluated(name, suite, {"cloze": 0.8, "mmlu": 0.5, "hybrid": 0.5})
    published.build(suite, "own")
    image = picture(client)
    # Nothing is written over the margin, and nothing over the gap between average and plot.
    for box in ((1140, 60, 1200, 180), (836, 208, 852, 580)):
        colours = image.crop(box).getcolors()
        assert colours is not None
        assert {colour for _, colour in colours} <= {(252, 252, 250), (227, 227, 221)}


def evaluated(suite: Suite) -> tuple[int, int]:
    """Two models that are far apart."""
    one = make.evaluated("lab/one", suite, {"cloze": 0.9, "mmlu": 0.5, "hybrid": 0.5}, n=90)
    two = make.evaluated("lab/two", suite, {"cloze": 0.3, "mmlu": 0.5, "hybrid": 0.5}, n=90)
    make.publish(suite)
    return one.pk, two.pk


def shared(client: Client, address: str) -> dict[str, str]:
    return meta(client.get(address).content.decode())


def of(said: dict[str, str]) -> str:
    return said["og:image"].removeprefix("http://testserver")


def test_a_pair_is_shared_with_the_lead_and_its_interval(client: Client, suite: Suite) -> None:
    one, two = evaluated(suite)
    said = shared(client, f"/compare?m={one},{two}")
    lead = re.fullmatch(
        r"one is ahead of two by ([\d.]+) points \(([\d.]+) to ([\d.]+)\)", said["og:title"]
    )
    assert lead
    value, low, high = map(float, lead.groups())
    assert low < value < high
    assert said["twitter:title"] == said["og:title"]
    assert said["og:title"] in said["og:description"]
    forward = picture(client, of(said))
    turned = picture(client, of(shared(client, f"/compare?m={two},{one}")))
    assert forward.tobytes() != turned.tobytes()


def test_a_comparison_of_one_has_no_picture(client: Client, suite: Suite) -> None:
    one, _ = evaluated(suite)
    assert client.get(f"/og/compare/pair.png?m={one}").status_code == 404


def test_a_model_is_shared_with_its_rank_and_its_average(client: Client, suite: Suite) -> None:
    evaluated(suite)
    said = shared(client, "/models/lab/one")
    assert re.fullmatch(r"one: rank 1 \(1–1\) of 2, average [\d.]+ ±[\d.]+", said["og:title"])
    assert said["og:title"] in said["og:description"]
    first = picture(client, of(said))
    assert first.tobytes() != picture(client, of(shared(client, "/models/lab/two"))).tobytes()


def test_a_model_without_numbers_is_shared_as_not_ranked(client: Client, suite: Suite) -> None:
    make.make_variant("lab/one")
    said = shared(client, "/models/lab/one")
    assert said["og:title"] == "one: not ranked"
    picture(client, of(said))


def test_a_filtered_board_is_drawn_as_filtered(client: Client, suite: Suite) -> None:
    evaluated(suite)
    assert of(shared(client, "/")) == "/og/demo@1.0.png"
    said = shared(client, "/?q=two")
    assert of(said) == "/og/demo@1.0.png?q=two"
    whole, filtered = picture(client, "/og/demo@1.0.png"), picture(client, of(said))
    line = (64, 206, 836, 244)
    second_line = (64, 246, 836, 282)
    assert whole.crop(line).tobytes() != filtered.crop(line).tobytes()
    assert len(set(filtered.crop(second_line).get_flattened_data())) < 8
    assert len(set(whole.crop(second_line).get_flattened_data())) > 8


def test_a_board_is_shared_with_its_first_model(client: Client, suite: Suite) -> None:
    evaluated(suite)
    said = shared(client, "/")
    assert re.fullmatch(
        r"Workshop 1\.0: one, rank 1 \(1–1\), average [\d.]+ ±[\d.]+", said["og:title"]
    )
    filtered = shared(client, "/?q=two")["og:title"]
    assert filtered.startswith("Workshop 1.0: first of 1 model: two, rank 2 (2–2), average ")
    assert shared(client, "/?sort=model")["og:title"] == "Workshop 1.0"


def test_made_up_boards_say_so_in_every_picture(client: Client, suite: Suite) -> None:
    one, two = evaluated(suite)
    fail = (0xAC, 0x2A, 0x22)

    def warned(address: str) -> bool:
        return fail in set(picture(client, address).get_flattened_data())

    addresses = ("/og/demo.png", "/og/models/lab/one.png", f"/og/compare/pair.png?m={one},{two}")
    assert not any(warned(address) for address in addresses)
    Suite.objects.update(notice="All is invented.")
    assert all(warned(address) for address in addresses)


def test_a_long_title_takes_two_lines_and_loses_no_word() -> None:
    title = f"{'a-long-name-' * 4} is ahead of {'another-name-' * 3} by 5.6 points (3.5 to 7.7)"
    size, lines = canvas.title_lines(title, 1072)
    assert len(lines) == 2
    assert " ".join(lines) == title
    assert all(canvas.length(line, size, 600) <= 1072 for line in lines)
