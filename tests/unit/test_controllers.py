"""What controllers share: facts about pods, services and addresses, trigger times, the base."""

from __future__ import annotations

import logging
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlcache.controllers import pods as podfacts
from sqlcache.controllers.controller import Controller
from sqlcache.controllers.ips import canonical_ip, family_of
from sqlcache.controllers.podevents import PodEvents
from sqlcache.controllers.services import (
    PodProjectionKey,
    projection,
    services_selecting,
    services_to_update,
    update_projection,
)
from sqlcache.controllers.triggers import TriggerTimeTracker
from sqlcache.errors import QueueShutDownError
from sqlcache.informer import HandlerFuncs, SharedInformer
from sqlcache.objects import DeletedFinalStateUnknown, Object
from sqlcache.store.scan import DictStore
from sqlcache.testing.clock import VirtualClock
from sqlcache.testing.factories import event, pod
from sqlcache.testing.scripted import Answer, ScriptedListWatch, page
from sqlcache.workqueue import MAX_RETRIES, Workers, WorkQueue
from tests.backends import BACKENDS


def service(name: str, selector: dict[str, str] | None = None, **spec: Any) -> Object:
    meta = {"name": name, "namespace": "default", "resourceVersion": "1"}
    return {"metadata": meta, "spec": {"selector": selector, **spec}}


def ready(status: str, **fields: Any) -> Object:
    return {"conditions": [{"type": "Ready", "status": status}], **fields}


# Addresses


@pytest.mark.parametrize(
    ("text", "canonical", "family"),
    [
        ("10.42.0.1", "10.42.0.1", "IPv4"),
        ("010.042.000.001", "10.42.0.1", "IPv4"),
        ("00.00.00.01", "0.0.0.1", "IPv4"),
        ("FD00:0042:0:0::0001", "fd00:42::1", "IPv6"),
        ("::", "::", "IPv6"),
        ("1:0:0:2:0:0:0:3", "1:0:0:2::3", "IPv6"),
        ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7", "IPv6"),
        ("::ffff:10.0.0.1", "10.0.0.1", "IPv4"),
        ("::ffff:0a00:0001", "10.0.0.1", "IPv4"),
        ("::10.0.0.1", "::a00:1", "IPv6"),
        ("fe80::1%eth0", "<nil>", "IPv4"),
        ("10.42.0.256", "<nil>", "IPv4"),
        ("10.42.0.1/24", "<nil>", "IPv4"),
        ("bogus", "<nil>", "IPv4"),
        ("", "<nil>", "IPv4"),
    ],
)
def test_addresses_are_printed_as_go_prints_them(text: str, canonical: str, family: str) -> None:
    assert (canonical_ip(text), family_of(text)) == (canonical, family)


# Pods


def test_fields_that_are_missing_or_null_are_zero_values() -> None:
    for empty in (pod("a"), pod("a", spec=None, status=None), pod("a", status={"podIPs": None})):
        assert not podfacts.is_ready(empty)
        assert podfacts.pod_ips(empty) == []
        assert podfacts.node_name(empty) == ""
        assert podfacts.find_port(empty, {"targetPort": "http"}) is None
        assert not podfacts.should_be_in_endpoints(empty, include_terminating=True)


