"""What levels of compression make of packed objects: `python -m sqlcache.bench.levels [DUMP …]`.

Dictionaries are trained on every fourth pod and tried on the others. Without dumps, the pods are
those of the `memory` scenario. Bytes a pod, microseconds a pod to compress, to decompress, and to
decode the JSON, the fastest of some rounds; the last is the rest of what a cold read costs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import orjson

from sqlcache.bench.realistic import realistic_pods
from sqlcache.dumps import DumpReader
from sqlcache.store._sql.compression import DICTIONARY_BYTES, Dictionary, zstandard_library

LEVELS = (1, 3, 6, 9)
_PODS = 2_000
_ROUNDS = 3
_TRAINED_ON = 4  # one in so many
_LEAST = 32  # pods: of fewer no dictionary can be trained


class Level(NamedTuple):
    """What one level does; sizes in bytes and times in microseconds are of one pod."""

    level: int
    plain_bytes: float
    bytes: float
    encode_us: float
    decode_us: float
    json_us: float


def measured(pods: Sequence[bytes]) -> list[Level]:
    """Return what each level makes of pods.

    Args:
        pods: as JSON, at least 32.

    Raises:
        ImportError: the extra `zstd` is not installed.
        ValueError: there are too few pods.
    """
    if len(pods) < _LEAST:
        raise ValueError(f"{_LEAST} pods are needed, not {len(pods)}")
    trained_on = list(pods[::_TRAINED_ON])
    others = [pod for number, pod in enumerate(pods) if number % _TRAINED_ON]
    json_us = _fastest(lambda: [orjson.loads(pod) for pod in others], len(others))
    found = []
    for level in LEVELS:
        library = zstandard_library(level)
        dictionary = Dictionary(library, library.train(DICTIONARY_BYTES, trained_on))
        bodies = [dictionary.compress(pod) for pod in others]
        encode_us = _fastest(lambda: list(map(dictionary.compress, others)), len(others))  # noqa: B023
        frames = [body.content for body in bodies if body.dictionary]
        decode_us = _fastest(lambda: list(map(dictionary.decompress, frames)), len(others))  # noqa: B023
        plain, stored = sum(map(len, others)), sum(len(body.content) for body in bodies)
        sizes = plain / len(others), stored / len(others)
        found.append(Level(level, *sizes, encode_us, decode_us, json_us))
    return found


def _fastest(call: Callable[[], object], pods: int) -> float:
    times = []
    for _ in range(_ROUNDS):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times) / pods * 1e6


def main(files: Sequence[str]) -> None:
    """Write a table for each dump, or for pods that look real."""
    sources = {file: [orjson.dumps(pod) for pod in DumpReader([file], "pods")] for file in files}
    for name, pods in (sources or {"realistic": list(realistic_pods(_PODS, 1))}).items():
        sys.stdout.write(f"{name}: {len(pods)} pods\n")
        sys.stdout.write("level  plain  bytes  encode  decode  json\n")
        for row in measured(pods):
            sys.stdout.write("{:5} {:6.0f} {:6.0f} {:7.1f} {:7.1f} {:5.1f}\n".format(*row))


if __name__ == "__main__":
    main(sys.argv[1:])
