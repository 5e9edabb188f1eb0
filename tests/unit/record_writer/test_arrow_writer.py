"""Arrow data becomes rows of the table's types: what fits is cast, what does not is named."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.errors import ConfigurationError, InvalidTransactionState, SerializationError, StreamingConnectionError
from hive_ingest.record_writer import ArrowWriter, RecordWriter
from tests.unit.record_writer.writing import blocks_of, parse_all, rows_of, schema_of

SCHEMA = schema_of({"country": "string"}, id="int")


class Interface:
    """Nothing but one of Arrow's capsules."""

    def __init__(self, data, name):
        setattr(self, name, getattr(data, name))


def table(*ids, **columns):
    return pa.table({"id": pa.array(ids, pa.int64()), "country": pa.array(["x"] * len(ids)), **columns})


def test_it_is_a_record_writer():
    assert isinstance(ArrowWriter(), RecordWriter)


@pytest.mark.parametrize(
    "form",
    [
        lambda data: data,
        lambda data: data.to_batches()[0],
        lambda data: data.to_reader(),
        lambda data: [data.slice(0, 1), data.slice(1)],
        lambda data: (batch for batch in data.to_batches(max_chunksize=1)),
        lambda data: data.slice(0, 0).to_batches() + data.to_batches(),
        lambda data: Interface(data, "__arrow_c_stream__"),
        lambda data: Interface(data.to_batches()[0], "__arrow_c_array__"),
    ],
)
def test_all_kinds_of_arrow_data_are_accepted(form):
    assert rows_of(ArrowWriter(), SCHEMA, form(table(1, 2, 3))) == [{"id": i, "country": "x"} for i in (1, 2, 3)]


@pytest.mark.parametrize("argument", [b"x", "x", 1, None, [1], [b"x"]])
def test_other_data_than_arrow_is_refused(argument):
    with pytest.raises(SerializationError, match="ArrowWriter does not accept"):
        rows_of(ArrowWriter(), SCHEMA, argument)


def test_columns_match_by_name_without_regard_to_case_or_order():
    data = pa.table({"COUNTRY": ["x"], "extra": [1], "Id": [1]})
    (parsed,) = parse_all(ArrowWriter(), SCHEMA, data)
    assert parsed.batch.to_pylist() == [{"id": 1, "country": "x"}]
    assert (parsed.unknown_fields, parsed.matched_columns) == ({"extra"}, {"id", "country"})


def test_two_columns_that_differ_only_by_case_are_refused():
    data = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array(["x"])], names=["id", "ID", "country"])
    with pytest.raises(SerializationError, match=r"'ID' occurs twice \(ignoring case\)"):
        rows_of(ArrowWriter(), SCHEMA, data)
    with pytest.raises(StreamingConnectionError, match="two columns are named 'id'"):
        ArrowWriter().bind(schema_of(id="int", Id="int"))


def test_missing_columns_fail_or_are_null():
    schema, data = schema_of(id="int", name="string"), pa.table({"id": [1]})
    with pytest.raises(SerializationError, match=r"'name' is missing: .* missing_columns='null'"):
        rows_of(ArrowWriter(), schema, data)
    (parsed,) = parse_all(ArrowWriter(missing_columns="null"), schema, data)
    assert parsed.batch.to_pylist() == [{"id": 1, "name": None}]
    assert parsed.matched_columns == {"id"}


def test_missing_partition_keys_fail_unless_they_are_null_by_an_option_of_their_own():
    """As in JSON: usually a mistake, which would write to the default partition or replace it."""
    data = pa.table({"id": [1]})
    for writer in (ArrowWriter(), ArrowWriter(missing_columns="null")):
        with pytest.raises(
            SerializationError, match=r"partition key 'country' is missing: .* missing_partition_keys='null'"
        ):
            rows_of(writer, SCHEMA, data)
    (parsed,) = parse_all(ArrowWriter(missing_partition_keys="null"), SCHEMA, data)
    assert parsed.batch.to_pylist() == [{"id": 1, "country": None}]
    assert parsed.matched_columns == {"id"}


def test_unknown_columns_are_reported_once_or_refused(caplog):
    writer = ArrowWriter()
    data = table(1, extra=[1])
    rows_of(writer, SCHEMA, data, data)
    assert [r.getMessage() for r in caplog.records] == ["field 'extra' matches no column and is ignored"]
    with pytest.raises(SerializationError, match="it has no column for extra"):
        rows_of(ArrowWriter(unknown_fields="fail"), SCHEMA, data)