@pytest.mark.parametrize(
    ("phase", "terminating", "include_terminating", "wanted"),
    [
        ("Running", False, False, True),
        ("Pending", False, False, True),
        ("Running", True, False, False),
        ("Running", True, True, True),
        ("Failed", False, True, False),
        ("Succeeded", False, True, False),
    ],
)
def test_pods_that_are_endpoints(
    phase: str, terminating: bool, include_terminating: bool, wanted: bool
) -> None:
    candidate = pod("a", status={"phase": phase, "podIP": "10.0.0.1"})
    if terminating:
        candidate["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    found = podfacts.should_be_in_endpoints(candidate, include_terminating=include_terminating)
    assert found is wanted


CONTAINERS = {
    "containers": [
        {"ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}]},
        {"ports": [{"name": "dns", "containerPort": 54, "protocol": "TCP"}]},
    ],
    "initContainers": [
        {"ports": [{"name": "setup", "containerPort": 1, "protocol": "TCP"}]},
        {
            "restartPolicy": "Always",
            "ports": [
                {"name": "dns", "containerPort": 99, "protocol": "TCP"},
                {"name": "proxy", "containerPort": 8, "protocol": "TCP"},
            ],
        },
    ],
}


@pytest.mark.parametrize(
    ("target", "protocol", "number"),
    [
        (8080, "TCP", 8080),
        (None, "TCP", 0),
        ("dns", "UDP", 53),
        ("dns", "TCP", 54),
        ("dns", "SCTP", None),
        ("proxy", "TCP", 8),
        ("setup", "TCP", None),
        ("8080", "TCP", None),
    ],
)
def test_ports_are_found_by_name_and_protocol_in_containers_then_sidecars(
    target: Any, protocol: str, number: int | None
) -> None:
    wanted = {"targetPort": target, "protocol": protocol}
    assert podfacts.find_port(pod("a", spec=CONTAINERS), wanted) == number


def test_a_hostname_needs_the_subdomain_and_namespace_of_the_service() -> None:
    named = pod("a", spec={"hostname": "a-0", "subdomain": "web"})
    assert podfacts.hostname_in(named, service("web")) == "a-0"
    assert podfacts.hostname_in(named, service("other")) == ""
    assert podfacts.hostname_in({**named, "metadata": {"namespace": "x"}}, service("web")) == ""


# Pod events


BEFORE = pod(
    "a",
    labels={"app": "web"},
    rv="1",
    spec={"hostname": "h"},
    status=ready("True", podIPs=[{"ip": "10.0.0.1"}]),
)
TERMINATING = {"deletionTimestamp": "2024-01-01T00:00:00Z"}


def after(**changes: Any) -> Object:
    meta = {**BEFORE["metadata"], "resourceVersion": "2", **changes.pop("metadata", {})}
    return {**BEFORE, **changes, "metadata": meta}


@pytest.mark.parametrize(
    ("new", "changed"),
    [
        (after(), (False, False)),
        (after(metadata={"annotations": {"a": "b"}}), (False, False)),
        (after(spec={"hostname": "h", "nodeName": "n"}), (False, False)),
        (after(status={**BEFORE["status"], "phase": "Failed"}), (False, False)),
        (after(status={**BEFORE["status"], "podIP": "10.0.0.1"}), (False, False)),
        (after(status=ready("False", podIPs=[{"ip": "10.0.0.1"}])), (True, False)),
        (after(status=ready("True", podIPs=[{"ip": "10.0.0.2"}])), (True, False)),
        (after(status=ready("True", podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd::1"}])), (True, False)),
        (after(metadata=TERMINATING), (True, False)),
        (after(metadata={"labels": {"app": "x"}}), (False, True)),
        (after(spec={"hostname": "other"}), (False, True)),
        (after(spec={"hostname": "h", "subdomain": "web"}), (False, True)),
        (after(metadata={"labels": None}, status=ready("False")), (True, True)),
    ],
)
def test_changes_of_a_pod_that_concern_endpoints(new: Object, changed: tuple[bool, bool]) -> None:
    assert podfacts.change(BEFORE, new) == changed
    assert (update_projection(BEFORE, new) is not None) is any(changed)


def test_every_update_of_a_terminating_pod_counts() -> None:
    assert podfacts.change(after(metadata=TERMINATING), after(metadata=TERMINATING)).pod


def test_an_equal_resource_version_is_a_resync_and_ignored() -> None:
    changed = {**BEFORE, "status": ready("False")}
    assert update_projection(BEFORE, changed) is None


def test_equal_pod_events_are_equal_keys() -> None:
    other = pod("b", labels={"app": "web"}, status=ready("False"))
    assert projection(BEFORE) == projection(other) == PodProjectionKey("default", WEB)
    assert len({projection(BEFORE), projection(other)}) == 1


WEB = frozenset({("app", "web")})


@pytest.fixture
def services() -> DictStore:
    store = DictStore("services")
    selectors = {"web": {"app": "web"}, "x": {"app": "x"}, "all": {}, "none": None}
    for name, selector in selectors.items():
        store.add(service(name, selector))
    elsewhere = service("elsewhere", {"app": "web"})
    elsewhere["metadata"]["namespace"] = "other"
    store.add(elsewhere)
    return store


@pytest.mark.parametrize(
    ("new", "concerned"),
    [
        (after(status=ready("False")), {"web", "all"}),
        (after(metadata={"labels": {"app": "x"}}), {"web", "x"}),
        (after(metadata={"labels": {"app": "x"}}, status=ready("False")), {"web", "x", "all"}),
        (after(metadata={"labels": {}}), {"web"}),
        (after(metadata={"labels": {"app": "web", "new": "1"}}), set()),
        (after(spec={"hostname": "other"}), set()),
    ],
)
def test_services_that_an_update_concerns(
    services: DictStore, new: Object, concerned: set[str]
) -> None:
    key = update_projection(BEFORE, new)
    assert key is not None
    assert services_to_update(services, key) == {f"default/{name}" for name in concerned}


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_services_selecting_a_pod_on_every_backend(backend: str, tmp_path: Path) -> None:
    with BACKENDS[backend](tmp_path, resource="services") as store:

        @given(selectors=st.lists(st.none() | LABELS, max_size=8), labels=LABELS)
        def check(selectors: list[dict[str, str] | None], labels: dict[str, str]) -> None:
            objs = [service(f"s{number}", each) for number, each in enumerate(selectors)]
            store.replace(objs, "1")
            wanted = {
                f"default/s{number}"
                for number, selector in enumerate(selectors)
                if selector is not None
                and all(labels.get(key) == selector[key] for key in selector)
            }
            assert services_selecting(store, "default", labels) == wanted
            assert services_selecting(store, "other", labels) == set()

        check()


# Trigger times


def timed(name: str, time: str | None) -> Object:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": time}
    return pod(name, status={"conditions": [condition]})


def test_trigger_time_is_the_creation_first_and_the_earliest_change_then() -> None:
    tracker = TriggerTimeTracker()
    web = service("web")
    web["metadata"]["creationTimestamp"] = "2024-01-01T00:00:10Z"
    first = [timed("a", "2024-01-01T00:00:05Z")]
    assert tracker.trigger_time(web, first) == "2024-01-01T00:00:10Z"
    assert tracker.trigger_time(web, first) is None
    changed = [timed("a", "2024-01-01T00:00:30+00:00"), timed("b", "2024-01-01T01:00:20.250+01:00")]
    assert tracker.trigger_time(web, changed) == "2024-01-01T00:00:20.25Z"
    assert tracker.trigger_time(web, [timed("b", "2024-01-01T00:00:01Z")]) is None, "went back"
    assert tracker.trigger_time(web, changed[:1]) == "2024-01-01T00:00:30Z", "b was forgotten"
    recreated = service("web")
    recreated["metadata"]["creationTimestamp"] = "2024-01-01T00:01:00Z"
    assert tracker.trigger_time(recreated, changed[:1]) == "2024-01-01T00:01:00Z"
    tracker.forget("default/web")
    assert tracker.trigger_time(service("web"), changed) is None, "no creationTimestamp"


# Workers


def test_a_failing_item_is_retried_15_times_with_doubled_delays_and_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue("q", clock=clock)
    times: list[float] = []

    def fail(item: str) -> None:
        times.append(clock.now())
        raise OSError("no")

    workers = Workers(queue, fail)
    workers.start()
    queue.add("a")
    with caplog.at_level(logging.ERROR):
        clock.advance(400)
    queue.shut_down()
    assert workers.join(5) == []
    delays = [round(later - now, 3) for now, later in pairwise(times)]
    assert delays == [round(0.005 * 2**n, 3) for n in range(MAX_RETRIES)]
    assert "q: dropping a" in caplog.text
    assert queue.num_requeues("a") == 0


def test_a_success_resets_the_back_off() -> None:
    clock = VirtualClock()
    queue: WorkQueue[str] = WorkQueue("q", clock=clock)
    outcomes = iter([OSError("no"), None, OSError("no"), None])
    done = []

    def handle(item: str) -> None:
        outcome = next(outcomes)
        if outcome:
            raise outcome
        done.append(clock.now())

    workers = Workers(queue, handle)
    start = clock.now()
    for _ in range(2):
        queue.add("a")
        workers.process_next(timeout=0)
        clock.advance(0.005)
        workers.process_next(timeout=0)
    assert [round(at - start, 3) for at in done] == [0.005, 0.01]
    with pytest.raises(TimeoutError):
        workers.process_next(timeout=0)


# The base


class Recorded(Controller):
    """Writes down what it is asked to do."""

    def __init__(self, informer: SharedInformer, clock: VirtualClock | None = None) -> None:
        self.synced: list[str] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        super().__init__("test", [informer], workers=2, clock=clock)
        self.watch(informer, HandlerFuncs(on_add=lambda obj, _: self.queue.add(name(obj))))

    def sync(self, key: str) -> None:
        self.may_go_on.wait()
        self.synced.append(key)

    def caches_synced(self) -> None:
        self.queue.add("leftover")
        raise OSError("only logged")


def name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def test_nothing_is_synced_before_the_caches_are_full(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    list_watch = ScriptedListWatch(
        clock, [Answer(page("10", [pod("a"), pod("b")]), held=True)], [Answer()]
    )
    with DictStore() as store:
        informer = SharedInformer(list_watch, store, use_watch_list=False, clock=clock)
        controller = Recorded(informer, clock)
        controller.queue.add("early")
        with informer, controller:
            clock.advance(5)
            assert controller.synced == []
            list_watch.release()
            clock.advance(1)
            assert sorted(controller.synced) == ["a", "b", "early", "leftover"]
            list_watch.send(event("ADDED", pod("c", rv="11")))
            clock.settle()
            assert controller.synced[-1] == "c"
    assert "could not do all that is done at the start" in caplog.text


def test_stop_syncs_what_waits_and_takes_nothing_more() -> None:
    list_watch = ScriptedListWatch(lists=[Answer(page("10", [pod("a")]))], watches=[Answer()])
    with DictStore() as store, SharedInformer(list_watch, store, use_watch_list=False) as informer:
        controller = Recorded(informer)
        controller.may_go_on.clear()
        assert informer.wait_for_sync(5)
        controller.start()
        for key in ("b", "c", "d"):
            controller.queue.add(key)
        assert not controller.stop(timeout_s=0.05), "a sync is under way"
        controller.may_go_on.set()
        assert controller.stop()
        assert {"b", "c", "d"} <= set(controller.synced)
        controller.queue.add("late")
        list_watch.send(event("ADDED", pod("e", rv="11")))
        with pytest.raises(QueueShutDownError):
            controller.process_next()


def test_stop_while_the_caches_are_empty_ends_soon() -> None:
    with DictStore() as store:
        controller = Recorded(SharedInformer(ScriptedListWatch(), store))
        controller.start()
        assert controller.stop(timeout_s=5)
        assert controller.synced == []


def test_stop_handles_pod_events_that_wait(services: DictStore) -> None:
    """Their services must be synced as well, or a restart in another place starts behind."""
    list_watch = ScriptedListWatch(lists=[Answer(page("10"))], watches=[Answer()])
    with DictStore() as store, SharedInformer(list_watch, store, use_watch_list=False) as informer:
        controller = Recorded(informer)
        events = PodEvents(controller, services, workers=1)
        controller.may_go_on.clear()
        assert informer.wait_for_sync(5)
        controller.start()
        for key in ("b", "c"):
            controller.queue.add(key)
        for label in range(200):
            events.on_add(pod("a", labels={"app": "web", "other": str(label)}), False)
        threading.Timer(0.1, controller.may_go_on.set).start()
        assert controller.stop()
        assert {"b", "c", "default/all", "default/web"} <= set(controller.synced)


def test_a_controller_can_be_driven_without_threads(services: DictStore) -> None:
    with DictStore() as store:
        informer = SharedInformer(ScriptedListWatch(), store)
        controller = Recorded(informer)
        events = PodEvents(controller, services, workers=1)
        events.on_add(BEFORE, False)
        events.on_add(pod("b", labels={"app": "web"}), False)
        events.on_update(BEFORE, after())
        events.on_delete(DeletedFinalStateUnknown("default/a", BEFORE))
        events.on_delete(DeletedFinalStateUnknown("default/gone", None))
        steps = 0
        while controller.process_next():
            steps += 1
        assert sorted(controller.synced) == ["default/all", "default/web"]
        assert steps == 3, "all those events are one"
