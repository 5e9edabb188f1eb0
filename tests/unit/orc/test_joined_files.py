"""Small files that are read together give what they give one by one: rows, types, and nothing if they do not fit."""

from __future__ import annotations

import datetime as dt
import decimal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hive_ingest.acid.bucket_codec import encode_bucket
from hive_ingest.model import WriteId
from hive_ingest.orc.format.columns import OrcKind, column_types
from hive_ingest.orc.format.tail import read_tail
from hive_ingest.orc.reader.acid_reader import AcidFileReader, FileToRead
from hive_ingest.orc.reader.joined_files import JOINED_ROWS, FileGroup, JoinedFiles, grouped, shares
from hive_ingest.orc.reader.joined_stripes import joinable_files
from hive_ingest.orc.writer.acid_writer import AcidOrcWriter
from hive_ingest.storage import LocalStore
from tests.support.hive_tables import unpack_all

STORE = LocalStore()


def write(path: Path, batch: pa.RecordBatch, write_id: int = 1, **options: Any) -> FileToRead:
    with AcidOrcWriter(
        STORE,
        str(path),
        schema=batch.schema,
        write_id=WriteId(write_id),
        bucket_property=encode_bucket(0),
        sync=False,
        **options,
    ) as writer:
        writer.write(batch)
        writer.close()
    return FileToRead(str(path), None, False, path.stat().st_size)


def groups_of(files: Sequence[FileToRead]) -> list[FileGroup]:
    return list(grouped([AcidFileReader(STORE, file) for file in files]))


def rows_of(reader: Any, acid: Sequence[str] = (), row: Sequence[str] | None = None) -> pa.Table:
    stripes = range(reader.num_stripes)
    found = [reader.read_all(i) if row is None else reader.read(i, acid, row) for i in stripes]
    return pa.Table.from_batches([rows.batch for rows in found])


def one_by_one(group: FileGroup, *columns: Any) -> pa.Table:
    return pa.concat_tables([rows_of(reader, *columns) for reader in group.readers])


def same(first: pa.Table, second: pa.Table) -> bool:
    """Also of types, and of nulls; not of the metadata, which a joined file does not have."""
    return bool(
        first.replace_schema_metadata().combine_chunks().equals(second.replace_schema_metadata().combine_chunks())
    )


# -- any files -------------------------------------------------------------------------------------

_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.one_of(st.integers(0, 9), st.integers(-(2**63), 2**63 - 1)),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=12),
    pa.binary(): st.binary(max_size=12),
    pa.decimal128(20, 3): st.decimals(min_value=-(10**15), max_value=10**15, places=3, allow_nan=False).map(
        lambda value: decimal.Decimal(value).quantize(decimal.Decimal("0.001"))
    ),
    pa.date32(): st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    pa.timestamp("ns"): st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2200, 1, 1)),
}


def _type_and_values(depth: int) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    simple = st.sampled_from(list(_VALUES.items()))
    if depth == 0:
        return simple
    inner = _type_and_values(depth - 1)
    return st.one_of(
        simple,
        simple,
        st.lists(inner, min_size=1, max_size=3).map(_struct),
        inner.map(lambda item: (pa.list_(item[0]), st.lists(_or_null(item[1]), max_size=3))),
        inner.map(
            lambda item: (
                pa.map_(pa.string(), item[0]),
                st.dictionaries(st.text(max_size=3), item[1], max_size=3).map(lambda found: list(found.items())),
            )
        ),
    )


def _struct(
    children: list[tuple[pa.DataType, st.SearchStrategy[Any]]],
) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    names = [f"f{i}" for i in range(len(children))]
    values = {name: _or_null(value) for name, (_, value) in zip(names, children, strict=True)}
    types = [(name, type_) for name, (type_, _) in zip(names, children, strict=True)]
    return pa.struct(types), st.fixed_dictionaries(values)


def _or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(values, values, st.none())


