"""Runs scenarios: a process for each backend and workload, answers compared, cells in turn.

Flow: for each task of a scenario, start a child for each backend; compare their answers with
those of `dict`; for each cell and round, let each backend measure, one after the other, so that a
noisy moment of the machine hits all of them; compare what they answered while they were timed.

Promises
- Only one child works at a time while something is timed.
- Results come as soon as a cell is done; ending the iteration early, or an exception, ends the
  children and removes their files.
- A backend that fails gets rows with the reason, and the others go on.

Elsewhere: one process (process), what it does (child, scenarios).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from sqlcache.bench.answers import Answer
from sqlcache.bench.backends import BACKENDS, MODEL
from sqlcache.bench.process import Child, ChildError, Nursery, signals_held
from sqlcache.bench.results import Parameters, Result
from sqlcache.bench.scenarios import SCENARIOS
from sqlcache.bench.scenarios.workload import Job, Measurement, Task


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands.

    Attributes:
        scenario: name of the scenario at work.
        what: what it does at the moment.
        position: tasks done, with the part done of the present one.
        total: tasks of the whole run.
    """

    scenario: str
    what: str
    position: float
    total: int


Notify = Callable[[Progress], None]
Announce = Callable[[str, float], None]  # what is done now, and 0..1 of the task


def run(
    parameters: Parameters,
    notify: Notify = lambda progress: None,
) -> Generator[Result, None, None]:
    """Yield the results of all scenarios, as each part is done; see `finished`.

    Args:
        parameters: what to run.
        notify: told of every step.
    """
    planned = [
        (name, task) for name in parameters.scenarios for task in SCENARIOS[name].tasks(parameters)
    ]
    with Nursery() as nursery:
        for done, (name, task) in enumerate(planned):
            announce = _announcer(notify, name, done, len(planned))
            yield from _TaskRun(name, task, parameters, nursery, announce).results()


def finished(results: Iterable[Result]) -> list[Result]:
    """Return the results of `run` as they are shown, each scenario's finish applied."""
    return [
        result
        for name, group in groupby(results, key=lambda result: result.scenario)
        for result in SCENARIOS[name].finish(list(group))
    ]


def _announcer(notify: Notify, scenario: str, done: int, total: int) -> Announce:
    return lambda what, share: notify(Progress(scenario, what, done + share, total))


@dataclass(slots=True)
class _Line:
    """One line of one backend while it is measured."""

    result: Result
    answers: dict[str, Answer] = field(default_factory=dict)
    wrong: str | None = None


_Lines = dict[tuple[str, str], dict[str, _Line]]  # by query and variant, then by backend


