"""A process of Hive's that answers JSON requests (`Judge.java`)."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.interop.runner import YOUNG_JVM, runner


class HiveError(Exception):
    """Hive refused or failed; the message is Hive's, `trace` its Java stack."""

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


class Judge:
    """Hive `version` with scratch files and its log in `home`, and the settings that lead to its metastore.

    Not to be shared between threads.
    """

    def __init__(
        self,
        version: str,
        home: Path,
        settings: Mapping[str, str],
        *,
        timezone: str = "UTC",
        jvm: Sequence[str] = YOUNG_JVM,
        classes: Sequence[Path] = (),
    ) -> None:
        self.version = version
        self.home = home
        self._log = (home / "judge.log").open("wb")
        self._process = subprocess.Popen(
            runner(version, classes).command(home, settings, timezone=timezone, jvm=jvm),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=home,
        )
        try:
            self._answer()
        except HiveError:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The id of Hive's process."""
        return self._process.pid

    def call(self, call: str, **arguments: object) -> Any:
        """The answer to one request. Raises `HiveError`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"call": call, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._gone() from error
        return self._answer()

    def close(self) -> None:
        """Stop the process."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # a request that failed may be left in the buffer
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._gone()
        answer = json.loads(line)
        if "error" in answer:
            raise HiveError(answer["error"], answer["trace"])
        return answer["result"]

    def _gone(self) -> HiveError:
        log = (self.home / "judge.log").read_text(errors="replace")
        return HiveError(f"Hive {self.version} is gone; its log ends:\n{log[-4000:]}")
