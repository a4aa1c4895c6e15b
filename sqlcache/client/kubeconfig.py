"""Which cluster to talk to, chosen as kubectl chooses it: kubeconfig files and their contexts.

Promises
- The files are the one that was asked for, else those that KUBECONFIG lists, of which some may be
  missing, else ~/.kube/config.
- The first file that names a current context decides, as the first that has a context of a name.
- A message may name files, contexts and keys, but nothing that could be a secret.

Elsewhere: clusters, credentials and certificates, which the `kubernetes` package reads from the
same files (client.connections).
Source: client-go tools/clientcmd loader.go, client_config.go.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from sqlcache.errors import KubeConfigError, shown

VARIABLE = "KUBECONFIG"
DEFAULT_FILE = "~/.kube/config"
DEFAULT_NAMESPACE = "default"
_POD_NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


class Context(NamedTuple):
    """A cluster, a user and a namespace, under one name.

    Attributes:
        name: of the context.
        namespace: where commands look unless told otherwise.
        files: paths of the kubeconfig files that have content, in order.
    """

    name: str
    namespace: str
    files: tuple[str, ...]


def choose_context(kubeconfig: str | None = None, context: str | None = None) -> Context | None:
    """Return the context to use, or None if there is no kubeconfig file at all.

    Args:
        kubeconfig: path; default: see the module.
        context: name; default: the current one.

    Raises:
        KubeConfigError: a file cannot be read, or there is no such context.
    """
    paths = [kubeconfig] if kubeconfig else _existing_files()
    documents = {path: document for path in paths if (document := _read(path)) is not None}
    where = os.pathsep.join(paths)
    if not paths:
        if not context:
            return None
        raise KubeConfigError(searched(), f"no such file, so no context {context!r}")
    contexts: dict[str, Mapping[str, Any]] = {}
    for path, document in documents.items():
        for name, found in _contexts(path, document).items():
            contexts.setdefault(name, found)
    known = f"it has {shown(', '.join(sorted(contexts)))}" if contexts else "it has none"
    currents = (document.get("current-context") for document in documents.values())
    name = context or next(
        (current for current in currents if isinstance(current, str) and current), ""
    )
    if not name:
        raise KubeConfigError(where, f"no context is the current one; name one of them: {known}")
    if name not in contexts:
        raise KubeConfigError(where, f"no context {name!r}: {known}")
    namespace = contexts[name].get("namespace")
    return Context(
        name,
        namespace if isinstance(namespace, str) and namespace else DEFAULT_NAMESPACE,
        tuple(documents),
    )


def pod_namespace() -> str:
    """Return the namespace of the pod that this process runs in, "default" outside of one.

    Source: client-go clientcmd inClusterClientConfig.Namespace.
    """
    try:
        return Path(_POD_NAMESPACE_FILE).read_text().strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def searched() -> str:
    """Return where a kubeconfig is looked for unless one is named: paths as in KUBECONFIG."""
    return os.environ.get(VARIABLE) or DEFAULT_FILE


def _existing_files() -> list[str]:
    paths = [os.path.expanduser(path) for path in searched().split(os.pathsep) if path]
    return [path for path in dict.fromkeys(paths) if os.path.exists(path)]


def _read(path: str) -> Mapping[str, Any] | None:
    """Return the content of a file, None if it is empty."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise KubeConfigError(path, error.strerror or str(error)) from error
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # Not chained, nor its text: that quotes the line, which may be a token's.
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise KubeConfigError(path, f"is no YAML: mistake{line}") from None
    if content is None:
        return None
    if not isinstance(content, dict):
        raise KubeConfigError(path, "is no kubeconfig: not a mapping")
    return content


def _contexts(path: str, document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    entries = document.get("contexts") or []
    if not isinstance(entries, list):
        raise KubeConfigError(path, "is no kubeconfig: contexts is not a list")
    found: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        context = entry.get("context") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not isinstance(context, dict):
            raise KubeConfigError(path, "is no kubeconfig: a context without name or content")
        found.setdefault(name, context)
    return found
