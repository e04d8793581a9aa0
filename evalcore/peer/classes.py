"""What a task written in Python derives from: the classes that it knows from lm-evaluation-harness.

A class of a task overrides some of these methods; the others read the configuration, as for a task
that is described by keys. How prompts are written and answers asked is the engine's business
(`evalcore.peer.python_task`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Protocol

from evalcore.errors import TaskError
from evalcore.model.text_lm import Instance
from evalcore.task.asking.prompt import Doc, DocReader
from evalcore.task.config import TaskSpec
from evalcore.task.data.dataset import load_data
from evalcore.task.metadata import TaskMetadata

_DEFAULTS = {
    "output_type": "generate_until",
    "target_delimiter": " ",
    "fewshot_delimiter": "\n\n",
    "description": "",
    "repeats": 1,
    "should_decontaminate": False,
    "unsafe_code": False,
}


class Config(dict[str, Any]):
    """The configuration of a task written in Python: its keys as attributes; None if not stated."""

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        return self.get(key)

    def __missing__(self, key: str) -> None:
        return None

    def to_dict(self) -> dict[str, Any]:
        return dict(self)


class OfConfiguration(Protocol):
    """What the metrics of a class's configuration give."""

    @property
    def aggregations(self) -> Mapping[str, Callable[..., Any]]: ...
    @property
    def higher_is_better(self) -> Mapping[str, bool]: ...

    def scores(self, doc: Doc, results: Sequence[Any]) -> dict[str, Any]: ...


class ConfigurableTask:
    """A task that its class and its configuration describe; data are loaded at the first need."""

    VERSION: Any = "Yaml"
    DATASET_PATH: str | None = None
    DATASET_NAME: str | None = None
    OUTPUT_TYPE: str | None = None
    CONFIG: ClassVar[Mapping[str, Any] | None] = None
    MULTIMODAL = False

    def __init__(
        self,
        data_dir: str | None = None,  # noqa: ARG002 (the interface that classes call)
        cache_dir: str | None = None,  # noqa: ARG002
        download_mode: Any = None,  # noqa: ARG002
        config: Mapping[str, Any] | None = None,
    ) -> None:
        # What OUTPUT_TYPE says is overruled by the configuration's default, there as here.
        stated = {**(self.CONFIG or {}), **(config or {})}
        stated = {key: value for key, value in stated.items() if value is not None}
        self._config = Config({**_DEFAULTS, **stated})
        self.DATASET_PATH = self.config.dataset_path or self.DATASET_PATH
        self.DATASET_NAME = self.config.dataset_name or self.DATASET_NAME
        self.VERSION = (self.config.metadata or {}).get("version", self.VERSION)
        self.commit: str | None = None
        self._dataset: Any = None
        self._training_docs: list[Doc] | None = None
        self._fewshot_docs: list[Doc] | None = None
        self.fewshot_rnd: random.Random | None = None
        self.write_prompt: Callable[[Doc], str] | None = None
        """Set by the engine: the prompt of a document, with its examples."""
        self.ask: Callable[[Doc, Any], list[Instance]] | None = None
        """Set by the engine: the requests of a document after this prompt, as its configuration
        says."""
        self.configured: OfConfiguration | None = None
        """Set by the engine: what the metrics of the configuration give."""

    @property
    def config(self) -> Config:
        return self._config

    @property
    def task_name(self) -> str:
        return str(self.config.task)

    # Data

    @property
    def dataset(self) -> Any:
        if self._dataset is None:
            self.download(self.config.dataset_kwargs)
        return self._dataset

    @dataset.setter
    def dataset(self, dataset: Any) -> None:
        self._dataset = dataset

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None, **_: Any) -> None:
        import datasets

        spec = TaskSpec(
            task=self.task_name,
            dataset_path=self.DATASET_PATH,
            dataset_name=self.DATASET_NAME,
            dataset_kwargs=dict(dataset_kwargs or {}),
            about=TaskMetadata(benchmark=self.task_name),
        )
        data = load_data(spec)
        self.commit = data.commit
        self._dataset = datasets.DatasetDict(dict(data.splits))

    def has_training_docs(self) -> bool:
        return self.config.training_split is not None

    def has_validation_docs(self) -> bool:
        return self.config.validation_split is not None

    def has_test_docs(self) -> bool:
        return self.config.test_split is not None

    def training_docs(self) -> Any:
        return self._docs(self.config.training_split)

    def validation_docs(self) -> Any:
        return self._docs(self.config.validation_split)

    def test_docs(self) -> Any:
        return self._docs(self.config.test_split)

    def fewshot_docs(self) -> Any:
        if self.config.fewshot_split:
            return self._docs(self.config.fewshot_split)
        return self.training_docs() if self.has_training_docs() else self.eval_docs

    @property
    def eval_docs(self) -> Any:
        if self.has_test_docs():
            return self.test_docs()
        if self.has_validation_docs():
            return self.validation_docs()
        raise TaskError(f"The task {self.task_name} has neither test nor validation documents")

    def _docs(self, split: str | None) -> Any:
        if split is None:
            return []
        docs = self.dataset[split]
        process = self.config.process_docs
        return docs if process is None else process(docs)

    def _process_doc(self, doc: Doc) -> Doc:
        return doc

    def fewshot_examples(self, k: int, rnd: random.Random) -> list[Doc]:
        if self._training_docs is None:
            self._training_docs = list(self.training_docs())
        return rnd.sample(self._training_docs, k)

    # Documents as text, by the configuration

    @cached_property
    def features(self) -> list[str]:
        """The columns of the scored documents."""
        docs = self.eval_docs
        return list(getattr(docs, "features", None) or docs[0])

    def doc_to_text(self, doc: Doc, doc_to_text: Any = None) -> Any:
        return self._read("doc_to_text", doc_to_text, doc)

    def doc_to_target(self, doc: Doc, doc_to_target: Any = None) -> Any:
        return self._read("doc_to_target", doc_to_target, doc)

    def doc_to_choice(self, doc: Doc, doc_to_choice: Any = None) -> Any:
        return self._read("doc_to_choice", doc_to_choice, doc)

    def doc_to_prefix(self, doc: Doc) -> str:
        return DocReader(self.features).field(self.config.gen_prefix, doc)

    def doc_to_decontamination_query(self, doc: Doc) -> Any:
        stated = self.config.doc_to_decontamination_query
        return self.doc_to_text(doc) if stated is None else self._read("doc_to_text", stated, doc)

    def _read(self, key: str, given: Any, doc: Doc) -> Any:
        source = self.config[key] if given is None else given
        if callable(source):
            return source(doc)
        reader = DocReader(self.features, self.config.doc_to_choice is not None)
        ways = {
            "doc_to_text": reader.text,
            "doc_to_target": reader.target,
            "doc_to_choice": reader.choices,
        }
        return ways[key](source, doc)

    # Scoring

    def fewshot_context(self, doc: Doc, *_: Any, **__: Any) -> str:
        return self.write_prompt(doc) if self.write_prompt else ""

    def construct_requests(self, doc: Doc, ctx: Any, **_: Any) -> Any:
        return self.ask(doc, ctx) if self.ask else []

    def process_results(self, doc: Doc, results: Any) -> dict[str, Any]:
        if callable(self.config.process_results):
            return dict(self.config.process_results(doc, results))
        return self.configured.scores(doc, results) if self.configured else {}

    def aggregation(self) -> dict[str, Any]:
        return dict(self.configured.aggregations) if self.configured else {}

    def higher_is_better(self) -> dict[str, bool]:
        return dict(self.configured.higher_is_better) if self.configured else {}

    def get_config(self, key: str) -> Any:
        return self.config[key]

    def should_decontaminate(self) -> bool:
        return bool(self.config.should_decontaminate)

    @classmethod
    def count_bytes(cls, text: str) -> int:
        return len(text.encode())

    @classmethod
    def count_words(cls, text: str) -> int:
        return len(re.split(r"\s+", text))


