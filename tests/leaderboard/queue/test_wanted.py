"""`manage.py workers-wanted`: how many more workers of a kind the waiting runs could use."""

from __future__ import annotations

import random
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from leaderboard.models import Run, Suite, Variant, Worker
from leaderboard.models.variant import Dtype
from leaderboard.queue import claims, orders, wanted
from tests.leaderboard import factories as make

pytestmark = pytest.mark.django_db

GB = 10**9
SOON, AGO = timedelta(minutes=4), timedelta(minutes=5)


@pytest.fixture
def suite() -> Suite:
    return make.make_suite(styles=("mmlu", "hybrid"))


def count(*options: str) -> int:
    said = StringIO()
    memory = () if "--memory" in options else ("--memory", str(79 * GB))
    call_command("workers-wanted", *memory, *options, stdout=said)
    assert said.getvalue().endswith("\n")
    return int(said.getvalue())


def ask(name: str, suite: Suite, gb: int = 20, **fields: Any) -> Variant:
    """A model of which every benchmark waits."""
    variant = make.make_variant(f"lab/{name}", parameters=10**9)
    Variant.objects.filter(pk=variant.pk).update(**fields)
    variant.refresh_from_db()
    for entry in suite.entries.all():
        make.queued_run(variant, entry, needed_bytes=gb * GB)
    return variant


def test_models_that_wait_are_counted_and_not_their_runs(suite: Suite) -> None:
    assert count() == 0
    ask("one", suite)
    assert Run.objects.count() == 4
    assert count() == 1
    ask("two", suite)
    assert count() == 2


def test_a_model_that_such_a_worker_could_not_take_is_not_counted(suite: Suite) -> None:
    ask("large", suite, gb=80)
    ask("half", suite, dtype="bfloat16")
    ask("packed", suite, quantisation="bitsandbytes 4-bit nf4")
    ask("served", suite, backend="vllm")
    ask("programmed", suite, code=f"lab/programmed@{'a' * 40}")
    assert count() == 1
    assert count("--memory", str(80 * GB)) == 2
    assert count("--dtypes", "float32") == 0
    assert count("--quantisations", "torchao,bitsandbytes") == 2
    assert count("--quantisations", "torchao") == 1
    assert count("--backend", "vllm") == 1
    assert count("--runs-code") == 2


def test_a_model_that_rests_or_is_at_work_is_not_counted(suite: Suite) -> None:
    ask("one", suite)
    resting = ask("two", suite)
    Run.objects.filter(variant=resting).update(not_before=timezone.now() + SOON)
    assert count() == 1
    Run.objects.filter(variant=resting).update(not_before=timezone.now() - SOON)
    assert count() == 2
    worker = make.make_worker()
    assert claims.claim_next(worker) is not None
    assert count() == 1


def test_nothing_is_wanted_while_all_workers_are_told_to_take_nothing(suite: Suite) -> None:
    ask("one", suite)
    for kind in ("pause", "drain"):
        orders.give(kind, by="the operator")
        assert count() == 0
        orders.lift()
        assert count() == 1


