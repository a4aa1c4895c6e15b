"""Synthetic pods and the selectors asked of them, all from one seed.

Labels are made column by column: a column is one label (key and value) for each pod. Pods are
small, about 0.3 KB; `realistic` makes large ones. They go through JSON once, so that no two of
them share a string, as when they come from an API server.

Promises
- Same arguments, same pods and selectors, in any process.
- A uniform column gives each value to the same number of pods, one more or less.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, cycle, islice
from random import Random
from typing import Any, NamedTuple

import orjson

from sqlcache.lister import PodLister
from sqlcache.objects import Object, Objects, labels_of
from sqlcache.selectors import Selector, parse
from sqlcache.store.api import Indexer

Event = dict[str, Any]
Column = Sequence[tuple[str, str]]  # label key and value of each pod
NARROW, BROAD = 0.001, 0.1  # 150 and 15,000 of 150,000 pods
ZIPF_EXPONENT = 1.1  # as in the figures of client-go that the project compares with
BATCH = 500  # events: the page size of client-go's reflector
_CHUNK = 10_000


class Question(NamedTuple):
    """What a lister is asked."""

    namespace: str
    selector: Selector


def question(namespace: str, selector: str) -> Question:
    """Return a question, its selector parsed: the bench times stores, not the parser."""
    return Question(namespace, parse(selector))


class Query(NamedTuple):
    """One line of the table: many questions of one kind and one selectivity.

    Attributes:
        name: what the table shows.
        first: asked once each; they touch different objects where the kind allows it.
        repeat: asked in turn, again and again.
        check: asked before anything is timed, to compare answers.
    """

    name: str
    first: list[Question]
    repeat: list[Question]
    check: list[Question]


REPEATED = 20
_CHECKED = 5


def query(name: str, pool: Iterable[Question], disjoint: int | None = None) -> Query:
    """Split distinct questions of one kind into those asked first, again, and to check.

    Args:
        name: what the table shows.
        pool: the questions.
        disjoint: how many, from the first on, touch different objects; None: all.

    The last few are for checking only, so that a `first` question is really new to the store.
    """
    questions = list(dict.fromkeys(pool))
    checked = min(_CHECKED, max(1, len(questions) // 5))
    first = questions[:-checked][:disjoint] or questions
    return Query(name, first, questions[:REPEATED], questions[-checked:])


def members(pods: int, share: float) -> int:
    """Return how many pods a share of them is, at least one."""
    return max(1, round(pods * share))


def spread(random: Random, size: int, kinds: int) -> list[int]:
    """Return `size` numbers below `kinds`, each equally often, shuffled."""
    numbers = [number % kinds for number in range(size)]
    random.shuffle(numbers)
    return numbers


def uniform(random: Random, size: int, key: str, values: int) -> Column:
    """Return a column with values `key-0`, `key-1`, …, each on equally many pods."""
    labels = [(key, f"{key}-{number}") for number in range(values)]
    return [labels[number] for number in spread(random, size, values)]


def unique(random: Random, size: int, key: str) -> Column:
    """Return a column with another value of ten characters on each pod, as a job's uid tail."""
    return [(key, f"{random.getrandbits(16):04x}{number:06x}") for number in range(size)]


def zipf(random: Random, size: int, key: str, values: int) -> Column:
    """Return a column in which the value of rank r is on a share of pods that falls as r^-1.1."""
    labels = [(key, f"{key}-{rank}") for rank in range(1, values + 1)]
    weights = list(accumulate(rank**-ZIPF_EXPONENT for rank in range(1, values + 1)))
    return random.choices(labels, cum_weights=weights, k=size)


def values_near(column: Column, target: int, factor: float, most: int) -> list[str]:
    """Return the values whose number of pods is nearest to a target, within a factor."""
    distance = {
        value: abs(math.log(count / target)) for (_, value), count in Counter(column).items()
    }
    near = [value for value in distance if distance[value] <= math.log(factor)]
    return sorted(near or distance, key=lambda value: (distance[value], value))[:most]


def pods_with(columns: Sequence[Column], namespaces: Sequence[str]) -> Objects:
    """Return one pod for each entry of `namespaces`, with the labels that the columns give it."""
    rows: Iterator[tuple[Any, ...]] = zip(*columns, strict=True) if columns else iter(())
    return decoded(
        pod(number, namespace, dict(next(rows, ()))) for number, namespace in enumerate(namespaces)
    )


def one_namespace(pods: int) -> list[str]:
    """Return the same namespace for each pod."""
    return ["shop"] * pods


