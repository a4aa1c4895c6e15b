"""`sqlcache run` as a process, on the test API server."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from sqlcache.client import Resource
from sqlcache.objects import Object
from sqlcache.store import BACKENDS
from sqlcache.testing import names
from sqlcache.testing.apiserver import ApiServer, Fault
from tests.integration.chaos import NAMESPACES, Chaos, add_pod, new_pod, service
from tests.integration.clusters import WRITES, eventually
from tests.integration.command import Result, error, run, wrong_usage
from tests.integration.following import Following, following_as

pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
pytest.importorskip("prometheus_client", reason="needs the extra metrics")

SECRET = "s3cr3t-t0k3n"  # noqa: S105
SERVED = re.compile(r"/metrics at (http://\S+)")
WRITTEN = ("endpoints", "endpointslices")
ELECT = ("--leader-elect", "--lease", "kube-system/it")


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """A server with two services, "web" with two pods and "none" without."""
    with ApiServer(token=SECRET) as server:
        server.create("nodes", {"metadata": {"name": "n1"}})
        for name in ("web", "none"):
            server.create("services", service(name))
        add_pod(server, "a", "10.0.0.1")
        add_pod(server, "b", "10.0.0.2")
        yield server


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(server.kubeconfig()))
    return path


class Running(Following):
    """A manager that runs."""

    @property
    def url(self) -> str:
        """Where it serves."""
        self.wait_for("/metrics at ", stream="stderr")
        found = SERVED.search(self.stderr)
        assert found
        return found[1]

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and the text that a path answers."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:  # noqa: S310
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()


def managing(kubeconfig: Path, *args: str) -> AbstractContextManager[Running]:
    """Run a manager within the block."""
    args = ("run", "--listen", "127.0.0.1:0", *args)
    return following_as(Running, *args, kubeconfig=kubeconfig)


def addresses(server: ApiServer) -> tuple[list[str], list[str]]:
    """Return the addresses of the service "web", from its Endpoints and from its slices."""
    from_endpoints = [
        address["ip"]
        for each in server.list("endpoints")
        for subset in each.get("subsets") or ()
        for address in subset["addresses"]
    ]
    from_slices = [
        address
        for each in server.list("endpointslices")
        for endpoint in each["endpoints"] or ()
        for address in endpoint["addresses"]
    ]
    return sorted(from_endpoints), sorted(from_slices)


def is_written(server: ApiServer, *ips: str) -> bool:
    return addresses(server) == (list(ips), list(ips))


def holder(server: ApiServer) -> str:
    return str(server.get("leases", "it", "kube-system")["spec"]["holderIdentity"])


def asked(server: ApiServer) -> list[tuple[str, str]]:
    return [(each.verb, each.resource) for each in server.requests]


class TestWork:
    @pytest.mark.parametrize("backend", [*BACKENDS, "sqlite:///cache.db"])
    def test_it_writes_and_ends(
        self,
        server: ApiServer,
        kubeconfig: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        backend: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("SQLCACHE_BACKEND", backend)
        with managing(kubeconfig) as manager:
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2"))
            add_pod(server, "c", "10.0.0.3")
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2", "10.0.0.3"))
            assert f'backend="{backend.partition(":")[0]}"' in manager.get("/metrics")[1]
            result = manager.end(signal.SIGTERM)
        assert (result.exit_code, result.stdout) == (0, "")
        assert server.count("leases") == 0
        assert Path("cache.db").exists() == backend.endswith("cache.db")

    def test_some_controllers_in_one_namespace(self, server: ApiServer, kubeconfig: Path) -> None:
        server.create("services", service("web", "lab"))
        with managing(kubeconfig, "--controllers", "endpoints", "-n", "shop") as manager:
            eventually(lambda: server.count("endpoints") == 2)
            manager.wait_for("in sync", stream="stderr")
            manager.end()
        assert {each["metadata"]["namespace"] for each in server.list("endpoints")} == {"shop"}
        assert {each.target.namespace for each in server.requests} == {"shop"}
        looked_at = {resource for verb, resource in asked(server) if verb == "watch"}
        assert looked_at == {"pods", "services", "endpoints"}

    def test_a_file_is_taken_up_again(
        self, server: ApiServer, kubeconfig: Path, tmp_path: Path
    ) -> None:
        """No list but the probe with limit=1, and the Endpoints are not written once more."""
        args = ("--backend", f"sqlite:///{tmp_path}/cache.db")
        with managing(kubeconfig, *args) as manager:
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2"))
            manager.wait_for("all caches are in sync", stream="stderr")
            time.sleep(0.5)
            manager.end()
        before = len(server.requests)
        with managing(kubeconfig, *args) as manager:
            manager.wait_for("all caches are in sync", stream="stderr")
            assert error("run", *args, "--kubeconfig", str(kubeconfig)).endswith(
                f"process {manager.process.pid} is writing it; end that first"
            )
            manager.end()
        new = server.requests[before:]
        assert {each.query.get("limit") for each in new if each.verb == "list"} == {"1"}
        assert not any("sendInitialEvents" in each.query for each in new)
        assert not [each for each in new if each.verb in WRITES]

    def test_bounded_labels(self, server: ApiServer, kubeconfig: Path) -> None:
        """Pods are found all the same; the metric counts keys that went over the limit."""
        for number in range(4):
            server.create("pods", new_pod(f"other{number}", labels={"own": str(number)}))
        with managing(kubeconfig, "--labels", "limit=3 deny=churning") as manager:
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2"))
            manager.wait_for("all caches are in sync", stream="stderr")
            over = 'sqlcache_store_label_keys_over_limit{backend="sqlite",resource="pods"} 1.0'
            assert over in manager.get("/metrics")[1]
            assert "Label own has 4 values, more than the limit of 3" in manager.stderr
            manager.end()

    def test_a_failure_is_told_by_an_event(self, server: ApiServer, kubeconfig: Path) -> None:
        server.faults.error(422, "no room", verb="create", resource="endpoints", name="", times=1)
        with managing(kubeconfig) as manager:
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2"))
            manager.end()  # what waits to be told is written
        (told,) = (each for each in server.list("events") if "no room" in each["message"])
        assert (told["type"], told["reason"]) == ("Warning", "FailedToCreateEndpoint")
        assert told["source"] == {"component": "endpoint-controller"}


class TestLogs:
    def test_lines_of_json(self, server: ApiServer, kubeconfig: Path) -> None:
        with managing(kubeconfig, "--log-format", "json", *ELECT) as manager:
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2"))
            result = manager.end()
        lines = [json.loads(line) for line in result.stderr.splitlines()]
        assert all(line.keys() >= {"ts", "level", "logger", "msg"} for line in lines)
        messages = [line["msg"] for line in lines]
        assert messages[0].startswith("running endpoints, endpointslice on sqlite, cluster http://")
        assert messages[-1] == "stopped"

    def test_no_secrets(self, server: ApiServer, kubeconfig: Path) -> None:
        """Nor when everything fails."""
        with managing(kubeconfig, *ELECT) as manager:
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2"))
            server.faults.error(401, "Unauthorized", times=None)
            server.cut_watches()
            add_pod(server, "c", "10.0.0.3")
            manager.wait_for("Unauthorized", stream="stderr")
            text = manager.get("/metrics")[1]
            result = manager.end(signal.SIGTERM)
        assert SECRET not in result.stderr + text


class TestEndpoints:
    def test_health_and_readiness(self, server: ApiServer, kubeconfig: Path) -> None:
        stalled = server.faults.stall(verb="watch", resource="pods", times=None)
        held = server.faults.stall(verb="create", resource="endpoints", times=None)
        with managing(kubeconfig, *ELECT) as manager:
            waiting = "[-]informer-sync failed: not in sync: pods\n"
            bad = f"{waiting}[+]shutdown ok\nreadyz check failed\n"
            eventually(lambda: manager.get("/readyz") == (500, bad))
            assert manager.get("/healthz") == (200, "ok")
            stalled.remove()
            eventually(lambda: manager.get("/readyz") == (200, "ok"))
            eventually(lambda: held.hits)
            manager.process.send_signal(signal.SIGTERM)
            eventually(lambda: "shutting down" in manager.get("/readyz")[1])
            assert manager.get("/healthz?verbose") == (
                200,
                "[+]ping ok\n[+]leaderElection ok\nhealthz check passed\n",
            )
            held.remove()
            assert manager.finish().exit_code == 0

    def test_metrics(self, server: ApiServer, kubeconfig: Path) -> None:
        with managing(kubeconfig, *ELECT) as manager, managing(kubeconfig, *ELECT) as other:
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2"))
            leader, standby = (
                (manager, other)
                if 'status{name="it"} 1.0' in manager.get("/metrics")[1]
                else (other, manager)
            )
            assert standby.get("/readyz") == (200, "ok")  # or a rollout would never end
            assert 'leader_election_master_status{name="it"} 0.0' in standby.get("/metrics")[1]
            text = leader.get("/metrics")[1]
            standby.end()
        for line in (
            'leader_election_master_status{name="it"} 1.0',
            'workqueue_depth{name="endpoint"} 0.0',
            'workqueue_adds_total{name="endpoint_slice"}',
            'workqueue_work_duration_seconds_count{name="endpoint_pod"}',
            'reflector_watches_total{name="pods"}',
            'reflector_last_resource_version{name="endpointslices.discovery.k8s.io"}',
            'sqlcache_store_objects{backend="sqlite",resource="pods"} 2.0',
            "process_resident_memory_bytes ",
        ):
            assert f"\n{line}" in text

    def test_other_paths_and_methods(self, server: ApiServer, kubeconfig: Path) -> None:
        with managing(kubeconfig) as manager:
            assert manager.get("/")[0] == 404
            assert manager.get("/healthz/")[0] == 404
            posted = urllib.request.Request(f"{manager.url}/healthz", data=b"x")  # noqa: S310
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(posted, timeout=30)  # noqa: S310
            with refused.value:
                assert refused.value.code == 501
            for rubbish in (b"\0\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n"):
                host, port = manager.url.removeprefix("http://").split(":")
                with socket.create_connection((host, int(port)), timeout=30) as connection:
                    connection.sendall(rubbish)
            assert manager.get("/healthz") == (200, "ok")
            assert manager.end().exit_code == 0


@pytest.fixture
def brief_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give leases 6 s instead of 15, and the rest in proportion, in all processes of a test.

    The times that go by without it are tests/unit/test_leader_election.py's.
    """
    times = {"lease_duration_s": 6.0, "renew_deadline_s": 4.0, "retry_period_s": 1.0}
    (tmp_path / "sitecustomize.py").write_text(
        "from sqlcache.manager.election import LeaderElector\n"
        f"LeaderElector.__init__.__kwdefaults__.update({times})\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


class TestElection:
    @pytest.mark.usefixtures("brief_leases")
    def test_when_the_leader_is_killed_the_other_takes_over(
        self, server: ApiServer, kubeconfig: Path
    ) -> None:
        with managing(kubeconfig, *ELECT) as one, managing(kubeconfig, *ELECT) as two:
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2"))
            eventually(lambda: all("the leader is" in each.stderr for each in (one, two)))
            first = holder(server)
            leader, other = (one, two) if "(this process)" in one.stderr else (two, one)
            assert "caches are in sync" not in other.stderr
            leader.process.kill()
            leader.process.wait()
            killed_at = time.monotonic()
            add_pod(server, "c", "10.0.0.3")
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2", "10.0.0.3"))
            assert 4.5 < time.monotonic() - killed_at < 40
            assert holder(server) not in ("", first)
            assert server.get("leases", "it", "kube-system")["spec"]["leaseTransitions"] == 1
            assert other.end(signal.SIGTERM).exit_code == 0
        assert holder(server) == ""
        told = {each["message"].split(" ", 1)[1] for each in server.list("events", "kube-system")}
        assert told == {"became leader", "stopped leading"}

    def test_a_leader_that_is_told_to_end_hands_over(
        self, server: ApiServer, kubeconfig: Path
    ) -> None:
        with managing(kubeconfig, *ELECT) as one:
            one.wait_for("caches are in sync", stream="stderr")
            with managing(kubeconfig, *ELECT) as two:
                two.wait_for("the leader is", stream="stderr")
                assert one.end(signal.SIGTERM).exit_code == 0
                ended_at = time.monotonic()
                two.wait_for("caches are in sync", stream="stderr")
                assert time.monotonic() - ended_at < 10  # not the 15 s of the Lease
                two.end()

    def test_a_lost_lease_ends_it(self, server: ApiServer, kubeconfig: Path) -> None:
        """At once, with what waits left undone: the new leader does it."""
        server.faults.slow(0.5, verb="create", resource="endpoints", times=None)
        for number in range(60):
            server.create("services", service(f"s{number}"))
        args = (*ELECT, "--controllers", "endpoints", "--workers", "2")
        with managing(kubeconfig, *args) as manager:
            eventually(lambda: server.count("endpoints"))
            server.patch("leases", "it", {"spec": {"holderIdentity": "thief"}}, "kube-system")
            result = manager.finish()
        count = server.count("endpoints")
        assert count < 60
        assert result.exit_code == 1
        assert result.stderr.endswith("\nError: lease kube-system/it is lost: thief holds it now\n")
        assert holder(server) == "thief"
        time.sleep(1)
        assert server.count("endpoints") == count

    @pytest.mark.usefixtures("brief_leases")
    def test_a_lost_api_server_ends_it(self, server: ApiServer, kubeconfig: Path) -> None:
        with managing(kubeconfig, *ELECT) as manager:
            manager.wait_for("caches are in sync", stream="stderr")
            with server.refusing():
                result = manager.finish()
        assert result.exit_code == 1
        assert result.stderr.endswith("is lost: it could not be renewed for 5 s\n")


class TestEnd:
    @pytest.fixture
    def held(self, server: ApiServer) -> Fault:
        """What lets two writes pass and holds the others."""
        return server.faults.stall(verb="create", resource="endpoints", times=None, skip=2)

    @pytest.fixture
    def busy(self, server: ApiServer, kubeconfig: Path, held: Fault) -> Iterator[Running]:
        """A leader with 20 services, of which two are written and two are being written."""
        for number in range(18):
            server.create("services", service(f"s{number}"))
        args = (*ELECT, "--controllers", "endpoints", "--workers", "2")
        with managing(kubeconfig, *args) as manager:
            eventually(lambda: held.hits == 2)
            yield manager

    @pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
    def test_what_waits_is_done_and_then_the_lease_released(
        self, server: ApiServer, busy: Running, held: Fault, signum: signal.Signals
    ) -> None:
        busy.process.send_signal(signum)
        busy.wait_for("stopping: syncing what waits", stream="stderr")
        assert server.count("endpoints") == 2
        held.remove()
        result = busy.finish()
        assert result.exit_code == 0
        assert server.count("endpoints") == 20
        assert holder(server) == ""
        done = [each for each in asked(server) if each[0] in WRITES and each[1] != "events"]
        assert done[-1] == ("update", "leases")
        assert "Error" not in result.stderr

    @pytest.mark.parametrize(
        ("signum", "exit_code", "word"),
        [(signal.SIGTERM, 143, "Terminated"), (signal.SIGINT, 130, "Interrupted")],
    )
    def test_a_second_signal_ends_at_once(
        self, server: ApiServer, busy: Running, signum: signal.Signals, exit_code: int, word: str
    ) -> None:
        busy.process.send_signal(signal.SIGTERM)
        busy.wait_for("stopping: syncing what waits", stream="stderr")
        started = time.monotonic()
        result = busy.end(signum)
        assert time.monotonic() - started < 5
        assert (result.exit_code, result.stderr.splitlines()[-1]) == (exit_code, word)
        assert holder(server) != ""

    def test_a_stop_while_another_leads(self, server: ApiServer, kubeconfig: Path) -> None:
        held = {"holderIdentity": "x", "leaseDurationSeconds": 600}
        lease = {"metadata": {"name": "it", "namespace": "kube-system"}, "spec": held}
        server.create("leases", lease)
        with managing(kubeconfig, *ELECT) as manager:
            manager.wait_for("the leader is x", stream="stderr")
            assert manager.end(signal.SIGTERM).exit_code == 0
        assert holder(server) == "x"
        assert not [each for each in asked(server) if each[0] in WRITES]


class TestDryRun:
    @pytest.fixture
    def dry(self, kubeconfig: Path) -> Any:
        """Return a function that runs it."""

        def dry(*args: str, exit_code: int = 0) -> Result:
            result = run("run", "--dry-run", "--kubeconfig", str(kubeconfig), *args)
            assert result.exit_code == exit_code, result
            return result

        return dry

    @pytest.mark.parametrize("backend", BACKENDS)
    def test_it_shows_what_a_run_then_writes(
        self, server: ApiServer, kubeconfig: Path, dry: Any, backend: str
    ) -> None:
        """And the server saw reads only."""
        self.prepare(server, kubeconfig)
        before = {each: server.list(each) for each in (*WRITTEN, "events", "leases")}
        seen = len(server.requests)
        result = dry("-o", "json", "--backend", backend)
        assert {each.method for each in server.requests[seen:]} == {"GET"}
        assert {each.verb for each in server.requests[seen:]} == {"get", "list", "watch"}
        assert {each: server.list(each) for each in before} == before
        shown = [json.loads(line) for line in result.stdout.splitlines()]
        assert result.stderr == "7 keys looked at, 5 writes, none of them made\n"
        assert {(each["verb"], each["resource"]["plural"], each["name"]) for each in shown} == {
            ("update", "endpoints", "web"),
            ("create", "endpoints", "new"),
            ("delete", "endpoints", "gone"),
            ("update", "endpointslices", self.slice_of(before["endpointslices"], "web")),
            ("create", "endpointslices", "new-"),
        }
        for each in shown:
            stored = before[each["resource"]["plural"]]
            assert each["before"] is None or each["before"] in stored
        with managing(kubeconfig):
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2", "10.0.0.3"))
            eventually(lambda: names(server.list("endpoints")) == ["new", "none", "web"])
            eventually(lambda: server.count("endpointslices") == 3)
        for each in shown:
            self.check_written(server, each)
        assert dry("-o", "json", "--backend", backend).stdout == ""

    def prepare(self, server: ApiServer, kubeconfig: Path) -> None:
        """Bring the cluster into order, and then change it while nobody looks."""
        with managing(kubeconfig) as manager:
            eventually(lambda: is_written(server, "10.0.0.1", "10.0.0.2"))
            eventually(lambda: server.count("endpoints") == server.count("endpointslices") == 2)
            manager.end()
        add_pod(server, "c", "10.0.0.3")
        server.create("services", service("new"))
        server.create("endpoints", {"metadata": {"name": "gone", "namespace": "shop"}})

    @staticmethod
    def slice_of(slices: Sequence[Object], name: str) -> str:
        (found,) = (
            each["metadata"]["name"]
            for each in slices
            if each["metadata"]["labels"]["kubernetes.io/service-name"] == name
        )
        return str(found)

    def check_written(self, server: ApiServer, shown: Any) -> None:
        plural, name = shown["resource"]["plural"], shown["name"]
        there = {each["metadata"]["name"]: each for each in server.list(plural)}
        if shown["after"] is None:
            assert name not in there
            return
        if name.endswith("-"):
            name = self.slice_of(list(there.values()), name.removesuffix("-"))
        stored = there[name]
        for field in ("subsets", "endpoints", "ports", "addressType"):
            assert (stored.get(field) or None) == (shown["after"].get(field) or None)
        assert stored["metadata"]["labels"] == shown["after"]["metadata"]["labels"]

    def test_nothing_is_left_to_do_after_trouble_and_a_change_of_leader(
        self, server: ApiServer, kubeconfig: Path
    ) -> None:
        """Objects change at random while writes fail; the leader ends in the middle."""
        for namespace in NAMESPACES[1:]:
            server.create("namespaces", {"metadata": {"name": namespace}})
        watched = [Resource("", "v1", name) for name in ("pods", "services", "endpoints")]
        chaos = Chaos(server, seed=3, written="endpoints", watched=watched)
        with managing(kubeconfig, *ELECT) as one:
            one.wait_for("all caches are in sync", stream="stderr")
            with managing(kubeconfig, *ELECT) as two:
                two.wait_for("the leader is", stream="stderr")
                for turn in range(200):
                    if turn == 100:
                        assert one.end(signal.SIGTERM).exit_code == 0
                    chaos.turn()
                    time.sleep(0.01)
                server.faults.clear()
                assert min(map(server.count, ("pods", "services"))) > 3
                two.wait_for("all caches are in sync", stream="stderr")
                eventually(lambda: self.is_at_rest(kubeconfig), "a dry run still shows writes")
                assert server.count("endpoints") == server.count("services")

    @staticmethod
    def is_at_rest(kubeconfig: Path) -> bool:
        """Tell if a dry run finds nothing to do.

        While the leader writes, an object may be gone between a list and a write: exit code 1.
        """
        result = run("run", "--dry-run", "--kubeconfig", str(kubeconfig))
        assert result.exit_code in {0, 1}, result
        return result.exit_code == 0 and not result.stdout

    def test_diff(self, server: ApiServer, kubeconfig: Path, dry: Any) -> None:
        self.prepare(server, kubeconfig)
        result = dry("--controllers", "endpoints")
        created, deleted, updated = sorted(re.split(r"(?m)^(?=# )", result.stdout)[1:])
        assert created.startswith("# create endpoints shop/new\n--- on the server\n+++ would be\n")
        assert deleted.startswith("# delete endpoints shop/gone\n")
        assert "\n-  name: gone\n" in deleted
        changes = [line for line in updated.splitlines()[3:] if line[0] in "+-"]
        assert [
            re.sub("(uid: ).*", r"\1", line) for line in changes if "trigger-time" not in line
        ] == [
            "+  - ip: 10.0.0.3",
            "+    nodeName: n1",
            "+    targetRef:",
            "+      kind: Pod",
            "+      name: c",
            "+      namespace: shop",
            "+      uid: ",
        ]

    def test_what_cannot_be_worked_out_is_said(self, server: ApiServer, dry: Any) -> None:
        """A pod on a node that nobody knows: the others are shown all the same."""
        server.delete("nodes", "n1")
        result = dry("--controllers", "endpointslice", exit_code=1)
        assert result.stdout.count("\n# create ") + result.stdout.startswith("# create ") == 2
        lines = result.stderr.splitlines()
        assert lines[-1] == "Error: 1 of them could not be worked out"
        assert "skipping Pod a for Service shop/web: Node n1 Not Found" in lines[-3]
        assert not [each for each in asked(server) if each[0] in WRITES]

    def test_what_is_refused_is_said(self, server: ApiServer, kubeconfig: Path) -> None:
        server.faults.forbid(verb="list", resource="nodes", times=None)
        said = error("run", "--dry-run", "--kubeconfig", str(kubeconfig))
        assert said == 'forbidden: User "test" cannot do this'


class TestUsage:
    def test_controllers(self) -> None:
        assert "no controller 'nope': choose from endpoints, endpointslice" in wrong_usage(
            "run", "--controllers", "endpoints,nope"
        )
        assert "name at least one of" in wrong_usage("run", "--controllers", ",")

    @pytest.mark.parametrize("name", ["nope", "sqlite://", "sqlite:///", "/tmp/x.db", ""])  # noqa: S108
    def test_backend(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        assert f"no backend {name!r}: choose dict, dict-index, sqlite or" in wrong_usage(
            "run", "--backend", name
        )
        if name:
            monkeypatch.setenv("SQLCACHE_BACKEND", name)
            assert f"no backend {name!r}" in wrong_usage("run")

    @pytest.mark.parametrize("text", ["8080", ":8080", "host", "host:", "host:x", "host:70000"])
    def test_listen(self, text: str) -> None:
        assert f"{text!r} is no HOST:PORT" in wrong_usage("run", "--listen", text)

    @pytest.mark.parametrize("text", ["", "/", "a/", "/a", "a/b/c"])
    def test_lease(self, text: str) -> None:
        assert f"{text!r} is no [NAMESPACE/]NAME" in wrong_usage("run", "--lease", text)

    def test_options_that_exclude_each_other(self) -> None:
        assert "not with --leader-elect" in wrong_usage("run", "--dry-run", "--leader-elect")
        assert "-o is for --dry-run" in wrong_usage("run", "-o", "json")
        for number in ("0", "1001"):
            assert "'--workers'" in wrong_usage("run", "--workers", number)

    def test_no_usable_kubeconfig(self, tmp_path: Path) -> None:
        path = tmp_path / "config"
        assert error("run", "--kubeconfig", str(path)).endswith("No such file or directory")
        path.write_text(json.dumps({"kind": "Config"}))
        assert "no context is the current one" in error("run", "--kubeconfig", str(path))

    def test_a_namespace_that_cannot_be(self, server: ApiServer, kubeconfig: Path) -> None:
        """Not taken for another one, nor for all of them."""
        for options in (["--namespace", ".."], ["--namespace", "a/../shop"]):
            said = error("run", *options, "--kubeconfig", str(kubeconfig))
            assert said.startswith(f"invalid name {options[1]!r}: ")
        assert not asked(server)

    def test_a_token_that_cannot_be_sent(self, server: ApiServer, kubeconfig: Path) -> None:
        config = server.kubeconfig()
        config["users"][0]["user"] = {"token": f"{SECRET}\n{SECRET}"}
        kubeconfig.write_text(json.dumps(config))
        said = error("run", "--kubeconfig", str(kubeconfig))
        assert SECRET not in said
        assert "no HTTP header can hold" in said

    def test_no_api_server(self, server: ApiServer, kubeconfig: Path) -> None:
        server.stop()
        said = error("run", "--kubeconfig", str(kubeconfig))
        assert said == f"the API server at {server.url} refused the connection"

    def test_no_permission(self, server: ApiServer, kubeconfig: Path) -> None:
        server.faults.forbid(verb="list", resource="endpointslices", times=None)
        said = error("run", "--kubeconfig", str(kubeconfig))
        assert said == 'forbidden: User "test" cannot do this'

    def test_a_file_that_is_no_database(self, kubeconfig: Path, tmp_path: Path) -> None:
        path = tmp_path / "cache.db"
        path.write_text("x" * 5000)
        said = error("run", "--backend", f"sqlite:///{path}", "--kubeconfig", str(kubeconfig))
        assert said.startswith(f"{path}: ")
        assert path.read_text() == "x" * 5000

    def test_an_address_that_is_taken(self, server: ApiServer, kubeconfig: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            said = error("run", "--listen", address, "--kubeconfig", str(kubeconfig))
        assert said == f"{address}: Address already in use"

    def test_without_the_extra(self, server: ApiServer, kubeconfig: Path) -> None:
        script = (
            "import sys\n"
            "sys.modules['prometheus_client'] = None\n"
            "from sqlcache.cli import main\n"
            "main(prog_name='sqlcache')\n"
        )
        command = [sys.executable, "-c", script, "run", "--kubeconfig", str(kubeconfig)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        message = "Error: run needs: pip install 'sqlcache[metrics]'\n"
        assert (result.returncode, result.stdout, result.stderr) == (1, "", message)
