"""The engine as a library: for a training loop, a notebook, another program.

    import evalcore
    (arc,) = evalcore.evaluate(model, ["arc_easy"], tokenizer=tokenizer, limit=200)
    arc.record.own_results()

`simple_evaluate` takes lm-evaluation-harness's arguments and gives its results dictionary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalcore.errors import EvalError, ModelError, TaskError
from evalcore.model.base import Mode
from evalcore.progress import first_prompts
from evalcore.selection import library_of, select
from evalcore.settings import Settings
from evalcore.values import SEEDS, as_texts, pairs, seed_or_fresh, typed_pairs
from evalcore.values import batch_size as batch_size_of
from evalcore.watch import Silent, Watch

if TYPE_CHECKING:
    from evalcore.evaluation import Evaluation

TasksStated = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""Names of tasks, groups and tags; and mappings with the keys of a task file, of a task of its own
or, under its name, over those of one that there is."""


def evaluate(
    model: Any,
    tasks: TasksStated,
    *,
    model_args: str | Mapping[str, Any] | None = None,
    tokenizer: Any = None,
    batch_size: int | str | None = None,
    device: str | None = None,
    include_path: str | Path | Iterable[str | Path] = (),
    metadata: Mapping[str, Any] | None = None,
    use_cache: str | Path | None = None,
    watch: Watch | None = None,
    adapters: Sequence[str] = (),
    **settings: Any,
) -> list[Evaluation]:
    """Evaluates a model on tasks; gives a record with its samples for each task or group.

    `model`: the name of a kind (`hf`, with `model_args`), an initialised `transformers` model (with
    its `tokenizer`, or where that lies; also as `pretrained` and `tokenizer` of `hf`), an object
    with the LM protocol of `evalcore.model.base`, or one with lm-evaluation-harness's three
    methods. A `transformers` model is left as it was: in the same
    mode, on the same device. `settings` are fields of `evalcore.settings.Settings`.

    `adapters`: with `hf`, the names of several, each evaluated as with `peft` in `model_args`, over
    weights that are loaded once; their evaluations follow one another, and the first that cannot be
    evaluated ends all.

    Raises TaskError, ModelError or InfraError by whose fault it is. A task that fails, or whose
    scoring gives no number, does not keep the others from being evaluated; the error is raised
    after them, and its `finished` has the evaluations.
    """
    from evalcore.evaluation import evaluate as evaluations
    from evalcore.journal import Journal

    folders = [include_path] if isinstance(include_path, str | Path) else list(include_path)
    names = [tasks] if isinstance(tasks, str | Mapping) else list(tasks)
    chosen = Settings(**settings)
    model, model_args, tokenizer = _taken_apart(model, model_args, tokenizer)
    finished: list[Evaluation] = []
    for stated, load in _loaders(
        model, model_args, adapters, tokenizer=tokenizer, batch_size=batch_size,
        device=device, mode=chosen.mode,
    ):  # fmt: skip
        specs = select(
            library_of(folders),
            names,
            metadata=metadata,
            model_args=typed_pairs(stated),
            mode=chosen.mode,
        )
        lm = load()
        journal = Journal(Path(use_cache), lm.info.model_key) if use_cache else None
        try:
            for evaluation in evaluations(lm, specs, chosen, watch or Silent(), journal):
                finished.append(evaluation)
        except EvalError as error:
            error.finished = finished
            raise
    return finished


def _taken_apart(
    model: Any, model_args: str | Mapping[str, Any] | None, tokenizer: Any
) -> tuple[Any, Mapping[str, Any], Any]:
    """The model, the arguments that are texts and numbers, and the tokenizer.

    As lm-evaluation-harness's class for `hf` is given an initialised model and its tokenizer.
    """
    stated = pairs(model_args or {})
    if isinstance(model, str) and hasattr(stated.get("pretrained"), "forward"):
        model = stated.pop("pretrained")
    if not isinstance(stated.get("tokenizer"), str | Path | None):
        tokenizer = stated.pop("tokenizer")
    return model, stated, tokenizer


