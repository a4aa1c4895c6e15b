"""`sqlcache mirror` as a process, and others that read its file meanwhile."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sqlcache.objects import Object
from sqlcache.store import open_store
from sqlcache.testing import names
from sqlcache.testing.apiserver import ApiServer, custom_resource
from tests.integration.command import Result, dump_of, error, output, run
from tests.integration.following import LONG_S, following, new_pod
from tests.integration.test_cli_process import read_all

pytest.importorskip("kubernetes", reason="needs the extra kubernetes")

pytest_plugins = ["sqlcache.testing.pytest_plugin"]

ROOT = Path(__file__).parents[2]
SOON_S = 5.0  # an end takes less than a second; on a busy machine more
IN_SYNC = "in sync after"
SERVICE: Object = {
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


@pytest.fixture
def db(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def mirror(db: str, api_server_kubeconfig: Path) -> Callable[..., Any]:
    def start(*args: str) -> Any:
        return following("mirror", *args, "--backend", db, kubeconfig=api_server_kubeconfig)

    return start


def get(db: str, *args: str) -> str:
    """Return what `sqlcache get` of this process writes."""
    return output("get", *args, "--db", db)


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def object_names(db: str, resource: str = "pods") -> list[str]:
    with open_store(db, resource) as store:
        return names(store.list())


class TestMirror:
    def test_two_thousand_pods_while_others_read(
        self, api_server: ApiServer, db: str, path: Path, mirror: Callable[..., Any]
    ) -> None:
        """The whole: a first list, changes, an interruption, a restart; no read is torn.

        Every change replaces a pod of one generation by one of the next in one namespace, so that
        a state has each number once, or twice while it is replaced, and never lacks one.
        """
        count = 2_000
        api_server.load("pods", (generation(number, 0) for number in range(count)))
        for number in range(35):
            api_server.create("services", {**SERVICE, "metadata": {"name": f"s{number}"}})
        reads: list[subprocess.CompletedProcess[bytes]] = []
        done = threading.Event()

        def read() -> None:
            command = [sys.executable, "-m", "sqlcache", "get", "pods", "-n", "shop", "-o", "name"]
            while not done.is_set():
                if path.exists():
                    reads.append(
                        subprocess.run([*command, "--db", db], capture_output=True, check=False)
                    )

        reader = threading.Thread(target=read)
        reader.start()
        try:
            with mirror("pods", "svc") as running:
                running.wait_for(IN_SYNC, stream="stderr")
                assert f"Mirroring {count} pods, 35 services into {path}, in sync after " in (
                    running.stderr
                )
                for number in range(0, count, 10):
                    api_server.create("pods", generation(number, 1))
                    api_server.delete("pods", generation(number, 0)["metadata"]["name"], "shop")
                wait_until(
                    lambda: generation(count - 10, 0)["metadata"]["name"] not in object_names(db)
                )
                started = time.monotonic()
                result = running.end()
                assert time.monotonic() - started < SOON_S
                assert (result.exit_code, result.stdout) == (130, "")
                assert result.stderr.endswith("\nInterrupted\n")
                assert result.stderr.count("\n") == 2
            assert object_names(db) == names(api_server.list("pods"))
            api_server.create("pods", generation(5, 1))
            api_server.delete("pods", generation(7, 0)["metadata"]["name"], "shop")
            with mirror("pods", "svc") as running:
                running.wait_for(IN_SYNC, stream="stderr")
                wait_until(lambda: object_names(db) == names(api_server.list("pods")))
                assert len(object_names(db, "services")) == 35
                running.end()
        finally:
            done.set()
            reader.join()
        seen = set()
        for each in reads:
            assert each.returncode == 0, each
            numbers = {line.rpartition("-")[0] for line in each.stdout.decode().splitlines()}
            seen.add(len(numbers))
            assert each.stderr in (b"", b"No resources found in shop namespace.\n")
        assert seen <= {0, count, count - 1}, "nothing, all, and one less after the deletion"
        assert count in seen
        assert sorted(each.name for each in path.parent.glob("cache.db*")) == ["cache.db"]

    def test_started_again_it_resumes_the_watch(
        self, api_server: ApiServer, db: str, mirror: Callable[..., Any]
    ) -> None:
        """Nothing is listed again; unless it is another cluster at the same address."""
        api_server.load("pods", (generation(number, 0) for number in range(100)))
        with mirror("pods") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            running.end()
        api_server.delete("pods", generation(7, 0)["metadata"]["name"], "shop")
        before = len(api_server.requests)
        with mirror("pods") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            assert len(object_names(db)) == 99
            running.end()
        asked = [each for each in api_server.requests[before:] if each.resource == "pods"]
        assert [each.query["limit"] for each in asked if each.verb == "list"] == ["1"]
        assert not [each for each in asked if "sendInitialEvents" in each.query]
        uid = "00000000-0000-0000-0000-000000000000"
        system = {"metadata": {"name": "kube-system", "uid": uid}}
        api_server.load("namespaces", [system])
        before = len(api_server.requests)
        with mirror("pods") as running:
            running.wait_for(IN_SYNC, stream="stderr")
        asked = [each for each in api_server.requests[before:] if each.resource == "pods"]
        assert [each for each in asked if "sendInitialEvents" in each.query]

    def test_file_equals_the_server(
        self, api_server: ApiServer, db: str, path: Path, mirror: Callable[..., Any]
    ) -> None:
        managed = [{"manager": "m"}]
        meta = {"name": "m", "namespace": "x", "managedFields": managed, "labels": {"ä": "ü"}}
        api_server.load("pods", [{"metadata": meta, "spec": {"any": [1, 2.5, None, {}]}}])
        with mirror("pods") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            for beside in path.parent.glob("cache.db-*"):
                assert stat.S_IMODE(beside.stat().st_mode) == 0o600
            (expected,) = api_server.list("pods")
            del expected["metadata"]["managedFields"]  # as kubectl shows it
            assert json.loads(get(db, "pods", "m", "-n", "x", "-o", "json")) == expected
            found = json.loads(output("stats", "-o", "json", "--db", db))
            assert int(found["resource_version"]) >= int(expected["metadata"]["resourceVersion"])
            explained = json.loads(output("explain", "-A", "-l", "x", "-o", "json", "--db", db))
            assert explained["matched"] == 0

    def test_part_of_a_cluster(
        self, api_server: ApiServer, db: str, mirror: Callable[..., Any]
    ) -> None:
        """What is selected differs from start to start: the file has what the last one selects."""
        api_server.create("pods", new_pod("a", "shop", app="web"))
        api_server.create("pods", new_pod("b", "shop", app="api"))
        api_server.create("pods", new_pod("c", "other", app="web"))
        with mirror("pods", "ns", "-n", "shop", "-l", "app=web") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            assert object_names(db) == ["a"]
            assert object_names(db, "namespaces") == [], "labels select everywhere, -n does not"
            api_server.create("pods", new_pod("d", "shop", app="web"))
            api_server.create("pods", new_pod("e", "shop", app="api"))
            api_server.create("pods", new_pod("f", "other", app="web"))
            api_server.patch("pods", "a", {"metadata": {"labels": {"app": "api"}}}, "shop")
            wait_until(lambda: object_names(db) == ["d"])
        with mirror("pods", "--field-selector", "metadata.name!=a,metadata.name!=f") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            assert object_names(db) == ["b", "c", "d", "e"]

    def test_bounded_labels(
        self, api_server: ApiServer, db: str, mirror: Callable[..., Any]
    ) -> None:
        for number in range(5):
            api_server.create("pods", new_pod(f"p{number}", "shop", app="web", own=str(number)))
        with mirror("pods", "ns", "--labels", "limit=3") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            found = json.loads(output("stats", "-o", "json", "--db", db))["label_keys"]
            assert {each["key"]: each["unindexed"] for each in found} == {
                "own": "over the limit",
                "app": "",
            }
            assert get(db, "pods", "-n", "shop", "-l", "own=3", "-o", "name") == "pod/p3\n"

    def test_resources_by_all_their_names(
        self, api_server: ApiServer, db: str, mirror: Callable[..., Any]
    ) -> None:
        for definition in (
            custom_resource("widgets", "Widget", "example.com", short_names=["wd"]),
            custom_resource("globals", "Global", "example.com", namespaced=False),
            custom_resource("pods", "Pod", "example.com"),
        ):
            api_server.register(definition)
        api_server.create("pods", new_pod("core"))
        api_server.create("pods.example.com", {"metadata": {"name": "custom", "namespace": "shop"}})
        api_server.create("widgets", {"metadata": {"name": "w", "namespace": "shop"}})
        api_server.create("globals", {"metadata": {"name": "g"}})
        api_server.create("leases", {"metadata": {"name": "l", "namespace": "shop"}})
        wanted = ["wd", "po", "Pod", "pods.example.com", "globals", "lease.coordination.k8s.io"]
        with mirror(*wanted) as running:
            running.wait_for(IN_SYNC, stream="stderr")
            assert running.stderr.startswith(
                "Mirroring 1 object of widgets.example.com, 1 pod, 1 object of pods.example.com,"
                " 1 object of globals.example.com, 1 object of leases.coordination.k8s.io into "
            )
        for name in ("widgets", "wd", "Widget", "widgets.example.com", "widget.example"):
            assert get(db, name, "-n", "shop", "-o", "name") == "widget.example.com/w\n"
        assert get(db, "global", "-o", "name") == "global.example.com/g\n", "without -A"
        assert get(db, "po", "-n", "shop", "-o", "name") == "pod/core\n"
        assert get(db, "pods.example.com", "-n", "shop", "-o", "name") == "pod.example.com/custom\n"
        assert get(db, "lease", "-n", "shop", "-o", "name") == "lease.coordination.k8s.io/l\n"
        assert error("get", "wd", "x", "--db", db) == 'widgets.example.com "x" not found'
        assert "no services in it; it has globals.example.com, " in error("get", "svc", "--db", db)
        kept = json.loads(get(db, "mirrors.sqlcache", "-A", "-o", "json"))["items"]
        assert kept[0]["metadata"]["name"] == "globals.example.com", "as docs/cli.md says"

    def test_first_list_that_is_cut_short_leaves_the_file_as_it_was(
        self, api_server: ApiServer, db: str, mirror: Callable[..., Any]
    ) -> None:
        api_server.load("pods", (generation(number, 0) for number in range(5_000)))
        with mirror("pods") as running:
            wait_until(lambda: any(each.resource == "pods" for each in api_server.requests))
            started = time.monotonic()
            result = running.end()
            assert time.monotonic() - started < SOON_S
            assert (result.exit_code, result.stderr) == (130, "Interrupted\n")
        if Path(db.removeprefix("sqlite:///")).exists():
            assert object_names(db) == []
            assert run("migrate", "check", "--db", db).exit_code == 0


def generation(number: int, count: int) -> Object:
    pod = new_pod(f"p{number}-{count}", app=f"a{number % 7}")
    return {**pod, "spec": {**pod["spec"], "nodeName": "n" * 200}}


class TestTrouble:
    def test_server_that_is_away_for_a_while(
        self, api_server: ApiServer, db: str, mirror: Callable[..., Any]
    ) -> None:
        """It is said once, for all resources, and what was missed is made up for."""
        api_server.create("pods", new_pod("old"))
        api_server.create("services", SERVICE)
        with mirror("pods", "services", "nodes") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            with api_server.refusing():
                api_server.create("pods", new_pod("new"))
                api_server.delete("pods", "old", "shop")
                api_server.delete("services", "web", "shop")
                api_server.compact()
                running.wait_for("trying again", stream="stderr")
                assert object_names(db) == ["old"]
                time.sleep(3)
            running.wait_for("In contact with the API server again after", stream="stderr")
            assert object_names(db, "services") in ([], ["web"])
            wait_until(lambda: object_names(db) == ["new"])
            wait_until(lambda: object_names(db, "services") == [])
            lines = running.stderr.splitlines()
            assert len(lines) == 3, lines
            assert lines[1].endswith(f"{api_server.url} refused the connection; trying again")
            assert running.end(signal.SIGTERM).exit_code == 143

    def test_server_that_forgets(
        self, api_server: ApiServer, db: str, mirror: Callable[..., Any]
    ) -> None:
        api_server.create("pods", new_pod("old"))
        with mirror("pods") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            for number in range(3):
                api_server.faults.error_event(410, verb="watch", resource="pods")
                api_server.cut_watches("pods")
                api_server.delete("pods", "old" if not number else f"new{number - 1}", "shop")
                api_server.create("pods", new_pod(f"new{number}"))
                wait_until(lambda now=f"new{number}": object_names(db) == [now])  # type: ignore[misc]
            assert running.stderr.count("\n") == 1

    def test_resource_that_may_be_listed_no_more(
        self, api_server: ApiServer, db: str, mirror: Callable[..., Any]
    ) -> None:
        """A role was changed: what is mirrored stays, and it is said what is wrong."""
        api_server.create("pods", new_pod("a"))
        with mirror("pods", "services") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            with api_server.faults.forbid(resource="pods", times=None):
                api_server.cut_watches("pods")
                running.wait_for("Warning: pods: forbidden", stream="stderr")
                api_server.create("services", SERVICE)
                wait_until(lambda: object_names(db, "services") == ["web"])
                assert object_names(db) == ["a"]
                time.sleep(2)
            running.wait_for("In contact", stream="stderr")
            assert running.stderr.count("\n") == 3

    @pytest.mark.parametrize("command", ["mirror", "load"])
    def test_another_writer_is_refused(
        self,
        api_server: ApiServer,
        db: str,
        path: Path,
        tmp_path: Path,
        mirror: Callable[..., Any],
        command: str,
    ) -> None:
        api_server.create("pods", new_pod("a"))
        dump = tmp_path / "dump.json"
        dump.write_bytes(dump_of(new_pod("b")))
        link = tmp_path / "link.db"
        link.symlink_to(path)
        with mirror("pods") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            reason = f"process {running.process.pid} is writing it; end that first"
            if command == "load":
                assert error("load", str(dump), "--db", db) == f"{path}: {reason}"
            else:
                with mirror("services") as other:
                    assert other.finish() == (1, "", f"Error: {path}: {reason}\n")
                assert error("load", str(dump), "--db", f"sqlite:///{link}") == f"{link}: {reason}"
            assert object_names(db) == ["a"]
            running.process.kill()
            running.process.wait()
        run("load", str(dump), "--db", db)
        assert object_names(db) == ["b"], "a lock dies with its process"
        with mirror("pods") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            assert object_names(db) == ["a"], "what was loaded is no part of the cluster"

    def test_no_room(self, api_server: ApiServer, path: Path, api_server_kubeconfig: Path) -> None:
        """A limit on the size of files, which stands in for the disk's."""
        api_server.load("pods", [new_pod("small")])
        limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))"
        with process_after(limit, path, api_server_kubeconfig) as process:
            assert process.stderr is not None
            assert IN_SYNC.encode() in process.stderr.readline()
            big = "x" * 1_000_000
            pods = ({**new_pod(f"big{n}"), "spec": {"big": big}} for n in range(20))
            api_server.load("pods", pods)
            stderr = process.communicate(timeout=LONG_S)[1].decode()
        assert process.returncode == 1
        assert stderr.startswith(f"Error: {path}: ")
        assert stderr.count("\n") == 1
        assert "small" in object_names(f"sqlite:///{path}")

    def test_full_disk(
        self, api_server: ApiServer, tmp_path: Path, api_server_kubeconfig: Path
    ) -> None:
        disk = tmp_path / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("only root may mount a small file system")
        try:
            api_server.load("pods", (generation(number, 0) for number in range(20_000)))
            path = disk / "cache.db"
            stderr = failure(path, api_server_kubeconfig)
            assert stderr == f"Error: {path}: the disk is full\n"
            with open_store(f"sqlite:///{path}") as store:
                assert len(store.list_keys()) < 20_000
                assert store.source() == "", "no watch may go on from a part of a list"
        finally:
            subprocess.run(["umount", str(disk)], check=True)

    def test_files_that_cannot_be_written(
        self, api_server: ApiServer, path: Path, db: str, api_server_kubeconfig: Path
    ) -> None:
        open_store(db).close()
        path.chmod(0o444)
        drop = "from tests.integration.test_cli_process import obey_modes; obey_modes()"
        stderr = failure(path, api_server_kubeconfig, drop)
        assert stderr.startswith(f"Error: {path}: ")
        assert stderr.count("\n") == 1
        missing = path.parent / "missing/cache.db"
        stderr = failure(missing, api_server_kubeconfig)
        assert stderr == f"Error: {missing}: No such file or directory\n"
        path.unlink()
        path.write_text("no database " * 100)
        stderr = failure(path, api_server_kubeconfig)
        assert stderr == f"Error: {path}: is not an SQLite database\n"
        assert path.read_text() == "no database " * 100


