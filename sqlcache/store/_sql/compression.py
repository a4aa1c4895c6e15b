"""Bodies of objects in their rows: JSON, or JSON compressed by zstd with a trained dictionary.

Objects of one kind repeat each other: a dictionary trained on some hundred of them makes a pod of
4 KB into a tenth of it, where zstd alone makes it into a third.

Promises
- A body tells which dictionary it needs, by an id that is made of all bytes of the dictionary:
  content of one id is the same everywhere, so that a dictionary once read stays good.
- What a dictionary does not make smaller stays JSON.
- Many at once take few calls of the library: each call gives the interpreter lock away, so that
  beside a thread that computes, a list of 20,000 objects would take 11 s instead of 1.

Elsewhere: dictionaries in the database (dictionaries), rows (object_rows).
Source: facebook/zstd, zdict.h; RFC 8878, 5.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import orjson

from sqlcache.objects import Object

# Of real pods, level 3 leaves 0.85 of the bytes of level 1 in 1.1 of its time; the levels that
# leave 0.85 of those of level 3 take six times as long, on the writer's path.
LEVEL = 3
DICTIONARY_BYTES = 64 * 1024  # one of 112 KB leaves 2 % less, one of 32 KB 4 % more
_MANY = 32  # from here on, one call for all takes no longer than a call for each
_ID = slice(4, 8)  # of the dictionary's header, after its magic number; little-endian
_PRIVATE_IDS = range(2**15, 2**31)  # the others are registered, or reserved: RFC 8878, 5


Bytes = bytes | memoryview


class Codec(Protocol):
    """Compresses and decompresses with one dictionary, for one thread at a time."""

    def compress(self, data: bytes) -> bytes:
        """Return a frame."""

    def decompress(self, frame: Bytes) -> bytes:
        """Return what the frame was made of."""

    def compress_all(self, data: Sequence[bytes]) -> list[bytes]:
        """Return a frame for each."""

    def decompress_all(self, frames: Sequence[Bytes], sizes: Sequence[int]) -> list[bytes]:
        """Return what each frame was made of, which has this size in bytes."""


class _OneByOne:
    """Makes a call for each of many."""

    def compress_all(self: Codec, data: Sequence[bytes]) -> list[bytes]:
        return [self.compress(each) for each in data]

    def decompress_all(self: Codec, frames: Sequence[Bytes], sizes: Sequence[int]) -> list[bytes]:
        return [self.decompress(frame) for frame in frames]


class Library(NamedTuple):
    """A zstd library.

    Attributes:
        train: makes a dictionary of at most so many bytes from samples, or raises `error`.
        codecs: gives, for a dictionary, what makes its codecs.
        error: what the library raises.
    """

    train: Callable[[int, list[bytes]], bytes]
    codecs: Callable[[bytes], Callable[[], Codec]]
    error: type[Exception]


def zstandard_library(level: int = LEVEL) -> Library:
    """Return the package `zstandard`: it keeps its contexts, and decodes a pod in 2 us, not 12.

    Args:
        level: of compression.
    """
    zstandard: Any = import_module("zstandard")

    class Contexts(_OneByOne):
        def __init__(self, dictionary: Any) -> None:
            self._compressor = zstandard.ZstdCompressor(level=level, dict_data=dictionary)
            self._decompressor = zstandard.ZstdDecompressor(dict_data=dictionary)
            self.compress = self._compressor.compress
            self.decompress = self._decompressor.decompress

    class ManyAtOnce(Contexts):
        def compress_all(self, data: Sequence[bytes]) -> list[bytes]:
            if len(data) < _MANY:
                return super().compress_all(data)
            return [each.tobytes() for each in self._compressor.multi_compress_to_buffer(data)]

        def decompress_all(self, frames: Sequence[Bytes], sizes: Sequence[int]) -> list[bytes]:
            if len(frames) < _MANY:
                return super().decompress_all(frames, sizes)
            lengths = struct.pack(f"={len(sizes)}Q", *sizes)
            found = self._decompressor.multi_decompress_to_buffer(
                frames, decompressed_sizes=lengths
            )
            return [each.tobytes() for each in found]

    has_many = {"multi_compress_to_buffer", "multi_decompress_to_buffer"}
    contexts = ManyAtOnce if has_many <= zstandard.backend_features else Contexts

    def train(size: int, samples: list[bytes]) -> bytes:
        content: bytes = zstandard.train_dictionary(size, samples, level=level).as_bytes()
        return content

    def codecs(content: bytes) -> Callable[[], Codec]:
        dictionary = zstandard.ZstdCompressionDict(content, zstandard.DICT_TYPE_FULLDICT)
        dictionary.precompute_compress(level=level)
        return lambda: contexts(dictionary)

    return Library(train, codecs, zstandard.ZstdError)


def standard_library(module: str = "compression.zstd") -> Library:
    """Return Python's own module, there since Python 3.14 (PEP 784).

    Args:
        module: its name; `backports.zstd` is the same for older Pythons.
    """
    zstd: Any = import_module(module)

    class Calls(_OneByOne):
        def __init__(self, dictionary: Any) -> None:
            self._dictionary = dictionary
            self._compressor = zstd.ZstdCompressor(level=LEVEL, zstd_dict=dictionary)

        def compress(self, data: bytes) -> bytes:
            frame: bytes = self._compressor.compress(data, self._compressor.FLUSH_FRAME)
            return frame

        def decompress(self, frame: Bytes) -> bytes:
            data: bytes = zstd.decompress(frame, self._dictionary)
            return data

    def train(size: int, samples: list[bytes]) -> bytes:
        content: bytes = zstd.train_dict(samples, size).dict_content
        return content

    def codecs(content: bytes) -> Callable[[], Codec]:
        dictionary = zstd.ZstdDict(content)
        return lambda: Calls(dictionary)

    return Library(train, codecs, zstd.ZstdError)


@cache
def library() -> Library | None:
    """Return the library to use, None without one."""
    for known in (zstandard_library, standard_library):
        try:
            return known()
        except ImportError:
            continue
    return None


class Dictionary:
    """A dictionary. Any thread may use it.

    Attributes:
        id: the one in its header.
        content: all of it.
        ratio: compressed size of what it was trained on, as a share (0..1) of the plain size.
    """

    def __init__(self, library: Library, content: bytes, ratio: float = 1.0) -> None:
        """Take a trained dictionary."""
        self.id = int.from_bytes(content[_ID], "little")
        self.content, self.ratio = content, ratio
        self._error = library.error
        self._make = library.codecs(content)
        self._idle: deque[Codec] = deque()  # one for each thread that was at it at once

    def compress(self, plain: bytes) -> Body:
        """Return a body."""
        codec = self._codec()
        frame = codec.compress(plain)
        self._idle.append(codec)
        return self._body(frame, plain)

    def compress_all(self, plains: Sequence[bytes]) -> list[Body]:
        """Return a body for each."""
        codec = self._codec()
        frames = codec.compress_all(plains)
        self._idle.append(codec)
        return [self._body(frame, plain) for frame, plain in zip(frames, plains, strict=True)]

    def decompress(self, frame: Bytes) -> bytes:
        """Return what a frame was made of.

        Raises:
            ValueError: it is damaged.
        """
        codec = self._codec()
        try:
            plain = codec.decompress(frame)
        except self._error as error:
            raise ValueError(str(error)) from error
        self._idle.append(codec)
        return plain

    def decompress_all(self, frames: Sequence[Bytes], sizes: Sequence[int]) -> list[bytes]:
        """Return what frames were made of.

        Args:
            frames: as bodies have them.
            sizes: the lengths of what they were made of, in bytes.

        Raises:
            ValueError: one is damaged.
        """
        codec = self._codec()
        try:
            plains = codec.decompress_all(frames, sizes)
        except self._error as error:
            raise ValueError(str(error)) from error
        self._idle.append(codec)
        return plains

    def _body(self, frame: bytes, plain: bytes) -> Body:
        return Body(frame, self, len(plain)) if len(frame) < len(plain) else Body(plain)

    def _codec(self) -> Codec:
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()


class Body(NamedTuple):
    """An object as its row has it.

    Attributes:
        content: bytes of JSON, or a zstd frame of them.
        dictionary: what the frame needs; None for JSON.
        plain_bytes: length of the JSON of a frame; None for JSON.
    """

    content: bytes
    dictionary: Dictionary | None = None
    plain_bytes: int | None = None

    @property
    def length(self) -> int:
        """Return the length of the JSON in bytes."""
        return len(self.content) if self.plain_bytes is None else self.plain_bytes

    def decoded(self) -> Object:
        """Return the object."""
        plain = self.dictionary.decompress(self.content) if self.dictionary else self.content
        obj: Object = orjson.loads(plain)
        return obj


class Training(NamedTuple):
    """When a dictionary is trained, and on what.

    The first objects are kept as JSON until there are `first` of them. After that a look is taken
    whenever twice as many objects were written as before the last look, at least every `most`: if
    those written since compressed to more than `worse` times the ratio that the dictionary had on
    what it was trained on, a new one is trained on a sample of them. So changes of what is stored
    are noticed soon, and training, 0.1 s, stays a small share of the writing.

    Attributes:
        first: objects to train on, spread evenly over those written since the last look.
        most: objects between two looks.
        worse: a factor. Pods of the cluster that a dictionary was trained on compress to 1.1 to 1.2
            times the ratio of those that it was trained on, those of other clusters to 1.6.
    """

    first: int = 256
    most: int = 65_536
    worse: float = 1.4


_LONGEST_SAMPLE_BYTES = 128 * 1024  # what zstd looks at of each


class Compressor:
    """Makes bodies for one resource, with one dictionary after the other. For one writer."""

    def __init__(self, library: Library, training: Training) -> None:
        """Start without a dictionary."""
        self._library, self._training = library, training
        self._dictionary: Dictionary | None = None
        self._window = training.first  # objects between the last look and the next
        self._begin()

    def adopt(self, dictionary: Dictionary) -> None:
        """Compress with that dictionary from now on."""
        self._dictionary = dictionary

    def bodies(self, plains: Sequence[bytes]) -> list[Body]:
        """Return objects, as JSON, as bodies."""
        bodies: list[Body] = []
        while len(bodies) < len(plains):
            start, left = len(bodies), self._window - self._seen
            bodies += self._up_to_the_next_look(plains[start : start + left])
            if self._seen == self._window:
                self._look()
        return bodies

    def _up_to_the_next_look(self, plains: Sequence[bytes]) -> list[Body]:
        dictionary = self._dictionary
        bodies = [*map(Body, plains)] if dictionary is None else dictionary.compress_all(plains)
        first = -self._seen % self._every
        self._samples += [plain[:_LONGEST_SAMPLE_BYTES] for plain in plains[first :: self._every]]
        self._seen += len(plains)
        self._plain_bytes += sum(map(len, plains))
        self._stored_bytes += sum(len(body.content) for body in bodies)
        return bodies

    def _look(self) -> None:
        dictionary = self._dictionary
        bound = 0.0 if dictionary is None else self._training.worse * dictionary.ratio
        if self._stored_bytes > bound * self._plain_bytes:
            self._train()
        self._window = min(2 * self._window, self._training.most)
        self._begin()

    def _begin(self) -> None:
        self._seen = self._plain_bytes = self._stored_bytes = 0
        self._samples: list[bytes] = []
        self._every = max(1, self._window // self._training.first)

    def _train(self) -> None:
        try:
            content = self._library.train(DICTIONARY_BYTES, self._samples)
        except self._library.error:
            return  # too little, or too much alike: it may go with the next samples
        dictionary = Dictionary(self._library, with_id_of_its_own(content))
        stored = sum(len(dictionary.compress(each).content) for each in self._samples)
        dictionary.ratio = stored / sum(map(len, self._samples))
        self._dictionary = dictionary


def with_id_of_its_own(content: bytes) -> bytes:
    """Return a trained dictionary with an id made of all of its bytes.

    zstd makes it of the texts in the dictionary alone. Two with the same texts have other tables if
    they were trained on other objects, and what one compresses the other cannot read.
    """
    number = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())
    own = _PRIVATE_IDS[number % len(_PRIVATE_IDS)].to_bytes(4, "little")
    return content[: _ID.start] + own + content[_ID.stop :]