def _loaders(
    model: Any,
    model_args: Mapping[str, Any],
    adapters: Sequence[str],
    *,
    tokenizer: Any,
    batch_size: int | str | None,
    device: str | None,
    mode: Mode,
) -> Iterator[tuple[Mapping[str, Any], Callable[[], Any]]]:
    """The arguments of the model, or of it with each adapter alone, and what loads it."""
    if not adapters:
        yield model_args, partial(
            lm_of, model, model_args, tokenizer=tokenizer, batch_size=batch_size, device=device,
            mode=mode,
        )  # fmt: skip
        return
    from evalcore.model.protocols import Adapting
    from evalcore.model.registry import backend_of

    backend = backend_of(model) if isinstance(model, str) else None
    if not isinstance(backend, Adapting) or tokenizer is not None:
        raise ModelError("adapters: give model='hf' and model_args, and no tokenizer beside them")
    stated = pairs(model_args)
    rows = batch_size_of("auto" if batch_size is None else batch_size)
    given = list(dict.fromkeys(adapters))
    loaders = backend.with_adapters(
        as_texts(stated), given, batch_size=rows, device=device, mode=mode
    )
    for name, load in zip(given, loaders, strict=True):
        yield {**stated, "peft": name}, load


def lm_of(
    model: Any,
    model_args: str | Mapping[str, Any] | None = None,
    *,
    tokenizer: Any = None,
    batch_size: int | str | None = None,
    device: str | None = None,
    mode: Mode = "compat",
) -> Any:
    """What `model` stands for, with the LM protocol. Raises ModelError for what is no model."""
    rows = batch_size_of("auto" if batch_size is None else batch_size)
    model, stated, tokenizer = _taken_apart(model, model_args, tokenizer)
    if isinstance(model, str):
        from evalcore.model.registry import backend_of

        arguments = as_texts(stated)
        backend = backend_of(model)
        return backend.from_arguments(arguments, batch_size=rows, device=device, mode=mode)
    if all(hasattr(model, name) for name in ("info", "encode", "answer")):
        if not hasattr(model, "capabilities"):
            raise ModelError(
                f"model: {type(model).__name__} does not say what it can be asked: give it "
                "`capabilities`, see evalcore.model.capabilities.Capabilities"
            )
        return model
    if hasattr(model, "loglikelihood") and hasattr(model, "generate_until"):
        from evalcore.model.text_lm import TextLM

        return TextLM(model)
    if hasattr(model, "config") and hasattr(model, "forward"):
        from evalcore.model.hf.huggingface import HuggingFaceLM
        from evalcore.model.hf.seq2seq import Seq2SeqLM
        from evalcore.model.hf.snapshot import Arguments

        if isinstance(tokenizer, str | Path):
            stated, tokenizer = {**stated, "tokenizer": str(tokenizer)}, None
        how = Arguments.of_initialised(model, as_texts(stated))
        kind = Seq2SeqLM if getattr(model.config, "is_encoder_decoder", False) else HuggingFaceLM
        return kind(
            how, batch_size=rows, device=device, model=model, tokenizer=tokenizer, mode=mode
        )
    raise ModelError(
        f"model: expected the name of a kind, a transformers model, or an object with the methods "
        f"encode and answer or loglikelihood, loglikelihood_rolling and generate_until, got "
        f"{type(model).__name__}"
    )


