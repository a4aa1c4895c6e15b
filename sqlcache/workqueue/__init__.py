"""A queue of work for controllers: client-go's rate-limiting work queue.

    queue = WorkQueue("pods")
    informer.add_handler(HandlerFuncs(on_update=lambda old, new: queue.add(key_of(new))))

    workers = Workers(queue, sync, threads=5)  # calls sync(key), and again later if it raises
    workers.start()
    ...
    queue.shut_down()
    workers.join(timeout_s=30)

Promises
- An item that waits is there once, however often it was added.
- An item is worked on by one worker at a time: added while it is worked on, it comes again after
  `done`, so no change is missed.
- Items come in the order of their adds. Fairness between items is all there is: no priorities.
- Delays keep the earliest time asked for. A failed item waits 5 ms, 10 ms, 20 ms … 1000 s, and all
  retries together are held at 10 a second after a burst of 100.
- The queue has no thread. What is delayed is looked at by whoever waits in `get`. For other ways
  of working than `Workers` there are `get`, `done`, `forget`, and iteration.

Differences from client-go: `get` raises `QueueShutDownError` instead of returning a flag, and a
queue can be iterated; `shut_down_with_drain` waits for waiting items too; the gauges of unfinished
work are computed when read; no custom inner queues.

Elsewhere: what to do about an item (a controller), who adds them (sqlcache.informer).
Source: client-go util/workqueue.
"""

from sqlcache.workqueue._limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    ItemFastSlowRateLimiter,
    MaxOfRateLimiter,
    RateLimiter,
    WithMaxWaitRateLimiter,
    default_controller_rate_limiter,
)
from sqlcache.workqueue._metrics import Counter, FunctionGauge, Gauge, Histogram, MetricsProvider
from sqlcache.workqueue._queue import WorkQueue
from sqlcache.workqueue._workers import MAX_RETRIES, Workers

__all__ = [
    "MAX_RETRIES",
    "BucketRateLimiter",
    "Counter",
    "FunctionGauge",
    "Gauge",
    "Histogram",
    "ItemExponentialFailureRateLimiter",
    "ItemFastSlowRateLimiter",
    "MaxOfRateLimiter",
    "MetricsProvider",
    "RateLimiter",
    "WithMaxWaitRateLimiter",
    "WorkQueue",
    "Workers",
    "default_controller_rate_limiter",
]