@st.composite
def _files(draw: st.DrawFn) -> tuple[list[pa.RecordBatch], list[dict[str, Any]]]:
    columns = draw(st.lists(_type_and_values(2), min_size=1, max_size=4))
    schema = pa.schema([(f"c{i}", type_) for i, (type_, _) in enumerate(columns)])
    batches = []
    for _ in range(draw(st.integers(2, 6))):
        count, repeats = draw(st.integers(0, 20)), draw(st.sampled_from([1, 1, 7, 100]))
        arrays = []
        for type_, values in columns:
            nullable = draw(st.sampled_from([values, _or_null(values), st.none()]))
            found = draw(st.lists(nullable, min_size=count, max_size=count)) * repeats
            arrays.append(pa.array(found, type_))
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    compression = draw(st.sampled_from(["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"]))
    options = {"compression": compression, "stripe_size_bytes": draw(st.sampled_from([2000, 1 << 26]))}
    return batches, [options] * len(batches)


@settings(max_examples=250, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(files=_files(), data=st.data())
def test_files_give_the_same_rows_together_as_one_by_one(
    files: tuple[list[pa.RecordBatch], list[dict[str, Any]]], data: st.DataObject
) -> None:
    names = files[0][0].schema.names
    some = data.draw(st.lists(st.sampled_from(names), unique=True))
    with tempfile.TemporaryDirectory() as folder:
        written = [
            write(Path(folder) / f"{i}", batch, i + 1, **options)
            for i, (batch, options) in enumerate(zip(*files, strict=True))
        ]
        groups = groups_of(written)
        assert [reader.path for group in groups for reader in group.readers] == [file.path for file in written]
        for group in groups:
            if group.joined is None:
                assert len(group.readers) == 1
                continue
            assert same(rows_of(group.joined), one_by_one(group))
            columns = (["rowId"], some)
            assert same(rows_of(group.joined, *columns), one_by_one(group, *columns))
            assert group.joined.row_type == group.readers[0].row_type


# -- what is joined --------------------------------------------------------------------------------


def numbers(count: int, **columns: Any) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(count), pa.int64()), **columns})


