"""Cluster dumps: files of Kubernetes objects, read object by object.

A dump is what `kubectl get … -o json` or `-o yaml` writes (a List, a PodList, one object, or
several of these one after another, so JSON lines too), a bare array of objects, or one mapping for
a whole cluster, `{"pods": […], "services": […]}`; gzipped or not. Of a directory, all such files
below it.

Promises
- JSON takes bounded memory: one object and a few MiB, however long the list is. YAML is read a
  document at a time, so a list in YAML is held whole.
- An object that is returned is one that every store can keep: a mapping with a name, its labels
  strings, all of it valid Unicode.
- Whatever is wrong with a file's content raises one DumpError, which names the file and the place.

Flow: bytes (_content), documents (_json, _yaml), checked objects (_objects).

Elsewhere: putting objects into a store (cli.load), which of them match (selectors).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from sqlcache.dumps._content import STDIN, display_name, files_of, size_bytes
from sqlcache.dumps._objects import File, kind_is
from sqlcache.errors import DumpError, shown
from sqlcache.objects import Object

__all__ = ["STDIN", "DumpReader", "kind_is"]


class DumpReader:
    """The objects of one resource in some files. Iterate over it once.

    Attributes:
        files: the files that are read, directories expanded; "-" is standard input.
        total_bytes: size of all files as they lie on disk; None if one is no regular file.
        objects: number of objects returned so far.
        others: numbers of objects of other resources passed over so far, by kind.

    Example:
        >>> store.replace(DumpReader(["pods.json.gz"]), resource_version="")
    """

    def __init__(
        self,
        sources: Sequence[str],
        resource: str = "pods",
        *,
        on_bytes: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Look the files up.

        Args:
            sources: files and directories; "-" is standard input.
            resource: plural resource name, such as "endpointslices". Objects of other resources
                are passed over, but a file or a directory without any of this one is refused.
            on_bytes: called with the number of bytes read since the last call; of compressed
                files those are compressed bytes.

        Raises:
            OSError: a file or directory does not exist, or cannot be listed.
            DumpError: a directory has no dumps below it.
        """
        self._resource, self._on_bytes = resource, on_bytes
        self._sources = [(source, files_of(source)) for source in sources]
        self.files = [path for _, paths in self._sources for path in paths]
        sizes = [size_bytes(path) for path in self.files]
        self.total_bytes = None if None in sizes else sum(size or 0 for size in sizes)
        self.objects = 0
        self.others: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Object]:
        """Yield the objects in the order of the files.

        Raises:
            DumpError: a file is no dump, is broken, or has no object of the resource.
            OSError: a file cannot be read.
        """
        for source, paths in self._sources:
            before, empty_lists = self.objects, 0
            others: Counter[str] = Counter()
            for path in paths:
                file = File(display_name(path), self._resource, others)
                for obj in file.objects(path, self._on_bytes):
                    self.objects += 1
                    yield obj
                empty_lists += file.empty_lists
            self.others += others
            if self.objects == before and not empty_lists:
                raise DumpError(display_name(source), "", _nothing(self._resource, others))


def _nothing(resource: str, others: Counter[str]) -> str:
    if not others:
        return f"no {resource} in it"
    found = ", ".join(f"{count} {shown(kind)}" for kind, count in others.most_common(5))
    return f"no {resource} in it, but {found}"
