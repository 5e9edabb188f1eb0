"""What is tested of a warehouse on a remote store: Hive and we read, change and compact what the other wrote there."""

from __future__ import annotations

import pyarrow as pa

import hive_ingest as hi
from hive_ingest.compaction import Worker
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import CompactionState, CompactionType
from tests.interop.agreement import BOTH_MODES, assert_agreement, ids
from tests.interop.hive import RealHive
from tests.interop.tables import orc_properties
from tests.support import connections
from tests.support.tables import table_folder


def stream(client: MetastoreClient, name: str, numbers: range) -> None:
    """One transaction, exactly once."""
    with connections.connect(
        client, name, record_writer=hi.ArrowWriter(), sink="numbers", sources=["all"]
    ) as connection:
        connection.begin_transaction()
        parts = [f"10:{number % 3}" for number in numbers]
        connection.write(
            pa.table({"id": pa.array(numbers, pa.int32()), "text": [f"é {n}" for n in numbers], "part": parts})
        )
        connection.commit_transaction(positions={"all": numbers.stop})


def create(hive: RealHive, client: MetastoreClient, database: str) -> str:
    name = f"{database}.streamed"
    client.create_table(
        name,
        columns={"id": "int", "text": "string"},
        partition_keys={"part": "string"},
        properties=orc_properties(hive),
    )
    return name


def folders(client: MetastoreClient, name: str) -> set[str]:
    """The beginnings of the names of ACID folders in one partition."""
    found = (table_folder(client, name) / "part=10%3A0").iterdir()
    return {path.name.split("_0")[0] for path in found}


def hive_changes_and_compacts(hive: RealHive, client: MetastoreClient, database: str) -> None:
    """Hive reads what was streamed, updates and deletes rows, and compacts a partition."""
    name = create(hive, client, database)
    for start in (0, 30):
        stream(client, name, range(start, start + 30))
    rows = assert_agreement(hive, client, name, modes=BOTH_MODES)
    assert ids(rows) == list(range(60))

    hive.sql(f"update {name} set text = 'by Hive' where id % 6 = 0")
    hive.sql(f"delete from {name} where id % 6 = 3")
    rows = assert_agreement(hive, client, name, modes=BOTH_MODES)
    assert ids(rows) == [number for number in range(60) if number % 6 != 3]

    hive.compact(name, "major", partition="part='10:0'")
    assert folders(client, name) == {"base"}
    assert assert_agreement(hive, client, name, modes=BOTH_MODES).keys() == rows.keys()
    stream(client, name, range(60, 66))
    assert len(assert_agreement(hive, client, name)) == len(rows) + 6


def we_add_to_hives(hive: RealHive, client: MetastoreClient, database: str) -> None:
    """We read a table that Hive created, wrote and deleted from, and stream into it."""
    name = f"{database}.theirs"
    properties = ", ".join(f"'{key}'='{value}'" for key, value in orc_properties(hive).items())
    hive.sql(
        f"create table {name} (id int, text string) partitioned by (part string) stored as orc "
        f"tblproperties ('transactional'='true', {properties})"
    )
    hive.sql(f"insert into {name} partition (part='10:0') values (1, 'a'), (2, 'é')")
    hive.sql(f"insert into {name} partition (part='x') values (3, 'c')")
    hive.sql(f"delete from {name} where id = 1")
    assert client.get_table(name).location.startswith(client.get_database(database).location)
    assert ids(assert_agreement(hive, client, name, modes=BOTH_MODES)) == [2, 3]
    stream(client, name, range(10, 16))
    assert ids(assert_agreement(hive, client, name, modes=BOTH_MODES)) == [2, 3, *range(10, 16)]


def we_compact_for_hive(hive: RealHive, client: MetastoreClient, database: str) -> None:
    """Our worker carries out a compaction of Hive's queue. Hive 3 has no calls for a worker outside its metastore."""
    table = create(hive, client, database)
    for start in (0, 30):
        stream(client, table, range(start, start + 30))
    hive.sql(f"delete from {table} where id = 3")
    rows = assert_agreement(hive, client, table)
    client.compact(table, compaction_type=CompactionType.MAJOR, partition_name="part=10%3A0")
    result = Worker(client).run_once()
    assert result is not None
    assert result.state is CompactionState.READY_FOR_CLEANING, result.message
    hive.clean_up()
    assert folders(client, table) == {"base"}
    assert assert_agreement(hive, client, table, modes=BOTH_MODES) == rows
