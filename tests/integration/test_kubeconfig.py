"""Kubeconfig files: which file, which context, and what is said when there is none."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from sqlcache.errors import KubeConfigError

pytest.importorskip("kubernetes", reason="needs the extra kubernetes")
kubeconfig = pytest.importorskip("sqlcache.client.kubeconfig")
transport = pytest.importorskip("sqlcache.client.transport")

SECRET = "s3cr3t-t0k3n"  # noqa: S105


def config(*names: str, current: str | None = None, namespace: str = "") -> dict[str, Any]:
    """Return a kubeconfig with contexts of these names, each with a cluster and user of its own."""
    context = {"namespace": namespace} if namespace else {}
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": n, "cluster": {"server": f"http://{n}.invalid"}} for n in names],
        "users": [{"name": n, "user": {"token": f"{SECRET}-{n}"}} for n in names],
        "contexts": [{"name": n, "context": {"cluster": n, "user": n, **context}} for n in names],
    }
    return document if current is None else {**document, "current-context": current}


def write(path: Path, document: Any) -> str:
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(path)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


class TestWhichFile:
    def test_home(self, tmp_path: Path) -> None:
        (tmp_path / ".kube").mkdir()
        path = write(tmp_path / ".kube/config", config("a", current="a", namespace="shop"))
        assert kubeconfig.choose_context() == ("a", "shop", (path,))
        assert transport.connect().configuration.host == "http://a.invalid"

    def test_variable_before_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / ".kube").mkdir()
        write(tmp_path / ".kube/config", config("a", current="a"))
        path = write(tmp_path / "b", config("b", current="b"))
        monkeypatch.setenv("KUBECONFIG", path)
        assert kubeconfig.choose_context() == ("b", "default", (path,))

    def test_argument_before_variable(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KUBECONFIG", write(tmp_path / "b", config("b", current="b")))
        path = write(tmp_path / "c", config("c", current="c"))
        assert transport.connect(path).configuration.host == "http://c.invalid"

    def test_list_of_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first that says something decides, as in kubectl; missing and empty ones are none."""
        paths = [
            str(tmp_path / "missing"),
            write(tmp_path / "empty", ""),
            write(tmp_path / "no-current", config("a", current="")),
            write(tmp_path / "one", config("b", "a", current="b", namespace="second")),
            write(tmp_path / "two", config("c", current="c")),
        ]
        monkeypatch.setenv("KUBECONFIG", ":".join([*paths, "", paths[2]]))
        assert kubeconfig.choose_context().name == "b"
        assert kubeconfig.choose_context(context="a").namespace == "default"
        assert transport.connect().configuration.host == "http://b.invalid"
        assert transport.connect(context="c").configuration.host == "http://c.invalid"

    def test_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert kubeconfig.choose_context() is None
        with pytest.raises(KubeConfigError, match=r"^there is no kubeconfig at ~/\.kube/config, "):
            transport.connect()
        missing = str(tmp_path / "missing")
        monkeypatch.setenv("KUBECONFIG", missing)
        with pytest.raises(KubeConfigError, match=f"^there is no kubeconfig at {missing}, "):
            transport.connect()
        with pytest.raises(KubeConfigError, match=f"^{missing}: no such file, so no context 'x'"):
            transport.connect(context="x")


UNUSABLE = {
    "missing": (None, "No such file or directory"),
    "directory": (Path, "Is a directory"),
    "no current context": (config("a", "b"), "no context is the current one; .* it has a, b"),
    "no such context": (config("a", current="z"), "no context 'z': it has a"),
    "nothing in it": ("", "no context is the current one; .* it has none"),
    "list": ("[]", "not a mapping"),
    "text": (f"token {SECRET}", "not a mapping"),
    "no YAML": (f"users:\n- token: [{SECRET}", "is no YAML: mistake in line 2"),
    "control characters": (f"token: \x01{SECRET}", "is no YAML"),
    "contexts": ({**config("a"), "contexts": {"a": 1}}, "contexts is not a list"),
    "context": ({**config("a"), "contexts": ["a"]}, "a context without name or content"),
    "no such cluster": (
        {**config("a", current="a"), "clusters": []},
        "Expected object with name a",
    ),
    "users": ({**config("a", current="a"), "users": SECRET}, "Expected key name"),
    "user": ({**config("a", current="a"), "users": [SECRET]}, "config: .+"),
    "a key is missing beside a token": (
        {
            **config("a", current="a"),
            "users": [
                {
                    "name": "a",
                    "user": {
                        "token": SECRET,
                        "auth-provider": {"name": "oidc", "config": {"refresh-token": SECRET}},
                    },
                }
            ],
        },
        "Expected key id-token",
    ),
    "certificate": (
        {
            **config("a", current="a"),
            "clusters": [
                {
                    "name": "a",
                    "cluster": {"server": "https://a", "certificate-authority-data": "abc"},
                }
            ],
        },
        "cannot be used: ",
    ),
}


@pytest.mark.parametrize(("content", "reason"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_is_unusable_is_said_without_secrets(
    tmp_path: Path, content: Any, reason: str
) -> None:
    path = tmp_path / "config"
    if content is Path:
        path.mkdir()
    elif content is not None:
        write(path, content)
    with pytest.raises(KubeConfigError, match=reason) as caught:
        transport.connect(str(path))
    error: BaseException | None = caught.value
    assert str(error).startswith(f"{path}: ")
    assert "\n" not in str(error)
    while error is not None:  # a traceback shows what it was raised from
        assert SECRET not in str(error)
        error = error.__cause__ if error.__suppress_context__ else error.__context__


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(KubeConfigError, match="Not a directory"):
        transport.connect(write(tmp_path / "a", config("a", current="a")) + "/x")


def test_relative_paths_are_those_of_the_file(tmp_path: Path) -> None:
    document = config("a", current="a")
    document["clusters"][0]["cluster"] = {
        "server": "https://a.invalid",
        "certificate-authority": "ca.crt",
    }
    (tmp_path / "ca.crt").write_bytes(base64.b64encode(b"x"))
    client = transport.connect(write(tmp_path / "config", document))
    assert client.configuration.ssl_ca_cert == str(tmp_path / "ca.crt")
