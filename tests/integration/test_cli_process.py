"""The command as a process: signals, pipes, full disks, terminals, exit codes."""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import termios
import time
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sqlcache.objects import Object
from sqlcache.store import open_store
from sqlcache.testing import names, pod
from tests.integration.command import dump_of, finish, run, start

OLD = [pod(f"old{number}", labels={"app": "old"}) for number in range(300)]
_noise = Random(1)
NEW = [
    pod(f"new{number}", labels={"app": "new"}, spec={"x": _noise.randbytes(1000).hex()})
    for number in range(3000)
]
_PR_CAPBSET_DROP = 24  # linux/prctl.h
_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 1, 2  # linux/capability.h


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database file that holds the old pods."""
    path = tmp_path / "cluster.db"
    assert run("load", "-", "--db", f"sqlite:///{path}", stdin=dump_of(*OLD)).exit_code == 0
    return path


def content(path: Path) -> list[Object]:
    with open_store(f"sqlite:///{path}") as store:
        assert store.count("", "app") == len(store.list())
        return store.list()


def holds_the_old(path: Path) -> bool:
    return names(content(path)) == names(OLD)


class TestInterruptedLoad:
    """Most of a dump comes through a pipe; then the load is ended."""

    @pytest.fixture
    def loading(self, path: Path) -> Any:
        process = start("load", "-", "--db", f"sqlite:///{path}")
        assert process.stdin is not None
        dump = dump_of(*NEW)
        process.stdin.write(dump[: len(dump) * 9 // 10])
        process.stdin.flush()
        wait_until_read(process)
        yield process
        process.kill()
        process.communicate()

    @pytest.mark.parametrize(
        ("signum", "exit_code", "message"),
        [
            (signal.SIGINT, 130, "Interrupted\n"),
            (signal.SIGTERM, 143, "Terminated\n"),
            (signal.SIGKILL, -signal.SIGKILL, ""),
        ],
    )
    def test_signal(
        self,
        path: Path,
        loading: subprocess.Popen[bytes],
        signum: signal.Signals,
        exit_code: int,
        message: str,
    ) -> None:
        loading.send_signal(signum)
        assert finish(loading) == (exit_code, "", message)
        assert holds_the_old(path)

    def test_signal_after_the_end_of_the_input_comes_too_late(self, path: Path) -> None:
        """The load is committed then, and says so, whatever the signal."""
        script = (
            "import os, signal, sqlcache.cli.load as load\n"
            "hold = load.hold_signals\n"
            "load.hold_signals = lambda: (hold(), os.kill(os.getpid(), signal.SIGINT))\n"
            "load.load.main()\n"
        )
        command = ["-c", script, "-", "--db", f"sqlite:///{path}"]
        result = subprocess.run(
            [sys.executable, *command], input=dump_of(*NEW), capture_output=True, check=True
        )
        assert result.stderr.startswith(b"Loaded 3000 pods ")
        assert names(content(path)) == names(NEW)

    @pytest.mark.parametrize(
        ("signum", "ended"),
        [
            (signal.SIGINT, (130, "", "Interrupted\n")),
            (signal.SIGTERM, (143, "", "Terminated\n")),
        ],
    )
    @pytest.mark.parametrize(
        "where", ["Dropped()", "gc.callbacks.append(lambda phase, info: hit()); gc.collect()"]
    )
    def test_signal_where_no_exception_gets_out(
        self, path: Path, where: str, signum: signal.Signals, ended: tuple[int, str, str]
    ) -> None:
        """In the garbage collector, and in a finalizer; the load then waits for its input."""
        script = (
            "import gc, os, signal, sqlcache.cli, sqlcache.cli.load as load\n"
            "hits = 0\n"
            "def hit():\n"
            "    global hits\n"
            "    hits += 1\n"
            "    if hits <= 2:\n"
            f"        os.kill(os.getpid(), {signum:d})\n"
            "class Dropped:\n"
            "    def __del__(self):\n"
            "        hit()\n"
            "def dropping(name, naming=load.usual_naming):\n"
            f"    {where}\n"
            "    return naming(name)\n"
            "load.usual_naming = dropping\n"
            "sqlcache.cli.main()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", script, "load", "-", "--db", f"sqlite:///{path}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            process.wait(30)
        finally:
            process.kill()
            left = finish(process)
        assert left == ended
        assert holds_the_old(path)

    def test_input_ends_too_early(self, path: Path, loading: subprocess.Popen[bytes]) -> None:
        result = finish(loading)
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: stdin: line 1, column ")
        assert result.stderr.endswith(": the file is cut short\n")
        assert holds_the_old(path)

    def test_others_read_the_old_content_meanwhile(
        self, path: Path, loading: subprocess.Popen[bytes]
    ) -> None:
        result = run("get", "-o", "name", "--db", f"sqlite:///{path}")
        assert result.stdout.splitlines() == [f"pod/{name}" for name in names(OLD)]

    def test_the_next_load_succeeds(self, path: Path, loading: subprocess.Popen[bytes]) -> None:
        loading.send_signal(signal.SIGINT)
        finish(loading)
        result = finish(start("load", "-", "--db", f"sqlite:///{path}"), dump_of(*NEW))
        assert result.exit_code == 0
        assert names(content(path)) == names(NEW)


class TestEarlySignals:
    """Ctrl-C before the command has begun."""

    @pytest.mark.parametrize("imported", ["click", "sqlcache.errors", "sqlcache.store"])
    @pytest.mark.parametrize("program", ["script", "module"])
    def test_interrupt_while_modules_are_imported(self, program: str, imported: str) -> None:
        """The interpreter tells on stderr which module it has just imported."""
        command = ["-m", "sqlcache"] if program == "module" else ["-c", script_of_the_wheel()]
        process = subprocess.Popen(
            [sys.executable, "-X", "importtime", *command, "load", "x.json", "--db", "x.db"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        while line := process.stderr.readline():
            if line.rpartition("|")[2].strip() == imported:
                break
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
        said = [line for line in stderr.splitlines() if not line.startswith("import time:")]
        assert (process.returncode, said) == (130, ["Interrupted"])

    def test_who_starts_it_can_have_interrupts_ignored(self, path: Path) -> None:
        loading = start(
            "load",
            "-",
            "--db",
            f"sqlite:///{path}",
            before=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
        assert loading.stdin is not None
        dump = dump_of(*NEW)
        loading.stdin.write(dump[: len(dump) // 2])
        loading.stdin.flush()
        wait_until_read(loading)
        loading.send_signal(signal.SIGINT)
        assert finish(loading, dump[len(dump) // 2 :]).exit_code == 0
        assert names(content(path)) == names(NEW)


class TestDisk:
    def test_no_room(self, path: Path) -> None:
        """A limit on the size of files, which stands in for the disk's."""

        room_bytes = path.stat().st_size + 500_000
        result = finish(
            start("load", "-", "--db", f"sqlite:///{path}", before=lambda: limit_files(room_bytes)),
            dump_of(*NEW),
        )
        assert result.exit_code == 1
        assert result.stderr.startswith(f"Error: {path}: ")
        assert result.stderr.count("\n") == 1
        assert holds_the_old(path)

    def test_full_disk(self, tmp_path: Path) -> None:
        disk = tmp_path / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("only root may mount a small file system")
        try:
            path = disk / "cluster.db"
            run("load", "-", "--db", f"sqlite:///{path}", stdin=dump_of(*OLD))
            result = finish(start("load", "-", "--db", f"sqlite:///{path}"), dump_of(*NEW))
            assert result == (1, "", f"Error: {path}: the disk is full\n")
            assert holds_the_old(path)
            fill(disk / "filler")
            result = finish(start("load", "-", "--db", f"sqlite:///{path}"), dump_of(*NEW))
            assert result == (1, "", f"Error: {path}: No space left on device\n")
            result = finish(start("get", "pods", "-A", "--db", f"sqlite:///{path}"))
            assert result.exit_code in (0, 1)  # reading takes room for the log's index
            assert result.exit_code == 0 or "the disk may be full" in result.stderr
        finally:
            subprocess.run(["umount", str(disk)], check=True)

    def test_file_that_may_not_be_written(self, path: Path) -> None:
        path.chmod(0o444)
        result = finish(
            start("load", "-", "--db", f"sqlite:///{path}", before=obey_modes), dump_of(*NEW)
        )
        assert result.exit_code == 1
        assert result.stderr.startswith(f"Error: {path}: ")
        assert result.stderr.count("\n") == 1
        assert holds_the_old(path)

    def test_dump_that_may_not_be_read(self, path: Path, tmp_path: Path) -> None:
        dump = tmp_path / "dump.json"
        dump.write_bytes(dump_of(*NEW))
        dump.chmod(0)
        process = start("load", str(dump), "--db", f"sqlite:///{path}", before=obey_modes)
        assert finish(process) == (1, "", f"Error: {dump}: Permission denied\n")
        assert holds_the_old(path)


