"""`hive-ingest check` and `hive-ingest inspect`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.metastore_client import MetastoreClient
from tests.acceptance.cli.shell import Shell, records
from tests.support.tables import table_folder

pytestmark = pytest.mark.one_embedded


@pytest.fixture
def folder(alerts: Shell, metastore: MetastoreClient, tmp_path: Path) -> Path:
    alerts.done("ingest", "web.alerts", records(tmp_path / "a.json", 10))
    return table_folder(metastore, "alerts")


def test_a_healthy_table_is_reported_as_such(folder: Path, alerts: Shell) -> None:
    outcome = alerts.done("check", "web.alerts")
    assert outcome.out == ""
    assert outcome.err.startswith("web.alerts: no error, 0 findings in 2 partitions, ")
    assert "10 rows" in outcome.err
    assert alerts.done("check", "web.alerts", "-o", "json").out == ""


def test_what_is_broken_is_printed_and_the_exit_code_tells(folder: Path, alerts: Shell) -> None:
    (path, *_) = sorted(folder.rglob("bucket_*"))
    path.write_bytes(path.read_bytes()[:-20])
    outcome = alerts("check", "web.alerts", "-o", "json")
    assert outcome.code == 1
    (finding,) = outcome.rows
    assert (finding["severity"], finding["rule"], finding["place"]) == ("error", "content", str(path))
    assert "NOT healthy, 1 finding" in outcome.err
    assert str(path) in alerts("check", "web.alerts").out
    part = path.parent.parent.name.replace("country=", "")
    other = {"In": "Jp", "Jp": "In"}[part]
    assert alerts("check", "web.alerts", "--where", f"country = '{other}'").code == 0


def test_the_ends_of_files_are_shown(folder: Path, alerts: Shell) -> None:
    files = sorted(str(path) for path in folder.rglob("bucket_*"))
    found = alerts.done("inspect", folder, "-o", "json").rows
    assert [row["path"] for row in found] == files
    assert sum(int(str(row["rows"])) for row in found) == 10
    assert {(row["kind"], row["compression"], row["checksums"]) for row in found} == {("acid", "zlib", True)}
    assert all("hive.acid.version=2" in str(row["metadata"]) for row in found)

    columns = alerts.done("inspect", files[0], "--detail", "columns", "-o", "json").rows
    by_name = {row["column"]: row for row in columns}
    assert {"operation", "row", "row.id", "row.msg", "row.at"} <= by_name.keys()
    assert by_name["row.id"]["kind"] == "int"
    assert by_name["row.msg"]["low"] == f"m{by_name['row.id']['low']}"
    stripes = alerts.done("inspect", files[0], files[1], "--detail", "stripes", "-o", "json").rows
    assert [row["path"] for row in stripes] == files[:2]


def test_any_orc_file_can_be_inspected_and_others_are_named(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "files").mkdir()
    orc.write_table(pa.table({"n": pa.array(["1.50", "-2"]).cast(pa.decimal128(9, 2))}), tmp_path / "files/a.orc")
    (tmp_path / "files/b.orc").write_bytes(b"no ORC")
    (tmp_path / "files/_hidden").write_bytes(b"no ORC")
    outcome = shell("inspect", tmp_path / "files", "--detail", "columns", "-o", "json")
    assert outcome.code == 1
    assert [(row["column"], row["low"], row["high"]) for row in outcome.rows] == [("n", "-2", "1.5")]
    assert "b.orc' is not a complete ORC file" in outcome.err
    assert "no file or folder" in shell("inspect", tmp_path / "nowhere").err
