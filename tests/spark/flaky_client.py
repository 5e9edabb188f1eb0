"""A metastore that goes away in the middle: for one call, or from then on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal, Self

from hive_ingest.errors import MetastoreUnavailable
from hive_ingest.metastore_client import MetastoreClient

Fault = Literal["refused", "answer lost", "gone"]


class FlakyClient:
    """Counts the calls of the thread that made it, its clones' with its own; heartbeats pass.

    Call number `at` (from 1) has the `fault`: "refused", it does nothing and raises; "answer lost", it does its work
    and raises; "gone", as refused, and all later ones too, of every thread, until `heal`.
    """

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client
        self._shared = _Shared()

    def break_at(self, at: int | str, fault: Fault) -> None:
        """`at` counts from here; or the name of the call."""
        self._shared.calls, self._shared.at, self._shared.fault = [], at, fault

    def heal(self) -> None:
        self._shared.at, self._shared.is_gone = None, False

    @property
    def calls(self) -> list[str]:
        """Since the last `break_at`."""
        return self._shared.calls

    def clone(self) -> FlakyClient:
        other = FlakyClient(self._client.clone())
        other._shared = self._shared
        return other

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not callable(found) or name == "close":
            return found
        return lambda *args, **kwargs: self._shared.run(name, lambda: found(*args, **kwargs))


class _Shared:
    """What all clones know together."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self.at: int | str | None = None
        self.fault: Fault = "refused"
        self.calls: list[str] = []
        self.is_gone = False

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        if threading.get_ident() != self._thread:
            return self._refused(name) if self.is_gone else call()
        self.calls.append(name)
        if self.is_gone:
            return self._refused(name)
        if self.at not in (name, len(self.calls)):
            return call()
        self.at = None
        self.is_gone = self.fault == "gone"
        if self.fault == "answer lost":
            call()
        return self._refused(name)

    def _refused(self, name: str) -> Any:
        raise MetastoreUnavailable(f"{name}: the metastore is away (on purpose)")
