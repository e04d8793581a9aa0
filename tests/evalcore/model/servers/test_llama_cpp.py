"""llama.cpp's own server: it writes, and is refused where it would have to score a prompt."""

from __future__ import annotations

import pytest

from evalcore.errors import ModelError
from evalcore.model.base import Request
from evalcore.refusals import refuse_before
from evalcore.settings import Settings
from tests.evalcore.model.servers import gguf_file, served_model
from tests.evalcore.model.servers.conftest import stated
from tests.evalcore.model.servers.test_completions import WRITTEN, answers, model
from tests.evalcore.model.servers.test_probe import SCORES


@pytest.fixture(scope="module")
def llama(folder, tmp_path_factory):
    """The server's address."""
    import xllamacpp

    told = xllamacpp.CommonParams()
    file = gguf_file.write(folder, tmp_path_factory.mktemp("gguf") / "model.gguf")
    told.model.path = str(file)
    told.model_alias = {"org/tiny"}
    told.n_ctx, told.n_parallel, told.warmup, told.port = served_model.POSITIONS, 1, False, 0
    told.cpuparams.n_threads = told.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(told)
    yield server.listening_address
    del server


def test_it_writes_what_the_model_itself_writes(llama, folder, direct):
    lm = model(stated(llama, folder))
    asked = [
        *WRITTEN,
        *(
            Request("generate_until", text, generation={"until": ["\n"], "max_gen_toks": 6})
            for text in ("The following are", "Question: Which of these is", "A. a table\nB.")
        ),
    ]
    for found, expected in zip(answers(lm, asked), answers(direct, asked), strict=True):
        assert found.text == expected.text
    assert lm.info.service["model"] == "org/tiny"
    assert lm.info.service["version"]


@pytest.mark.parametrize("tokenized", ["True", "False"])
def test_its_loglikelihoods_are_refused_before_the_first_request(llama, folder, tokenized):
    can = model(stated(llama, folder, tokenized_requests=tokenized)).capabilities
    assert (can.loglikelihood, can.rolling, can.generate) == (False, False, True)
    with pytest.raises(ModelError) as error:
        refuse_before(can, [SCORES], Settings())
    said = str(error.value)
    assert "it does not say how likely the tokens of a prompt are" in said
    assert "choose tasks that generate (the style `generate`)" in said


def test_a_context_that_is_longer_than_its_own_is_refused(llama, folder):
    with pytest.raises(ModelError, match=r"max_length: expected at most 128"):
        model(stated(llama, folder, max_length="2048"))
