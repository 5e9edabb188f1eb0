"""A warehouse on HDFS: Hive reads, changes and compacts what was streamed there, and we read what it wrote there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.compaction import Worker
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import CompactionState, CompactionType
from tests.interop.agreement import BOTH_MODES, assert_agreement, ids
from tests.interop.hive import RealHive
from tests.interop.tables import orc_properties
from tests.services.hdfs import Hdfs
from tests.support import connections
from tests.support.tables import table_folder

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.fixture
def database(client: MetastoreClient, hdfs: Hdfs) -> str:
    """A new database, whose tables lie on HDFS."""
    name = f"on_hdfs_{next(_numbers)}"
    made = client.create_database(name, location=f"{hdfs.uri}/warehouse/{name}.db")
    assert made.location.startswith("hdfs://")
    return name


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


def test_hive_reads_changes_and_compacts_what_was_streamed(
    hive: RealHive, client: MetastoreClient, database: str
) -> None:
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


def test_what_hive_writes_there_is_read_and_added_to(hive: RealHive, client: MetastoreClient, database: str) -> None:
    name = f"{database}.theirs"
    properties = ", ".join(f"'{key}'='{value}'" for key, value in orc_properties(hive).items())
    hive.sql(
        f"create table {name} (id int, text string) partitioned by (part string) stored as orc "
        f"tblproperties ('transactional'='true', {properties})"
    )
    hive.sql(f"insert into {name} partition (part='10:0') values (1, 'a'), (2, 'é')")
    hive.sql(f"insert into {name} partition (part='x') values (3, 'c')")
    hive.sql(f"delete from {name} where id = 1")
    assert client.get_table(name).location.startswith("hdfs://")
    assert ids(assert_agreement(hive, client, name, modes=BOTH_MODES)) == [2, 3]
    stream(client, name, range(10, 16))
    assert ids(assert_agreement(hive, client, name, modes=BOTH_MODES)) == [2, 3, *range(10, 16)]


def test_our_worker_compacts_there_for_hive(hive401: RealHive, hdfs: Hdfs) -> None:
    """Hive 3 has no calls for a worker outside its metastore."""
    with hi.connect_metastore(hive401.metastore.uri) as client:
        name = f"on_hdfs_{next(_numbers)}"
        client.create_database(name, location=f"{hdfs.uri}/warehouse/{name}.db")
        table = create(hive401, client, name)
        for start in (0, 30):
            stream(client, table, range(start, start + 30))
        hive401.sql(f"delete from {table} where id = 3")
        rows = assert_agreement(hive401, client, table)
        client.compact(table, compaction_type=CompactionType.MAJOR, partition_name="part=10%3A0")
        result = Worker(client).run_once()
        assert result is not None
        assert result.state is CompactionState.READY_FOR_CLEANING, result.message
        hive401.clean_up()
        assert folders(client, table) == {"base"}
        assert assert_agreement(hive401, client, table, modes=BOTH_MODES) == rows
