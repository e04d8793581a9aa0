"""What other sites read of a page: its lasting address, title, description and picture.

Whatever words stand on a picture, it keeps its margins, and shows no box for an unseen sign.
"""

from __future__ import annotations

import io
import re
from html import unescape
from typing import Any

import pytest
from django.core.cache import caches
from django.test import Client
from PIL import Image, ImageChops

from leaderboard.models import Suite
from leaderboard.snapshot import published
from leaderboard.web.canvas import HEIGHT, INK, LEFT, PAPER, RIGHT, SIZE, Canvas
from tests.leaderboard import factories as make
from tests.leaderboard.rows import once_per_module

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _shown(settings: Any) -> None:
    settings.PLUMBLINE_SUITE = "demo"
    caches["local"].clear()  # of pictures by the numbers of their boards, which go back in time


@once_per_module
def pair() -> tuple[int, int]:
    """The variants of two models that are far apart."""
    suite = make.make_suite()
    one = make.evaluated("lab/one", suite, {"cloze": 0.9, "mmlu": 0.5, "hybrid": 0.5}, n=90)
    two = make.evaluated("lab/two", suite, {"cloze": 0.3, "mmlu": 0.5, "hybrid": 0.5}, n=90)
    make.publish(suite)
    return one.pk, two.pk


def meta(html: str) -> dict[str, str]:
    found = re.findall(r'<meta\s+(?:property|name)="([\w:]+)"\s+content="([^"]*)"', html)
    return {name: unescape(content) for name, content in found}


def canonical(html: str) -> str:
    found = re.search(r'<link rel="canonical" href="([^"]+)"', html)
    return unescape(found[1]) if found else ""


@pytest.mark.usefixtures("pair")
def test_title_and_description_are_those_of_the_page(client: Client) -> None:
    for address in ("/styles", "/tasks/facts", "/suites/demo", "/method", "/queue"):
        html = client.get(address).text
        said = meta(html)
        title = re.search(r"<title>(.+?) · Plumbline</title>", html)
        assert title
        assert said["og:title"] == unescape(title[1])
        assert said["og:description"] == said["description"]
        assert len(said["description"]) > 30
        assert "  " not in said["description"]
        assert re.fullmatch(r"http://testserver/og/demo(@1\.0)?\.png", said["og:image"])
        assert said["og:url"] == canonical(html) == f"http://testserver{address}"


@pytest.mark.usefixtures("pair")
def test_an_address_lasts_without_what_makes_no_other_page_and_a_picture_is_of_its_version(
    client: Client,
) -> None:
    html = client.get("/?style=mmlu&q=one&utm_source=x", follow=True).text
    assert canonical(html) == "http://testserver/?style=mmlu"
    old = shared(client, "/suites/demo@1.0")
    assert old["og:image"] == "http://testserver/og/demo@1.0.png"
    assert shared(client, "/method")["og:image"].endswith("/og/demo.png")


def picture(client: Client, address: str = "/og/demo.png") -> Image.Image:
    response = client.get(address)
    assert response.status_code == 200
    assert response["Content-Type"] == "image/png"
    image = Image.open(io.BytesIO(response.content))
    assert image.size == SIZE == (1200, 630)
    return image.convert("RGB")


