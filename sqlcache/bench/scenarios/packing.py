"""`objects`: what a packed pod takes, and what packing and unpacking it cost, by compression.

Dictionaries are trained on every fourth pod and tried on the others, each a sample of its own. A
packed store writes a changed pod as JSON and compresses it; a cold read decompresses it and parses
the JSON. Pods are those of a dump, or those of the `memory` scenario.

Elsewhere: bytes of a whole store (memory), reads by selector (queries).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import orjson

from sqlcache.bench.answers import Answer, of_keys
from sqlcache.bench.measuring import timed
from sqlcache.bench.realistic import realistic_pods
from sqlcache.bench.scenarios.workload import Cell, Job, Measurement, Workload
from sqlcache.dumps import DumpReader
from sqlcache.errors import DumpError
from sqlcache.store._sql.compression import DICTIONARY_BYTES, Dictionary, zstandard_library

LEVELS = (1, 3, 6, 9)
PODS = 2_000
PLAIN = "JSON"
SIZE, WRITE, COMPRESS, DECOMPRESS, PARSE = (
    "one pod", "write JSON", "compress", "decompress", "parse JSON",
)  # fmt: skip
NO_LIBRARY = "needs sqlcache[zstd]: pip install 'sqlcache[zstd]'"
_TRAINED_ON = 4  # one in so many
_LEAST = 32  # pods: of fewer no dictionary can be trained
_LEAST_SAMPLES = 4


def zstd(level: int) -> str:
    """Return the variant of the lines of a level."""
    return f"zstd level {level}"


def line(what: str, source: str) -> str:
    """Return the name of the lines of an operation on the pods of a source."""
    return f"{what}, {source}"


def read(file: str) -> list[bytes]:
    """Return the pods of a dump as JSON.

    Raises:
        DumpError: it is no dump, or has no pods.
        OSError: it cannot be read.
    """
    pods = [orjson.dumps(pod) for pod in DumpReader([file], "pods")]
    if not pods:
        raise DumpError(file, "", "no pods in it")
    return pods


class Packing(Workload):
    """The pods of one source, as JSON."""

    def __init__(self, job: Job) -> None:
        """Open an empty store, which stays empty."""
        super().__init__(job)
        self.file, self.levels = self.options.get("file"), list(self.options["levels"])

    def prepare(self) -> list[Answer]:
        """Make or read the pods; answer with the keys of all."""
        if self.file is None:
            self.source = "pods of 4 KB"
            self.pods = list(realistic_pods(int(self.options["pods"]), self.parameters.seed))
        else:
            self.source = f"pods of {Path(self.file).name}"
            self.pods = read(self.file)
        self.tried = [pod for number, pod in enumerate(self.pods) if number % _TRAINED_ON]
        self.tried = self.tried or self.pods
        metadata = [orjson.loads(pod)["metadata"] for pod in self.pods]
        return [of_keys(f"{each.get('namespace') or ''}/{each['name']}" for each in metadata)]

    def cells(self) -> Sequence[Cell]:
        """Return the pods as they are, then each level."""
        return [_Plain(self), *(_Compressed(self, level) for level in self.levels)]

    def sized(self, variant: str, bodies: Sequence[bytes]) -> Measurement:
        """Return the mean size of bodies."""
        size = round(sum(map(len, bodies)) / len(bodies))
        return Measurement(line(SIZE, self.source), variant, len(self.pods), bytes=size)

    def measured(
        self,
        what: str,
        variant: str,
        call: Callable[[Any], object],
        of: Sequence[Any],
        round_number: int,
    ) -> Measurement:
        """Time a call on some of these, in each round on others; one sample each."""
        most = max(_LEAST_SAMPLES, 2 * self.parameters.samples // self.parameters.rounds)
        first = most * round_number % len(of)
        chosen = islice(cycle(of), first, first + min(most, len(of)))
        calls: Iterable[tuple[None, Callable[[], object]]] = (
            (None, lambda each=each: call(each))  # type: ignore[misc] # each has its own
            for each in chosen
        )
        samples = [elapsed for _, elapsed, _ in timed(calls, self.timed_s, _LEAST_SAMPLES)]
        return Measurement(line(what, self.source), variant, len(self.pods), samples_us=samples)


class _Plain(Cell):
    def __init__(self, workload: Packing) -> None:
        self.workload = workload

    def measure(self, round_number: int) -> list[Measurement]:
        of = self.workload
        objects = [orjson.loads(pod) for pod in of.tried]
        return [
            of.sized(PLAIN, of.tried),
            of.measured(WRITE, PLAIN, orjson.dumps, objects, round_number),
            of.measured(PARSE, PLAIN, orjson.loads, of.tried, round_number),
        ]


class _Compressed(Cell):
    def __init__(self, workload: Packing, level: int) -> None:
        self.workload, self.level = workload, level
        self.dictionary: Dictionary | None = None

    def measure(self, round_number: int) -> list[Measurement]:
        of, variant = self.workload, zstd(self.level)
        if error := self._lacking():
            name = line(SIZE, of.source)
            return [Measurement(name, variant, len(of.pods), error=error)]
        dictionary = self.dictionary = self.dictionary or self._trained()
        bodies = [dictionary.compress(pod) for pod in of.tried]
        sized = of.sized(variant, [body.content for body in bodies])
        # What a dictionary does not make smaller stays JSON, and is never decompressed.
        packed = [
            (pod, body.content)
            for pod, body in zip(of.tried, bodies, strict=True)
            if body.dictionary
        ]
        sized.fields["compressed_share"] = round(len(packed) / len(bodies), 3)
        if any(dictionary.decompress(frame) != pod for pod, frame in packed):
            sized.wrong = "a pod came back changed"
        found = [
            sized,
            of.measured(COMPRESS, variant, dictionary.compress, of.tried, round_number),
        ]
        if packed:
            frames = [frame for _, frame in packed]
            found.append(
                of.measured(DECOMPRESS, variant, dictionary.decompress, frames, round_number)
            )
        return found

    def _lacking(self) -> str | None:
        if find_spec("zstandard") is None:
            return NO_LIBRARY
        if len(self.workload.pods) < _LEAST:
            return f"too few pods: {_LEAST} are needed to train a dictionary"
        return None

    def _trained(self) -> Dictionary:
        library = zstandard_library(self.level)
        samples = self.workload.pods[::_TRAINED_ON]
        return Dictionary(library, library.train(DICTIONARY_BYTES, samples))
