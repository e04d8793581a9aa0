"""Another backend on the board: a row with a mark, and a rank where it was shown to agree."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.test import Client

from leaderboard.backends.agree import compare_due
from leaderboard.models import Agreement, Run, Suite, Variant, edition
from leaderboard.queue import claims, reproduce
from leaderboard.snapshot import Model
from leaderboard.submissions import precheck
from leaderboard.submissions.precheck import Way
from leaderboard.submissions.submit import submit
from tests.leaderboard import factories as make

TWIN, OTHER = "workshop/heron-7b", "workshop/robin-1b"


@pytest.fixture
def suite(db: None, settings: Any) -> Suite:
    settings.PLUMBLINE_SUITE = "demo"
    return make.make_suite(benchmarks=("facts", "sums"), styles=("cloze",))


def evaluated(suite: Suite, repo_id: str, backend: str, **how: Any) -> Variant:
    """A variant with a finished run in each column, answered alike by every backend."""
    commit = make.digest_of(repo_id)[:40]
    variant = make.make_variant(repo_id, commit=commit, backend=backend)
    for number, run in enumerate(make.make_submission(variant, suite).runs.order_by("task__name")):
        make.finish(run, **{"skill": 0.6, "seed": number, **how})
    return variant


def row_of(suite: Suite, variant: Variant) -> tuple[Model, int]:
    """The variant's row on the newest board, and its rank there."""
    make.publish(suite)
    board = make.board(suite)
    row = board.row_of[variant.pk]
    return board.models[row], int(board.ranks.rank[row])


def test_a_worker_takes_only_what_its_backend_computes(suite: Suite) -> None:
    variant = make.make_variant(backend="vllm")
    make.make_submission(variant, suite)
    assert claims.claim_next(make.make_worker()) is None
    claim = claims.claim_next(make.make_worker("other", backend="vllm"))
    assert {run.variant for run in claim.runs} == {variant}
    command = reproduce.command(claim.runs[0])
    assert command[:4] == ["evalcore", "run", "--model", "vllm"]


@pytest.mark.parametrize("backend", ["hf", "vllm"])
def test_a_record_of_another_backend_than_was_asked_for_is_refused(
    suite: Suite, backend: str
) -> None:
    run = make.make_submission(make.make_variant(backend=backend), suite).runs.all()[0]
    variant = run.variant
    pins = {"repository": variant.hub_model.repo_id, "commit": variant.commit}
    other = {"computed_by": {"name": "vllm", "version": "1"}} if backend == "hf" else {}
    model = {**pins, "dtype": variant.dtype, **other}
    with pytest.raises(ValueError, match="was evaluated"):
        make.finish(run, record={"model": model})
    assert Run.objects.get(pk=run.pk).state == "running"


def test_without_a_comparison_a_row_has_no_rank_and_says_why(client: Client, suite: Suite) -> None:
    evaluated(suite, OTHER, "hf")
    variant = evaluated(suite, TWIN, "vllm")
    assert compare_due() == 0
    told = client.get("/backends").content.decode()
    assert "No other engine has computed a model here yet" in told
    assert re.search(r"within\s+0.1 nats", told)
    model, rank = row_of(suite, variant)
    assert rank == 0
    assert "vLLM was not yet shown to give the answers of transformers" in model.apart
    html = client.get("/").content.decode()
    assert model.apart in html
    assert "computed by vLLM" in html
    assert model.apart in client.get(f"/models/{TWIN}").text
    assert "not shown to agree" in client.get(f"/models/{TWIN}?tab=field").text


