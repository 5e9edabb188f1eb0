"""A location `viewfs://…`, whose mount table is in the `core-site.xml` of HADOOP_CONF_DIR."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hive_ingest.storage import Location
from tests.services.hdfs import Hdfs

_APPEND_AND_READ = """
import sys, pyarrow as pa, hive_ingest as hi

metastore, warehouse = sys.argv[1:]
with hi.connect_metastore(metastore, warehouse=warehouse, create=True) as client:
    client.create_database("web")
    table = client.create_table("web.t", columns={"id": "int"}, partition_keys={"part": "string"})
    assert table.location.startswith("viewfs://"), table.location
    for start in (0, 10):
        ids = pa.array(range(start, start + 10), pa.int32())
        hi.append(client, "web.t", pa.table({"id": ids, "part": ["a", "b"] * 5}))
    hi.compact(client, "web.t", kind="major", wait=True)
    print(sorted(hi.read_table(client, "web.t")["id"].to_pylist()))
    client.drop_table("web.t")
"""
_LIST = """
import sys
from hive_ingest.errors import StreamingIOFailure
from hive_ingest.storage import Location

try:
    print(Location.of(sys.argv[1]).list())
except StreamingIOFailure as error:
    print(error)
"""
_RENAME = """
import sys, hive_ingest as hi
from dataclasses import replace
from hive_ingest.model import TableName

with hi.connect_metastore(sys.argv[1], warehouse="viewfs://company/a", create=True) as client:
    client.create_database("web")
    client.create_database("other", location="viewfs://company/b/other.db")
    table = client.create_table("web.t", columns={"id": "int"})
    try:
        client.alter_table("web.t", replace(table, name=TableName("other", "t")))
    except hi.StreamingError as error:
        print(error)
    print(client.get_table("web.t").name)
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """HADOOP_CONF_DIR of the processes that are run."""
    (tmp_path / "hdfs-site.xml").write_text("<configuration/>")
    return tmp_path


def mount(conf: Path, links: Mapping[str, Location]) -> None:
    """Write the mount table of `viewfs://company`, by Hadoop's names of links."""
    found = "".join(
        f"<property><name>fs.viewfs.mounttable.company.{name}</name><value>{location}</value></property>"
        for name, location in links.items()
    )
    (conf / "core-site.xml").write_text(f"<configuration>{found}</configuration>")


def run(conf: Path, code: str, *arguments: str) -> str:
    """The output of a process, because a process reads its mount table once."""
    child = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "HADOOP_CONF_DIR": str(conf)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout.strip()


def test_a_table_below_a_mount_point_is_written_read_compacted_and_dropped(
    hdfs: Hdfs, hdfs_root: Location, conf: Path
) -> None:
    mount(conf, {"link./warehouse": hdfs_root, "linkFallback": hdfs_root})
    found = run(conf, _APPEND_AND_READ, f"sqlite:///{conf}/ms.db", "viewfs://company/warehouse/hive")
    assert found == str(list(range(20)))
    assert [entry.name for entry in (hdfs_root / "hive" / "web.db").list()] == []


def test_a_partition_below_another_mount_point_gets_its_files_by_copying(
    hdfs: Hdfs, hdfs_root: Location, conf: Path
) -> None:
    """No rename leads from one mount point into another, even on one NameNode."""
    (hdfs_root / "elsewhere").make_folder()
    mount(
        conf,
        {
            "link./warehouse": hdfs_root,
            "link./warehouse/hive/web.db/t/part=b": hdfs_root / "elsewhere",
            "linkFallback": hdfs_root,
        },
    )
    found = run(
        conf,
        _APPEND_AND_READ.replace('client.drop_table("web.t")', ""),
        *(f"sqlite:///{conf}/ms.db", "viewfs://company/warehouse/hive"),
    )
    assert found == str(list(range(20)))
    assert [entry.name for entry in (hdfs_root / "elsewhere").list() if entry.name.startswith("base_")]


def test_a_mount_table_without_a_fallback_is_an_error_that_names_the_property(
    hdfs: Hdfs, hdfs_root: Location, conf: Path
) -> None:
    mount(conf, {"link./warehouse": hdfs_root})
    assert "set fs.viewfs.mounttable.NAME.linkFallback" in run(conf, _LIST, "viewfs://company/warehouse")


def test_a_table_is_not_renamed_into_another_mount_point(hdfs: Hdfs, hdfs_root: Location, conf: Path) -> None:
    mount(conf, {"link./a": hdfs_root / "a", "link./b": hdfs_root / "b", "linkFallback": hdfs_root})
    for name in "ab":
        (hdfs_root / name).make_folder()
    found = run(conf, _RENAME, f"sqlite:///{conf}/ms.db")
    assert "no rename leads from one mount point into another" in found
    assert "web.t" in found.splitlines()
