"""`dump FILE`: every service selector of a real cluster against the pods of its dump.

The questions are those of the Endpoints controller: the namespace and selector of each service,
each different one once. Each sample is one service; `matches` is the median service's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from sqlcache.bench.scenarios.queries import Queries
from sqlcache.bench.workloads import Query, Question
from sqlcache.dumps import DumpReader
from sqlcache.errors import DumpError
from sqlcache.objects import Object, Objects
from sqlcache.selectors import from_labels


class Dump(Queries):
    """The pods of a dump and its services' selectors."""

    def data(self, random: Random) -> tuple[Objects, list[Query]]:
        """Return the pods, in the file's order, and one query: all services."""
        file = str(self.options["file"])
        pods, questions = read(file)
        self.facts = {"services": len(questions)}
        return pods, [Query(f"services of {Path(file).name}", questions, questions, questions)]


def read(file: str) -> tuple[Objects, list[Question]]:
    """Return the pods of a dump and what its services select.

    Raises:
        DumpError: it is no dump, or has no pods or no service with a selector.
        OSError: it cannot be read.
    """
    pods = list(DumpReader([file], "pods"))
    questions = list(dict.fromkeys(_questions(DumpReader([file], "services"))))
    for what, found in (("pods", pods), ("services with a selector", questions)):
        if not found:
            raise DumpError(file, "", f"no {what} in it")
    return pods, questions


def _questions(services: Iterable[Object]) -> Iterator[Question]:
    for service in services:
        selector = (service.get("spec") or {}).get("selector")
        if selector:
            namespace = service["metadata"].get("namespace") or ""
            yield Question(namespace, from_labels(selector))
