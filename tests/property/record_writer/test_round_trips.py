"""Rows of any types come back from a table as they were written, through each record writer."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import AvroWriter, MappingWriter, RecordWriter
from hive_ingest.schema import HiveType
from tests.property.record_writer.hive_rows import (
    NULL,
    as_avro,
    as_delimited,
    as_json,
    as_mapping_value,
    as_python,
    as_read,
    avro_type,
    has_avro_type,
    primitive_text,
    types,
    values,
)
from tests.property.record_writer.parsing_support import comparable, plain_rows
from tests.support.metastores import connect_in
from tests.unit.record_writer.avro import Schemas, encoded

Row = tuple[Any, ...]
#: So many rows are parsed as a block, and fewer one by one.
COPIES = 40
_numbers = itertools.count()
_quickly = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(scope="module")
def ms() -> Iterator[MetastoreClient]:
    with tempfile.TemporaryDirectory() as folder, connect_in(Path(folder)) as client:
        client.create_database("web")
        yield client


@st.composite
def tables(draw: st.DrawFn, *, nested: bool = True, finite: bool = False) -> tuple[list[HiveType], list[Row]]:
    """Columns, and rows of them."""
    columns = draw(st.lists(types(nested=nested), min_size=1, max_size=4))
    row = st.tuples(*(values(type_, finite=finite) for type_ in columns))
    return columns, draw(st.lists(row, min_size=1, max_size=4))


def check(
    client: MetastoreClient, writer: RecordWriter, columns: list[HiveType], rows: list[Row], written: list[Any]
) -> None:
    """Write records, and a block of copies of them; every value comes back, in order."""
    table = f"web.t{next(_numbers)}"
    client.create_table(table, columns={f"c{place}": str(type_) for place, type_ in enumerate(columns)})
    wanted = [tuple(map(as_read, columns, row)) for row in rows]
    try:
        options: Any = {"table": table, "record_writer": writer, "settings": {"fsync": False}}
        with hi.StreamingConnection.connect(client, **options) as connection:
            for each in (written, written * COPIES):
                with connection.transaction():
                    connection.write(each)
        [found] = hi.read_table(client, table).combine_chunks().to_batches()
        assert plain_rows(found) == comparable(wanted * (COPIES + 1))
    finally:
        client.drop_table(table)


@_quickly
@given(case=tables(finite=True))
def test_rows_come_back_from_json(ms: MetastoreClient, case: tuple[list[HiveType], list[Row]]) -> None:
    columns, rows = case
    names = [f"c{place}" for place in range(len(columns))]
    written = [
        "{" + ",".join(f'"{name}":{as_json(*each)}' for name, *each in zip(names, columns, row, strict=True)) + "}"
        for row in rows
    ]
    check(ms, hi.StrictJsonWriter(), columns, rows, written)


@_quickly
@given(case=tables())
def test_rows_come_back_from_delimited_text(ms: MetastoreClient, case: tuple[list[HiveType], list[Row]]) -> None:
    columns, rows = case
    texts = [[as_delimited(type_, value, ",") for type_, value in zip(columns, row, strict=True)] for row in rows]
    clear = [(row, each) for row, each in zip(rows, texts, strict=True) if None not in each]
    if clear:
        written = [",".join(map(str, each)) for _, each in clear]
        check(ms, hi.StrictDelimitedInputWriter(escape="\\"), columns, [row for row, _ in clear], written)


@_quickly
@given(case=tables(nested=False), escape=st.sampled_from([None, "\\"]))
def test_rows_come_back_from_csv(
    ms: MetastoreClient, case: tuple[list[HiveType], list[Row]], escape: str | None
) -> None:
    columns, rows = case

    def field(type_: HiveType, value: Any) -> str:
        if value is None:
            return ""
        text = primitive_text(type_, value)
        if escape:
            text = text.replace(escape, escape * 2)
        return f'"{text.replace(chr(34), (escape or chr(34)) + chr(34))}"'

    written = [",".join(map(field, columns, row)) for row in rows]
    if all(written):  # a record of a single null is an empty line
        check(ms, hi.CsvWriter(header=False, escape=escape), columns, rows, written)


@_quickly
@given(case=tables(nested=False))
def test_rows_come_back_from_a_regular_expression(ms: MetastoreClient, case: tuple[list[HiveType], list[Row]]) -> None:
    columns, rows = case
    texts = [
        [NULL if value is None else primitive_text(type_, value) for type_, value in zip(columns, row, strict=True)]
        for row in rows
    ]
    clear = [
        (row, each)
        for row, each in zip(rows, texts, strict=True)
        if not any(
            "\x1f" in text or (text == NULL and value is not None) for text, value in zip(each, row, strict=True)
        )
    ]
    writer = hi.StrictRegexWriter(regex="\x1f".join(["([^\x1f]*)"] * len(columns)), null_values=[NULL])
    if clear:
        check(ms, writer, columns, [row for row, _ in clear], ["\x1f".join(each) for _, each in clear])


@_quickly
@given(case=tables())
def test_rows_come_back_from_arrow_data(ms: MetastoreClient, case: tuple[list[HiveType], list[Row]]) -> None:
    columns, rows = case
    arrays = [
        pa.array([as_python(type_, row[place]) for row in rows], type_.arrow) for place, type_ in enumerate(columns)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=[f"c{place}" for place in range(len(columns))])
    check(ms, hi.ArrowWriter(), columns, rows, [batch])


@_quickly
@given(case=tables(finite=True))
def test_rows_come_back_from_mappings(ms: MetastoreClient, case: tuple[list[HiveType], list[Row]]) -> None:
    columns, rows = case

    def to_mapping(row: Row) -> dict[str, Any]:
        return {f"c{place}": as_mapping_value(*each) for place, each in enumerate(zip(columns, row, strict=True))}

    check(ms, MappingWriter(to_mapping), columns, rows, list(rows))


@_quickly
@given(case=tables())
def test_rows_come_back_from_avro(ms: MetastoreClient, case: tuple[list[HiveType], list[Row]]) -> None:
    columns, rows = case
    assume(all(map(has_avro_type, columns)))
    names = [f"c{place}" for place in range(len(columns))]
    fields = [{"name": name, "type": avro_type(type_, f"r_{name}")} for name, type_ in zip(names, columns, strict=True)]
    schema = {"type": "record", "name": "Row", "fields": fields}
    written = [
        encoded(schema, {name: as_avro(*each) for name, *each in zip(names, columns, row, strict=True)}) for row in rows
    ]
    check(ms, AvroWriter(Schemas(schema)), columns, rows, written)
