"""What tests do in processes of their own: `python -m tests.known_bugs.children NAME`.

Each function is a child. It ends with status 0 if all is well, and prints what its parent waits
for.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

from sqlcache.errors import DatabaseError
from sqlcache.selectors import Operator, Requirement, Selector
from sqlcache.store.api import Indexer
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.contract import content
from sqlcache.testing.factories import event, names, pod

GENERATION = 40
NOBODY = 65_534
MIB = 2**20


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def generation(number: int) -> list[dict[str, object]]:
    """Return the events that bring all pods to one generation."""
    labels = {"gen": str(number), f"g{number % 5}": "x", "app": "web"}
    return [
        event("MODIFIED", pod(f"p{i}", f"ns{i % 3}", labels, rv=str(number)))
        for i in range(GENERATION)
    ]


def write_for_ever(path: str) -> None:
    """Apply one generation after the other, until somebody kills this process."""
    store = SqliteStore(path)
    for number in count():
        store.apply(generation(number))
        if number == 5:
            say("writing")


def services(number: int) -> list[dict[str, object]]:
    """Return the events that make all services select one of two generations of pods."""
    selector = {"gen": str(number % 2), "app": "web"}
    return [
        event("MODIFIED", pod(f"s{i}", "shop", rv=str(number), spec={"selector": selector}))
        for i in range(GENERATION)
    ]


def select_for_ever(path: str) -> None:
    """Change what services select, until somebody kills this process."""
    store = SqliteStore(path, "services")
    for number in count():
        store.apply(services(number))
        assert len(store.selecting("shop", {"gen": str(number % 2), "app": "web"})) == GENERATION
        if number == 5:
            say("writing")


def fill_the_disk(folder: str) -> None:
    """Write to a small file system until it is full; make room; write on."""
    path = str(Path(folder) / "cache.db")
    ballast = Path(folder) / "ballast"
    ballast.write_bytes(b"x" * 5 * MIB)  # of 8: a replace needs room for old and new
    with SqliteStore(path) as store:
        expect_full(store)
        ballast.unlink()
        goes_on(store)
    with SqliteStore(path) as store:
        assert names(store.select("after", "app=web")) == ["p"]
    say("done")


def exceed_the_file_size(path: str) -> None:
    """The same with a limit on the size of files, which the system reports as another error."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with SqliteStore(path) as store:
        store.apply(generation(1))
        largest = max(each.stat().st_size for each in Path(path).parent.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + MIB, resource.RLIM_INFINITY))
        expect_full(store)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        goes_on(store)
    say("done")


def expect_full(store: Indexer) -> None:
    """Write until the store refuses a batch; nothing of it may be seen."""
    big = "".join(map(chr, os.urandom(50_000)))
    for number in range(500):
        before = content(store)
        batch = [pod(f"b{number}-{i}", "full", {"app": "web"}, spec={"x": big}) for i in range(4)]
        try:
            store.apply([event("ADDED", obj) for obj in batch])
        except DatabaseError as error:
            say(f"refused: {error}")
            assert content(store) == before
            try_to_write(store)
            assert content(store).objects.keys() >= before.objects.keys()
            return
    raise AssertionError("the file system was never full")


def try_to_write(store: Indexer) -> None:
    """Write with other methods: each does it or refuses it as a whole."""
    before = content(store)
    writes: tuple[Callable[[], None], ...] = (
        lambda: store.replace([pod(f"r{i}", spec={"x": "y" * 9_000}) for i in range(400)], "9"),
        lambda: store.add_indexers({"app": lambda obj: ["z" * 3_000 + obj["metadata"]["name"]]}),
    )
    for write in writes:
        try:
            write()
        except DatabaseError:
            assert content(store) == before
        before = content(store)


def goes_on(store: Indexer) -> None:
    """Write after room was made."""
    store.replace([pod("p", "after", {"app": "web"})], "77")
    assert names(store.list()) == ["p"]
    assert store.count("", "app=web") == 1
    assert store.last_store_sync_resource_version() == "77"


def open_what_may_not_be_written(path: str) -> None:
    """As an ordinary user, open a file that only others may write."""
    with tempfile.TemporaryDirectory() as folder, SqliteStore(f"{folder}/cache.db") as store:
        store.add(pod("x"))  # imports what an ordinary user may not be able to read
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        with SqliteStore(path) as store:
            store.add(pod("x"))
    except DatabaseError as error:
        assert path in str(error)  # noqa: PT017 - no pytest in this process
        say(f"refused: {error}")
        return
    raise AssertionError("the file was written")


def grow(kind: str, path: str) -> None:
    """Update, and ask selectors of ever new shapes; say by how much memory has grown since warm."""
    options = {
        "sqlite": {"path": None},
        "sqlite-packed": {"path": None, "objects": "packed", "hot_objects": 100},
        "sqlite-file": {"path": path, "hot_objects": 100},
    }[kind]
    updates, shapes = int(sys.argv[4]), int(sys.argv[5])
    with SqliteStore(**options) as store:  # type: ignore[arg-type]
        store.replace([pod(f"p{i}", labels={"app": f"a{i % 10}"}) for i in range(500)], "1")
        run_load(store, updates // 3, range(shapes // 3))
        warm = rss()
        run_load(store, updates, range(shapes // 3, shapes // 3 + shapes))
        say(f"grown: {rss() - warm}")


def run_load(store: Indexer, updates: int, shapes: range) -> None:
    for start in range(0, updates, 20):
        store.apply(
            event(
                "MODIFIED", pod(f"p{i % 500}", labels={"app": f"a{i % 10}", f"k{i % 97}": str(i)})
            )
            for i in range(start, start + 20)
        )
    for shape in shapes:
        store.select("default", selector_of_shape(shape))


def selector_of_shape(number: int) -> Selector:
    """Return a selector that differs from others in its operators and counts of values."""
    operators = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.GREATER_THAN)
    requirements = []
    for place in range(5):
        number, choice = divmod(number, 8)
        operator = operators[choice % 4]
        wanted = {Operator.EXISTS: 0, Operator.GREATER_THAN: 1}.get(operator, 1 + choice)
        requirements.append(Requirement(f"k{place}", operator, [str(i) for i in range(wanted)]))
    return Selector(requirements)


def rss() -> int:
    """Return the resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def read_and_write(path: str, kind: str) -> None:
    """Write one resource of a shared file and read another, until the parent says so."""
    done = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        done.set()

    threading.Thread(target=wait, daemon=True).start()
    with SqliteStore(path, kind) as own, SqliteStore(path, "pods") as pods:
        say("ready")
        number = 0
        while not done.is_set():
            number += 1
            own.update(pod("a", labels={"gen": str(number)}, rv=str(number)))
            generations = {obj["metadata"]["labels"]["gen"] for obj in pods.list()}
            assert len(generations) <= 1, generations
            assert len(pods.select("", "app=web")) in (0, GENERATION)
        assert own.last_store_sync_resource_version() == str(number)
    say("done")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:4])
