"""Samples of other programs: what their files do not say is empty."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from evalcore.record import SAMPLE_SCHEMA, SCHEMA_VERSION


def foreign_sample(**stated: Any) -> dict[str, Any]:
    """All fields that a sample needs, in their order."""
    stated = {
        "choices_are_contexts": False,
        "repeats": 1,
        "overlaps": None,
        "images": None,
        "sounds": None,
        **stated,
    }
    stated["schema_version"] = SCHEMA_VERSION
    return {
        field.name: stated.get(field.name, [] if pa.types.is_list(field.type) else None)
        for field in SAMPLE_SCHEMA
        if field.name != "loglikelihoods"
    }
