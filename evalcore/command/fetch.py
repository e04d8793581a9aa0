"""`evalcore fetch`: everything that a run needs, so that it needs no network."""

from __future__ import annotations

import argparse

from evalcore.command.options import OptionError
from evalcore.command.selection import model_args_of, specs_of
from evalcore.model.hf.arguments import NAMES
from evalcore.values import as_texts

OF_THE_HUB = (*NAMES, "vllm")
"""Models whose weights are downloaded; others lie behind a server, or nobody knows where."""


def fetch(options: argparse.Namespace) -> int:
    """Download the pinned model and the data of the tasks; say which documents are asked."""
    from evalcore.building import tasks_of
    from evalcore.model.hf.snapshot import Arguments, download
    from evalcore.model.vllm.arguments import VllmArguments
    from evalcore.settings import Settings
    from evalcore.task.data.dataset import load_data
    from evalcore.task.identity.digest import docs_digest

    arguments = as_texts(model_args_of(options))
    if arguments and options.model not in OF_THE_HUB:
        raise OptionError(
            f"--model {options.model}: models of {', '.join(OF_THE_HUB)} are downloaded: with "
            "--model dummy, and no --model_args, the data of the tasks are fetched alone"
        )
    options.show.start()
    specs = specs_of(options)
    options.show.phase("download")
    if arguments:
        for adapter in options.adapters or (None,):
            stated = {**arguments, **({"peft": adapter} if adapter else {})}
            is_vllm = options.model == "vllm"
            download(VllmArguments.of(stated).reading if is_vllm else Arguments.of(stated))
    leaves = [leaf for spec in specs for leaf in spec.leaves()]
    for done, leaf in enumerate(leaves, start=1):
        load_data(leaf)
        options.show.progress(leaf.name, done, len(leaves), 0)
    named = set(options.documents.split(","))
    for spec in specs:
        if spec.name in named:
            asked = tasks_of(spec, Settings(mode=options.mode, num_fewshot=0))
            digests = [digest for task in asked for digest in task.doc_digests]
            options.show.documents(spec.name, docs_digest(digests), len(digests))
    options.show.done({})
    return 0
