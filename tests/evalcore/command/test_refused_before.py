"""What a run asks in vain is said before the model's weights are fetched for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml

from tests import tiny, warm
from tests.evalcore.toys import write_toys
from tests.hub import ROOT, client_environment, serve


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    content = tmp_path_factory.mktemp("content")
    tiny.make(content / "models" / "org" / "tiny")
    with serve([content]) as url:
        yield url


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    folder = write_toys(tmp_path / "tasks")
    heard = {**yaml.safe_load((folder / "toy_written.yaml").read_text()), "task": "toy_heard"}
    heard["doc_to_audio"] = "question"
    (folder / "toy_heard.yaml").write_text(yaml.safe_dump(heard))
    return folder


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (["--device", "cuda:99"], "--device cuda:99: this machine does not have it"),
        (["--model_args", "pretrained=org/tiny,tp_plan=auto"], "torchrun --nproc_per_node N"),
        (
            ["--tasks", "toy_heard"],
            "hf hears no sounds, which toy_heard needs: leave them out, or choose a backend of",
        ),
        (
            ["--tasks", "toy_heard", "--adapters", "org/adapter"],
            "hf hears no sounds, which toy_heard needs: leave them out, or choose a backend of",
        ),
    ],
    ids=["device", "processes", "sound", "sound, adapters"],
)
def test_no_weights_are_fetched_for_it(
    hub: str, toys: Path, tmp_path: Path, told: list[str], says: str
) -> None:
    if "torchrun" in says and torch.cuda.device_count() > 1:
        pytest.skip("several GPUs divide it among themselves")
    home = tmp_path / "home"
    done = warm.run(
        [
            *("-m", "evalcore", "run", "--model", "hf", "--limit", "1"),
            *("--model_args", "pretrained=org/tiny", "--tasks", "toy_choice"),
            *("--include_path", str(toys), "--output_path", str(tmp_path / "out"), *told),
        ],
        cwd=ROOT,
        env=client_environment(hub, home),
        timeout=300,
    )
    # A GPU that is missing is nobody's fault who chose or published the model.
    assert done.returncode == 12 if "cuda:99" in told else done.returncode in (10, 11), done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(home.rglob("*.safetensors"))
