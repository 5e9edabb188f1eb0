"""The syntax of filters as text: SQL conditions on columns, as a tree.

    filter    := and ( "or" and )*
    and       := not ( "and" not )*
    not       := "not" not | "(" filter ")" | condition
    condition := column test | literal operator column
    test      := operator literal
               | [ "not" ] "between" literal "and" literal
               | [ "not" ] "in" "(" literal ( "," literal )* ")"
               | [ "not" ] "like" text [ "escape" text ]
               | "is" [ "not" ] "null"
    operator  := "=" | "!=" | "<>" | "<" | "<=" | ">" | ">="
    column    := name ( "." name )*, where a name is a word, or anything in backquotes
    literal   := number | text | "true" | "false" | "date" text | "timestamp" text

A text stands in single or double quotes. Keywords and names are read without regard to case. The meaning of the tree
is defined where it is used: for rows in `reader.where`, for the metastore's partitions in
`metastore_client.partition_filter`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: Each comparison operator as a function of two values.
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_KEYWORDS = frozenset({"and", "or", "not", "in", "like", "escape", "between", "is", "null", "true", "false"})
_TYPED_LITERALS = frozenset({"date", "timestamp"})
_MAX_DEPTH = 100


def _tokens(inner: str) -> re.Pattern[str]:
    """`inner` matches what stands for one character of a text, with %s for the text's quote."""
    return re.compile(
        rf"""\s*(?:
            (?P<text>"(?:{inner.replace("%s", '"')})*" | '(?:{inner.replace("%s", "'")})*')
          | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?!\w)
          | (?P<operator><=|>=|!=|<>|=|<|>)
          | (?P<mark>[(),.])
          | (?P<word>[^\W\d]\w*)
          | (?P<quoted>`[^`]+`)
        )""",
        re.VERBOSE | re.DOTALL,
    )


_TOKENS, _TOKENS_WITH_ESCAPES = _tokens("[^%s]|%s%s"), _tokens(r"[^%s\\]|\\.")


class FilterSyntaxError(ValueError):
    """Why a filter cannot be used, and where in its text."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.position = position

    def describe(self, text: str, example: str) -> str:
        """A message about the filter `text` that shows the place, and how a filter looks."""
        rest = text[self.position : self.position + 20]
        place = f"{self.position} ({rest!r})" if rest else f"{self.position}, its end"
        return f"filter {text!r}: {self}, at position {place}; an example of a filter is {example}"


@dataclass(frozen=True, slots=True)
class ColumnName:
    """Names in lower case: of a column, then of fields in it."""

    path: tuple[str, ...]
    position: int

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as text; `kind` is "number", "text", "boolean", "date" or "timestamp"."""

    kind: str
    value: str
    position: int


@dataclass(frozen=True, slots=True)
class Comparison:
    column: ColumnName
    operator: str
    value: Literal


