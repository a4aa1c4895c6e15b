"""Reading dumps: every form, bounded memory, and one clear error for everything else."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlcache.dumps import DumpReader, kind_is
from sqlcache.errors import DumpError
from sqlcache.objects import Object

Write = Callable[..., str]


def pod(name: str, **meta: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", **meta},
        "spec": {"nodeName": "n1"},
    }


def service(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}}


def bare(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


PODS = [pod("a", labels={"app": "web"}), pod("b"), pod("ü", annotations={"x": "\u0000 \U0001f600"})]
KUBECTL_LIST = {"apiVersion": "v1", "items": PODS, "kind": "List", "metadata": {"x": ""}}
SERVER_LIST = {
    "kind": "PodList",
    "apiVersion": "v1",
    "metadata": {"resourceVersion": "9"},
    "items": [bare(obj) for obj in PODS],
}
FORMS: dict[str, tuple[Any, list[Object]]] = {
    "list": (KUBECTL_LIST, PODS),
    "PodList": (SERVER_LIST, [bare(obj) for obj in PODS]),
    "PodList with its kind last": (
        dict(reversed(SERVER_LIST.items())),
        [bare(obj) for obj in PODS],
    ),
    "one object": (PODS[0], PODS[:1]),
    "one object without kind": (bare(PODS[0]), [bare(PODS[0])]),
    "array": (PODS, PODS),
    "cluster": (
        {"source": {"repo": "x"}, "services": [service("s")], "pods": PODS, "nodes": []},
        PODS,
    ),
    "mixed list": ({"items": [service("s"), *PODS], "kind": "List"}, PODS),
    "empty list": ({"items": [], "kind": "List"}, []),
    "empty PodList of Go": ({"kind": "PodList", "items": None}, []),
    "empty cluster": ({"pods": [], "services": [service("s")]}, []),
    "empty array": ([], []),
}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: str | bytes, name: str = "dump.json") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def read(*sources: str, resource: str = "pods") -> list[Object]:
    return list(DumpReader(sources, resource))


def error_of(*sources: str, resource: str = "pods") -> str:
    with pytest.raises(DumpError) as caught:
        read(*sources, resource=resource)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message.removeprefix(f"{sources[0]}: ")


class TestForms:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("indent", [None, 4])
    def test_json(self, write: Write, form: str, indent: int | None) -> None:
        document, expected = FORMS[form]
        assert read(write(json.dumps(document, indent=indent))) == expected

    @pytest.mark.parametrize("form", FORMS)
    def test_yaml(self, write: Write, form: str) -> None:
        document, expected = FORMS[form]
        assert read(write(yaml.safe_dump(document, sort_keys=False), "dump.yaml")) == expected

    def test_gzip_is_recognised_by_content(self, write: Write) -> None:
        content = gzip.compress(json.dumps(KUBECTL_LIST).encode())
        assert read(write(content, "dump.json.gz")) == PODS
        assert read(write(content, "dump.json")) == PODS

    def test_gzipped_yaml(self, write: Write) -> None:
        content = gzip.compress(yaml.safe_dump(KUBECTL_LIST).encode())
        assert read(write(content, "dump.yaml.gz")) == PODS

    def test_documents_one_after_another(self, write: Write) -> None:
        """`kubectl get -w -o json` and `cat a.json b.json` write these; JSON lines are the same."""
        lines = "\n".join(json.dumps(obj) for obj in PODS)
        assert read(write(lines, "dump.jsonl")) == PODS
        assert read(write(json.dumps(PODS[0]) + json.dumps(KUBECTL_LIST))) == [PODS[0], *PODS]

    def test_several_yaml_documents_with_empty_ones(self, write: Write) -> None:
        text = "---\n" + "---\n".join(yaml.safe_dump(obj) for obj in PODS) + "---\n"
        assert read(write(text, "dump.yml")) == PODS

    def test_a_name_without_suffix_is_read_as_what_it_looks_like(self, write: Write) -> None:
        assert read(write(json.dumps(KUBECTL_LIST), "dump")) == PODS
        assert read(write(yaml.safe_dump(KUBECTL_LIST), "dump2")) == PODS

    @pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump], ids=["json", "yaml"])
    def test_standard_input(
        self, monkeypatch: pytest.MonkeyPatch, dump: Callable[[Any], str]
    ) -> None:
        stdin = io.TextIOWrapper(io.BytesIO(dump(KUBECTL_LIST).encode()))
        monkeypatch.setattr(sys, "stdin", stdin)
        reader = DumpReader(["-"])
        assert reader.total_bytes is None
        assert list(reader) == PODS

    def test_directory_in_order_of_names(self, write: Write, tmp_path: Path) -> None:
        write(json.dumps(PODS[1]), "d/b/pods.json")
        write(yaml.safe_dump(PODS[0]), "d/a/pods.yaml")
        write(json.dumps({"kind": "ServiceList", "items": [service("s")]}), "d/services.json")
        write("not a dump", "d/pod.log")
        reader = DumpReader([str(tmp_path / "d")])
        assert list(reader) == PODS[:2]
        assert [os.path.basename(path) for path in reader.files] == [
            "pods.yaml",
            "pods.json",
            "services.json",
        ]
        assert reader.others == {"Service": 1}

    def test_byte_order_mark(self, write: Write) -> None:
        assert read(write(b"\xef\xbb\xbf" + json.dumps(KUBECTL_LIST).encode())) == PODS

    def test_another_resource_of_the_same_file(self, write: Write) -> None:
        path = write(json.dumps({"pods": PODS, "services": [service("s")]}))
        assert read(path, resource="services") == [service("s")]

    def test_lists_within_an_object_are_its_own(self, write: Write) -> None:
        """An Endpoints object has `subsets` at its top, an EndpointSlice even `endpoints`."""
        endpoints = {**service("s"), "kind": "Endpoints", "subsets": [{"addresses": []}]}
        assert read(write(json.dumps(endpoints)), resource="endpoints") == [endpoints]
        piece = {**service("s"), "kind": "EndpointSlice", "endpoints": [{"addresses": []}]}
        assert read(write(json.dumps(piece)), resource="endpointslices") == [piece]
        assert "no endpoints in it, but 1 EndpointSlice" in error_of(
            write(json.dumps(piece)), resource="endpoints"
        )

    def test_numbers_as_the_api_server_reads_them(self, write: Write) -> None:
        obj = pod("a", x=[2**53 + 1, 2**64 - 1, -(2**63), 1.5, 0.1])
        assert read(write(json.dumps(obj))) == [obj]
        text = json.dumps(obj).replace("1.5", str(2**70))
        assert read(write(text))[0]["metadata"]["x"][3] == float(2**70)
        assert read(write(text, "dump.yaml"))[0]["metadata"]["x"][3] == float(2**70)

    def test_yaml_timestamps_and_keys_are_strings(self, write: Write) -> None:
        text = """
            kind: Pod
            metadata:
              name: a
              creationTimestamp: 2021-04-01T10:00:00Z
              labels: {1: "one", false: "no", equals: =}
            """
        meta = read(write(text, "dump.yaml"))[0]["metadata"]
        assert meta["creationTimestamp"] == "2021-04-01T10:00:00Z"
        assert meta["labels"] == {"1": "one", "false": "no", "equals": "="}

    def test_yaml_aliases_are_copied(self, write: Write) -> None:
        text = "kind: Pod\nmetadata: {name: a, labels: &l {app: web}}\nspec: {selector: *l}\n"
        obj = read(write(text, "dump.yaml"))[0]
        assert obj["spec"]["selector"] == {"app": "web"}
        assert obj["spec"]["selector"] is not obj["metadata"]["labels"]


class TestChunks:
    """A file comes in pieces that end anywhere."""

    @pytest.fixture(autouse=True)
    def _small_chunks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sqlcache.dumps._json.CHUNK_BYTES", 7)

    @settings(max_examples=40, deadline=None)
    @given(
        values=st.lists(
            st.recursive(
                st.none()
                | st.booleans()
                | st.integers(-(2**63), 2**64 - 1)
                | st.floats(allow_nan=False, allow_infinity=False)
                | st.text(st.characters(exclude_categories=["Cs"])),
                lambda inner: st.lists(inner) | st.dictionaries(st.text('ab"\\ü'), inner),
            )
        ),
        indent=st.sampled_from([None, 0, 3]),
        ascii_only=st.booleans(),
        size=st.integers(1, 40),
    )
    def test_any_content_in_any_pieces(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        values: list[Any],
        indent: int | None,
        ascii_only: bool,
        size: int,
    ) -> None:
        pods = [pod(f"p{number}", x=value) for number, value in enumerate(values)]
        text = json.dumps({"x": values, "pods": pods}, indent=indent, ensure_ascii=ascii_only)
        path = tmp_path_factory.mktemp("dump") / "dump.json"
        path.write_text(text, encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sqlcache.dumps._json.CHUNK_BYTES", size)
            assert read(str(path)) == pods

    def test_every_cut_is_noticed(self, write: Write) -> None:
        text = json.dumps({"x": [-1.5e10, True, None, "\u1234\\"], "items": PODS}).encode()
        for length in range(1, len(text)):
            assert "cut short" in error_of(write(text[:length]))

    def test_positions_are_those_in_the_whole_file(self, write: Write) -> None:
        text = json.dumps(KUBECTL_LIST, indent=2).replace('"n1"', "n1")
        line = text[: text.index("n1")].count("\n") + 1
        assert error_of(write(text)).startswith(f"line {line}, column 21: not JSON: ")


class TestBounds:
    def test_memory_does_not_grow_with_the_list(self, write: Write) -> None:
        """40 MB of pods; the chunks and one pod are some MiB at any time."""
        filler = {"x": random.Random(1).randbytes(10_000).hex()}
        item = json.dumps(pod("a", annotations=filler))
        path = write('{"items":[' + ",".join([item] * 2000) + "]}")
        tracemalloc.start()
        try:
            assert sum(1 for _ in DumpReader([path])) == 2000
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert os.path.getsize(path) > 40_000_000
        assert peak < 8_000_000

    def test_strings_of_5_mb(self, write: Write) -> None:
        long = pod("a", annotations={"x": "y" * 5_000_000})
        assert read(write(json.dumps([long, pod("b")]))) == [long, pod("b")]

    def test_an_object_without_end_is_given_up(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sqlcache.dumps._json._MAX_VALUE_CHARS", 3_000_000)
        path = write(json.dumps([pod("a", annotations={"x": "y" * 9_000_000})]))
        assert error_of(path) == "line 1, column 2: a value longer than 3000000 characters"

    def test_bytes_are_reported_as_they_are_read(self, write: Write) -> None:
        path = write(gzip.compress(json.dumps([pod(f"p{n}") for n in range(50_000)]).encode()))
        seen: list[int] = []
        reader = DumpReader([path, path], on_bytes=seen.append)
        assert sum(1 for _ in reader) == reader.objects == 100_000
        assert sum(seen) == reader.total_bytes == 2 * os.path.getsize(path)
        assert len(seen) > 4


JSON_ERRORS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "is empty"),
    "blank": (" \n\t\n", "is empty"),
    "text": ("hello", "line 1, column 1: not JSON: expecting value"),
    "html": ("<html>", "line 1, column 1: not JSON: expecting value"),
    "number": ("42", "a number instead of an object or a list"),
    "string": ('"pods"', "a string instead of an object or a list"),
    "true": ("true", "true instead of an object or a list"),
    "empty object": ("{}", "metadata is missing"),
    "list of non-objects": ("[1]", "[0]: a number instead of an object"),
    "items of non-objects": (
        '{"kind":"List","items":[{"kind":"Pod","metadata":{"name":"a"}},"b"]}',
        "items[1]: a string instead of an object",
    ),
    "null item": ('{"pods":[null]}', "pods[0]: null instead of an object"),
    "items no list": ('{"kind":"PodList","items":{}}', "items: a mapping instead of a list"),
    "no metadata": ('[{"kind":"Pod"}]', "[0]: metadata is missing"),
    "metadata no mapping": ('[{"metadata":"a"}]', "[0]: metadata is a string instead of a mapping"),
    "no name": ('[{"metadata":{}}]', "[0]: metadata.name is missing"),
    "empty name": ('[{"metadata":{"name":""}}]', "[0]: metadata.name is missing"),
    "name no string": (
        '[{"metadata":{"name":5}}]',
        "[0]: metadata.name is a number instead of a string",
    ),
    "namespace no string": (
        '[{"metadata":{"name":"a","namespace":false}}]',
        "[0]: metadata.namespace is false instead of a string",
    ),
    "labels no mapping": (
        '[{"metadata":{"name":"a","labels":["x"]}}]',
        "[0]: metadata.labels is a list instead of a mapping",
    ),
    "label no string": (
        '[{"metadata":{"name":"a","labels":{"x":1}}}]',
        "[0]: the label 'x' is a number instead of a string",
    ),
    "label null": ('[{"metadata":{"name":"a","labels":{"x":null}}}]', "the label 'x' is missing"),
    "kind no string": ('[{"kind":7}]', "[0]: kind is a number instead of a string"),
    "NUL in the name": ('[{"metadata":{"name":"a\\u0000"}}]', "[0]: metadata.name contains NUL"),
    "NUL in a label": (
        '[{"metadata":{"name":"a","labels":{"x":"\\u0000"}}}]',
        "[0]: the label 'x' contains NUL",
    ),
    "raw NUL": (b'[{"metadata":{"name":"a\x00"}}]', "line 1, column 24: not JSON: "),
    "NUL file": (b"\x00" * 100, "line 1, column 1: not JSON: expecting value"),
    "lone surrogate": (
        '[{"metadata":{"name":"a","x":"\\ud800"}}]',
        "line 1, column 31: not JSON: no low surrogate in string",
    ),
    "NaN": ('[{"metadata":{"name":"a","x":NaN}}]', "line 1, column 30: not JSON: "),
    "trailing comma": (
        '[{"metadata":{"name":"a",}}]',
        "line 1, column 2",
    ),  # at the comma from Python 3.13 on
    "comma after the last item": ("[1,]", "[0]: a number"),
    "comma after the last pod": (
        '[{"metadata":{"name":"a"}},]',
        "line 1, column 28: not JSON: expecting value",
    ),
    "no comma": ('{"items":[{"metadata":{"name":"a"}} {}]}', "expected , or ], found '{'"),
    "single quotes": ("{'items':[]}", 'expected a field name in quotes, found "\'"'),
    "no colon": ('{"items" []}', "line 1, column 10: not JSON: expected :, found '['"),
    "comma before the end": ('{"items":[],}', "expected a field name in quotes, found '}'"),
    "rubbish after the end": ('{"items":[]} x', "line 1, column 14: not JSON: expecting value"),
    "second document": ('{"items":[]}\n[{}]', "document 2: [0]: metadata is missing"),
    "cut": (
        '{"items":[{"metadata":{"name":"a"}},{"met',
        "line 1, column 42: the file is cut short",
    ),
    "cut between items": ('{"items":[{"metadata":{"name":"a"}},', "the file is cut short"),
    "Latin-1": ('[{"metadata":{"name":"ä"}}]'.encode("latin-1"), "byte 22: not UTF-8: "),
    "UTF-16": ('{"items":[]}'.encode("utf-16"), "is UTF-16; write it as UTF-8"),
    "cut character": (b'{"items":["\xc3', "byte 11: not UTF-8: unexpected end of data"),
    "deep": ("[" * 100_000, "line 1, column 2: nested too deeply"),
    "deep in an object": ('{"a":' * 100_000, "nested too deeply"),
    "long number": ("[" + "1" * 10_000 + "]", "line 1, column 2: not JSON: number is infinity"),
    "gzip garbage": (b"\x1f\x8bgarbage", "broken gzip data: "),
    "gzip cut": (gzip.compress(json.dumps(KUBECTL_LIST).encode())[:-20], "broken gzip data: "),
    "gzip with a wrong sum": (
        gzip.compress(json.dumps(KUBECTL_LIST).encode())[:-8] + b"12345678",
        "broken gzip data: ",
    ),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "services": (
        json.dumps({"items": [service("a"), service("b")]}),
        "no pods in it, but 2 Service",
    ),
    "one service": (json.dumps(service("a")), "no pods in it, but 1 Service"),
    "typed services": (
        '{"kind":"ServiceList","items":[{"metadata":{"name":"a"}}]}',
        "no pods in it, but 1 Service",
    ),
    "typed services, kind last": (
        '{"items":[{"metadata":{"name":"a"}}],"kind":"ServiceList"}',
        "no pods in it, but a ServiceList",
    ),
    "no services": ('{"kind":"ServiceList","items":[]}', "no pods in it, but 0 Service"),
    "no services, kind last": (
        '{"items":[],"kind":"ServiceList"}',
        "no pods in it, but a ServiceList",
    ),
    "cluster without pods": ('{"services":[{}],"nodes":[{},{}]}', "but 2 nodes, 1 services"),
    "object with a list first": (
        '{"endpoints":[],"kind":"EndpointSlice","metadata":{"name":"a"}}',
        "an object with a list before its kind and metadata",
    ),
    "a 5 MB kind": (json.dumps({"kind": "K" * 5_000_000}), "no pods in it, but 1 KKK"),
    "a 5 MB label": (
        json.dumps([pod("a", labels={"K" * 5_000_000: 1})]),
        "[0]: the label 'KKK",
    ),
}
YAML_ERRORS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "is empty"),
    "comment": ("# nothing\n", "is empty"),
    "empty document": ("---\n", "no pods in it"),
    "text": ("hello", "a string instead of an object or a list"),
    "bad indent": ("a: 1\n b: 2\n", "line 2, column 3: not YAML: "),
    "tab": ("a:\n\tb: 1", "line 2, column 1: not YAML: "),
    "cut": ("kind: Pod\nmetadata: {name: a", "line 3, column 1: not YAML: "),
    "no name": ("kind: Pod\nmetadata: {}\n", "metadata.name is missing"),
    "item": ("kind: List\nitems: [{kind: Pod}]\n", "items[0]: metadata is missing"),
    "second document": (
        "kind: Pod\nmetadata: {name: a}\n---\n- 5\n",
        "document 2: [0]: a number instead of an object",
    ),
    "NUL": (b"kind: Pod\x00", "position 9: not YAML: "),
    "Latin-1": ("kind: ä".encode("latin-1"), "position 6: not YAML: "),
    "lone surrogate": ('kind: "\\ud800"', "line 1, column 10: not YAML: "),
    "python object": ("a: !!python/object:os.system x", "line 1, column 4: not YAML: "),
    "binary": ("kind: Pod\nmetadata: !!binary aGVsbG8=\n", "a value of type bytes"),
    "binary in a list": ("- metadata: !!binary aGVsbG8=\n", "a value of type bytes"),
    "set": ("kind: Pod\nmetadata: !!set {a, b}\n", "a value of type set"),
    "infinity": ("kind: Pod\nspec: .inf\n", "a value of type float: inf"),
    "null key": ("kind: Pod\nmetadata: {null: 1}\n", "a field name of type NoneType"),
    "wrong tag": ("a: !!int abc", "not YAML that JSON can express: "),
    "unhashable key": ("? [1]\n: 2", "line 1, column 3: not YAML: found unhashable key"),
    "endless": ("kind: Pod\nmetadata: &x {name: a, x: *x}\n", "not YAML that JSON can express"),
    "huge number": ("kind: Pod\nspec: 1" + "0" * 1000, "not YAML that JSON can express"),
    "deep": ("[" * 100_000, "not YAML: exceeded maximum nesting depth"),
    "laughs": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "\n".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]" for a, b in pairwise("abcdefgh"))
        + "\nkind: Pod\nmetadata: {name: a, x: *h}\n",
        "an object of more than 1000000 values",
    ),
    "services": ("kind: Service\nmetadata: {name: a}\n", "no pods in it, but 1 Service"),
}


class TestErrors:
    @pytest.mark.parametrize("case", JSON_ERRORS)
    def test_json(self, write: Write, case: str) -> None:
        content, expected = JSON_ERRORS[case]
        assert expected in error_of(write(content))

    @pytest.mark.parametrize("case", YAML_ERRORS)
    def test_yaml(self, write: Write, case: str) -> None:
        content, expected = YAML_ERRORS[case]
        assert expected in error_of(write(content, "dump.yaml"))

    def test_attributes_say_the_same(self, write: Write) -> None:
        path = write("[1]")
        with pytest.raises(DumpError) as caught:
            read(path)
        assert caught.value.path == path
        assert caught.value.where == "[0]"
        assert caught.value.reason == "a number instead of an object"

    def test_objects_before_the_error_are_returned(self, write: Write) -> None:
        reader = iter(DumpReader([write(json.dumps(KUBECTL_LIST)[:-20])]))
        assert [next(reader) for _ in PODS] == PODS
        with pytest.raises(DumpError, match="cut short"):
            next(reader)

    def test_directory_without_dumps(self, tmp_path: Path) -> None:
        assert "no dumps in this directory (.json " in error_of(str(tmp_path))

    def test_directory_without_the_resource(self, write: Write, tmp_path: Path) -> None:
        write(json.dumps([service("a")]), "1.json")
        write(json.dumps([service("b")]), "2.json")
        assert error_of(str(tmp_path)) == "no pods in it, but 2 Service"

    def test_broken_file_in_a_directory_is_named(self, write: Write, tmp_path: Path) -> None:
        path = write("{", "d/1.json")
        assert error_of(str(tmp_path)).startswith(f"{path}: line 1, ")

    @pytest.mark.parametrize("name", ["missing.json", "missing/pods.json"])
    def test_missing_file(self, write: Write, tmp_path: Path, name: str) -> None:
        """Before anything is read."""
        path = str(tmp_path / name)
        with pytest.raises(FileNotFoundError) as caught:
            DumpReader([write("[]"), path])
        assert caught.value.filename == path

    def test_read_error_names_the_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Broken(io.RawIOBase):
            def readable(self) -> bool:
                return True

            def readinto(self, buffer: Any) -> int:
                raise OSError(5, "Input/output error")

        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Broken())))
        with pytest.raises(OSError, match="Input/output error: 'stdin'"):
            read("-")

    def test_closed_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        assert error_of("-") == "stdin: is closed"

    def test_yaml_without_pyyaml(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "yaml", None)
        message = error_of(write("kind: Pod\n", "dump.yaml"))
        assert message == "reading YAML needs PyYAML: pip install 'sqlcache[yaml]'"

    def test_nothing_is_empty_without_pyyaml(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As of a `kubectl` that failed, before `| sqlcache load -`."""
        monkeypatch.setitem(sys.modules, "yaml", None)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        assert error_of("-") == "stdin: is empty"

    def test_random_bytes_raise_dump_errors_only(self, write: Write) -> None:
        """Mutations of a sound file: each is read or refused, never anything else."""
        rng = random.Random(7)
        sound = json.dumps(KUBECTL_LIST).encode()
        for suffix in (".json", ".yaml"):
            for _ in range(150):
                text = bytearray(sound)
                for _ in range(rng.randint(1, 4)):
                    text[rng.randrange(len(text))] = rng.choice(b'{}[]",:\\\x00\xff1au \n')
                with suppress(DumpError):
                    read(write(bytes(text), f"dump{suffix}"))


class TestKinds:
    @pytest.mark.parametrize(
        ("kind", "resource"),
        [
            ("Pod", "pods"),
            ("Endpoints", "endpoints"),
            ("EndpointSlice", "endpointslices"),
            ("NetworkPolicy", "networkpolicies"),
            ("Ingress", "ingresses"),
            ("Gateway", "gateways"),
            ("Deployment", "deployments.apps"),
            ("Pod", "Pods"),
        ],
    )
    def test_belongs(self, kind: str, resource: str) -> None:
        assert kind_is(kind, resource)

    @pytest.mark.parametrize(("kind", "resource"), [("PodList", "pods"), ("Service", "pods")])
    def test_does_not_belong(self, kind: str, resource: str) -> None:
        assert not kind_is(kind, resource)
