"""Whether a model that is asked step by step says what it says of a whole text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from evalcore.model.faults import set_aside
from evalcore.model.forward.logits import logits_at
from evalcore.model.forward.selfcheck import IN_COMPANY, Trial, tried_in_both

STEPS = 4
"""Tokens that are written: each is one more forward pass."""

LONGEST = 64
"""Tokens of the prompt; of a longer one its end."""


def otherwise_by_steps(model: Any, prompt: Sequence[int], pad: int) -> str | None:
    """What its own `generate` says after a prompt that its pass over the whole text does not, in
    float32 first, where rounding hides nothing; None where they agree."""
    fed = list(prompt)[-LONGEST:]
    problem = tried_in_both(model, lambda times: _tried(model, fed, pad, times)).problem
    return problem and f"its own `generate` says otherwise than a pass over the whole: {problem}"


@torch.inference_mode()
def _tried(model: Any, prompt: list[int], pad: int, times: int) -> Trial:
    """`times`: as far off as usual at most."""
    ids = torch.tensor([prompt], device=model.device)
    try:
        written = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=STEPS,
            min_new_tokens=STEPS,
            do_sample=False,
            pad_token_id=pad,
            return_dict_in_generate=True,
            output_logits=True,
        )
        said = torch.cat(written.logits).float().log_softmax(dim=-1)
        tokens = written.sequences[0, len(prompt) :]
        places = torch.arange(len(tokens), device=model.device) + len(prompt) - 1
        whole = logits_at(model, written.sequences[:, :-1], places)[0].float().log_softmax(dim=-1)
    except torch.OutOfMemoryError:
        raise
    except Exception as problem:  # who cannot be asked step by step is not held to what that says
        set_aside("writing step by step, to compare", problem)
        return Trial(problem=None, largest=0.0)
    allowed = times * IN_COMPANY.of(model)
    likeliest = whole.argmax(dim=-1, keepdim=True)
    chosen = torch.cat([likeliest, tokens[:, None]], dim=1)
    moved = float((said.gather(1, chosen) - whole.gather(1, chosen)).abs().max())
    if not moved <= allowed:
        return Trial(problem=f"apart by {moved:.4g} nats", largest=moved)
    short = (whole.gather(1, likeliest) - whole.gather(1, tokens[:, None]))[:, 0]
    ends = model.generation_config.eos_token_id
    may_end = torch.isin(likeliest[:, 0], torch.tensor([] if ends is None else ends).to(tokens))
    if not float(short.masked_fill(may_end, 0.0).max()) <= allowed:
        return Trial(problem="it does not write the likeliest token", largest=moved)
    return Trial(problem=None, largest=moved)
