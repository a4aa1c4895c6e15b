"""What a process that runs controllers sets in its interpreter, for all its threads.

- **Switch interval.** A thread that computes gives the interpreter lock away after 5 ms unless told
  otherwise, and each call of SQLite asks for it several times. At 0.5 ms a read beside a busy
  thread takes 1 to 3 ms instead of 16 to 45.
- **Garbage collector.** It is off while the first lists come: more than half of their time would
  be its, for it looks at all objects again and again and finds nothing. Afterwards these objects
  are kept out of its sight (`gc.freeze`), so that no full collection stops all threads for seconds.
  One that is replaced is freed as ever, by its count of references.

Elsewhere: that readers of hot views need no lock at all (sqlcache.store).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SWITCH_INTERVAL_S = 0.0005


@contextmanager
def tuned_interpreter() -> Iterator[None]:
    """Have threads take turns every 0.5 ms; at the end all is as it was, nothing is frozen."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        gc.unfreeze()


@contextmanager
def collector_off() -> Iterator[None]:
    """Collect no garbage within the block, and freeze what is there at its end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
