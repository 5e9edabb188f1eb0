"""Several small files of one transaction, whose rows the ORC library encodes together."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest

from hive_ingest.model import WriteId
from hive_ingest.orc.format.tail import OrcTail, read_tail
from hive_ingest.orc.writer.file_writer import orc_writer
from hive_ingest.orc.writer.insert_encoder import InsertEncoder
from hive_ingest.orc.writer.key_columns import InsertedRows
from hive_ingest.orc.writer.stripe_encoder import EncodedStripes
from hive_ingest.orc.writer.stripe_output import StripeOutput
from hive_ingest.storage import LocalStore

#: Values of a column, repeated: with and without nulls, so that the library has to begin again with each file.
COLUMNS: dict[str, tuple[pa.DataType, Sequence[Any], Sequence[Any]]] = {
    "flag": (pa.bool_(), [True, False], [None, True]),
    "number": (pa.int64(), [1, 2**40, -5], [None, 7, 7]),
    "text": (pa.string(), ["a", "größer", ""], ["b" * 70, None]),
    "ratio": (pa.float64(), [0.5, -1.0], [None]),
    "moment": (pa.timestamp("ns"), [dt.datetime(2024, 2, 29, 1, 2, 3)], [None, dt.datetime(1960, 1, 1)]),
    "list": (pa.list_(pa.int32()), [[1, 2], []], [None, [3]]),
    "struct": (pa.struct([("x", pa.int32())]), [{"x": 1}], [None, {"x": None}]),
}
SCHEMA = pa.schema([(name, type_) for name, (type_, _, _) in COLUMNS.items()])
ROWS = [20, 3, 1, 2_500, 20, 1]


def batches(schema: pa.Schema = SCHEMA) -> list[pa.RecordBatch]:
    """Those of odd numbers have nulls."""
    found = []
    for number, rows in enumerate(ROWS):
        values = [COLUMNS[field.name][1 + number % 2] for field in schema]
        columns = [
            pa.array(list(itertools.islice(itertools.cycle(each), rows)), type_)
            for each, type_ in zip(values, schema.types, strict=True)
        ]
        found.append(pa.record_batch(columns, schema=schema))
    return found


def ids(rows: int) -> InsertedRows:
    return InsertedRows(WriteId(7), 1 << 29, 0, rows)


def write(encoder: InsertEncoder, encoded: EncodedStripes, path: Path) -> tuple[OrcTail, pa.Buffer]:
    with StripeOutput(LocalStore(), str(path), like=encoder.like, sync=False) as output:
        encoded.append_to(output)
        output.close()
    data = pa.py_buffer(path.read_bytes())
    return read_tail(pa.BufferReader(data), str(path)), data


def count_writers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    made: list[object] = []

    def counted(sink: object, **options: Any) -> orc.ORCWriter:
        made.append(sink)
        return orc_writer(sink, **options)

    monkeypatch.setattr("hive_ingest.orc.writer.insert_encoder.orc_writer", counted)
    return made


@pytest.mark.parametrize("compression", ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"])
def test_files_that_are_encoded_together_are_those_that_are_encoded_alone(
    compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = InsertEncoder(SCHEMA, compression=compression)
    made = count_writers(monkeypatch)
    together = encoder.encode_each(batches(), [*map(ids, ROWS)], "some files")
    assert len(made) == 1

    for number, (batch, encoded) in enumerate(zip(batches(), together, strict=True)):
        alone = encoder.encode([batch], ids(batch.num_rows), "a file")
        tail, data = write(encoder, encoded, tmp_path / f"{number}.together")
        tail_alone, data_alone = write(encoder, alone, tmp_path / f"{number}.alone")
        assert tail.footer.statistics == tail_alone.footer.statistics
        assert tail.footer.rows == batch.num_rows
        assert tail.postscript.rest == tail_alone.postscript.rest
        assert orc.read_table(pa.BufferReader(data)) == orc.read_table(pa.BufferReader(data_alone))
        rows = orc.read_table(pa.BufferReader(data))["row"].combine_chunks()
        assert pa.RecordBatch.from_struct_array(rows).to_pylist() == batch.to_pylist()


def test_the_streams_of_files_without_nulls_are_the_same(tmp_path: Path) -> None:
    encoder = InsertEncoder(SCHEMA)
    found = [batch for number, batch in enumerate(batches()) if number % 2 == 0]
    counts = [batch.num_rows for batch in found]
    for number, encoded in enumerate(encoder.encode_each(found, [*map(ids, counts)], "some files")):
        alone = encoder.encode([found[number]], ids(counts[number]), "a file")
        _, data = write(encoder, encoded, tmp_path / f"{number}.together")
        _, data_alone = write(encoder, alone, tmp_path / f"{number}.alone")
        assert data == data_alone


def test_rows_that_the_library_puts_into_one_stripe_are_encoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends a stripe only once it has bytes of it, and holds back up to 512 integers."""
    schema = pa.schema([("number", pa.int64())])
    encoder = InsertEncoder(schema)
    made = count_writers(monkeypatch)
    together = encoder.encode_each(batches(schema), [*map(ids, ROWS)], "some files")
    assert len(made) == 1 + len(ROWS)
    for number, (batch, encoded) in enumerate(zip(batches(schema), together, strict=True)):
        _, data = write(encoder, encoded, tmp_path / str(number))
        found = orc.read_table(pa.BufferReader(data)).flatten()
        assert found["row.number"].to_pylist() == batch["number"].to_pylist()
        assert found["rowId"].to_pylist() == list(range(batch.num_rows))


def test_timestamps_that_are_encoded_once_more_change_no_other_file(tmp_path: Path) -> None:
    schema = pa.schema([("text", pa.string()), ("moment", pa.timestamp("ns"))])
    moments = [dt.datetime(2024, 2, 29), dt.datetime(1960, 1, 1, 0, 0, 0, 500), dt.datetime(1970, 1, 1)]
    found = [
        pa.record_batch([pa.array(["x"]), pa.array([each], schema.field(1).type)], schema=schema) for each in moments
    ]
    encoder = InsertEncoder(schema)
    for number, encoded in enumerate(encoder.encode_each(found, [ids(1)] * 3, "some files")):
        _, data = write(encoder, encoded, tmp_path / f"{number}.together")
        _, data_alone = write(encoder, encoder.encode([found[number]], ids(1), "a file"), tmp_path / f"{number}.alone")
        assert data == data_alone
