"""Every type of Hive through every record writer that can carry it, into a table and back."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import hive_ingest as hi
from hive_ingest.metastore_client import MetastoreClient
from hive_ingest.record_writer import AvroWriter, MappingWriter
from hive_ingest.schema import arrow_schema, parse_type
from tests.property.record_writer.hive_rows import avro_type, has_avro_type
from tests.unit.record_writer.avro import Schemas, encoded

TABLE = "web.types"
#: The type, a value in JSON, in text, and in Python.
PRIMITIVE: dict[str, tuple[str, str, str, Any]] = {
    "bo": ("boolean", "true", "TRUE", True),
    "ti": ("tinyint", "-128", "-128", -128),
    "si": ("smallint", "32767", "32767", 32767),
    "i": ("int", "-2147483648", "-2147483648", -(2**31)),
    "bi": ("bigint", "9223372036854775807", "9223372036854775807", 2**63 - 1),
    "f": ("float", "0.5", "0.5", 0.5),
    "d": ("double", "1e-300", "1e-300", 1e-300),
    "dc": (
        "decimal(38,10)",
        '"1234567890123456789012345678.0123456789"',
        "1234567890123456789012345678.0123456789",
        None,
    ),
    "s": ("string", '"a, ü 😀"', "a; ü 😀", None),
    "c": ("char(5)", '"äbc"', "äbc", "äbc  "),  # it is read padded, as in Hive
    "v": ("varchar(5)", '"äbc "', "äbc ", "äbc "),
    "b": ("binary", '"AP8="', "AP8=", b"\x00\xff"),
    "da": ("date", '"0001-01-01"', "0001-01-01", dt.date(1, 1, 1)),
    "ts": ("timestamp", '"2024-02-29 23:59:59.123456"', "2024-02-29 23:59:59.123456", None),
}
NESTED: dict[str, tuple[str, str, str, Any]] = {
    "ar": ("array<date>", '["2024-02-29",null]', "2024-02-29\x02\\N", [dt.date(2024, 2, 29), None]),
    "ma": ("map<int,decimal(5,2)>", '{"1":1.5}', "1\x031.5", [(1, Decimal("1.50"))]),
    "st": ("struct<x:bigint,y:array<string>>", '{"x":1,"y":["a"]}', "1\x02a", {"x": 1, "y": ["a"]}),
}
PRIMITIVE["dc"] = (*PRIMITIVE["dc"][:3], Decimal("1234567890123456789012345678.0123456789"))
PRIMITIVE["s"] = (*PRIMITIVE["s"][:3], "a; ü 😀")
PRIMITIVE["ts"] = (*PRIMITIVE["ts"][:3], dt.datetime(2024, 2, 29, 23, 59, 59, 123456))
ALL = PRIMITIVE | NESTED
#: Avro has no maps whose keys are numbers.
AVRO_COLUMNS = {name: column for name, column in ALL.items() if has_avro_type(parse_type(column[0]))}
AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": name, "type": avro_type(parse_type(kind), name)} for name, (kind, *_) in AVRO_COLUMNS.items()],
}


@pytest.fixture
def ms(metastore: MetastoreClient) -> MetastoreClient:
    metastore.create_database("web")
    metastore.create_table(TABLE, columns={name: kind for name, (kind, *_) in ALL.items()})
    return metastore


def json_records() -> list[bytes]:
    values = ALL | {"s": ("string", '"a; ü 😀"', "", None)}
    record = "{" + ",".join(f'"{name}":{text}' for name, (_, text, *_) in values.items()) + "}"
    return [record.encode(), b'{"i":null}']


def line(columns: dict[str, tuple[str, str, str, Any]], null: str) -> bytes:
    texts = [text for _, _, text, _ in columns.values()]
    return f"{','.join(texts)}\n{','.join([null] * len(texts))}\n".encode()


def arrow_data(client: MetastoreClient) -> pa.Table:
    values = {name: value for name, (*_, value) in ALL.items()}
    return pa.Table.from_pylist([values, {}], arrow_schema(client.get_table(TABLE).columns))


def mappings() -> list[dict[str, Any]]:
    return [{name: dict(value) if name == "ma" else value for name, (*_, value) in ALL.items()}, {"i": None}]


def avro_rows() -> list[dict[str, Any]]:
    nanos = (PRIMITIVE["ts"][3] - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) * 1000
    row = {name: value for name, (*_, value) in AVRO_COLUMNS.items()} | {"ts": nanos, "c": "äbc"}
    return [row, dict.fromkeys(AVRO_COLUMNS)]


def writers(client: MetastoreClient) -> dict[str, tuple[Any, Any, dict[str, tuple[str, str, str, Any]]]]:
    """For each writer: itself, what it writes, and the columns that it can carry."""
    names = list(PRIMITIVE)
    return {
        "json": (hi.StrictJsonWriter(), json_records(), ALL),
        "delimited": (hi.StrictDelimitedInputWriter(), line(ALL, "\\N"), ALL),
        "csv": (hi.CsvWriter(header=False, columns=names), line(PRIMITIVE, ""), PRIMITIVE),
        "regex": (
            hi.StrictRegexWriter(regex=",".join(["([^,]*)"] * len(names)), columns=names, null_values=["\\N"]),
            line(PRIMITIVE, "\\N"),
            PRIMITIVE,
        ),
        "arrow": (hi.ArrowWriter(), arrow_data(client), ALL),
        "rows": (hi.ArrowWriter(missing_columns="null"), mappings(), ALL),
        "mapping": (MappingWriter(json.loads), [record.decode() for record in json_records()], ALL),
        "avro": (AvroWriter(Schemas(AVRO)), [encoded(AVRO, row) for row in avro_rows()], AVRO_COLUMNS),
    }


@pytest.mark.parametrize("name", ["json", "delimited", "csv", "regex", "arrow", "rows", "mapping", "avro"])
def test_values_and_nulls_of_every_type_come_back(ms: MetastoreClient, name: str) -> None:
    writer, records, columns = writers(ms)[name]
    with hi.StreamingConnection.connect(ms, table=TABLE, record_writer=writer) as conn, conn.transaction():
        conn.write(records)
    first, second = hi.read_table(ms, TABLE).to_pylist()
    assert {column: first[column] for column in columns} == {column: ALL[column][3] for column in columns}
    assert set(second.values()) == {None}