def test_a_picture_shows_the_board_is_sent_once_and_changes_with_it(
    client: Client, pair: tuple[int, int]
) -> None:
    first = client.get("/og/demo.png")
    again = client.get("/og/demo.png", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    Suite.objects.update(title="Another name")
    renamed = client.get("/og/demo.png", headers={"If-None-Match": first["ETag"]})
    assert renamed.status_code == 200
    before = picture(client)
    suite = Suite.objects.get()
    make.evaluated("lab/three", suite, {"cloze": 0.4, "mmlu": 0.5, "hybrid": 0.5}, n=90)
    published.build(suite, "own")
    assert picture(client).tobytes() != before.tobytes()
    make.make_suite("bare")
    assert picture(client, "/og/bare.png").tobytes() != before.tobytes(), "without a board"


def test_what_no_picture_can_show_has_none(client: Client, pair: tuple[int, int]) -> None:
    assert client.get("/og/nosuch.png").status_code == 404
    assert client.get(f"/og/compare/pair.png?m={pair[0]}").status_code == 404, "of one model"


def shared(client: Client, address: str) -> dict[str, str]:
    return meta(client.get(address).content.decode())


def of(said: dict[str, str]) -> str:
    return said["og:image"].removeprefix("http://testserver")


def test_a_pair_is_shared_with_who_leads_by_how_much(client: Client, pair: tuple[int, int]) -> None:
    one, two = pair
    said = shared(client, f"/compare?m={one},{two}")
    assert re.fullmatch(r"one leads two by [\d.]+ points", said["og:title"])
    assert said["twitter:title"] == said["og:title"]
    assert said["og:title"] in said["og:description"]
    forward = picture(client, of(said))
    turned = picture(client, of(shared(client, f"/compare?m={two},{one}")))
    assert forward.tobytes() != turned.tobytes()


def test_a_model_is_shared_with_its_rank_and_its_average_or_as_not_ranked(
    client: Client, pair: tuple[int, int]
) -> None:
    said = shared(client, "/models/lab/one")
    assert re.fullmatch(
        r"one: rank 1 \(1–1\) of 2, average [\d.]+ \([\d.]+–[\d.]+\)", said["og:title"]
    )
    assert said["og:title"] in said["og:description"]
    first = picture(client, of(said))
    assert first.tobytes() != picture(client, of(shared(client, "/models/lab/two"))).tobytes()
    make.make_variant("lab/three")
    said = shared(client, "/models/lab/three")
    assert said["og:title"] == "three: not ranked"
    picture(client, of(said))


def test_a_board_is_shared_with_its_first_model_and_drawn_as_filtered(
    client: Client, pair: tuple[int, int]
) -> None:
    said = shared(client, "/")
    assert re.fullmatch(
        r"Workshop 1\.0: one, rank 1 \(1–1\), average [\d.]+ \([\d.]+–[\d.]+\)", said["og:title"]
    )
    filtered = shared(client, "/?q=two")["og:title"]
    assert filtered.startswith("Workshop 1.0: first of 1 model: two, rank 2 (2–2), average ")
    assert shared(client, "/?sort=model")["og:title"] == "Workshop 1.0"
    assert of(shared(client, "/")) == "/og/demo@1.0.png"
    said = shared(client, "/?q=two")
    assert of(said) == "/og/demo@1.0.png?q=two"
    whole, filtered = picture(client, "/og/demo@1.0.png"), picture(client, of(said))
    line, second_line = (64, 215, 836, 268), (64, 275, 836, 328)
    assert whole.crop(line).tobytes() != filtered.crop(line).tobytes()
    assert len(set(filtered.crop(second_line).get_flattened_data())) < 8
    assert len(set(whole.crop(second_line).get_flattened_data())) > 8


def test_made_up_boards_say_so_in_every_picture(client: Client, pair: tuple[int, int]) -> None:
    one, two = pair
    fail = (0xAC, 0x2A, 0x22)

    def warned(address: str) -> bool:
        return fail in set(picture(client, address).get_flattened_data())

    addresses = ("/og/demo.png", "/og/models/lab/one.png", f"/og/compare/pair.png?m={one},{two}")
    assert not any(warned(address) for address in addresses)
    Suite.objects.update(notice="All is invented.")
    assert all(warned(address) for address in addresses)


ROUNDING = 4
"""Pixels by which a letter may lean out of its own width."""


def leaves_its_margins(picture: bytes) -> bool:
    """Whether anything is drawn left or right of where words may stand."""
    with Image.open(io.BytesIO(picture)) as opened:
        paper = Image.new("RGB", SIZE, PAPER)
        drawn = ImageChops.difference(opened.convert("RGB"), paper).getbbox()
    left, _, right, bottom = drawn
    return left < LEFT - ROUNDING or right > RIGHT + ROUNDING or bottom > HEIGHT


def framed(note: str, **words: str) -> bytes:
    sheet = Canvas.framed(note, "1 Jan 2026", **words)
    sheet.paragraph(LEFT, 300, [(note, INK)], (46, 24), room=RIGHT - LEFT, high=300)
    return sheet.png()


def test_long_words_are_cut_and_signs_that_nobody_sees_are_not_drawn() -> None:
    for word in ("W" * 300, "i" * 300, "a word " * 20):
        for words in ({"foot": word}, {"notice": word}):
            assert not leaves_its_margins(framed("rank 1", **words))
        assert not leaves_its_margins(framed(word))
    seen = framed("lab/model rank 1 of 2", notice="made up")
    assert framed("\u202elab/mo\u00addel rank 1\nof 2\0", notice="made\tup\u200b") == seen


def test_two_models_that_change_places_are_a_picture_and_shared_with_the_styles(
    client: Client, settings: Any
) -> None:
    settings.PLUMBLINE_SUITE = "turned"
    suite = make.make_suite("turned", styles=("cloze", "mmlu"))
    make.evaluated("lab/texts", suite, {"cloze": 0.95, "mmlu": 0.1}, n=90)
    assert client.get("/og/reversal/turned.png").status_code == 404, "of one model"
    assert of(shared(client, "/styles")) == "/og/turned@1.0.png"
    make.evaluated("lab/letters", suite, {"cloze": 0.1, "mmlu": 0.95}, n=90)
    make.publish(suite)
    said = shared(client, "/styles")
    assert of(said) == "/og/reversal/turned@1.0.png"
    assert re.search(r"leads \S+ by [\d.]+ points asked one way, and trails", said["og:image:alt"])
    first = picture(client, of(said))
    Suite.objects.update(notice="All is invented.")
    assert (0xAC, 0x2A, 0x22) in set(picture(client, of(said)).get_flattened_data())
    assert (0xAC, 0x2A, 0x22) not in set(first.get_flattened_data())
