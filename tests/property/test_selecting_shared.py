"""What selects, asked of several stores of one file, any of which writes.

Each has an index of its own, so each must notice what the others wrote. Afterwards every one must
answer what the plain rule gives for the objects of the model.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from sqlcache.objects import ExplicitKey, Object, Objects, meta_namespace_key_func
from sqlcache.selectors import service_selector
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import event, keys
from sqlcache.testing.strategies import NAMES, NAMESPACES, labels, pods, spec_selectors

STORES = 3
ASKED = 8  # label sets of those written last
any_service = pods(selected=spec_selectors())
which = st.integers(0, STORES - 1)
any_key = st.sampled_from([f"{namespace}/{name}" for namespace in NAMESPACES for name in NAMES])


class SharedFileMachine(RuleBasedStateMachine):
    """Writes through one of several stores and asks another."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="sqlcache-test-"))
        self.stack = ExitStack()
        self.stores: list[SqliteStore] = []
        self.objects: dict[str, Object] = {}
        self.written: list[dict[str, str]] = []  # labels that objects select or have selected

    def open(self) -> SqliteStore:
        path = str(self.folder / "cache.db")
        return self.stack.enter_context(SqliteStore(path, "services"))

    @initialize()
    def open_all(self) -> None:
        self.stores = [self.open() for _ in range(STORES)]

    def teardown(self) -> None:
        self.stack.close()
        shutil.rmtree(self.folder)

    @rule(writer=which, obj=any_service)
    def put(self, writer: int, obj: Object) -> None:
        self.stores[writer].add(obj)
        self.note([obj])

    @rule(writer=which, key=any_key)
    def delete(self, writer: int, key: str) -> None:
        self.stores[writer].delete(ExplicitKey(key.removeprefix("/")))
        self.objects.pop(key.removeprefix("/"), None)

    @rule(writer=which, objs=st.lists(any_service, max_size=6))
    def apply(self, writer: int, objs: Objects) -> None:
        self.stores[writer].apply([event("MODIFIED", obj) for obj in objs])
        self.note(objs)

    @rule(writer=which, objs=st.lists(any_service, max_size=6))
    def replace(self, writer: int, objs: Objects) -> None:
        self.stores[writer].replace(objs, "1")
        self.objects = {}
        self.note(objs)

    @rule(writer=which)
    def write_no_object(self, writer: int) -> None:
        self.stores[writer].bookmark("7")

    @rule(writer=which)
    def reindex(self, writer: int) -> None:
        """Writes every row anew."""
        name = f"index-{len(self.stores[writer].get_indexers())}"
        self.stores[writer].add_indexers({name: lambda obj: [name]})

    @rule(which=which)
    def reopen(self, which: int) -> None:
        self.stores[which].close()
        self.stores[which] = self.open()

    @rule(reader=which, namespace=st.sampled_from((*NAMESPACES, "none")), others=labels())
    def ask(self, reader: int, namespace: str, others: dict[str, str]) -> None:
        store = self.stores[reader]
        for wanted in (*self.written, others, None):
            expected = [
                obj
                for obj in self.objects.values()
                if namespace in ("", obj["metadata"].get("namespace"))
                and service_selector(obj).matches(wanted)
            ]
            found = store.selecting(namespace, wanted)
            assert keys(found) == keys(expected)
            assert all(obj == self.objects[meta_namespace_key_func(obj)] for obj in found)
        assert store._filed is not None
        assert store._filed._index.keys() == self.objects.keys(), "what went is still in memory"

    def note(self, objs: Objects) -> None:
        self.objects |= {meta_namespace_key_func(obj): obj for obj in objs}
        for obj in objs:
            terms = service_selector(obj).requirements
            self.written.append({each.key: each.values[0] for each in terms})
        del self.written[:-ASKED]


TestSharedFile = SharedFileMachine.TestCase
TestSharedFile.settings = settings(
    max_examples=settings().max_examples * 2 // 5, stateful_step_count=40
)
