"""The program: `sqlcache`, or `python -m sqlcache`.

Promises
- Ctrl-C ends it with "Interrupted" and 130 also while it still imports what it needs.

Elsewhere: the commands, and how they end once they run (sqlcache.cli).
"""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Run the command line."""
    # Unless whoever started this process had it ignored, as a shell does for `sqlcache … &`.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    from sqlcache.cli import main as command

    try:
        command()
    finally:
        # A Ctrl-C that passed through the `exec` of a text, as dataclasses use in imports, leaves
        # CPython a note to end `python -m` by SIGINT, even if it was caught: a new one clears it.
        exec("")  # noqa: S102 - of nothing


def _interrupted(signum: int, frame: object) -> None:
    """End at once, for nothing is begun yet; an import need not let an exception through."""
    os.write(2, b"Interrupted\n")
    os._exit(128 + signum)


if __name__ == "__main__":
    main()
