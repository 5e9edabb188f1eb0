"""Clients that consist of parts: each call of the client is answered by one of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def by(part: str, method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method of a client that calls `method` of its attribute `part`; with the same signature and docstring."""

    def call(self: object, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(getattr(self, part), *args, **kwargs)

    functools.update_wrapper(call, method)
    return call
