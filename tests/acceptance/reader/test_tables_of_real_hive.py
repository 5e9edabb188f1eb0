"""Tables that real Hive wrote read as real Hive reads them, ROW__ID included (see tests/data/hive)."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.acid.names import partition_name
from hive_ingest.acid.write_ids import ValidTxnList, ValidWriteIdList
from hive_ingest.errors import StreamingIOFailure, UnsupportedFeature
from hive_ingest.model import Table, TableName, TxnId, WriteId, columns_of
from hive_ingest.reader import read_table, scan
from hive_ingest.reader.partitions import whole_table
from hive_ingest.reader.rows import Projection, Snapshot, full_schema, read_partition
from hive_ingest.schema import HiveType, parse_type
from tests.support.hive_tables import DATA, TABLES, register, unpack_all
from tests.support.metastores import connect_in
from tests.support.store_path import copy_tree
from tests.support.tables import table_folder

pytestmark = pytest.mark.one_embedded

SNAPSHOTS = json.loads((DATA / "snapshots.json").read_text())
STREAMED = {"id": "bigint", "user": "string", "msg": "string", "value": "double", "country": "string"}
#: Years that nanoseconds cannot hold.
UNREADABLE = {"3.1.3/far", "4.0.1/far"}
#: Where the two versions differ, we do as 4.0.1 does.
AS_IN_HIVE_4 = {"3.1.3/renamed", "3.1.3/numbers"}


@pytest.fixture
def metastore(metastore_uri, tmp_path):
    with connect_in(tmp_path, metastore_uri) as client:
        client.create_database("h")
        yield client


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """Folders `<version>/<table>` as Hive left them."""
    return unpack_all(tmp_path_factory.mktemp("hive_tables"))


@pytest.fixture
def take_over(metastore, tables):
    """Registers a table with the metastore, its write ids and transactions committed; gives its name."""

    def take(key):
        return register(metastore, tables, key)

    return take


def value(text: str | None, type_: HiveType):
    """What Hive printed, as the Python value that Arrow takes."""
    if text is None or type_.kind in ("string", "char", "varchar"):
        return text
    if type_.children:
        return pairs(json.loads(text), type_)
    if type_.kind == "binary":
        return bytes.fromhex(text)
    return pa.scalar(text).cast(type_.arrow)


def pairs(parsed, type_: HiveType):
    """JSON objects of a map as the list of pairs that Arrow takes."""
    kinds = dict(type_.children)
    if parsed is None or not kinds:
        return parsed
    if type_.kind == "map":
        return [(key, pairs(item, kinds["value"])) for key, item in parsed.items()]
    if type_.kind == "struct":
        return {name: pairs(parsed[name], child) for name, child in kinds.items()}
    return [pairs(item, kinds["item"]) for item in parsed]


def expected_table(key):
    """Hive's rows as a table with `row__id`, in the order of partition and ROW__ID."""
    spec = TABLES[key]
    columns = columns_of({**spec["columns"], **spec["partition_keys"]})
    types = [parse_type(column.type) for column in columns]
    schema = full_schema(Table(TableName("h", "t"), columns))
    rows = []
    for (write_id, bucket, row_id), *cells in spec["rows"]:
        cells = [None if cell == "__HIVE_DEFAULT_PARTITION__" else cell for cell in cells]
        values = [value(cell, type_) for cell, type_ in zip(cells, types, strict=True)]
        rows.append([*values, {"writeid": write_id, "bucketid": bucket, "rowid": row_id}])
    arrays = [
        pa.array([row[i].as_py() if isinstance(row[i], pa.Scalar) else row[i] for row in rows], field.type)
        for i, field in enumerate(schema)
    ]
    return in_order(pa.table(arrays, schema=schema), spec)


def in_order(table, spec):
    """Sorted by partition, then ROW__ID, because Hive's order differs from ours."""
    columns = [table[key] for key in spec["partition_keys"]]
    columns += [pc.struct_field(table["row__id"], name) for name in ("writeid", "bucketid", "rowid")]
    keys = pa.table(columns, names=[f"key{i}" for i in range(len(columns))])
    return table.take(pc.sort_indices(keys, [(name, "ascending") for name in keys.schema.names]))


@pytest.mark.parametrize("key", sorted(set(TABLES) - UNREADABLE - AS_IN_HIVE_4))
def test_rows_values_and_row_ids_are_those_of_hive(metastore, take_over, key):
    found = read_table(metastore, take_over(key), row_ids=True)
    assert in_order(found, TABLES[key]).to_pylist() == expected_table(key).to_pylist()
    assert found.schema == expected_table(key).schema


@pytest.mark.parametrize("key", sorted(AS_IN_HIVE_4))
def test_where_hive_3_and_4_differ_files_of_either_read_as_in_hive_4(metastore, take_over, key):
    newer = key.replace("3.1.3", "4.0.1")
    rows = read_table(metastore, take_over(key)).to_pylist()
    assert rows == expected_table(newer).drop_columns("row__id").to_pylist()
    assert rows != expected_table(key).drop_columns("row__id").to_pylist()


