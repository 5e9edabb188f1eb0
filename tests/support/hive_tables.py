"""Archives of tables that real Hive wrote: one for each Hive version, with names in ASCII.

`python -m tests.support.hive_tables FOLDER ARCHIVE` makes one. What each table holds is in tests/data/hive.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from hive_ingest.acid import parse_partition_name
from hive_ingest.metastore_client import MetastoreClient
from tests.support.store_path import copy_tree
from tests.support.tables import folder_of

DATA = Path(__file__).parents[1] / "data/hive"
#: What each table holds, by version and name.
TABLES: dict[str, Any] = json.loads((DATA / "tables.json").read_text())
VERSIONS = ("3.1.3", "4.0.1")


def archive_of(version: str) -> Path:
    """The archive of the tables that this version of Hive wrote."""
    return DATA / f"tables-{version}.tar.gz"


def unpack_all(folder: Path) -> Path:
    """Unpack the tables of every version below `folder`.

    Returns:
        `folder`, in which a table is `<version>/<table>`.
    """
    for version in VERSIONS:
        unpack(archive_of(version), folder / version)
    return folder


def register(client: MetastoreClient, tables: Path, key: str) -> str:
    """Register a table with a metastore, its write ids and transactions committed.

    Args:
        client: Has a database `h`.
        tables: The folder to which the tables were unpacked.
        key: Such as "4.0.1/parts".

    Returns:
        Its name.
    """
    name = register_without_files(client, tables, key)
    copy_tree(tables / key, folder_of(client.get_table(name)), dirs_exist_ok=True)
    return name


def register_without_files(client: MetastoreClient, tables: Path, key: str) -> str:
    """The same, for a caller that brings the files to the table's location."""
    spec = TABLES[key]
    name = f"h.{key.partition('/')[2]}"
    client.create_table(name, columns=spec["columns"], partition_keys=spec["partition_keys"])
    committed = 0
    for i in range(max(spec["write_ids"], spec["visibility_txn"])):
        (txn_id,) = client.open_txns()
        if i < spec["write_ids"]:
            client.allocate_table_write_ids(name, [txn_id])
        client.commit_txn(txn_id)
        committed = txn_id
    assert committed >= spec["visibility_txn"]
    if spec["partition_keys"]:
        source = tables / key
        leaves = {p.parent.parent.relative_to(source).as_posix() for p in source.rglob("bucket_*")}
        client.add_partitions(name, [list(parse_partition_name(leaf).values()) for leaf in leaves])
    return name


def pack(folder: Path, archive: Path) -> None:
    """Pack the files below `folder`, with the same bytes on every machine that has the same zlib.

    The names are percent-encoded: partition folders of Hive may hold any character, and not every file system,
    version control system or archiver keeps those outside ASCII as they are.
    """
    with (
        archive.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = path.read_bytes()
            member = tarfile.TarInfo(_encoded(path.relative_to(folder).as_posix()))
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def unpack(archive: Path, folder: Path) -> None:
    """Unpack what `pack` packed, under the original names."""
    with tarfile.open(archive, mode="r:gz") as tar:
        for member in tar:
            member.name = unquote(member.name)
            tar.extract(member, folder, filter="data")


def _encoded(name: str) -> str:
    return quote(name, safe="/=")


def main(arguments: Sequence[str]) -> None:
    """Pack the folder named first into the archive named second."""
    folder, archive = map(Path, arguments)
    pack(folder, archive)


if __name__ == "__main__":
    main(sys.argv[1:])
