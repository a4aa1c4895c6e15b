"""The parts of an informer: delta queue, back-off, transforms, handlers."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from sqlcache.errors import ApiStatusError, ObjectError
from sqlcache.informer import Backoff, FilteringHandler, HandlerFuncs, strip_managed_fields
from sqlcache.informer.deltas import (
    BATCH_EVENTS,
    EVENTS_WAITING,
    Delta,
    DeltaQueue,
    DeltaType,
    Entry,
    entries,
)
from sqlcache.informer.pieces import Pieces
from sqlcache.informer.reflector import is_expired, is_too_large
from sqlcache.objects import DeletedFinalStateUnknown
from sqlcache.testing.clock import VirtualClock
from sqlcache.testing.factories import pod

Batches = list[tuple[list[str], bool]]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def pop(queue: DeltaQueue) -> tuple[list[str], bool]:
    """Pop a batch and return its keys, or types of those without, and whether it is initial."""
    popped: Batches = []

    def process(deltas: Any, initial: bool) -> None:
        popped.append(([delta.key or delta.type.value for delta in deltas], initial))

    assert queue.pop_batch(process)
    return popped[0]


def listed(*names: str) -> Pieces[Entry]:
    return Pieces(entries(map(pod, names)))


def test_batch_ends_before_a_key_comes_again(clock: VirtualClock) -> None:
    queue = DeltaQueue(clock)
    queue.add(pod("a"))
    queue.update(pod("b"))
    queue.delete(pod("a"))
    queue.add(pod("c"))
    assert pop(queue)[0] == ["default/a", "default/b"]
    assert pop(queue)[0] == ["default/a", "default/c"]
    assert queue.idle()


def test_lists_resyncs_and_bookmarks_are_batches_of_their_own(clock: VirtualClock) -> None:
    queue = DeltaQueue(clock)
    queue.add(pod("a"))
    queue.replace(listed("a"), "10")
    queue.resync()
    queue.bookmark("11")
    queue.add(pod("b"))
    batches = [pop(queue)[0] for _ in range(5)]
    assert batches == [["default/a"], ["ReplacedAll"], ["SyncAll"], ["Bookmark"], ["default/b"]]


def test_batch_is_bounded(clock: VirtualClock) -> None:
    queue = DeltaQueue(clock)
    for number in range(BATCH_EVENTS + 1):
        queue.add(pod(f"p{number}"))
    assert [len(pop(queue)[0]), len(pop(queue)[0])] == [BATCH_EVENTS, 1]


def test_synced_once_the_first_list_is_processed(clock: VirtualClock) -> None:
    queue = DeltaQueue(clock)
    queue.replace(listed("a"), "10")
    queue.add(pod("b"))
    assert not queue.has_synced()
    during: list[bool] = []
    queue.pop_batch(lambda deltas, initial: during.extend([initial, queue.has_synced()]))
    assert during == [True, False]
    assert queue.has_synced()
    assert pop(queue) == (["default/b"], False)


def test_list_that_cannot_be_processed_leaves_it_unsynced(clock: VirtualClock) -> None:
    queue = DeltaQueue(clock)
    queue.replace(listed("a"), "10")

    def fail(deltas: Any, initial: bool) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        queue.pop_batch(fail)
    assert not queue.has_synced()
    queue.replace(listed("a"), "11")
    assert pop(queue) == (["ReplacedAll"], True)
    assert queue.has_synced()


def test_refused_object_is_not_queued(clock: VirtualClock) -> None:
    def transform(obj: Any) -> Any:
        if obj["metadata"]["name"] == "bad":
            raise KeyError("bad")
        return {**obj, "seen": True}

    queue = DeltaQueue(clock, transform)
    with pytest.raises(KeyError):
        queue.add(pod("bad"))
    with pytest.raises(ObjectError):
        queue.add({"no": "metadata"})
    assert queue.idle()
    queue.add(pod("a"))
    taken: list[Delta] = []
    queue.pop_batch(lambda deltas, initial: taken.extend(deltas))
    assert taken == [Delta(DeltaType.ADDED, "default/a", {**pod("a"), "seen": True})]


def test_producer_waits_while_a_long_queue_is_processed(clock: VirtualClock) -> None:
    """A store that is slower than the server must not let memory grow without end."""
    queue = DeltaQueue(clock)
    for number in range(EVENTS_WAITING + BATCH_EVENTS):
        queue.add(pod(f"p{number}"))
    producer = threading.Thread(target=queue.add, args=(pod("late"),))
    order: list[str] = []

    def process(deltas: Any, initial: bool) -> None:
        producer.start()
        clock.settle()
        order.append("waits" if producer.is_alive() else "went on")

    queue.pop_batch(process)
    producer.join()
    assert order == ["waits"]


def test_closed_queue_gives_nothing_more(clock: VirtualClock) -> None:
    queue = DeltaQueue(clock)
    queue.add(pod("a"))
    queue.close()
    assert not queue.pop_batch(lambda deltas, initial: pytest.fail("closed"))


def test_backoff_doubles_up_to_its_cap_and_starts_over_after_quiet(clock: VirtualClock) -> None:
    backoff = Backoff(clock, jitter=0.0)
    assert [backoff.step() for _ in range(8)] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]
    clock.advance(30 + 119)
    assert backoff.step() == 30, "it was quiet only since the end of the last delay"
    clock.advance(30 + 121)
    assert backoff.step() == 0.8


def test_backoff_jitter_adds_up_to_the_whole_delay(clock: VirtualClock) -> None:
    delays = [Backoff(clock, rng=random.Random(seed)).step() for seed in range(200)]
    assert all(0.8 <= delay < 1.6 for delay in delays)
    assert max(delays) - min(delays) > 0.7


def test_strip_managed_fields_leaves_the_rest() -> None:
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    full = pod("a", labels={"a": "b"})
    full["metadata"] |= {"managedFields": [1], "annotations": {applied: "{}", "keep": "1"}}
    kept = pod("a", labels={"a": "b"})
    kept["metadata"]["annotations"] = {"keep": "1"}
    assert strip_managed_fields(full) == kept
    only = pod("a")
    only["metadata"]["annotations"] = {applied: "{}"}
    assert strip_managed_fields(only) == pod("a")
    assert strip_managed_fields({"kind": "odd"}) == {"kind": "odd"}


def test_filter_turns_updates_into_adds_and_deletes() -> None:
    seen: list[tuple[str, str]] = []

    def note(kind: str) -> Any:
        return lambda *args: seen.append((kind, args[0]["metadata"]["resourceVersion"]))

    handler = FilteringHandler(
        lambda obj: "x" in obj["metadata"]["labels"],
        HandlerFuncs(note("add"), note("update"), note("delete")),
    )
    without, with_x = (
        {"metadata": {"resourceVersion": "0", "labels": {}}},
        pod("a", labels={"x": ""}),
    )
    handler.on_add(without, False)
    handler.on_add(with_x, False)
    handler.on_update(without, with_x)
    handler.on_update(with_x, with_x)
    handler.on_update(with_x, without)
    handler.on_update(without, without)
    handler.on_delete(without)
    handler.on_delete(with_x)
    assert [kind for kind, _ in seen] == ["add", "add", "update", "delete", "delete"]


def test_left_out_functions_are_not_called() -> None:
    handler = HandlerFuncs()
    handler.on_add(pod("a"), True)
    handler.on_update(pod("a"), pod("a"))
    handler.on_delete(DeletedFinalStateUnknown("default/a", None))


def error(**status: Any) -> ApiStatusError:
    return ApiStatusError.from_status({"kind": "Status", **status})


@pytest.mark.parametrize(
    ("status", "expired", "too_large"),
    [
        ({"code": 410, "reason": "Expired"}, True, False),
        ({"code": 410, "reason": "Gone"}, True, False),
        ({"code": 410}, True, False),
        ({"code": 410, "reason": "NotFound"}, False, False),
        ({"code": 504, "reason": "Timeout"}, False, False),
        ({"code": 504, "message": "Timeout: Too large resource version: 9"}, False, True),
        (
            {
                "reason": "Timeout",
                "details": {"causes": [{"message": "Too large resource version"}]},
            },
            False,
            True,
        ),
        ({"details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}, False, True),
        ({"message": "Too large resource version"}, False, False),
        ({"details": {"causes": None}}, False, False),
    ],
)
def test_errors_are_told_apart(status: Any, expired: bool, too_large: bool) -> None:
    assert is_expired(error(**status)) is expired
    assert is_too_large(error(**status)) is too_large


def test_any_object_makes_a_status_error() -> None:
    waiting = error(code=429, reason="TooManyRequests", details={"retryAfterSeconds": 3})
    assert waiting.retry_after == 3
    assert str(error(code=500, reason="InternalError")) == "500 InternalError"
    assert "unexpected object" in str(ApiStatusError.from_status(pod("a")))
    assert "unexpected object" in str(ApiStatusError.from_status(None))
