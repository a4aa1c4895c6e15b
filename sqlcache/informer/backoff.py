"""How long a reflector waits before it tries again.

Source: apimachinery util/wait Backoff, DelayWithReset; client-go reflector.go for the figures.
"""

from __future__ import annotations

import random
import threading

from sqlcache.clock import Clock

FIRST_S = 0.8  # client-go's reflector
LONGEST_S = 30.0
FACTOR = 2.0
JITTER = 1.0  # up to so much of the delay is added, at random
RESET_S = 120.0  # without trouble for so long, the server is taken as healthy


class Backoff:
    """Delays that double, each with a random part on top, until there was quiet for a while.

    client-go counts the quiet from the last reset, so that it starts over in the middle of a long
    outage; here it counts from the last delay, as its comment says.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        first_s: float = FIRST_S,
        longest_s: float = LONGEST_S,
        factor: float = FACTOR,
        jitter: float = JITTER,
        reset_s: float = RESET_S,
        rng: random.Random | None = None,
    ) -> None:
        """Make a back-off at its beginning.

        Args:
            clock: tells how long it was quiet.
            first_s: the first delay, without jitter.
            longest_s: delays grow up to this, without jitter.
            factor: what each delay is multiplied by.
            jitter: at most so much of a delay is added to it.
            reset_s: start over after so many seconds without a delay.
            rng: source of the jitter.
        """
        self._clock, self._lock = clock, threading.Lock()
        self._first, self._longest, self._factor = first_s, longest_s, factor
        self._jitter, self._reset = jitter, reset_s
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, hides nothing
        self._next = first_s
        self._last = clock.now()

    def step(self) -> float:
        """Return the next delay in seconds."""
        with self._lock:
            now = self._clock.now()
            if now - self._last > self._reset:
                self._next = self._first
            delay = self._next * (1 + self._jitter * self._rng.random())
            self._next = min(self._longest, self._next * self._factor)
            self._last = now + delay
            return delay
