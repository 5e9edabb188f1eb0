"""Avro in Confluent's wire format: types, versions of a schema, and what is bad."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import sys
import uuid

import pytest

from hive_ingest.errors import ConfigurationError, SchemaRegistryUnavailable, SerializationError
from hive_ingest.record_writer import AvroWriter, RecordWriter
from tests.unit.record_writer.avro import Schemas, encoded, logical, record
from tests.unit.record_writer.writing import parse_all, rows_of, schema_of

UTC = dt.UTC
INSTANT = dt.datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
WALL_CLOCK = dt.datetime(2024, 2, 29, 23, 59, 59, 123456)
OLD = dt.datetime(1969, 1, 1, 0, 0, 1)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def skipped(writer, schema, *arguments):
    return [bad for parsed in parse_all(writer, schema, *arguments) for bad in parsed.bad_records]


def test_it_is_a_record_writer():
    assert isinstance(AvroWriter(Schemas()), RecordWriter)


@pytest.mark.parametrize(
    ("avro", "value", "hive", "expected"),
    [
        ("boolean", True, "boolean", True),
        ("int", 2**31 - 1, "int", 2**31 - 1),
        ("int", 7, "bigint", 7),
        ("long", 7, "int", 7),
        ("long", 127, "tinyint", 127),
        ("long", -(2**63), "bigint", -(2**63)),
        ("float", 0.5, "float", 0.5),
        ("float", 0.5, "double", 0.5),
        ("double", 0.1, "double", 0.1),
        ("string", "ä😀", "string", "ä😀"),
        ("string", "abc", "varchar(3)", "abc"),
        ("bytes", b"\xff\x00", "binary", b"\xff\x00"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", "binary", b"ab"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", "B"),
        (["null", "string"], None, "string", None),
        (["string", "null"], "x", "string", "x"),
        (["null", "int", "long"], 2**40, "bigint", 2**40),
        ("null", None, "int", None),
        (logical("int", "date"), dt.date(2024, 2, 29), "date", dt.date(2024, 2, 29)),
        (logical("long", "timestamp-micros"), INSTANT, "timestamp", WALL_CLOCK),
        (logical("long", "timestamp-millis"), OLD.replace(tzinfo=UTC), "timestamp", OLD),
        (logical("long", "local-timestamp-micros"), WALL_CLOCK, "timestamp", WALL_CLOCK),
        (["null", logical("long", "timestamp-micros")], INSTANT, "timestamp", WALL_CLOCK),
        (logical("long", "timestamp-nanos"), 10**9, "timestamp", dt.datetime(1970, 1, 1, 0, 0, 1)),
        (logical("int", "time-millis"), dt.time(0, 0, 1), "bigint", 1000),
        (logical("string", "uuid"), ID, "string", str(ID)),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, ID.bytes, "string", str(ID)),
        (
            logical("bytes", "decimal", precision=9, scale=2),
            decimal.Decimal("-1234567.89"),
            "decimal(9,2)",
            decimal.Decimal("-1234567.89"),
        ),
        (
            {"type": "fixed", "name": "D", "size": 20, "logicalType": "decimal", "precision": 40, "scale": 1},
            decimal.Decimal("1.5"),
            "decimal(5,2)",
            decimal.Decimal("1.50"),
        ),
        ({"type": "array", "items": ["null", "int"]}, [1, None], "array<int>", [1, None]),
        ({"type": "map", "values": "long"}, {"a": 1}, "map<string,bigint>", [("a", 1)]),
        (record("S", A="int", b="string"), {"A": 1, "b": "x"}, "struct<b:string,a:int>", {"b": "x", "a": 1}),
        (
            {"type": "array", "items": record("S", at=["null", logical("bytes", "decimal", precision=3, scale=1)])},
            [{"at": decimal.Decimal("1.5")}, {"at": None}],
            "array<struct<at:decimal(3,1)>>",
            [{"at": decimal.Decimal("1.5")}, {"at": None}],
        ),
        (
            {"type": "map", "values": logical("long", "timestamp-micros")},
            {"a": INSTANT},
            "map<string,timestamp>",
            [("a", WALL_CLOCK)],
        ),
    ],
)  # fmt: skip
def test_a_value_is_stored_as_its_type_says(avro, value, hive, expected):
    schema = record(v=avro)
    writer = AvroWriter(Schemas(schema))
    assert rows_of(writer, schema_of(v=hive), [encoded(schema, {"v": value})] * 2) == [{"v": expected}] * 2


@pytest.mark.parametrize(
    ("avro", "value", "hive", "why"),
    [
        ("long", 2**31, "int", "column 'v'"),
        ("string", "x", "int", "cannot be converted to int"),
        ("string", "abcd", "varchar(3)", "column 'v'"),
        ("double", 1.5, "int", "cannot be converted to int"),
        (["int", "string"], 1, "int", "a union of int, string has no single type in Hive"),
        (logical("long", "timestamp-millis"), 10**15, "timestamp", "column 'v'"),
        (logical("bytes", "decimal", precision=3, scale=1), decimal.Decimal("99.9"), "decimal(2,1)", "column 'v'"),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_bad(avro, value, hive, why):
    schema = record(v=avro, n="int")
    writer = AvroWriter(Schemas(schema, record(n="int")), on_error="skip")
    messages = [encoded(schema, {"v": value, "n": 1}), encoded(record(n="int"), {"n": 2}, 2)]
    (bad,) = skipped(writer, schema_of(v=hive, n="int"), messages)
    assert (bad.record, bad.data) == (0, messages[0])
    assert why in bad.reason
    assert "(schema id 1)" in bad.reason


def test_a_decimal_with_more_digits_than_declared_is_not_rounded():
    """fastavro rounds to the declared precision."""
    wide, narrow = (record(v=logical("bytes", "decimal", precision=p, scale=2)) for p in (10, 4))
    message = encoded(wide, {"v": decimal.Decimal("123456.78")})
    (bad,) = skipped(AvroWriter(Schemas(narrow), on_error="skip"), schema_of(v="decimal(10,2)"), message)
    assert "column 'v'" in bad.reason


# -- versions of a schema --------------------------------------------------------------------------------


def test_records_of_many_versions_are_mixed_in_their_order():
    first, second = record(id="int"), record(name=["null", "string"], ID="long")
    messages = [
        encoded(first, {"id": i}) if i % 3 else encoded(second, {"ID": i, "name": f"n{i}"}, 2) for i in range(1000)
    ]
    schemas = Schemas(first, second)
    found = rows_of(AvroWriter(schemas), schema_of(id="int", name="string"), messages)
    assert found == [{"id": i, "name": None if i % 3 else f"n{i}"} for i in range(1000)]
    assert sorted(schemas.asked) == [1, 2]


INNER = {"type": "record", "name": "I", "fields": [{"name": "b", "type": "bytes", "default": "\xfe"}]}
FIXED = {"type": "fixed", "name": "F", "size": 2}


@pytest.mark.parametrize(
    ("avro", "default", "hive", "expected"),
    [
        ("bytes", "\xff", "binary", b"\xff"),
        (["bytes", "null"], "\xff", "binary", b"\xff"),
        (FIXED, "\xff\x01", "binary", b"\xff\x01"),
        (logical("bytes", "decimal", precision=5, scale=2), "\x01", "decimal(5,2)", decimal.Decimal("0.01")),
        ({"type": "array", "items": "bytes"}, ["\xff"], "array<binary>", [b"\xff"]),
        ({"type": "map", "values": "bytes"}, {"k": "\xff"}, "map<string,binary>", [("k", b"\xff")]),
        (INNER, {}, "struct<b:binary>", {"b": b"\xfe"}),
        (INNER, {"b": "\xff"}, "struct<b:binary>", {"b": b"\xff"}),
        (["null", INNER], None, "struct<b:binary>", None),
        ("string", "\xff", "string", "\xff"),
        ("double", 1, "double", 1.0),
    ],
)
def test_a_default_is_the_value_that_its_json_stands_for(avro, default, hive, expected):
    """Each byte is a character, and a record may lack fields that have defaults."""
    old = record(id="int")
    new = {**old, "fields": [*old["fields"], {"name": "v", "type": avro, "default": default}]}
    writer = AvroWriter(Schemas(old), reader_schema=json.dumps(new))
    assert rows_of(writer, schema_of(id="int", v=hive), [encoded(old, {"id": 1})]) == [{"id": 1, "v": expected}]


def test_a_default_that_is_no_value_of_its_type_is_an_error():
    fields = [{"name": "v", "type": "bytes", "default": "\u20ac"}]
    with pytest.raises(ConfigurationError, match=r"reader_schema is not valid: .* default"):
        AvroWriter(Schemas(), reader_schema=json.dumps({"type": "record", "name": "R", "fields": fields}))


def test_a_reader_schema_gives_defaults_and_aliases():
    old = record(id="int", nom="string")
    new = record(id="long", colour="string", name="string")
    new["fields"][1]["default"] = "red"
    new["fields"][2]["aliases"] = ["nom"]
    writer = AvroWriter(Schemas(old), reader_schema=json.dumps(new))
    found = rows_of(writer, schema_of(id="int", colour="string", name="string"), encoded(old, {"id": 1, "nom": "x"}))
    assert found == [{"id": 1, "colour": "red", "name": "x"}]


def test_a_field_without_a_column_is_logged_once_or_refused(caplog):
    schema = record(id="int", odd=["int", "string"])
    message = encoded(schema, {"id": 1, "odd": "x"})
    assert rows_of(AvroWriter(Schemas(schema)), schema_of(id="int"), [message] * 3) == [{"id": 1}] * 3
    assert [entry.getMessage() for entry in caplog.records] == ["field 'odd' matches no column and is ignored"]
    with pytest.raises(SerializationError, match=r"^record 0: field 'odd' is unknown: .*schema id 1"):
        rows_of(AvroWriter(Schemas(schema), unknown_fields="fail"), schema_of(id="int"), message)


def test_a_column_that_the_schema_lacks_can_be_refused():
    schema = record(id="int")
    writer = AvroWriter(Schemas(schema), missing_columns="fail")
    with pytest.raises(SerializationError, match=r"column 'name': the schema lacks the field"):
        rows_of(writer, schema_of(id="int", name="string"), encoded(schema, {"id": 1}))


def test_a_record_without_any_column_of_the_table_is_bad():
    schema = record(other="int")
    [bad] = skipped(AvroWriter(Schemas(schema), on_error="skip"), schema_of(v="int"), encoded(schema, {"other": 1}))
    assert "no field of the schema matches a column" in bad.reason


def test_a_schema_without_a_partition_key_is_refused_unless_null_is_meant():
    schema, table = record(id="int"), schema_of({"day": "string"}, id="int")
    with pytest.raises(SerializationError, match=r"column 'day': the schema lacks the partition key"):
        rows_of(AvroWriter(Schemas(schema)), table, encoded(schema, {"id": 1}))
    writer = AvroWriter(Schemas(schema), missing_partition_keys="null")
    assert rows_of(writer, table, encoded(schema, {"id": 1})) == [{"id": 1, "day": None}]


def test_a_schema_may_refer_to_others():
    address = {"type": "record", "name": "Address", "namespace": "geo", "fields": [{"name": "city", "type": "string"}]}
    person = record("Person", home="geo.Address", work=["null", "geo.Address"])
    schemas = Schemas()
    schemas.texts[1] = [json.dumps(address), json.dumps(person)]
    whole = record("Person", home=address, work=["null", "geo.Address"])
    message = encoded(whole, {"home": {"city": "A"}, "work": {"city": "B"}})
    table = schema_of(home="struct<city:string>", work="struct<city:string>")
    assert rows_of(AvroWriter(schemas), table, message) == [{"home": {"city": "A"}, "work": {"city": "B"}}]


# -- what is bad -----------------------------------------------------------------------------------------


def test_a_record_that_is_not_avro_of_a_known_schema_is_bad():
    schema = record(id="int", name="string")
    good = encoded(schema, {"id": 1, "name": "x"})
    messages = [b"", b"{}", b"\0\0\0", good, b"\1" + good[1:], good[:-1], good + b"x", good[:4] + b"\x09" + good[5:]]
    writer = AvroWriter(Schemas(schema), on_error="skip")
    (parsed,) = parse_all(writer, schema_of(id="int"), messages)
    assert parsed.batch.to_pylist() == [{"id": 1}]
    reasons = [bad.reason for bad in parsed.bad_records]
    assert all("does not begin with a byte of zero" in reason for reason in reasons[:4])
    assert reasons[4].startswith("it is not a record of its schema: EOFError")
    assert reasons[5] == "1 bytes follow after the record (schema id 1)"
    assert reasons[6] == "schema id 9 is unknown in the schema registry"


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("string", "not that of a record"),
        ({"type": "record"}, "its schema is not valid"),
        ({"type": "record", "name": "N", "fields": [{"name": "v", "type": ["null", "N"]}]}, "'N' contains itself"),
    ],
)
def test_a_schema_that_is_not_that_of_a_record_makes_its_records_bad(schema, why):
    schemas = Schemas(schema)
    found = skipped(AvroWriter(schemas, on_error="skip"), schema_of(v="string"), [b"\0\0\0\0\1\0"] * 3)
    assert len(found) == 3
    assert why in found[0].reason
    assert schemas.asked == [1]


def test_a_registry_that_cannot_be_reached_is_an_error_and_no_bad_record():
    class Unreachable(Schemas):
        def avro_schema(self, schema_id):
            raise SchemaRegistryUnavailable("no answer")

    writer = AvroWriter(Unreachable(), on_error="skip")
    with pytest.raises(SchemaRegistryUnavailable):
        parse_all(writer, schema_of(id="int"), [b"\0\0\0\0\1\0"] * 3)


def test_options_that_are_not_valid_are_refused():
    with pytest.raises(ConfigurationError, match="missing_columns='x' is not valid"):
        AvroWriter(Schemas(), missing_columns="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="reader_schema is not valid: its schema is not that of a record"):
        AvroWriter(Schemas(), reader_schema='"string"')


def test_without_fastavro_the_extra_to_install_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'hive-ingest\[avro\]'"):
        AvroWriter(Schemas())
