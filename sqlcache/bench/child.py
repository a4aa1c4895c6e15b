"""What one child process of a run does.

It is sent one JSON value a line, first its `Job`, and answers each with one line:

| sent | answered |
|---|---|
| the job | `{"answers": […], "rounds": [rounds of each cell], …}` |
| `{"cell": 3, "round": 0}` | `{"measurements": […], …}` |

Each reply also has `busy_s`, the time it took, and `peak_rss_bytes`. It ends at the end of its
input. An exception ends it too: its traceback goes to stderr, for the runner to report.

Elsewhere: making the process (nursery), the other end (process).
"""

from __future__ import annotations

import time
from typing import IO, Any

import orjson

from sqlcache.bench.measuring import peak_rss_bytes
from sqlcache.bench.scenarios import SCENARIOS
from sqlcache.bench.scenarios.workload import Job


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Do one job: answer requests until there are no more."""
    start = time.monotonic()
    job = Job.from_json(orjson.loads(requests.readline()))
    workload = SCENARIOS[job.scenario].workload(job)
    answers = workload.prepare()
    cells = workload.cells()
    rounds = [cell.rounds or job.parameters.rounds for cell in cells]
    _send(replies, start, {"answers": answers, "rounds": rounds})
    for line in requests:
        request = orjson.loads(line)
        start = time.monotonic()
        measured = cells[request["cell"]].measure(request["round"])
        _send(replies, start, {"measurements": [each.to_json() for each in measured]})
    workload.close()


def _send(replies: IO[bytes], start: float, reply: dict[str, Any]) -> None:
    reply["busy_s"] = time.monotonic() - start
    reply["peak_rss_bytes"] = peak_rss_bytes()
    replies.write(orjson.dumps(reply) + b"\n")
    replies.flush()