def test_idle_workers_that_may_take_a_waiting_model_are_enough_for_one_each(suite: Suite) -> None:
    ask("one", suite)
    ask("two", suite)
    make.make_worker("first")
    assert count() == 1
    for number in range(3):
        make.make_worker(f"more-{number}")
    assert count() == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"seen": timezone.now() - AGO},
        {"ended": timezone.now()},
        {"refusal": "no driver"},
        {"full_until": timezone.now() + timedelta(days=1)},
        {"memory_bytes": 19 * GB},
        {"dtypes": ["float16", "bfloat16"]},
        {"backend": "vllm"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_worker_that_takes_none_of_the_waiting_models_does_not_count(
    suite: Suite, fields: dict[str, Any]
) -> None:
    ask("one", suite)
    make.make_worker("there")
    assert count() == 0
    Worker.objects.filter(name="there").update(**fields)
    assert count() == 1


def test_a_worker_with_an_order_of_its_own_or_a_run_does_not_count(suite: Suite) -> None:
    worker = make.make_worker("there")
    ask("one", suite)
    orders.give("pause", "there", by="the operator")
    assert count() == 1
    orders.lift("there")
    assert count() == 0
    claims.claim_next(worker)
    ask("two", suite)
    assert count() == 1


def test_a_run_that_filled_a_worker_is_not_for_this_worker_but_for_a_new_one(suite: Suite) -> None:
    ask("one", suite)
    make.make_worker("there")
    Run.objects.update(full_on="there", full_until=timezone.now() + SOON)
    assert count() == 1
    make.make_worker("elsewhere")
    assert count() == 0


@pytest.mark.parametrize("seed", range(30))
def test_who_is_counted_as_idle_would_claim_one_of_these_runs(suite: Suite, seed: int) -> None:
    """The query has the filter of claims once more, for workers that are rows: both must agree."""
    drawn = random.Random(seed)
    methods, backends = ("", "gptq 4-bit", "gptq", "awq 4-bit"), ("hf", "hf", "vllm")
    for number in range(4):
        ask(
            f"model-{number}",
            suite,
            gb=drawn.choice((10, 20, 40)),
            dtype=drawn.choice(Dtype.values),
            quantisation=drawn.choice(methods),
            backend=drawn.choice(backends),
            code=drawn.choice(("", "", "lab/code@a")),
        )
    for number in range(3):
        worker = make.make_worker(f"worker-{number}", backend=drawn.choice(backends))
        worker.memory_bytes = drawn.choice((10, 20, 40)) * GB
        worker.dtypes = drawn.sample(Dtype.values, drawn.randint(1, 3))
        worker.quantisations = drawn.sample(["gptq", "awq", "torchao"], drawn.randint(0, 3))
        worker.runs_code = drawn.random() < 0.5
        worker.save()
    kind = Worker(
        memory_bytes=drawn.choice((20, 40)) * GB,
        dtypes=drawn.sample(Dtype.values, drawn.randint(1, 3)),
        quantisations=drawn.sample(["gptq", "awq"], drawn.randint(0, 2)),
        backend=drawn.choice(backends),
        runs_code=drawn.random() < 0.5,
    )
    waiting = set(claims.fitting(kind).values_list("pk", flat=True))
    models = {run.variant_id for run in Run.objects.filter(pk__in=waiting)}
    takers = [w for w in Worker.objects.all() if claims.fitting(w).filter(pk__in=waiting).exists()]
    assert wanted.workers_wanted(kind) == max(len(models) - len(takers), 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--memory is missing: give a number of bytes, such as 79000000000"),
        (("--memory", "80GB"), "--memory is '80GB': give a number of bytes, such as 79000000000"),
        (("--memory", "0"), "--memory is '0': give"),
        (("--memory", str(2**70)), "give a number of bytes"),
        (("--dtypes", "float32,int4"), "'int4' is none of float32, bfloat16, float16"),
        (("--dtypes", ""), "--dtypes is empty: name one or more of float32"),
        (("--backend", "gguf"), "--backend 'gguf': 'gguf' is none of hf, vllm"),
        (("--quantisations", "q4"), "--quantisations 'q4': 'q4' is none of bitsandbytes"),
        (("--memry", "3"), "unrecognized arguments: --memry 3"),
    ],
)
def test_a_mistake_is_told_in_one_line(options: tuple[str, ...], message: str) -> None:
    memory = () if not options or "--memory" in options else ("--memory", "1")
    with pytest.raises(CommandError) as refused:
        call_command("workers-wanted", *memory, *options)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_query_is_printed_where_the_database_is_postgresql() -> None:
    said = StringIO()
    if connection.vendor == "postgresql":
        call_command("workers-wanted", "--memory", "1", "--sql", stdout=said)
        assert said.getvalue().startswith("SELECT GREATEST(")
        return
    with pytest.raises(CommandError, match="--sql: the site's database is not PostgreSQL"):
        call_command("workers-wanted", "--memory", "1", "--sql")
