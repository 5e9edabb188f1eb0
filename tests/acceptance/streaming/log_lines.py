"""Logs of JSON lines, of 70 bytes or so each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path


def line(i: int) -> str:
    return json.dumps({"id": i, "msg": f"row {i} " + "x" * 40}) + "\n"


def write(path: Path, ids: Iterable[int]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(map(line, ids)))
    return path
