"""Ctrl-C at any moment of a write leaves the state before or after it, and no lock held."""

from __future__ import annotations

import gc
import signal
import time
from random import Random
from types import FrameType

import pytest

from sqlcache.store.sqlite import SqliteStore
from tests.property.test_interrupted_statements import State, a_write, is_right

WRITES = 600
PATIENCE_S = 10.0  # for the reads after an interrupt, which wait for no one
STORES = {"live": {}, "packed": {"objects": "packed"}, "few hot": {"hot_members": 6}}


class _Interrupted(BaseException):
    """As a KeyboardInterrupt, which would end the tests."""


class _Alarm:
    """Interrupts the main thread once, when time is over and while it is armed."""

    armed = False

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        if self.armed:
            self.armed = False
            raise _Interrupted

    def set(self, seconds: float) -> None:
        """Interrupt what comes next."""
        self.unset()  # else a signal on its way would come at once
        self.armed = True
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def unset(self) -> None:
        """Interrupt nothing any more."""
        self.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.mark.timeout(method="thread")  # the alarm is ours
@pytest.mark.parametrize("mode", STORES)
def test_state_is_that_before_or_after_and_nothing_hangs(mode: str) -> None:
    random, alarm = Random(mode), _Alarm()
    before = signal.signal(signal.SIGALRM, alarm)
    gc.disable()  # an exception in a collector's callback, and hypothesis has one, is swallowed
    usual_s, interrupted = 0.001, 0
    state: State = {}
    try:
        with SqliteStore(**STORES[mode]) as store:  # type: ignore[arg-type]
            for turn in range(WRITES):
                write, written = a_write(store, state, random, turn)
                start = time.perf_counter()
                try:
                    alarm.set(random.random() * usual_s + 1e-6)
                    write()
                    alarm.unset()
                    usual_s += 0.1 * (1.3 * (time.perf_counter() - start) - usual_s)
                except _Interrupted:
                    interrupted += 1
                alarm.set(PATIENCE_S)
                if not is_right(store, state):
                    assert is_right(store, written)
                    state = written
                alarm.unset()
    finally:
        alarm.unset()
        gc.enable()
        signal.signal(signal.SIGALRM, before)
    assert interrupted >= WRITES / 10