class TestPipes:
    def test_reader_goes_away(self, tmp_path: Path) -> None:
        """As in `sqlcache get … | head -1`."""
        dump = tmp_path / "dump.json"
        dump.write_bytes(dump_of(*NEW))
        process = start("get", "-o", "json", "--from", str(dump))
        assert process.stdout is not None
        assert process.stdout.readline() == b"{\n"
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""
        close(process)

    def test_reader_is_gone_before_a_short_answer(self, path: Path) -> None:
        process = start("stats", "--db", f"sqlite:///{path}")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""
        close(process)

    @pytest.mark.parametrize(
        ("redirection", "message"),
        [
            (">/dev/full", "Error: standard output: No space left on device\n"),
            (">&-", "Error: standard output: Bad file descriptor\n"),
        ],
    )
    def test_output_that_cannot_be_written(
        self, path: Path, redirection: str, message: str
    ) -> None:
        result = shell(f"get --db sqlite:///{path} {redirection}")
        assert (result.returncode, result.stdout, result.stderr) == (1, "", message)

    @pytest.mark.parametrize("arguments", ["--help", "--version", "get --help", "migrate --help"])
    def test_help_that_cannot_be_written(self, arguments: str) -> None:
        result = shell(f"{arguments} >/dev/full")
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr == "Error: No space left on device\n"

    @pytest.mark.parametrize("unbuffered", ["", "1"])
    @pytest.mark.parametrize("form", ["table", "json", "yaml", "csv"])
    def test_output_that_is_cut_is_no_success(
        self, tmp_path: Path, form: str, unbuffered: str
    ) -> None:
        """A bare descriptor takes what fits and tells so by a number, not by an error."""
        dump = tmp_path / "dump.json"
        dump.write_bytes(dump_of(*NEW))
        with (tmp_path / "out").open("wb") as out:
            result = subprocess.run(
                [sys.executable, "-m", "sqlcache", "get", "-o", form, "--from", str(dump)],
                env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
                stdout=out,
                stderr=subprocess.PIPE,
                preexec_fn=lambda: limit_files(70_000),
                check=False,
                timeout=60,
            )
        assert result.returncode == 1
        assert result.stderr == b"Error: standard output: File too large\n"

    def test_errors_nobody_reads(self, path: Path) -> None:
        for asked, code in (("pods -n nothing", 0), ("nothing", 1)):
            result = shell(f"get {asked} --db sqlite:///{path} 2>&-")
            assert (result.returncode, result.stdout) == (code, "")

    def test_output_is_utf8_in_any_locale(self, tmp_path: Path) -> None:
        dump = tmp_path / "dump.json"
        dump.write_bytes(dump_of(pod("ä", labels={"k": "日本"})))
        env = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        result = subprocess.run(
            [sys.executable, "-m", "sqlcache", "get", "--from", str(dump), "-L", "k"],
            env=env,
            capture_output=True,
            check=True,
        )
        assert "ä      0/0" in result.stdout.decode()
        assert "日本" in result.stdout.decode()


