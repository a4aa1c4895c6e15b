"""Real child processes: fresh ones, and how they end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlcache.bench.process import Child, ChildError, Nursery
from sqlcache.bench.results import Parameters
from sqlcache.bench.scenarios.workload import Job

TINY = Parameters(50, ("dict",), ("single-label",), quick=True, cell_s=0.01, rounds=1, samples=5)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as nursery:
        yield nursery


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job("single-label", "dict", TINY, {}, str(tmp_path))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pid_of(child: Child) -> int:
    pid = child.pid
    assert pid is not None
    return pid


def test_child_does_its_job_and_ends(nursery: Nursery, job: Job) -> None:
    child = Child(job, 60, nursery)
    pid = pid_of(child)
    reply = child.receive()
    assert len(reply["rounds"]) == 8
    assert len(reply["answers"]) >= 8
    (measured,) = child.ask({"cell": 0, "round": 0})["measurements"]
    assert measured["samples_us"]
    child.stop()
    assert not is_alive(pid)


def test_children_are_processes_of_their_own(nursery: Nursery, job: Job) -> None:
    children = [Child(job, 60, nursery) for _ in range(2)]
    pids = {pid_of(child) for child in children}
    for child in children:
        child.receive()
        child.kill()
    assert len(pids | {os.getpid()}) == 3
    assert not any(map(is_alive, pids))


def test_child_that_is_too_slow_is_ended(nursery: Nursery, job: Job) -> None:
    child = Child(job, 1e-6, nursery)
    pid = pid_of(child)
    with pytest.raises(ChildError, match=r"^out of time: not done within 1e-06 s$"):
        child.receive()
    assert not is_alive(pid)
    child.kill()  # twice is harmless
    child.stop()


def test_child_that_the_system_kills_is_told(nursery: Nursery, job: Job) -> None:
    child = Child(job, 60, nursery)
    child.receive()
    os.kill(pid_of(child), signal.SIGKILL)
    with pytest.raises(ChildError, match="killed by the system, probably out of memory"):
        child.ask({"cell": 0, "round": 0})


def test_child_that_crashes_is_told_with_its_signal(nursery: Nursery, job: Job) -> None:
    child = Child(job, 60, nursery)
    child.receive()
    os.kill(pid_of(child), signal.SIGSEGV)
    time.sleep(0.05)
    with pytest.raises(ChildError, match="died of SIGSEGV"):
        child.ask({"cell": 0, "round": 0})


def test_child_that_raises_is_told_with_its_error(nursery: Nursery, job: Job) -> None:
    child = Child(job, 60, nursery)
    child.receive()
    with pytest.raises(ChildError, match="died: IndexError: list index out of range"):
        child.ask({"cell": 999, "round": 0})


def test_ctrl_c_in_the_terminal_does_not_reach_children(nursery: Nursery, job: Job) -> None:
    child = Child(job, 60, nursery)
    pid = pid_of(child)
    assert os.getpgid(pid) != os.getpgid(0)
    os.kill(pid, signal.SIGINT)
    assert child.receive()["answers"]
    child.stop()


def test_nursery_that_is_gone_is_told(job: Job) -> None:
    with Nursery() as nursery:
        nursery.process.kill()
        nursery.process.wait()
        with pytest.raises(ChildError, match="no processes can be started"):
            Child(job, 60, nursery)


def test_a_package_of_the_same_name_in_the_working_directory_is_not_taken(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clone of the sources is one, where the installed package is to be measured."""
    (tmp_path / "sqlcache").mkdir()
    (tmp_path / "sqlcache" / "__init__.py").write_text("raise ImportError('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    with Nursery() as nursery:
        child = Child(job, 60, nursery)
        assert child.receive()["rounds"]
        child.stop()
