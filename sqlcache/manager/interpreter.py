"""What a process that runs controllers sets in its interpreter, for all its threads.

- **Switch interval.** A thread that computes gives the interpreter lock away after 5 ms unless told
  otherwise, and each call of SQLite asks for it several times. At 0.5 ms a read beside a busy
  thread takes 1 to 3 ms instead of 16 to 45.
- **Garbage collector.** Objects of the first list stay for as long as the process does, and hold no
  cycles. They are moved out of the collector's sight once they are there (`gc.freeze`); when one of
  them is replaced it is freed as ever, by its count of references.

Elsewhere: that readers need no lock at all (sqlcache.store, hot views).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_S = 0.0005


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Have threads take turns every 0.5 ms within the block."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def freeze() -> None:
    """Collect what is garbage, and let the collector look at what is left no more."""
    gc.collect()
    gc.freeze()
