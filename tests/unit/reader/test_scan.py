"""A scan sees one snapshot, owns its transaction, and never gives a wrong row silently."""

import gc
import threading
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pytest

from hive_ingest.errors import (
    ConfigurationError,
    CorruptFile,
    StreamingIOFailure,
    UnsupportedFeature,
)
from hive_ingest.model import (
    Column,
)
from hive_ingest.orc.format.tail import read_tail
from hive_ingest.orc.reader import acid_reader
from hive_ingest.reader import read_table, scan
from tests.unit.reader.reading import BUCKET_0, ids, open_readers

pytestmark = pytest.mark.one_embedded


# -- rows ------------------------------------------------------------------------------------------


def test_all_rows_with_their_row_ids(metastore, table):
    found = read_table(metastore, "web.t", row_ids=True)
    assert found.schema.names == ["id", "msg", "row__id"]
    assert found.schema.field("row__id").type == pa.struct(
        [("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())]
    )
    assert [(r["id"], *r["row__id"].values()) for r in found.to_pylist()] == [
        (1, 1, BUCKET_0, 0),
        (2, 1, BUCKET_0, 1),
        (3, 1, BUCKET_0, 2),
        (4, 2, BUCKET_0, 0),
        (5, 2, BUCKET_0, 1),
    ]


def test_deleted_rows_are_gone_whatever_statement_and_bucket_file_the_event_lies_in(metastore, table):
    write_id = table.commit()
    table.delete(write_id, [(1, BUCKET_0, 0), (2, BUCKET_0, 1), (2, BUCKET_0 + 1, 0)], bucket=3)
    folder = f"delete_delta_{write_id:07d}_{write_id:07d}_0001"
    table.delete(write_id, [(1, BUCKET_0, 0), (1, BUCKET_0, 2)], folder=folder)
    assert ids(metastore) == [2, 4]


def test_open_and_aborted_writes_are_not_seen_nor_are_their_deletes(metastore, table, struct):
    aborted, still_open = table.abort(), table.open()
    for write_id in (aborted, still_open):
        table.insert(write_id, struct(id=[99], msg=["no"]))
        table.delete(write_id, [(1, BUCKET_0, 0)])
    assert ids(metastore) == [1, 2, 3, 4, 5]


def test_rows_of_many_write_ids_in_one_file_are_distinguished(metastore, make_table, acid_file, struct):
    table = make_table()
    for end in (table.commit, table.abort, table.commit, table.open):
        end()
    rows = struct(id=[1, 2, 3, 4, 5, 6], msg=list("abcdef"))
    row_ids = [
        (1, BUCKET_0, 0),
        (1, BUCKET_0, 1),
        (2, BUCKET_0, 0),
        (3, BUCKET_0, 0),
        (4, BUCKET_0, 0),
        (4, BUCKET_0, 1),
    ]
    acid_file(table.path / "delta_0000001_0000004/bucket_00000", row_ids, rows=rows)
    table.delete(4, [(1, BUCKET_0, 0), (3, BUCKET_0, 0)], folder="delete_delta_0000001_0000004")
    assert ids(metastore) == [1, 2, 4]
    table.commit()
    table.delete(5, [(1, BUCKET_0, 0)], folder="delete_delta_0000005_0000005_0000")
    assert ids(metastore) == [2, 4]


@pytest.mark.parametrize(
    ("moved_from", "moved_to"),
    [
        pytest.param("delta_0000001_0000001_0000", "delta_0000002_0000002_0000", id="a committed delta's"),
        pytest.param("delta_0000003_0000003_0000", "delta_0000002_0000002_0000", id="one that is not committed"),
        pytest.param("delta_0000002_0000002_0000", "base_0000001", id="a base's"),
        pytest.param("delete_delta_0000004_0000004_0000", "delete_delta_0000005_0000005_0000", id="delete events'"),
    ],
)
def test_a_file_that_lies_in_the_folder_of_other_write_ids_is_refused(metastore, table, struct, moved_from, moved_to):
    """Folders decide what is visible: rows that were never committed appeared."""
    aborted, committed, last = table.abort(), table.commit(), table.commit()
    table.insert(aborted, struct(id=[99], msg=["no"]))
    table.delete(committed, [(1, BUCKET_0, 0)])
    table.delete(last, [(1, BUCKET_0, 1)])
    assert ids(metastore) == [3, 4, 5]
    target = table.path / moved_to / "bucket_00000"
    target.parent.mkdir(exist_ok=True)
    (table.path / moved_from / "bucket_00000").replace(target)
    with pytest.raises(CorruptFile, match=rf"{moved_to}/bucket_00000.*the file belongs to another folder"):
        ids(metastore)


def test_a_file_without_statistics_is_read(metastore, table, monkeypatch):
    monkeypatch.setattr(
        acid_reader, "read_tail", lambda *a: replace(tail := read_tail(*a), footer=replace(tail.footer, statistics=()))
    )
    assert ids(metastore) == [1, 2, 3, 4, 5]


def test_deletes_of_invisible_write_ids_among_visible_ones_do_not_count(metastore, table, acid_file):
    aborted, committed = table.abort(), table.commit()
    acid_file(
        table.path / f"delete_delta_{aborted:07d}_{committed:07d}/bucket_00000",
        [(1, BUCKET_0, 0), (1, BUCKET_0, 1)],
        rows=pa.nulls(2, pa.struct([("id", pa.int32()), ("msg", pa.string())])),
        operation=2,
        current=[aborted, committed],
    )
    assert ids(metastore) == [1, 3, 4, 5]


def test_a_base_and_what_came_after_it(metastore, table, acid_file, struct):
    third = table.commit()
    acid_file(
        table.path / "base_0000002_v0000001/bucket_00000",
        [(1, BUCKET_0, 1), (2, BUCKET_0, 0)],
        rows=struct(id=[2, 4], msg=["b", "d"]),
    )
    table.insert(third, struct(id=[6], msg=["f"]))
    table.delete(third, [(1, BUCKET_0, 1)])
    assert ids(metastore) == [4, 6]


def test_a_scan_sees_nothing_that_is_committed_while_it_runs(metastore, table, struct):
    with scan(metastore, "web.t", columns=["id"]) as rows:
        table.insert(table.commit(), struct(id=[6], msg=["f"]))
        assert rows.read_all()["id"].to_pylist() == [1, 2, 3, 4, 5]
    assert ids(metastore) == [1, 2, 3, 4, 5, 6]


def test_an_empty_table_has_a_schema_and_no_rows(metastore, make_table):
    make_table(partition_keys={"day": "date"})
    found = read_table(metastore, "web.t", row_ids=True)
    assert (found.num_rows, found.schema.names) == (0, ["id", "msg", "day", "row__id"])


def test_columns_come_as_requested_and_may_be_partition_keys(metastore, make_table, struct):
    table = make_table(partition_keys={"country": "string", "month": "int"})
    write_id = table.commit()
    metastore.add_partitions("web.t", [["a/b", "__HIVE_DEFAULT_PARTITION__"], ["India", "2"]])
    table.insert(write_id, struct(id=[1], msg=["a"]), partition="country=India/month=2")
    table.insert(write_id, struct(id=[2], msg=["b"]), partition="country=a%2Fb/month=__HIVE_DEFAULT_PARTITION__")
    found = read_table(metastore, "web.t", columns=["Month", "id", "country"])
    assert found.schema == pa.schema([("month", pa.int32()), ("id", pa.int32()), ("country", pa.string())])
    assert found.to_pylist() == [
        {"month": 2, "id": 1, "country": "India"},
        {"month": None, "id": 2, "country": "a/b"},
    ]
    only_keys = read_table(metastore, "web.t", columns=["country"], filter=pc.field("month").is_null())
    assert only_keys.to_pylist() == [{"country": "a/b"}]


def test_a_filter_may_use_row_ids_and_columns_that_are_not_read(metastore, table):
    found = read_table(metastore, "web.t", columns=["msg"], filter=pc.field("id") > 3)
    assert found.to_pylist() == [{"msg": "d"}, {"msg": "e"}]
    assert ids(metastore, filter=pc.field("row__id", "rowid") == 0) == [1, 4]
    assert ids(metastore, filter=pc.field(0) == 2) == [2]


def test_a_filter_may_be_text_an_expression_or_both(metastore, table):
    assert ids(metastore, where="id in (1, 3, 5) and msg not like 'c%'") == [1, 5]
    assert ids(metastore, where="id < 4", filter=pc.field("id") > 1) == [2, 3]
    with pytest.raises(ConfigurationError, match="there is no column 'nowhere'"):
        ids(metastore, where="nowhere = 1")


@pytest.mark.parametrize("filter", ["id > 3", [("id", ">", 3)], True], ids=["text", "list", "value"])
def test_a_filter_that_is_not_an_expression_is_refused(metastore, table, filter):
    with pytest.raises(ConfigurationError, match="does not fit the table"):
        ids(metastore, filter=filter)


def test_a_filter_may_join_thousands_of_conditions(metastore, table):
    filter = pc.field("id") == 3
    for value in range(1000, 4000):
        filter = filter | (pc.field("id") == value)
    assert ids(metastore, filter=filter) == [3]


def test_a_filter_never_sees_a_deleted_row(metastore, table):
    table.delete(table.commit(), [(1, BUCKET_0, 1)])
    # division by zero on the deleted row would raise
    assert ids(metastore, filter=pc.divide(pc.scalar(10), pc.field("id") - 2) > 0) == [3, 4, 5]
    with pytest.raises(ConfigurationError, match="fails on a row"):
        ids(metastore, filter=pc.divide(pc.scalar(10), pc.field("id") - 3) > 0)


def test_rows_of_several_stripes_come_in_order_and_in_batches(metastore, make_table, struct):
    table = make_table()
    count = 200_000
    rows = struct(id=list(range(count)), msg=[f"{i * 7919 % 1000003:06d}" for i in range(count)])
    path = table.insert(table.commit(), rows, stripe_size=1 << 16, batch_size=1024)
    assert orc.ORCFile(path).nstripes > 3
    with scan(metastore, "web.t", batch_rows=1000, row_ids=True) as found:
        batches = list(found)
    assert max(batch.num_rows for batch in batches) == 1000
    read = pa.Table.from_batches(batches)
    assert read["id"].to_pylist() == list(range(count))
    assert pc.struct_field(read["row__id"], "rowid").to_pylist() == list(range(count))


def test_no_columns_still_count_rows(metastore, table):
    assert read_table(metastore, "web.t", columns=[]).num_rows == 5
    assert read_table(metastore, "web.t", columns=[], filter=pc.field("id") < 3).num_rows == 2


# -- what cannot be read ---------------------------------------------------------------------------


def test_a_truncated_file_is_named_as_corrupt_and_ends_the_transaction(metastore, table):
    path = table.path / "delta_0000002_0000002_0000/bucket_00000"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptFile, match=r"delta_0000002_0000002_0000/bucket_00000"):
        read_table(metastore, "web.t")
    assert open_readers(metastore) == []


@pytest.mark.parametrize("content", [b"", b"ORC", b"PAR1 this is another format PAR1", bytes(1000)])
def test_a_file_that_is_not_orc_is_named_as_corrupt(metastore, table, content):
    path = table.path / "delta_0000001_0000001_0000/bucket_00000"
    path.write_bytes(content)
    with pytest.raises(CorruptFile, match=r"delta_0000001_0000001_0000/bucket_00000"):
        read_table(metastore, "web.t")


def test_damaged_bytes_in_a_stripe_name_the_corrupt_file(metastore, make_table):
    table = make_table(columns={"msg": "string"})
    rows = pa.StructArray.from_arrays([pa.array([f"value {i * 31 % 1009}" for i in range(20_000)])], ["msg"])
    path = table.insert(table.commit(), rows, compression="zlib")
    content = bytearray(path.read_bytes())
    content[3 : len(content) // 2] = bytes(len(content) // 2 - 3)
    path.write_bytes(content)
    with pytest.raises(CorruptFile, match=r"stripe 0 of .*bucket_00000"):
        read_table(metastore, "web.t")


def test_an_orc_file_of_another_schema_is_foreign(metastore, table):
    orc.write_table(pa.table({"id": [1]}), table.path / "delta_0000002_0000002_0000/bucket_00000")
    with pytest.raises(CorruptFile, match="not a file of an ACID table"):
        read_table(metastore, "web.t")


def test_a_file_that_disappears_during_a_scan_is_an_error(metastore, table):
    with scan(metastore, "web.t") as rows:
        next(rows)
        (table.path / "delta_0000002_0000002_0000/bucket_00000").unlink()
        with pytest.raises(StreamingIOFailure, match="bucket_00000"):
            next(rows)


def test_updates_among_rows_as_hive_2_wrote_them_are_refused(metastore, table, acid_file, struct):
    path = table.path / "delta_0000002_0000002_0000/bucket_00000"
    acid_file(path, [(2, BUCKET_0, 0)], rows=struct(id=[4], msg=["d"]), operation=1)
    with pytest.raises(UnsupportedFeature, match="major compaction"):
        read_table(metastore, "web.t")


def test_rows_among_delete_events_are_corrupt(metastore, table, acid_file, struct):
    path = table.path / "delete_delta_0000002_0000002_0000/bucket_00000"
    acid_file(path, [(1, BUCKET_0, 0)], rows=struct(id=[1], msg=["a"]), operation=0, current=[2])
    with pytest.raises(CorruptFile, match="delete events"):
        read_table(metastore, "web.t")


@pytest.mark.parametrize(
    ("properties", "message"),
    [({"transactional": "false"}, "not transactional"), ({"transactional_properties": "insert_only"}, "insert-only")],
)
def test_tables_that_are_not_full_acid_are_refused(metastore, properties, message):
    metastore.create_table("web.other", columns={"id": "int"}, properties=properties)
    with pytest.raises(UnsupportedFeature, match=message):
        read_table(metastore, "web.other")


def test_reading_gives_no_warning_and_leaves_no_thread(metastore, table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(metastore, "web.t")
        gc.collect()
    assert not [t for t in threading.enumerate() if t.name == "hive-ingest-reader-heartbeat"]


# -- schemas ---------------------------------------------------------------------------------------


def test_a_column_added_later_is_null_in_older_rows(metastore, table, acid_file):
    old = metastore.get_table("web.t")
    metastore.alter_table("web.t", replace(old, columns=(*old.columns, Column("score", "double"))))
    rows = pa.array(
        [{"id": 6, "msg": "f", "score": 0.5}],
        pa.struct([("id", pa.int32()), ("msg", pa.string()), ("score", pa.float64())]),
    )
    table.insert(table.commit(), rows)
    found = read_table(metastore, "web.t", columns=["score", "id"], filter=pc.field("id") > 4)
    assert found.to_pylist() == [{"score": None, "id": 5}, {"score": 0.5, "id": 6}]


def test_many_types_come_back_in_the_tables_types(metastore, make_table):
    make_table(columns={"a": "tinyint", "b": "array<map<string,decimal(5,2)>>", "c": "timestamp", "d": "binary"})
    found = read_table(metastore, "web.t")
    assert found.schema.types == [
        pa.int8(),
        pa.list_(pa.map_(pa.string(), pa.decimal128(5, 2))),
        pa.timestamp("ns"),
        pa.binary(),
    ]


def test_random_histories_read_as_a_model_of_them(metastore, make_table, struct):
    """Inserts and deletes of transactions that end at random, against a dictionary."""
    random = np.random.default_rng(7)
    table = make_table()
    model: dict[tuple[int, ...], object] = {}
    for _ in range(25):
        end = random.choice([table.commit, table.commit, table.abort, table.open])
        write_id = end()
        values = random.integers(0, 1000, random.integers(1, 30)).tolist()
        table.insert(write_id, struct(id=values, msg=[str(v) for v in values]))
        victims = [key for key in model if random.random() < 0.1]
        if victims:
            table.delete(write_id, victims)
        if end == table.commit:
            for key in victims:
                del model[key]
            model |= {(write_id, BUCKET_0, i): v for i, v in enumerate(values)}
    found = read_table(metastore, "web.t", row_ids=True).to_pylist()
    assert {tuple(row["row__id"].values()): row["id"] for row in found} == model
    assert len(found) == len(model)
