"""Where the vectors are that Kubernetes itself computed."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def vector_file(name: str) -> Path:
    """Return a file of vectors: from SQLCACHE_GOLDEN, ../shared/golden, or the sample here."""
    if folder := os.environ.get("SQLCACHE_GOLDEN"):
        return Path(folder) / name
    shared = ROOT / ".." / "shared" / "golden" / name
    return shared if shared.is_file() else ROOT / "tests" / "data" / "golden" / name
