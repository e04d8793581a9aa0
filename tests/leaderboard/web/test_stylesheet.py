"""The one stylesheet: every layer is in it, in its order, and it is what the browser gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.contrib.staticfiles import finders
from django.core.management import call_command

from leaderboard.web.stylesheet import LAYERS, NAME, ORDER

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "static" / LAYERS


def joined() -> str:
    found = finders.find(NAME)
    assert isinstance(found, str)
    return Path(found).read_text(encoding="utf-8")


def test_every_file_of_a_layer_is_in_it_once_and_in_order() -> None:
    files = {str(file.relative_to(SOURCES).with_suffix("")) for file in SOURCES.rglob("*.css")}
    assert files == set(ORDER)
    texts = [(SOURCES / f"{name}.css").read_text(encoding="utf-8") for name in ORDER]
    places = [joined().index(text) for text in texts]
    assert places == sorted(places)


def test_a_changed_layer_changes_it_at_once(settings: Any, tmp_path: Path) -> None:
    settings.PLUMBLINE_HOME, settings.STATICFILES_DIRS = tmp_path / "home", [tmp_path / "static"]
    for name in ORDER:
        file = tmp_path / "static" / LAYERS / f"{name}.css"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"/* {name} */")
    assert "/* base */" in joined()
    (tmp_path / "static" / LAYERS / "base.css").write_text("/* other */")
    assert "/* other */" in joined()
    assert "/* base */" not in joined()


def test_what_is_collected_is_the_joined_file_and_no_layer(settings: Any, tmp_path: Path) -> None:
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    call_command("collectstatic", interactive=False, verbosity=0)
    assert (tmp_path / NAME).read_text(encoding="utf-8") == joined()
    assert not (tmp_path / LAYERS).exists()
