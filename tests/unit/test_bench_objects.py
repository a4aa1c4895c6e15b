"""The scenario `objects`: sizes and times of packed pods, and what is said without numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import orjson
import pytest

from sqlcache.bench.realistic import realistic_pods
from sqlcache.bench.results import Parameters, Result, Row
from sqlcache.bench.scenarios import SCENARIOS, packing
from sqlcache.bench.scenarios.workload import Job, Measurement
from sqlcache.bench.sentences import sentence
from sqlcache.errors import DumpError

PARAMETERS = Parameters(200, ("sqlite-packed",), ("objects",), cell_s=0.04, rounds=2, samples=20)


def measured(directory: Path, options: Row, seed: int = 1) -> list[Measurement]:
    parameters = Parameters.from_json({**PARAMETERS.to_json(), "seed": seed})
    job = Job("objects", "sqlite-packed", parameters, {"levels": [3], **options}, str(directory))
    workload = packing.Packing(job)
    try:
        workload.prepare()
        return [each for cell in workload.cells() for each in cell.measure(0)]
    finally:
        workload.close()


def by_line(found: Iterable[Measurement]) -> dict[tuple[str, str], Measurement]:
    return {(each.query.partition(",")[0], each.variant): each for each in found}


def written(path: Path, pods: int) -> str:
    items = [orjson.loads(pod) for pod in realistic_pods(pods, 1)]
    path.write_bytes(orjson.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    return str(path)


def test_each_level_leaves_a_small_part_of_real_looking_pods(tmp_path: Path) -> None:
    found = by_line(measured(tmp_path, {"pods": 200, "levels": list(packing.LEVELS)}))
    plain = found[packing.SIZE, packing.PLAIN].bytes or 0
    for level in packing.LEVELS:
        variant = packing.zstd(level)
        assert 0 < (found[packing.SIZE, variant].bytes or 0) < plain / 5
        assert found[packing.SIZE, variant].wrong is None
        for what in (packing.COMPRESS, packing.DECOMPRESS):
            assert len(found[what, variant].samples_us) >= 4
    for what in (packing.WRITE, packing.PARSE):
        assert min(found[what, packing.PLAIN].samples_us) > 0


def test_same_seed_same_sizes(tmp_path: Path) -> None:
    sizes = [
        [each.bytes for each in measured(tmp_path, {"pods": 100}, seed) if each.bytes]
        for seed in (1, 1, 2)
    ]
    assert sizes[0] == sizes[1] != sizes[2]


def test_pods_of_a_dump(tmp_path: Path) -> None:
    file = written(tmp_path / "mine.json", 64)
    found = measured(tmp_path, {"file": file})
    assert {each.query for each in found} >= {"one pod, pods of mine.json"}
    assert {each.pods for each in found} == {64}
    expected = [pod for n, pod in enumerate(packing.read(file)) if n % 4]
    size = by_line(found)[packing.SIZE, packing.PLAIN].bytes
    assert size == round(sum(map(len, expected)) / len(expected))


@pytest.mark.parametrize("pods", [1, 3, 31])
def test_too_few_pods_for_a_dictionary_are_told(pods: int, tmp_path: Path) -> None:
    found = by_line(measured(tmp_path, {"pods": pods}))
    assert found[packing.PARSE, packing.PLAIN].samples_us
    error = found[packing.SIZE, packing.zstd(3)].error
    assert error == "too few pods: 32 are needed to train a dictionary"


def test_without_the_library_json_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    found = by_line(measured(tmp_path, {"pods": 64}))
    assert found[packing.PARSE, packing.PLAIN].samples_us
    assert found[packing.SIZE, packing.zstd(3)].error == packing.NO_LIBRARY


def test_dump_without_pods_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DumpError, match="no pods in it"):
        packing.read(written(tmp_path / "empty.json", 0))


def test_only_packed_backends_and_each_dump_once() -> None:
    parameters = Parameters(10_000, ("dict",), ("objects",), files=("a.json", "b.json"))
    tasks = SCENARIOS["objects"].tasks(parameters)
    assert [task.options["file"] for task in tasks] == ["a.json", "b.json"]
    assert all(task.packed_only for task in tasks)


def test_sentence_tells_what_the_default_level_saves_and_costs() -> None:
    def result(what: str, variant: str, size: int | None = None, us: float = 0) -> Result:
        query = packing.line(what, "pods of 4 KB")
        samples = [us] if us else []
        return Result("objects", "sqlite-packed", variant, query, 9, None, samples, size)

    plain = [
        result(packing.SIZE, packing.PLAIN, 4000),
        result(packing.PARSE, packing.PLAIN, us=12.0),
    ]
    said = "pods of 4 KB: 4,000 B of JSON, 12.0 us to parse"
    assert sentence(plain, "objects") == said
    level = packing.zstd(3)
    packed = [
        result(packing.SIZE, level, 400),
        result(packing.COMPRESS, level, us=15.0),
        result(packing.DECOMPRESS, level, us=2.5),
    ]
    assert sentence([*plain, *packed], "objects") == (
        f"{said}; zstd level 3 makes it 400 B, 10 times less,"
        " for 15.0 us of a write and 2.5 us of a cold read"
    )