def pod(number: int, namespace: str, labels: dict[str, str]) -> Object:
    """Return a small pod; its fields other than labels depend on its number alone."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number:06d}",
            "namespace": namespace,
            "uid": f"{number * 2654435761 % 2**32:08x}-5f1c-4a6e-9d33-{number:012x}",
            "resourceVersion": str(1000 + number),
            "labels": labels,
        },
        "spec": {"nodeName": f"node-{number % 5000}"},
        "status": {
            "phase": "Running",
            "podIP": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
        },
    }


def decoded(objs: Iterable[Object]) -> Objects:
    """Return the objects as a JSON decoder makes them: no two share a value."""
    remaining = iter(objs)
    result: Objects = []
    while chunk := list(islice(remaining, _CHUNK)):
        result += orjson.loads(orjson.dumps(chunk))
    return result


def added(objs: Iterable[Object]) -> list[list[Event]]:
    """Return ADDED events for objects, in batches of `BATCH`."""
    events = iter([{"type": "ADDED", "object": obj} for obj in objs])
    return list(iter(lambda: list(islice(events, BATCH)), []))


def five_labels(random: Random, pods: int) -> list[Column]:
    """Return the labels of an ordinary pod: svc (0.1 % of pods each), app, env, tier, zone."""
    return [
        uniform(random, pods, "svc", max(1, pods // members(pods, NARROW))),
        uniform(random, pods, "app", 100),
        uniform(random, pods, "env", 4),
        uniform(random, pods, "tier", 10),
        uniform(random, pods, "zone", 3),
    ]


def ordinary_pods(pods: int, seed: str) -> Objects:
    """Return pods of one namespace with `five_labels`."""
    columns = five_labels(Random(seed), pods)  # noqa: S311 - not for secrets
    return pods_with(columns, one_namespace(pods))


def service_questions(pods: int, namespace: str = "shop") -> Iterator[Question]:
    """Yield one question for each value of the svc label of `five_labels`."""
    for number in range(max(1, pods // members(pods, NARROW))):
        yield question(namespace, f"svc=svc-{number}")


def repeated(store: Indexer, questions: Sequence[Question]) -> Iterator[Callable[[], Objects]]:
    """Return calls of a lister that ask the questions in turn, without end."""
    lister = PodLister(store)
    return (
        partial(lister.pods(question.namespace).list, question.selector)
        for question in cycle(questions)
    )


class Feed:
    """Watch events that change pods of a list, which is kept up to date.

    The event's object is a new decoded copy, as from the wire, so a store cannot find labels
    unchanged by identity.
    """

    def __init__(self, pods: Objects, seed: int) -> None:
        """Start after the last resourceVersion of the pods.

        Args:
            pods: with the labels of `five_labels`; changed in place.
            seed: which pods come in which order, and their new labels.
        """
        self.pods = pods
        self._random = Random(f"feed {seed}")  # noqa: S311 - not for secrets
        self._version = 10_000_000
        order = Random(f"turns {seed}")  # noqa: S311 - not for secrets
        self._turns = cycle(order.sample(range(len(pods)), len(pods)))
        self._values: dict[str, list[str]] = {
            key: sorted({labels_of(pod)[key] for pod in pods})
            for key in pods[0]["metadata"]["labels"]
        }

    def batch(self, size: int, changed: int | None) -> list[Event]:
        """Return MODIFIED events for `size` different pods.

        Args:
            size: number of events, at most the number of pods.
            changed: how many labels get another value; None takes 0 or 1 in turn.
        """
        numbers = self._random.sample(range(len(self.pods)), size)
        events = []
        for place, number in enumerate(numbers):
            count = place % 2 if changed is None else changed
            events.append({"type": "MODIFIED", "object": self._changed(number, count)})
        return events

    def turn(self, size: int) -> list[Event]:
        """Return MODIFIED events that change one label of the next pods.

        Args:
            size: number of events; every pod has its turn before any has another one.
        """
        numbers = islice(self._turns, size)
        return [{"type": "MODIFIED", "object": self._changed(number, 1)} for number in numbers]

    def _changed(self, number: int, changed: int) -> Object:
        obj: Object = orjson.loads(orjson.dumps(self.pods[number]))
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        labels = obj["metadata"]["labels"]
        for key in self._random.sample(sorted(labels), changed):
            labels[key] = self._other(key, labels[key])
        self.pods[number] = obj
        return obj

    def _other(self, key: str, value: str) -> str:
        values = self._values[key]
        if len(values) == 1:
            return f"{value}-other"
        choice = self._random.choice(values)
        return choice if choice != value else values[values.index(value) - 1]
