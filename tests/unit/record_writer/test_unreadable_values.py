"""A value that cannot be read is not committed: it makes its record bad, wherever it is nested.

Arrow does not look at values when arrays are made from buffers or come from another library. Text that is not UTF-8,
decimals of too many digits and dates with a time of day were once passed on, and every read of the table failed later.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer import ArrowWriter, RecordListWriter
from tests.unit.record_writer.writing import parse_all, schema_of

GOOD, BAD = "gut", b"schl\xe4cht"


def texts(type_=None):
    """One row of UTF-8, then one of Latin-1, unless `type_` is a binary one."""
    data = GOOD.encode() + BAD
    offsets = np.array([0, len(GOOD), len(data)], np.int32)
    array = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return array if type_ is None else array.cast(type_)


def decimals():
    """decimal128(5,2): 1.00, then a number of eight digits."""
    return pa.Array.from_buffers(
        pa.decimal128(5, 2), 2, [None, pa.py_buffer(b"".join(n.to_bytes(16, "little") for n in (100, 12345678)))]
    )


def days():
    """date64: a whole day, then a day and a half."""
    return pa.Array.from_buffers(pa.date64(), 2, [None, pa.py_buffer(np.array([0, 129_600_000]))])


def dates():
    return pa.array([0, 5_000_000], pa.int32()).cast(pa.date32())


def old_fractions():
    return pa.array([0, -1], pa.timestamp("ns"))


def listed(array):
    return pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), array)


def keyed(array):
    return pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), array, pa.array([1, 2], pa.int32()))


def valued(array):
    return pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "b"]), array)


def inside(array):
    return pa.StructArray.from_arrays([array], names=["f"])


CASES = [
    ("string", texts()),
    ("string", texts(pa.large_string())),
    ("string", texts(pa.string_view())),
    ("char(9)", texts()),
    ("varchar(9)", texts()),
    ("string", pa.DictionaryArray.from_arrays(pa.array([0, 1]), texts())),
    ("string", pc.run_end_encode(texts())),
    ("array<string>", listed(texts())),
    ("map<string,int>", keyed(texts())),
    ("map<string,string>", valued(texts())),
    ("struct<f:string>", inside(texts())),
    ("array<struct<f:map<string,array<string>>>>", listed(inside(valued(listed(texts()))))),
    ("decimal(5,2)", decimals()),
    ("decimal(6,3)", decimals()),
    ("array<decimal(5,2)>", listed(decimals())),
    ("date", days()),
    ("array<date>", listed(dates())),
    ("map<date,int>", keyed(dates())),
    ("struct<f:date>", inside(dates())),
    ("array<timestamp>", listed(old_fractions())),
    ("map<string,timestamp>", valued(old_fractions())),
    ("struct<f:timestamp>", inside(old_fractions())),
]


@pytest.mark.parametrize(("type_", "array"), CASES, ids=[f"{type_} of {array.type}" for type_, array in CASES])
@pytest.mark.parametrize("is_partition_key", [False, True])
def test_arrow_data_with_a_value_that_cannot_be_read_makes_its_record_bad(type_, array, is_partition_key):
    schema = schema_of({"v": type_}, n="int") if is_partition_key else schema_of(v=type_)
    data = pa.table({"n": pa.array([1, 2], pa.int32()), "v": array})
    with pytest.raises(SerializationError, match=r"^record 1: column 'v") as caught:
        parse_all(ArrowWriter(), schema, data)
    assert caught.value.record == 1
    (parsed,) = parse_all(ArrowWriter(on_error="skip"), schema, data)
    assert (parsed.skipped, parsed.batch.num_rows) == (1, 1)
    parsed.batch.validate(full=True)
    (parsed,) = parse_all(ArrowWriter(), schema, data.slice(0, 1))
    assert parsed.batch.num_rows == 1


def test_a_text_that_ends_outside_of_its_data_is_an_error():
    """Without the rows around it, Arrow noticed it in another call, whose error nobody expected."""
    offsets = np.array([0, 50, *[10] * 59], np.int32)
    broken = pa.Array.from_buffers(pa.string(), 60, [None, pa.py_buffer(offsets), pa.py_buffer(b"a" * 20)])
    data = pa.table({"n": pa.array(range(60), pa.int32()), "v": broken})
    with pytest.raises(SerializationError, match=r"^record 0: .*Arrow"):
        parse_all(ArrowWriter(), schema_of(n="int", v="string"), data)


@pytest.mark.parametrize(
    "values",
    [[], [None], [""], ["", ""], ["a"], ["a", None, "é"], ["é"], ["\x00", "\x7f"], ["\x80"], ["𝄞", "", "a"]],
)
def test_all_text_that_is_utf8_is_accepted_in_any_slice(values):
    array = pa.array(["ä", *values, "ö"], pa.string()).slice(1, len(values))
    parsed = parse_all(ArrowWriter(), schema_of(v="string"), pa.table({"v": array}))
    assert [value for block in parsed for value in block.batch["v"].to_pylist()] == values


def test_bytes_that_are_not_text_are_kept_in_a_binary_column():
    (parsed,) = parse_all(ArrowWriter(), schema_of(v="binary"), pa.table({"v": texts().cast(pa.binary())}))
    assert parsed.batch["v"].to_pylist() == [GOOD.encode(), BAD]


def test_values_under_a_null_are_not_checked():
    for array in (texts(), decimals(), days(), dates(), old_fractions()):
        hidden = pa.Array.from_buffers(array.type, 2, [pa.py_buffer(b"\x01"), *array.buffers()[1:]])
        hive = {"string": "string", "decimal128(5, 2)": "decimal(5,2)", "timestamp[ns]": "timestamp"}
        type_ = hive.get(str(array.type), "date")
        (parsed,) = parse_all(ArrowWriter(), schema_of(v=type_), pa.table({"v": hidden}))
        assert parsed.batch["v"].null_count == 1


class Batches(RecordListWriter):
    """Each record is an array of one row."""

    def to_batch(self, records):
        return pa.RecordBatch.from_arrays([pa.concat_arrays(records)], schema=self.schema.arrow)


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("string", texts()),
        ("array<string>", listed(texts())),
        ("decimal(5,2)", decimals()),
        ("date", dates()),
        ("array<timestamp>", listed(old_fractions())),
    ],
)
def test_a_custom_writer_cannot_return_a_value_that_cannot_be_read(type_, array):
    records = [array.slice(i, 1) for i in (0, 0, 0, 1, 0)]
    with pytest.raises(SerializationError, match=r"^record 3: .*column 'v'") as caught:
        parse_all(Batches(copy_records=False), schema_of(v=type_), records)
    assert caught.value.record == 3


# -- offsets that point elsewhere ----------------------------------------------------------------------

#: The second value would begin at byte or element 50 of 60, and end at 10.
BACKWARDS = pa.py_buffer(np.array([0, 50, *[10] * 59], np.int32))
ELEMENTS = pa.array(range(60), pa.int32())
KEY, VALUE = pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int32())
PAIRS = pa.StructArray.from_arrays([pa.array(map(str, range(60))), ELEMENTS], fields=[KEY, VALUE])
#: Each has 100 bytes, in a buffer that is not there.
FAR_VIEWS = pa.py_buffer(np.tile(np.array([100, 0, 7, 0], np.int32), 60))


def _array(type_, *buffers, children=None):
    return pa.Array.from_buffers(type_, 60, [None, *buffers], children=children)


BROKEN = {
    "binary": _array(pa.binary(), BACKWARDS, pa.py_buffer(b"a" * 60)),
    "array<int>": _array(pa.list_(pa.int32()), BACKWARDS, children=[ELEMENTS]),
    "map<string,int>": _array(pa.map_(pa.string(), pa.int32()), BACKWARDS, children=[PAIRS]),
    "string": _array(pa.string_view(), FAR_VIEWS),
    "array<bigint>": _array(
        pa.list_view(pa.int64()),
        pa.py_buffer(np.full(60, 1000, np.int32)),
        pa.py_buffer(np.full(60, 5, np.int32)),
        children=[ELEMENTS.cast(pa.int64())],
    ),
}


@pytest.mark.parametrize("hive", BROKEN)
@pytest.mark.parametrize("is_nested", [False, True])
def test_offsets_that_point_elsewhere_are_an_error_and_do_not_end_the_process(hive, is_nested):
    """Arrow followed them, and the process ended with SIGSEGV or SIGABRT."""
    array = BROKEN[hive]
    if is_nested:
        array, hive = pa.StructArray.from_arrays([array], ["x"]), f"struct<x:{hive}>"
    with pytest.raises(SerializationError, match="the Arrow data is not valid"):
        parse_all(ArrowWriter(), schema_of(v=hive), pa.RecordBatch.from_arrays([array], ["v"]))


TEXT = _array(pa.string(), BACKWARDS, pa.py_buffer(b"a" * 60))
LARGE_TEXT = _array(pa.large_string(), pa.py_buffer(np.array([0, 2**40, *[10] * 59])), pa.py_buffer(b"a" * 60))


@pytest.mark.parametrize("hive", ["string", "char(5)", "varchar(5)"])
@pytest.mark.parametrize("array", [TEXT, LARGE_TEXT], ids=["small", "large"])
def test_offsets_of_text_that_point_elsewhere_are_an_error_of_any_text_column(hive, array):
    """Arrow counted the characters of a char or varchar, and the process ended with SIGSEGV."""
    with pytest.raises(SerializationError, match="the Arrow data is not valid"):
        parse_all(ArrowWriter(), schema_of(v=hive), pa.table({"v": array}))


def _dictionary(values, *indices):
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), values, safe=False)


DICTIONARIES = {
    "offsets": ("string", _dictionary(TEXT, 0, 1)),
    "offsets of large text": ("string", _dictionary(LARGE_TEXT, 0, 1)),
    "offsets in lists": ("array<string>", _dictionary(pa.ListArray.from_arrays([0, 30, 60], TEXT), 0, 1)),
    "offsets in structs": ("struct<x:string>", _dictionary(pa.StructArray.from_arrays([TEXT], ["x"]), 0, 1)),
    "index above": ("string", _dictionary(pa.array(["a", "b"]), 0, 10**8)),
    "index below": ("int", _dictionary(pa.array([1, 2], pa.int32()), 0, -(10**8))),
}


@pytest.mark.parametrize("what", DICTIONARIES)
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_dictionary_that_points_elsewhere_is_an_error_and_does_not_end_the_process(what, is_nested):
    """Arrow copied its values, and the process ended with SIGSEGV."""
    hive, array = DICTIONARIES[what]
    if is_nested:
        array, hive = listed(array), f"array<{hive}>"
    with pytest.raises(SerializationError, match="the Arrow data is not valid"):
        parse_all(ArrowWriter(), schema_of(v=hive), pa.RecordBatch.from_arrays([array], ["v"]))
