"""Errors as Spark shows them: it prints the whole traceback of a Python worker above the message."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from hive_ingest.errors import StreamingError

_log = logging.getLogger(__name__)
_LONGEST_MESSAGE = 2000
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def short_errors(call: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """An error of ours says itself what is wrong: it leaves `call` without the frames that it came through."""

    @functools.wraps(call)
    def shortened(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return call(*args, **kwargs)
        except StreamingError as error:
            _log.debug("the whole of an error", exc_info=True)
            raise error.with_traceback(None) from None

    return shortened


def short_errors_of(
    generate: Callable[_Arguments, Iterator[_Result]],
) -> Callable[_Arguments, Iterator[_Result]]:
    """The same for a generator."""

    @functools.wraps(generate)
    def shortened(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Iterator[_Result]:
        try:
            yield from generate(*args, **kwargs)
        except StreamingError as error:
            _log.debug("the whole of an error", exc_info=True)
            raise error.with_traceback(None) from None

    return shortened


def without_java_stack(message: str) -> str:
    """An error of Spark without the lines of Java's stack trace."""
    kept = [line for line in message.splitlines() if line.strip() and not line.startswith("\tat ")]
    return "\n".join(kept)[:_LONGEST_MESSAGE]
