"""Leader election: who holds a Lease, when it is taken over, when it counts as lost."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sqlcache.client import Resource
from sqlcache.clock import StopSignal
from sqlcache.errors import ApiConnectionRefusedError, ApiStatusError, LeaseLostError
from sqlcache.manager.election import LeaderElector, identity
from sqlcache.objects import Object, Objects
from sqlcache.testing.apiserver import ApiError, ApiServer
from sqlcache.testing.clock import VirtualClock

WRONG_CLOCK = datetime(1999, 12, 31, 23, 59, 59, 123456, UTC)


class DirectApi:
    """The objects of a test API server without HTTP, so that time can be virtual.

    Attributes:
        reachable: whether the server can be reached.
        hanging: while it is not set, requests get no answer.
        calls: methods that were called.
    """

    def __init__(self, server: ApiServer, clock: VirtualClock) -> None:
        self._server = server
        self.reachable = True
        self.hanging = StopSignal(clock)
        self.hanging.set()
        self.calls: list[str] = []

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        return self._ask("get", lambda: self._server.get(resource.plural, name, namespace))

    def create(self, resource: Resource, namespace: str, obj: Object) -> Object:
        return self._ask("create", lambda: self._server.create(resource.plural, obj))

    def update(self, resource: Resource, namespace: str, obj: Object) -> Object:
        return self._ask("update", lambda: self._server.update(resource.plural, obj))

    def list(self, resource: Resource, namespace: str = "", label_selector: str = "") -> Objects:
        raise NotImplementedError

    def patch(self, resource: Resource, namespace: str, name: str, patch: Object) -> Object:
        raise NotImplementedError

    def delete(self, resource: Resource, namespace: str, name: str) -> None:
        raise NotImplementedError

    def _ask(self, verb: str, call: Callable[[], Object]) -> Object:
        self.calls.append(verb)
        self.hanging.wait()
        if not self.reachable:
            raise ApiConnectionRefusedError("nobody there")
        try:
            return call()
        except ApiError as error:
            raise ApiStatusError.from_status(error.status) from error


class Candidate:
    """An elector, and what became of it."""

    def __init__(self, server: ApiServer, clock: VirtualClock, name: str, **options: Any) -> None:
        self.api = DirectApi(server, clock)
        self.gauge: list[float] = []
        self.elector = LeaderElector(
            self.api,
            namespace="default",
            name="it",
            identity=name,
            gauge=self,
            clock=clock,
            rng=random.Random(1),
            **options,
        )
        self.stop = StopSignal(clock)
        self.lost: list[tuple[float, str]] = []
        self._clock = clock
        self._thread = threading.Thread(target=self._run, name=name)

    def set(self, value: float) -> None:
        self.gauge.append(value)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        if self.elector.acquire(self.stop):
            self.elector.hold(self._lost)

    def _lost(self, error: LeaseLostError) -> None:
        self.lost.append((self._clock.now(), str(error)))

    def die(self) -> None:
        """Renew no more, as a process that was killed."""
        self.api.reachable = False

    def end(self) -> None:
        self.api.hanging.set()
        self.stop.set()
        self._thread.join()
        self.elector.release()


@pytest.fixture
def server() -> ApiServer:
    return ApiServer()  # not started: nobody talks to it over HTTP


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def candidate(server: ApiServer, clock: VirtualClock) -> Iterator[Callable[..., Candidate]]:
    """Return what starts a candidate."""
    made: list[Candidate] = []

    def start(name: str, **options: Any) -> Candidate:
        found = Candidate(server, clock, name, **options)
        found.start()
        made.append(found)
        clock.settle()
        return found

    yield start
    for each in made:
        each.end()


Start = Callable[..., Candidate]


def spec(server: ApiServer) -> Object:
    found: Object = server.get("leases", "it")["spec"]
    return found


class TestAcquire:
    def test_a_lease_that_is_not_there_is_made(self, server: ApiServer, candidate: Start) -> None:
        first = candidate("first", now=lambda: WRONG_CLOCK)
        assert first.elector.is_leading()
        assert first.gauge == [0, 1]
        assert spec(server) == {
            "holderIdentity": "first",
            "leaseDurationSeconds": 15,
            "acquireTime": "1999-12-31T23:59:59.123456Z",
            "renewTime": "1999-12-31T23:59:59.123456Z",
            "leaseTransitions": 0,
        }

    def test_one_leads_as_long_as_it_renews(
        self, server: ApiServer, clock: VirtualClock, candidate: Start
    ) -> None:
        """Whatever the clocks of the two say."""
        ticks = itertools.count(1)
        first = candidate("first", now=lambda: WRONG_CLOCK - timedelta(seconds=next(ticks)))
        second = candidate("second")
        acquired = spec(server)["acquireTime"]
        clock.advance(3600)
        assert (first.elector.is_leading(), second.elector.is_leading()) == (True, False)
        assert first.api.calls.count("update") == pytest.approx(1800, abs=2)
        assert "update" not in second.api.calls
        assert spec(server)["acquireTime"] == acquired
        assert spec(server)["leaseTransitions"] == 0

    def test_the_lease_of_a_dead_leader_is_taken_when_it_expired(
        self, server: ApiServer, clock: VirtualClock, candidate: Start
    ) -> None:
        first, second = candidate("first"), candidate("second")
        clock.advance(20)
        first.die()
        clock.advance(14.5)  # the last renewal was in the second before
        assert not second.elector.is_leading()
        clock.advance(6)  # and some, for an attempt comes after 2 to 4.4 s
        assert second.elector.is_leading()
        assert spec(server)["holderIdentity"] == "second"
        assert spec(server)["leaseTransitions"] == 1

    def test_a_lease_is_observed_before_it_is_taken(
        self, server: ApiServer, clock: VirtualClock, candidate: Start
    ) -> None:
        """An old renewTime proves nothing: the clock that wrote it may be wrong."""
        held = {"holderIdentity": "x", "leaseDurationSeconds": 15, "leaseTransitions": 6}
        renewed = {"renewTime": "1999-12-31T23:59:59.000000Z"}
        server.create("leases", {"metadata": {"name": "it"}, "spec": {**held, **renewed}})
        first = candidate("first")
        clock.advance(14.9)
        assert not first.elector.is_leading()
        clock.advance(4.5)
        assert first.elector.is_leading()
        assert spec(server)["leaseTransitions"] == 7

    def test_the_duration_is_that_of_the_holder(
        self, server: ApiServer, clock: VirtualClock, candidate: Start
    ) -> None:
        held = {"holderIdentity": "x", "leaseDurationSeconds": 60}
        server.create("leases", {"metadata": {"name": "it"}, "spec": held})
        first = candidate("first")
        clock.advance(59)
        assert not first.elector.is_leading()
        clock.advance(5)
        assert first.elector.is_leading()

    @pytest.mark.parametrize(
        "held",
        [
            {},
            {"holderIdentity": ""},
            {"holderIdentity": "x"},  # lasts for no time at all
            {"holderIdentity": "first", "leaseDurationSeconds": 600},
        ],
    )
    def test_a_lease_that_nobody_else_holds_is_taken_at_once(
        self, server: ApiServer, candidate: Start, held: Object
    ) -> None:
        meta = {"name": "it", "labels": {"kept": "yes"}}
        server.create("leases", {"metadata": meta, "spec": held})
        assert candidate("first").elector.is_leading()
        assert server.get("leases", "it")["metadata"]["labels"] == {"kept": "yes"}

    def test_of_many_one_wins(self, clock: VirtualClock, candidate: Start) -> None:
        all_of_them = [candidate(f"c{number}") for number in range(8)]
        for _ in range(7):
            clock.advance(30)
            (leader,) = (each for each in all_of_them if each.elector.is_leading())
            leader.die()
            clock.advance(30)

    def test_it_waits_for_an_api_server_that_is_down(
        self, server: ApiServer, clock: VirtualClock, candidate: Start
    ) -> None:
        server.create("leases", {"metadata": {"name": "it"}, "spec": {}})
        first = Candidate(server, clock, "first")
        first.api.reachable = False
        first.start()
        clock.advance(60)
        assert not first.elector.is_leading()
        first.api.reachable = True
        clock.advance(5)
        assert first.elector.is_leading()
        first.end()

    def test_a_stop_ends_the_waiting(
        self, server: ApiServer, clock: VirtualClock, candidate: Start
    ) -> None:
        candidate("first")
        second = candidate("second")
        second.stop.set()
        clock.settle()
        second.end()
        assert spec(server)["holderIdentity"] == "first"


class TestHold:
    def test_it_is_lost_before_others_may_take_it(
        self, clock: VirtualClock, candidate: Start
    ) -> None:
        first = candidate("first")
        clock.advance(20)
        renewed_at = clock.now()
        first.die()
        clock.advance(15)
        ((at, text),) = first.lost
        assert at <= renewed_at + 12
        assert text == "lease default/it is lost: it could not be renewed for 12 s"
        assert not first.elector.is_leading()
        assert first.gauge == [0, 1, 0]

    def test_it_is_lost_while_a_request_hangs(
        self, clock: VirtualClock, server: ApiServer, candidate: Start
    ) -> None:
        first = candidate("first")
        clock.advance(20)
        renewed_at = clock.now()
        first.api.hanging = StopSignal(clock)
        clock.advance(13)
        ((at, _),) = first.lost
        assert at <= renewed_at + 12

    def test_a_short_outage_does_no_harm(
        self, server: ApiServer, clock: VirtualClock, candidate: Start
    ) -> None:
        first, second = candidate("first"), candidate("second")
        for _ in range(20):
            first.api.reachable = False
            clock.advance(9)
            first.api.reachable = True
            clock.advance(3)
        assert (first.lost, first.elector.is_leading()) == ([], True)
        assert not second.elector.is_leading()
        assert spec(server)["leaseTransitions"] == 0

    def test_a_lease_that_somebody_else_wrote_is_renewed(
        self, server: ApiServer, clock: VirtualClock, candidate: Start
    ) -> None:
        """Somebody annotated it, so that what was known of it conflicts."""
        first = candidate("first")
        server.patch("leases", "it", {"metadata": {"annotations": {"a": "b"}}})
        clock.advance(60)
        assert (first.lost, first.elector.is_leading()) == ([], True)
        assert server.get("leases", "it")["metadata"]["annotations"] == {"a": "b"}

    def test_a_lease_that_somebody_deleted_is_made_again(
        self, server: ApiServer, clock: VirtualClock, candidate: Start
    ) -> None:
        first = candidate("first")
        server.delete("leases", "it")
        clock.advance(60)
        assert (first.lost, first.elector.is_leading()) == ([], True)
        assert spec(server)["holderIdentity"] == "first"

    def test_it_is_lost_at_once_to_who_took_it(
        self, server: ApiServer, clock: VirtualClock, candidate: Start
    ) -> None:
        first = candidate("first")
        server.patch("leases", "it", {"spec": {"holderIdentity": "thief"}})
        clock.advance(2)
        ((_, text),) = first.lost
        assert text == "lease default/it is lost: thief holds it now"
        assert spec(server)["holderIdentity"] == "thief"
        first.end()
        assert spec(server)["holderIdentity"] == "thief"  # it is not ours to give away


class TestRelease:
    def test_the_next_one_need_not_wait(
        self, server: ApiServer, clock: VirtualClock, candidate: Start
    ) -> None:
        first, second = candidate("first"), candidate("second")
        clock.advance(20)
        first.end()
        assert spec(server)["holderIdentity"] == ""
        assert spec(server)["leaseDurationSeconds"] == 1
        assert first.gauge == [0, 1, 0]
        assert first.lost == []
        clock.advance(4.5)
        assert second.elector.is_leading()
        assert spec(server)["leaseTransitions"] == 1

    def test_a_lease_that_cannot_be_given_back_expires(
        self, server: ApiServer, clock: VirtualClock, candidate: Start, caplog: Any
    ) -> None:
        first, second = candidate("first"), candidate("second")
        first.die()
        first.end()
        assert "lease default/it: cannot give it back: nobody there" in caplog.text
        clock.advance(20)
        assert second.elector.is_leading()


def test_health_is_bad_when_an_expired_lease_goes_unnoticed(
    clock: VirtualClock, server: ApiServer
) -> None:
    first = Candidate(server, clock, "first")
    assert first.elector.acquire(first.stop)
    assert first.elector.check() == ""
    clock.advance(35)
    assert first.elector.check() == ""
    clock.advance(1)
    assert first.elector.check() == "failed election to renew leadership on lease it"


@pytest.mark.parametrize(
    "times",
    [
        {"lease_duration_s": 10},
        {"renew_deadline_s": 2.4},
        {"retry_period_s": 0},
        {"identity": ""},
    ],
)
def test_times_that_do_not_fit(server: ApiServer, clock: VirtualClock, times: Any) -> None:
    options = {"namespace": "default", "name": "it", "identity": "x", **times}
    with pytest.raises(ValueError, match=r"must be|needs an identity"):
        LeaderElector(DirectApi(server, clock), **options)


def test_identities_differ() -> None:
    assert identity() != identity()
