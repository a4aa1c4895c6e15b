"""Compressed objects: other readers, other processes, no library, new dictionaries, downgrades."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

import sqlcache
from sqlcache.bench.realistic import realistic_pods
from sqlcache.errors import BackendError, CompressedError, DatabaseError, SqlcacheError
from sqlcache.objects import Object, Objects, labels_of
from sqlcache.selectors import parse
from sqlcache.store import migrations
from sqlcache.store._sql import compression, dictionaries
from sqlcache.store._sql.compression import Compressor, Dictionary, Library, Training
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import pod
from tests.backends import SoonCompressed
from tests.known_bugs.test_sqlite import assert_sound

LIBRARIES: dict[str, Callable[[], Library]] = {
    "zstandard": compression.zstandard_library,
    "standard": lambda: compression.standard_library(
        "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    ),
}


class OftenTrained(SqliteStore):
    """Looks at what it writes every eight objects, and trains at once if they differ."""

    training = Training(first=8, most=8, worse=1.05)


class OnceTrained(SqliteStore):
    """Keeps its dictionary, whatever comes."""

    training = Training(first=8, worse=100)


def real_looking(pods: int, seed: int = 1) -> Objects:
    return [orjson.loads(each) for each in realistic_pods(pods, seed)]


def noise(number: int, seed: str) -> Object:
    """Return a pod that compresses badly with what was trained on other seeds."""
    words = Random(seed)
    vocabulary = [f"{words.getrandbits(64):x}" for _ in range(50)]
    chosen = Random(f"{seed}{number}")
    return pod(f"{seed}-{number}", env=[chosen.choice(vocabulary) for _ in range(60)])


def by_key(objs: Objects) -> dict[str, Object]:
    return {f"{obj['metadata'].get('namespace')}/{obj['metadata']['name']}": obj for obj in objs}


def rows(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute(sql)]


def child(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlcache.store.sqlite.library", lambda: None)
    monkeypatch.setattr(dictionaries, "library", lambda: None)


def test_real_looking_pods_take_a_sixth_and_any_reader_decodes_them(path: Path) -> None:
    pods = real_looking(600)
    with sqlcache.open_store(f"sqlite:///{path}") as store:
        store.replace(pods, "1")
        plain, packed = store.stats().bodies
        assert (plain.dictionary, plain.objects) == (None, 256)
        assert (packed.dictionary is not None, packed.objects) == (True, 344)
        assert packed.bytes < packed.plain_bytes / 6
        # 256 that the dictionary was trained on stay JSON until they are written again.
        store.replace(pods, "2")
        (packed,) = store.stats().bodies
        assert packed.plain_bytes == sum(len(orjson.dumps(each)) for each in pods)
        assert by_key(store.list()) == by_key(pods)
    code = (
        "import json, sys, sqlcache\n"
        "with sqlcache.open_store(sys.argv[1]) as store: print(json.dumps(store.list()))"
    )
    ended = child(code, f"sqlite:///{path}")
    assert ended.returncode == 0, ended.stderr
    assert by_key(json.loads(ended.stdout)) == by_key(pods)


def test_a_reopened_file_goes_on_with_its_dictionary(path: Path) -> None:
    for number in range(3):
        with OnceTrained(str(path)) as store:
            store.apply({"type": "ADDED", "object": each} for each in real_looking(20, number))
    assert len(rows(path, "SELECT id FROM dictionary")) == 1
    assert rows(path, "SELECT count(*) FROM object WHERE dictionary_id IS NULL") == [8]


def test_a_new_dictionary_comes_when_objects_change_and_the_old_one_goes_with_its_rows(
    path: Path,
) -> None:
    with OftenTrained(str(path)) as store:
        store.replace([noise(number, "a") for number in range(16)], "1")
        (first,) = rows(path, "SELECT id FROM dictionary")
        for seed in "bc":
            for number in range(16):
                store.add(noise(number, seed))
        used = rows(path, "SELECT DISTINCT dictionary_id FROM object WHERE dictionary_id > 0")
        assert first in used
        assert len(used) >= 3
        newest = rows(path, "SELECT id FROM dictionary ORDER BY version DESC LIMIT 1")
        assert set(rows(path, "SELECT id FROM dictionary")) == {*used, *newest}
        kept = [noise(number, "c") for number in range(8)]
        store.replace(kept, "2")
        used = rows(path, "SELECT DISTINCT dictionary_id FROM object WHERE dictionary_id > 0")
        left = rows(path, "SELECT id FROM dictionary")
        assert first not in left
        assert set(used) <= set(left)
        assert len(left) <= len(used) + 1
        assert by_key(store.list()) == by_key(kept)


def test_a_dictionary_that_another_process_removed_is_written_again(path: Path) -> None:
    with SoonCompressed(str(path)) as store, SqliteStore(str(path)) as reader:
        store.replace([noise(number, "a") for number in range(16)], "1")
        store.replace([], "2")
        with closing(sqlite3.connect(path)) as other:
            other.execute("DELETE FROM dictionary")
            other.commit()
        store.add(noise(1, "a"))
        assert rows(path, "SELECT count(*) FROM object WHERE dictionary_id > 0") == [1]
        assert reader.list() == [noise(1, "a")]


def test_a_write_that_fails_takes_its_dictionary_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one brings it."""
    with SoonCompressed(objects="packed") as store:
        for number in range(8):
            store.add(noise(number, "a"))

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("in the middle")

        with monkeypatch.context() as patch:
            patch.setattr(store, "_set_versions", fail)
            with pytest.raises(RuntimeError):
                store.add(noise(8, "a"))
        store.add(noise(9, "a"))
        assert [(each.dictionary is None, each.objects) for each in store.stats().bodies] == [
            (True, 8),
            (False, 1),
        ]
        assert store.get_by_key("default/a-9") == noise(9, "a")


