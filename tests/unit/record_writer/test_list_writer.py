"""A custom writer needs one method."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hive_ingest.errors import ConfigurationError, InvalidTransactionState, SerializationError, UnsupportedFeature
from hive_ingest.record_writer import RecordWriter
from hive_ingest.record_writer.list_writer import RecordListWriter
from tests.unit.record_writer.writing import blocks_of, parse_all, rows_of, schema_of

SCHEMA = schema_of(n="int")


class Numbers(RecordListWriter):
    def to_batch(self, records):
        return pa.RecordBatch.from_arrays([pa.array([int(r) for r in records], pa.int32())], schema=self.schema.arrow)


def test_it_is_a_record_writer():
    assert isinstance(Numbers(), RecordWriter)


@pytest.mark.parametrize("argument", [["1", b"2", 3], iter([1, "2", 3]), (1, 2, 3)])
def test_each_item_of_an_iterable_is_a_record(argument):
    assert rows_of(Numbers(), SCHEMA, argument, "4", 5) == [{"n": n} for n in (1, 2, 3, 4, 5)]


def test_blocks_end_at_records_and_are_numbered():
    writer = Numbers(block_records=2)
    blocks = blocks_of(writer, [1, 2, 3], 4, 5)
    assert [(block.first_record, block.records) for block in blocks] == [(0, [1, 2]), (2, [3, 4]), (4, [5])]
    assert all(block.nbytes > 0 for block in blocks)
    writer.discard()
    assert blocks_of(writer, 1)[0].first_record == 0


def test_the_failed_record_is_named():
    with pytest.raises(SerializationError, match=r"^record 3: ValueError: .*'x'") as caught:
        parse_all(Numbers(block_records=2), SCHEMA, [0, 1, 2, "x", "y"])
    assert caught.value.record == 3


def test_bad_records_are_skipped_and_counted_when_asked_for(caplog):
    (parsed,) = parse_all(Numbers(on_error="skip"), SCHEMA, [0, "x", 2, 3, "y"])
    assert parsed.batch.to_pylist() == [{"n": 0}, {"n": 2}, {"n": 3}]
    assert (parsed.records, parsed.skipped) == (5, 2)
    assert [r.getMessage().split(":")[0] for r in caplog.records] == ["skipped record 1", "skipped record 4"]
    (parsed,) = parse_all(Numbers(on_error="skip"), SCHEMA, "x")
    assert (parsed.batch.num_rows, parsed.skipped) == (0, 1)
    assert parsed.batch.schema.equals(SCHEMA.arrow)


def test_a_batch_without_exactly_one_row_per_record_is_refused():
    class Dropping(Numbers):
        def to_batch(self, records):
            return super().to_batch(records[1:])

    with pytest.raises(SerializationError, match=r"Dropping\.to_batch returned 1 rows for 2 records"):
        parse_all(Dropping(), SCHEMA, [1, 2])


def test_errors_of_the_package_pass_as_they_are():
    class Refusing(Numbers):
        def to_batch(self, records):
            raise UnsupportedFeature("no")

    with pytest.raises(UnsupportedFeature, match=r"^no$"):
        parse_all(Refusing(), SCHEMA, [1])


def test_misuse_is_refused():
    with pytest.raises(ConfigurationError, match="block_records=0"):
        Numbers(block_records=0)
    with pytest.raises(InvalidTransactionState, match="no schema yet"):
        Numbers().parse(blocks_of(Numbers(), 1)[0])
