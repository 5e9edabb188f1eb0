"""Rows of any Hive types, and how each format writes them.

Values are as `plain_rows` has them: dates as days and timestamps as nanoseconds since 1970, structs as tuples, maps as
lists of pairs.
"""

from __future__ import annotations

import datetime as dt
import json
from base64 import b64encode
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from hive_ingest.schema import HiveType, parse_type

_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_SIMPLE = (*_INTEGERS, "boolean", "float", "double", "string", "binary", "date", "timestamp")
_NANOS = 10**9
#: Letters beside those that some format gives a meaning.
_CHARACTERS = st.sampled_from("a0 \"'\\,;:|\n\r\t\x00\x01\x02\x03\x04\x08\x7fNé€😀\ufeff\u2028") | st.characters(
    exclude_categories=["Cs"]
)
#: What separates the parts of nested values in text, from the outside to the inside.
SEPARATORS = "\x02\x03\x04\x05\x06\x07\x08"
NULL = "\\N"


# -- types -------------------------------------------------------------------------------------------


def _primitives() -> st.SearchStrategy[str]:
    decimals = st.integers(1, 38).flatmap(
        lambda precision: st.integers(0, precision).map(lambda scale: f"decimal({precision},{scale})")
    )
    lengths = st.integers(1, 6)
    return st.one_of(
        st.sampled_from(_SIMPLE), decimals, lengths.map("char({})".format), lengths.map("varchar({})".format)
    )


def types(*, nested: bool = True) -> st.SearchStrategy[HiveType]:
    """Hive's types, with values nested in up to two others."""
    primitive = _primitives()
    if not nested:
        return primitive.map(parse_type)

    def around(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            inner.map("array<{}>".format),
            st.builds("map<{},{}>".format, primitive, inner),
            st.lists(inner, min_size=1, max_size=3).map(
                lambda each: f"struct<{','.join(f'f{place}:{type_}' for place, type_ in enumerate(each))}>"
            ),
        )

    return st.one_of(primitive, around(primitive), around(around(primitive))).map(parse_type)


# -- values ------------------------------------------------------------------------------------------


def values(type_: HiveType, *, finite: bool) -> st.SearchStrategy[Any]:
    """Values of a type, nulls included; without NaN and infinities if `finite`."""
    return st.none() | _not_null(type_, finite=finite)


def _not_null(type_: HiveType, *, finite: bool) -> st.SearchStrategy[Any]:
    kind, children = type_.kind, type_.children
    if kind == "array":
        return st.lists(values(children[0][1], finite=finite), max_size=3)
    if kind == "struct":
        return st.tuples(*(values(child, finite=finite) for _, child in children))
    if kind == "map":
        pairs = st.tuples(_not_null(children[0][1], finite=True), values(children[1][1], finite=finite))
        return st.lists(pairs, max_size=3, unique_by=lambda pair: pair[0])
    return _primitive_values(type_, finite=finite)


def _primitive_values(type_: HiveType, *, finite: bool) -> st.SearchStrategy[Any]:
    kind = type_.kind
    if kind in _INTEGERS:
        limit = 1 << (_INTEGERS[kind] - 1)
        return st.integers(-limit, limit - 1)
    if kind in ("float", "double"):
        return st.floats(
            width=32 if kind == "float" else 64, allow_nan=not finite, allow_infinity=not finite, allow_subnormal=True
        )
    if kind == "decimal":
        precision, scale = type_.parameters
        return st.integers(1 - 10**precision, 10**precision - 1).map(lambda number: _decimal(number, scale))
    if kind in ("string", "char", "varchar"):
        text = st.text(_CHARACTERS, max_size=type_.parameters[0] if type_.parameters else 12)
        return text.map(lambda each: each.rstrip(" ")) if kind == "char" else text
    return {
        "boolean": st.booleans(),
        "binary": st.binary(max_size=12),
        "date": st.dates().map(lambda day: (day - dt.date(1970, 1, 1)).days),
        "timestamp": st.one_of(st.integers(0, 2**63 - 1), st.integers(-9_223_372_036 * _NANOS, -999_000_001)),
    }[kind]


def _decimal(number: int, scale: int) -> Decimal:
    """Built from its digits: arithmetic would round to the 28 digits of the context."""
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


# -- formats -----------------------------------------------------------------------------------------


def _moment(type_: HiveType, value: int) -> str:
    if type_.kind == "date":
        return (dt.date(1970, 1, 1) + dt.timedelta(days=value)).isoformat()
    seconds, nanos = divmod(value, _NANOS)
    return f"{dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)}.{nanos:09}"


def primitive_text(type_: HiveType, value: Any) -> str:
    """A value that is not null as all text formats write it, before quotes and escapes."""
    if type_.kind in ("date", "timestamp"):
        return _moment(type_, value)
    if type_.kind == "binary":
        return b64encode(value).decode()
    if type_.kind == "boolean":
        return "true" if value else "false"
    if type_.kind in ("float", "double"):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    return f"{value:f}" if type_.kind == "decimal" else str(value)


