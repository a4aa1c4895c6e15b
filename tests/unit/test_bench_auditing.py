"""The audit of a soak: that it finds each kind of lie, and none in the truth."""

from __future__ import annotations

from typing import Any

import pytest

from sqlcache.bench.auditing import Auditor, ObservedListWatch, Stretch, audited
from sqlcache.bench.cluster.churn import State, digest
from sqlcache.bench.scenarios.soak import allowed_growth, compared, growth
from sqlcache.client.api import Event
from sqlcache.clock import MonotonicClock, StopSignal
from sqlcache.objects import DeletedFinalStateUnknown
from sqlcache.store import open_store
from sqlcache.testing.factories import event, pod
from sqlcache.testing.scripted import Answer, ScriptedListWatch, page

A1, B2 = pod("a", rv="1"), pod("b", rv="2")
A3, A4, A5 = (pod("a", rv=rv, labels={"app": rv}) for rv in "345")
GONE5 = pod("a", rv="5")
LIST = [Stretch(0, 2)]
MORE = "more"


def states(*changes: tuple[str, Any]) -> list[State]:
    return [
        State(int(obj["metadata"]["resourceVersion"]), kind, f"default/{name(obj)}", digest(obj))
        for kind, obj in changes
    ]


def name(obj: Any) -> str:
    return str(obj["metadata"]["name"])


LOG = states(("ADDED", A1), ("ADDED", B2), ("MODIFIED", A3), ("MODIFIED", A4))


@pytest.fixture
def auditor() -> Auditor:
    auditor = Auditor()
    auditor.on_add(A1, True)
    auditor.on_add(B2, True)
    return auditor


def test_truth_has_no_fault(auditor: Auditor) -> None:
    auditor.on_update(A1, A3)
    auditor.on_update(A3, A4)
    auditor.on_update(A4, A4)
    auditor.on_delete(GONE5)
    assert audited(auditor, LIST, [*LOG, *states(("DELETED", GONE5))], [B2]) == []
    assert auditor.repeats == 1


def test_lost_event_is_found(auditor: Auditor) -> None:
    auditor.on_update(A1, A3)
    auditor.on_update(A3, A5)
    log = [*LOG, *states(("MODIFIED", A5))]
    assert audited(auditor, LIST, log, [A5, B2]) == ["default/a@4 was never told"]


def test_state_within_a_list_may_be_left_out(auditor: Auditor) -> None:
    auditor.on_update(A1, A4)
    assert audited(auditor, [*LIST, Stretch(2, 4)], LOG, [A4, B2]) == []


def test_doubled_event_is_found(auditor: Auditor) -> None:
    auditor.on_update(A1, A3)
    auditor.on_update(A1, A3)
    faults = audited(auditor, LIST, LOG[:3], [A3, B2])
    assert faults == [
        "default/a was updated from @1 while it was @3",
        "default/a@3 was told twice",
    ]


def test_wrong_order_is_found(auditor: Auditor) -> None:
    auditor.on_update(A1, A4)
    auditor.on_update(A4, A3)
    assert "default/a went back from @4 to @3" in audited(auditor, LIST, LOG, [A4, B2])


def test_state_that_never_was_is_found(auditor: Auditor) -> None:
    auditor.on_update(A1, pod("a", rv="3", labels={"app": "invented"}))
    faults = audited(auditor, LIST, LOG[:3], [A3, B2])
    assert faults == ["default/a@3 was told, but never was"]


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda to: to.on_add(A3, False), "default/a@3 was added while it was there @1"),
        (lambda to: to.on_update(pod("c"), pod("c", rv="3")), "default/c was updated from @1"),
        (lambda to: to.on_delete(pod("c", rv="3")), "default/c was deleted while it was not there"),
        (lambda to: to.on_delete(A1), "default/a was deleted @1 while it was @1"),
        (
            lambda to: to.on_delete(DeletedFinalStateUnknown("default/a", A3)),
            "default/a was lost @3 while it was @1",
        ),
        (
            lambda to: to.on_update(A1, pod("a", rv="1", labels={"app": "other"})),
            "default/a@1 came with two contents",
        ),
    ],
)
def test_impossible_call_is_found(auditor: Auditor, call: Any, fault: str) -> None:
    call(auditor)
    assert auditor.faults[0].startswith(fault)


