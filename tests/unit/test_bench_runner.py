"""The runner with children of paper: who is compared with whom, and what becomes of failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sqlcache.bench import runner
from sqlcache.bench.process import ChildError
from sqlcache.bench.results import Parameters, Result
from sqlcache.bench.scenarios import SCENARIOS
from sqlcache.bench.scenarios.workload import Job, Measurement, Task

Script = dict[str, Any]
TWO = ("dict", "sqlite")


class PaperChild:
    """Answers as its backend's script says; remembers what it was asked."""

    scripts: ClassVar[dict[str, Script]] = {}
    made: ClassVar[list[PaperChild]] = []

    def __init__(self, job: Job, time_limit_s: float, nursery: object) -> None:
        self.backend, self.job = job.backend, job
        self.script = self.scripts.get(job.backend, {})
        self.asked: list[tuple[int, int]] = []
        self.running = True
        self.made.append(self)

    def receive(self) -> dict[str, Any]:
        if "dies" in self.script:
            raise ChildError(self.script["dies"])
        answers = self.script.get("answers", [(3, "aaa"), (4, "bbb")])
        return {"answers": answers, "rounds": [2, 1]}

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        cell, number = request["cell"], request["round"]
        self.asked.append((cell, number))
        if self.script.get("dies in cell") == cell:
            raise ChildError("out of memory")
        answers = {"0": (3, "aaa"), str(number + 1): self.script.get("timed answer", (4, "bbb"))}
        measured = Measurement(
            f"query {cell}",
            "repeat",
            self.job.parameters.pods,
            3,
            samples_us=[float(number)],
            answers=answers,
            wrong=self.script.get("wrong"),
        )
        return {"measurements": [measured.to_json()], "peak_rss_bytes": 7}

    def kill(self) -> None:
        self.running = False

    def stop(self) -> None:
        self.running = False


class PaperNursery:
    def __enter__(self) -> PaperNursery:
        return self

    def __exit__(self, *exc: object) -> None:
        assert not any(child.running for child in PaperChild.made)


@pytest.fixture(autouse=True)
def _paper(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runner, "Child", PaperChild)
    monkeypatch.setattr(runner, "Nursery", PaperNursery)
    monkeypatch.setattr(PaperChild, "made", [])
    monkeypatch.setattr(PaperChild, "scripts", {})
    yield
    assert not any(child.running for child in PaperChild.made)


def run(backends: tuple[str, ...] = TWO, scenario: str = "single-label") -> list[Result]:
    return list(runner.run(Parameters(10, backends, (scenario,), rounds=2)))


def outcomes(results: list[Result]) -> dict[tuple[str, str], str]:
    return {(each.backend, each.query): each.error or "measured" for each in results}


def test_samples_of_all_rounds_are_kept() -> None:
    first, *_ = run()
    assert (first.backend, first.query, first.samples_us) == ("dict", "query 0", [0.0, 1.0])
    assert first.fields["peak_rss_bytes"] == 7


def test_each_round_starts_with_another_backend() -> None:
    """Whoever comes first after a pause would else always be the same."""
    order: list[str] = []
    ask = PaperChild.ask

    def noted(self: PaperChild, request: dict[str, Any]) -> dict[str, Any]:
        order.append(self.backend)
        return ask(self, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PaperChild, "ask", noted)
        run()
    assert order == ["dict", "sqlite", "sqlite", "dict", "dict", "sqlite"]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        (
            [(3, "aaa"), (5, "ccc")],
            "wrong answer: 5 objects instead of 4 to question 2 (from dict)",
        ),
        ([(3, "aaa"), (4, "ccc")], "wrong answer: 4 objects, but not those of dict, to question 2"),
        ([(3, "aaa")], "wrong answer: 1 answers instead of 2"),
    ],
)
def test_wrong_answer_before_gets_no_number(answers: list[Any], reason: str) -> None:
    PaperChild.scripts["sqlite"] = {"answers": answers}
    results = run()
    assert outcomes(results) == {
        ("dict", "query 0"): "measured",
        ("dict", "query 1"): "measured",
        ("sqlite", "query 0"): reason,
        ("sqlite", "query 1"): reason,
    }
    _, wrong = PaperChild.made
    assert wrong.asked == []
    assert all(not each.samples_us for each in results if each.error)


def test_question_left_out_is_compared_where_both_answered() -> None:
    """A slow backend answers fewer questions: one that only others answered makes nobody wrong."""
    PaperChild.scripts["dict"] = {"answers": [(3, "aaa"), None]}
    PaperChild.scripts["dict-index"] = {"answers": [None, (4, "bbb")]}
    PaperChild.scripts["sqlite"] = {"answers": [(3, "aaa"), (5, "ccc")]}
    found = outcomes(run(("dict", "dict-index", "sqlite")))
    assert found["dict-index", "query 0"] == "measured"
    assert found["sqlite", "query 0"] == (
        "wrong answer: 5 objects instead of 4 to question 2 (from dict-index)"
    )


