"""Parts of torch and scipy that are imported when they are first called are the parts themselves.

Each program is a start of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LATER = """
import gc, sys
from evalcore.command.importing import importing
before = gc.isenabled()
with importing():
    import transformers.modeling_utils
    from transformers.loss import loss_for_object_detection as losses
assert gc.isenabled() == before
assert gc.get_freeze_count() > 100_000
assert "scipy.optimize" not in sys.modules
costs = [[4, 1, 3], [2, 0, 5], [3, 2, 2]]
rows, columns = losses.linear_sum_assignment(costs)
assert (list(rows), list(columns)) == ([0, 1, 2], [1, 0, 2])
import scipy.optimize
assert sys.modules["scipy.optimize"].__file__
assert scipy.optimize.linear_sum_assignment(costs)[1].tolist() == [1, 0, 2]
frozen = gc.get_freeze_count()
with importing():
    pass
assert gc.get_freeze_count() == frozen
"""

COMPILED = """
import contextlib, json, os, sys
import torch
from evalcore.command.importing import importing, spared
later = "AT_ONCE" not in os.environ
begun = lambda: "torch._dynamo.convert_frame" in sys.modules
graphs, compiling = [], []
asked = lambda: compiling.append(torch.compiler.is_compiling())
with spared() if later else contextlib.nullcontext():
    from transformers import LlamaConfig, LlamaForCausalLM
    import torch._dynamo as package
    @torch.compiler.disable
    def left_alone(x):
        return asked() or x + 1
    @torch.compiler.disable(recursive=False)
    def left_alone_itself(x):
        return asked() or x - 1
    @torch.compiler.allow_in_graph
    def kept_whole(x):
        return x * 5
    @torch.compiler.assume_constant_result
    def constant():
        return asked() or 2
def computed(x):
    return kept_whole(left_alone_itself(left_alone(x * 3) / 7) * constant())
def keep(graph, inputs):
    graphs.append([node.name for node in graph.graph.nodes if node.op == "call_function"])
    return graph
expected = computed(torch.ones(2)).tolist()
assert begun() != later
assert torch.compile(computed, backend=keep)(torch.ones(2)).tolist() == expected
assert begun() and torch._dynamo is package is sys.modules["torch._dynamo"]
assert type(package) is type(sys)

torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=9))
tokens = torch.tensor([[1, 2, 3]])
with torch.inference_mode():
    logits = torch.compile(model, backend=keep)(tokens).logits
    torch.testing.assert_close(logits, model(tokens).logits)
print(json.dumps([graphs, compiling, logits.tolist()]))
"""

BACKEND = """
from evalcore.command.importing import backend
backend({name!r})
from transformers import modeling_utils
from transformers.utils.import_utils import is_torch_distributed_available
import sys, torch
assert is_torch_distributed_available() != {later}
assert ("torch._dynamo.convert_frame" in sys.modules) != {later}
"""

UNDIVIDED = """
import os, sys, torch
from evalcore.command.importing import importing, spared
launched = "WORLD_SIZE" in os.environ
with importing(), spared():
    from transformers import modeling_utils
    from transformers.utils.import_utils import is_torch_distributed_available
assert is_torch_distributed_available() == launched
assert ("torch.distributed.tensor" in sys.modules) == launched
assert torch.distributed.is_available()
"""


def begin(program: str, variables: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | variables, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_what_is_imported_later_is_the_library_itself_when_it_is_called() -> None:
    begin(LATER, {})


def test_the_compiler_compiles_the_same_where_it_is_imported_later() -> None:
    assert begin(COMPILED, {}) == begin(COMPILED, {"AT_ONCE": "yes"})


@pytest.mark.parametrize(("name", "later"), [("hf", True), ("vllm-vlm", False)])
def test_backends_whose_code_is_not_ours_find_torch_whole(name: str, later: bool) -> None:
    begin(BACKEND.format(name=name, later=later), {})


@pytest.mark.parametrize("launcher", [{}, {"WORLD_SIZE": "1"}], ids=["by hand", "by torchrun"])
def test_what_divides_a_model_is_there_where_a_launcher_may_want_it(
    launcher: dict[str, str],
) -> None:
    begin(UNDIVIDED, launcher)
