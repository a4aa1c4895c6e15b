"""Stores against the vectors that the real client-go computed.

SQLCACHE_GOLDEN names the folder of the vectors; the default is ../shared/golden beside the
repository, or else the sample in tests/data.

One difference is deliberate. Where an index function fails, client-go panics with the object
already stored; here the same text is raised and nothing is stored. From that step on the vectors
describe a store with that object in it, so they cannot be compared with. The rule, for any case:

1. Up to and with the first panic, every result must be that of the vector.
2. Afterwards, every result must be that of the model `Careful`, which replays all steps and leaves
   failed writes out.
3. The model is no free invention: up to the first panic it must give the vector's results too, and
   its sister `ClientGo`, which differs only in leaving failed writes half done, must give those of
   all steps of the vector, also after panics.

The same holds from the first write of something that is no API object (a tombstone given to add),
which client-go stores and this package refuses.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqlcache.errors import (
    IndexFunctionError,
    SelectorSyntaxError,
    SqlcacheError,
    TransactionError,
)
from sqlcache.lister import PodLister
from sqlcache.objects import (
    NAMESPACE_INDEX,
    DeletedFinalStateUnknown,
    ExplicitKey,
    IndexFunc,
    KeyFunc,
    deletion_handling_meta_namespace_key_func,
    index_func_to_key_func_adapter,
    labels_of,
    meta_namespace_index_func,
    meta_namespace_key_func,
    metadata,
    object_name,
    split_meta_namespace_key,
)
from sqlcache.store.api import Transaction
from tests.backends import BACKENDS, OpenStore, open_bounded_store
from tests.golden.client_go import Careful, ClientGo, UnspecifiedError
from tests.golden.vectors import vector_file

Case = dict[str, Any]
Result = dict[str, Any]

FILE = vector_file("store.json")
CASES: list[Case] = json.loads(FILE.read_bytes())["cases"] if FILE.is_file() else []

pytestmark = pytest.mark.skipif(not CASES, reason=f"no golden vectors: {FILE} is absent")


# The index and key functions of the vectors


def labels(obj: Any) -> dict[str, str]:
    metadata(obj)
    return dict(labels_of(obj))


def always_failing(obj: Any) -> list[str]:
    raise ValueError("index function failed")


def failing_on_bad(obj: Any) -> list[str]:
    if labels(obj).get("bad"):
        raise ValueError(f"bad label on {object_name(obj).name}")
    return ["good"]


INDEX_FUNCTIONS: dict[str, IndexFunc] = {
    "app": lambda obj: [labels(obj)["app"]] if "app" in labels(obj) else [],
    "appAlways": lambda obj: [labels(obj).get("app", "")],
    "appTwice": lambda obj: [labels(obj).get("app", "")] * 2,
    "error": always_failing,
    "errorOnBad": failing_on_bad,
    NAMESPACE_INDEX: meta_namespace_index_func,
    "nodeName": lambda obj: [(obj.get("spec") or {}).get("nodeName") or ""],
    "none": lambda obj: [],
    "nsLabels": lambda obj: [
        f"ns:{object_name(obj).namespace}/label:{key}={value}" for key, value in labels(obj).items()
    ],
}


def key_func(name: str) -> KeyFunc:
    if name == "deletionHandling":
        return deletion_handling_meta_namespace_key_func
    if name == "metaNamespace":
        return meta_namespace_key_func
    index = name.removeprefix("indexAdapter")
    return index_func_to_key_func_adapter(INDEX_FUNCTIONS[index[0].lower() + index[1:]])


def options(case: Case) -> dict[str, Any]:
    return {
        "key_func": key_func(case["keyFunc"]),
        "indexers": {name: INDEX_FUNCTIONS[name] for name in case["indexers"] or []},
    }


# What the steps call


def argument(op: Case) -> Any:
    """Return the argument of a step or of a transaction's part."""
    raw = op.get("raw")
    if raw is None:
        return op.get("obj")
    if raw == "string":
        return "just a string"
    if raw == "nil":
        return None
    if raw == "explicitKey":
        return ExplicitKey(op["key"])
    if raw == "tombstone":
        return DeletedFinalStateUnknown(op["key"], op.get("obj"))
    if raw == "tombstoneNil":
        return DeletedFinalStateUnknown(op["key"], None)
    raise NotImplementedError(f"raw argument {raw!r}")


def arguments(op: Case) -> list[Any]:
    """Return the objects of a replace; one that is no object is written like a step's."""
    return [argument(obj) if "raw" in obj else obj for obj in op.get("objs") or []]


