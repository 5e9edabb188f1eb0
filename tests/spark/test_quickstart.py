"""The quickstart's main job on the whole of its input: real Spark, killed by -9 with its JVM, and started again."""

from __future__ import annotations

import struct
from pathlib import Path

import psutil
import pytest

from examples.quickstart import flights, places
from examples.quickstart.__main__ import main
from examples.quickstart.writer_process import WriterProcess

ROWS = 336_776


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    return tmp_path / "demo"


def started_for(demo: Path) -> list[psutil.Process]:
    """The writer, its JVM and what else has the folder among its arguments."""
    return [
        process for process in psutil.process_iter(["cmdline"]) if str(demo) in " ".join(process.info["cmdline"] or [])
    ]


def test_a_year_of_flights_is_ingested_exactly_once_through_a_kill_of_spark(
    demo: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([str(demo)]) == 0

    output, errors = capfd.readouterr()
    assert "All checks passed" in output
    assert "FAILED" not in output
    assert f"{ROWS:,} rows, " in output
    assert "Killed by kill -9 inside a transaction" in output
    assert "WARN" not in errors.replace("FutureWarning", ""), "what Spark warns of goes into a file"
    assert "WARN" in (demo / "spark.log").read_text()
    assert png_size(demo / "flights.png") == (1600, 1000)
    assert started_for(demo) == []


def png_size(path: Path) -> tuple[int, int]:
    header = path.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", header[16:])
    return width, height


def test_an_error_of_spark_is_shown(demo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    places.input_folder(demo).mkdir(parents=True)
    (places.input_folder(demo) / "flights-01-1.json").write_text('{"row_number": "one"}\n')
    with places.connect(demo) as client:
        client.create_database(places.NAME.database)
        client.create_table(places.NAME, columns=flights.COLUMNS, partition_keys=flights.PARTITION_KEYS)

    with (
        WriterProcess("examples.quickstart.spark_writer", demo, lambda rows: None) as writer,
        pytest.raises(RuntimeError, match="exit code 1"),
    ):
        writer.wait_until_done()

    assert "MALFORMED_RECORD" in capfd.readouterr().err
    assert started_for(demo) == []