class _TaskRun:
    """One task on all backends."""

    def __init__(
        self,
        scenario: str,
        task: Task,
        parameters: Parameters,
        nursery: Nursery,
        announce: Announce,
    ) -> None:
        self.scenario, self.task, self.parameters = scenario, task, parameters
        self.nursery, self.announce = nursery, announce
        self.wanted = [name for name in parameters.backends if task.suits(BACKENDS[name])]
        # Whose answer to each question is the right one, and it; None where nobody gave one yet.
        self.expected: list[tuple[str, Answer] | None] | None = None
        # Of timed answers, by line and question: the first backend's, so `dict`'s if it is there.
        self.right: dict[tuple[object, ...], tuple[str, Answer]] = {}
        self.failures: dict[str, str] = {}  # by backend
        self.shown: dict[tuple[str, str, int, str], dict[str, Result]] = {}  # by line and backend

    def results(self) -> Iterator[Result]:
        """Yield the results of all backends, then a row for each that is missing."""
        with tempfile.TemporaryDirectory(prefix="sqlcache-bench-") as directory:
            for group in self._groups():
                for result in self._group(group, directory):
                    self.shown.setdefault(result.line, {})[result.backend] = result
                    yield result
        yield from self._missing()

    def _model_first(self) -> list[str]:
        return sorted(self.wanted, key=lambda name: name != MODEL)

    def _groups(self) -> list[list[str]]:
        """Return the backends whose children are alive together."""
        wanted = self._model_first()
        if self.task.alone:
            return [[name] for name in wanted]
        # The model answers even if it is not to be measured.
        return [list(dict.fromkeys((MODEL, *wanted)))] if wanted else []

    def _group(self, names: Sequence[str], directory: str) -> Iterator[Result]:
        with ExitStack() as cleanup:
            children = []
            for name in names:
                self.announce(f"{', '.join(names)}: loading", 0)
                job = Job(self.scenario, name, self.parameters, self.task.options, directory)
                with signals_held():  # no child without someone who ends it
                    child = Child(job, self.parameters.time_limit_s, self.nursery)
                    cleanup.callback(child.kill)
                children.append(child)
            rounds = self._prepared(children)
            timed = [child for child in children if child.backend in self.wanted]
            for cell, count in enumerate(rounds):
                yield from self._cell(timed, cell, count, len(rounds))
            for child in children:
                child.stop()

    def _prepared(self, children: Sequence[Child]) -> list[int]:
        rounds: list[int] = []
        for child in children:
            reply = self._reply(child)
            if reply is None:
                continue
            rounds = reply["rounds"]
            self._compare(child, [each and (each[0], each[1]) for each in reply["answers"]])
        return rounds

    def _compare(self, child: Child, answers: list[Answer | None]) -> None:
        """Let the first backend's answers be the right ones: `dict` comes first if it answers."""
        given = [each and (child.backend, each) for each in answers]
        if self.expected is None:
            self.expected = given
            return
        wrong = _differences(self.expected, answers)
        if wrong is not None:
            self._fail(child, wrong)
        else:
            self.expected = [old or new for old, new in zip(self.expected, given, strict=True)]

    def _cell(
        self, children: Sequence[Child], cell: int, rounds: int, cells: int
    ) -> Iterator[Result]:
        lines: _Lines = {}
        for round_number in range(rounds):
            turn = round_number % max(1, len(children))
            for child in (*children[turn:], *children[:turn]):
                if child.backend in self.failures:
                    continue
                self.announce(child.backend, (cell + round_number / rounds) / cells)
                reply = self._reply(child, {"cell": cell, "round": round_number})
                if reply is not None:
                    self._note(child, reply, lines)
        for by_backend in lines.values():
            yield from self._verified(by_backend)

    def _note(self, child: Child, reply: dict[str, Any], lines: _Lines) -> None:
        for row in reply["measurements"]:
            measured = Measurement.from_json(row)
            by_backend = lines.setdefault((measured.query, measured.variant), {})
            line = by_backend.get(child.backend)
            if line is None:
                line = by_backend[child.backend] = _Line(self._result(child.backend, measured))
            line.result.samples_us += measured.samples_us
            line.result.fields |= measured.fields
            line.result.fields["peak_rss_bytes"] = reply["peak_rss_bytes"]
            line.answers |= measured.answers
            line.wrong = line.wrong or measured.wrong

    def _result(self, backend: str, measured: Measurement) -> Result:
        return Result(
            self.scenario,
            backend,
            measured.variant,
            measured.query,
            measured.pods,
            measured.matches,
            bytes=measured.bytes,
            error=measured.error,
        )

    def _verified(self, by_backend: dict[str, _Line]) -> Iterator[Result]:
        """Yield the results of one line; one whose timed answers were wrong has no number."""
        for backend in self._model_first():
            line = by_backend.get(backend)
            if line is None or backend in self.failures:
                continue
            wrong = line.wrong
            for name, answer in line.answers.items():
                place = (*line.result.line, name)
                whose, expected = self.right.setdefault(place, (backend, answer))
                if answer != expected:
                    wrong = _difference(whose, expected, answer, 1)
            if wrong is not None:
                line.result.error = f"wrong answer: {wrong}"
                line.result.samples_us = []
            yield line.result

    def _reply(self, child: Child, request: dict[str, Any] | None = None) -> dict[str, Any] | None:
        try:
            return child.receive() if request is None else child.ask(request)
        except ChildError as error:
            self.failures[child.backend] = str(error)
            return None

    def _fail(self, child: Child, wrong: str) -> None:
        self.failures[child.backend] = f"wrong answer: {wrong}"
        child.kill()

    def _missing(self) -> Iterator[Result]:
        """Yield a row that gives the reason for each line that a failed backend lacks."""
        for backend, reason in self.failures.items():
            if backend not in self.wanted:
                continue
            lacking = [of for of in self.shown.values() if backend not in of]
            for by_backend in lacking:
                other = next(iter(by_backend.values()))
                yield Result(
                    self.scenario, backend, other.variant, other.query, other.pods,
                    other.matches, error=reason,
                )  # fmt: skip
            if not self.shown:
                pods = int(self.task.options.get("pods", self.parameters.pods))
                yield Result(self.scenario, backend, "", "all", pods, error=reason)


def _differences(
    expected: Sequence[tuple[str, Answer] | None], answers: Sequence[Answer | None]
) -> str | None:
    """Return the first difference, None if there is none in what both sides have answered."""
    for number, (right, got) in enumerate(zip(expected, answers, strict=False), 1):
        if right is not None and got is not None and right[1] != got:
            return _difference(*right, got, number)
    if len(answers) != len(expected):
        return f"{len(answers)} answers instead of {len(expected)}"
    return None


def _difference(whose: str, expected: Answer, got: Answer, number: int) -> str:
    if got[0] != expected[0]:
        return f"{got[0]} objects instead of {expected[0]} to question {number} (from {whose})"
    return f"{got[0]} objects, but not those of {whose}, to question {number}"