def transactions(op: Case) -> list[Transaction]:
    return [Transaction(txn["op"].lower(), argument(txn)) for txn in op.get("txns") or []]


def shown(obj: Any) -> str:
    """Return namespace/name@resourceVersion."""
    if obj is None:
        return "<nil>"
    namespace, name = object_name(obj)
    return f"{namespace}/{name}@{metadata(obj).get('resourceVersion') or ''}".removeprefix("/")


def items(objs: Any) -> Result:
    return {"items": sorted(map(shown, objs))}


def item(obj: Any) -> Result:
    return {"exists": obj is not None, "item": None if obj is None else shown(obj)}


def named(name: Any) -> Result:
    return {"namespace": name.namespace, "name": name.name, "string": str(name)}


def nothing(_: Any) -> Result:
    return {}


def selector(op: Case) -> Any:
    return op.get("selector", op.get("value")) or ""


# For each step: the call, and its result in the form of the vectors.
Step = Callable[[Any, Case], Result]
STEPS: dict[str, Step] = {
    "add": lambda store, op: nothing(store.add(argument(op))),
    "update": lambda store, op: nothing(store.update(argument(op))),
    "delete": lambda store, op: nothing(store.delete(argument(op))),
    "replace": lambda store, op: nothing(store.replace(arguments(op), op.get("rv", ""))),
    "transaction": lambda store, op: nothing(store.transaction(*transactions(op))),
    "bookmark": lambda store, op: nothing(store.bookmark(op.get("rv", ""))),
    "addIndexers": lambda store, op: nothing(
        store.add_indexers({name: INDEX_FUNCTIONS[name] for name in op["names"]})
    ),
    "resync": lambda store, op: nothing(store.resync()),
    "get": lambda store, op: item(store.get(argument(op))),
    "getByKey": lambda store, op: item(store.get_by_key(op["key"])),
    "list": lambda store, op: items(store.list()),
    "listKeys": lambda store, op: {"keys": sorted(store.list_keys())},
    "lastRV": lambda store, op: {"rv": store.last_store_sync_resource_version()},
    "getIndexers": lambda store, op: {"names": sorted(store.get_indexers())},
    "index": lambda store, op: items(store.index(op["index"], argument(op))),
    "byIndex": lambda store, op: items(store.by_index(op["index"], op.get("value", ""))),
    "indexKeys": lambda store, op: {"keys": store.index_keys(op["index"], op.get("value", ""))},
    "listIndexFuncValues": lambda store, op: {
        "values": sorted(store.list_index_func_values(op["index"]))
    },
    "keyMetaNamespace": lambda store, op: {"key": meta_namespace_key_func(argument(op))},
    "keyDeletionHandling": lambda store, op: {
        "key": deletion_handling_meta_namespace_key_func(argument(op))
    },
    "splitKey": lambda store, op: named(split_meta_namespace_key(op["key"])),
    "objectName": lambda store, op: named(object_name(argument(op))),
    "listerList": lambda store, op: items(PodLister(store).list(selector(op))),
    "listerNamespaceList": lambda store, op: items(
        PodLister(store).pods(op.get("namespace", "")).list(selector(op))
    ),
    "listerGet": lambda store, op: item(
        PodLister(store).pods(op.get("namespace", "")).get(op["value"])
    ),
}
# What a step gives beside its error.
AFTER_ERROR: Result = {
    "items": [],
    "keys": [],
    "values": [],
    "exists": False,
    "item": None,
    "key": "",
    "namespace": "",
    "name": "",
    "string": "",
}
_TRANSACTION_FIELDS: dict[str, Callable[[TransactionError], Any]] = {
    "successfulIndices": lambda error: [*error.successful_indices],
    "successful": lambda error: [*error.successful_indices],
    "totalTransactions": lambda error: error.total_transactions,
    "total": lambda error: error.total_transactions,
    "errors": lambda error: [*map(str, error.errors)],
}


def perform(store: Any, op: Case) -> Result:
    """Make a step's call and return its result in the form of the vectors."""
    step = STEPS[op["op"]]
    try:
        return step(store, op)
    except IndexFunctionError as error:
        return {"panic": str(error)}
    except TransactionError as error:
        fields = {name: field(error) for name, field in _TRANSACTION_FIELDS.items()}
        return {"error": str(error), **fields}
    except SelectorSyntaxError as error:
        return {**AFTER_ERROR, "error": error.reason}
    except (SqlcacheError, ValueError) as error:
        return {**AFTER_ERROR, "error": str(error)}


