"""Which model, and its files on this machine: pinned to one commit, weights in safetensors only.

Runs nothing of the model and imports neither torch nor transformers: a fetch is quick and safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from huggingface_hub import errors as hub

from evalcore.digest import digest_of, digest_of_file
from evalcore.errors import InfraError, ModelError
from evalcore.model.hf import code
from evalcore.model.hf.arguments import named_with_revision, values_of
from evalcore.model.hf.repository import (
    ADAPTER_CONFIGURATION,
    fetch,
    fetch_code,
    fetch_file,
    fetch_weights,
    read_object,
)


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The `--model_args` of the `hf` backend (docs/engine.md lists them)."""

    pretrained: str
    revision: str = "main"
    subfolder: str = ""
    tokenizer: str | None = None
    """Another repository or folder to take the tokenizer from, at the same revision."""
    use_fast_tokenizer: bool = True
    backend: str = "default"
    """causal or seq2seq, which must be what the model is; default: as its config.json says."""
    dtype: str = "auto"
    softmax_dtype: str | None = None
    """Of the log-softmax in compat; None: that of the logits. In strict it is float32."""
    attn_implementation: str | None = None
    parallelize: bool = False
    """Whether the layers are spread over all devices, and those that none holds are read from disk
    each time."""
    max_memory_per_gpu: str | None = None
    """At most so much of each GPU for weights; None: what is free."""
    max_cpu_memory: str | None = None
    tp_plan: str | None = None
    """auto: each layer is divided among processes, as transformers has it for the architecture."""
    trust_remote_code: bool = False
    """Whether code that the model's configuration names is run."""
    code_revision: str | None = None
    """The commit of that code, where it lies in another repository."""
    load_in_8bit: bool = False
    """Whether bitsandbytes quantises the weights as they are loaded, by LLM.int8()."""
    load_in_4bit: bool = False
    bnb_4bit_quant_type: str | None = None
    """fp4, which is what transformers takes where nothing is stated, or nf4."""
    bnb_4bit_use_double_quant: bool | None = None
    bnb_4bit_compute_dtype: str | None = None
    """In which 4-bit layers multiply; float32 where nothing is stated."""
    gguf_file: str | None = None
    """The file of the repository that the model, and its tokenizer where none is named, are in."""
    peft: str | None = None
    """An adapter to load over the model: a folder, or owner/name with @ and its own revision, which
    is main where none is stated."""
    delta: str | None = None
    """Differences that are added to the model's weights, named as an adapter is."""
    max_length: int | None = None
    truncation: bool = False
    """Whether prompts of generations are first cut to the tokenizer's own limit."""
    add_bos_token: bool | None = None
    prefix_token_id: int | None = None
    rolling_stride: int | None = None
    """Tokens that each further window of a long text scores; by default windows do not overlap."""
    think_end_token: str | int | None = None
    enable_thinking: bool | None = None
    chat_template_args: Mapping[str, Any] = field(default_factory=dict)
    thinking_budget: int | None = None
    """Tokens after which the thinking is ended where it has not; the answer's own are not among
    them."""

    @property
    def thinks(self) -> bool | None:
        """Whether the chat template is told to have it think; None where it is told nothing."""
        told = self.chat_template_args.get("enable_thinking")
        return told if self.enable_thinking is None else self.enable_thinking

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Typed from the command line's texts; raises ModelError naming every wrong one."""
        return cls(**values_of(given))

    @classmethod
    def of_initialised(cls, model: Any, given: Mapping[str, Any]) -> Self:
        """The same for a model that is loaded already: how it is read, and where its tokenizer
        lies. Raises ModelError, too, for what says how a model is loaded."""
        name = getattr(model.config, "name_or_path", "") or type(model).__name__
        arguments = cls.of({**given, "pretrained": str(name)})
        loads = [each for each in arguments.as_json() if each not in OF_READING]
        if loads:
            raise ModelError(
                f"--model_args: {', '.join(loads)}: says how a model is loaded, and this one is: "
                "leave it out"
            )
        return arguments

    def as_json(self) -> dict[str, Any]:
        """What differs from the defaults and may change a number, and the name of the model."""
        same = {"trust_remote_code": self.trust_remote_code, "backend": self.backend}
        default = {**asdict(type(self)(pretrained="")), **same}
        return {name: value for name, value in asdict(self).items() if value != default[name]}