def test_without_the_library_a_compressed_file_names_the_extra_and_stays(path: Path) -> None:
    with SoonCompressed(str(path)) as store:
        store.replace([noise(number, "a") for number in range(16)], "1")
    before = path.read_bytes()
    code = (
        "import sys\n"
        "sys.modules['zstandard'] = sys.modules['compression.zstd'] = None\n"
        "import sqlcache\n"
        "sqlcache.open_store(sys.argv[1])"
    )
    ended = child(code, f"sqlite:///{path}")
    assert ended.returncode == 1
    assert f"CompressedError: {path}: its objects are compressed" in ended.stderr
    assert "sqlcache[zstd]" in ended.stderr
    assert path.read_bytes() == before
    with sqlcache.open_store(f"sqlite:///{path}") as reopened:
        assert len(reopened.list()) == 16


@pytest.mark.usefixtures("without_library")
def test_without_the_library_nothing_is_compressed(path: Path) -> None:
    with SoonCompressed(str(path)) as store:
        store.replace([noise(number, "a") for number in range(16)], "1")
        assert [each.dictionary for each in store.stats().bodies] == [None]
        assert len(store.list()) == 16
    with pytest.raises(BackendError, match="zstd"):
        SqliteStore(objects="packed", compress=True)


def test_a_reader_without_the_library_fails_once_another_process_compresses(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(str(path)).close()
    with SqliteStore(str(path), hot_objects=0) as reader, SoonCompressed(str(path)) as writer:
        writer.replace([noise(number, "a") for number in range(16)], "1")
        monkeypatch.setattr(dictionaries, "library", lambda: None)
        with pytest.raises(CompressedError, match=r"sqlcache\[zstd\]"):
            reader.list()
        monkeypatch.undo()
        assert len(reader.list()) == 16


def test_a_store_may_be_told_not_to_compress_and_reads_what_is(path: Path) -> None:
    pods = [noise(number, "a") for number in range(16)]
    with SoonCompressed(str(path)) as store:
        store.replace(pods, "1")
    with SoonCompressed(str(path), compress=False) as store:
        assert by_key(store.list()) == by_key(pods)
        store.update(pods[-1])
        assert [each.objects for each in store.stats().bodies] == [9, 7]
    with pytest.raises(BackendError, match="packed"):
        SqliteStore(compress=True)
    with pytest.raises(BackendError, match="compress="):
        sqlcache.open_store("dict", compress=False)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [("body = x'28b52ffd00'", "an object is damaged"), ("dictionary_id = 1", "dictionary 1 is")],
)
def test_a_damaged_frame_and_a_missing_dictionary_are_told(
    path: Path, damage: str, reason: str
) -> None:
    with SoonCompressed(str(path)) as store:
        store.replace([noise(number, "a") for number in range(16)], "1")
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"UPDATE object SET {damage} WHERE key = 'default/a-15'")
        other.commit()
    with SqliteStore(str(path)) as store:
        assert store.get_by_key("default/a-14") == noise(14, "a")
        with pytest.raises(CompressedError, match=rf"cache\.db: {reason}"):
            store.get_by_key("default/a-15")


