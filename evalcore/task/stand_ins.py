"""Names of lm-evaluation-harness that task code imports, served by this engine.

Of the hundreds of Python files beside lm-eval's own tasks one in five begins with an import such
as `from lm_eval.utils import weighted_f1_score`. While task code is loaded, small modules of ours
stand in for those that it names, whether lm-eval is installed or not: the same task means the same
on every machine. An entry is a dotted string, so that nothing is imported before it is asked for.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

PEER = "lm_eval"

_FILTER = "evalcore.score.filters.interface:Filter"
_FILTERS = "evalcore.score.filters.registry"
_AGGREGATIONS = "evalcore.score.metrics.aggregations"
_FUNCTIONS = "evalcore.peer.functions"
_TASKS = "evalcore.peer.classes"


def _of(place: str, *names: str) -> dict[str, str]:
    return {name: f"{place}:{name}" for name in names}


NAMES: Mapping[str, Mapping[str, str]] = {
    "lm_eval": {},
    "lm_eval.api": {},
    "lm_eval.api.filter": {"Filter": _FILTER},
    "lm_eval.api.instance": _of("evalcore.model.text_lm", "Instance"),
    "lm_eval.api.metrics": {
        **_of(_FUNCTIONS, "metric_max_over_ground_truths"),
        # Told apart by their identity: a task that names one of them has its standard error.
        "f1_score": f"{_AGGREGATIONS}:f1_of_two_classes",
        **_of(_AGGREGATIONS, "bits_per_byte", "matthews_corrcoef", "mean", "median", "nanmean"),
        **_of(_AGGREGATIONS, "perplexity", "weighted_mean", "weighted_perplexity"),
        **_of("evalcore.score.metrics.translation", "bleu", "chrf", "ter"),
    },
    "lm_eval.api.registry": {
        **_of(_FUNCTIONS, "register_filter", "register_metric", "register_aggregation"),
        **_of(_FUNCTIONS, "register_model"),
    },
    "lm_eval.api.samplers": _of(_TASKS, "ContextSampler", "FirstNSampler"),
    "lm_eval.api.task": {
        **_of(_TASKS, "ConfigurableTask"),
        "Task": f"{_TASKS}:ConfigurableTask",
    },
    "lm_eval.filters": {},
    "lm_eval.filters.custom": _of(_FILTERS, "CustomFilter"),
    "lm_eval.filters.extraction": {
        "Filter": _FILTER,
        **_of("evalcore.score.filters.extraction", "RegexFilter", "MultiChoiceRegexFilter"),
        "POSFilter": "evalcore.score.filters.extraction:PartOfSpeechFilter",
        **_of(_FILTERS, "WhitespaceFilter"),
    },
    "lm_eval.filters.selection": _of(
        _FILTERS, "TakeFirstFilter", "TakeKFilter", "MajorityVoteFilter"
    ),
    "lm_eval.filters.transformation": _of(
        _FILTERS, "LowercaseFilter", "UppercaseFilter", "MapFilter"
    ),
    "lm_eval.tasks": {},
    "lm_eval.utils": {
        "logging": "logging",
        **_of(_FUNCTIONS, "eval_logger", "general_detokenize", "handle_non_serializable"),
        **_of(_FUNCTIONS, "weighted_f1_score"),
    },
}
"""For each module the names that it has, and where each is."""

_TASK_FOLDERS = f"{PEER}.tasks"

_lock = threading.RLock()
_inside: list[Path] = []
"""The folders of the task code that is being loaded, the innermost last."""


@contextmanager
def stand_ins(folder: Path) -> Iterator[None]:
    """Inside, `import lm_eval...` gets our names; `folder` is that of the code being loaded.

    A path such as `lm_eval.tasks.ruler.common_utils` is found beside or above `folder`. Afterwards
    an lm-eval that was imported before is back; without one installed ours stay, for code that
    imports inside its functions.
    """
    with _lock:
        _inside.append(folder)
        before = {} if len(_inside) > 1 else _taken_out()
        if len(_inside) == 1:
            sys.modules.update(_modules())
            sys.meta_path.insert(0, _TaskFolders)
        try:
            yield
        finally:
            _inside.pop()
            if not _inside:
                sys.meta_path.remove(_TaskFolders)
                _taken_out()
                sys.modules.update(before if PathFinder.find_spec(PEER) else _modules())


def _taken_out() -> dict[str, ModuleType]:
    """All modules of that name, taken out of the imported ones."""
    names = [name for name in sys.modules if name == PEER or name.startswith(f"{PEER}.")]
    return {name: sys.modules.pop(name) for name in names}


class _TaskFolders:
    """Finds `lm_eval.tasks.<folder>` in the nearest folder that has it, from the code's upwards."""

    @staticmethod
    def find_spec(name: str, *_given: object) -> ModuleSpec | None:
        parent, _, own = name.rpartition(".")
        if parent == _TASK_FOLDERS:
            for folder in (_inside[-1], *_inside[-1].parents):
                if (folder / own).is_dir() or (folder / f"{own}.py").is_file():
                    return PathFinder.find_spec(name, [str(folder)])
        if parent in NAMES:
            raise ModuleNotFoundError(f"evalcore has nothing that stands in for {name}", name=name)
        return None


@functools.cache
def _modules() -> Mapping[str, ModuleType]:
    made = {name: _module(name, entries) for name, entries in NAMES.items()}
    for name, module in made.items():
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(made[parent], own, module)
    return made


def _module(name: str, entries: Mapping[str, str]) -> ModuleType:
    module = ModuleType(name, f"What this engine has for {name}.")
    is_package = not entries
    module.__spec__ = ModuleSpec(name, None, is_package=is_package)
    if is_package:
        module.__path__ = []

    def served(attribute: str) -> Any:
        if attribute in entries:
            place, _, own = entries[attribute].partition(":")
            found = importlib.import_module(place)
            return getattr(found, own) if own else found
        if is_package or attribute.startswith("__"):
            raise AttributeError(attribute)
        raise ImportError(
            f"evalcore has no {attribute!r} in what stands in for {name}; it has "
            f"{', '.join(entries)}",
            name=name,
        )

    module.__getattr__ = served  # type: ignore[method-assign]
    return module
