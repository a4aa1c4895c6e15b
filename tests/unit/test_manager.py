"""What `sqlcache run` is made of: logs, dry runs, diffs, probes, signals, the end of a manager."""

from __future__ import annotations

import gc
import io
import json
import logging
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from typing import Any

import pytest

from sqlcache.client import Resource
from sqlcache.clock import MonotonicClock, StopSignal
from sqlcache.controllers.controller import Controller
from sqlcache.controllers.events import EVENTS
from sqlcache.errors import ApiStatusError, NotFoundError
from sqlcache.informer import SharedInformerFactory
from sqlcache.manager import HttpEndpoints, Manager
from sqlcache.manager.dryrun import DryRunObjects, Write, first_pass
from sqlcache.manager.interpreter import SWITCH_INTERVAL_S, collector_off, tuned_interpreter
from sqlcache.manager.logs import LogFormat, logging_to
from sqlcache.objects import Object
from sqlcache.store.scan import DictStore
from sqlcache.testing.factories import pod
from sqlcache.testing.scripted import Answer, ScriptedListWatch, page
from tests.golden.recording import RecordingApi

diffs = pytest.importorskip("sqlcache.manager.diffs", reason="needs PyYAML")

PODS = Resource("", "v1", "pods")


class TestLogs:
    def logged(self, log_format: LogFormat, message: str, error: Exception | None = None) -> str:
        stream = io.StringIO()
        with logging_to(stream, log_format):
            log = logging.getLogger("sqlcache.tests")
            log.debug("not shown")
            logging.getLogger("urllib3").info("not shown")
            if error is None:
                log.info("%s", message)
            else:
                log.error("%s", message, exc_info=error)
        log.error("not shown either")
        return stream.getvalue()

    def handled(self, log_format: LogFormat, message: str, error: Exception | None) -> str:
        """Return a line that no other handler saw: pytest's cannot pass any text on."""
        stream = io.StringIO()
        failure = (type(error), error, None) if error else None
        record = logging.LogRecord("sqlcache.tests", 40, "", 0, "%s", (message,), failure)
        with logging_to(stream, log_format):
            logging.getLogger().handlers[-1].handle(record)
        return stream.getvalue()

    def test_text(self) -> None:
        at, level, rest = self.logged("text", "all is well").split(" ", 2)
        assert time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S")
        assert at[-5] == "."
        assert (level, rest) == ("INFO", "sqlcache.tests: all is well\n")

    def test_json(self) -> None:
        line = json.loads(self.logged("json", "all is well"))
        assert line.pop("ts").endswith("Z")
        assert line == {"level": "INFO", "logger": "sqlcache.tests", "msg": "all is well"}

    @pytest.mark.parametrize("log_format", ["text", "json"])
    @pytest.mark.parametrize(
        "nasty", ["a\nb", "a\r\x1b[2Jb", "a\x85b\u2028c", "\ud800", "é"], ids=range(5)
    )
    def test_one_record_is_one_line(self, log_format: LogFormat, nasty: str) -> None:
        for error in (None, NotFoundError("pod", nasty), ValueError(nasty)):
            text = self.handled(log_format, nasty, error)
            assert len(text.encode().splitlines()) == 1
            assert text.count("\n") == 1
            assert log_format == "json" or "\x1b" not in text

    @pytest.mark.parametrize("log_format", ["text", "json"])
    def test_a_stack_for_bugs_only(self, log_format: LogFormat) -> None:
        for error, has_stack in ((ValueError("a bug"), True), (NotFoundError("pod", "a"), False)):
            text = self.logged(log_format, "it failed", error)
            assert str(error) in json.loads(text)["error"] if log_format == "json" else text
            assert (f"{type(error).__name__}: " in text) == has_stack