@pytest.mark.parametrize("key", sorted(UNREADABLE))
def test_a_timestamp_that_nanoseconds_cannot_hold_is_an_error_and_the_rest_can_be_read(metastore, take_over, key):
    name = take_over(key)
    with pytest.raises(UnsupportedFeature, match=r"'ts' of .*bucket_00000.*1677 to 2262"):
        read_table(metastore, name)
    assert read_table(metastore, name, columns=["id"])["id"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("key", sorted(set(TABLES) - UNREADABLE))
def test_each_column_reads_alone_as_it_does_among_the_others(metastore, take_over, key):
    name = take_over(key)
    whole = read_table(metastore, name)
    for column in whole.schema.names:
        assert read_table(metastore, name, columns=[column]).equals(whole.select([column]))


@pytest.mark.parametrize("version", ["3.1.3", "4.0.1"])
@pytest.mark.parametrize(
    "condition",
    [
        pc.field("country") == "India",
        (pc.field("country") == "India") & (pc.field("month") == 1),
        pc.field("country").is_null(),
        pc.field("month").is_null() | (pc.field("id") > 4),
        (pc.field("msg") == "new") & (pc.field("row__id", "writeid") == 3),
        pc.field("country") == "nowhere",
    ],
    ids=str,
)
def test_a_filter_keeps_the_same_rows_as_on_the_whole_table(metastore, take_over, version, condition):
    name = take_over(f"{version}/parts")
    whole = read_table(metastore, name, row_ids=True)
    found = read_table(metastore, name, row_ids=True, filter=condition)
    assert found.to_pylist() == whole.filter(condition).to_pylist()


def test_rows_come_by_partition_name(metastore, take_over):
    name = take_over("4.0.1/parts")
    names = [
        partition_name(["country", "month"], [row["country"], None if row["month"] is None else str(row["month"])])
        for row in read_table(metastore, name).to_pylist()
    ]
    assert names == sorted(names)


def test_partitions_that_the_filter_cannot_need_are_not_opened(metastore, take_over):
    name = take_over("4.0.1/parts")
    location = table_folder(metastore, name)
    for file in location.glob("country=India/**/bucket_*"):
        file.write_bytes(b"not ORC")
    with scan(metastore, name, filter=pc.field("country") == "France") as rows:
        assert rows.read_all()["id"].to_pylist() == [8, 7]


# -- snapshots -------------------------------------------------------------------------------------


def read_snapshot(spec, location):
    key = spec["table"]
    columns = STREAMED if key == "3.1.3/streamed" else TABLES[key]["columns"]
    table = Table(TableName("h", "t"), columns_of(columns), location=str(location))
    write_ids = ValidWriteIdList(
        table.name, WriteId(spec["high_water_mark"]), tuple(spec["open"]), tuple(spec["aborted"])
    )
    projection = Projection(table, (*columns, "row__id"), None)
    snapshot = Snapshot(write_ids, ValidTxnList(TxnId(10**6)))
    batches = list(read_partition(whole_table(table), projection, snapshot))
    return pa.Table.from_batches(batches, schema=projection.schema)


def plain(row):
    """A row as `snapshots.json` has it; Hive prints a decimal without trailing zeros."""
    row = dict(row)
    row_id = list(row.pop("row__id").values())
    cells = [f"{c.normalize():f}" if hasattr(c, "normalize") and not isinstance(c, str) else c for c in row.values()]
    return [row_id, *cells]


@pytest.mark.parametrize(
    "spec", SNAPSHOTS, ids=lambda s: f"{s['table']}-{s['high_water_mark']}-{s['open']}-{s['aborted']}"
)
def test_every_snapshot_has_the_rows_that_hive_sees_in_it(tables, spec):
    location = tables / spec["table"]
    if spec.get("error"):
        with pytest.raises(StreamingIOFailure, match="too old"):
            read_snapshot(spec, location)
    else:
        found = [plain(row) for row in read_snapshot(spec, location).to_pylist()]
        assert sorted(found, key=lambda r: r[0]) == sorted(spec["rows"], key=lambda r: r[0])


def test_rows_that_a_batch_has_not_flushed_are_not_read(tables, tmp_path):
    spec = next(s for s in SNAPSHOTS if s["table"] == "3.1.3/streamed" and s["high_water_mark"] == 5)
    copy_tree(tables / "3.1.3/streamed", tmp_path, dirs_exist_ok=True)
    with (tmp_path / "delta_0000001_0000005/bucket_00000").open("ab") as file:
        file.write(b"half of the next transaction")
    assert [plain(row) for row in read_snapshot(spec, tmp_path).to_pylist()] == spec["rows"]