OF_READING = (
    *("pretrained", "revision", "tokenizer", "use_fast_tokenizer", "softmax_dtype", "max_length"),
    *("truncation", "add_bos_token", "prefix_token_id", "rolling_stride", "think_end_token"),
    *("enable_thinking", "chat_template_args", "thinking_budget"),
)
"""Arguments that mean something where a model is loaded already."""


@dataclass(frozen=True)
class Snapshot:
    """A repository's files on this machine."""

    name: str
    """Its Hub ID or folder, as the caller wrote it."""
    folder: Path
    commit: str | None
    """Commit of the Hub repository; None for a local folder."""
    revision: str = "main"
    """As the caller wrote it."""
    subfolder: str = ""
    file: str = ""
    """The GGUF file that all of it is in."""

    @property
    def pin(self) -> str:
        """Its name, @, and its commit or what stands for it."""
        return f"{self.name}@{self.commit or self.files_digest}"

    @property
    def file_pin(self) -> str | None:
        """Name, @, and SHA-256 of the GGUF file; None where there is none."""
        return f"{self.file}@{digest_of_file(self.folder / self.file)}" if self.file else None

    @property
    def files_digest(self) -> str | None:
        """What stands for the commit where there is none: the digest of what is loaded."""
        if self.commit:
            return None
        if self.file:
            return digest_of_file(self.folder / self.file)
        kinds = ("config.json", "adapter_config.json", "*.safetensors")
        files = sorted(file for kind in kinds for file in self.folder.glob(kind))
        return digest_of([[file.name, digest_of_file(file)] for file in files])


@dataclass(frozen=True)
class Files:
    """Everything that is loaded."""

    model: Snapshot
    tokenizer: Snapshot
    """The model's own, unless another repository is named."""
    adapter: Snapshot | None
    delta: Snapshot | None = None
    code: tuple[str, ...] = ()
    """What code is run, each repository with its commit."""


def download(arguments: Arguments, *, weights: bool = True) -> Files:
    """The files at the commits that the revisions name now; downloads what is missing.

    Without `weights` no adapter either. Offline, the answer of the last download counts. Raises
    ModelError for a repository that is not there, not open or without safetensors, InfraError where
    the Hub cannot be reached.
    """
    files = describe(arguments, weights=weights)
    if weights:
        download_weights(files)
    return files


def describe(arguments: Arguments, *, weights: bool = True) -> Files:
    """All that is loaded but the model's weights, by which it can be judged whether these are
    wanted: configurations, tokenizer, and the whole adapter, which is small. Raises as `download`.
    """
    if arguments.gguf_file is not None:
        model = _whole_file(arguments, arguments.gguf_file)
        tokenizer = model if arguments.tokenizer is None else download_tokenizer(arguments)
        return Files(model, tokenizer, None)
    trusts = arguments.trust_remote_code
    model = _snapshot(
        arguments.pretrained, arguments.revision, arguments.subfolder, with_code=trusts
    )
    worn = None
    if weights and arguments.peft is not None:
        worn = _snapshot(*named_with_revision(arguments.peft))
        if not (worn.folder / ADAPTER_CONFIGURATION).is_file():
            raise ModelError(
                f"--model_args: peft: {worn.name} is no adapter: it has no {ADAPTER_CONFIGURATION}"
            )
        _fetch_weights(worn)
    delta = None
    if weights and arguments.delta is not None:
        delta = _snapshot(*named_with_revision(arguments.delta))
    tokenizer = model if arguments.tokenizer is None else download_tokenizer(arguments)
    return Files(model, tokenizer, worn, delta, _code(arguments, model, tokenizer))


def download_tokenizer(arguments: Arguments) -> Snapshot:
    """The files of the tokenizer alone; raises as `download`.

    Of another repository at the model's revision, as in lm-evaluation-harness, but for those of the
    adapter and the delta, which have their own.
    """
    name, revision = arguments.tokenizer or arguments.pretrained, arguments.revision
    for beside in filter(None, (arguments.peft, arguments.delta)):
        own, its_revision = named_with_revision(beside)
        if name in (own, beside):
            return _snapshot(own, its_revision)
    return _snapshot(name, revision, arguments.subfolder, with_code=arguments.trust_remote_code)


def download_weights(files: Files) -> None:
    """The weights to configurations that are there; raises as `download`."""
    if not files.model.file:
        _fetch_weights(files.model)
    if files.delta is not None:
        _fetch_weights(files.delta)


