"""Every backend against the scanning dict store, step by step.

A state machine makes the same calls on the dict store, which is the model, and on one backend.
After each step every reader of both must agree, and calls that fail must fail alike. The alphabets
are small, so that objects, labels and selectors meet often.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from sqlcache.errors import IndexFunctionError, SqlcacheError
from sqlcache.objects import (
    DeletedFinalStateUnknown,
    ExplicitKey,
    IndexFunc,
    Object,
    Objects,
    meta_namespace_index_func,
    meta_namespace_key_func,
)
from sqlcache.selectors import (
    SelectorFunc,
    SelectorLike,
    as_selector,
    label_selector,
    service_selector,
)
from sqlcache.store.api import Indexer, Transaction
from sqlcache.store.indexed import DictIndexStore
from sqlcache.store.labels import LabelPolicy
from sqlcache.store.scan import DictStore
from sqlcache.store.sqlite import SqliteStore
from sqlcache.testing.factories import event
from sqlcache.testing.strategies import (
    NAMES,
    NAMESPACES,
    RESOURCE_VERSIONS,
    labels,
    pods,
    selectors,
    spec_selectors,
)
from tests.backends import SoonCompressed, new_path

STEPS = 30  # with 40 runs for each backend it is some seconds a backend on two slow cores
ASKED = 4  # selectors that a run asks after each step, so that remembered answers are tested
PAIRS = 8  # labels that were written last, asked for after each step


def by_app(obj: Object) -> list[str]:
    """Fails on one label value, gives none without the label."""
    labels = obj["metadata"].get("labels") or {}
    if labels.get("App") == "a%b":
        raise ValueError("a%b is not indexed")
    return [labels["app"]] if "app" in labels else []


def by_labels(obj: Object) -> list[str]:
    """Gives several values, and each twice."""
    labels = obj["metadata"].get("labels") or {}
    return [f"{key}={value}" for key, value in labels.items()] * 2


def by_node(obj: Object) -> list[str]:
    return [obj["spec"]["nodeName"]]


def constantly(obj: Object) -> list[str]:
    return ["", "all", ""]


INDEX_FUNCTIONS: dict[str, IndexFunc] = {
    "app": by_app,
    "labels": by_labels,
    "node": by_node,
    "namespace": meta_namespace_index_func,
    "constant": constantly,
}
SELECTOR_FUNCTIONS: tuple[SelectorFunc, ...] = (service_selector, label_selector)
KEYS = [f"{namespace}/{name}".removeprefix("/") for namespace in NAMESPACES for name in NAMES]
NO_OBJECTS: tuple[Any, ...] = (
    "text",
    None,
    {},
    {"metadata": {"name": 5}},
    {"metadata": {"name": "a", "labels": 5}},
)

any_pod = pods(
    label_sets=labels()
    | labels(values=("9", "my_app"))
    | st.sampled_from(({}, {"app": "app", "n": "9"}, {"n": "9", "app": "app"})),
    selected=spec_selectors(),
)
any_selector = selectors() | selectors(values=("9", "my_app", "app"), irregular=())
any_rv = st.sampled_from(RESOURCE_VERSIONS)
tombstones = st.builds(DeletedFinalStateUnknown, st.sampled_from(KEYS), st.none() | any_pod)
bare_keys = st.sampled_from(KEYS).map(ExplicitKey)
deletable = st.one_of(any_pod, tombstones, bare_keys)
events = st.one_of(
    st.builds(event, st.sampled_from(("ADDED", "MODIFIED", "DELETED")), any_pod),
    any_rv.map(lambda rv: event("BOOKMARK", {"metadata": {"resourceVersion": rv}})),
)
operations = st.one_of(
    st.builds(Transaction, st.sampled_from(("add", "update")), any_pod),
    st.builds(Transaction, st.just("delete"), deletable),
    st.builds(Transaction, st.sampled_from(("add", "delete")), st.sampled_from(NO_OBJECTS)),
)


def by_key(objs: Objects) -> list[tuple[str, str]]:
    """Return objects as text, sorted by key; repeats would stay."""
    return sorted((meta_namespace_key_func(obj), repr(obj)) for obj in objs)


class StoreMachine(RuleBasedStateMachine):
    """Drives the model and one backend."""

    open_store: ClassVar[Callable[..., Indexer]]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="sqlcache-test-"))
        self.model: Indexer
        self.store: Indexer
        self.asked: list[SelectorLike] = []
        self.selected: list[dict[str, str] | None] = []  # labels, asked for after each step
        self.pairs: dict[tuple[str, str], None] = {}  # written last, in order

    @initialize(
        names=st.sets(st.sampled_from(sorted(INDEX_FUNCTIONS))),
        asked=st.lists(any_selector, min_size=1, max_size=ASKED),
        selected=st.lists(labels() | st.none(), min_size=1, max_size=ASKED),
        selector_func=st.sampled_from(SELECTOR_FUNCTIONS),
    )
    def start(
        self,
        names: set[str],
        asked: list[SelectorLike],
        selected: list[dict[str, str] | None],
        selector_func: SelectorFunc,
    ) -> None:
        indexers = {name: INDEX_FUNCTIONS[name] for name in sorted(names)}
        self.path = new_path(self.folder)
        self.asked, self.selected = asked, selected
        self.selector_func = selector_func
        self.model = DictStore(indexers=indexers, selector_func=selector_func)
        self.store = self.open(indexers)

    def open(self, indexers: dict[str, IndexFunc], **options: Any) -> Indexer:
        return type(self).open_store(
            self.path, indexers=indexers, selector_func=self.selector_func, **options
        )

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.model.close()
        shutil.rmtree(self.folder)

    def both(self, call: Callable[[Indexer], Any]) -> None:
        """Make a call on both, which must do the same or fail alike."""
        results = []
        for store in (self.model, self.store):
            try:
                results.append(call(store))
            except (SqlcacheError, ValueError) as error:
                results.append((type(error), str(error)))
        note(f"gave {results[0]!r}")
        assert results[0] == results[1]

    # Writes

    @rule(obj=any_pod)
    def add(self, obj: Object) -> None:
        self.both(lambda store: store.add(obj))

    @rule(obj=any_pod)
    def update(self, obj: Object) -> None:
        self.both(lambda store: store.update(obj))

    @rule(key=st.sampled_from(KEYS), rv=any_rv | st.none(), like=any_pod)
    def update_all_but_the_labels(self, key: str, rv: str | None, like: Object) -> None:
        """Or less: without a resourceVersion only what is outside of the metadata."""
        stored = self.model.get_by_key(key)
        if stored is not None:
            version = {} if rv is None else {"resourceVersion": rv}
            meta = {**stored["metadata"], **version}
            changed = {**stored, "metadata": meta, "spec": like["spec"]}
            self.both(lambda store: store.update(changed))

    @rule(obj=deletable)
    def delete(self, obj: Any) -> None:
        self.both(lambda store: store.delete(obj))

    @rule(objs=st.lists(any_pod, max_size=8), rv=any_rv)
    def replace(self, objs: Objects, rv: str) -> None:
        self.both(lambda store: store.replace(objs, rv))

    @rule(batch=st.lists(events, max_size=8))
    def apply(self, batch: list[dict[str, Any]]) -> None:
        self.both(lambda store: store.apply(batch))

    @rule(batch=st.lists(operations, max_size=6))
    def transaction(self, batch: list[Transaction]) -> None:
        self.both(lambda store: store.transaction(*batch))

    @rule(rv=any_rv)
    def bookmark(self, rv: str) -> None:
        self.both(lambda store: store.bookmark(rv))

    @rule(names=st.sets(st.sampled_from(sorted(INDEX_FUNCTIONS)), min_size=1, max_size=2))
    def add_indexers(self, names: set[str]) -> None:
        added = {name: INDEX_FUNCTIONS[name] for name in sorted(names)}

        def add(store: Indexer) -> str | None:
            try:
                store.add_indexers(added)
            except IndexFunctionError as error:
                return error.index  # its key is that of the first object, in no defined order
            return None

        self.both(add)

    @rule(bad=st.sampled_from(NO_OBJECTS), objs=st.lists(any_pod, max_size=2))
    def write_what_is_no_object(self, bad: Any, objs: Objects) -> None:
        self.both(lambda store: store.add(bad))
        self.both(lambda store: store.replace([*objs, bad], "77"))
        self.both(lambda store: store.apply([*(event("ADDED", o) for o in objs), event("X", bad)]))

    # Reads with arguments that the invariant does not cover

    @rule(selector=any_selector, namespace=st.sampled_from((*NAMESPACES, "none")))
    def ask(self, selector: SelectorLike, namespace: str) -> None:
        self.agree_on(selector, namespace)
        explanation = self.store.explain(namespace, selector)
        assert explanation.matched == self.model.count(namespace, selector)
        assert explanation.selector == str(as_selector(selector))
        self.agree_on(selector, namespace)

    @rule(selector=any_selector)
    def ask_from_now_on(self, selector: SelectorLike) -> None:
        self.asked = [selector, *self.asked][:ASKED]

    @rule(obj=any_pod, name=st.sampled_from((*INDEX_FUNCTIONS, "unknown")))
    def index(self, obj: Object, name: str) -> None:
        self.both(lambda store: by_key(store.index(name, obj)))
        self.both(lambda store: store.index_keys(name, obj["metadata"]["name"]))

    # What must always be so

    @invariant()
    def readers_agree(self) -> None:
        self.both(lambda store: by_key(store.list()))
        self.both(lambda store: sorted(store.list_keys()))
        self.both(lambda store: [repr(store.get_by_key(key)) for key in KEYS])
        self.both(lambda store: store.last_store_sync_resource_version())

    @invariant()
    def indexes_agree(self) -> None:
        self.both(lambda store: sorted(store.get_indexers()))
        for name in self.model.get_indexers():
            values = sorted(self.model.list_index_func_values(name))
            assert sorted(self.store.list_index_func_values(name)) == values
            for value in values:
                keys = self.model.index_keys(name, value)
                assert self.store.index_keys(name, value) == keys
                assert by_key(self.store.by_index(name, value)) == by_key(
                    self.model.by_index(name, value)
                )

    @invariant()
    def selectors_agree(self) -> None:
        for position, selector in enumerate(self.asked):
            self.agree_on(selector, (*NAMESPACES, "none")[position % 4])
            self.agree_on(selector, "")
        for obj in self.model.list():
            for pair in (obj["metadata"].get("labels") or {}).items():
                self.pairs.pop(pair, None)
                self.pairs[pair] = None
        for pair in list(self.pairs)[:-PAIRS]:
            del self.pairs[pair]
        for key, value in self.pairs:
            self.agree_on({key: value}, "")

    @invariant()
    def what_selects_agrees(self) -> None:
        """Also with the plain rule, for the model remembers what its objects select."""
        objs = self.model.list()
        for position, wanted in enumerate(self.selected):
            for namespace in ((*NAMESPACES, "none")[position % 4], ""):
                expected = [
                    obj
                    for obj in objs
                    if namespace in ("", obj["metadata"].get("namespace"))
                    and self.selector_func(obj).matches(wanted)
                ]
                for store in (self.model, self.store):
                    assert by_key(store.selecting(namespace, wanted)) == by_key(expected)

    @invariant()
    def statistics_agree(self) -> None:
        def told(store: Indexer) -> Any:
            stats = store.stats()
            labels = sorted((each.key, each.distinct, each.objects) for each in stats.label_keys)
            return stats.objects, stats.namespaces, stats.resource_version, labels

        self.both(told)

    def agree_on(self, selector: SelectorLike, namespace: str) -> None:
        expected = by_key(self.model.select(namespace, selector))
        assert by_key(self.store.select(namespace, selector)) == expected
        assert self.store.count(namespace, selector) == len(expected)


class FileMachine(StoreMachine):
    """Also closes and reopens the file."""

    @rule(others=st.none() | st.sets(st.sampled_from(sorted(INDEX_FUNCTIONS))))
    def reopen(self, others: set[str] | None) -> None:
        """With the index functions as they were, or others that suit what is stored."""
        indexers = self.model.get_indexers()
        if others is not None:
            objs, rv = self.model.list(), self.model.last_store_sync_resource_version()
            wanted = {name: INDEX_FUNCTIONS[name] for name in sorted(others)}
            model = DictStore(indexers=wanted, selector_func=self.selector_func)
            try:
                model.replace(objs, rv)
            except SqlcacheError:  # an index function refuses an object that is there
                model.close()
            else:
                self.model.close()
                self.model, indexers = model, wanted
        self.store.close()
        self.store = self.reopened(indexers)

    def reopened(self, indexers: dict[str, IndexFunc]) -> Indexer:
        return self.open(indexers)


class PolicyMachine(FileMachine):
    """Also reopens it with another policy for label keys; None leaves it as it is."""

    policy: LabelPolicy | None = LabelPolicy(on_demand=True)

    @rule(
        policy=st.sampled_from(
            (
                None,
                LabelPolicy(),
                LabelPolicy(allow=("app",)),
                LabelPolicy(distinct_limit=2),
                LabelPolicy(on_demand=True),
                LabelPolicy(deny=("app",), distinct_limit=3, on_demand=True),
            )
        )
    )
    def next_policy(self, policy: LabelPolicy | None) -> None:
        self.policy = policy

    def reopened(self, indexers: dict[str, IndexFunc]) -> Indexer:
        return self.open(indexers, labels=self.policy)


MACHINES: dict[str, tuple[type[StoreMachine], Callable[..., Indexer]]] = {
    "dict-index": (StoreMachine, lambda path, **options: DictIndexStore(**options)),
    "sqlite": (StoreMachine, lambda path, **options: SqliteStore(None, **options)),
    "sqlite-packed-cold": (
        StoreMachine,
        lambda path, **options: SqliteStore(None, objects="packed", hot_objects=0, **options),
    ),
    "sqlite-packed-hot": (
        StoreMachine,
        lambda path, **options: SoonCompressed(None, objects="packed", hot_objects=3, **options),
    ),
    "sqlite-file": (FileMachine, SqliteStore),
    "sqlite-file-compressed": (FileMachine, SoonCompressed),
    "sqlite-unindexed": (
        StoreMachine,
        lambda path, **options: SqliteStore(
            None, objects="packed", hot_objects=0, labels=LabelPolicy(deny=("app", "n")), **options
        ),
    ),
    "sqlite-file-policies": (PolicyMachine, SqliteStore),
}


def run(machine: type[StoreMachine], opened: Callable[..., Indexer], **changes: Any) -> None:
    named = type("Machine", (machine,), {"open_store": staticmethod(opened)})
    run_state_machine_as_test(
        named,
        settings=settings(
            max_examples=settings().max_examples * 2 // 5,
            stateful_step_count=STEPS,
            suppress_health_check=list(HealthCheck),
            **changes,
        ),
    )


@pytest.mark.parametrize("backend", MACHINES)
def test_backend_and_model_agree_after_every_step(backend: str) -> None:
    run(*MACHINES[backend])


class Forgetful(DictIndexStore):
    """Wrong on purpose: the labels of deleted objects stay."""

    def _drop_labels(self, key: str) -> None:
        pass


class Numbed(DictIndexStore):
    """Wrong on purpose: an update with the same resourceVersion is lost."""

    def update(self, obj: Any) -> None:
        stored = self.get(obj)
        if stored is None or stored["metadata"] != obj["metadata"]:
            super().update(obj)


class Partial(DictIndexStore):
    """Wrong on purpose: what deleted objects select stays."""

    def _drop_selector(self, key: str) -> None:
        pass


@pytest.mark.parametrize("wrong", [Forgetful, Numbed, Partial])
def test_machine_notices_a_store_that_is_wrong(wrong: type[DictIndexStore]) -> None:
    """A harness that cannot fail proves nothing."""
    with pytest.raises((AssertionError, KeyError)):
        run(
            StoreMachine,
            lambda path, **options: wrong(**options),
            phases=[Phase.generate],
            print_blob=False,
            report_multiple_bugs=False,
        )