# Comparing


def normal(value: Any) -> Any:
    """Return a result's field with objects without namespace shown in one way, and null as []."""
    if isinstance(value, list):
        return [normal(each) for each in value]
    return value.removeprefix("/") if isinstance(value, str) and "@" in value else value


def assert_result(result: Result, expected: Result, *, panics: set[str] | None = None) -> None:
    """Compare with a vector's result.

    Args:
        result: of `perform`.
        expected: the vector's.
        panics: texts of a panic that are all right, where the vector's is one of several.
    """
    for failure in ("error", "panic"):
        assert (failure in result) == (failure in expected), (result, expected)
    if "panic" in expected:
        assert result["panic"] in (panics or {expected["panic"]})
        return
    for field, value in expected.items():
        if field == "error":
            assert_error(result["error"], expected)
        elif field not in ("errorIsPrefix", "errorSuffix"):
            assert field in result, f"{field} is not understood: {expected}"
            wanted = [] if value is None and isinstance(result[field], list) else value
            assert normal(result[field]) == normal(wanted), field


def assert_error(text: str, expected: Result) -> None:
    if expected.get("errorIsPrefix"):
        assert text.startswith(expected["error"])
        assert text.endswith(expected.get("errorSuffix", ""))
    else:
        assert text == expected["error"]


def possible_panics(model: Careful, op: Case) -> set[str]:
    """Return all texts that a step may panic with: Go visits indexes and objects in any order."""
    if op["op"] == "addIndexers":
        objs = list(model.items.items())
        index_funcs = {name: INDEX_FUNCTIONS[name] for name in op["names"]}
    else:
        objs = [
            (model.key_func(obj), obj)
            for obj in written_by(op)
            if isinstance(obj, dict) and has_key(obj, model.key_func)
        ]
        index_funcs = model.get_indexers()
    texts = set()
    for key, obj in objs:
        for name, index_func in index_funcs.items():
            try:
                index_func(obj)
            except ValueError as error:
                texts.add(str(IndexFunctionError(key, name, str(error))))
    return texts


def written_by(op: Case) -> list[Any]:
    """Return what a step means to store."""
    if op["op"] in ("add", "update"):
        return [argument(op)]
    return [*arguments(op), *(obj for kind, obj in transactions(op) if kind != "delete")]


def writes_no_object(op: Case, key_func: KeyFunc) -> bool:
    """Return whether a step stores what has a key but is no API object."""
    return any(has_key(obj, key_func) for obj in written_by(op) if not isinstance(obj, dict))


def has_key(obj: Any, key_func: KeyFunc) -> bool:
    try:
        key_func(obj)
    except ValueError:
        return False
    return True


def case_id(case: Case) -> str:
    return str(case["name"])


@pytest.mark.parametrize(
    "open_store", [*BACKENDS.values(), open_bounded_store], ids=[*BACKENDS, "sqlite-bounded-labels"]
)
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_store_answers_as_client_go(case: Case, open_store: OpenStore, tmp_path: Path) -> None:
    model = Careful(**options(case))
    apart = False
    with open_store(tmp_path, **options(case)) as store:
        for number, step in enumerate(case["steps"]):
            op, expected = step["op"], step["result"]
            panics = None if case["deterministic"] else possible_panics(model, op)
            result, modelled = perform(store, op), perform(model, op)
            apart = apart or writes_no_object(op, model.key_func)
            try:
                if not apart:
                    assert_result(result, expected, panics=panics)
                    assert_result(modelled, expected, panics=panics)
                apart = apart or "panic" in expected
                if apart:
                    assert_result(result, modelled, panics=panics)
            except AssertionError as error:
                error.add_note(f"in step {number}: {op} gave {result}, the vector {expected}")
                raise


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_model_of_client_go_gives_the_results_of_all_steps(case: Case) -> None:
    model = ClientGo(**options(case))
    panicked = False
    for step in case["steps"]:
        op, expected = step["op"], step["result"]
        panics = None if case["deterministic"] else possible_panics(model, op)
        try:
            result = perform(model, op)
        except UnspecifiedError:
            return
        panicked = panicked or "panic" in expected
        if panicked and not case["deterministic"] and "index" in op:
            continue  # which index was updated before the panic is random
        assert_result(result, expected, panics=panics)


def test_every_case_says_something() -> None:
    for case in CASES:
        assert case["steps"], case["name"]
        assert {step["op"]["op"] for step in case["steps"]} <= STEPS.keys(), case["name"]
