"""A row of the board: its rank with the range, who the model is, and the links of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from leaderboard.board.cells import Cell
from leaderboard.board.filters import facets_of
from leaderboard.board.search import precision_of
from leaderboard.board.view import View
from leaderboard.board.wanted import TALL
from leaderboard.models import HubModel, Variant
from leaderboard.models.variant import Kind, way_of
from leaderboard.snapshot import STANDINGS, Board, Model, Models, Standing
from leaderboard.templatetags.figures import day_of, ordinal, parameters

_RECALLED = STANDINGS.index(Standing.RECALLED)
HERE = "\0"
"""Stands for a variant in a link that is made once for all rows; no address can have it itself."""
_HUB = {
    HubModel.HubState.GONE: "no longer on the Hub",
    HubModel.HubState.PRIVATE: "gated or private on the Hub",
    HubModel.HubState.RENAMED: "renamed on the Hub",
}


@dataclass(frozen=True)
class Line:
    """One model; `rank` is 0 and `span` empty where it has none."""

    row: int
    variant: int
    rank: int
    span: str
    among: str
    """Of a filtered board its place among the models found."""
    owner: str
    name: str
    url: str
    facts: str
    way: str
    """What sets it apart from a whole model that is asked in plain text."""
    more: str
    """Facts for which only tall rows have room."""
    notes: list[str]
    flag: str
    average: Cell | None
    cells: SafeString
    """All of the row, as HTML."""
    here_url: str
    """Of this row: the page of the board that it is on, with it in sight."""
    pin_url: str
    pinned: bool
    ticked: bool
    marked: bool


def lines_of(
    view: View,
    rows: Sequence[int],
    listed: Models,
    averages: Sequence[Cell | None],
    columns: Sequence[Sequence[str]],
) -> list[Line]:
    """The page's rows, the pinned ones first; `columns` have the cells' HTML."""
    board, wanted = view.board, view.wanted
    several = facets_of(board).several(rows)
    model_url = reverse("model", args=["x"]).removesuffix("x")
    here_url = wanted.url(f"m{HERE}", at_model=HERE, page=1)
    pins = [board.models[row].variant for row in view.pins]
    pin_url = wanted.url(pin=",".join(map(str, [*pins, HERE])), at_model="")
    ranks = board.ranks
    copies = _same_weights(board, [model.variant for model in listed])
    recalled = (board.standing[np.array(rows, np.intp)] == _RECALLED).sum(axis=1)
    lines = []
    for place, (row, model, average, one_of_several) in enumerate(
        zip(rows, listed, averages, several, strict=True)
    ):
        owner, _, name = model.repo_id.rpartition("/")
        variant = str(model.variant)
        pinned = row in view.pins
        ranked = not view.own_choice and bool(ranks.rank[row])
        lines.append(
            Line(
                row=row,
                variant=model.variant,
                rank=int(ranks.rank[row]) if ranked else 0,
                span=ranks.span(row) if ranked else "",
                among=_among(view, int(ranks.rank[row])) if ranked else "",
                owner=owner,
                name=name,
                url=model_url + model.repo_id,
                facts=_facts(model, several=one_of_several),
                way=way_of(model),
                more=_more(model) if wanted.rows == TALL else "",
                notes=_notes(model, int(recalled[place]), copies.get(model.variant, [])),
                flag=model.flag_reason,
                average=average,
                cells=mark_safe("".join([column[place] for column in columns])),  # noqa: S308
                here_url=here_url.replace(HERE, variant).replace("%00", variant),
                pin_url=_unpin(view, pins, model) if pinned else pin_url.replace("%00", variant),
                pinned=pinned,
                ticked=row in view.ticked,
                marked=row == view.marked,
            )
        )
    return lines


def _among(view: View, rank: int) -> str:
    """Of the models found, whatever they are sorted by; a pinned one may not be among them."""
    if view.found_ranks is None:
        return ""
    place = int(np.searchsorted(view.found_ranks, rank))
    if place == len(view.found_ranks) or view.found_ranks[place] != rank:
        return ""
    return f"{ordinal(place + 1)} of {len(view.found_ranks):,}"


def _facts(model: Model, *, several: bool) -> str:
    facts = [parameters(model.parameters)]
    if model.kind:
        facts.append(Kind(model.kind).label.lower())
    facts.append(precision_of(model))
    if several:
        facts.append(f"@{model.commit[:7]}")
    if model.licence:
        facts.append(model.licence)
    return " · ".join(facts)


def _more(model: Model) -> str:
    facts = [model.model_type or model.architecture, f"@{model.commit[:7]}"]
    if model.moe:
        facts.append("mixture of experts")
    if model.merged:
        facts.append("merge")
    if model.chat_template:
        facts.append("chat template")
    if model.base_model:
        facts.append(f"from {model.base_model}")
    facts.append(f"here since {day_of(model.added)}")
    return " · ".join(fact for fact in facts if fact)


def _same_weights(board: Board, shown: Sequence[int]) -> dict[int, list[str]]:
    """By shown variant the other models of the board that are the same files under another name."""
    mark = "weights_digest", "adapter_base", "adapter_base_commit"
    own = dict[int, tuple[str, ...]]()
    for variant, *digests in Variant.objects.filter(pk__in=shown).values_list("pk", *mark):
        if digests[0]:
            own[variant] = tuple(digests)
    if not own:
        return {}
    digests = {digest for digest, *_ in own.values()}
    rows = Variant.objects.filter(weights_digest__in=digests).order_by("pk")
    names: dict[tuple[str, ...], list[str]] = {}
    for variant, name, *of in rows.values_list("pk", "hub_model__repo_id", *mark):
        if variant in board.row_of:
            names.setdefault(tuple(of), []).append(name)
    return {
        variant: [
            name
            for name in dict.fromkeys(names.get(of, []))
            if name != board.models.value(board.row_of[variant], "repo_id")
        ]
        for variant, of in own.items()
    }


def _notes(model: Model, recalled: int, copies: Sequence[str]) -> list[str]:
    notes = []
    if copies:
        others = f" and {len(copies) - 1:,} more" if len(copies) > 1 else ""
        notes.append(f"the same weights as {copies[0]}{others}")
    if recalled:
        told = (
            "result was recalled and counts" if recalled == 1 else "results were recalled and count"
        )
        notes.append(f"{recalled} {told} nowhere")
    if model.apart:
        notes.append(model.apart)
    if model.superseded_by:
        notes.append(f"its newer commit @{model.superseded_by[:7]} is ranked instead")
    if model.hub_state in _HUB:
        notes.append(_HUB[HubModel.HubState(model.hub_state)])
    return notes


def _unpin(view: View, pins: Sequence[int], model: Model) -> str:
    left = [str(variant) for variant in pins if variant != model.variant]
    return view.wanted.url(pin=",".join(left), at_model="")
