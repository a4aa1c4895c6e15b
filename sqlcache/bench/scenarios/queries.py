"""Queries by selector: single-label, multi-label, set-based and namespaces.

Each query is measured as `first` (every question is a new one, and no object was decoded before)
and then as `repeat` (up to twenty questions in turn, each asked before).

Promises
- Timed answers are digested too, and compared between backends afterwards.
- A question is asked through PodLister, with a selector that was parsed before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice, zip_longest
from random import Random

from sqlcache.bench import workloads
from sqlcache.bench.answers import Answer, answer
from sqlcache.bench.measuring import setting_up, timed
from sqlcache.bench.scenarios.workload import Cell, Measurement, Workload
from sqlcache.bench.workloads import BROAD, NARROW, Column, Query, Question, members, query, uniform
from sqlcache.lister import PodLister
from sqlcache.objects import Objects

_WAKE = workloads.question("no-such-namespace", "wake=up")  # touches no object
_CHECKED_AGAIN = 3  # of the questions asked in turn
_LEAST_SAMPLES = 4
_SLOW_US = 1e6  # a call: one more of a line that decodes every pod would say what the last one said
_UNTIMED_S = 5.0  # of a query, each time
_Sample = tuple[int, float, Objects]  # number of the question, microseconds, answer


class Queries(Workload):
    """Pods, loaded once, and questions about them."""

    facts: dict[str, int]  # further fields of each result

    def prepare(self) -> list[Answer | None]:
        """Load the pods; answer a few questions of each query, or one if that is slow."""
        self.facts = {}
        random = Random(f"{type(self).__name__} {self.parameters.seed}")  # noqa: S311 - no secrets
        with setting_up():
            self.pods, self.queries = self.data(random)
            self.subject.load(self.pods)
        self._checked = [self._check(each) for each in self.queries]
        return [
            given
            for each, answers in zip(self.queries, self._checked, strict=True)
            for given, _ in zip_longest(answers, _to_check(each))
        ]

    def _check(self, query: Query) -> list[Answer]:
        return [answer(objs) for objs in _ask_untimed(self, _to_check(query))]

    @abstractmethod
    def data(self, random: Random) -> tuple[Objects, list[Query]]:
        """Return the pods and the queries."""

    def cells(self) -> Sequence[Cell]:
        """Return each query, first and then repeated."""
        return [
            cell(self, each, _median([count for count, _ in checked]))
            for each, checked in zip(self.queries, self._checked, strict=True)
            for cell in (First, Repeat)
        ]


class First(Cell):
    """Each question once."""

    variant = "first"

    def __init__(self, workload: Queries, query: Query, matches: int) -> None:
        """Take a query and the number of objects that a typical answer has."""
        self.workload, self.query, self.matches = workload, query, matches

    def measure(self, round_number: int) -> list[Measurement]:
        """Ask this round's part of the questions."""
        if round_number == 0:
            self.workload.subject.cool()
        _count(_ask_untimed(self.workload, [_WAKE]))
        parameters = self.workload.parameters
        most, rounds = min(parameters.samples, len(self.query.first)), parameters.rounds
        low, high = (most * number // rounds for number in (round_number, round_number + 1))
        result = self._measurement()
        for number, elapsed, objs in self._timed(enumerate(self.query.first[low:high], low)):
            result.samples_us.append(elapsed)
            result.answers[str(number)] = answer(objs)
        return [result]

    def _timed(self, questions: Iterable[tuple[int, Question]]) -> Iterator[_Sample]:
        calls = ((number, _call(self.workload, each)) for number, each in questions)
        least = -(-_LEAST_SAMPLES // self.workload.parameters.rounds)
        return timed(calls, self.workload.timed_s, least)

    def _measurement(self) -> Measurement:
        return Measurement(
            self.query.name,
            self.variant,
            len(self.workload.pods),
            self.matches,
            fields=dict(self.workload.facts),
        )


class Repeat(First):
    """The same questions in turn."""

    variant = "repeat"

    def __init__(self, workload: Queries, query: Query, matches: int) -> None:
        """Start with the first question."""
        super().__init__(workload, query, matches)
        self._turns: Iterator[tuple[int, Question]] = iter(())
        self._wake = _WAKE
        self._answers: dict[str, Answer] = {}

    def measure(self, round_number: int) -> list[Measurement]:
        """Ask on, from where the last round stopped, in turn what the first round had asked."""
        if round_number == 0:
            asked = _count(_ask_untimed(self.workload, self.query.repeat))
            self._turns = cycle(enumerate(self.query.repeat[:asked]))
            self._wake = self.query.repeat[0] if asked == len(self.query.repeat) else _WAKE
        else:
            _count(_ask_untimed(self.workload, [self._wake]))
        most = 2 * self.workload.parameters.samples // self.workload.parameters.rounds
        result = self._measurement()
        for number, elapsed, objs in self._timed(islice(self._turns, max(_LEAST_SAMPLES, most))):
            result.samples_us.append(elapsed)
            if str(number) not in self._answers:
                self._answers[str(number)] = answer(objs)
            elif len(objs) != self._answers[str(number)][0]:
                result.wrong = f"another number of objects, {len(objs)}, for the same question"
        result.answers = dict(self._answers)
        return [result]


def _call(workload: Queries, question: Question) -> Callable[[], Objects]:
    lister = PodLister(workload.subject.store).pods(question.namespace)
    return partial(lister.list, question.selector)


def _ask_untimed(workload: Queries, questions: Iterable[Question]) -> Iterator[Objects]:
    """Yield the answers to the first questions: up to a slow one, or as many as 5 s allow."""
    calls = ((None, _call(workload, each)) for each in questions)
    for _, elapsed, objs in timed(calls, _UNTIMED_S, 1):
        yield objs
        if elapsed > _SLOW_US:
            return


def _count(answers: Iterator[Objects]) -> int:
    return sum(1 for _ in answers)


def _to_check(query: Query) -> list[Question]:
    return [*query.check, *query.repeat[:_CHECKED_AGAIN]]


def _median(counts: Sequence[int]) -> int:
    return sorted(counts)[len(counts) // 2]


class SingleLabel(Queries):
    """`app=…`: 0.1 % and 10 % of all pods, values spread evenly or as by Zipf's law."""

    def data(self, random: Random) -> tuple[Objects, list[Query]]:
        """Return pods with five labels, and a query for each share and distribution."""
        pods = self.parameters.pods
        narrow, broad = members(pods, NARROW), members(pods, BROAD)
        columns = [
            uniform(random, pods, "app", max(1, pods // narrow)),
            uniform(random, pods, "tier", 10),
            uniform(random, pods, "zone", 10),
            workloads.zipf(random, pods, "team", 1000),
            workloads.zipf(random, pods, "user", 1000),
        ]
        skewed = columns[3:]
        self.facts = {"labels": len(columns)}
        queries = [
            query("one label, 0.1 % of pods, uniform", _equal(columns[:1])),
            query("one label, 10 % of pods, uniform", _equal(columns[1:3]), disjoint=10),
            query("one label, 0.1 % of pods, zipf", _near(skewed, narrow, 1.5, 60)),
            query("one label, 10 % of pods, zipf", _near(skewed, broad, 3, 4)),
        ]
        return workloads.pods_with(columns, workloads.one_namespace(pods)), queries


def _equal(columns: Iterable[Column]) -> Iterator[Question]:
    for column in columns:
        for key, value in dict.fromkeys(column):
            yield workloads.question("shop", f"{key}={value}")


def _near(columns: Iterable[Column], target: int, factor: float, most: int) -> Iterator[Question]:
    for column in columns:
        key = column[0][0]
        for value in workloads.values_near(column, target, factor, most):
            yield workloads.question("shop", f"{key}={value}")


_FEW_VALUES = {3: 4, 4: 3}  # of b03 and b04, for two terms that 8 % of the pods meet


class MultiLabel(Queries):
    """Selectors of one to five terms on pods with 1, 5, 10 or 20 labels.

    A pod's service decides all its labels. One label is selective: half of the services carry it
    as `a-svc`, half as `z-svc`, so that it is the first or the last of a selector's sorted terms.
    The others are broad, `b01` … `b19`, with ten values each, but four for b03 and three for b04.
    """

    def data(self, random: Random) -> tuple[Objects, list[Query]]:
        """Return pods with the job's number of labels, and a query for each number of terms."""
        pods, labels = self.parameters.pods, int(self.options["labels"])
        services = max(2, pods // members(pods, NARROW))
        broad = [
            uniform(random, services, f"b{number:02d}", _FEW_VALUES.get(number, 10))
            for number in range(1, labels)
        ]
        service_of = workloads.spread(random, pods, services)
        columns = [[column[service] for service in service_of] for column in broad]
        columns.append([_selective(service) for service in service_of])
        self.facts = {"labels": labels}
        queries = list(self._selective_queries(broad, services))
        queries += self._broad_queries(broad)
        return workloads.pods_with(columns, workloads.one_namespace(pods)), queries

    def _selective_queries(self, broad: list[Column], services: int) -> Iterator[Query]:
        labels = len(broad) + 1
        for terms in self.options["terms"]:
            for place, parity in (("first", 0), ("last", 1))[: 1 if terms == 1 else 2]:
                name = f"{terms} of {labels} labels, selective one {place}"
                if terms == 1:
                    name = f"1 of {labels} labels"
                pool = (
                    _terms(
                        [_selective(service), *(column[service] for column in broad[: terms - 1])]
                    )
                    for service in range(parity, services, 2)
                )
                yield query(name, pool)

    def _broad_queries(self, broad: list[Column]) -> Iterator[Query]:
        for first, share in ((0, "1 %"), (2, "8 %"))[: len(broad) // 2]:
            pairs = dict.fromkeys(zip(broad[first], broad[first + 1], strict=True))
            name = f"2 broad of {len(broad) + 1} labels, {share} of pods"
            yield query(name, (_terms(pair) for pair in pairs))


def _selective(service: int) -> tuple[str, str]:
    return ("z-svc" if service % 2 else "a-svc"), f"svc-{service}"


def _terms(labels: Iterable[tuple[str, str]]) -> Question:
    return workloads.question("shop", ",".join(f"{key}={value}" for key, value in sorted(labels)))


class _Scattered(Queries):
    """Pods of 1 or 100 namespaces with five labels.

    svc: of one namespace, 0.1 % of all pods; tier: ten values; priority: 0 to 999; one of 100 keys
    `f-…` whose presence counts; one of 40 keys `w-…` with a number from 0 to 999.
    """

    flags, weights = 100, 40

    def data(self, random: Random) -> tuple[Objects, list[Query]]:
        """Return pods of the job's number of namespaces, in turn, and the subclass's queries."""
        pods, self.count = self.parameters.pods, int(self.options["namespaces"])
        self.facts = {"labels": 5, "namespaces": self.count}
        self.names = [f"ns-{number:03d}" for number in range(self.count)]
        self.services = max(1, pods // members(pods, NARROW) // self.count)  # in each namespace
        numbers = [number % self.count for number in range(pods)]
        columns = self._columns(random, numbers)
        namespaces = [self.names[number] for number in numbers]
        return workloads.pods_with(columns, namespaces), list(self.made_queries())

    def _columns(self, random: Random, numbers: list[int]) -> list[Column]:
        pods = len(numbers)
        flags = workloads.spread(random, pods, self.flags)
        weights = workloads.spread(random, pods, self.weights)
        turns = [place // self.count % self.services for place in range(pods)]
        return [
            [("svc", _service(*each)) for each in zip(numbers, turns, strict=True)],
            uniform(random, pods, "tier", 10),
            [("priority", str(random.randrange(1000))) for _ in range(pods)],
            [(f"f-{flag:03d}", "true") for flag in flags],
            [(f"w-{weight:02d}", str(random.randrange(1000))) for weight in weights],
        ]

    @abstractmethod
    def made_queries(self) -> Iterator[Query]:
        """Yield the queries."""

    def places(self, most: int) -> Iterator[tuple[int, str]]:
        """Yield numbers from 0, and for each a namespace, in turn."""
        for number in range(most):
            yield number, self.names[number % self.count]

    def service(self, number: int, step: int = 0) -> str:
        """Return a service of the namespace of `places`' number, another one for each step."""
        turn = number // self.count + step * max(1, self.services // 4)
        return _service(number % self.count, turn % self.services)


def _service(namespace: int, turn: int) -> str:
    return f"svc-{namespace}-{turn}"


class SetBased(_Scattered):
    """Every operator, on all pods in one namespace and on one namespace of 100."""

    _KINDS = (
        ("in (3 values)", 1000),
        ("notin (3 values)", 1000),
        ("!=", 1000),
        ("exists", 100),
        ("!key", 100),
        (">", 40),
        ("<", 40),
        ("> and <", 100),
        ("= and !=", 1000),
    )

    def made_queries(self) -> Iterator[Query]:
        """Yield a query for each operator."""
        where = "1 namespace" if self.count == 1 else f"one of {self.count} namespaces"
        for kind, most in self._KINDS:
            if kind in self.options.get("kinds", [kind]):
                pool = (
                    workloads.question(namespace, self._text(kind, number))
                    for number, namespace in self.places(min(most, 250))
                )
                yield query(f"{kind}, {where}", pool)

    def _text(self, kind: str, number: int) -> str:
        service, other, third = (self.service(number, step) for step in range(3))
        flag, weight = f"f-{number % self.flags:03d}", f"w-{number % self.weights:02d}"
        low = number * 10 % 1000
        return {
            "in (3 values)": f"svc in ({service},{other},{third})",
            "notin (3 values)": f"svc notin ({service},{other},{third})",
            "!=": f"svc!={service}",
            "exists": flag,
            "!key": f"!{flag}",
            ">": f"{weight}>599",
            "<": f"{weight}<400",
            "> and <": f"priority>{low},priority<{low + 11}",
            "= and !=": f"svc={service},tier!=tier-{number % 10}",
        }[kind]


class Namespaces(_Scattered):
    """One label asked of one namespace and of all, with 1 and with 100 namespaces."""

    def made_queries(self) -> Iterator[Query]:
        """Yield a rare and a common label, asked of one namespace and of all."""
        if self.count == 1:
            places = [("its namespace", False), ("all namespaces", True)]
        else:
            places = [
                (f"one of {self.count} namespaces", False),
                (f"all {self.count} namespaces", True),
            ]
        for where, everywhere in places:
            yield query(
                f"svc=…, {where}",
                (
                    workloads.question(
                        "" if everywhere else namespace, f"svc={self.service(number)}"
                    )
                    for number, namespace in self.places(min(250, self.count * self.services))
                ),
            )
            yield query(
                f"tier=…, {where}",
                (
                    workloads.question("" if everywhere else namespace, f"tier=tier-{number % 10}")
                    for number, namespace in self.places(250 if self.count > 1 else 10)
                ),
            )
