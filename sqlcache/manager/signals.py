"""SIGTERM and SIGINT as a stop signal.

The interpreter runs signal handlers between two instructions of the main thread, with whatever lock
that holds. So the signals are read here by a thread of its own, from the descriptor into which the
interpreter writes them at once, and a second one works whatever the main thread waits for.

Source: apiserver pkg/server signal.go SetupSignalContext.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlcache.clock import MonotonicClock, StopSignal

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_BY_SIGNAL = 128  # the exit code of a process that a signal ended, as a shell sees it
_WORDS = {signal.SIGINT: b"Interrupted\n", signal.SIGTERM: b"Terminated\n"}


@contextmanager
def stop_on_signals() -> Iterator[StopSignal]:
    """Return a signal that the first SIGINT or SIGTERM raises, until the block ends.

    The second one ends the process at once, without any cleaning up, with 128 and its number as
    exit code.

    Raises:
        ValueError: this is not the main thread.
    """
    stop = StopSignal(MonotonicClock())
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    thread = threading.Thread(target=_read, args=(reader, stop), name="signals", daemon=True)
    with reader, writer:
        descriptor = signal.set_wakeup_fd(writer.fileno())
        before = {signum: signal.signal(signum, _left_to_the_thread) for signum in _SIGNALS}
        thread.start()
        try:
            yield stop
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
            signal.set_wakeup_fd(descriptor)
            writer.close()
            thread.join()


def _left_to_the_thread(signum: int, frame: object) -> None:
    """Do nothing here: that there is a handler keeps the signal from ending the process."""


def _read(reader: socket.socket, stop: StopSignal) -> None:
    while number := reader.recv(1):
        signum = number[0]
        if signum not in _SIGNALS:
            continue
        if stop.is_set():
            os.write(2, _WORDS[signal.Signals(signum)])
            os._exit(_BY_SIGNAL + signum)
        stop.set()
