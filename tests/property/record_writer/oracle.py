"""The expected rows, computed as simply as possible: one record and one value at a time, without Arrow.

Values come out as plain Python: dates as days and timestamps as nanoseconds since 1970, structs as tuples,
maps as lists of pairs.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import math
import re
import struct
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from hive_ingest.schema import HiveType, parse_type


class Bad(Exception):
    """The record cannot be held."""


class Num(str):
    """A JSON number."""


class Obj(list[Any]):
    """A JSON object's pairs."""


def records_of(argument, *, is_json: bool) -> list[bytes]:
    """The records of one argument of `write()`: text is split, items are taken as they are."""
    if isinstance(argument, list):
        return [item.encode("utf-8", "surrogatepass") if isinstance(item, str) else bytes(item) for item in argument]
    text = argument.encode("utf-8", "surrogatepass") if isinstance(argument, str) else bytes(argument)
    if not text:
        return [b""]  # the end of the argument ends a record
    found, rest = [], text
    while rest:
        line, newline, rest = rest.partition(b"\n")
        found.append(line[:-1] if newline and line.endswith(b"\r") else line)
    return found


# -- JSON ------------------------------------------------------------------------------------------


def _no_constant(name):
    raise Bad(name)


def json_row(record: bytes, columns, *, unknown_fields="ignore") -> Any:
    try:
        text = record.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Bad("utf-8") from error
    try:
        value = json.JSONDecoder(
            object_pairs_hook=Obj, parse_int=Num, parse_float=Num, parse_constant=_no_constant
        ).decode(text)
    except json.JSONDecodeError as error:
        raise Bad("json") from error
    row = _json_struct(value, [(c.name, parse_type(c.type)) for c in columns], unknown_fields)
    names = {column.name for column in columns}
    return _expect(row, any(key.lower() in names for key, _ in value))


def _json_struct(value, fields, unknown_fields):
    if not isinstance(value, Obj):
        raise Bad("object")
    names = [name for name, _ in fields]
    for key, _ in value:
        if key.lower() not in names and unknown_fields == "fail":
            raise Bad("unknown")
    row = []
    for name, type_ in fields:
        given = [item for key, item in value if key.lower() == name]
        if len(given) > 1:
            raise Bad("twice")
        row.append(json_value(given[0], type_, unknown_fields) if given else None)
    return tuple(row)


def json_value(value, type_: HiveType, unknown_fields="ignore"):
    kind = type_.kind
    if value is None:
        return None
    if kind == "boolean":
        return _expect(value, isinstance(value, bool))
    if kind == "struct":
        return _json_struct(value, type_.children, unknown_fields)
    if kind == "array":
        _expect(value, type(value) is list)
        return [json_value(item, type_.children[0][1], unknown_fields) for item in value]
    if kind == "map":
        _expect(value, isinstance(value, Obj))
        pairs = [
            (text_value(_clean(key), type_.children[0][1]), json_value(item, type_.children[1][1], unknown_fields))
            for key, item in value
        ]
        _expect(pairs, len({key for key, _ in pairs}) == len(pairs))
        return pairs
    if kind in ("tinyint", "smallint", "int", "bigint", "float", "double"):
        _expect(value, isinstance(value, Num))
        return text_value(value, type_)
    if kind == "decimal":
        _expect(value, isinstance(value, str))
        return text_value(value, type_)
    _expect(value, isinstance(value, str) and not isinstance(value, Num))
    return text_value(_clean(value), type_)


def _expect(value, holds):
    if not holds:
        raise Bad(repr(value))
    return value


