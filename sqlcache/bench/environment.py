"""Where and with what a run was made: machine, Python, SQLite, commit, date."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlcache
from sqlcache.bench.measuring import usable_cores

_PACKAGES = ("SQLAlchemy", "orjson")
_SOURCE = Path(sqlcache.__file__).resolve().parents[1]


def environment() -> dict[str, Any]:
    """Return what a reader needs to judge the numbers; no host or user name."""
    return {
        "sqlcache": sqlcache.__version__,
        "commit": commit(_SOURCE),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": _cpu(),
        "cores": usable_cores(),
        "memory_bytes": _memory_bytes(),
        "load_average": round(os.getloadavg()[0], 2),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def commit(source: Path) -> str | None:
    """Return the git commit of a checkout of sqlcache, "+changes" added if it has some.

    None where there is no git, or `source` is not the top of a work tree: an installed package
    must not be described by the commit of whatever surrounds it.
    """
    if not (source / ".git").exists():
        return None
    try:
        head = _git(source, "rev-parse", "HEAD")
        changes = _git(source, "status", "--porcelain", "--untracked-files=no", "--", "sqlcache")
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{head}+changes" if changes else head


def _git(source: Path, *arguments: str) -> str:
    run = subprocess.run(  # noqa: S603 - fixed arguments
        ["git", "-C", str(source), *arguments],  # noqa: S607 - the user's git
        capture_output=True,
        text=True,
        timeout=10,
        check=True,
    )
    return run.stdout.strip()


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
