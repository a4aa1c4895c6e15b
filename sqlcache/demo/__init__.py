"""Both controllers on a test API server with a life of its own: what `sqlcache demo` runs.

| file | holds |
|---|---|
| settings.py | `Settings`: sizes, backend, seed; `Outcome`: what a run measured and checked |
| world.py | services, nodes and pods of a cluster, and how its pods change |
| process.py | the process in which the API server and the changes run |
| measures.py | what queues, caches and memory tell about themselves |
| run.py | `run`: informers and controllers on a backend, from the start to the check at the end |

Needs the extras `kubernetes` and `testing`; `run` and `process` import them.
Elsewhere: what is right at the end (sqlcache.testing.convergence), the display (sqlcache.cli.demo).
"""

from sqlcache.demo.settings import EXTRAS, Latency, Outcome, Settings, missing_extras

__all__ = ["EXTRAS", "Latency", "Outcome", "Settings", "missing_extras"]
