"""Records of any format, by a function."""

from __future__ import annotations

import datetime as dt

import pytest

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer import MappingWriter, RecordWriter
from tests.unit.record_writer.writing import parse_all, rows_of, schema_of

SCHEMA = schema_of(n="int", day="date")


def to_mapping(record):
    n, day = record.split(b";")
    return {"n": int(n), "day": dt.date.fromisoformat(day.decode()), "more": 1}


def test_it_is_a_record_writer():
    assert isinstance(MappingWriter(to_mapping), RecordWriter)


def test_a_mapping_is_one_row():
    rows = rows_of(MappingWriter(to_mapping), SCHEMA, [b"1;2024-02-29", b"2;2024-03-01"], b"3;2024-03-02")
    assert rows == [
        {"n": 1, "day": dt.date(2024, 2, 29)},
        {"n": 2, "day": dt.date(2024, 3, 1)},
        {"n": 3, "day": dt.date(2024, 3, 2)},
    ]


def test_bad_records_come_back_as_they_were_written():
    records = [b"%d;2024-02-29" % i for i in range(1000)]
    records[3], records[500], records[999] = b"x", b"99999999999;2024-02-29", b"7;"
    writer = MappingWriter(to_mapping, on_error="skip")
    (parsed,) = parse_all(writer, SCHEMA, records)
    assert [row["n"] for row in parsed.batch.to_pylist()] == [i for i in range(1000) if i not in (3, 500, 999)]
    assert [(bad.record, bad.data, bad.byte_offset) for bad in parsed.bad_records] == [
        (i, records[i], None) for i in (3, 500, 999)
    ]
    assert parsed.bad_records[0].reason.startswith("ValueError: not enough values")
    assert parsed.bad_records[1].reason.startswith("column 'n': '99999999999' is out of range")
    assert (parsed.records, parsed.skipped) == (1000, 3)
    assert parsed.unknown_fields == {"more"}
    assert parsed.matched_columns == {"n", "day"}


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (None, "record 1: a mapping is required, not a NoneType"),
        ([1], "record 1: a mapping is required, not a list"),
        ({"n": 1j}, "record 1: a mapping cannot be converted to JSON"),
        ({"n": "x"}, "record 1: column 'n': 'x' is a string"),
        ({"n": 1, "N": 2}, "record 1: column 'n': 'N' occurs a second time"),
    ],
)
def test_the_first_bad_record_is_named(result, why):
    writer = MappingWriter(lambda record: result if record == b"bad" else {"n": 1})
    with pytest.raises(SerializationError, match=f"^{why}") as caught:
        parse_all(writer, SCHEMA, [b"good", b"bad", b"good"])
    assert caught.value.record == 1


def test_an_empty_block_has_the_schema():
    (parsed,) = parse_all(MappingWriter(to_mapping, on_error="skip"), SCHEMA, [b"x"])
    assert parsed.batch.num_rows == 0
    assert parsed.batch.schema.equals(SCHEMA.arrow)
