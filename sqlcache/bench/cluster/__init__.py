"""A cluster for the bench: the test API server in a process of its own, with a life of its own.

| file | holds |
|---|---|
| client.py | `Cluster`: starts the process and asks it |
| process.py | what runs in the process: the server, and the answers |
| churn.py | pods that come, change and go, so many a second, and the log of what they were |
| trouble.py | faults at random: cut connections, 410s, stalls, refusals |

Needs the extras `kubernetes` and `testing`. They are imported by whoever uses them, and the bench
runs without them but for the scenarios that say so.
"""

from sqlcache.bench.cluster.client import Cluster

__all__ = ["Cluster"]