@dataclass(frozen=True, slots=True)
class Between:
    """`negated` is "not between", which the metastore does not take for the negation of "between"."""

    column: ColumnName
    low: Literal
    high: Literal
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In:
    column: ColumnName
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`escape` is the character that makes the one after it stand for itself."""

    column: ColumnName
    pattern: Literal
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class IsNull:
    column: ColumnName


@dataclass(frozen=True, slots=True)
class Not:
    condition: Condition


@dataclass(frozen=True, slots=True)
class And:
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    conditions: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Between | In | Like | IsNull | Not | And | Or


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


def parse_condition(text: str, *, backslash_escapes: bool = False, column: str = "a column") -> Condition:
    """The tree of a filter.

    Args:
        text: The filter.
        backslash_escapes: How a quote is written in a text: after a backslash, as in Hive's metastore, or else doubled,
            as in SQL.
        column: What a column is called in errors.

    Raises:
        FilterSyntaxError: It cannot be read.
    """
    return _Parser(text, backslash_escapes, column).parse()


class _Parser:
    def __init__(self, text: str, backslash_escapes: bool, column: str) -> None:
        self._text = text
        self._backslash_escapes = backslash_escapes
        self._column_noun = column
        self._tokens = self._tokenize()
        self._at = 0
        self._depth = 0

    def parse(self) -> Condition:
        found = self._or()
        if self._at < len(self._tokens):
            self._fail("expected 'and', 'or' or the end of the filter")
        return found

    # -- tokens ------------------------------------------------------------------------------------

    def _tokenize(self) -> list[_Token]:
        pattern = _TOKENS_WITH_ESCAPES if self._backslash_escapes else _TOKENS
        found, at, end = [], 0, len(self._text.rstrip())
        while at < end:
            match = pattern.match(self._text, at)
            if match is None or match.lastgroup is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                is_quote = self._text[at] in "'\""
                raise FilterSyntaxError("the closing quote is missing" if is_quote else "unexpected text", at)
            found.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            at = match.end()
        return found

    def _fail(self, reason: str, at: int | None = None) -> NoReturn:
        at = self._at if at is None else at
        position = self._tokens[at].position if at < len(self._tokens) else len(self._text)
        raise FilterSyntaxError(reason, position)

    def _kind(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at].kind if at < len(self._tokens) else ""

    def _peek(self) -> str:
        """The next token in lower case, if it is a word, an operator or a mark."""
        return self._tokens[self._at].text.lower() if self._kind() in ("word", "operator", "mark") else ""

    def _take(self, expected: str) -> bool:
        if self._peek() != expected:
            return False
        self._at += 1
        return True

    def _expect(self, expected: str) -> None:
        if not self._take(expected):
            self._fail(f"expected {expected!r}")

    # -- conditions --------------------------------------------------------------------------------

    def _or(self) -> Condition:
        parts = self._joined("or", lambda: self._and())
        return parts[0] if len(parts) == 1 else Or(parts)

    def _and(self) -> Condition:
        parts = self._joined("and", lambda: self._not())
        return parts[0] if len(parts) == 1 else And(parts)

    def _joined(self, word: str, part: Callable[[], Condition]) -> tuple[Condition, ...]:
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return tuple(parts)

    def _not(self) -> Condition:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(f"more than {_MAX_DEPTH} levels of parentheses and 'not'")
        if self._take("not"):
            found: Condition = Not(self._not())
        elif self._take("("):
            found = self._or()
            self._expect(")")
        else:
            found = self._condition()
        self._depth -= 1
        return found

    def _condition(self) -> Condition:
        if self._is_literal():
            value, operator = self._literal(), self._operator()
            return Comparison(self._column(), _MIRRORED.get(operator, operator), value)
        column = self._column()
        if self._take("is"):
            negated = self._take("not")
            self._expect("null")
            return Not(IsNull(column)) if negated else IsNull(column)
        if self._take("not"):
            found = self._negatable(column) or self._fail("expected 'between', 'in' or 'like'")
            return replace(found, negated=True) if isinstance(found, Between) else Not(found)
        return self._negatable(column) or Comparison(column, self._operator(), self._literal())

    def _negatable(self, column: ColumnName) -> Condition | None:
        if self._take("between"):
            low = self._literal()
            self._expect("and")
            return Between(column, low, self._literal())
        if self._take("in"):
            self._expect("(")
            values = [self._literal()]
            while self._take(","):
                values.append(self._literal())
            self._expect(")")
            return In(column, tuple(values))
        return self._like(column) if self._take("like") else None

    def _like(self, column: ColumnName) -> Condition:
        pattern = self._quoted_text()
        if not self._take("escape"):
            return Like(column, pattern)
        escape = self._quoted_text()
        if len(escape.value) != 1:
            self._fail("expected a single character in quotes", self._at - 1)
        return Like(column, pattern, escape.value)

    def _operator(self) -> str:
        sign = self._peek()
        if sign not in COMPARISONS:
            self._fail("expected an operator")
        self._at += 1
        return sign

    def _column(self) -> ColumnName:
        start = self._at
        path = [self._name()]
        while self._take("."):
            path.append(self._name())
        return ColumnName(tuple(path), self._tokens[start].position)

    def _name(self) -> str:
        if self._kind() not in ("word", "quoted") or self._peek() in _KEYWORDS:
            self._fail(f"expected {self._column_noun}")
        self._at += 1
        return self._tokens[self._at - 1].text.strip("`").lower()

    # -- literals ----------------------------------------------------------------------------------

    def _is_literal(self) -> bool:
        if self._kind() in ("text", "number") or self._peek() in ("true", "false"):
            return True
        return self._peek() in _TYPED_LITERALS and self._kind(1) == "text"

    def _literal(self) -> Literal:
        if not self._is_literal():
            if self._peek() == "null":
                self._fail("nothing is equal to null: use 'is null' or 'is not null'")
            self._fail("expected a quoted string or a number")
        token = self._tokens[self._at]
        if token.kind == "text":
            return self._quoted_text()
        self._at += 1
        if token.kind == "number":
            return Literal("number", token.text, token.position)
        kind = token.text.lower()
        if kind in _TYPED_LITERALS:
            return Literal(kind, self._quoted_text().value, token.position)
        return Literal("boolean", kind, token.position)

    def _quoted_text(self) -> Literal:
        if self._kind() != "text":
            self._fail("expected a quoted string")
        token = self._tokens[self._at]
        self._at += 1
        quote = token.text[0]
        value = token.text[1:-1]
        if self._backslash_escapes:
            value = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
        else:
            value = value.replace(quote * 2, quote)
        return Literal("text", value, token.position)
