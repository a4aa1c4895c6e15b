"""Leader election: of several processes, the one that holds a Lease works.

Flow: `acquire` until the Lease is ours; `hold` renews it in a thread until it is lost or `release`
gives it back.

Promises
- Clocks of others are not believed: a Lease has expired when its content has not changed for its
  duration, as seen from here. The times in it are for people.
- It counts as lost, at the latest, 12 s after the last renewal that succeeded began (renew deadline
  and retry period), also while a request hangs; nobody else takes it before 15 s.
- Nothing is known of a process that stands still: one that is stopped for longer than the Lease
  lasts may write once more before it learns that it leads no longer.

Differences from client-go: a Lease that somebody else holds is lost at once, not after the renew
deadline.

Source: client-go tools/leaderelection leaderelection.go, resourcelock/leaselock.go.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

from sqlcache.client.api import ObjectsApi, Resource
from sqlcache.clock import Clock, MonotonicClock, StopSignal
from sqlcache.controllers.events import EventRecorder
from sqlcache.errors import ApiDecodeError, ApiStatusError, LeaseLostError
from sqlcache.objects import Object

_LOG = logging.getLogger(__name__)

LEASES = Resource("coordination.k8s.io", "v1", "leases")
# kube-controller-manager's
LEASE_DURATION_S = 15.0
RENEW_DEADLINE_S = 10.0
RETRY_PERIOD_S = 2.0
JITTER_FACTOR = 1.2
STUCK_S = 20.0  # for how long a leader with an expired Lease still counts as healthy
_RELEASED_DURATION_S = 1  # the API takes no 0
_JOIN_S = 10.0


class LeaderGauge(Protocol):
    """A gauge that tells whether this process leads."""

    def set(self, value: float) -> None:
        """Take 1 for yes, 0 for no."""


def identity() -> str:
    """Return a name for this process that no other has, beginning with the host's."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """A candidate for one Lease. `acquire`, `hold`, `release`, once each and in this order."""

    def __init__(
        self,
        api: ObjectsApi,
        *,
        namespace: str,
        name: str,
        identity: str,
        lease_duration_s: float = LEASE_DURATION_S,
        renew_deadline_s: float = RENEW_DEADLINE_S,
        retry_period_s: float = RETRY_PERIOD_S,
        recorder: EventRecorder | None = None,
        gauge: LeaderGauge | None = None,
        clock: Clock | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: random.Random | None = None,
    ) -> None:
        """Make a candidate. Nothing is asked before `acquire`.

        Args:
            api: for the Lease alone. A request should not take longer than the renew deadline.
            namespace: of the Lease.
            name: of the Lease; it is made if it is not there.
            identity: of this process; see `identity`.
            lease_duration_s: how long others wait for a sign of life; whole seconds.
            renew_deadline_s: how long renewals may fail before the Lease counts as lost.
            retry_period_s: between two attempts.
            recorder: takes an Event on the Lease when it is won and lost; started when it is
                acquired, stopped when it is released.
            gauge: is 1 while this process leads.
            clock: for tests.
            now: the time written into the Lease, for tests.
            rng: source of jitter, for tests.

        Raises:
            ValueError: the times do not fit each other, or there is no identity.
        """
        if not lease_duration_s > renew_deadline_s > JITTER_FACTOR * retry_period_s > 0:
            raise ValueError("it must be lease duration > renew deadline > 1.2 * retry period > 0")
        if not identity:
            raise ValueError("a candidate needs an identity")
        self.namespace, self.name, self.identity = namespace, name, identity
        self._api, self._recorder, self._gauge = api, recorder, gauge
        self._lease_duration_s, self._retry_period_s = int(lease_duration_s), retry_period_s
        self._deadline_s = retry_period_s + renew_deadline_s
        self._clock, self._now = clock or MonotonicClock(), now
        self._rng = rng or random.Random()  # noqa: S311 - it only spreads requests
        self._lease: Object = {}  # as last read or written
        self._observed_at = 0.0  # when its content changed
        self._reported = ""
        self._done = StopSignal(self._clock)
        self._changed = self._clock.condition()
        self._renewed_at = 0.0
        self._leading = False
        self._threads: list[threading.Thread] = []
        if gauge:
            gauge.set(0)

    def __str__(self) -> str:
        """Return the key of the Lease."""
        return f"{self.namespace}/{self.name}"

    def is_leading(self) -> bool:
        """Return whether the Lease was acquired and neither lost nor released."""
        return self._leading

    def check(self) -> str:
        """Return what is wrong, "" if all is well: the Lease expired long ago and nobody noticed.

        Source: client-go LeaderElector.Check.
        """
        silent_s = self._clock.now() - self._observed_at
        if self._leading and silent_s > self._lease_duration_s + STUCK_S:
            return f"failed election to renew leadership on lease {self.name}"
        return ""

    def acquire(self, stop: StopSignal) -> bool:
        """Wait until the Lease is ours.

        Args:
            stop: give up when it is raised.

        Returns:
            Whether it is.
        """
        _LOG.info("lease %s: trying to acquire it as %s", self, self.identity)
        while not stop.is_set():
            started = self._clock.now()
            if self._try():
                self._renewed_at = started
                if self._recorder:
                    self._recorder.start()
                self._leads(True)
                return True
            stop.sleep(self._retry_period_s * (1.0 + JITTER_FACTOR * self._rng.random()))
        return False

    def hold(self, on_lost: Callable[[LeaseLostError], None]) -> None:
        """Renew the Lease in a thread from here on.

        Args:
            on_lost: told, in a thread, that it is lost. It must not block for long.
        """
        self._done.call(self._wake)
        self._threads = [
            threading.Thread(target=run, args=(on_lost,), name=f"lease-{part}", daemon=True)
            for part, run in (("renew", self._renew), ("deadline", self._watch_deadline))
        ]
        for thread in self._threads:
            thread.start()

    def release(self) -> None:
        """Renew no more, and let another process have the Lease at once if it is ours.

        That it cannot be given back is logged: it expires then.
        """
        self._done.set()
        deadline = time.monotonic() + _JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._leading:
            self._leads(False)
            self._give_back()
        if self._recorder:
            self._recorder.stop(max(0.0, deadline - time.monotonic()))

    def _give_back(self) -> None:
        try:
            self._read()
            if self._holder() == self.identity:
                self._write(holder="", duration_s=_RELEASED_DURATION_S, acquired=None, step=0)
        except (OSError, ApiDecodeError) as error:
            _LOG.warning("lease %s: cannot give it back: %s", self, error)
        else:
            _LOG.info("lease %s: released", self)

    def _renew(self, on_lost: Callable[[LeaseLostError], None]) -> None:
        while not self._done.sleep(self._retry_period_s):
            started = self._clock.now()
            if self._try():
                with self._changed:
                    self._renewed_at = started
                    self._changed.notify_all()
            elif self._holder() not in ("", self.identity):
                self._lose(f"{self._holder()} holds it now", on_lost)
                return

    def _watch_deadline(self, on_lost: Callable[[LeaseLostError], None]) -> None:
        with self._changed:
            while not self._done.is_set():
                left = self._renewed_at + self._deadline_s - self._clock.now()
                if left <= 0:
                    break
                self._changed.wait(left)
        if not self._done.is_set():
            reason = f"it could not be renewed for {self._deadline_s:g} s"
            self._lose(reason, on_lost)

    def _lose(self, reason: str, on_lost: Callable[[LeaseLostError], None]) -> None:
        self._done.set()
        with self._changed:
            if not self._leading:  # the other thread was faster
                return
            self._leading = False
        self._leads(False)
        on_lost(LeaseLostError(str(self), reason))

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _leads(self, leads: bool) -> None:
        self._leading = leads
        if self._gauge:
            self._gauge.set(int(leads))
        if self._recorder:
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **self._lease}
            what = "became leader" if leads else "stopped leading"
            self._recorder.event(lease, "Normal", "LeaderElection", f"{self.identity} {what}")

    # One attempt

    def _try(self) -> bool:
        """Acquire or renew, and return whether that succeeded."""
        try:
            held = self._acquire_or_renew()
        except (OSError, ApiDecodeError) as error:
            _LOG.warning("lease %s: %s", self, error)
            held = False
        holder = self._holder()
        if holder != self._reported:
            self._reported = holder
            if holder:
                me = " (this process)" if holder == self.identity else ""
                _LOG.info("lease %s: the leader is %s%s", self, holder, me)
        return held

    def _acquire_or_renew(self) -> bool:
        # As LeaderElector.tryAcquireOrRenew in client-go.
        if self._holder() == self.identity and not self._has_expired():
            try:
                self._write(acquired=self._spec().get("acquireTime"), step=0)
            except (OSError, ApiDecodeError) as error:
                _LOG.info("lease %s: cannot renew what was known of it: %s", self, error)
            else:
                return True
        try:
            self._read()
        except ApiStatusError as error:
            if not error.is_not_found():
                raise
            self._create()
            return True
        holder = self._holder()
        if holder not in ("", self.identity) and not self._has_expired():
            return False
        if holder == self.identity:
            self._write(acquired=self._spec().get("acquireTime"), step=0)
        else:
            self._write(acquired=None, step=1)
        return True

    def _read(self) -> None:
        self._observe(self._api.get(LEASES, self.namespace, self.name), self._clock.now())

    def _create(self) -> None:
        meta = {"namespace": self.namespace, "name": self.name}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta,
            "spec": self._new_spec(self.identity, self._lease_duration_s, None, 0),
        }
        started = self._clock.now()
        self._observe(self._api.create(LEASES, self.namespace, lease), started)

    def _write(
        self,
        *,
        holder: str | None = None,
        duration_s: int | None = None,
        acquired: Any,
        step: int,
    ) -> None:
        """Write the Lease over the one that is known; the server refuses if that has changed.

        Args:
            holder: default: this process.
            duration_s: default: as configured.
            acquired: since when it is held; None for now.
            step: how many changes of leader there were more.
        """
        spec = self._new_spec(
            self.identity if holder is None else holder,
            self._lease_duration_s if duration_s is None else duration_s,
            acquired,
            _number(self._spec().get("leaseTransitions")) + step,
        )
        started = self._clock.now()
        written = self._api.update(LEASES, self.namespace, {**self._lease, "spec": spec})
        self._observe(written, started)

    def _new_spec(self, holder: str, duration_s: int, acquired: Any, transitions: int) -> Object:
        now = f"{self._now():%Y-%m-%dT%H:%M:%S.%fZ}"  # metav1.MicroTime
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_s,
            "acquireTime": acquired or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _observe(self, lease: Object, at: float) -> None:
        if lease.get("spec") != self._lease.get("spec"):
            self._observed_at = at
        self._lease = lease

    def _spec(self) -> dict[str, Any]:
        return self._lease.get("spec") or {}

    def _holder(self) -> str:
        return self._spec().get("holderIdentity") or ""

    def _has_expired(self) -> bool:
        lasts_s = _number(self._spec().get("leaseDurationSeconds"))
        return self._observed_at + lasts_s <= self._clock.now()


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
