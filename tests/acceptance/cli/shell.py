"""`hive-ingest` as tests call it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from hive_ingest.cli.app import run


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """Runs commands in this process, as the installed script would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Outcome:
        self._monkeypatch.setattr(sys, "argv", ["hive-ingest", *map(str, arguments)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            run()
        output = self._capsys.readouterr()
        code = caught.value.code
        return Outcome(code if isinstance(code, int) else 0, output.out, output.err)

    def done(self, *arguments: str | Path) -> Outcome:
        outcome = self(*arguments)
        assert outcome.code == 0, outcome
        return outcome


def records(path: Path, count: int, start: int = 0) -> Path:
    lines = (
        {"id": i, "msg": f"m{i}", "at": "2013-01-01 05:00:00.5", "continent": "Asia", "country": ("In", "Jp")[i % 2]}
        for i in range(start, start + count)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