@pytest.mark.parametrize(
    "damage", ["x'28b52ffd00'", "x'7b22'", "zeroblob(length(body))", "substr(body, 9)"]
)
@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("how", ["update", "delete", "replace", "replace with others"])
def test_damaged_objects_can_be_replaced_and_deleted(
    path: Path, damage: str, compress: bool, how: str
) -> None:
    def labelled(number: int, app: str) -> Object:
        obj = noise(number, "ab"[number % 2])
        return {**obj, "metadata": {**obj["metadata"], "labels": {"app": app}}}

    pods = [labelled(number, "old") for number in range(24)]
    with SoonCompressed(str(path), compress=compress) as store:
        store.replace(pods, "1")
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"UPDATE object SET body = {damage} WHERE id > 20")
        other.commit()
    fresh = [*pods[:20], *(labelled(number, "new") for number in range(20, 24))]
    with SoonCompressed(str(path), compress=compress) as store:
        with pytest.raises(
            DatabaseError, match=r"cache\.db: an object is damaged \(.+; load it again"
        ):
            store.list()
        if how == "update":
            store.apply([{"type": "MODIFIED", "object": each} for each in fresh[20:]])
        elif how == "delete":
            store.apply([{"type": "DELETED", "object": each} for each in fresh[20:]])
            fresh = fresh[:20]
        elif how == "replace":
            store.replace(fresh, "2")
        else:
            fresh = [noise(number, "c") for number in range(3)]
            store.replace(fresh, "2")
        assert by_key(store.list()) == by_key(fresh)
        for text in ("app=old", "app=new", "app", "!app"):
            selector = parse(text)
            found = [each for each in fresh if selector.matches(labels_of(each))]
            assert by_key(store.select("", selector)) == by_key(found)
    counts = "SELECT count(*) FROM posting WHERE label_id = label.id"
    assert rows(path, f"SELECT count(*) FROM label WHERE n <> ({counts})") == [0]


def test_going_down_decompresses_and_coming_up_again_loses_nothing(path: Path) -> None:
    pods = [noise(number, "a") for number in range(700)]
    with SoonCompressed(str(path)) as store:
        store.replace(pods, "1")
    migrations.downgrade(str(path), "0003")
    bodies = rows(path, "SELECT body FROM object")
    assert by_key([orjson.loads(each) for each in bodies]) == by_key(pods)
    migrations.upgrade(str(path))
    assert migrations.check(str(path)) == []
    with SoonCompressed(str(path)) as store:
        assert by_key(store.list()) == by_key(pods)
        assert [each.dictionary for each in store.stats().bodies] == [None]


def test_going_down_without_the_library_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SoonCompressed(str(path)) as store:
        store.replace([noise(number, "a") for number in range(16)], "1")
    monkeypatch.setattr(dictionaries, "library", lambda: None)
    with pytest.raises(CompressedError, match=r"cache\.db: .*sqlcache\[zstd\]"):
        migrations.downgrade(str(path), "0003")
    monkeypatch.undo()
    with SqliteStore(str(path)) as store:
        assert len(store.list()) == 16


WRITER = """
import sys
from tests.integration.test_compression import OftenTrained, noise
store = OftenTrained(sys.argv[1])
for number in range(1_000_000):
    seed = "abcdef"[number // 40 % 6]
    store.apply({"type": "ADDED", "object": noise(number % 40, seed)} for _ in range(1))
    if number == 100:
        print("going", flush=True)
"""


def test_a_writer_killed_while_it_trains_and_compresses_leaves_a_sound_file(path: Path) -> None:
    for round_number in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "going\n"
            for _ in range(50 * round_number):
                rows(path, "SELECT 1")  # some milliseconds more each time
            os.kill(process.pid, signal.SIGKILL)
        assert_sound(path)
        with SqliteStore(str(path)) as store:
            found = store.list()
            assert len(found) >= 101 if round_number else found
            for obj in found:
                seed, number = obj["metadata"]["name"].split("-")
                assert obj == noise(int(number), seed)


