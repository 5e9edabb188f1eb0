"""Rows that do not fit into the buffer, where writing to the warehouse takes long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hive_ingest as hi
from hive_ingest.storage import Location, local_spill_folder
from tests.storage.objects import MIB


@pytest.mark.parametrize("root", ["hdfs", "s3", "azure"], indirect=True)
def test_rows_are_spilled_to_a_local_disk(root: Location, tmp_path: Path) -> None:
    settings = {"max_buffer_bytes": MIB, "spill_chunk_bytes": 1 << 12, "min_spill_bytes": 1 << 12}
    spills = Path(local_spill_folder().path)
    with hi.connect_metastore(
        f"sqlite:///{tmp_path}/metastore.db", warehouse=str(root / "w"), create=True
    ) as metastore:
        metastore.create_database("web")
        table = metastore.create_table(
            "web.t", columns={"id": "bigint", "msg": "string"}, partition_keys={"p": "string"}
        )
        with hi.StreamingConnection.connect(
            metastore, table="web.t", record_writer=hi.StrictJsonWriter(block_bytes=1 << 12), settings=settings
        ) as connection:
            connection.begin_transaction()
            for number in range(2000):
                connection.write(json.dumps({"id": number, "msg": "x" * 60, "p": str(number % 2)}))
            connection.flush()
            assert not [entry.path for entry in root.list(recursive=True) if ".spill." in entry.name]
            assert list(spills.glob("*.spill.orc"))
            connection.commit_transaction()
        assert sorted(hi.read_table(metastore, "web.t")["id"].to_pylist()) == list(range(2000))
        assert (Location.of(table.location) / ".hive_ingest").list() == []
    assert list(spills.iterdir()) == []