@pytest.mark.parametrize(
    ("type_", "values", "arrow"),
    [
        ("tinyint", [1, 128], pa.int64()),
        ("bigint", [1, 2**63], pa.uint64()),
        ("float", [1.0, 1e39], pa.float64()),
        ("float", [1, 2**24 + 1], pa.int64()),
        ("double", [1, 2**53 + 1], pa.int64()),
        ("decimal(5,2)", [1, 1000], pa.int64()),
        ("decimal(5,2)", [decimal.Decimal("1.000"), decimal.Decimal("1.234")], pa.decimal128(10, 3)),
        ("decimal(5,2)", [decimal.Decimal("1.00"), decimal.Decimal("1000.00")], pa.decimal128(10, 2)),
        ("char(3)", ["abc  ", "abcd"], pa.string()),
        ("varchar(3)", ["abc", "abcd"], pa.large_string()),
        ("date", [dt.date(2020, 1, 1), 10**7], None),
        ("timestamp", [0, 2**40], pa.timestamp("s")),
        ("timestamp", [-1000, -1], pa.timestamp("ms")),
        ("array<tinyint>", [[1], [1, 128]], pa.list_(pa.int64())),
        ("struct<a:array<tinyint>>", [{"a": [1]}, {"a": [1, 128]}], pa.struct([("a", pa.list_(pa.int64()))])),
        ("map<string,tinyint>", [[("a", 1)], [("a", 128)]], pa.map_(pa.string(), pa.int64())),
        ("map<string,int>", [[("a", 1), ("b", 2)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
        ("map<char(3),int>", [[("a", 1)], [("a", 1), ("a ", 2)]], pa.map_(pa.string(), pa.int64())),
    ],
)
def test_a_value_that_does_not_fit_makes_its_row_bad(type_, values, arrow):
    column = pa.array([0, 10**7], pa.int32()).cast(pa.date32()) if arrow is None else pa.array(values, arrow)
    good, bad = column.slice(0, 1), column.slice(1)
    column = pa.concat_arrays([good] * 20 + [bad] + [good] * 4 + [bad])
    schema = schema_of(v=type_)
    with pytest.raises(SerializationError, match=r"^record 25: column 'v") as caught:
        rows_of(ArrowWriter(), schema, pa.table({"v": pa.concat_arrays([good] * 5)}), pa.table({"v": column}))
    assert caught.value.record == 25
    (parsed,) = parse_all(ArrowWriter(on_error="skip"), schema, pa.table({"v": column}))
    assert (parsed.records, parsed.skipped, parsed.batch.num_rows) == (26, 2, 24)


def test_keys_of_maps_may_repeat_in_other_rows_and_under_a_null():
    maps = pa.array([[("a", 1)], [("a", 1), ("a", 2)], None, [("b", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32()))
    masked = pa.MapArray.from_arrays(
        maps.offsets, maps.keys, maps.items, type=maps.type, mask=pa.array([False, True, True, False])
    )
    rows = rows_of(ArrowWriter(), schema_of(v="map<string,int>"), pa.table({"v": masked.slice(1)}))
    assert [row["v"] for row in rows] == [None, None, [("b", 1), ("a", 2)]]


def test_values_of_all_types_arrive_unchanged():
    schema = schema_of(
        s="string", d="decimal(6,3)", t="timestamp", day="date", f="float", b="binary", i="int", a="array<int>",
        m="map<string,int>", st="struct<x:int,y:array<string>>", c="char(5)",
    )  # fmt: skip
    batch = pa.record_batch(
        {
            "s": pa.array(["a", None, "c"]).dictionary_encode(),
            "d": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("-2")], pa.decimal256(50, 10)),
            "t": pa.array([dt.datetime(2020, 1, 1), None, dt.datetime(1969, 1, 1)], pa.timestamp("us")),
            "day": pa.array([dt.date(2020, 1, 1), None, dt.date(1, 1, 1)], pa.date64()),
            "f": pa.array([0.1, None, float("inf")], pa.float64()),
            "b": pa.array([b"ab", None, b"cd"], pa.binary(2)),
            "i": pc.run_end_encode(pa.array([1, 1, 2])),
            "a": pa.array([[1, None], None, []], pa.list_view(pa.int64())),
            "m": pa.array([[("k", 1)], None, [("l", None)]], pa.map_(pa.string(), pa.int8())),
            "st": pa.array([{"X": 1, "Y": ["q"]}, None, {"X": None, "Y": None}]),
            "c": pa.array(["ab  ", None, " a"], pa.string_view()),
        }
    )
    first = {"s": "a", "d": decimal.Decimal("1.500"), "t": dt.datetime(2020, 1, 1), "day": dt.date(2020, 1, 1)}
    first |= {"f": pytest.approx(0.1), "b": b"ab", "i": 1, "a": [1, None], "m": [("k", 1)], "c": "ab"}
    first |= {"st": {"x": 1, "y": ["q"]}}
    last = {"s": "c", "d": decimal.Decimal("-2.000"), "t": dt.datetime(1969, 1, 1), "day": dt.date(1, 1, 1)}
    last |= {
        "f": float("inf"),
        "b": b"cd",
        "i": 2,
        "a": [],
        "m": [("l", None)],
        "st": {"x": None, "y": None},
        "c": " a",
    }
    null = dict.fromkeys(first) | {"i": 1}
    assert rows_of(ArrowWriter(), schema, batch) == [first, null, last]
    assert rows_of(ArrowWriter(), schema, batch.slice(1)) == [null, last]
    assert rows_of(ArrowWriter(), schema, batch.slice(2), batch.slice(0, 1)) == [last, first]


def test_fields_of_structs_follow_the_rules_of_columns():
    schema = schema_of(s="struct<a:int,b:int>")
    data = pa.table({"s": [{"A": 1, "c": 2}, None]})
    with pytest.raises(SerializationError, match=r"'s\.b' is missing"):
        rows_of(ArrowWriter(), schema, data)
    (parsed,) = parse_all(ArrowWriter(missing_columns="null"), schema, data)
    assert parsed.batch.to_pylist() == [{"s": {"a": 1, "b": None}}, {"s": None}]
    assert parsed.unknown_fields == {"s.c"}


def test_a_timestamp_with_a_time_zone_is_refused_with_a_remedy():
    data = pa.table({"t": pa.array([0], pa.timestamp("us", "Europe/Berlin"))})
    with pytest.raises(SerializationError, match=r"column 't': .* has a time zone, .*zoned_timestamps='local'"):
        rows_of(ArrowWriter(), schema_of(t="timestamp"), data)


def test_an_extension_type_is_read_by_its_storage():
    data = pa.table({"b": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16)))})
    assert rows_of(ArrowWriter(), schema_of(b="binary"), data) == [{"b": b"0" * 16}]