def _fetch_weights(snapshot: Snapshot) -> None:
    if snapshot.commit is not None:
        inside = f"{snapshot.subfolder}/" if snapshot.subfolder else ""
        with _errors_named(f"{snapshot.name} at {snapshot.revision}"):
            fetch_weights(snapshot.name, snapshot.commit, inside, snapshot.folder)
    if not list(snapshot.folder.glob("*.safetensors")):
        raise ModelError(
            f"{snapshot.name} has no weights in safetensors format, and no other is loaded "
            "here (pickled weights can run code): publish them with save_pretrained"
        )


def _snapshot(
    name: str, revision: str, subfolder: str = "", *, with_code: bool = False
) -> Snapshot:
    if Path(name).is_dir():
        return Snapshot(name, Path(name) / subfolder, None, revision, subfolder)
    inside = f"{subfolder}/" if subfolder else ""
    with _errors_named(f"{name} at {revision}"):
        folder = fetch(name, revision, inside, code=with_code)
    return Snapshot(name, folder / subfolder, folder.name, revision, subfolder)


def _whole_file(arguments: Arguments, file: str) -> Snapshot:
    """A GGUF file says what it is within, so nothing is known before it is there."""
    name, revision, inside = arguments.pretrained, arguments.revision, arguments.subfolder
    if Path(name).is_dir():
        folder, commit = Path(name), None
    else:
        with _errors_named(f"{name} at {revision}"):
            folder = fetch_file(name, revision, f"{inside}/{file}" if inside else file)
        commit = folder.name
    if not (folder / inside / file).is_file():
        raise ModelError(f"--model_args: gguf_file: {name} at {revision} has no file {file}")
    return Snapshot(name, folder / inside, commit, revision, inside, file)


def _code(arguments: Arguments, model: Snapshot, tokenizer: Snapshot) -> tuple[str, ...]:
    """What code is run, each repository with its commit; downloads that of others. Raises
    ModelError where it is not said at which commit."""
    if not arguments.trust_remote_code:
        return ()
    pins: list[str] = []
    elsewhere: dict[str, str] = {}
    for snapshot in dict.fromkeys((model, tokenizer)):
        for file in code.NAMING:
            named = code.references(read_object(snapshot.folder / file))
            if code.has_own(named):
                pins.append(code.pin_of(snapshot.name, snapshot.folder, snapshot.commit))
            elsewhere |= dict.fromkeys(code.others(named), f"{snapshot.name}: {file}")
    commit = arguments.code_revision
    if commit is not None and not elsewhere:
        raise ModelError(
            f"--model_args: code_revision: {model.name} names code of no other repository: leave "
            "it out"
        )
    for name, where in sorted(elsewhere.items()):
        if commit is None:
            raise ModelError(
                f"{where} names code of {name}: state which of it is trusted, with "
                "code_revision=COMMIT"
            )
        with _errors_named(f"{name} at {commit}"):
            fetch_code(name, commit)
        pins.append(f"{name}@{commit}")
    return tuple(dict.fromkeys(pins))


def refuse_code(snapshot: Snapshot, why: str) -> None:
    """Raises ModelError where a model names code, which would not be run: the numbers would be
    others than those of who trusts it."""
    for file in code.NAMING:
        if code.references(read_object(snapshot.folder / file)):
            raise ModelError(
                f"{snapshot.name}: trust_remote_code=True: {file} names code of its own "
                f"(auto_map), and {why}"
            )


@contextmanager
def _errors_named(what: str) -> Iterator[None]:
    """Turn what the Hub's client raises into the class of who must act, with what to do."""
    try:
        yield
    except (hub.HfHubHTTPError, hub.HFValidationError, OSError) as problem:
        # The client looks into its cache first, and tells of what the Hub said as of a cause.
        said: BaseException | None = problem
        if isinstance(problem, hub.LocalEntryNotFoundError):
            said = problem.__cause__
            if not isinstance(said, hub.DisabledRepoError):
                why = "not downloaded, and the Hub cannot be reached"
                raise InfraError(f"{what}: {why}") from problem
        for kind, told in _REFUSED.items():
            if isinstance(said, kind):
                raise ModelError(f"{what}{told}") from problem
        raise InfraError(f"{what} could not be downloaded: {problem}") from problem


_REFUSED = {
    hub.GatedRepoError: " is gated: its owner must open it, or grant access",
    hub.RevisionNotFoundError: ": the Hub knows no such revision of the model",
    hub.RepositoryNotFoundError: " is not on the Hub, or is private: check the ID",
    hub.DisabledRepoError: (
        " was disabled on the Hub, which serves its files to nobody: ask its owner"
    ),
    hub.HFValidationError: " is no model ID: expected owner/name or a folder",
}
