"""In which language is a text? By langdetect, as IFEval's authors do (Zhou et al. 2023).

langdetect samples. Left alone it may answer differently from run to run; here each text is judged
from the same seed.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

SEED = 0


def language_of(text: str) -> str | None:
    """The language's ISO 639-1 code (with a region for Chinese); None where nothing tells it."""
    factory, cannot_tell = _factory()
    detector = factory.create()
    detector.append(text)
    try:
        return str(detector.detect())
    except cannot_tell:
        return None


@cache
def _factory() -> tuple[Any, type[Exception]]:
    """A detector factory of our own, and what its detectors raise where nothing tells a language.

    Of our own, since the module's has one seed for everybody in the process.
    """
    module = importlib.import_module("langdetect.detector_factory")
    factory = module.DetectorFactory()
    factory.load_profile(module.PROFILES_DIRECTORY)
    factory.seed = SEED
    return factory, module.LangDetectException
