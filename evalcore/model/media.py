"""What a request has besides its text: images and sounds, which are treated alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evalcore.model.pictures import Picture
from evalcore.model.sounds import Sound

Medium = Picture | Sound


def digests_of(media: Sequence[Medium]) -> dict[str, list[str]]:
    """By kind the digests of what there is, for keys: nothing where there is none."""
    images = [medium.digest for medium in media if isinstance(medium, Picture)]
    sounds = [medium.digest for medium in media if isinstance(medium, Sound)]
    return {**({"images": images} if images else {}), **({"sounds": sounds} if sounds else {})}


def said_of(media: Iterable[Medium]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What an answer says of the images that were seen and of the sounds that were heard."""
    images: list[str] = []
    sounds: list[str] = []
    for medium in media:
        (images if isinstance(medium, Picture) else sounds).append(medium.said)
    return tuple(images), tuple(sounds)
