"""Every example in the tables of docs/types.md and docs/records.md does what its column says."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer import (
    ArrowWriter,
    CsvWriter,
    StrictDelimitedInputWriter,
    StrictJsonWriter,
    StrictRegexWriter,
)
from hive_ingest.record_writer.list_writer import RecordListWriter
from tests.unit.record_writer.writing import rows_of, schema_of

DOCS = Path(__file__).parents[3] / "docs"
PAGE = "\n".join((DOCS / name).read_text("utf-8") for name in ("types.md", "records.md"))


def table_with(heading: str) -> list[dict[str, str]]:
    """The rows of the Markdown table that has a column of this name."""
    lines = PAGE.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|") and f"| {heading} |" in line)
    names = [cell.strip() for cell in lines[first].strip("|").split("|")]
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(names, [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))], strict=True)))
    return rows


def examples(heading: str, at_least: int = 20) -> list[tuple[str, str]]:
    """(Hive type, example) for every example in a column."""
    found: list[tuple[str, str]] = []
    for row in table_with(heading):
        found.extend((html.unescape(row["Hive type"]), example) for example in re.findall(r"`([^`]*)`", row[heading]))
    assert len(found) > at_least
    return found


def write_json(type_: str, value: str) -> Any:
    record = f'{{"v":{value}}}'.encode()
    return rows_of(StrictJsonWriter(), schema_of(v=type_), record + b"\n" + record)


def write_delimited(type_: str, value: str) -> Any:
    return rows_of(StrictDelimitedInputWriter(), schema_of(v=type_), value.encode())


def write_arrow(type_: str, expression: str, **options: Any) -> Any:
    column = pa.array([None], eval(expression, {"pa": pa}))
    return rows_of(ArrowWriter(**options), schema_of(v=type_), pa.table({"v": column}))


def in_block_of(value: str, count: int, form: str) -> bytes:
    return b"\n".join([form.replace("%", value).encode()] * count)


@pytest.mark.parametrize(("type_", "value"), examples("JSON accepts"))
def test_json_accepts(type_, value):
    few = write_json(type_, value)
    many = rows_of(StrictJsonWriter(), schema_of(v=type_), in_block_of(value, 50, '{"v":%}'))
    assert few[0]["v"] is not None
    assert repr(many[-1]) == repr(few[0])


@pytest.mark.parametrize(("type_", "value"), examples("JSON rejects"))
def test_json_refuses(type_, value):
    with pytest.raises(SerializationError, match="record 0 "):
        write_json(type_, value)
    with pytest.raises(SerializationError, match="record 0 "):
        rows_of(StrictJsonWriter(), schema_of(v=type_), in_block_of(value, 50, '{"v":%}'))


@pytest.mark.parametrize(("type_", "value"), examples("Delimited accepts"))
def test_delimited_accepts(type_, value):
    few = write_delimited(type_, value)
    many = rows_of(StrictDelimitedInputWriter(), schema_of(v=type_), in_block_of(value, 50, "%"))
    assert few[0]["v"] is not None
    assert repr(many[-1]) == repr(few[0])


@pytest.mark.parametrize(("type_", "value"), examples("Delimited rejects"))
def test_delimited_refuses(type_, value):
    with pytest.raises(SerializationError, match="record 0 "):
        write_delimited(type_, value)
    with pytest.raises(SerializationError, match="record 0 "):
        rows_of(StrictDelimitedInputWriter(), schema_of(v=type_), in_block_of(value, 50, "%"))


@pytest.mark.parametrize(("type_", "expression"), examples("Arrow types accepted"))
def test_arrow_accepts(type_, expression):
    assert write_arrow(type_, expression) == [{"v": None}]


@pytest.mark.parametrize(("type_", "expression"), examples("Arrow types rejected"))
def test_arrow_refuses(type_, expression):
    with pytest.raises(SerializationError, match="column 'v"):
        write_arrow(type_, expression)


@pytest.mark.parametrize(("type_", "expression"), examples("Further Arrow types", at_least=10))
def test_arrow_accepts_further_types_without_loss(type_, expression):
    assert write_arrow(type_, expression, coerce="lossless") == [{"v": None}]
    with pytest.raises(SerializationError, match="column 'v"):
        write_arrow(type_, expression)


@pytest.mark.parametrize(("type_", "expression"), examples("Arrow types still rejected", at_least=5))
def test_arrow_still_rejects_types_that_lose_something(type_, expression):
    with pytest.raises(SerializationError, match="column 'v"):
        write_arrow(type_, expression, coerce="lossless")


@pytest.mark.parametrize("type_", [html.unescape(row["Hive type"]) for row in table_with("JSON accepts")])
def test_null_is_null_for_every_type_and_an_empty_field_only_text(type_):
    assert write_json(type_, "null") == [{"v": None}] * 2
    if "<" in type_:
        return
    assert write_delimited(type_, "\\N") == [{"v": None}]
    if type_.startswith(("string", "char", "varchar", "binary")):
        assert write_delimited(type_, "\n") in ([{"v": ""}], [{"v": b""}])
    else:
        with pytest.raises(SerializationError):
            write_delimited(type_, "\n")


def unmarked(cell: str) -> str:
    return cell.strip("`").replace("\\|", "|") if cell != "(empty)" else ""


def shown(value: Any) -> str:
    """A value as the tables show it."""
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity"}.get(str(value), str(value))
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        value = dict(value)
    is_json = value is None or isinstance(value, bool | str | list | dict)
    return json.dumps(value, ensure_ascii=False) if is_json else str(value)


def coerced(writer: Any, type_: str, record: str) -> str:
    try:
        [row] = rows_of(writer, schema_of(v=type_), [record])
    except SerializationError:
        return "bad"
    return f"`{shown(row['v'])}`"


@pytest.mark.parametrize("row", table_with("JSON value"), ids=lambda row: f"{row['Hive type']} {row['JSON value']}")
def test_json_values_are_coerced_as_the_table_says(row):
    type_, record = html.unescape(row["Hive type"]), f'{{"v":{unmarked(row["JSON value"])}}}'
    assert coerced(StrictJsonWriter(), type_, record) == "bad"
    assert coerced(StrictJsonWriter(coerce="lossless"), type_, record) == row["`lossless`"]
    assert coerced(StrictJsonWriter(coerce="hive"), type_, record) == row["`hive`"]


@pytest.mark.parametrize("row", table_with("Text | `lossless`"), ids=lambda row: f"{row['Hive type']} {row['Text']}")
def test_texts_are_coerced_as_the_table_says(row):
    type_, record = html.unescape(row["Hive type"]), unmarked(row["Text"])
    for choice in ("lossless", "hive"):
        wanted = row[f"`{choice}`"]
        assert coerced(StrictDelimitedInputWriter(coerce=choice), type_, record) == wanted
        assert coerced(StrictRegexWriter(regex="(.*)", coerce=choice), type_, record) == wanted
        csv = CsvWriter(header=False, null_values=[], coerce=choice)
        assert coerced(csv, type_, record) == wanted


@pytest.mark.parametrize("row", table_with("Text | Value"), ids=lambda row: row["Text"])
def test_nested_texts_have_the_values_of_the_table(row):
    writer = StrictDelimitedInputWriter(collection_delimiter="|", map_key_delimiter=":")
    assert coerced(writer, html.unescape(row["Hive type"]), unmarked(row["Text"])) == row["Value"]


def test_the_writer_of_the_pages_own_example_works():
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert code is not None
    names: dict[str, type[RecordListWriter]] = {}
    exec(code[1], names)
    rows = rows_of(names["CoordinatesWriter"](), schema_of(x="double", y="double"), [b"1;2", b"3;4.5"])
    assert rows == [{"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 4.5}]