@pytest.mark.parametrize("compression", ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"])
def test_files_of_one_writer_are_joined_whatever_is_null(tmp_path: Path, compression: str) -> None:
    type_ = pa.struct([("b", pa.bool_()), ("s", pa.struct([("t", pa.string())]))])
    files = []
    for i in range(20):
        structs = [None if i % 3 and k % 5 == 0 else {"b": k % 2 == 0 or None, "s": {"t": "x"}} for k in range(i + 1)]
        flags = [None if i % 2 and k % 4 == 0 else k % 3 == 0 for k in range(i + 1)]
        batch = numbers(i + 1, s=pa.array(structs, type_), f=pa.array(flags, pa.bool_()))
        files.append(write(tmp_path / f"{i}", batch, compression=compression))
    (group,) = groups_of(files)
    assert group.joined is not None
    assert group.joined.num_stripes == 1
    assert same(rows_of(group.joined), one_by_one(group))


def test_the_smallest_and_largest_dates_and_timestamps_are_known(tmp_path: Path) -> None:
    days = [[dt.date(2020, 1, 2)], [None], [dt.date(1500, 1, 1), dt.date(2021, 1, 1)]]
    times = [[dt.datetime(2020, 1, 2)], [dt.datetime(1999, 1, 1)], [None, None]]
    files = [
        write(tmp_path / f"{i}", pa.record_batch({"d": pa.array(d, pa.date32()), "t": pa.array(t, pa.timestamp("ns"))}))
        for i, (d, t) in enumerate(zip(days, times, strict=True))
    ]
    (group,) = groups_of(files)
    assert group.joined is not None
    day, time = group.joined.row.children
    assert day.extremes(OrcKind.DATE) == (-171_664, 18_628)
    found = time.extremes(OrcKind.TIMESTAMP)
    assert found is not None
    assert (found[0] // 10**9, found[1] // 10**9) == (915_148_800, 1_577_923_200)


def test_files_that_differ_are_not_joined(tmp_path: Path) -> None:
    other = pa.record_batch({"n": pa.array([1], pa.int32())})
    named = pa.record_batch({"m": pa.array([1], pa.int64())})
    files = [
        write(tmp_path / "a", numbers(3)),
        write(tmp_path / "b", numbers(3)),
        write(tmp_path / "c", other),
        write(tmp_path / "d", named),
        write(tmp_path / "e", numbers(3), compression="ZLIB"),
        write(tmp_path / "f", numbers(3), compression="ZLIB"),
        write(tmp_path / "g", numbers(3)),
    ]
    assert [[Path(reader.path).name for reader in group.readers] for group in groups_of(files)] == [
        ["a", "b"],
        ["c"],
        ["d"],
        ["e", "f"],
        ["g"],
    ]


def test_nulls_below_lists_keep_files_apart(tmp_path: Path) -> None:
    """The number of their values is not known without decoding."""
    type_ = pa.list_(pa.int32())
    files = [
        write(tmp_path / f"{i}", numbers(2, a=pa.array([[1, 2], [last]], type_))) for i, last in enumerate([3, 4, None])
    ]
    assert [len(group.readers) for group in groups_of(files)] == [2, 1]


def test_files_without_checksums_are_not_joined(tmp_path: Path) -> None:
    """Nobody knows that their streams hold as many values as they should."""
    ours = [write(tmp_path / f"{i}", numbers(3)) for i in range(2)]
    plain = []
    for i, file in enumerate(ours):
        path = tmp_path / f"plain_{i}"
        orc.write_table(orc.read_table(file.path), path, compression="zstd")
        plain.append(FileToRead(str(path), None, False, path.stat().st_size))
    assert [group.joined for group in groups_of(plain)] == [None, None]
    unverified = [AcidFileReader(STORE, file, verify_checksums=False) for file in ours]
    assert [group.joined for group in grouped(unverified)] == [None, None]


def test_a_group_has_a_limited_number_of_rows(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{i}", numbers(50_000)) for i in range(5)]
    groups = groups_of(files)
    assert [len(group.readers) for group in groups] == [2, 2, 1]
    assert all(sum(reader.tail.footer.rows for reader in group.readers) <= JOINED_ROWS for group in groups)


def test_a_group_has_a_limited_size_in_memory_however_small_its_files_are(tmp_path: Path) -> None:
    batches = [pa.record_batch({"i": pa.array([i], pa.int32()), "s": ["x" * (20 << 20)]}) for i in range(7)]
    files = [write(tmp_path / f"{i}.orc", batch) for i, batch in enumerate(batches)]
    assert all(file.is_small for file in files)
    assert [len(group.readers) for group in groups_of(files)] == [3, 3, 1]


def test_the_first_shares_are_small_and_large_files_stand_alone() -> None:
    def sizes(*files: int) -> list[list[int]]:
        found = shares([FileToRead(f"{i}", None, False, size) for i, size in enumerate(files)])
        return [[file.size_bytes for file in share] for share in found]

    assert [len(share) for share in sizes(*[10] * 300)] == [1, 8, 64, 128, 99]
    large = 1 << 21
    assert sizes(10, 10, large, 10, 20, large) == [[10], [10], [large], [10, 20], [large]]
    assert sizes(large, 10) == [[large], [10]]
    assert sizes() == []
    assert [len(share) for share in sizes(*[1 << 20] * 6)] == [1, 2, 2, 1]


def test_streams_of_hives_writer_can_be_joined(tmp_path: Path) -> None:
    """Its files have no checksums, so no reader joins them; but streams are joined as the format says."""
    kinds: set[int] = set()
    for path in sorted(unpack_all(tmp_path).rglob("bucket_0????*")):
        if path.name.endswith("_flush_length") or "streamed" in str(path):
            continue
        data = pa.py_buffer(path.read_bytes())
        tail = read_tail(pa.BufferReader(data), str(path))
        (found,) = joinable_files([(data, tail)])
        if found is None:
            continue
        try:
            table = orc.ORCFile(pa.BufferReader(data)).read()
        except pa.ArrowInvalid:  # timestamps that Arrow cannot hold
            continue
        kinds |= {type_.kind for type_ in column_types(tail.footer.types)}
        assert same(rows_of(JoinedFiles([found, found, found], str(path))), pa.concat_tables([table] * 3))
    assert kinds >= {OrcKind.BOOLEAN, OrcKind.STRING, OrcKind.TIMESTAMP, OrcKind.DATE, OrcKind.LIST, OrcKind.MAP}
