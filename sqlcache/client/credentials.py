"""Credentials that change while a program runs: read again when the API server refuses them.

The `kubernetes` package renews a token whose expiry it was told: a pod's service account, an exec
plug-in that names one. It never looks again at a `tokenFile`, at the answer of a plug-in without an
expiry or with certificates, or at a kubeconfig that was written anew. After a 401 all of these are
read again, as kubectl would by being started.

Elsewhere: the request that is sent once more (client.connections).
Source: client-go plugin/pkg/client/auth/exec exec.go, refresh on 401; transport/token_source.go.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

_LOG = logging.getLogger(__name__)

Load: TypeAlias = Callable[[], Any]
"""Returns a new `kubernetes.client.Configuration`; raises whatever keeps it from that."""

_FIELDS = ("api_key", "cert_file", "key_file")


class Credentials:
    """The `refresh_api_key_hook` of a configuration that can be loaded again.

    Attributes:
        generation: how often something new was read.
    """

    def __init__(self, load: Load, configuration: Any) -> None:
        """Take the place of the hook that a configuration has, and go on calling that.

        Args:
            load: made this configuration.
            configuration: a `kubernetes.client.Configuration`.
        """
        self._load, self._lock = load, threading.Lock()
        self.generation = 0
        self._loaded = copy.deepcopy(configuration)  # that hook puts itself into what it is given
        configuration.refresh_api_key_hook = self

    def __call__(self, configuration: Any) -> None:
        """Renew a token that is known to expire; before each request, from any thread."""
        with self._lock:
            if self._loaded.refresh_api_key_hook is not None:
                self._loaded.refresh_api_key_hook(self._loaded)
                configuration.api_key = dict(self._loaded.api_key)

    def newer_than(self, seen: int, configuration: Any) -> bool:
        """Read everything again, unless somebody just did; return whether something changed.

        What cannot be read is logged, and leaves what there is.

        Args:
            seen: the `generation` that was refused.
            configuration: gets what changed.
        """
        with self._lock:
            if self.generation == seen:
                self._read_again(configuration)
            return self.generation != seen

    def _read_again(self, configuration: Any) -> None:
        try:
            loaded = self._load()
        except Exception as error:  # noqa: BLE001 - a file can hold anything
            # Not its text: that may quote a secret.
            _LOG.warning("credentials cannot be read again: %s", type(error).__name__)
            return
        if not (loaded.api_key or loaded.cert_file):
            return  # a plug-in that failed, which was logged
        if all(getattr(loaded, field) == getattr(configuration, field) for field in _FIELDS):
            return
        for field in _FIELDS:
            setattr(configuration, field, copy.copy(getattr(loaded, field)))
        self._loaded = loaded
        self.generation += 1