@contextmanager
def process_after(before: str, path: Path, kubeconfig: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a mirror of pods in a process that some Python has prepared."""
    command = [sys.executable, "-m", "sqlcache", "mirror", "pods", "--db", f"sqlite:///{path}"]
    with subprocess.Popen(
        [sys.executable, "-c", f"{before}\nimport os\nos.execv({sys.executable!r}, {command})"],
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def failure(path: Path, kubeconfig: Path, before: str = "") -> str:
    """Return what a mirror of pods says that cannot begin or go on."""
    with process_after(before, path, kubeconfig) as process:
        stderr = process.communicate(timeout=LONG_S)[1].decode()
        assert process.returncode == 1
    return stderr


class TestTerminal:
    def test_bars_then_a_line(
        self, api_server: ApiServer, path: Path, api_server_kubeconfig: Path
    ) -> None:
        api_server.load("pods", (generation(number, 0) for number in range(3_000)))
        main_end, process_end = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlcache", "mirror", "po", "svc", "--db", f"sqlite:///{path}"],
            env={
                **os.environ,
                "KUBECONFIG": str(api_server_kubeconfig),
                "TERM": "xterm",
                "COLUMNS": "150",
            },
            stdin=subprocess.DEVNULL,
            stdout=process_end,
            stderr=process_end,
        )
        os.close(process_end)
        try:
            text = wait_for(main_end, "ago")
            assert " listed, " in text
            assert f"Mirroring 3000 pods, 0 services into {path}, in sync after" in text
            assert f"{path}: 3000 pods, 0 services; last event " in text
            with api_server.refusing():
                text = wait_for(main_end, "out of contact with the API server for")
                assert "refused the connection; trying again\r\n" in text, "above the line"
                process.send_signal(signal.SIGINT)
                assert process.wait(LONG_S) == 130
            text = read_all(main_end)
            assert "\x1b[?25h" in text, "the cursor is shown again"
            assert text.rstrip().endswith("Interrupted")
            assert "Traceback" not in text
        finally:
            process.kill()
            process.wait()

    def test_no_line_in_a_file(self, api_server: ApiServer, mirror: Callable[..., Any]) -> None:
        with mirror("pods") as running:
            running.wait_for(IN_SYNC, stream="stderr")
            api_server.create("pods", new_pod("a"))
            time.sleep(1.5)
            assert running.stderr.count("\n") == 1
            assert "\x1b" not in running.stderr


def wait_for(descriptor: int, text: str) -> str:
    """Read from a terminal until a text has come; return all."""
    found = b""
    deadline = time.monotonic() + LONG_S
    while text.encode() not in found:
        assert time.monotonic() < deadline, found.decode()
        found += os.read(descriptor, 65_536)
    return found.decode()


def test_result_is_one_line(db: str) -> None:
    """Before there is anything to mirror."""
    result = run("mirror", "pods", "--backend", db, "--kubeconfig", "/missing")
    assert result == Result(1, "", "Error: /missing: No such file or directory\n")
    assert not Path(db.removeprefix("sqlite:///")).exists()
