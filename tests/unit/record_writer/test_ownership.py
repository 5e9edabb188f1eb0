"""`write()` copies its arguments: reusing their memory changes no row written before.

Arrow data and the records of `RecordListWriter` were once kept by reference, and an iterable's items were looked at
512 at a time: a numpy buffer, a dict or a bytearray that the caller filled again changed rows written before.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer import ArrowWriter, RecordListWriter, StrictDelimitedInputWriter, StrictJsonWriter
from tests.unit.record_writer.writing import schema_of

NUMBERS = schema_of(n="bigint")


def rows_of(writer, schema, arguments):
    """The rows of all arguments, parsed when the last one is written. Each is written before the next is made."""
    writer.bind(schema)
    blocks = [block for argument in arguments for block in writer.write(argument)]
    return [row for block in [*blocks, *writer.drain()] for row in writer.parse(block).batch.to_pylist()]


def reused(make, change, times=3):
    """Arguments of `write()`, one after another. The memory of one is changed when the next is requested."""
    for turn in range(times):
        change(turn)
        yield make()
    change(-1)


class Buffers:
    """One numpy buffer under Arrow data of each form."""

    def __init__(self):
        self.memory = np.zeros(4, np.int64)

    def fill(self, turn):
        self.memory[:] = turn

    def batch(self):
        return pa.record_batch({"n": pa.array(self.memory)})

    def read_only(self):
        view = self.memory.view()
        view.flags.writeable = False
        return pa.record_batch({"n": pa.Array.from_buffers(pa.int64(), 4, [None, pa.py_buffer(view)])})

    def frame(self):
        return pd.DataFrame({"n": self.memory}, copy=False)


@pytest.mark.parametrize(
    "form",
    [
        Buffers.batch,
        Buffers.read_only,
        Buffers.frame,
        lambda buffers: pa.table(buffers.batch()),
        lambda buffers: pa.table(buffers.batch()).to_reader(),
        lambda buffers: buffers.batch().slice(1, 2),
        lambda buffers: [buffers.batch(), buffers.batch()],
    ],
    ids=["batch", "read-only view", "pandas", "table", "reader", "slice", "list"],
)
def test_arrow_data_over_a_buffer_that_is_used_again_keeps_its_rows(form):
    buffers = Buffers()
    rows = rows_of(ArrowWriter(), NUMBERS, reused(lambda: form(buffers), buffers.fill))
    assert [row["n"] for row in rows] == sorted(row["n"] for row in rows)
    assert {row["n"] for row in rows} == {0, 1, 2}


def test_a_generator_may_yield_the_same_arrow_buffer_filled_again():
    buffers = Buffers()
    rows = rows_of(ArrowWriter(), NUMBERS, [reused(buffers.batch, buffers.fill)])
    assert [row["n"] for row in rows] == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize("block_bytes", [16, 1 << 20])
def test_a_memory_mapped_file_may_be_written_again(tmp_path, block_bytes):
    path = str(tmp_path / "data.arrow")
    batch = pa.record_batch({"n": pa.array(range(100), pa.int64())})
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, batch.schema) as out:
        out.write_batch(batch)

    def arguments():
        with pa.memory_map(path) as mapped:
            yield pa.ipc.open_file(mapped).read_all()
        (tmp_path / "data.arrow").write_bytes(bytes((tmp_path / "data.arrow").stat().st_size))

    rows = rows_of(ArrowWriter(block_bytes=block_bytes), NUMBERS, arguments())
    assert [row["n"] for row in rows] == list(range(100))


def _addresses(array):
    found = [(buffer.address, buffer.address + buffer.size) for buffer in array.buffers() if buffer is not None]
    return found + (_addresses(array.dictionary) if pa.types.is_dictionary(array.type) else [])


LONG = [f"a text that is too long to stand in a view itself, number {i}" for i in range(60)]


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("string", pa.array(LONG)),
        ("string", pa.array(LONG, pa.large_string())),
        ("string", pa.array(LONG, pa.string_view())),
        ("binary", pa.array([text.encode() for text in LONG], pa.binary_view())),
        ("string", pa.array(LONG).dictionary_encode()),
        ("string", pa.DictionaryArray.from_arrays(pa.array([0, 1] * 30), pa.array(LONG[:2], pa.string_view()))),
        ("string", pc.run_end_encode(pa.array(["a", "a", "b"] * 20))),
        ("array<string>", pa.array([LONG[i : i + 2] for i in range(58)], pa.list_view(pa.string_view()))),
        ("array<string>", pa.array([["a"], None, ["b", "a"]] * 20).cast(pa.list_(pa.dictionary("int32", "string")))),
        ("struct<a:string>", pa.array([{"a": text} for text in LONG], pa.struct([("a", pa.string_view())]))),
        ("map<string,int>", pa.array([[("a", 1)], None] * 30, pa.map_(pa.string(), pa.int32()))),
        ("boolean", pa.array([True, None, False] * 20)),
        ("binary", pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 60, pa.binary(16)))),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_no_kind_of_array_shares_memory_with_the_callers(type_, array):
    schema = schema_of(v=type_)
    source = array.slice(3, 50)
    writer = ArrowWriter()
    writer.bind(schema)
    assert list(writer.write(pa.table({"v": source}))) == []
    (block,) = writer.drain()
    theirs, ours = _addresses(source), _addresses(block.batches[0]["v"])
    assert not [a for a in ours if any(a[0] < b[1] and b[0] < a[1] for b in theirs)]
    values = source.storage if isinstance(source, pa.ExtensionArray) else source
    assert writer.parse(block).batch["v"].to_pylist() == values.to_pylist()


def test_small_slices_of_views_and_dictionaries_keep_only_their_own_values():
    texts = [f"{i:0100}" for i in range(10_000)]
    for array in (pa.array(texts, pa.string_view()), pa.array(texts).dictionary_encode()):
        writer = ArrowWriter()
        writer.bind(schema_of(v="string"))
        for batch in pa.table({"v": array}).to_batches(max_chunksize=10)[:50]:
            assert list(writer.write(batch)) == []
        (block,) = writer.drain()
        assert block.nbytes < 100_000


def test_slices_of_a_large_array_of_views_make_blocks_of_the_usual_size():
    texts = pa.array([f"{i:0100}" for i in range(10_000)], pa.string_view())
    writer = ArrowWriter(block_bytes=50_000)
    writer.bind(schema_of(v="string"))
    blocks = [block for batch in pa.table({"v": texts}).to_batches(max_chunksize=100) for block in writer.write(batch)]
    assert all(20_000 < block.nbytes < 100_000 for block in blocks)


def test_columns_that_the_table_lacks_are_not_kept():
    writer = ArrowWriter(missing_columns="null")
    writer.bind(NUMBERS)
    list(writer.write(pa.table({"wide": ["x" * 1000] * 100, "n": range(100)})))
    (block,) = writer.drain()
    assert block.nbytes < 2000
    assert writer.parse(block).batch["n"].to_pylist() == list(range(100))


def test_arrow_data_that_is_not_valid_is_refused_with_its_record():
    offsets = np.array([0, 1], np.int32)
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(b"1")])
    batch = pa.record_batch({"n": broken})
    offsets[1] = 1 << 30
    with pytest.raises(SerializationError, match="record 2: the Arrow data is not valid") as caught:
        rows_of(ArrowWriter(), schema_of(n="string"), [pa.table({"n": ["a", "b"]}), batch])
    assert caught.value.record == 2


# -- text and Python's values ----------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda memory: memory, memoryview, lambda memory: [memory, memory]])
def test_text_in_a_buffer_that_is_filled_again_keeps_its_records(wrap):
    memory = bytearray(2)

    def fill(turn):
        memory[:] = b"%02d" % max(turn, 0)

    rows = rows_of(StrictDelimitedInputWriter(), schema_of(v="string"), reused(lambda: wrap(memory), fill))
    assert sorted({row["v"] for row in rows}) == ["00", "01", "02"]
    rows = rows_of(StrictDelimitedInputWriter(), schema_of(v="string"), [reused(lambda: memory, fill)])
    assert [row["v"] for row in rows] == ["00", "01", "02"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_mapping_that_is_filled_again_keeps_its_records(at_once):
    record = {"n": 0}
    turns = reused(lambda: record, lambda turn: record.update(n=turn))
    arguments = [turns] if at_once else turns
    assert rows_of(StrictJsonWriter(), NUMBERS, arguments) == [{"n": 0}, {"n": 1}, {"n": 2}]


class Values(RecordListWriter):
    def to_batch(self, records):
        return pa.RecordBatch.from_arrays([pa.array([int(r[0]) for r in records])], schema=self.schema.arrow)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    "record", [[0], bytearray(b"0"), {0: 0}, ([0],), np.zeros(1, np.int64)], ids=lambda record: type(record).__name__
)
def test_a_record_list_writer_keeps_records_as_they_were(record, at_once):
    class Digits(Values):
        def to_batch(self, records):
            values = [r[0][0] if isinstance(r, tuple) else r[0] for r in records]
            values = [v - ord("0") if v >= ord("0") else v for v in values]
            return pa.RecordBatch.from_arrays([pa.array(values)], schema=self.schema.arrow)

    def change(turn):
        target = record[0] if isinstance(record, tuple) else record
        target[0] = (ord("0") if isinstance(record, bytearray) else 0) + max(turn, 0)

    turns = reused(lambda: record, change)
    if not at_once:
        turns = ([turn] for turn in turns)
    arguments = [turns] if at_once else turns
    assert rows_of(Digits(), NUMBERS, arguments) == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_memoryview_given_to_a_record_list_writer_becomes_bytes():
    memory = bytearray(b"1")

    def change(turn):
        memory[:] = b"%d" % max(turn, 0)

    class Digits(Values):
        def to_batch(self, records):
            assert all(type(record) is bytes for record in records)
            return super().to_batch([[record] for record in records])

    assert [row["n"] for row in rows_of(Digits(), NUMBERS, reused(lambda: memoryview(memory), change))] == [0, 1, 2]


def test_a_record_that_cannot_be_copied_is_refused_with_a_remedy():
    with pytest.raises(SerializationError, match=r"record 1 .*generator.* cannot be copied: .*copy_records=False"):
        rows_of(Values(), NUMBERS, [[[1], (n for n in [1])]])


def test_records_that_never_change_need_no_copy():
    record = [0]
    turns = reused(lambda: record, lambda turn: record.__setitem__(0, turn))
    assert rows_of(Values(copy_records=False), NUMBERS, [turns]) == [{"n": -1}] * 3
