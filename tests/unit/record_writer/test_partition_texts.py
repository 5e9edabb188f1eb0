"""Empty texts as partition values: the default partition, or a bad record."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hive_ingest.errors import ConfigurationError, SerializationError
from hive_ingest.record_writer import (
    ArrowWriter,
    CsvWriter,
    MappingWriter,
    StrictDelimitedInputWriter,
    StrictJsonWriter,
    StrictRegexWriter,
)
from tests.unit.record_writer.writing import parse_all, rows_of, schema_of

SCHEMA = schema_of(partition={"p": "string", "n": "int"}, id="int")
JSON = [b'{"id":%d,"p":"%s","n":1}' % (number, b"" if number == 50 else b"x") for number in range(100)]
TEXT = [b"%d,%s,1" % (number, b"" if number == 50 else b"x") for number in range(100)]
DATA = pa.table({"id": range(100), "p": ["" if number == 50 else "x" for number in range(100)], "n": [1] * 100})


def writer(kind: str, **options: Any) -> Any:
    made: dict[str, Any] = {
        "json": StrictJsonWriter,
        "mapping": lambda **given: MappingWriter(dict, **given),
        "delimited": StrictDelimitedInputWriter,
        "csv": lambda **given: CsvWriter(header=False, null_values=[], **given),
        "regex": lambda **given: StrictRegexWriter(regex="(.*),(.*),(.*)", **given),
        "arrow": ArrowWriter,
    }
    return made[kind](**options)


ARGUMENTS: dict[str, Any] = {
    "json": b"\n".join(JSON),
    "mapping": DATA.to_pylist(),
    "delimited": b"\n".join(TEXT),
    "csv": b"\n".join(TEXT),
    "regex": b"\n".join(TEXT),
    "arrow": DATA,
}


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_an_empty_partition_value_is_refused_on_request(kind: str) -> None:
    assert rows_of(writer(kind), SCHEMA, ARGUMENTS[kind])[50] == {"id": 50, "p": "", "n": 1}
    with pytest.raises(SerializationError, match=r"record 50.* column 'p': .* would be the default partition"):
        rows_of(writer(kind, empty_partition_values="fail"), SCHEMA, ARGUMENTS[kind])
    [parsed] = parse_all(writer(kind, empty_partition_values="fail", on_error="skip"), SCHEMA, ARGUMENTS[kind])
    assert (parsed.batch.num_rows, [bad.record for bad in parsed.bad_records]) == (99, [50])


@pytest.mark.parametrize("name", ["", "__HIVE_DEFAULT_PARTITION__"])
@pytest.mark.parametrize("type_", ["string", "varchar(30)", "char(30)"])
def test_both_names_of_the_default_partition_are_refused(name: str, type_: str) -> None:
    schema = schema_of(partition={"p": type_}, id="int")
    strict = StrictJsonWriter(empty_partition_values="fail")
    with pytest.raises(SerializationError, match="would be the default partition"):
        rows_of(strict, schema, {"id": 1, "p": name})
    assert rows_of(strict, schema, {"id": 1, "p": None}) == [{"id": 1, "p": None}]


def test_empty_values_of_other_columns_are_not_concerned() -> None:
    schema = schema_of(partition={"p": "string"}, name="string")
    assert rows_of(StrictJsonWriter(empty_partition_values="fail"), schema, {"name": "", "p": "x"}) == [
        {"name": "", "p": "x"}
    ]


@pytest.mark.parametrize("kind", ARGUMENTS)
def test_the_option_has_two_values(kind: str) -> None:
    with pytest.raises(ConfigurationError, match="empty_partition_values='skip'"):
        writer(kind, empty_partition_values="skip")
