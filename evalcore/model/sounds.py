"""Sounds as requests carry them: known by their samples, and decoded anew when somebody listens.

Why the digest is of the samples and not of the file: as of images (`evalcore.model.pictures`), they
are what a model hears, and a function of a task may make a sound that has no file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from math import gcd
from typing import TYPE_CHECKING, Any

from evalcore.digest import digest_of
from evalcore.errors import TaskError

if TYPE_CHECKING:  # commands that hear nothing start without it
    import numpy as np
    import numpy.typing as npt

    Samples = npt.NDArray[np.float32]

PLACE = "<audio>"
"""Stands in a prompt where a sound is, in lm-evaluation-harness, too."""

_KEYS = ("array", "sampling_rate")
"""What `datasets` and tasks call the samples of a sound and their rate."""


class Recording(Mapping[str, Any]):
    """The file of a sound, under the names that `datasets` gives to what is in it.

    It is decoded by libsndfile, several channels to their mean as `datasets` does it, and brought
    to another rate only where the data set states one.
    """

    def __init__(self, file: bytes, path: str | None, rate: int | None) -> None:
        """`rate`: what the data set's column states; None where it is that of each file."""
        self.file = file
        self._path = path
        self._rate = rate

    def __getitem__(self, key: str) -> Any:
        if key == "path":
            return self._path
        if key not in _KEYS:
            raise KeyError(key)
        return decoded(self)[_KEYS.index(key)]

    def __iter__(self) -> Iterator[str]:
        return iter((*_KEYS, "path"))

    def __len__(self) -> int:
        return len(_KEYS) + 1

    def read(self) -> tuple[Samples, int]:
        """One channel and its rate. Raises TaskError for what is no sound that can be decoded."""
        import numpy as np
        import soundfile

        try:
            channels, rate = soundfile.read(BytesIO(self.file), dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as problem:
            raise TaskError(
                f"a sound ({self._path or 'without a name'}, {len(self.file)} bytes) cannot be "
                f"decoded: {problem}: give WAV, FLAC, OGG or MP3"
            ) from problem
        samples = channels.mean(axis=1, dtype=np.float32)
        return at_rate(samples, rate, self._rate or rate), self._rate or rate


class Sound:
    """A sound: its digest, its length, and the samples when they are wanted."""

    __slots__ = ("_given", "digest", "rate", "seconds")

    def __init__(self, given: Any) -> None:
        """`given`: anything of which `is_sound` is true; what is an array must not be changed."""
        self._given = given
        samples, self.rate = decoded(given)
        self.seconds = len(samples) / self.rate
        self.digest = _digest(samples, self.rate)
        """SHA-256 of its rate and its samples."""

    @property
    def samples(self) -> Samples:
        """One channel."""
        return decoded(self._given)[0]

    @property
    def said(self) -> str:
        """Digest, length and rate in one word, for the journal."""
        return f"sha256:{self.digest} {self.seconds:.3f}s {self.rate}Hz"

    def as_json(self) -> dict[str, Any]:
        return {"sound": self.digest, "seconds": self.seconds, "rate": self.rate}


def is_sound(value: object) -> bool:
    """Whether it has samples and a rate under the names that `datasets` gives them."""
    return isinstance(value, Mapping) and all(key in value for key in _KEYS)


def decoded(given: Any) -> tuple[Samples, int]:
    """Samples of one channel and their rate. Raises TaskError for more channels or none."""
    import numpy as np

    if isinstance(given, Recording):
        samples, rate = given.read()
    else:
        samples, rate = np.asarray(given["array"], dtype=np.float32), int(given["sampling_rate"])
    if samples.ndim != 1 or not len(samples) or rate < 1:
        raise TaskError(
            f"a sound has samples of the shape {list(samples.shape)} at {rate} Hz: give those of "
            "one channel, and at least one"
        )
    return samples, rate


def at_rate(samples: Samples, rate: int, wanted: int) -> Samples:
    """The same sound at another rate, by a polyphase filter (scipy's, with its default window)."""
    if rate == wanted:
        return samples
    import numpy as np
    from scipy.signal import resample_poly

    common = gcd(rate, wanted)
    brought = resample_poly(samples.astype(np.float64), wanted // common, rate // common)
    return np.asarray(brought, dtype=np.float32)


def _digest(samples: Samples, rate: int) -> str:
    digest = hashlib.sha256(digest_of({"rate": rate, "samples": len(samples)}).encode())
    digest.update(samples.astype("<f4").tobytes())
    return digest.hexdigest()
