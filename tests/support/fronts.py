"""A client in front of another, to see or replace single calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any


class Front:
    """Passes every call on, counts it, and uses a replacement where there is one."""

    def __init__(self, client: Any, **replacements: Callable[..., Any]) -> None:
        self._client = client
        self._replacements = replacements
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = self._replacements.get(name) or getattr(self._client, name)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return found(*args, **options)

        return call


def failing(error: BaseException) -> Callable[..., Any]:
    """A call that raises."""

    def fail(*args: Any, **options: Any) -> Any:
        raise error

    return fail
