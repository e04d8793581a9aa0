"""What a model's repository on the Hub says: its metadata and a few small files, read and cleaned.

Nothing of the model's code is read, and of its weights only the heads of the files. Whoever owns a
repository writes its files and its card, so nothing of them is taken as it comes: a null character,
half a character, a number of four thousand digits or a list within a thousand lists would each
break a page, a query or a file of ours. `clean_text`, `clean_count` and `json_object` are the door
for all of them.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from urllib.parse import quote

from django.conf import settings
from huggingface_hub import ModelInfo, hf_hub_url
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
from huggingface_hub.utils import (  # type: ignore[attr-defined]
    build_hf_headers,
    get_session,
    hf_raise_for_status,
    validate_repo_id,
)

from evalcore.model.hf.quantisation import quantisation_of
from leaderboard.hub import client
from leaderboard.hub.client import Deadline
from leaderboard.hub.model_id import MAX_LENGTH, ModelReference
from leaderboard.hub.problem import REPLACEMENT, UNPRINTABLE, Problem, Refused

MAX_CONFIG_BYTES = 2**20
MAX_TOKENIZER_BYTES = 16 * 2**20
MAX_INDEX_BYTES = 32 * 2**20
MAX_TEMPLATE_LENGTH = 2**20
MAX_FILES, MAX_TAGS = 20_000, 1000
MAX_SHARDS, MAX_NAME_LENGTH = 10_000, 255
MAX_FILE_BYTES = 2**50
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
TEMPLATE, TOKENIZER = "chat_template.jinja", "tokenizer_config.json"
NAMED_TEMPLATES = "additional_chat_templates/"
PARALLEL_HEADS = 8
DATES_KEPT_SINCE = datetime(2022, 3, 2, 23, 29, 5, tzinfo=UTC)
"""The Hub gives every older repository one date just before this, which is not its own."""
COMMIT, SHA256 = re.compile("[0-9a-f]{40}"), re.compile("[0-9a-f]{64}")
STORED_DTYPES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}


# Cleaning

MAX_TEXT_LENGTH = 500
MAX_DEPTH = 32
"""Tables within tables; what lies deeper is left out."""
MAX_ENTRIES = 2**20
"""Of one list or table: the index of the largest models has some 200,000."""
MAX_NUMBER = 2**63 - 1
"""A larger number counts as this one: no size of a model comes near it."""
MAX_DIGITS = 20


def clean_text(value: object, length: int = MAX_TEXT_LENGTH) -> str:
    """Cut, and with what no database and no page can hold replaced; empty for anything else."""
    return UNPRINTABLE.sub(REPLACEMENT, value[:length]) if isinstance(value, str) else ""


def clean_count(value: object, limit: int = MAX_NUMBER) -> int | None:
    """A number of things; None where it is none, negative or more than `limit`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if whole and 0 <= value <= limit else None  # type: ignore[call-overload, operator]


def clean_value(value: object, length: int = MAX_TEXT_LENGTH, depth: int = MAX_DEPTH) -> Any:
    """What JSON can hold, with all its texts, keys and numbers as above; None for anything else."""
    if isinstance(value, str):
        return clean_text(value, length)
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return max(-MAX_NUMBER, min(value, MAX_NUMBER))
    if depth < 1:
        return None
    if isinstance(value, list):
        return [clean_value(entry, length, depth - 1) for entry in islice(value, MAX_ENTRIES)]
    if isinstance(value, dict):
        return {
            clean_text(key): clean_value(entry, length, depth - 1)
            for key, entry in islice(value.items(), MAX_ENTRIES)
            if isinstance(key, str)
        }
    return None


def json_object(
    content: bytes, limit: int, length: int = MAX_TEXT_LENGTH
) -> tuple[dict[str, Any] | None, str]:
    """The table that a file holds, and why it cannot be read; one of the two is empty.

    `content` may be one byte longer than `limit`, which says that the file is too large.
    """
    if len(content) > limit:
        return None, f"it is larger than {limit:,} bytes"
    try:
        # As transformers reads it: json.loads takes bytes with a mark, and in UTF-16, too.
        value = json.loads(content.decode(), parse_int=_whole)
    except UnicodeDecodeError:
        return None, "it is not text in UTF-8"
    except RecursionError:
        return None, "it has lists within lists beyond all measure"
    except ValueError as error:
        return None, clean_text(str(error)) or "it is not JSON"
    if not isinstance(value, dict):
        return None, f"a JSON object was expected, not {type(value).__name__}"
    return clean_value(value, length), ""


