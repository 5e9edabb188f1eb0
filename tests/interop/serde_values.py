"""What real Hive's SerDes make of records (`SerDeValues.java`).

python -m tests.interop.serde_values     asks again for every record of tests/data/hive/serde_values.json
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

from tests.interop.runner import VERSIONS, runner
from tests.support.hive_tables import DATA

VALUES = DATA / "serde_values.json"


def ask(version: str, requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers of Hive `version`: `values` and `hash`, or `error`."""
    lines = "".join(
        json.dumps({key: request[key] for key in ("serde", "types", "record")}) + "\n" for request in requests
    )
    with tempfile.TemporaryDirectory() as home:
        run = subprocess.run(
            runner(version).java_command("SerDeValues", []),
            input=lines,
            capture_output=True,
            text=True,
            check=False,
            cwd=home,
        )
    if run.returncode:
        raise RuntimeError(f"Hive {version} failed:\n{run.stderr[-4000:]}")
    return [json.loads(line) for line in run.stdout.splitlines()]


def outcome(answer: dict[str, Any]) -> Any:
    """The values, or "error": the exception is not the same in every version."""
    return answer.get("values", "error")


def _write() -> None:
    found = json.loads(VALUES.read_text())
    answers = {version: ask(version, found["records"]) for version in VERSIONS}
    for place, record in enumerate(found["records"]):
        record |= {version: outcome(answers[version][place]) for version in VERSIONS}
    records = ",\n".join(json.dumps(record) for record in found["records"])
    VALUES.write_text(f'{{"about": {json.dumps(found["about"])},\n"records": [\n{records}\n]}}\n')


if __name__ == "__main__":
    _write()