def test_wrong_answer_while_timed_takes_the_number_away() -> None:
    PaperChild.scripts["sqlite"] = {"timed answer": (9, "zzz")}
    (wrong,) = (each for each in run() if each.line[1] == "query 1" and each.error)
    assert wrong.backend == "sqlite"
    assert wrong.error == "wrong answer: 9 objects instead of 4 to question 1 (from dict)"
    assert wrong.samples_us == []


def test_fault_that_the_workload_finds_takes_the_number_away() -> None:
    PaperChild.scripts["sqlite"] = {"wrong": "lost a write"}
    assert outcomes(run())["sqlite", "query 0"] == "wrong answer: lost a write"
    assert outcomes(run())["dict", "query 0"] == "measured"


def test_dict_answers_even_if_it_is_not_asked_for() -> None:
    PaperChild.scripts["sqlite"] = {"answers": [(9, "zzz"), (9, "zzz")]}
    results = run(("sqlite",))
    assert [(each.backend, each.query) for each in results] == [("sqlite", "all")]
    assert "from dict" in (results[0].error or "")
    assert PaperChild.made[0].backend == "dict"
    assert PaperChild.made[0].asked == []


def test_backend_order_does_not_make_dict_wrong() -> None:
    PaperChild.scripts["sqlite"] = {"answers": [(9, "zzz"), (9, "zzz")]}
    assert outcomes(run(("sqlite", "dict")))["dict", "query 0"] == "measured"


def test_death_at_the_start_is_told_for_each_line_of_the_others() -> None:
    PaperChild.scripts["sqlite"] = {"dies": "killed by the system, probably out of memory"}
    found = outcomes(run())
    assert found["dict", "query 1"] == "measured"
    assert found["sqlite", "query 1"] == "killed by the system, probably out of memory"


def test_death_later_keeps_what_was_measured() -> None:
    PaperChild.scripts["sqlite"] = {"dies in cell": 1}
    found = outcomes(run())
    assert found["sqlite", "query 0"] == "measured"
    assert found["sqlite", "query 1"] == "out of memory"


def test_death_of_all_is_told_too() -> None:
    PaperChild.scripts.update({name: {"dies": "out of time: not done within 1 s"} for name in TWO})
    results = run()
    assert outcomes(results) == {(name, "all"): "out of time: not done within 1 s" for name in TWO}


def test_children_of_a_task_that_needs_the_memory_do_not_meet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running: list[int] = []
    start = PaperChild.__init__

    def noted(self: PaperChild, *arguments: Any) -> None:
        start(self, *arguments)
        running.append(sum(child.running for child in PaperChild.made))

    monkeypatch.setattr(PaperChild, "__init__", noted)
    run(scenario="memory")
    assert set(running) == {1}


def test_index_is_not_measured_where_objects_are_bytes() -> None:
    run(("dict", "sqlite-packed"), "memory")
    parts = {(child.backend, child.job.options["part"]) for child in PaperChild.made}
    assert ("dict", "labels") in parts
    assert ("sqlite-packed", "cache") in parts
    assert ("sqlite-packed", "labels") not in parts


def test_end_in_the_middle_ends_the_children_and_removes_their_files() -> None:
    measured = runner.run(Parameters(10, TWO, ("single-label",), rounds=2))
    next(measured)
    directory = Path(PaperChild.made[0].job.directory)
    assert directory.is_dir()
    measured.close()
    assert not any(child.running for child in PaperChild.made)
    assert not directory.exists()


def test_progress_ends_near_the_number_of_tasks() -> None:
    steps: list[runner.Progress] = []
    parameters = Parameters(10, TWO, ("single-label", "namespaces"), rounds=2)
    list(runner.run(parameters, steps.append))
    positions = [step.position for step in steps]
    assert positions == sorted(positions)
    assert {step.total for step in steps} == {3}
    assert 2 < positions[-1] <= 3


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_has_tasks_that_survive_json(name: str, quick: bool) -> None:
    parameters = Parameters(1000, TWO, (name,), quick=quick, files=("dump.json",))
    tasks = SCENARIOS[name].tasks(parameters)
    assert tasks
    for task in tasks:
        assert isinstance(task, Task)
        job = Job(name, "dict", parameters, task.options, "/tmp")  # noqa: S108 - a name only
        assert Job.from_json(job.to_json()) == job
