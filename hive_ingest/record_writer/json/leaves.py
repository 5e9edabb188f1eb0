"""JSON values that are not objects or arrays, and their conversion to primitive types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from hive_ingest.record_writer.bad_records import BadValue, shown
from hive_ingest.record_writer.values import lossless_values, strict_values
from hive_ingest.record_writer.values.coercion import Coerce
from hive_ingest.record_writer.values.text_forms import DateFormats, TextForms, field_converter
from hive_ingest.record_writer.values.timestamp_formats import STRICT_TIMESTAMPS, TimestampFormats
from hive_ingest.schema import HiveType

BinaryFormat = Literal["base64", "rawstring"]
#: Converts a decoded JSON value other than null; raises BadValue.
JsonConverter = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class JsonForms:
    """The forms of values that are accepted."""

    binary_format: BinaryFormat = "base64"
    timestamps: TimestampFormats = STRICT_TIMESTAMPS
    coerce: Coerce = "strict"
    dates: DateFormats | None = None

    def text_converter(self, type_: HiveType, coerce: Coerce) -> strict_values.Converter:
        """The converter of texts to a primitive type."""
        return field_converter(type_, TextForms(self.timestamps, coerce, self.dates))


class NumberText(str):
    """The text of a JSON number."""

    __slots__ = ()


def strict_leaf(type_: HiveType, forms: JsonForms) -> JsonConverter:
    """The converter to a primitive type by the strict rules."""
    if type_.kind == "boolean":
        return _boolean
    if type_.kind in strict_values.INTEGER_BITS:
        return _number(strict_values.integer(type_.kind), type_.kind)
    if type_.kind in ("float", "double"):
        return _number(strict_values.floating(type_.kind), type_.kind)
    if type_.kind == "decimal":
        return _decimal(strict_values.decimal_number(*type_.parameters), str(type_))
    if type_.kind == "binary" and forms.binary_format == "rawstring":
        return _string(str.encode, "binary")
    if type_.kind == "timestamp":
        return _timestamp(forms.timestamps)
    return _string(forms.text_converter(type_, "strict"), str(type_))


def lossless_leaf(type_: HiveType, forms: JsonForms) -> JsonConverter:
    """The converter of values that the strict rules do not accept, where they stand for exactly one value."""
    kind = type_.kind
    if kind == "boolean":
        return lambda value: lossless_values.boolean(_text_of(value, "boolean"))
    if kind in ("string", "char", "varchar"):
        return _characters(strict_values.from_text(type_, forms.timestamps.nanos), is_string=kind == "string")
    from_text = forms.text_converter(type_, "lossless")
    if kind in (*strict_values.INTEGER_BITS, "float", "double", "decimal"):
        return lambda value: from_text(_text_of(value, kind))
    return _string(from_text if kind != "binary" else _no_further_binary, str(type_))


def _text_of(value: Any, kind: str) -> str:
    """The text of a string or number."""
    if not isinstance(value, str):
        raise BadValue(f"{described(value)}, {kind} requires a number or a string")
    return str(value)


def _no_further_binary(text: str) -> object:
    raise BadValue(f"{shown(text)} is not base64, as binary requires")


def _characters(convert: strict_values.Converter, *, is_string: bool) -> JsonConverter:
    def from_value(value: Any) -> object:
        if isinstance(value, bool):
            return convert("true" if value else "false")
        if isinstance(value, str):
            return convert(utf8(str(value)))
        if not is_string:
            raise BadValue(f"{described(value)}, only a string column can hold its text")
        return utf8(json_text(value))

    return from_value


def json_text(value: Any, number: Callable[[str], str] = str) -> str:
    """A decoded value as JSON, without blanks.

    Args:
        value: The value.
        number: Returns the JSON of a number, from its text.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, NumberText):
        return number(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, tuple):
        return "{" + ",".join(f"{_quoted(key)}:{json_text(item, number)}" for key, item in value) + "}"
    return "[" + ",".join(json_text(item, number) for item in value) + "]"


#: As Jackson writes strings.
_ESCAPES: Final = {char: f"\\u{char:04X}" for char in range(32)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\b"): "\\b",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\f"): "\\f",
    ord("\r"): "\\r",
}


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _number(convert_text: strict_values.Converter, kind: str) -> JsonConverter:
    def convert(value: Any) -> object:
        if type(value) is not NumberText:
            raise BadValue(f"{described(value)}, {kind} requires a JSON number")
        return convert_text(value)

    return convert


def _decimal(convert_text: strict_values.Converter, kind: str) -> JsonConverter:
    def convert(value: Any) -> object:
        if type(value) is not NumberText and type(value) is not str:
            raise BadValue(f"{described(value)}, {kind} requires a JSON number, or one in a string")
        return convert_text(value)

    return convert


def _string(convert_text: Callable[[str], object], kind: str) -> JsonConverter:
    def convert(value: Any) -> object:
        if type(value) is not str:
            raise BadValue(f"{described(value)}, {kind} requires a JSON string")
        return convert_text(value if value.isascii() else utf8(value))

    return convert


def _timestamp(formats: TimestampFormats) -> JsonConverter:
    from_string = _string(formats.nanos, "timestamp")

    def convert(value: Any) -> object:
        return formats.number_nanos(value) if type(value) is NumberText else from_string(value)

    return convert


def _boolean(value: Any) -> object:
    if value is not True and value is not False:
        raise BadValue(f"{described(value)}, boolean requires true or false")
    return value


def utf8(text: str) -> str:
    """The text, if it can be encoded. Raises BadValue."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadValue(f"{shown(text)} has half a surrogate pair, which UTF-8 cannot encode") from error
    return text


def described(value: Any) -> str:
    """The JSON kind of a decoded value, with the value if it is short."""
    if value is None:
        return "the value is null"
    if isinstance(value, bool):
        return f"the value is {'true' if value else 'false'}"
    if isinstance(value, NumberText):
        return f"{shown(str(value)).strip(chr(39))} is a number"
    if isinstance(value, str):
        return f"{shown(value)} is a string"
    return "the value is an object" if isinstance(value, tuple) else "the value is an array"
