"""The Python examples of the README and the docs run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


DOCS = [
    "README.md",
    "docs/controllers.md",
    "docs/informers.md",
    "docs/labels.md",
    "docs/metrics.md",
    "docs/tuning.md",
    "docs/running.md",
]


@pytest.mark.parametrize("name", DOCS)
def test_examples_run(name: str, tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / name).read_text())
    assert blocks, f"{name} has no example"
    environment = {key: value for key, value in os.environ.items() if key != "SQLCACHE_BACKEND"}
    for block in blocks:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), block
