"""The spelling of keys in a block: taken from a sample, and verified by the parse itself.

Arrow's reader matches keys exactly. A shape maps columns to the keys of the input; read with "unexpected field is an
error", a block that parses has no other key. If unknown fields are ignored, the reader skips them silently,
so every quoted word before a colon is compared instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hive_ingest.arrow_arrays import number_array
from hive_ingest.record_writer.bad_records import BadValue, Doubt
from hive_ingest.record_writer.json.leaves import NumberText
from hive_ingest.record_writer.json.records import decode
from hive_ingest.record_writer.json.wire import READ_AS_TEXT, Path
from hive_ingest.schema import HiveType

_QUOTE: Final = ord('"')
#: What may follow the closing quote of a key.
_AFTER_KEY: Final = np.isin(np.arange(256), np.frombuffer(b": \t\r\n", np.uint8))
#: The characters around a bare word; the i is that of Infinity.
_BEFORE_WORD: Final = np.isin(np.arange(256), np.frombuffer(b":,[- \t\r\n", np.uint8))
_AFTER_WORD: Final = np.isin(np.arange(256), np.frombuffer(b"i,]} \t\r\n", np.uint8))


@dataclass(frozen=True)
class Shape:
    """The keys of columns and struct fields, by path of names. A missing key is the name of its column."""

    spelling: Mapping[Path, str] = field(default_factory=dict)
    #: Whether fields that match no column are skipped, rather than an error.
    skips_unknown: bool = False
    #: The timestamps that are numbers.
    numbers: frozenset[Path] = frozenset()
    #: The numbers and booleans that are strings, which `coerce` may accept.
    texts: frozenset[Path] = frozenset()

    def key(self, path: Path) -> str:
        return self.spelling.get(path, path[-1])


def sample_shape(records: Iterable[bytes], fields: Any) -> tuple[Shape, frozenset[str]]:
    """The shape of a sample, and its unknown fields (dotted, in lower case).

    Raises:
        Doubt: A column is spelled in two ways, or a record is not valid.
    """
    spellings = _Spellings()
    try:
        for record in records:
            spellings.collect(decode(record), fields, ())
    except BadValue as bad:
        raise Doubt(str(bad)) from bad
    shape = Shape(spellings.spelling, bool(spellings.unknown), frozenset(spellings.numbers), frozenset(spellings.texts))
    return shape, frozenset(spellings.unknown)


class OtherShape(Doubt):
    """The block has a key that the shape does not have, or numbers for strings: another shape may fit."""


class _Spellings:
    def __init__(self) -> None:
        self.spelling: dict[Path, str] = {}
        self.unknown: set[str] = set()
        self.numbers: set[Path] = set()
        self.texts: set[Path] = set()

    def collect(self, value: Any, fields: Any, path: Path) -> None:
        """Record every key of an object that should hold `fields`. Ignore values of other kinds."""
        if type(value) is not tuple:
            return
        types = dict(fields)
        for key, item in value:
            name = key.lower()
            if name not in types:
                self.unknown.add(".".join((*path, name)))
                continue
            if self.spelling.setdefault((*path, name), key) != key:
                raise Doubt("two spellings of one column")
            self._collect_inside(item, types[name], (*path, name))

    def _collect_inside(self, value: Any, type_: HiveType, path: Path) -> None:
        if type_.kind == "struct":
            self.collect(value, type_.children, path)
        elif type_.kind == "array" and type(value) is list:
            for item in value:
                self._collect_inside(item, type_.children[0][1], path)
        elif type_.kind == "timestamp" and type(value) is NumberText:
            self.numbers.add(path)
        elif type_.kind in READ_AS_TEXT and type(value) is str:
            self.texts.add(path)


class UnknownGuard:
    """Proves that the unknown fields of a block, which are skipped, include no other spelling of a column."""

    def __init__(self, shape: Shape, fields: Any) -> None:
        keys: dict[str, str] = {}
        for path in _paths(fields, ()):
            key = shape.key(path)
            if keys.setdefault(path[-1], key) != key or set('"\\') & set(key):
                raise Doubt("a name that is spelled differently at two levels, or has a quote in it")
        self._keys = keys

    def check(self, text: bytes) -> None:
        """Raises Doubt. `text` is UTF-8."""
        data = np.frombuffer(text, np.uint8)
        if _has_word(data, b"NaN") or _has_word(data, b"Inf"):
            raise Doubt("a number that is not JSON")
        for word in _words_before_colons(text, data):
            if b"\\" in word:
                word = _unescaped(word)
            key = word.decode("utf-8", "replace")
            if self._keys.get(key.lower(), key) != key:
                raise OtherShape("another spelling of a column")


def may_have_other_keys(lines: bytes, names: Set[str]) -> bool:
    """Whether a key, at any level of whole lines, may be none of the names, which are in lower case."""
    if b'\\"' in lines:
        return True  # not every quote begins or ends a string
    text = lines if lines.endswith(b"\n") else lines + b"\n"
    words = _words_before_colons(text, np.frombuffer(text, np.uint8))
    return any(word.decode("utf-8", "replace").lower() not in names for word in words)


def _paths(fields: Any, above: Path) -> Iterable[Path]:
    for name, type_ in fields:
        path = (*above, name)
        yield path
        while type_.kind == "array":
            type_ = type_.children[0][1]
        if type_.kind == "struct":
            yield from _paths(type_.children, path)


def _has_word(data: Any, word: bytes) -> bool:
    """Whether a bare word starts where a JSON value may start (or a string contains something similar)."""
    at = np.flatnonzero(data[1 : -len(word)] == word[0]) + 1
    at = at[_BEFORE_WORD[data[at - 1]]]
    for offset in range(1, len(word)):
        at = at[data[at + offset] == word[offset]]
    return bool(_AFTER_WORD[data[at + len(word)]].any())


def _words_before_colons(text: bytes, data: Any) -> list[bytes]:
    """Each distinct text between two quotes, the second of which may end a key."""
    quotes = np.flatnonzero(data == _QUOTE)
    if len(quotes) < 2:
        return []
    offsets = pa.py_buffer(quotes.astype(np.int32))
    between = pa.Array.from_buffers(pa.binary(), len(quotes) - 1, [None, offsets, pa.py_buffer(text)])
    ends_key = np.flatnonzero(_AFTER_KEY[data[quotes[1:] + 1]])
    return [word[1:] for word in pc.unique(between.take(number_array(ends_key))).to_pylist()]


def _unescaped(word: bytes) -> bytes:
    try:
        return str(json.loads(b'"%s"' % word)).encode("utf-8", "replace")
    except ValueError:  # the word starts or ends inside an escape, so it is not a whole key
        return word
