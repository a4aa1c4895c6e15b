"""Rate limiters: how long a failed item waits before it is tried again.

Source: client-go util/workqueue default_rate_limiters.go; golang.org/x/time/rate for the bucket.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from sqlcache.clock import Clock, MonotonicClock

T_contra = TypeVar("T_contra", bound=Hashable, contravariant=True)
T = TypeVar("T", bound=Hashable)

FIRST_RETRY_S = 0.005  # client-go's default controller rate limiter
LONGEST_RETRY_S = 1000.0
RETRIES_PER_S = 10.0
RETRY_BURST = 100
_ENOUGH_DOUBLINGS = 1000  # 2.0**1024 overflows; any sensible cap is reached long before


class RateLimiter(Protocol[T_contra]):
    """Decides how long an item waits. All methods may be called from any thread."""

    def when(self, item: T_contra) -> float:
        """Count a failure of the item and return how many seconds it should wait."""

    def forget(self, item: T_contra) -> None:
        """Stop tracking the item: it succeeded, or is given up."""

    def num_requeues(self, item: T_contra) -> int:
        """Return how many failures of the item were counted."""


class _Failures(Generic[T]):
    """Counts failures by item."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[T, int] = {}

    def count(self, item: T) -> int:
        """Count one more and return how many there were before."""
        with self._lock:
            before = self._counts.get(item, 0)
            self._counts[item] = before + 1
            return before

    def forget(self, item: T) -> None:
        """Forget an item, whether known or not."""
        with self._lock:
            self._counts.pop(item, None)

    def num_requeues(self, item: T) -> int:
        """Return the count of an item."""
        with self._lock:
            return self._counts.get(item, 0)


class ItemExponentialFailureRateLimiter(_Failures[T]):
    """Each failure of an item doubles its delay, up to a cap."""

    def __init__(self, base_delay_s: float, max_delay_s: float) -> None:
        """Make a limiter whose delays are base, 2·base, 4·base … max, in seconds."""
        super().__init__()
        self._base, self._max = base_delay_s, max_delay_s

    def when(self, item: T) -> float:
        """Count a failure of the item and return its delay in seconds."""
        doublings = min(self.count(item), _ENOUGH_DOUBLINGS)
        return min(self._base * 2.0**doublings, self._max)


class ItemFastSlowRateLimiter(_Failures[T]):
    """The first failures of an item wait a short time, all further ones a long time."""

    def __init__(self, fast_delay_s: float, slow_delay_s: float, max_fast_attempts: int) -> None:
        """Make a limiter with both delays in seconds."""
        super().__init__()
        self._fast, self._slow, self._attempts = fast_delay_s, slow_delay_s, max_fast_attempts

    def when(self, item: T) -> float:
        """Count a failure of the item and return its delay in seconds."""
        return self._fast if self.count(item) < self._attempts else self._slow


class BucketRateLimiter(Generic[T]):
    """A token bucket for all items together: so many a second, and a burst at first."""

    def __init__(self, per_s: float, burst: int, clock: Clock | None = None) -> None:
        """Make a full bucket.

        Args:
            per_s: tokens that come back a second; with 0 what is beyond the burst waits for ever.
            burst: tokens it holds.
            clock: for tests.
        """
        self._lock = threading.Lock()
        self._clock = clock or MonotonicClock()
        self._per_s, self._burst = per_s, float(burst)
        self._tokens, self._at = float(burst), self._clock.now()

    def when(self, item: T) -> float:
        """Take a token and return the seconds until it is there; debts add up."""
        with self._lock:
            now = self._clock.now()
            refilled = self._tokens + (now - self._at) * self._per_s
            self._tokens, self._at = min(self._burst, refilled) - 1.0, now
            if self._tokens >= 0:
                return 0.0
            return -self._tokens / self._per_s if self._per_s > 0 else math.inf

    def forget(self, item: T) -> None:
        """Do nothing: tokens that were taken stay taken."""

    def num_requeues(self, item: T) -> int:
        """Return 0: items are not told apart."""
        return 0


class MaxOfRateLimiter(Generic[T]):
    """The longest delay of several limiters, all of which are asked."""

    def __init__(self, *limiters: RateLimiter[T]) -> None:
        """Combine limiters."""
        self._limiters = limiters

    def when(self, item: T) -> float:
        """Return the longest delay in seconds."""
        return max((limiter.when(item) for limiter in self._limiters), default=0.0)

    def forget(self, item: T) -> None:
        """Have all forget the item."""
        for limiter in self._limiters:
            limiter.forget(item)

    def num_requeues(self, item: T) -> int:
        """Return the highest count."""
        return max((limiter.num_requeues(item) for limiter in self._limiters), default=0)


class WithMaxWaitRateLimiter(Generic[T]):
    """Another limiter, never longer than a given time."""

    def __init__(self, limiter: RateLimiter[T], max_delay_s: float) -> None:
        """Cap a limiter's delays."""
        self._limiter, self._max = limiter, max_delay_s

    def when(self, item: T) -> float:
        """Return the other limiter's delay in seconds, capped."""
        return min(self._limiter.when(item), self._max)

    def forget(self, item: T) -> None:
        """Have the other limiter forget the item."""
        self._limiter.forget(item)

    def num_requeues(self, item: T) -> int:
        """Return the other limiter's count."""
        return self._limiter.num_requeues(item)


def default_controller_rate_limiter(clock: Clock | None = None) -> RateLimiter[Hashable]:
    """Return what controllers use: 5 ms doubled per failure up to 1000 s, and 10 a second in all.

    Source: client-go workqueue.DefaultTypedControllerRateLimiter.
    """
    return MaxOfRateLimiter[Hashable](
        ItemExponentialFailureRateLimiter(FIRST_RETRY_S, LONGEST_RETRY_S),
        BucketRateLimiter(RETRIES_PER_S, RETRY_BURST, clock),
    )
