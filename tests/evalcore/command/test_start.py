"""What each command imports: nothing heavy that it has no use for, and none of it too early.

Every one is a start of its own; a package that comes back here is named by its test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tiny
from tests.hub import client_environment, serve

UNUSED = {
    "IPython", "aiohttp", "datasets", "librosa", "lm_eval", "matplotlib", "nltk", "pandas", "peft",
    "requests", "sacrebleu", "sklearn", "tensorflow", "torchao", "torchvision", "vllm",
}  # fmt: skip
"""What no command has any use for before a model is first asked a question in text."""

OF_MODELS = UNUSED | {"torch", "transformers", "accelerate", "sympy", "tokenizers", "PIL"}
"""And what is there to compute a model alone."""

OF_DATA = OF_MODELS | {"scipy", "numpy", "pyarrow", "huggingface_hub", "httpx2", "jinja2"}
"""And what reads data, downloads them, or writes prompts of them."""

PARTS = {
    "pyarrow.compute", "pyarrow.dataset", "scipy.optimize", "scipy.stats",
    "torch._dynamo.convert_frame", "torch._inductor", "torch.distributed.tensor",
}  # fmt: skip
"""Parts of packages that take longest to import, where the packages are used."""

AT_THE_END = """
import json, sys
from evalcore.cli import main
try:
    status = main(sys.argv[1:])
except SystemExit as end:
    status = end.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
sys.exit(status)
"""

AT_THE_FIRST_PASS = """
import json, sys
from torch.nn import functional
from evalcore.cli import main
embedding = functional.embedding
def first(tokens, *others, **named):
    functional.embedding = embedding
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
    return embedding(tokens, *others, **named)
functional.embedding = first
sys.exit(main(sys.argv[1:]))
"""

MODEL = ("--model_args", "pretrained=tiny/llama,dtype=float32")


@pytest.fixture(scope="module")
def environment(test_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict]:
    """A Hub, and a home that has the model and the data of a task already, as a second run has."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "models" / "tiny").mkdir(parents=True)
    tiny.make(folder / "models" / "tiny" / "llama", positions=1024)
    with serve([folder, test_data / "hub"]) as url:
        environment = client_environment(url, tmp_path_factory.mktemp("hf"))
        imported(environment, AT_THE_END, "fetch", *MODEL, "--tasks", "arc_easy")
        yield environment


def imported(environment: dict[str, str], program: str, *arguments: object) -> set[str]:
    """The modules that were there, by their whole names, at the moment that the program has."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return set(next(json.loads(line) for line in done.stderr.splitlines() if line[:1] == "["))


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (("--help",), OF_DATA),
        (("run", "--help"), OF_DATA),
        (("ls", "tasks"), OF_DATA - {"jinja2"}),
        (("fetch", *MODEL, "--tasks", "arc_easy"), OF_MODELS | {"scipy"}),
        (("export", "folder", "--to", "lm-eval", "--tasks", "arc_easy"), OF_DATA - {"jinja2"}),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else "",
)
def test_a_command_that_asks_no_model_imports_nothing_that_does(
    environment: dict[str, str], tmp_path: Path, arguments: tuple[str, ...], unwanted: set[str]
) -> None:
    given = [tmp_path / "new" if argument == "folder" else argument for argument in arguments]
    modules = imported(environment, AT_THE_END, *given)
    assert packages(modules) & unwanted == set()
    assert modules & PARTS == set()


def test_a_model_is_asked_before_anything_is_imported_that_it_does_not_need(
    environment: dict[str, str], tmp_path: Path
) -> None:
    arguments = ("run", *MODEL, "--tasks", "arc_easy", "--limit", 4, "--output_path", tmp_path)
    modules = imported(environment, AT_THE_FIRST_PASS, *arguments)
    assert {"torch", "transformers"} <= packages(modules)
    assert packages(modules) & UNUSED == set()
    assert modules & PARTS == set()
    for command in (("verify", tmp_path), ("compare", tmp_path, tmp_path)):
        modules = imported(environment, AT_THE_END, *command)
        assert packages(modules) & (OF_MODELS - {"tokenizers"}) == set()
        assert "pyarrow.dataset" not in modules


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

OTHER_PART = """
import sys
from evalcore.command.importing import importing
with importing():
    from scipy.optimize import linear_sum_assignment, minimize
assert minimize.__module__.startswith("scipy.optimize")
assert sys.modules["scipy.optimize"].minimize is minimize
assert linear_sum_assignment([[1]])[0].tolist() == [0]
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

FROM_A_PART = """
import sys, torch
from evalcore.command.importing import importing, spared
with importing(), spared():
    from transformers import modeling_utils
assert "torch._dynamo.convert_frame" not in sys.modules
import torch._dynamo.utils as part
assert sys.modules["torch._dynamo.utils"] is part is torch._dynamo.utils
assert part.__spec__.loader.path == part.__file__
assert torch._dynamo.symbolic_convert.counters is part.counters
assert torch._dynamo.list_backends()
"""

BY_NAME = """
import sys, torch
from evalcore.command.importing import importing, spared
with importing(), spared():
    from transformers import modeling_utils
assert "torch._dynamo.convert_frame" not in sys.modules
assert torch._dynamo.trace_rules is sys.modules["torch._dynamo.trace_rules"]
assert not hasattr(torch._dynamo, "no_such_thing")
"""

AT_THE_SECOND_TRY = """
import sys, torch
from evalcore.command.importing import importing, spared
with importing(), spared():
    from transformers import modeling_utils
sys.modules["torch._dynamo.eval_frame"] = None  # as a library that is broken
for _ in range(2):
    try:
        torch._dynamo.trace_rules
    except ImportError as error:
        assert "eval_frame" in str(error)
    else:
        raise AssertionError
del sys.modules["torch._dynamo.eval_frame"]
assert torch._dynamo.trace_rules
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


@pytest.mark.parametrize(
    "program",
    [LATER, OTHER_PART, FROM_A_PART, BY_NAME, AT_THE_SECOND_TRY],
    ids=["later", "another part", "a part of the compiler", "the compiler by name", "after errors"],
)
def test_what_is_imported_later_is_the_library_itself_when_it_is_called(program: str) -> None:
    begin(program, {})


def test_the_compiler_compiles_the_same_where_it_is_imported_later() -> None:
    assert begin(COMPILED, {}) == begin(COMPILED, {"AT_ONCE": "yes"})


@pytest.mark.parametrize(
    ("name", "later"), [("hf", True), ("hf-multimodal", True), ("vllm-vlm", False)]
)
def test_backends_whose_code_is_not_ours_find_torch_whole(name: str, later: bool) -> None:
    begin(BACKEND.format(name=name, later=later), {})


@pytest.mark.parametrize("launcher", [{}, {"WORLD_SIZE": "1"}], ids=["by hand", "by torchrun"])
def test_what_divides_a_model_is_there_where_a_launcher_may_want_it(
    launcher: dict[str, str],
) -> None:
    begin(UNDIVIDED, launcher)


def begin(program: str, variables: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | variables, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