class TestTerminal:
    def test_table_has_bold_headers_and_uncut_names(self, tmp_path: Path) -> None:
        long = "n" * 300
        dump = tmp_path / "dump.json"
        dump.write_bytes(dump_of(pod(long), pod("[bold]b[/]"), pod("esc\x1b[2J")))
        text = on_terminal("get", "--from", str(dump))
        assert "\x1b[1mNAME" in text
        assert f"{long}   0/0" in text
        assert "[bold]b[/]" in text
        assert "esc\\x1b[2J" in text
        assert "\x1b[2J" not in text

    def test_load_shows_its_progress_and_clears_it(self, path: Path, tmp_path: Path) -> None:
        dump = tmp_path / "dump.json"
        dump.write_bytes(dump_of(*NEW))
        text = on_terminal("load", str(dump), "--db", f"sqlite:///{path}")
        assert "MB/s" in text
        assert "objects" in text
        assert "\x1b[?25h" in text, "the cursor is shown again"
        assert text.rstrip().splitlines()[-1].endswith(" s")
        assert f"Loaded 3000 pods from 6.4 MB into {path} in " in text

    def test_ctrl_c_gives_the_cursor_back(self, path: Path) -> None:
        main_end, process_end = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlcache", "load", "-", "--db", f"sqlite:///{path}"],
            stdin=subprocess.PIPE,
            stdout=process_end,
            stderr=process_end,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(process_end)
        assert process.stdin is not None
        process.stdin.write(dump_of(*NEW)[:2_000_000])
        process.stdin.flush()
        wait_until_read(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        text = read_all(main_end)
        assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
        assert "Traceback" not in text
        close(process)


class TestCommand:
    def test_version(self) -> None:
        result = finish(start("--version"))
        assert result.exit_code == 0
        assert result.stdout.startswith("sqlcache, version ")

    def test_script_and_module_are_the_same(self) -> None:
        script = Path(sys.executable).with_name("sqlcache")
        if not script.exists():
            pytest.skip("the package is not installed")
        result = subprocess.run([script, "--version"], capture_output=True, check=True)
        assert result.stdout.decode() == finish(start("--version")).stdout


def obey_modes() -> None:
    """Let root obey the modes of files, as everybody else does."""
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def script_of_the_wheel() -> str:
    """Return what the script does that an installer makes of the entry point."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, function = project["scripts"]["sqlcache"].split(":")
    return f"import sys; from {module} import {function}; sys.exit({function}())"


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def limit_files(size_bytes: int) -> None:
    """Let this process write no file beyond a size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))