@pytest.mark.parametrize("seed", range(4))
def test_no_object_outlives_its_dictionary_whatever_is_written(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes of several batches, which dictionaries come and go between, and none at all."""
    monkeypatch.setattr("sqlcache.store.sqlite._OBJECTS_PER_PLAN", 16)
    random = Random(seed)
    with (
        OftenTrained(None, objects="packed", hot_objects=0) as store,
        sqlcache.open_store("dict") as model,
    ):
        for rv in range(30):
            count = random.choice([0, 0, 1, 20, 100])
            first = random.randrange(100)
            seeds = random.choice(["a", "ab", "cdefgh"])
            objs = [noise(first + n, seeds[n * len(seeds) // count]) for n in range(count)]
            kind = random.choice(["replace", "ADDED", "DELETED"])
            for each in (store, model):
                if kind == "replace":
                    each.replace(objs, str(rv))
                else:
                    each.apply({"type": kind, "object": obj} for obj in objs)
            assert by_key(store.list()) == by_key(model.list())


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_read_each_other(name: str) -> None:
    samples = [orjson.dumps(noise(number, "a")) for number in range(32)]
    library = LIBRARIES[name]()
    dictionary = Dictionary(library, library.train(4_096, samples))
    for other in LIBRARIES.values():
        reader = Dictionary(other(), dictionary.content)
        assert reader.id == dictionary.id > 0
        for sample in samples:
            body = dictionary.compress(sample)
            assert body.dictionary is dictionary
            assert len(body.content) < len(sample)
            assert reader.decompress(body.content) == sample
        with pytest.raises(ValueError, match=r".+"):
            reader.decompress(b"{}")


@pytest.mark.parametrize("name", LIBRARIES)
def test_many_at_once_become_what_each_becomes(name: str) -> None:
    """Whatever number is given at once, and wherever a dictionary is trained in between."""
    library = LIBRARIES[name]()
    plain = [orjson.dumps(noise(number, "ab"[number // 150])) for number in range(300)]
    training = Training(first=16, most=64)
    one, many, all_of_them = (Compressor(library, training) for _ in range(3))
    expected = [body for each in plain for body in one.bodies([each])]
    found = [body for start in range(0, 300, 50) for body in many.bodies(plain[start : start + 50])]
    for bodies in (found, all_of_them.bodies(plain)):
        assert [body.content for body in bodies] == [body.content for body in expected]
    dictionary = expected[-1].dictionary
    assert dictionary is not None
    assert len({body.dictionary.id for body in expected if body.dictionary}) > 1
    frames = [body.content for body in dictionary.compress_all(plain[-40:])]
    sizes = [len(each) for each in plain[-40:]]
    assert dictionary.decompress_all(frames, sizes) == plain[-40:]
    views = [memoryview(frame) for frame in frames]
    assert dictionary.decompress_all(views, sizes) == plain[-40:]
    assert dictionary.decompress_all([], []) == []
    with pytest.raises(ValueError, match=r".+"):
        dictionary.decompress_all([*frames[:-1], b"{}"], sizes)


@pytest.mark.parametrize("name", LIBRARIES)
def test_dictionaries_with_one_id_are_equal(name: str) -> None:
    """zstd gives one id to dictionaries with the same texts and other tables."""
    library = LIBRARIES[name]()
    same, found = 0, defaultdict(set)
    for seed in range(60):
        random = Random(seed)
        samples = [orjson.dumps(pod(f"p{each}", **small(random))) for each in range(8)]
        contents = [library.train(4_096, samples + samples[:repeated]) for repeated in range(4)]
        same += len({each[4:8] for each in contents}) < len({*contents})
        for each in map(compression.with_id_of_its_own, contents):
            dictionary = Dictionary(library, each)
            found[dictionary.id].add(each)
            assert [dictionary.decompress(dictionary.compress(one).content) for one in samples]
    assert same, "there would be nothing to test"
    assert max(map(len, found.values())) == 1


def small(random: Random) -> dict[str, Any]:
    """Return labels and spec."""
    labels = {"app": random.choice(["web", "db"]), "n": str(random.randrange(30))}
    return {"labels": labels, "spec": {"x": random.random()}}


class AlwaysTrained(SqliteStore):
    """Trains on every eight objects, whether they differ or not."""

    training = Training(first=8, most=8, worse=0)


@pytest.mark.parametrize("where", ["memory", "file"])
def test_objects_are_read_back_whatever_dictionaries_alike_they_were_trained_on(
    path: Path, where: str
) -> None:
    random = Random(1)
    pods = [pod(f"p{number}", **small(random)) for number in range(7)]
    with AlwaysTrained(
        str(path) if where == "file" else None, objects="packed", hot_objects=0
    ) as store:
        for _ in range(50):
            for obj in random.sample([*pods, random.choice(pods)], 8):
                store.add(obj)
            assert store.list() == pods


def test_what_does_not_become_smaller_stays_as_it_is() -> None:
    library = compression.zstandard_library()
    samples = [orjson.dumps(noise(number, "a")) for number in range(16)]
    dictionary = Dictionary(library, library.train(4_096, samples))
    body = dictionary.compress(b"{}")
    assert (body.content, body.dictionary, body.plain_bytes) == (b"{}", None, None)
    assert body.decoded() == {}


def test_with_too_little_to_train_on_objects_stay_as_they_are() -> None:
    compressor = Compressor(compression.zstandard_library(), Training(first=4))
    plain = [orjson.dumps(noise(number, "a")) for number in range(60)]
    assert [body.content for body in compressor.bodies(plain)] == plain


def test_errors_are_those_that_a_caller_of_a_database_expects() -> None:
    assert issubclass(CompressedError, OSError)
    assert issubclass(CompressedError, SqlcacheError)
