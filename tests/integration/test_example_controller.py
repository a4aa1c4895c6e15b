"""docs/examples: the controller that is documented runs, on every backend, and is short."""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sqlcache.objects import Object
from sqlcache.store import BACKENDS
from sqlcache.testing.apiserver import ApiServer, custom_resource
from tests.integration.chaos import new_pod
from tests.integration.clusters import PATIENCE_S, eventually

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs/examples/pod_disruption_budgets.py"
BUDGETS = "poddisruptionbudgets"
Reports = dict[str, list[str] | None]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    budgets = custom_resource(BUDGETS, "PodDisruptionBudget", "policy")
    with ApiServer(resources=[budgets]) as server:
        yield server


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(server.kubeconfig()))
    return str(path)


@pytest.fixture(params=[*BACKENDS, "sqlite:///{}/cache.db"])
def reports(request: pytest.FixtureRequest, kubeconfig: str, tmp_path: Path) -> Iterator[Reports]:
    """Run the example; return what it reported last of each budget."""
    run: Callable[..., Any] = runpy.run_path(str(EXAMPLE))["run"]
    reported: Reports = {}
    stop = threading.Event()
    thread = threading.Thread(
        target=run,
        args=(reported.__setitem__, stop, request.param.format(tmp_path)),
        kwargs={"kubeconfig": kubeconfig},
    )
    thread.start()
    yield reported
    stop.set()
    thread.join(PATIENCE_S)


def budget(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def test_the_pods_of_budgets_are_reported_whenever_they_may_be_others(
    server: ApiServer, reports: Reports
) -> None:
    in_web = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
    for each in (
        budget("web", selector=in_web),
        budget("all", selector={}),
        budget("none"),
        budget("null", selector=None),
    ):
        server.create(BUDGETS, each)
    server.create("pods", new_pod("a", labels={"app": "web"}))
    server.create("pods", new_pod("b", labels={"app": "db"}))
    server.create("pods", new_pod("c", "lab", labels={"app": "web"}))
    nothing: Reports = {"shop/none": [], "shop/null": []}
    eventually(lambda: reports == {"shop/web": ["a"], "shop/all": ["a", "b"], **nothing})

    server.patch("pods", "b", {"metadata": {"labels": {"app": "web"}}}, namespace="shop")
    eventually(lambda: reports["shop/web"] == ["a", "b"])
    server.patch("pods", "a", {"metadata": {"labels": {"app": "db"}}}, namespace="shop")
    eventually(lambda: reports["shop/web"] == ["b"])
    server.delete("pods", "b", namespace="shop")
    eventually(lambda: reports["shop/web"] == [])
    eventually(lambda: reports["shop/all"] == ["a"])
    in_db = {"matchLabels": {"app": "db"}, "matchExpressions": None}
    server.patch(BUDGETS, "web", {"spec": {"selector": in_db}}, "shop")
    eventually(lambda: reports["shop/web"] == ["a"])
    server.delete(BUDGETS, "web", namespace="shop")
    eventually(lambda: reports["shop/web"] is None)
    assert reports == {"shop/web": None, "shop/all": ["a"], **nothing}


def test_pods_that_went_while_the_watch_was_down_are_noticed(
    server: ApiServer, reports: Reports
) -> None:
    server.create(BUDGETS, budget("web", selector={"matchLabels": {"app": "web"}}))
    for name in "ab":
        server.create("pods", new_pod(name, labels={"app": "web"}))
    eventually(lambda: reports == {"shop/web": ["a", "b"]})
    with server.refusing():
        server.delete("pods", "a", namespace="shop")
        server.skip_versions()
        server.compact()
    eventually(lambda: reports == {"shop/web": ["b"]})


def test_it_runs_as_a_program_until_ctrl_c(server: ApiServer, kubeconfig: str) -> None:
    server.create(BUDGETS, budget("web", selector={"matchLabels": {"app": "web"}}))
    server.create("pods", new_pod("a", labels={"app": "web"}))
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(EXAMPLE)],
        env={**os.environ, "KUBECONFIG": kubeconfig},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert any("shop/web: ['a']" in line for line in process.stderr)
        # A KeyboardInterrupt that is raised inside a garbage collection is lost to the program.
        for _ in range(round(PATIENCE_S / 5)):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
                break
        assert process.poll() == -signal.SIGINT
    finally:
        process.kill()
        process.communicate()


def test_it_has_fewer_than_60_lines_and_stands_in_the_docs_as_it_is() -> None:
    source = EXAMPLE.read_text()
    assert source.count("\n") < 60
    assert f"```py\n{source}```" in (ROOT / "docs/controllers.md").read_text()