def _whole(digits: str) -> int:
    """Without reading what has more digits than any number that counts."""
    if len(digits) <= MAX_DIGITS:
        return int(digits)
    return -MAX_NUMBER if digits.startswith("-") else MAX_NUMBER


# Weights: how many parameters, and how many bytes they take

# The head of a safetensors file (https://github.com/huggingface/safetensors, "Format") is eight
# bytes with the length of a table, then that table of tensors: name, precision, shape, place.

FIRST_BYTES = 100_000
"""Asked for at first: the whole head of most files."""
MAX_HEAD_BYTES = 25_000_000
MAX_HEADS = 32
"""Files of weights whose heads are all read; of more the Hub's count is taken where it fits."""
MAX_ENTRY_BYTES = 500
"""Of a tensor in a head: its name, precision, shape and place."""
MAX_PARAMETERS = 10**15
"""No count beyond it is believed; the largest models have some 10**12."""
MAX_DIMENSIONS = 16
FLOAT_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2}
"""Bytes of each number; whole numbers may be packed, so nothing is said of their size."""

DTYPE_BYTES = {
    **FLOAT_BYTES,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
}
"""The same with those that packed weights are stored in."""

INTEGER_BITS = {"I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8}
"""Bits of whole numbers, which hold packed weights."""

EXPERT_TENSOR = re.compile(r"(^|\.)experts\.(?!.*(router|gate\.weight|bias_correction))")
"""In the name of a tensor; shared experts, which every token uses, are called otherwise."""

TOKEN_TABLE = re.compile(
    r"(transformer|model|gpt_neox|backbone)\.(decoder\.)?"
    r"(embed_tokens|wte|embed_in|word_embeddings|embeddings)\.weight"
)
"""The name of the table that a text is read by, in models of text alone."""

ReadFirstBytes = Callable[[int], bytes]
"""The first so many bytes of a file, or fewer where it ends before."""


@dataclass(frozen=True)
class Weights:
    """`count` parameters, by safetensors' names of their precisions where known.

    None at all where the file is empty.
    """

    count: int
    by_dtype: Mapping[str, int]
    data_bytes: int = 0
    """What they take in their files."""
    head_bytes: int = 0
    """What their tables take before them; 0 where no head was read. A whole file has both."""
    of_experts: int = 0
    """How many of them are of experts, of which each token uses some, by the names in the heads."""
    table_rows: int = 0
    """Of the table that a text is read by, by its name in the heads; 0 where none is told."""

    def fits(self, held: int, tensors: int) -> bool:
        """Whether files of so many bytes together, with so many tensors, hold what was counted."""
        if (
            sum(self.by_dtype.values()) != self.count
            or not self.by_dtype.keys() <= DTYPE_BYTES.keys()
        ):
            return False
        stored = sum(DTYPE_BYTES[name] * n for name, n in self.by_dtype.items())
        return stored <= held <= stored + tensors * MAX_ENTRY_BYTES

    def unpacked(self, quantisation: str) -> int:
        """Parameters of weights that are packed so ("gptq 4-bit"): each whole number that is wider
        holds several. Scales and zero points count too, which is a few in a hundred."""
        bits = re.search(r"(\d+)-bit", quantisation)
        if bits is None:
            return self.count
        each = {name: max(1, width // int(bits[1])) for name, width in INTEGER_BITS.items()}
        return sum(n * each.get(name, 1) for name, n in self.by_dtype.items()) or self.count


def weights_counted_by_hub(total: object, by_dtype: object) -> Weights | None:
    """From the Hub's own count; None where there is none, or none that can be true."""
    parameters = clean_count(total, MAX_PARAMETERS)
    parts = clean_value(by_dtype)
    counts = {
        name: n
        for name, value in (parts.items() if isinstance(parts, dict) else ())
        if (n := clean_count(value, MAX_PARAMETERS)) is not None
    }
    return Weights(parameters, counts) if parameters else None


def weights_in_head(read: ReadFirstBytes) -> Weights | None:
    """From the head of a file; None where it cannot be read."""
    first = read(FIRST_BYTES)
    if not first:
        return Weights(0, {}, head_bytes=8)
    length = int.from_bytes(first[:8], "little")
    if len(first) < 8 or not 0 < length <= MAX_HEAD_BYTES:
        return None
    head = first if length + 8 <= len(first) else read(length + 8)
    if len(head) < length + 8:
        return None
    table, _ = json_object(head[8 : length + 8], MAX_HEAD_BYTES)
    if table is None:
        return None
    counts: Counter[str] = Counter()
    data_bytes = of_experts = table_rows = 0
    for name, tensor in table.items():
        if name == "__metadata__":
            continue
        size, end = _size(tensor), _end(tensor)
        if size is None or end is None:
            return None
        counts[tensor["dtype"]] += size
        data_bytes = max(data_bytes, end)
        of_experts += size if EXPERT_TENSOR.search(name) else 0
        if TOKEN_TABLE.fullmatch(name) and len(tensor["shape"]) == 2:
            table_rows = tensor["shape"][0]
    total = sum(counts.values())
    if not 0 < total <= MAX_PARAMETERS:
        return None
    return Weights(total, dict(counts), data_bytes, length + 8, of_experts, table_rows)


def sum_of_weights(parts: Iterable[Weights | None]) -> Weights | None:
    """Of several files; None where that of one is not known."""
    counts: Counter[str] = Counter()
    count = data_bytes = head_bytes = of_experts = table_rows = 0
    for part in parts:
        if part is None:
            return None
        counts.update(part.by_dtype)
        count += part.count
        data_bytes += part.data_bytes
        head_bytes += part.head_bytes
        of_experts += part.of_experts
        table_rows = max(table_rows, part.table_rows)
    return Weights(count, dict(counts), data_bytes, head_bytes, of_experts, table_rows)


def _size(tensor: object) -> int | None:
    """How many numbers a tensor has; None where its entry says no such thing."""
    shape = tensor.get("shape") if isinstance(tensor, dict) else None
    if not isinstance(tensor, dict) or not isinstance(tensor.get("dtype"), str):
        return None
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
        return None
    sizes = [clean_count(size, MAX_PARAMETERS) for size in shape]
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def _end(tensor: object) -> int | None:
    """Where a tensor ends behind the head; None where its entry does not say."""
    place = tensor.get("data_offsets") if isinstance(tensor, dict) else None
    if not isinstance(place, list) or len(place) != 2:
        return None
    return clean_count(place[1], MAX_FILE_BYTES)


def weights_in_index(index: dict[str, Any], dtype: str) -> Weights | None:
    """From the sum of bytes in an index of shards, where all are in this precision."""
    stored = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}.get(dtype, "")
    total = _total_size(index)
    if not stored or total is None or total < FLOAT_BYTES[stored]:
        return None
    count = total // FLOAT_BYTES[stored]
    return Weights(count, {stored: count})


def _total_size(index: dict[str, Any]) -> int | None:
    """The bytes of all tensors, as an index says; None where it says nothing that can be true."""
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    # Older writers wrote it as a decimal number. The comparison is false for NaN and Infinity too.
    if isinstance(total, float) and 0 <= total <= 4 * MAX_PARAMETERS:
        total = int(total)
    return clean_count(total, 4 * MAX_PARAMETERS)


# The repository


@dataclass(frozen=True, kw_only=True)
class HubListing:
    """What the Hub itself says of a model at one commit, every text and number within bounds."""

    repo_id: str
    commit: str
    sizes: Mapping[str, int | None]
    """Its files, each with its bytes where the Hub tells."""
    digests: Mapping[str, str]
    """SHA-256 of the files that it keeps outside git."""
    card: Mapping[str, Any]
    """What the head of the model's card states."""
    tags: frozenset[str]
    repeated: Mapping[str, Any]
    """The parts of config.json and of the tokenizer's configuration that the Hub repeats."""
    counted: Weights | None
    """How many parameters the Hub counts; None where it says nothing."""
    released: datetime | None
    """When the repository was made; None where the Hub does not know it."""

    @property
    def holds_adapter(self) -> bool:
        """Whether it holds what is put on a model, and no model."""
        return ADAPTER_CONFIG in self.sizes and not {WEIGHTS, INDEX} & self.sizes.keys()


@dataclass(frozen=True, kw_only=True)
class Repository(HubListing):
    """A model repository at one commit: what the Hub says of it, and what its files say."""

    files: frozenset[str]
    is_adapter: bool
    licence: str
    """As the card names it, several by commas; empty where it names none."""
    config: dict[str, Any] | None
    """config.json; None where there is none."""
    config_error: str
    """Why config.json, or that of an adapter, cannot be read; empty where it can."""
    adapter_config: dict[str, Any] | None
    """adapter_config.json of a repository that has no whole model; else None."""
    shards: frozenset[str]
    """The files that the index of the weights names; empty where there is no index."""
    weight_files: frozenset[str]
    weights: Weights | None
    """How many parameters the files hold; None where nothing tells."""
    heads: Mapping[str, Weights]
    """What the head of each file of weights says of it; empty where there are too many."""
    weight_digests: tuple[str, ...]
    """SHA-256 of each file of the weights; empty where the Hub does not tell all."""
    quantisation: str
    """Method and bits of packed weights, as config.json states them; empty for plain ones."""
    parameters: int
    """Those of packed weights unpacked; 0 where nothing tells."""
    stored_dtype: str
    """What config.json says; else what most weights are stored in; else float32."""
    chat_template: str | None
    """The text of it, empty for none; None where nobody looked."""
    template_names: tuple[str, ...]
    """Of several templates without a default one; empty where there is one, or none at all."""


def read_repository(
    reference: ModelReference, seconds: float, *, thorough: bool = False
) -> Repository:
    """The repository that was asked for, read within so many seconds.

    Looks for the chat template in files only where `thorough`. Raises Refused (missing, private,
    gated, disabled, no model, no such revision) and HubSilent.
    """
    deadline = Deadline(seconds)
    return client.ask_unless_unknown(
        reference, deadline, lambda: _read(reference, deadline, thorough)
    )


def _read(reference: ModelReference, deadline: Deadline, thorough: bool) -> Repository:
    listing = _listing(reference, deadline)
    is_adapter = listing.holds_adapter
    config, config_error = _config(listing, CONFIG, deadline)
    adapter_config = None
    if is_adapter:
        adapter_config, config_error = _config(listing, ADAPTER_CONFIG, deadline)
    index = _index(listing, deadline)
    shards = _shards(index)
    weight_files = frozenset({ADAPTER_WEIGHTS}) if is_adapter else shards or frozenset({WEIGHTS})
    weights, heads = _weights(listing, weight_files, index, config or {}, deadline)
    quantisation = quantisation_of(config or {}) or ""
    template, template_names = _chat_template(listing, deadline, thorough)
    return Repository(
        **vars(listing),
        files=frozenset(listing.sizes),
        is_adapter=is_adapter,
        licence=_licence(listing.card),
        config=config,
        config_error=config_error,
        adapter_config=adapter_config,
        shards=shards,
        weight_files=weight_files,
        weights=weights,
        heads=heads,
        weight_digests=_weight_digests(listing, weight_files),
        quantisation=quantisation,
        parameters=weights.unpacked(quantisation) if weights else 0,
        stored_dtype=_stored_dtype(config or {}, weights),
        chat_template=template,
        template_names=template_names,
    )


def _listing(reference: ModelReference, deadline: Deadline) -> HubListing:
    try:
        info, card = _info_and_card(reference, deadline)
    except GatedRepoError:
        raise Refused(Problem("gated", "model", reference.repo_id)) from None
    except RepositoryNotFoundError:
        raise Refused(client.why_not_found(reference.repo_id, deadline)) from None
    listing = listing_of(info, card)
    for code, applies in (
        ("gated", info.gated), ("unknown_model", info.private), ("disabled", info.disabled)
    ):  # fmt: skip
        if applies:
            raise Refused(Problem(code, "model", listing.repo_id))
    return listing


def _info_and_card(reference: ModelReference, deadline: Deadline) -> tuple[ModelInfo, object]:
    """What `HfApi.model_info` asks, the card as it is: the client has a class that not all fit."""
    at = f"/revision/{quote(reference.revision, safe='')}" if reference.revision else ""
    response = get_session().get(
        f"{settings.HF_ENDPOINT}/api/models/{reference.repo_id}{at}",
        params={"blobs": True},
        headers=build_hf_headers(token=False),
        timeout=deadline.left(),
    )
    hf_raise_for_status(response)
    answer = response.json()
    card = answer.pop("cardData", None)
    return ModelInfo(**answer), card  # type: ignore[no-untyped-call]


def listing_of(info: ModelInfo, card: object) -> HubListing:
    """Raises ValueError where the answer names no model or no commit."""
    repo_id = repo_id_of(info.id)
    commit = clean_text(info.sha)
    if not COMMIT.fullmatch(commit):
        raise ValueError(f"{commit!r} is no commit")
    siblings = list(islice(info.siblings or (), MAX_FILES))
    files = {name: file for file in siblings if (name := clean_text(file.rfilename))}
    digests = {name: clean_text(getattr(f.lfs, "sha256", None)) for name, f in files.items()}
    count = info.safetensors
    config = clean_value(info.config, MAX_TEMPLATE_LENGTH)
    return HubListing(
        repo_id=repo_id,
        commit=commit,
        sizes={name: clean_count(f.size, MAX_FILE_BYTES) for name, f in files.items()},
        digests={n: digest for n, digest in digests.items() if SHA256.fullmatch(digest)},
        card=clean_value(card) if isinstance(card, dict) else {},
        tags=frozenset(filter(None, map(clean_text, islice(info.tags or (), MAX_TAGS)))),
        repeated=config if isinstance(config, dict) else {},
        counted=weights_counted_by_hub(count.total, count.parameters) if count else None,
        released=release_of(info),
    )


def release_of(info: ModelInfo) -> datetime | None:
    """When the repository was made; None where the Hub does not know it, or names a future day."""
    made = info.created_at
    if not isinstance(made, datetime) or made.tzinfo is None:
        return None
    tomorrow = datetime.now(UTC) + timedelta(days=1)  # clocks differ
    return made if DATES_KEPT_SINCE <= made <= tomorrow else None


def repo_id_of(value: object) -> str:
    """The name under which the Hub knows a model. Raises ValueError where that is no name."""
    repo_id = clean_text(value, MAX_LENGTH + 1)
    try:
        validate_repo_id(repo_id)
    except HFValidationError:
        raise ValueError("it names no model") from None
    if len(repo_id) > MAX_LENGTH:
        raise ValueError("the name of the model is too long")
    return repo_id


def _licence(card: Mapping[str, Any]) -> str:
    """In small letters and in order, so that the same licences are written alike; of one that the
    Hub has no word for ("other") the name that the card gives it."""
    licences, own_name = card.get("license"), card.get("license_name")
    names = licences if isinstance(licences, list) else [licences]
    words = {name.strip().lower() for name in names if isinstance(name, str)}
    if isinstance(own_name, str) and own_name.strip():
        words = (words - {"other"}) | {own_name.strip().lower()}
    return ", ".join(sorted(word.replace(",", " ") for word in words if word))


def _config(
    listing: HubListing, name: str, deadline: Deadline
) -> tuple[dict[str, Any] | None, str]:
    """The object in a small file, and why there is none; both empty where there is no file."""
    if name not in listing.sizes:
        return None, ""
    text = _read_file(listing, name, MAX_CONFIG_BYTES, deadline)
    return json_object(text, MAX_CONFIG_BYTES)


def _read_file(listing: HubListing, name: str, limit: int, deadline: Deadline) -> bytes:
    """A small file, read without a cache; one byte more than `limit` where it is too large."""
    return _first_bytes(listing, name, limit + 1, deadline, {})


def _head(listing: HubListing, name: str, n_bytes: int, deadline: Deadline) -> bytes:
    """The beginning of a large file, of which nothing else is sent."""
    headers = {"Range": f"bytes=0-{n_bytes - 1}", "Accept-Encoding": "identity"}
    return _first_bytes(listing, name, n_bytes, deadline, headers)


def _first_bytes(
    listing: HubListing, name: str, n_bytes: int, deadline: Deadline, headers: Mapping[str, str]
) -> bytes:
    """At most so many; nothing of an empty file."""
    url = hf_hub_url(listing.repo_id, name, revision=listing.commit, endpoint=settings.HF_ENDPOINT)
    all_headers = {**build_hf_headers(token=False), **headers}
    content = bytearray()
    with get_session().stream("GET", url, headers=all_headers, timeout=deadline.left()) as response:
        # An empty file has no first byte: the range that was asked for cannot be served.
        if response.status_code == 416:
            return b""
        hf_raise_for_status(response)
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) >= n_bytes:
                break
            deadline.left()
    return bytes(content[:n_bytes])


def _index(listing: HubListing, deadline: Deadline) -> dict[str, Any]:
    """The index of the shards; empty where there is none, or none that can be read."""
    if WEIGHTS in listing.sizes or INDEX not in listing.sizes:
        return {}
    content = _read_file(listing, INDEX, MAX_INDEX_BYTES, deadline)
    return json_object(content, MAX_INDEX_BYTES)[0] or {}


def _shards(index: dict[str, Any]) -> frozenset[str]:
    weight_map = index.get("weight_map")
    names = weight_map.values() if isinstance(weight_map, dict) else ()
    # What is no text is no file's name: it stands as one that the repository does not have.
    return frozenset(sorted({str(name)[:MAX_NAME_LENGTH] for name in names})[:MAX_SHARDS])


def _weight_digests(listing: HubListing, names: Collection[str]) -> tuple[str, ...]:
    digests = [listing.digests[name] for name in names if name in listing.digests]
    return tuple(sorted(digests)) if len(digests) == len(names) else ()


def _chat_template(
    listing: HubListing, deadline: Deadline, thorough: bool
) -> tuple[str | None, tuple[str, ...]]:
    """The one that transformers takes without being told a name, None where nobody looked; and the
    names of several of which none is the default.

    Where there are files of templates, what the tokenizer's configuration says is passed over.
    """
    repeated, files = listing.repeated, _template_files(listing)
    if files and "default" not in files:
        return "", tuple(sorted(files))
    if files:
        template = repeated.get("chat_template_jinja") if files["default"] == TEMPLATE else None
        if isinstance(template, str) and template:
            return template, ()
        if not thorough:
            return None, ()
        content = _read_file(listing, files["default"], MAX_TOKENIZER_BYTES, deadline)
        return clean_text(content.decode(errors="replace"), MAX_TEMPLATE_LENGTH), ()
    tokenizer = repeated.get("tokenizer_config")
    if not _template_in(tokenizer)[0]:
        if not thorough:
            return None, ()
        if TOKENIZER not in listing.sizes:
            return "", ()
        content = _read_file(listing, TOKENIZER, MAX_TOKENIZER_BYTES, deadline)
        tokenizer = json_object(content, MAX_TOKENIZER_BYTES, MAX_TEMPLATE_LENGTH)[0]
    return _template_in(tokenizer)


def _template_files(listing: HubListing) -> dict[str, str]:
    """By name the files of templates; a default one among the named comes before the other."""
    files = {"default": TEMPLATE} if TEMPLATE in listing.sizes else {}
    for path in listing.sizes:
        name = path.removeprefix(NAMED_TEMPLATES).removesuffix(".jinja")
        if path == f"{NAMED_TEMPLATES}{name}.jinja" and "/" not in name:
            files[name] = path
    return files


def _template_in(tokenizer: object) -> tuple[str, tuple[str, ...]]:
    """Of several named templates the one called default, else all of them, and their names."""
    template = tokenizer.get("chat_template") if isinstance(tokenizer, dict) else None
    if not isinstance(template, list):
        return template if isinstance(template, str) else "", ()
    templates = {
        choice["name"]: choice.get("template")
        for choice in template
        if isinstance(choice, dict) and isinstance(choice.get("name"), str)
    }
    default = templates.get("default")
    if isinstance(default, str) and default:
        return default, ()
    return json.dumps(template, sort_keys=True), tuple(sorted(templates))


def _weights(
    listing: HubListing,
    names: frozenset[str],
    index: dict[str, Any],
    config: dict[str, Any],
    deadline: Deadline,
) -> tuple[Weights | None, dict[str, Weights]]:
    """How many parameters, by the heads of the files, and these heads.

    Of very many files by the Hub's count or the index's total size, where the files can hold that.
    """
    if not names or not names <= listing.sizes.keys():
        return None, {}
    if len(names) > MAX_HEADS:
        sizes = [listing.sizes[name] for name in names]
        held = sum(size for size in sizes if size is not None)
        tensors = len(index.get("weight_map", ()))
        for counted in (listing.counted, weights_in_index(index, _stated_dtype(config))):
            if counted is not None and counted.fits(held, tensors):
                return counted, {}
    with ThreadPoolExecutor(PARALLEL_HEADS) as pool:
        parsed = pool.map(
            lambda name: weights_in_head(lambda n: _head(listing, name, n, deadline)), names
        )
        heads = dict(zip(names, parsed, strict=True))
    readable = {name: head for name, head in heads.items() if head is not None}
    return sum_of_weights(heads.values()), readable


def _stated_dtype(config: Mapping[str, Any]) -> str:
    """The precision that a config.json names, in its newer or its older key; else empty."""
    dtype = config.get("dtype") or config.get("torch_dtype")
    return dtype.removeprefix("torch.") if isinstance(dtype, str) else ""


def _stored_dtype(config: Mapping[str, Any], weights: Weights | None) -> str:
    dtype = _stated_dtype(config)
    if dtype in STORED_DTYPES.values():
        return dtype
    by_dtype = weights.by_dtype if weights else {}
    largest = max(by_dtype, key=lambda name: by_dtype[name], default="")
    return STORED_DTYPES.get(largest, "float32")