class TestDryRunObjects:
    @pytest.fixture
    def api(self) -> RecordingApi:
        api = RecordingApi(numbered=True)
        api.put(PODS, pod("a", labels={"a": "1", "b": "2"}, rv="7"))
        return api

    def test_writes_are_noted_and_not_made(self, api: RecordingApi) -> None:
        dry = DryRunObjects(api)
        stored = dry.get(PODS, "default", "a")
        new, changed = pod("b", rv=None), pod("a", rv="7")
        assert dry.create(PODS, "default", new) == new
        assert dry.update(PODS, "default", changed) == changed
        dry.delete(PODS, "default", "a")
        generated = {"metadata": {"generateName": "web-"}}
        assert dry.create(PODS, "default", generated)["metadata"]["name"] == "web-"
        assert dry.writes == [
            Write("create", PODS, "default", "b", None, new),
            Write("update", PODS, "default", "a", stored, changed),
            Write("delete", PODS, "default", "a", stored, None),
            Write("create", PODS, "default", "web-", None, generated),
        ]
        assert dry.list(PODS) == [stored]

    def test_a_patch_is_shown_as_what_comes_of_it(self, api: RecordingApi) -> None:
        dry = DryRunObjects(api)
        patch = {"metadata": {"labels": {"a": None, "c": "3"}}, "spec": {"x": {"y": [1]}}}
        after = dry.patch(PODS, "default", "a", patch)
        assert after["metadata"]["labels"] == {"b": "2", "c": "3"}
        assert after["spec"] == {"x": {"y": [1]}}
        assert dry.writes[0].after == after
        assert dry.get(PODS, "default", "a")["metadata"]["labels"] == {"a": "1", "b": "2"}

    def test_what_the_server_would_refuse_fails(self, api: RecordingApi) -> None:
        dry = DryRunObjects(api)
        with pytest.raises(ApiStatusError, match='pods "a" already exists'):
            dry.create(PODS, "default", pod("a"))
        with pytest.raises(ApiStatusError, match="the object has been modified"):
            dry.update(PODS, "default", pod("a", rv="6"))
        for call in (
            lambda: dry.update(PODS, "default", pod("b")),
            lambda: dry.delete(PODS, "default", "b"),
            lambda: dry.patch(PODS, "default", "b", {}),
        ):
            with pytest.raises(ApiStatusError) as refused:
                call()
            assert refused.value.is_not_found()
        assert dry.writes == []

    def test_events_are_dropped(self, api: RecordingApi) -> None:
        dry = DryRunObjects(api)
        dry.create(EVENTS, "default", {"metadata": {"name": "e"}})
        dry.patch(EVENTS, "default", "e", {"count": 2})
        assert dry.writes == []


class Reaper(Controller):
    """Deletes every pod, in a way that a test chooses."""

    def __init__(self, factory: SharedInformerFactory, api: Any, **options: Any) -> None:
        pods = factory.informer("pods")
        super().__init__("reaper", [pods], workers=1, **options)
        self._api = api
        self.began, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.synced: list[str] = []
        self.watch_keys(pods)

    def sync(self, key: str) -> None:
        self.began.set()
        self.go_on.wait()
        self._api.delete(PODS, *key.split("/"))
        self.synced.append(key)


class ClosableApi(RecordingApi):
    """Refuses everything once it is closed.

    Attributes:
        closed: whether it is.
    """

    closed = False

    def close(self) -> None:
        self.closed = True

    def delete(self, resource: Resource, namespace: str, name: str) -> None:
        if self.closed:
            raise OSError("the connections were closed")
        super().delete(resource, namespace, name)


PAGE = page("9", [pod(name) for name in "abc"])


def factory() -> SharedInformerFactory:
    return SharedInformerFactory(
        lambda resource: ScriptedListWatch(lists=[Answer(PAGE)], watches=[Answer()]),
        store=lambda resource: DictStore(),
        use_watch_list=False,
    )


def api() -> ClosableApi:
    made = ClosableApi(numbered=True)
    for obj in PAGE["items"]:
        made.put(PODS, obj)
    return made


