"""`coerce="hive"` gives the values that Hive 4.0.1's SerDes return (tests/data/hive/serde_values.json)."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import re
from typing import Any

import numpy as np
import pytest

from hive_ingest.errors import SerializationError
from hive_ingest.record_writer import StrictDelimitedInputWriter, StrictJsonWriter
from tests.support.hive_tables import DATA
from tests.unit.record_writer.writing import rows_of, schema_of

RECORDS = json.loads((DATA / "serde_values.json").read_text())["records"]

_ONE_RECORD = "a record is exactly one JSON object"
_BASE64 = "base64 is one text without blanks"
#: Records whose values differ from Hive's, and why.
DIFFERENT = {
    ("json", "string", r'{"c0":"\ud800"}'): "UTF-8 cannot encode half a surrogate pair",
    ("text", "float", "3.4028235677973366e38"): "a float is rounded to a double first",
    ("json", "binary", '{"c0": "YQ==YQ=="}'): _BASE64,
    ("json", "binary", '{"c0": "YW==YWI="}'): _BASE64,
    ("json", "binary", r'{"c0": "YWI=\tYWI="}'): _BASE64,
    ("json", "string", '{"c0":4.9e-324}'): "Java writes two digits here, the fewest are one",
    ("json", "double", '{"c0":-0}'): "the strict rules accept it, and keep the sign",
    ("json", "int", "null"): _ONE_RECORD,
    ("json", "int", '{"c0":1} x'): _ONE_RECORD,
    ("json", "int", '{"c0":1}{"c0":2}'): _ONE_RECORD,
    ("json", "int", '{"_col0":5}'): "columns have no further names",
}


def ours(record: dict[str, Any]) -> Any:
    """The values, or "error" for a bad record."""
    columns = {f"c{place}": type_ for place, type_ in enumerate(record["types"])}
    writer: Any = StrictJsonWriter(coerce="hive")
    if record["serde"] == "text":
        writer = StrictDelimitedInputWriter(field_delimiter="\x01", missing_fields="null", coerce="hive")
    try:
        [row] = rows_of(writer, schema_of(**columns), [record["record"]])
    except SerializationError:
        return "error"
    return [plain(row[name]) for name in columns]


def plain(value: Any) -> Any:
    """A value of pyarrow in a form that equals what `decoded` makes of Hive's."""
    if isinstance(value, float):
        return repr(float(np.float64(value)))
    if isinstance(value, dict):
        return [[name, plain(item)] for name, item in value.items()]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dt.datetime):
        return np.datetime64(value.replace(tzinfo=None), "ns") + np.timedelta64(getattr(value, "nanosecond", 0), "ns")
    return value


def decoded(cell: Any, type_: str) -> Any:
    """A cell of Hive's (`Cells.java`)."""
    if isinstance(cell, list):
        return [decoded(item, "") for item in cell]
    if not isinstance(cell, dict):
        return cell.rstrip(" ") if type_.startswith("char") and cell is not None else cell
    [(kind, text)] = cell.items()
    if kind == "double":
        return repr(float(text.replace("Infinity", "inf")))
    if kind == "decimal":
        return decimal.Decimal(text)
    if kind == "binary":
        return base64.b64decode(text)
    if kind == "date":
        return dt.date.fromisoformat(text)
    if kind == "timestamp":
        return np.datetime64(text, "ns")
    return [[decoded(key, ""), decoded(item, "")] for key, item in text]


def hives(record: dict[str, Any]) -> Any:
    found = record["4.0.1"]
    if found == "error" or any(map(is_out_of_range, found)):
        return "error"
    return [decoded(cell, type_) for cell, type_ in zip(found, record["types"], strict=True)]


def is_out_of_range(cell: Any) -> bool:
    """Whether the table cannot hold Hive's value, so that the record is bad here."""
    if not isinstance(cell, dict):
        return False
    if "map" in cell:
        return any(key is None for key, _ in cell["map"])
    text = cell.get("date") or cell.get("timestamp")
    if text is None:
        return False
    year = re.match(r"[+-]?\d+", text)
    assert year is not None
    if "date" in cell:
        return not 1 <= int(year[0]) <= 9999
    return not 1678 <= int(year[0]) <= 2261 or ("." in text and int(year[0]) < 1970)


@pytest.mark.parametrize(
    "record", RECORDS, ids=[f"{each['serde']} {'-'.join(each['types'])} {each['record']!a}" for each in RECORDS]
)
def test_values_are_those_of_hives_serdes(record):
    key = (record["serde"], record["types"][0], record["record"])
    if key in DIFFERENT:
        assert ours(record) != hives(record), "take it out of the list"
    else:
        assert ours(record) == hives(record)