def _clean(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Bad("surrogate") from error
    return text


# -- delimited text --------------------------------------------------------------------------------


def delimited_row(record: bytes, columns, *, delimiter=b",", null=b"\\N", escape=b"", missing="fail", order=None):
    types = {c.name: parse_type(c.type) for c in columns}
    order = order or list(types)
    fields, current, at = [], b"", 0
    while at < len(record):
        byte = record[at : at + 1]
        if escape and byte == escape and at + 1 < len(record):
            current += record[at : at + 2]
            at += 2
            continue
        if byte == delimiter:
            fields.append(current)
            current = b""
        else:
            current += byte
        at += 1
    fields.append(current)
    if missing == "fail" and len(fields) != len(order):
        raise Bad("width")
    fields = (fields + [null] * len(order))[: len(order)]
    row = {name: _field(field, types[name], null, escape) for name, field in zip(order, fields, strict=True)}
    return tuple(row.get(name) for name in types)


def _field(field: bytes, type_: HiveType, null: bytes, escape: bytes):
    if field == null:
        return None
    if escape and type_.kind in ("string", "char", "varchar"):
        plain, at = b"", 0
        while at < len(field):
            byte = field[at : at + 1]
            if byte == escape and at + 1 < len(field):
                at += 1
                byte = field[at : at + 1]
                byte = {b"r": b"\r", b"n": b"\n"}.get(byte, byte)
            plain += byte
            at += 1
        field = plain
    try:
        text = field.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Bad("utf-8") from error
    return text_value(text, type_, non_finite=True)


# -- values ----------------------------------------------------------------------------------------

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def text_value(text: str, type_: HiveType, non_finite=False):
    kind = type_.kind
    text = str(text)
    if kind == "string":
        return text
    if kind == "char":
        return _expect(text.rstrip(" "), len(text.rstrip(" ")) <= type_.parameters[0])
    if kind == "varchar":
        return _expect(text, len(text) <= type_.parameters[0])
    if kind == "boolean":
        return _expect(text.lower(), text.isascii() and text.lower() in ("true", "false")) == "true"
    if kind == "binary":
        return _base64(text)
    if kind in ("date", "timestamp"):
        return _moment(text, kind)
    if non_finite and kind in ("float", "double") and re.fullmatch(r"[+-]?(NaN|Infinity)", text):
        return float(text)
    _expect(text, NUMBER.fullmatch(text))
    if kind in ("float", "double"):
        return _floating(text, kind)
    if kind == "decimal":
        return _decimal(text, *type_.parameters)
    _expect(text, re.fullmatch(r"[+-]?\d+", text, re.ASCII))
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[kind]
    value = Decimal(text)
    return int(_expect(value, -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)))


def _base64(text):
    try:
        found = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise Bad("base64") from error
    return _expect(found, len(text) % 4 == 0)


def _moment(text, kind):
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?)?", text, re.ASCII)
    if found is None or (found[2] is not None) != (kind == "timestamp"):
        raise Bad(text)
    try:
        moment = dt.datetime.strptime(f"{found[1]} {found[2] or '00:00:00'}", "%Y-%m-%d %H:%M:%S")
    except ValueError as error:
        raise Bad("calendar") from error
    seconds = round((moment - dt.datetime(1970, 1, 1)) / dt.timedelta(seconds=1))
    _expect(text, not (found[2] or "").endswith(("60", "61")))  # strptime knows leap seconds
    if kind == "date":
        return seconds // 86400
    nanos = seconds * 10**9 + int((found[3] or "").ljust(9, "0"))
    _expect(nanos, not -999_000_000 <= nanos < 0)
    return _expect(nanos, -9_223_372_036 * 10**9 <= nanos < 2**63)


def _floating(text, kind):
    value = float(text)
    if kind == "float":
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError as error:
            raise Bad("overflow") from error
    return _expect(value, math.isfinite(value))


def _decimal(text, precision, scale):
    try:
        value = Decimal(text)
        scaled = value.scaleb(scale, Context(prec=10_000, Emax=10**9, Emin=-(10**9)))
    except InvalidOperation as error:
        raise Bad("decimal") from error
    if value and (scaled.adjusted() > 60 or scaled.adjusted() < -60):
        raise Bad("decimal")
    _expect(text, scaled == scaled.to_integral_value() and abs(scaled) < 10**precision)
    return value