def simple_evaluate(
    model: Any,
    model_args: str | Mapping[str, Any] | None = None,
    tasks: TasksStated | None = None,
    num_fewshot: int | None = None,
    batch_size: int | str | None = None,
    max_batch_size: int | None = None,
    device: str | None = None,
    use_cache: str | None = None,
    limit: float | None = None,
    samples: Mapping[str, Sequence[int]] | None = None,
    bootstrap_iters: int = 100_000,
    write_out: bool = False,
    log_samples: bool = True,
    system_instruction: str | None = None,
    apply_chat_template: bool | str = False,
    fewshot_as_multiturn: bool = True,
    gen_kwargs: str | Mapping[str, Any] | None = None,
    predict_only: bool = False,
    random_seed: int | None = SEEDS[0],
    numpy_random_seed: int | None = SEEDS[1],
    torch_random_seed: int | None = SEEDS[2],
    fewshot_random_seed: int | None = SEEDS[3],
    confirm_run_unsafe_code: bool = False,
    metadata: Mapping[str, Any] | None = None,
    *,
    tokenizer: Any = None,
    include_path: str | Path | Iterable[str | Path] = (),
    mode: Mode = "compat",
    **unused: Any,
) -> dict[str, Any]:
    """lm-evaluation-harness's function of that name: the same arguments, the same dictionary.

    With `log_samples` (or `predict_only`) the dictionary has `samples`, by task. Arguments that
    only concern how that package works (caches of requests, trackers, verbosity) are accepted and
    do nothing; others raise TypeError, and so does a `task_manager`: give `include_path`. Raises as
    `evaluate` does.
    """
    if wrong := [name for name in unused if name not in _WITHOUT_EFFECT]:
        raise TypeError(f"simple_evaluate has no argument {wrong[0]!r}")
    if not tasks:
        raise TaskError("tasks: give at least one name")
    finished = evaluate(
        model,
        tasks,
        model_args=model_args,
        tokenizer=tokenizer,
        batch_size=max_batch_size if batch_size in (None, "auto") else batch_size,
        device=device,
        include_path=include_path,
        metadata=metadata,
        use_cache=use_cache,
        mode=mode,
        num_fewshot=num_fewshot,
        fewshot_seed=seed_or_fresh(fewshot_random_seed),
        seed=seed_or_fresh(torch_random_seed),
        limit=limit,
        samples=samples,
        bootstrap_iters=bootstrap_iters,
        system_instruction=system_instruction,
        apply_chat_template=apply_chat_template,
        fewshot_as_multiturn=fewshot_as_multiturn if apply_chat_template else None,
        gen_kwargs=typed_pairs(gen_kwargs or {}) or None,
        predict_only=predict_only,
        confirm_run_unsafe_code=confirm_run_unsafe_code,
    )
    if write_out:
        for evaluation in finished:
            sys.stderr.write(first_prompts(evaluation.samples))
    _, texts, _ = _taken_apart(model, model_args, tokenizer)
    command = {
        "model": model if isinstance(model, str) else type(model).__name__,
        "model_args": model_args if isinstance(model_args, str | None) else texts,
        "batch_size": batch_size,
        "device": device,
        "use_cache": use_cache,
        "gen_kwargs": gen_kwargs,
        "random_seed": random_seed,
        "numpy_seed": numpy_random_seed,
        "torch_seed": torch_random_seed,
        "fewshot_seed": fewshot_random_seed,
    }
    return _results_of(finished, command, with_samples=log_samples or predict_only)


def _results_of(
    finished: Sequence[Evaluation], command: Mapping[str, Any], *, with_samples: bool
) -> dict[str, Any]:
    """The dictionary of lm-evaluation-harness; `command` are its entries about the call."""
    from evalcore.formats.lmeval.results import git_hash, results_json
    from evalcore.formats.lmeval.samples import logged_samples, task_hashes

    samples = [sample for evaluation in finished for sample in evaluation.samples]
    hashes = task_hashes(samples)
    records = [evaluation.record for evaluation in finished]
    results = results_json(records, command, hashes, git_hash())
    if with_samples:
        results["samples"] = {
            name: list(logged_samples([sample for sample in samples if sample["task"] == name]))
            for name in hashes
        }
    return results


_WITHOUT_EFFECT = (
    "cache_requests",
    "rewrite_requests_cache",
    "delete_requests_cache",
    "check_integrity",
    "evaluation_tracker",
    "verbosity",
)
