"""Questions with images: a thumbnail with size and digest, none where it may not be shown; of
sounds length and rate with the digest."""

from __future__ import annotations

import base64
import json
import re
from io import BytesIO
from pathlib import Path

import pytest
from django.test import Client
from PIL import Image

from evalcore.model.pictures import Picture
from evalcore.model.sounds import Recording, Sound
from leaderboard.runs.dialects import DIALECTS
from tests.drawn import drawn
from tests.hearing import sound_file, tone
from tests.leaderboard import engine_runs
from tests.leaderboard.runs.test_page import get

pytestmark = pytest.mark.django_db


def test_each_image_stands_above_its_prompt_with_size_and_digest(
    client: Client, tmp_path: Path
) -> None:
    run = engine_runs.seen(tmp_path)
    page = get(client, f"/runs/{run.pk}?doc=2")
    for number, image in ((1, drawn(2, size=(64, 64))), (2, drawn(11))):
        assert f"sha256:{Picture(image).digest}" in page
        assert f"Image {number}, {image.width} × {image.height} pixels" in page
        assert f'alt="Image {number} of 2 of this question, as a thumbnail"' in page
    sources = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    shown = [Image.open(BytesIO(base64.b64decode(source))).size for source in sources]
    assert shown == [(64, 64), drawn(11).size]


def test_a_large_image_has_the_room_of_its_thumbnail(client: Client, tmp_path: Path) -> None:
    run = engine_runs.seen(tmp_path)
    page = get(client, f"/runs/{run.pk}?doc=1")
    assert "900 × 640 pixels" in page
    assert re.search(r'width="192"\s+height="137"', page)


def test_only_pages_of_questions_may_show_what_stands_in_them(
    client: Client, tmp_path: Path
) -> None:
    run = engine_runs.seen(tmp_path)
    policies = {
        address: client.get(address)["Content-Security-Policy"]
        for address in (f"/runs/{run.pk}", "/about")
    }
    assert [" data:" in policy for policy in policies.values()] == [True, False]


def test_a_data_set_that_stays_offline_shows_no_thumbnail(client: Client, tmp_path: Path) -> None:
    run = engine_runs.seen(tmp_path, publish="ids")
    page = get(client, f"/runs/{run.pk}?doc=2")
    assert "data:image" not in page
    assert f"sha256:{Picture(drawn(11)).digest}" in page


def test_every_file_of_such_a_run_can_be_fetched(client: Client, tmp_path: Path) -> None:
    """Thumbnails are in the parquet file alone."""
    run = engine_runs.seen(tmp_path)
    for file in ("record.json", "samples.parquet", *(dialect.file for dialect in DIALECTS)):
        response = client.get(f"/runs/{run.pk}/{file}")
        assert response.status_code == 200, file
        sent = b"".join(response) if response.streaming else response.content
        if file.endswith(".json"):
            json.loads(sent)


def test_each_sound_stands_above_its_prompt_with_length_rate_and_digest(
    client: Client, tmp_path: Path
) -> None:
    run = engine_runs.heard(tmp_path)
    page = get(client, f"/runs/{run.pk}?doc=1")
    assert "Sound 1, 0.5 s at 16,000 samples a second" in page
    assert f"sha256:{Sound(Recording(sound_file(tone(1)), None, None)).digest}" in page