def as_json(type_: HiveType, value: Any) -> str:
    """A value in JSON."""
    if value is None:
        return "null"
    children = [child for _, child in type_.children]
    if type_.kind == "array":
        return f"[{','.join(as_json(children[0], item) for item in value)}]"
    if type_.kind == "struct":
        fields = zip(type_.children, value, strict=True)
        return f"{{{','.join(f'{json.dumps(name)}:{as_json(child, item)}' for (name, child), item in fields)}}}"
    if type_.kind == "map":
        pairs = (f"{json.dumps(primitive_text(children[0], key))}:{as_json(children[1], item)}" for key, item in value)
        return f"{{{','.join(pairs)}}}"
    text = primitive_text(type_, value)
    return text if type_.kind in (*_INTEGERS, "boolean", "float", "double", "decimal") else json.dumps(text)


def as_delimited(type_: HiveType, value: Any, special: str, level: int = 0) -> str | None:
    """A value in delimited text with backslashes as escapes; None if the format cannot tell it from another one."""
    if value is None:
        return NULL
    if not type_.children:
        text = primitive_text(type_, value)
        return _escaped(text, special) if type_.kind in ("string", "char", "varchar") else text
    children = [child for _, child in type_.children]
    inner = level + (2 if type_.kind == "map" else 1)
    if type_.kind == "map":
        pairs = [
            (as_delimited(children[0], key, special, inner), as_delimited(children[1], item, special, inner))
            for key, item in value
        ]
        parts = [None if None in pair else SEPARATORS[level + 1].join(map(str, pair)) for pair in pairs]
    else:
        each = children if type_.kind == "struct" else children * len(value)
        parts = [as_delimited(child, item, special, inner) for child, item in zip(each, value, strict=True)]
    if any(part is None for part in parts):
        return None
    text = SEPARATORS[level].join(map(str, parts))
    # A null that is alone in it looks like the null of the whole, and an empty text like no element.
    is_clear = text != NULL and not (type_.kind == "array" and parts and not text)
    return text if is_clear else None


def _escaped(text: str, special: str) -> str:
    letters = {"\n": "\\n", "\r": "\\r"} | {each: f"\\{each}" for each in special + SEPARATORS + "\\"}
    return "".join(letters.get(each, each) for each in text)


def as_python(type_: HiveType, value: Any) -> Any:
    """A value as `pyarrow.array` accepts it."""
    if value is None or not type_.children:
        return value
    children = [child for _, child in type_.children]
    if type_.kind == "array":
        return [as_python(children[0], item) for item in value]
    if type_.kind == "map":
        return [(key, as_python(children[1], item)) for key, item in value]
    return {name: as_python(child, item) for (name, child), item in zip(type_.children, value, strict=True)}


def as_mapping_value(type_: HiveType, value: Any) -> Any:
    """A value as a program has it: objects of Python, except that a timestamp with nanoseconds is a text."""
    if value is None or type_.kind in ("array", "map", "struct"):
        children = [child for _, child in type_.children]
        if value is None:
            return None
        if type_.kind == "array":
            return [as_mapping_value(children[0], item) for item in value]
        if type_.kind == "map":
            return {primitive_text(children[0], key): as_mapping_value(children[1], item) for key, item in value}
        fields = zip(type_.children, value, strict=True)
        return {name: as_mapping_value(child, item) for (name, child), item in fields}
    if type_.kind == "date":
        return dt.date(1970, 1, 1) + dt.timedelta(days=value)
    return primitive_text(type_, value) if type_.kind == "timestamp" else value


_AVRO = {
    **dict.fromkeys(("tinyint", "smallint", "int"), "int"),
    "bigint": "long",
    "boolean": "boolean",
    "float": "float",
    "double": "double",
    "binary": "bytes",
    **dict.fromkeys(("string", "char", "varchar"), "string"),
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-nanos"},
}


def has_avro_type(type_: HiveType) -> bool:
    """Whether Avro has all of the type: the keys of its maps are strings."""
    if type_.kind == "map" and type_.children[0][1].kind not in ("string", "char", "varchar"):
        return False
    return all(has_avro_type(child) for _, child in type_.children)


def avro_type(type_: HiveType, name: str = "r") -> list[Any]:
    """The union of null and the type in Avro. `name` is that of a record."""
    children = [
        avro_type(child, f"{name}_{place}") if place or type_.kind != "map" else []
        for place, (_, child) in enumerate(type_.children)
    ]
    if type_.kind == "array":
        found: Any = {"type": "array", "items": children[0]}
    elif type_.kind == "map":
        found = {"type": "map", "values": children[1]}
    elif type_.kind == "struct":
        fields = [{"name": field, "type": child} for (field, _), child in zip(type_.children, children, strict=True)]
        found = {"type": "record", "name": name, "fields": fields}
    elif type_.kind == "decimal":
        precision, scale = type_.parameters
        found = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    else:
        found = _AVRO[type_.kind]
    return ["null", found]


def as_avro(type_: HiveType, value: Any) -> Any:
    """A value as fastavro accepts it. Days, and nanoseconds since 1970, are numbers there as well."""
    if value is None or not type_.children:
        return value
    children = [child for _, child in type_.children]
    if type_.kind == "array":
        return [as_avro(children[0], item) for item in value]
    if type_.kind == "map":
        return {key: as_avro(children[1], item) for key, item in value}
    return {name: as_avro(child, item) for (name, child), item in zip(type_.children, value, strict=True)}


def as_read(type_: HiveType, value: Any) -> Any:
    """A value of a column as a table has it: a char is padded to its length, inside other values it is not."""
    return value if value is None or type_.kind != "char" else value.ljust(type_.parameters[0])