def shell(command: str) -> subprocess.CompletedProcess[str]:
    text = f"{sys.executable} -m sqlcache {command}"
    return subprocess.run(
        ["/bin/sh", "-c", text], capture_output=True, text=True, check=False, timeout=60
    )


def on_terminal(*args: str) -> str:
    """Run a command on a terminal of 80 columns and return all it writes there."""
    main_end, process_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sqlcache", *args],
        stdin=subprocess.DEVNULL,
        stdout=process_end,
        stderr=process_end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(process_end)
    text = read_all(main_end)
    assert process.wait(60) == 0, text
    return text


def read_all(descriptor: int) -> str:
    """Read from a terminal until its other end is closed."""
    pieces = []
    while select.select([descriptor], [], [], 60)[0]:
        try:
            piece = os.read(descriptor, 65_536)
        except OSError:  # how Linux reports that
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(descriptor)
    return b"".join(pieces).decode()


def wait_until_read(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has read all that was written to it, and waits for more."""
    assert process.stdin is not None
    deadline = time.monotonic() + 60
    unread = array.array("i", [1])
    while unread[0]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
        fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, unread)


def close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None and not stream.closed:
            stream.close()


def test_interrupt_inside_exec_exits_with_130(tmp_path: Path) -> None:
    """CPython ends `python -m` by SIGINT after a Ctrl-C in exec(), which an import may be in."""
    (tmp_path / "probe.py").write_text(
        "import sys\n"
        "import sqlcache.__main__, sqlcache.cli\n"
        "def command():\n"
        "    try:\n"
        "        exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
        "sqlcache.cli.main = command\n"
        "sqlcache.__main__.main()\n"
    )
    ended = subprocess.run([sys.executable, "-m", "probe"], cwd=tmp_path, check=False)
    assert ended.returncode == 130
