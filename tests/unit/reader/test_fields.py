"""Fields of structs are columns too: `columns=["payload.user.id"]` reads and returns nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.errors import ConfigurationError
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.model import Column, WriteId
from hive_ingest.orc import AcidOrcWriter, StripeReader
from hive_ingest.reader import read_table
from hive_ingest.storage import LocalStore
from tests.support.acid_files import TableOnDisk

pytestmark = pytest.mark.one_embedded

BUCKET_0 = 536870912
PAYLOAD = pa.struct([("user", pa.struct([("id", pa.int32()), ("name", pa.string())])), ("tags", pa.list_(pa.string()))])
TYPE = "struct<user:struct<id:int,name:string>,tags:array<string>>"
ROWS: list[dict[str, Any]] = [
    {"id": 1, "payload": {"user": {"id": 10, "name": "ann"}, "tags": ["a"]}},
    {"id": 2, "payload": {"user": None, "tags": None}},
    {"id": 3, "payload": None},
    {"id": 4, "payload": {"user": {"id": None, "name": "bob"}, "tags": []}},
]


def write_rows(table: TableOnDisk, write_id: int, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    """Not by pyarrow alone, whose writer shifts values below null structs."""
    path = table.path / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000"
    path.parent.mkdir()
    with AcidOrcWriter(
        LocalStore(), str(path), schema=schema, write_id=WriteId(write_id), bucket_property=BUCKET_0, sync=False
    ) as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema))
        writer.close()


@pytest.fixture
def table(make_table: Any) -> TableOnDisk:
    found: TableOnDisk = make_table(columns={"id": "int", "payload": TYPE})
    write_rows(found, 1, ROWS, pa.schema([("id", pa.int32()), ("payload", PAYLOAD)]))
    found.commit()
    return found


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read of the columns of files."""
    found: list[str] = []
    original = StripeReader.read

    def read(self: StripeReader, stripe: int, acid: Any, row: Any) -> Any:
        found.extend(row)
        return original(self, stripe, acid, row)

    monkeypatch.setattr(StripeReader, "read", read)
    return found


def test_a_field_is_a_column_with_its_path_as_name(
    metastore: MetastoreClient, table: TableOnDisk, names: list[str]
) -> None:
    found = read_table(metastore, "web.t", columns=["Payload.user.ID", "id"])
    assert found.schema == pa.schema([("payload.user.id", pa.int32()), ("id", pa.int32())])
    assert found["payload.user.id"].to_pylist() == [10, None, None, None]
    assert names == ["id", "payload.user.id"], "the files' other fields are not read"


def test_fields_and_the_struct_around_them_can_be_read_together(metastore: MetastoreClient, table: TableOnDisk) -> None:
    found = read_table(metastore, "web.t", columns=["payload.user", "payload.user.name", "payload"])
    assert found["payload.user"].to_pylist() == [{"id": 10, "name": "ann"}, None, None, {"id": None, "name": "bob"}]
    assert found["payload.user.name"].to_pylist() == ["ann", None, None, "bob"]
    assert found["payload"].to_pylist() == [row["payload"] for row in ROWS]


def test_a_filter_reads_only_its_fields(metastore: MetastoreClient, table: TableOnDisk, names: list[str]) -> None:
    found = read_table(metastore, "web.t", columns=["id"], where="payload.user.name = 'bob' or payload is null")
    assert found["id"].to_pylist() == [3, 4]
    names.clear()
    found = read_table(metastore, "web.t", columns=["payload.tags"], where="payload.user.id = 10")
    assert found["payload.tags"].to_pylist() == [["a"]]
    assert names == ["payload.user.id", "payload.tags"]


def test_an_arrow_expression_sees_whole_columns(metastore: MetastoreClient, table: TableOnDisk) -> None:
    for expression in (pc.field("payload", "user", "name") == "bob", pc.field(0) == 4):
        found = read_table(metastore, "web.t", columns=["payload.user.id", "id"], filter=expression)
        assert found.to_pylist() == [{"payload.user.id": None, "id": 4}]


def test_fields_of_deleted_rows_are_gone(metastore: MetastoreClient, table: TableOnDisk) -> None:
    table.delete(table.commit(), [(1, BUCKET_0, 0)], row_type=pa.struct([("id", pa.int32()), ("payload", PAYLOAD)]))
    assert read_table(metastore, "web.t", columns=["payload.user.name"])["payload.user.name"].to_pylist() == [
        None,
        None,
        "bob",
    ]


def test_a_field_that_a_file_lacks_is_null(metastore: MetastoreClient, make_table: Any) -> None:
    table: TableOnDisk = make_table(columns={"id": "int", "u": "struct<a:int>"})
    old = pa.struct([("a", pa.int32())])
    rows: list[dict[str, Any]] = [{"id": 1, "u": {"a": 7}}, {"id": 2, "u": None}]
    write_rows(table, table.commit(), rows, pa.schema([("id", pa.int32()), ("u", old)]))
    columns = (Column("id", "int"), Column("u", "struct<a:bigint,b:string>"), Column("w", "struct<x:int>"))
    metastore.alter_table("web.t", replace(metastore.get_table("web.t"), columns=columns))
    found = read_table(metastore, "web.t", columns=["u.b", "w.x", "u.a"])
    assert found.schema.types == [pa.string(), pa.int32(), pa.int64()]
    assert found.to_pylist() == [{"u.b": None, "w.x": None, "u.a": 7}, {"u.b": None, "w.x": None, "u.a": None}]
    assert read_table(metastore, "web.t", columns=["u.b"])["u.b"].to_pylist() == [None, None]
    assert read_table(metastore, "web.t", columns=["id"], where="u.b is null and w is null")["id"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("payload.user.age", "payload.user has no field 'age': choose from id, name"),
        ("payload.tags.a", r"payload.tags is list<.*only structs have fields"),
        ("id.x", "id is int32, and only structs have fields"),
        ("other.x", "web.t: there is no column 'other.x': choose from id, payload"),
    ],
)
def test_a_field_that_is_not_there_is_refused_with_the_choice(
    metastore: MetastoreClient, table: TableOnDisk, column: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_table(metastore, "web.t", columns=[column])


def test_a_field_cannot_be_given_twice(metastore: MetastoreClient, table: TableOnDisk) -> None:
    with pytest.raises(ConfigurationError, match="only once"):
        read_table(metastore, "web.t", columns=["payload.user", "PAYLOAD.user"])