class TestFirstPass:
    @pytest.fixture(autouse=True)
    def no_pause(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sqlcache.manager.dryrun._PAUSE_S", 0.0)

    def first_pass(self, written: RecordingApi) -> list[Any]:
        with factory() as informers:
            dry = DryRunObjects(written)
            reaper = Reaper(informers, dry)
            informers.start()
            informers.wait_for_sync()
            return [
                (outcome.key, [each.verb for each in outcome.writes], outcome.error)
                for outcome in first_pass(reaper, dry)
            ]

    def test_every_key_once_in_order(self) -> None:
        keys = [f"default/{name}" for name in "abc"]
        assert self.first_pass(api()) == [(key, ["delete"], None) for key in keys]

    def test_one_that_fails_does_not_keep_the_others(self) -> None:
        written = api()
        written.remove(PODS, "default", "b")
        _, (key, writes, error), (_, last, _) = self.first_pass(written)
        assert (key, writes, last) == ("default/b", [], ["delete"])
        assert isinstance(error, ApiStatusError)

    @pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (409, "Conflict")])
    def test_an_object_that_the_cache_shows_too_late_is_tried_again(
        self, code: int, reason: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a cluster in use objects change, and go, between a list and a write."""
        written, failures = api(), [ApiStatusError(code, reason, "late")] * 2
        get = written.get

        def get_late(*args: Any) -> Object:
            if failures:
                raise failures.pop()
            return get(*args)

        monkeypatch.setattr(written, "get", get_late)
        keys = [f"default/{name}" for name in "abc"]
        assert self.first_pass(written) == [(key, ["delete"], None) for key in keys]
        assert not failures


class TestDiff:
    def diff(self, before: Object | None, after: Object | None) -> list[str]:
        write = Write("update", PODS, "default", "a", before, after)
        text: str = diffs.diff(write)
        return text.splitlines()

    def test_only_what_changes(self) -> None:
        before = {**pod("a", labels={"x": "1"}), "status": {"phase": "Pending"}}
        before["metadata"]["managedFields"] = [{"manager": "x"}]
        after = {**pod("a", labels={"x": "2"}), "status": {"phase": "Pending"}}
        del after["kind"], after["apiVersion"]  # as in the items of a list
        lines = self.diff(before, after)
        assert lines[0] == "# update pods default/a"
        assert [line for line in lines[3:] if line[0] in "+-"] == ["-    x: '1'", "+    x: '2'"]

    def test_nothing_changes(self) -> None:
        assert self.diff(pod("a"), pod("a")) == ["# update pods default/a"]

    def test_no_text_moves_the_cursor(self) -> None:
        nasty = "\x1b[2J\n--- x\r\u2028"
        lines = self.diff(None, pod("a", labels={"x": nasty}))
        assert all(line.isprintable() for line in lines)
        assert sum(line.startswith("---") for line in lines) == 1


class TestManager:
    def test_a_worker_that_hangs_is_cut_off_after_a_while(self) -> None:
        written = api()
        with factory() as informers:
            reaper = Reaper(informers, written)
            reaper.go_on.clear()
            stop = StopSignal(MonotonicClock())
            manager = Manager(written, informers, [reaper], drain_s=0.2)
            thread = threading.Thread(target=manager.run, args=(stop,))
            thread.start()
            assert reaper.began.wait(30)
            assert manager.readyz()["shutdown"]() == ""
            stop.set()
            thread.join(30)
            assert not thread.is_alive()
            assert written.closed
            assert manager.readyz()["shutdown"]() == "process is shutting down"
            reaper.go_on.set()
        assert reaper.synced == []

    def test_what_waits_is_done_at_the_end(self) -> None:
        written = api()
        with factory() as informers:
            reaper = Reaper(informers, written)
            reaper.go_on.clear()
            stop = StopSignal(MonotonicClock())
            thread = threading.Thread(
                target=Manager(written, informers, [reaper]).run, args=(stop,)
            )
            thread.start()
            assert reaper.began.wait(30)
            while not reaper.has_synced():
                time.sleep(0.01)
            stop.set()
            reaper.go_on.set()
            thread.join(30)
        assert len(reaper.synced) == 3
        assert not written.closed

    def test_controllers_that_are_abandoned_leave_what_waits(self) -> None:
        with factory() as informers:
            reaper = Reaper(informers, api())
            reaper.go_on.clear()
            reaper.start()
            informers.start()
            assert reaper.began.wait(30)
            while not reaper.has_synced():
                time.sleep(0.01)
            threading.Timer(0.1, reaper.go_on.set).start()
            assert reaper.stop(drain=False)
        assert len(reaper.synced) == 1


class TestHttp:
    def test_ipv6(self) -> None:
        try:
            endpoints = HttpEndpoints("::1", 0, healthz={}, readyz={})
        except OSError as error:
            pytest.skip(f"no IPv6: {error}")
        with endpoints, urllib.request.urlopen(f"{endpoints.url}/healthz") as answer:  # noqa: S310
            assert (answer.status, answer.read()) == (200, b"ok")

    def test_without_metrics_there_is_no_such_path(self) -> None:
        with HttpEndpoints("127.0.0.1", 0, healthz={}, readyz={}) as endpoints:
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{endpoints.url}/metrics")  # noqa: S310
            with refused.value:
                assert refused.value.code == 404


class TestSignals:
    SCRIPT = (
        "import os, signal, sys, time\n"
        "from sqlcache.manager import stop_on_signals\n"
        "with stop_on_signals() as stop:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    stop.wait()\n"
        "    print('stopping', flush=True)\n"
        "{}"
        "print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)\n"
    )

    def run(self, rest: str) -> tuple[int, str, str]:
        command = [sys.executable, "-W", "error", "-c", self.SCRIPT.format(rest)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def test_the_first_is_a_stop(self) -> None:
        assert self.run("") == (0, "stopping\nTrue\n", "")

    @pytest.mark.parametrize(
        "busy",
        ["time.sleep(60)", "while True: pass", "stop._changed.__enter__(); time.sleep(60)"],
    )
    def test_the_second_ends_whatever_the_process_does(self, busy: str) -> None:
        again = (
            "    if not os.fork():\n"
            "        time.sleep(0.3)\n"
            "        os.kill(os.getppid(), signal.SIGINT)\n"
            "        os._exit(0)\n"
            f"    {busy}\n"
        )
        assert self.run(again) == (128 + signal.SIGINT, "stopping\n", "Interrupted\n")


def test_the_interpreter_is_as_it_was_afterwards() -> None:
    interval, frozen = sys.getswitchinterval(), gc.get_freeze_count()
    with tuned_interpreter():
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        with collector_off():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    assert (sys.getswitchinterval(), gc.get_freeze_count()) == (interval, 0)