class ContextSampler:
    """Draws examples for a task; a task's own sampler overrides `sample`."""

    def __init__(
        self,
        df: Sequence[Doc] | None = None,
        *,
        rnd: int | None = None,
        fewshot_indices: list[int] | None = None,
        **_: Any,
    ) -> None:
        self.df = df or []
        self.rnd = random.Random(rnd)  # noqa: S311
        self.fewshot_indices = fewshot_indices

    def set_rnd(self, rnd: int | None) -> ContextSampler:
        self.rnd = random.Random(rnd)  # noqa: S311
        return self

    def replace_df(self, df: Sequence[Doc]) -> ContextSampler:
        self.df = df
        return self

    def fewshot_docs(self) -> Sequence[Doc]:
        if self.fewshot_indices:
            return [self.df[row] for row in self.fewshot_indices]
        return list(self.df)

    def sample(
        self,
        n: int,
        eval_doc: Doc | None = None,
        df: Sequence[Doc] | None = None,
        **_: Any,
    ) -> Sequence[Doc]:
        """`n` documents of the pool, without `eval_doc`, of which one more is drawn for that."""
        self.df = df or self.df
        pool = self.fewshot_docs()
        if not n or not eval_doc:
            return self.rnd.sample(pool, n)
        drawn = self.rm_eval_doc(eval_doc, self.rnd.sample(pool, n + 1), n)
        return drawn if len(drawn) == n else self.rnd.sample(self.rm_eval_doc(eval_doc, pool), n)

    @staticmethod
    def rm_eval_doc(doc: Doc, docs: Iterable[Doc], n: int | None = None) -> list[Doc]:
        return [other for other in docs if other != doc][:n]


class FirstNSampler(ContextSampler):
    """The first documents of the pool."""

    def sample(
        self,
        n: int,
        eval_doc: Doc | None = None,
        df: Sequence[Doc] | None = None,  # noqa: ARG002
        **_: Any,
    ) -> Sequence[Doc]:
        pool = self.df if eval_doc is None else self.rm_eval_doc(eval_doc, self.df)
        return pool[:n]