def test_another_end_is_found(auditor: Auditor) -> None:
    (fault,) = audited(auditor, LIST, LOG[:2], [A1])
    assert fault.startswith("the handler ends at another state")


def test_many_faults_are_counted_not_kept(auditor: Auditor) -> None:
    for _ in range(100):
        auditor.on_add(A1, False)
    assert auditor.fault_count == 200
    assert "180 more of the kind" in audited(auditor, LIST, LOG[:2], [A1, B2])


def test_late_handler_need_not_know_what_came_before_it() -> None:
    late = Auditor()
    late.on_add(A3, True)
    late.on_add(B2, True)
    late.on_update(A3, A4)
    assert audited(late, LIST, LOG, [A4, B2]) == []


def consumed(observed: ObservedListWatch, *, streaming: bool) -> list[Event]:
    stop = StopSignal(MonotonicClock())
    watch = observed.watch(
        resource_version="",
        resource_version_match="",
        send_initial_events=streaming,
        allow_watch_bookmarks=True,
        timeout_seconds=1,
        stop=stop,
    )
    return list(watch)


@pytest.fixture
def observed() -> ObservedListWatch:
    mark = event("BOOKMARK", pod("", rv="9"))
    mark["object"]["metadata"]["annotations"] = {"k8s.io/initial-events-end": "true"}
    scripted = ScriptedListWatch(
        MonotonicClock(),
        [Answer(page("4", [A3])), Answer(page("20", [A3], MORE)), Answer(page("20", []))],
        [
            Answer([event("MODIFIED", pod("a", rv="6"))], ends=True),
            Answer([event("ADDED", pod("a", rv="2"))], ends=True),
            Answer([event("ADDED", pod("a", rv="8")), mark], ends=True),
        ],
    )
    return ObservedListWatch(scripted)


def test_lists_are_noted_with_what_was_seen_before_them(observed: ObservedListWatch) -> None:
    stop = StopSignal(MonotonicClock())
    options: Any = {"resource_version": "", "limit": 0, "stop": stop}
    observed.list_page(continue_token="", **options)
    consumed(observed, streaming=False)
    assert observed.lists == [Stretch(0, 4)]
    consumed(observed, streaming=True)
    assert observed.lists == [Stretch(0, 4)], "this stream ended before its list was whole"
    consumed(observed, streaming=True)
    observed.list_page(continue_token="", **options)
    assert observed.lists == [Stretch(0, 4), Stretch(6, 9)], "the first page is not the list"
    observed.list_page(continue_token=MORE, **options)
    assert observed.lists == [Stretch(0, 4), Stretch(6, 9), Stretch(9, 20)]
    assert (observed.streamed, observed.watches) == (1, 3)


WEB, DB = (pod(name, "team-0", {"app": app}) for name, app in (("a", "app-0"), ("b", "app-1")))


def test_equal_store_has_no_fault() -> None:
    with open_store("sqlite") as store:
        store.replace([WEB, DB], "1")
        assert compared(store, [WEB, DB]) == []


def test_object_that_differs_is_found() -> None:
    with open_store("sqlite") as store:
        store.replace([WEB, DB], "1")
        other = pod("b", "team-0", {"app": "app-1"}, rv="2")
        assert compared(store, [WEB, other]) == ["1 of 2 objects differ, such as team-0/b"]


def test_label_that_was_left_behind_is_found() -> None:
    """As when an update forgets to take the old label out of the index."""
    with open_store("dict-index") as store:
        store.replace([WEB, DB], "1")
        DB["metadata"]["labels"]["app"] = "app-2"
        try:
            faults = compared(store, [WEB, DB])
        finally:
            DB["metadata"]["labels"]["app"] = "app-1"
        assert "app=app-1 in team-0 gives other objects" in faults
        assert "app=app-2 in team-0 gives other objects" in faults


def test_memory_is_flat_when_only_the_first_relists_fill_it() -> None:
    mb = 1_000_000
    filling = [100 * mb, 140 * mb, 150 * mb, *[151 * mb] * 17]
    assert growth(filling) <= allowed_growth(filling)
    creeping = [100 * mb + number * mb for number in range(20)]
    assert growth(creeping) == 10 * mb
    assert growth(creeping) > allowed_growth(creeping)
