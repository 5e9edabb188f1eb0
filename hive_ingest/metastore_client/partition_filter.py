"""The metastore's filter language over partition values.

    filter     := and ( "or" and )*
    and        := not ( "and" not )*
    not        := "not" not | "(" filter ")" | comparison
    comparison := key operator literal | literal operator key | key [ "not" ] "between" literal "and" literal
    operator   := "=" | "!=" | "<>" | "<" | "<=" | ">" | ">=" | "like"

Values are compared as the key's type: numbers as numbers, dates as dates, everything else as text. A null partition
value meets no comparison, except that a text key may be compared with `__HIVE_DEFAULT_PARTITION__` itself.
Source: Hive's `PartitionFilter.g4` and `ExpressionTree`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from hive_ingest.errors import ConfigurationError
from hive_ingest.model import DEFAULT_PARTITION_NAME, Column
from hive_ingest.schema import parse_type

#: Whether a partition with these text values, in key order, is selected.
Predicate = Callable[[Sequence[str]], bool]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>"(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*')
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<operator><=|>=|!=|<>|=|<|>)
      | (?P<mark>[()])
      | (?P<word>`[^`]+`|[A-Za-z_]\w*)
    )""",
    re.VERBOSE,
)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FRACTIONS = ("decimal", "double", "float")
_KEYWORDS = ("and", "or", "not", "like", "between")


def parse_filter(text: str, keys: Sequence[Column]) -> Predicate:
    """Raises ConfigurationError: where the text cannot be read, or a key or literal that does not fit."""
    return _Parser(text, keys).parse()


def _converter(type_: str) -> Callable[[str], Any]:
    kind = parse_type(type_).kind
    if kind in _INTEGERS:
        return int
    if kind in _FRACTIONS:
        return Decimal
    return date.fromisoformat if kind == "date" else str


class _Parser:
    def __init__(self, text: str, keys: Sequence[Column]) -> None:
        self.text = text
        self.keys = {key.name: (index, key) for index, key in enumerate(keys)}
        self.tokens = list(self._tokenize())
        self.at = 0

    def _tokenize(self) -> list[tuple[str, str, int]]:
        found, at = [], 0
        while self.text[at:].strip():
            match = _TOKEN.match(self.text, at)
            if match is None or match.lastgroup is None:
                raise self._error("this cannot be read", at + len(self.text[at:]) - len(self.text[at:].lstrip()))
            found.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            at = match.end()
        return found

    def _error(self, why: str, position: int) -> ConfigurationError:
        return ConfigurationError(
            f"partition filter {self.text!r}: {why} at position {position} ({self.text[position : position + 20]!r}); "
            'write it as in \'country = "India" and (month > 3 or day like "1%")\''
        )

    def _fail(self, why: str) -> NoReturn:
        position = self.tokens[self.at][2] if self.at < len(self.tokens) else len(self.text)
        raise self._error(why, position)

    def _peek(self) -> str:
        """The next token in lower case, if it is a keyword, an operator or a parenthesis."""
        if self.at == len(self.tokens):
            return ""
        kind, text, _ = self.tokens[self.at]
        return text.lower() if kind in ("word", "operator", "mark") else ""

    def _take(self, expected: str) -> bool:
        if self._peek() != expected:
            return False
        self.at += 1
        return True

    def parse(self) -> Predicate:
        found = self._either()
        if self.at < len(self.tokens):
            self._fail("the filter should end here")
        return found

    def _either(self) -> Predicate:
        parts = [self._both()]
        while self._take("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else lambda values: any(part(values) for part in parts)

    def _both(self) -> Predicate:
        parts = [self._negation()]
        while self._take("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else lambda values: all(part(values) for part in parts)

    def _negation(self) -> Predicate:
        if self._take("not"):
            negated = self._negation()
            return lambda values: not negated(values)
        if not self._take("("):
            return self._comparison()
        found = self._either()
        if not self._take(")"):
            self._fail("expected )")
        return found

    def _comparison(self) -> Predicate:
        if self.at < len(self.tokens) and self.tokens[self.at][0] in ("text", "number"):
            position = self.at
            self._literal()
            sign = self._operator()
            key = self._key()
            after, self.at = self.at, position
            literal = self._literal()
            self.at = after
            return self._compare(key, _MIRRORED.get(sign, sign), literal)
        key = self._key()
        if self._take("not"):
            return self._between(key, negated=True) if self._take("between") else self._fail("expected between")
        if self._take("between"):
            return self._between(key, negated=False)
        if self._take("like"):
            return _like(key[0], self._literal())
        return self._compare(key, self._operator(), self._literal())

    def _key(self) -> tuple[int, Column]:
        if self.at == len(self.tokens) or self.tokens[self.at][0] != "word" or self._peek() in _KEYWORDS:
            self._fail("expected a partition key")
        name = self.tokens[self.at][1].strip("`").lower()
        if name not in self.keys:
            self._fail(f"{name!r} is not a partition key (the keys are {', '.join(self.keys) or 'none'})")
        self.at += 1
        return self.keys[name]

    def _operator(self) -> str:
        sign = self._peek()
        if sign not in _OPERATORS:
            self._fail("expected an operator")
        self.at += 1
        return sign

    def _literal(self) -> str:
        if self._peek() == "date":  # date "2024-01-31", or without quotes as older clients write it
            self.at += 1
        if self.at == len(self.tokens) or self.tokens[self.at][0] not in ("text", "number"):
            self._fail("expected a text in quotes or a number")
        kind, text, _ = self.tokens[self.at]
        self.at += 1
        return re.sub(r"\\(.)", r"\1", text[1:-1]) if kind == "text" else text

    def _converted(self, key: Column, literal: str) -> Any:
        try:
            return _converter(key.type)(literal)
        except (ValueError, InvalidOperation):
            self.at -= 1
            self._fail(f"{literal!r} is not of type {key.type}, the type of partition key {key.name!r}")

    def _compare(self, key: tuple[int, Column], sign: str, literal: str) -> Predicate:
        index, column = key
        convert, compare = _converter(column.type), _OPERATORS[sign]
        if literal == DEFAULT_PARTITION_NAME:
            return lambda values: compare(values[index], literal)
        wanted = self._converted(column, literal)
        return lambda values: _holds(values[index], convert, lambda value: compare(value, wanted))

    def _between(self, key: tuple[int, Column], *, negated: bool) -> Predicate:
        index, column = key
        low = self._converted(column, self._literal())
        if not self._take("and"):
            self._fail("expected and")
        high = self._converted(column, self._literal())
        convert = _converter(column.type)
        return lambda values: _holds(values[index], convert, lambda value: (low <= value <= high) != negated)


def _holds(value: str, convert: Callable[[str], Any], test: Callable[[Any], bool]) -> bool:
    if value == DEFAULT_PARTITION_NAME:
        return False
    try:
        return test(convert(value))
    except (ValueError, InvalidOperation):
        return False  # a value that its type cannot hold, such as month=unknown


def _like(index: int, pattern: str) -> Predicate:
    """SQL's LIKE: % any text, _ any character."""
    expression = re.escape(pattern).replace("%", ".*").replace("_", ".")
    wanted = re.compile(expression, re.DOTALL)
    return lambda values: values[index] != DEFAULT_PARTITION_NAME and wanted.fullmatch(values[index]) is not None
