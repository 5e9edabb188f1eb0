"""Every record writer returns the records that it skips: number, reason and what was written."""

from __future__ import annotations

import pyarrow as pa

from hive_ingest.record_writer import ArrowWriter, BadRecord, RecordListWriter, StrictDelimitedInputWriter
from hive_ingest.record_writer.json.writer import StrictJsonWriter
from tests.unit.record_writer.writing import parse_all, schema_of

SCHEMA = schema_of(n="int")


def skipped(writer, *arguments):
    found = [bad for parsed in parse_all(writer, SCHEMA, *arguments) for bad in parsed.bad_records]
    assert all(isinstance(bad, BadRecord) for bad in found)
    return found


def test_json_that_is_skipped_comes_back_as_the_bytes_of_its_line():
    lines = [b'{"n": %d}' % n for n in range(10_000)]
    lines[17], lines[9_876] = b'{"n": "x"}\r', b"\xff not json"
    found = skipped(StrictJsonWriter(on_error="skip", block_bytes=20_000), b"\n".join(lines))
    assert [(bad.record, bad.data) for bad in found] == [(17, b'{"n": "x"}'), (9_876, b"\xff not json")]
    assert [bad.byte_offset for bad in found] == [len(b"\n".join(lines[:n])) + 1 for n in (17, 9_876)]
    assert found[0].reason == "column 'n': 'x' is a string, int requires a JSON number"


def test_a_delimited_record_with_a_newline_comes_back_whole():
    found = skipped(StrictDelimitedInputWriter(on_error="skip"), [b"1", b"x\ny", b"", b"4"])
    assert [(bad.record, bad.data, bad.byte_offset) for bad in found] == [(1, b"x\ny", 2), (2, b"", 6)]


def test_a_row_of_arrow_data_comes_back_as_a_batch_of_its_own():
    numbers = pa.array([1, 2**40, 3, 2**41], pa.int64())
    found = skipped(ArrowWriter(on_error="skip"), pa.table({"N": numbers, "m": numbers}))
    assert [(bad.record, bad.data.to_pylist()) for bad in found] == [(1, [{"N": 2**40}]), (3, [{"N": 2**41}])]
    assert found[0].data.get_total_buffer_size() < 1000


def test_a_custom_record_comes_back_as_the_object():
    class Numbers(RecordListWriter):
        def to_batch(self, records):
            arrays = [pa.array([record["n"] for record in records], pa.int32())]
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)

    found = skipped(Numbers(on_error="skip"), [{"n": 1}, {"m": 2}])
    assert found == [BadRecord(1, "KeyError: 'n'", {"m": 2})]


def test_a_newline_inside_json_comes_back_as_a_carriage_return():
    (bad,) = skipped(StrictJsonWriter(on_error="skip"), [b'{"n":\n"x"}', b'{"n": 1}'])
    assert bad.data == b'{"n":\r"x"}'