def test_answers_that_agree_give_it_a_rank_and_every_other_model_of_that_version(
    suite: Suite,
) -> None:
    packed = evaluated(suite, TWIN, "hf")
    Variant.objects.filter(pk=packed.pk).update(quantisation="gptq 4-bit")
    reference = evaluated(suite, TWIN, "hf")
    twin, other = evaluated(suite, TWIN, "vllm"), evaluated(suite, OTHER, "vllm", skill=0.3)
    while compare_due():
        pass
    assert set(reference.runs.values_list("computed_by", flat=True)) == {""}
    assert set(twin.runs.values_list("computed_by", flat=True)) == {"vllm 0.32.0 on cpu"}
    assert Agreement.objects.filter(within=True).count() == twin.runs.count()
    assert compare_due() == 0, "a pair is compared once"
    assert Agreement.objects.filter(run__variant=twin, reference__variant=reference).exists()
    for variant in (twin, other):
        model, rank = row_of(suite, variant)
        assert (model.apart, rank > 0) == ("", True)
    newer = evaluated(suite, "workshop/wren-3b", "vllm")
    for other_way in ("vllm 0.33.0 on cpu", "vllm 0.32.0 on cuda"):
        newer.runs.update(computed_by=other_way)
        edition.note("data")
        assert row_of(suite, newer)[1] == 0, f"{other_way} has to show it anew"


def test_answers_that_do_not_agree_take_the_rank_from_all(client: Client, suite: Suite) -> None:
    evaluated(suite, TWIN, "hf")
    twin = evaluated(suite, TWIN, "vllm")
    evaluated(suite, OTHER, "hf")
    other = evaluated(suite, OTHER, "vllm", skill=0.2, seed=9)
    while compare_due():
        pass
    failed = Agreement.objects.filter(within=False)
    assert set(failed.values_list("run__variant", flat=True)) == {other.pk}
    assert all("too far apart" in row.why for row in failed)
    for variant in (twin, other):
        assert row_of(suite, variant)[1] == 0
    page = client.get("/backends").content.decode()
    assert page.count("vllm 0.32.0") == Agreement.objects.count()
    assert "loglikelihoods are too far apart" in page
    run = failed[0].run
    told = client.get(f"/runs/{run.pk}").content.decode()
    assert f"/runs/{failed[0].reference_id}" in told
    assert "it did not give the answers of" in told


def test_runs_that_were_fed_other_tokens_are_recorded_as_not_agreeing(suite: Suite) -> None:
    evaluated(suite, TWIN, "hf")
    evaluated(suite, TWIN, "vllm", extra={"responses": []})
    compare_due()
    row = Agreement.objects.all()[0]
    assert not row.within
    assert "the other run has another one there" in row.why


def test_a_column_outside_the_average_keeps_no_row_from_its_rank(suite: Suite) -> None:
    first, *others = sorted(set(suite.entries.values_list("benchmark", flat=True)))
    suite.entries.filter(benchmark__in=others).update(counts=False)
    evaluated(suite, TWIN, "hf")
    twin = evaluated(suite, TWIN, "vllm")
    while compare_due():
        pass
    Agreement.objects.exclude(run__task__benchmark=first).delete()
    assert row_of(suite, twin)[0].apart == ""
    Agreement.objects.all().delete()
    edition.note("data")
    assert row_of(suite, twin)[0].apart


@pytest.mark.usefixtures("hub")
def test_the_form_offers_another_engine_where_a_worker_has_it(
    client: Client, suite: Suite, settings: Any
) -> None:
    settings.PLUMBLINE_OPEN_SUBMIT = True
    tiny, vllm = "awkward/tiny-llama", Way(backend="vllm")
    make.make_worker()
    assert 'name="engine"' not in client.get("/submit").content.decode()
    [problem] = precheck.check(tiny, way=vllm).problems
    assert (problem.field, problem.code) == ("engine", "no_worker_for_engine")
    make.make_worker("other", backend="vllm")
    assert 'name="engine"' in client.get("/submit").content.decode()
    response = client.post("/submit", {"model": tiny, "engine": "vllm"})
    assert response.status_code == 302, response.content
    assert Variant.objects.get().told == "float32, computed by vLLM"
    with pytest.raises(precheck.Refused, match="submitted before"):
        submit(tiny, way=vllm, user=AnonymousUser())
    packed = Way(backend="vllm", packing="8bit")
    codes = {problem.code for problem in precheck.check(tiny, way=packed).problems}
    assert "plain_models_only" in codes
