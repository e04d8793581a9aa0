"""Rules that hold for the whole tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("evalcore", "leaderboard", "runners", "demo")
MODULES = sorted(
    path.relative_to(ROOT)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if "migrations" not in path.parts
)


def imported_by(program: str) -> list[str]:
    """What a program, which may use `among`, prints that it has imported."""
    begin = "import sys\ndef among(*names): return sorted({*names} & {*sys.modules})\n"
    outcome = subprocess.run(
        [sys.executable, "-c", begin + program], capture_output=True, text=True
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout.splitlines()


def test_importing_one_part_does_not_load_another():
    assert imported_by("""
import evalcore.cli
print(among("torch", "transformers", "datasets", "pyarrow", "numpy", "rich"))
import evalcore.evaluation, evalcore.formats.lmeval.results, evalcore.record
import evalcore.model.hf.reading, evalcore.model.servers.completions
import evalcore.task.library.load
print(among("torch", "transformers", "datasets", "django", "celery"))
""") == ["[]", "[]"]


def test_the_site_starts_without_the_engines_heavy_parts():
    assert imported_by("""
import django
django.setup()
import leaderboard.urls
print(among("torch", "transformers", "datasets"))
""") == ["[]"]


DOORS = {
    path.parent.name: import_module(f"leaderboard.{path.parent.name}").__all__
    for path in (ROOT / "leaderboard").glob("*/__init__.py")
    if "__all__" in path.read_text() and path.parent.name != "models"
}
BESIDE_THE_DOORS = {
    "leaderboard/urls.py": "it leads to every page",
    "leaderboard/admin.py": "it is the operator's way in",
}
SIDE_DOORS = {("catalogue", "sync"): "it loads the engine's library, which no page needs"}


def past_the_doors(file: Path) -> Iterator[str]:
    """Every import that takes from another room of the site what its door does not show."""
    own = file.parts[1] if file.parts[0] == "leaderboard" else ""
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.Import):
            named = [(name.name.split("."), "") for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = [(node.module.split("."), name.name) for name in node.names]
        else:
            continue
        for (package, room, *below), name in ((one, name) for one, name in named if len(one) > 1):
            if package != "leaderboard" or room not in DOORS or room == own:
                continue
            if below or (name not in DOORS[room] and (room, name) not in SIDE_DOORS):
                yield f"{file}:{node.lineno}: {'.'.join([room, *below, name])}"


def test_rooms_of_the_site_are_entered_by_their_doors():
    assert len(DOORS) == 20
    files = [
        path.relative_to(ROOT)
        for package in ("leaderboard", "runners", "demo", "bench")
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    walked = [file for file in files if str(file) not in BESIDE_THE_DOORS]
    assert [found for file in walked for found in past_the_doors(file)] == []


def test_a_module_is_a_chapter_of_at_most_700_lines():
    lines = {str(module): (ROOT / module).read_text().count("\n") for module in MODULES}
    assert len(lines) > 100
    assert {module: length for module, length in lines.items() if length > 700} == {}


def test_the_readme_maps_every_part_of_the_tree():
    readme = (ROOT / "README.md").read_text()
    rooms = {f"{path.parent}/" for path in map(ROOT.__truediv__, MODULES)} - {"migrations/"}
    rooms = {str(Path(room).relative_to(ROOT)) for room in rooms}
    missing = [room for room in sorted(rooms) if f"{room}/" not in readme]
    assert missing == []


def test_every_place_that_the_guides_name_is_there():
    # What programs write into var/ is there once they have.
    top = sorted({path.name for path in ROOT.iterdir() if path.is_dir()} - {"var"})
    guides = {ROOT / "README.md": top, ROOT / "CONTRIBUTING.md": top}
    guides |= {page: ["tests"] for page in (ROOT / "docs").glob("*.md")}
    guides[ROOT / "docs" / "architecture.md"] = top
    named = {
        place
        for guide, folders in guides.items()
        for place in re.findall(rf"`((?:{'|'.join(folders)})/[\w./-]*)`", guide.read_text("utf-8"))
    }
    assert len(named) > 60
    assert sorted(place for place in named if not (ROOT / place).exists()) == []
