"""A model's processor, from its repository: its tokenizer, and what it does to an image."""

from __future__ import annotations

import json
from typing import Any

import transformers
from transformers import AutoProcessor, ProcessorMixin
from transformers.models.auto import processing_auto
from transformers.utils.import_utils import is_torchvision_available, is_vision_available

from evalcore.digest import digest_of
from evalcore.errors import ModelError
from evalcore.model.hf.description import errors_named
from evalcore.model.hf.image_arguments import ImageArguments
from evalcore.model.hf.repository import PROCESSOR, read_object
from evalcore.model.hf.snapshot import Snapshot

_NAMES: dict[str, str] = dict(getattr(processing_auto, "PROCESSOR_MAPPING_NAMES"))  # noqa: B009  # not exported
"""By model type the name of the processor's class."""
_NOT_OF_IMAGES = ("tokenizer", "video_processor", "chat_template", "processor_class")


def load_processor(arguments: ImageArguments, snapshot: Snapshot) -> Any:
    """Raises ModelError for a repository without a processor, or with one of text alone."""
    if not is_vision_available():
        raise ModelError(
            "--model hf-multimodal: images need Pillow, and it is not installed: "
            "pip install 'plumbline[images]'"
        )
    if not any((snapshot.folder / file).is_file() for file in PROCESSOR):
        raise ModelError(
            f"{snapshot.name} has no processor ({PROCESSOR[0]} or {PROCESSOR[1]}), so nobody can "
            "tell how it reads an image: publish it with the model, or name the repository that "
            "has it as tokenizer"
        )
    with errors_named(snapshot):
        kind = AutoProcessor if is_torchvision_available() else _without_videos(snapshot)
        place, pinned = place_of(snapshot)
        found: Any = kind.from_pretrained(
            place, trust_remote_code=False, **pinned, **arguments.pixels
        )
    if not hasattr(found, "image_processor") or not hasattr(found, "tokenizer"):
        raise ModelError(
            f"{snapshot.name}: its processor ({type(found).__name__}) reads no images beside a "
            "text: --model hf evaluates the text model alone"
        )
    return found


def place_of(snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
    """What a processor is loaded by: of a repository its ID, as transformers has rules for some,
    at the commit that was downloaded, from where it lies."""
    if snapshot.commit is None:
        return snapshot.folder, {}
    pinned = {"revision": snapshot.commit, "local_files_only": True}
    inside = {"subfolder": snapshot.subfolder} if snapshot.subfolder else {}
    return snapshot.name, {**pinned, **inside}


def _without_videos(snapshot: Snapshot) -> Any:
    """The processor's class where torchvision is missing, which only videos need.

    transformers would not load the processors of models that read videos, too, such as Qwen2-VL.
    """
    named = (read_object(snapshot.folder / file).get("processor_class") for file in PROCESSOR)
    name = next((found for found in named if found), None)
    if name is None:
        model_type = read_object(snapshot.folder / "config.json").get("model_type")
        name = _NAMES.get(str(model_type))
    kind = getattr(transformers, str(name), None)
    if kind is None or not issubclass(kind, ProcessorMixin):
        return AutoProcessor  # which says what is wrong
    attributes = kind.get_attributes()
    if "video_processor" not in attributes:
        return AutoProcessor
    images_only = [attribute for attribute in attributes if attribute != "video_processor"]
    return type(kind.__name__, (kind,), {"get_attributes": classmethod(lambda _: images_only)})


def processor_digest(processor: Any, arguments: ImageArguments) -> str:
    """SHA-256 of all that is done to an image before the model sees it: the processor's own
    settings, by which library it computes (Pillow or torchvision, which round otherwise), and how
    the image is made smaller first. Not of the tokenizer, which has a digest of its own.
    """
    images = processor.image_processor
    own = json.loads(json.dumps(processor.to_dict(), default=str))
    shown = ("convert_img_format", "image_width", "image_height", "image_max_side")
    return digest_of(
        {
            "processor": {key: own[key] for key in own if key not in _NOT_OF_IMAGES},
            "images": json.loads(json.dumps(images.to_dict(), default=str)),
            "computed_by": type(images).__name__,
            "shown": {name: getattr(arguments, name) for name in shown},
        }
    )
