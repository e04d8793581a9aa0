"""The rows of our own for data sets of images, whose images are drawn here.

`python -m tests.tasks.drawn_rows` writes `tasks/samples/datasets/…` anew: a parquet file for each
data set, as the Hub has them, and the README that names it for each configuration and split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from PIL import Image, ImageDraw

from evalcore.task.yaml_file import OWN_TASKS
from tests.drawn import encoded

Row = dict[str, Any]
INK, PAPER = (30, 40, 60), (250, 250, 246)
COLOURS = ((196, 72, 60), (66, 120, 180), (90, 150, 84), (214, 160, 50))


def bars(*heights: int, labels: str = "") -> bytes:
    """A chart of bars with a letter below each."""
    image, draw = _page(24 + 26 * len(heights), 96)
    draw.line((12, 78, 18 + 26 * len(heights), 78), fill=INK)
    for place, height in enumerate(heights):
        left = 18 + 26 * place
        draw.rectangle((left, 78 - height, left + 16, 78), fill=COLOURS[place % 4])
        draw.text((left + 5, 81), labels[place : place + 1], fill=INK)
    return encoded(image)


def page(*lines: str) -> bytes:
    """A page with lines of text, in shades of grey."""
    image, draw = _page(150, 16 + 14 * len(lines))
    for place, line in enumerate(lines):
        draw.text((8, 8 + 14 * place), line, fill=INK)
    return encoded(image.convert("L"))


def diagram(*parts: str) -> bytes:
    """Boxes with arrows from each to the next, in few colours."""
    image, draw = _page(16 + 64 * len(parts), 56)
    for place, part in enumerate(parts):
        left = 8 + 64 * place
        draw.rectangle((left, 16, left + 46, 40), outline=INK, fill=COLOURS[place % 4])
        draw.text((left + 4, 22), part[:7], fill=PAPER)
        if place:
            draw.line((left - 18, 28, left, 28), fill=INK, width=2)
    return encoded(image.quantize(8))


def shape(kind: str, *, size: int = 48) -> bytes:
    """A round or a square thing, which lets its surroundings through."""
    image = Image.new("RGBA", (size, size), (0, 0, 0, 0))
    draw = ImageDraw.Draw(image)
    draw_it = draw.ellipse if kind == "round" else draw.rectangle
    draw_it((6, 6, size - 6, size - 6), fill=(*COLOURS[len(kind) % 4], 255), outline=(*INK, 255))
    return encoded(image)


def _page(width: int, height: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (width, height), PAPER)
    return image, ImageDraw.Draw(image)


def mmmu() -> list[Row]:
    """Options that are images, one that is shown twice, an open question, awkward letters."""
    asked: list[tuple[str, str, list[str], str, list[bytes]]] = [
        (
            "multiple-choice",
            "<image 1> Which bar is the highest?",
            ["A", "B", "C", "none of them"],
            "B",
            [bars(20, 60, 35, labels="ABC")],
        ),
        (
            "multiple-choice",
            "Which of these is round?",
            ["<image 1>", "<image 2>", "neither <image 1> nor <image 2>"],
            "A",
            [shape("round"), shape("square")],
        ),
        ("open", "How many boxes does <image 1> show?", [], "3", [diagram("seed", "leaf", "tree")]),
        (
            "multiple-choice",
            "What does the note say, “{{ now }}”? <image 1>",
            ["now", "later", "o'clock", 'the word "never"', "nothing"],
            "E",
            [page("{{ now }}", "at 8 o'clock")],
        ),
        ("open", "In <image 1> and <image 2>, how high is B in all?", [], "75.5",
         [bars(10, 40, labels="AB"), bars(5, 35, labels="AB")]),
        ("open", "Was ist auf <image 1> zu sehen, größer als üblich?", [], "a square",
         [shape("square", size=72)]),
    ]  # fmt: skip
    return [
        {
            "id": f"validation_Drawn_{number}",
            "question": question,
            "options": repr(options),
            "explanation": "",
            **{
                f"image_{place}": images[place - 1] if place <= len(images) else None
                for place in range(1, 8)
            },
            "img_type": "['Drawings']",
            "answer": answer,
            "topic_difficulty": "Easy",
            "question_type": kind,
            "subfield": "Drawing",
        }
        for number, (kind, question, options, answer, images) in enumerate(asked, start=1)
    ]


def chartqa() -> list[Row]:
    asked = [
        (bars(20, 60, 35, labels="ABC"), "Which bar is the highest?", "B"),
        (bars(10, 40, labels="AB"), "How many bars are there?", "2"),
        (bars(12, 12, 50, labels="XYZ"), "What is the value of Z, in %?", "50%"),
        (bars(30, labels="Q"), "Is there more than one bar?", "No"),
        (bars(61, 20, labels="MN"), "What is M's share of all, “{M}”?", "0.753"),
        (bars(44, 45, 46, 47, labels="ÄÖÜß"), "Wie heißt der größte Balken?", "ß"),
    ]
    return [
        {"image": image, "query": query, "label": [label], "human_or_machine": number % 2}
        for number, (image, query, label) in enumerate(asked)
    ]


def docvqa() -> list[Row]:
    asked = [
        (page("Invoice 17", "Total: 42.50"), "What is the total?", ["42.50", "42.5"], 1),
        (page("Invoice 17", "Total: 42.50"), "Which number has the invoice?", ["17"], 1),
        (page("To: Ada", "From: Bo", "Re: tea"), "Who wrote it?", ["Bo"], 2),
        (page("MENU", "soup  3", "bread 1"), "What costs 3?", ["soup", "the soup", "Soup"], 3),
        (page("(blank)"), "What does it say, “{x}”?", ["blank", "(blank)"], 4),
        (page("Grüße", "aus Köln"), "Woher kommen die Grüße?", ["Köln", "aus Köln"], 5),
    ]
    return [
        {
            "questionId": str(100 + number),
            "question": question,
            "question_types": ["form"],
            "image": image,
            "docId": document,
            "ucsf_document_id": f"drawn{document}",
            "ucsf_document_page_no": "1",
            "answers": answers,
            "data_split": "val",
        }
        for number, (image, question, answers, document) in enumerate(asked)
    ]


def ai2d() -> list[Row]:
    asked = [
        (diagram("seed", "leaf", "tree"), "What comes after the leaf?", "tree seed leaf rain", 0),
        (diagram("grass", "mouse", "owl"), "Which one eats mice?", "grass mouse owl sun", 2),
        (diagram("ice", "water"), "What does the ice become?", "steam water snow ice", 1),
        (diagram("egg", "worm", "moth"), "How many stages are shown?", "one two three four", 2),
        (shape("round"), "Which “{shape}” is it?", "square round none both", 1),
    ]
    return [
        {"question": question, "options": options.split(), "answer": str(answer), "image": image}
        for image, question, options, answer in asked
    ]


@dataclass(frozen=True)
class Drawn:
    """A data set: its rows, the columns that are images, and what its README names."""

    rows: Callable[[], list[Row]]
    images: tuple[str, ...]
    split: str
    configurations: tuple[str, ...] = ("default",)


def _subjects() -> tuple[str, ...]:
    stated = (OWN_TASKS / "mmmu" / "family.yaml").read_text(encoding="utf-8")
    members = stated.partition("members:\n")[2]
    return tuple(sorted(member["subject"] for member in yaml.safe_load(members)))


DRAWN: Mapping[str, Drawn] = {
    "MMMU/MMMU": Drawn(
        mmmu, tuple(f"image_{place}" for place in range(1, 8)), "validation", _subjects()
    ),
    "HuggingFaceM4/ChartQA": Drawn(chartqa, ("image",), "test"),
    "lmms-lab/DocVQA": Drawn(docvqa, ("image",), "validation", ("DocVQA",)),
    "lmms-lab/ai2d": Drawn(ai2d, ("image",), "test"),
}


def write(drawn: Drawn, folder: Path) -> None:
    from tests.drawn import write_rows

    folder.mkdir(parents=True, exist_ok=True)
    file = f"{drawn.split}.parquet"
    write_rows(folder / file, drawn.rows(), *drawn.images)
    named = [
        {"config_name": name, "data_files": [{"split": drawn.split, "path": file}]}
        for name in drawn.configurations
    ]
    front = yaml.safe_dump({"configs": named}, sort_keys=False)
    text = "Rows written for this project, with images that were drawn for it by\n"
    text += "`python -m tests.tasks.drawn_rows`, in the columns of the data set.\n"
    (folder / "README.md").write_text(f"---\n{front}---\n\n{text}", encoding="utf-8")


def main() -> None:
    for name, drawn in DRAWN.items():
        write(drawn, OWN_TASKS / "samples" / "datasets" / name)


if __name__ == "__main__":
    main()
