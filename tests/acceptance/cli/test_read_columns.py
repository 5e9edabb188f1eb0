"""`hive-ingest read` as programs use it: fields of structs, and Arrow's own format."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.acceptance.cli.shell import Shell, records

pytestmark = pytest.mark.one_embedded


def arrow(*arguments: str) -> pa.Table:
    """What `read -o arrow` writes to its stdout."""
    command = [sys.executable, "-m", "hive_ingest", "read", *arguments, "-o", "arrow"]
    found = subprocess.run(command, capture_output=True, check=True, timeout=120)
    with pa.ipc.open_stream(found.stdout) as stream:
        return stream.read_all()


def test_arrow_keeps_the_types_of_the_table(alerts: Shell, tmp_path: Path) -> None:
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", 30))
    found = arrow("web.alerts", "--columns", "at,id", "--where", "country = 'In'")
    assert found.schema == pa.schema([("at", pa.timestamp("ns")), ("id", pa.int32())])
    assert sorted(found["id"].to_pylist()) == list(range(0, 30, 2))
    assert arrow("web.alerts", "--limit", "7").num_rows == 7
    assert arrow("web.alerts", "--limit", "0").schema.names == ["id", "msg", "at", "continent", "country"]


def test_a_field_of_a_struct_is_a_column(shell: Shell, tmp_path: Path) -> None:
    shell.done("create-table", "--create-metastore", "default.t", "--column", "u:struct<id:int,name:string>")
    source = tmp_path / "a.json"
    source.write_text('{"u": {"id": 1, "name": "ann"}}\n{"u": null}\n')
    shell.done("ingest", "default.t", source)
    assert shell.done("read", "default.t", "--columns", "u.name", "-o", "json").rows == [
        {"u.name": "ann"},
        {"u.name": None},
    ]
    assert shell.done("read", "default.t", "--columns", "u.id", "--where", "u.name = 'ann'", "-o", "csv").out == (
        "u.id\n1\n"
    )
    refused = shell("read", "default.t", "--columns", "u.age")
    assert refused.code == 1
    assert "u has no field 'age': choose from id, name" in refused.err