def test_a_large_table_is_split_and_small_batches_are_combined():
    data = pa.table({"id": pa.array(range(100_000), pa.int64()), "country": ["x"] * 100_000}).combine_chunks()
    writer = ArrowWriter(block_bytes=100_000)
    writer.bind(SCHEMA)
    blocks = blocks_of(writer, data)
    assert len(blocks) > 10
    assert max(block.nbytes for block in blocks) < 150_000
    assert [i for b in blocks for i in writer.parse(b).batch["id"].to_pylist()] == list(range(100_000))
    assert [b.first_record for b in blocks[:2]] == [0, blocks[0].batches[0].num_rows]
    small = blocks_of(writer, *data.slice(0, 1000).to_batches(max_chunksize=10))
    assert [len(block.batches) for block in small] == [100]
    assert writer.parse(small[0]).batch.num_rows == 1000


def test_batches_of_other_schemas_come_in_separate_blocks():
    writer = ArrowWriter()
    other = pa.table({"ID": pa.array([3], pa.int8()), "country": ["y"]})
    assert [row["id"] for row in rows_of(writer, SCHEMA, table(1), table(2), other, table(4))] == [1, 2, 3, 4]
    writer.bind(SCHEMA)
    writer.discard()
    assert [b.first_record for b in blocks_of(writer, table(1), table(2), other, table(4))] == [0, 2, 3]


def test_all_rows_skipped_leaves_an_empty_batch_of_the_tables_schema():
    (parsed,) = parse_all(ArrowWriter(on_error="skip"), SCHEMA, table(2**40))
    assert (parsed.batch.num_rows, parsed.skipped) == (0, 1)
    assert parsed.batch.schema.equals(SCHEMA.arrow)


def test_a_column_added_between_transactions_is_read():
    writer = ArrowWriter()
    data = pa.table({"id": [1], "new": ["x"]})
    assert rows_of(writer, schema_of(id="int"), data) == [{"id": 1}]
    assert rows_of(writer, schema_of(id="bigint", new="string"), data) == [{"id": 1, "new": "x"}]


def test_a_writer_without_a_schema_is_an_error():
    with pytest.raises(InvalidTransactionState, match="no schema yet"):
        list(ArrowWriter().write(table(1)))


@pytest.mark.parametrize(
    "options", [{"on_error": "log"}, {"unknown_fields": "x"}, {"missing_columns": "x"}, {"block_bytes": 0}]
)
def test_invalid_options_are_refused(options):
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        ArrowWriter(**options)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_instants_become_the_local_time_of_their_zone_on_request(unit):
    zone = pa.timestamp(unit, "America/New_York")
    seen = [dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, 4, 59, 59, tzinfo=dt.UTC), None]
    data = pa.table({"at": pa.array(seen, zone), "nested": pa.array([{"ats": [t]} for t in seen])})
    nested = pa.struct([("ats", pa.list_(zone))])
    data = data.set_column(1, "nested", data["nested"].cast(nested))
    rows = rows_of(
        ArrowWriter(zoned_timestamps="local"), schema_of(at="timestamp", nested="struct<ats:array<timestamp>>"), data
    )
    local = [dt.datetime(2024, 7, 1, 8), dt.datetime(2023, 12, 31, 23, 59, 59), None]
    assert [row["at"] for row in rows] == local
    assert [row["nested"]["ats"] for row in rows] == [[t] for t in local]


def test_an_unknown_time_zone_is_named():
    data = pa.table({"at": pa.array([0], pa.timestamp("us", "Mars/Olympus"))})
    with pytest.raises(SerializationError, match=r"'at': .*Mars/Olympus"):
        rows_of(ArrowWriter(zoned_timestamps="local"), schema_of(at="timestamp"), data)
