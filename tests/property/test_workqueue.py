"""The work queue against a model, step by step."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sqlcache.testing.clock import VirtualClock
from sqlcache.workqueue import WorkQueue

ITEMS = st.sampled_from(["a", "b", "c", "d"])


class QueueMachine(RuleBasedStateMachine):
    """One thread adds, takes and ends items while time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.queue = WorkQueue[str](clock=self.clock)
        self.waiting: list[str] = []
        self.processing: set[str] = set()
        self.again: list[str] = []
        self.due: dict[str, float] = {}

    def model_add(self, item: str) -> None:
        if item in self.processing:
            if item not in self.again:
                self.again.append(item)
        elif item not in self.waiting:
            self.waiting.append(item)

    @rule(item=ITEMS)
    def add(self, item: str) -> None:
        self.queue.add(item)
        self.model_add(item)

    @rule(item=ITEMS, delay=st.sampled_from([0.0, 1.0, 2.0, 2.5, 10.0]))
    def add_after(self, item: str, delay: float) -> None:
        self.queue.add_after(item, delay)
        if delay == 0:
            self.model_add(item)
        else:
            due = self.clock.now() + delay
            self.due[item] = min(due, self.due.get(item, due))

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        ready = [item for item, due in self.due.items() if due <= self.clock.now()]
        for item in ready:
            del self.due[item]
        # Items due at the same moment may come in any order: take the queue's.
        before = list(self.waiting)
        for item in ready:
            self.model_add(item)
        new = [item for item in self.queue._ready if item not in before] if len(self.queue) else []
        assert sorted(new) == sorted(item for item in self.waiting if item not in before)
        self.waiting = before + new

    @rule()
    def get(self) -> None:
        if self.waiting:
            item = self.queue.get()
            assert item == self.waiting.pop(0)
            assert item not in self.processing
            self.processing.add(item)

    @rule(item=ITEMS)
    def done(self, item: str) -> None:
        self.queue.done(item)
        if item in self.processing:
            self.processing.discard(item)
            if item in self.again:
                self.again.remove(item)
                self.waiting.append(item)

    @invariant()
    def as_many_wait(self) -> None:
        assert len(self.queue) == len(self.waiting)


TestQueue = QueueMachine.TestCase
