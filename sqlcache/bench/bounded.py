"""What bounds on labels save: `python -m sqlcache.bench.bounded [PODS]`.

The pods are those of the `memory` scenario: ten labels that many share, ten that are unique to the
pod. Each policy has a fresh process, which loads them in batches into a store in memory with
parsed objects, as an informer does. Bytes of the index are what the process grows by, less what it
does with the same pods without labels; beside them the bytes of all pages of the database, and
the time of the load.
"""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from time import perf_counter
from typing import NamedTuple

from sqlcache.bench.measuring import rss_bytes
from sqlcache.bench.scenarios.memory import labelled_pods
from sqlcache.bench.workloads import added
from sqlcache.store import open_store
from sqlcache.store.labels import LabelPolicy

PODS = 150_000
_SEED = 1
_UNIQUE = [f"unique-{number}" for number in range(10)]
POLICIES = {
    "all": LabelPolicy(),
    "limit=10000": LabelPolicy(distinct_limit=10_000),
    "deny=unique-0,...": LabelPolicy(deny=_UNIQUE),
    "on-demand": LabelPolicy(on_demand=True),
}


class Taken(NamedTuple):
    """What a store took.

    Attributes:
        grown_bytes: what the process grew by.
        page_bytes: of the database.
        indexed: label keys with an index.
        load_s: seconds that the load took.
    """

    grown_bytes: int
    page_bytes: int
    indexed: int
    load_s: float


def taken(pods: int, policy: LabelPolicy, *, labels: bool) -> Taken:
    """Return what a store of some pods takes, in this process.

    Args:
        pods: their number.
        policy: which labels are indexed.
        labels: whether the pods have any.
    """
    batches = added(labelled_pods(pods, _SEED, labels=labels))
    before = rss_bytes()
    with open_store("sqlite", labels=policy) as store:
        start = perf_counter()
        gc.disable()  # as in `memory`
        for events in batches:
            store.apply(events)
        gc.enable()
        load_s = perf_counter() - start
        grown = rss_bytes() - before
        stats = store.stats()
        indexed = sum(not each.unindexed for each in stats.label_keys)
        return Taken(grown, stats.database_bytes or 0, indexed, load_s)


def main(pods: int) -> None:
    """Write a line for each policy."""
    with ProcessPoolExecutor(
        1, mp_context=get_context("spawn"), max_tasks_per_child=1
    ) as processes:

        def measured(policy: LabelPolicy, *, labels: bool) -> Taken:
            return processes.submit(taken, pods, policy, labels=labels).result()

        without = measured(LabelPolicy(), labels=False)
        sys.stdout.write(f"{pods} pods with 20 labels, 10 of them unique\n")
        sys.stdout.write(
            f"{'policy':20} {'keys':>4} {'index MB':>9} {'pages MB':>9} {'load s':>7}\n"
        )
        for name, policy in POLICIES.items():
            found = measured(policy, labels=True)
            index, pages = found.grown_bytes - without.grown_bytes, found.page_bytes
            sys.stdout.write(
                f"{name:20} {found.indexed:4} {index / 1e6:9.1f} {pages / 1e6:9.1f}"
                f" {found.load_s:7.1f}\n"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else PODS)
