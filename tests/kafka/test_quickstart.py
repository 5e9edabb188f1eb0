"""The quickstart from Kafka on the whole of its input: a real broker, two instances, and one of them killed."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from examples.quickstart.__main__ import main


def test_a_year_of_flights_passes_through_kafka_exactly_once_through_a_kill(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    demo = tmp_path / "demo"
    assert main(["kafka", str(demo)]) == 0

    output, errors = capfd.readouterr()
    assert "All checks passed" in output
    assert "FAILED" not in output
    assert "336,776 rows, " in output
    assert "Traceback" not in errors
    assert "Killed by kill -9 inside a transaction" in output
    assert "The other instance wrote all 4 partitions" in output
    assert (demo / "flights.png").read_bytes().startswith(b"\x89PNG")
    left = [
        p.info["cmdline"] for p in psutil.process_iter(["cmdline"]) if str(demo) in " ".join(p.info["cmdline"] or [])
    ]
    assert left == []
