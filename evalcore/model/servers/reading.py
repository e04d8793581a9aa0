"""The half of a model behind a server that is here: its tokenizer, and how long a prompt may be."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace

from evalcore.errors import ModelError
from evalcore.model.base import Mode
from evalcore.model.hf.description import load_tokenizer
from evalcore.model.hf.reading import Reader
from evalcore.model.hf.snapshot import Arguments as TokenizerArguments
from evalcore.model.hf.snapshot import download_tokenizer
from evalcore.model.servers.arguments import Arguments
from evalcore.model.servers.identity import UNKNOWN_LENGTH
from evalcore.model.servers.served import Served
from evalcore.model.writing.generation import Plan

log = logging.getLogger(__name__)


class ServerReader(Reader):
    """Reads for a server, which is sent the last token of a continuation, too, and writes one more;
    so it feeds two tokens fewer than the server takes."""

    def _room(self, plan: Plan) -> int:
        """In compat a prompt to go on with may have one token more, as lm-evaluation-harness has
        it."""
        return super()._room(plan) + (self._mode == "compat")


def reader_of_server(
    arguments: Arguments, served: Served, mode: Mode, *, known: Collection[str], met: bool
) -> Reader:
    """`known`: generation arguments that the server takes.

    Raises ModelError where no length is known, or a longer one is stated than the server's."""
    stated, window = arguments.max_length, served.window
    if stated and window and stated > window:
        raise ModelError(
            f"--model_args: max_length: expected at most {window}, the tokens that the server "
            f"takes for prompt and answer, got {stated}"
        )
    length = stated or window
    if length is None and met:
        raise ModelError(
            "the server does not say how many tokens prompt and answer may have: state max_length"
        )
    if length is not None and length < 3:
        raise ModelError(f"--model_args: max_length: expected at least 3, got {length}")
    described = TokenizerArguments(
        pretrained=arguments.tokenizer or arguments.model,
        revision=arguments.revision,
        use_fast_tokenizer=arguments.use_fast_tokenizer,
        add_bos_token=arguments.add_bos_token,
        prefix_token_id=arguments.custom_prefix_token_id,
        think_end_token=arguments.think_end_token,
        enable_thinking=arguments.enable_thinking,
        chat_template_args=arguments.chat_template_args,
    )
    files = download_tokenizer(described)
    tokenizer = load_tokenizer(described, files)
    if arguments.add_bos_token is None and mode == "compat":
        if tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]:
            log.warning(
                "in compat no BOS is put before what a server is sent, as lm-evaluation-harness "
                "does it, and the tokenizer would put one: state add_bos_token=True to be asked as "
                "--model hf is"
            )
        described = replace(described, add_bos_token=False)
        tokenizer = load_tokenizer(described, files)
    reader = ServerReader(
        described,
        tokenizer,
        mode=mode,
        max_length=(length or UNKNOWN_LENGTH) - 2,
        vocabulary=lambda: len(tokenizer),
        generation_arguments=known,
    )
    if arguments.eos_string is not None:
        reader.encoder.eos_text = arguments.eos_string
    return reader
