"""One CSV record is one row: framing, fast and slow path against an oracle, and the oracle against Python's csv."""

from __future__ import annotations

import csv
import io
import itertools
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hive_ingest.model import Column
from hive_ingest.record_writer import CsvWriter, RecordSchema
from hive_ingest.record_writer.csv import blocks as csv_blocks
from hive_ingest.record_writer.csv.framing import CsvFraming
from hive_ingest.schema import parse_type
from tests.property.record_writer import oracle
from tests.property.record_writer.parsing_support import check, each_way, expected, run, schema_of

SCHEMAS = [
    schema_of(id="int", user="string", value="double"),
    schema_of(user="string"),
    schema_of(id="bigint"),
    schema_of(a="string", b="varchar(3)", c="char(3)"),
    schema_of(tiny="tinyint", flag="boolean", f="float", d="decimal(5,2)"),
    schema_of(b="binary", day="date", at="timestamp"),
]
VALUES = {
    "int": ["1", "-2147483648", " 1", "0x1F", "+7", "3000000000"],
    "bigint": ["1", "-9223372036854775808", "1 ", "x"],
    "tinyint": ["127", "128", "\t1"],
    "double": ["1.5", ".5", "nan", "NaN", "1e400", "0x1"],
    "float": ["1.5", "1e39", "inf"],
    "decimal(5,2)": ["1.50", "1.234", "1000"],
    "string": ["a", " b ", "a\nb", "a\r\nb", "a\rb", 'say "hi"', "a,b", "\ufeffx", "é\u2028", "\x00", "NULL"],
    "varchar(3)": ["abc", "abcd", "a,\n"],
    "char(3)": ["ab    ", "abcd", 'a"b'],
    "boolean": ["true", "FALSE", "tRue", "1"],
    "binary": ["YQ==", "YQ"],
    "date": ["2024-02-29", "2023-02-29"],
    "timestamp": ["2024-02-29 23:59:59.5", "2024-02-29"],
}
#: Pieces of text that is hardly CSV.
JUNK = ['"', '""', ",", "\n", "\r\n", "\r", "a", "1", " ", ";", "\ufeff", "'", '",', ',"']
#: What can go wrong with escapes.
ESCAPES = ["\\", '\\"', "\\,", "\\\n", "\\\\", "\\N", "\\\r\n", '"\\', '\\""', "\\ ", "0\\x1", "é\\é"]


#: The text of each field, and as it is written if it is not quoted.
Fields: TypeAlias = list[tuple[str, str | None]]


@dataclass
class Machine:
    """Reads CSV one character after the other."""

    text: str
    delimiter: str
    quote: str
    escape: str = ""
    ends: list[int] = field(default_factory=list)
    #: Whether the text ends inside quotes.
    is_open: bool = False

    def records(self) -> list[Fields | None]:
        """The fields of each record; None for a malformed one."""
        found: list[Fields | None] = []
        self.at = 0
        while self.at < len(self.text):
            found.append(self._record())
            self.ends.append(self.at)
        return found

    def _record(self) -> Fields | None:
        fields: Fields = []
        is_good = True
        while True:
            text, raw, is_closed = self._field()
            is_good = is_good and is_closed
            fields.append((text, raw))
            if self.at >= len(self.text) or self.text[self.at] == "\n":
                self.at += self.at < len(self.text)
                return fields if is_good else None
            self.at += 1

    def _escaped(self) -> str | None:
        """Passes an escape and the character after it, if they come next. Returns that character.

        Empty if there is none: at the end of the text, or before the newline there.
        """
        if not self.escape or not self.text.startswith(self.escape, self.at):
            return None
        if self.text[self.at + 1 :] == "\n":
            self.at += 1
            return ""
        self.at += 2
        return self.text[self.at - 1 : self.at]

    def _field(self) -> tuple[str, str | None, bool]:
        """Text, the same as it is written if it is not quoted, and whether it is well-formed."""
        inner = ""
        is_good = True
        is_quoted = self.quote != "" and self.text.startswith(self.quote, self.at)
        if is_quoted:
            self.at += 1
            while True:
                if self.at >= len(self.text):
                    self.is_open = True
                    self.at = len(self.text)
                    return inner, None, False
                if (data := self._escaped()) is not None:
                    inner += data
                elif self.text.startswith(self.quote * 2, self.at):
                    inner, self.at = inner + self.quote, self.at + 2
                elif self.text[self.at] == self.quote:
                    self.at += 1
                    break
                else:
                    inner, self.at = inner + self.text[self.at], self.at + 1
        start, rest = self.at, ""
        ends_in_data = False
        while self.at < len(self.text) and self.text[self.at] not in (self.delimiter, "\n"):
            if (data := self._escaped()) is not None:
                rest, ends_in_data = rest + data, True
                is_good = is_good and data != ""
            else:
                rest, ends_in_data, self.at = rest + self.text[self.at], False, self.at + 1
        self.at = min(self.at, len(self.text))
        raw = self.text[start : self.at]
        if (self.at >= len(self.text) or self.text[self.at] == "\n") and raw.endswith("\r"):
            raw = raw[:-1]
            if ends_in_data:  # the carriage return of the line's end is removed first
                is_good = False
            rest = rest[:-1]
        return (inner, None, not rest and is_good) if is_quoted else (rest, raw, is_good)


def row_of(fields: Fields | None, columns: tuple[Column, ...], nulls: list[str], *, lenient: bool) -> Any:
    if fields is None or (len(fields) != len(columns) and not lenient):
        raise oracle.Bad
    row: list[Any] = [None] * len(columns)
    for place, (column, (text, raw)) in enumerate(zip(columns, fields, strict=False)):
        if raw not in nulls:
            row[place] = oracle.text_value(text, parse_type(column.type), non_finite=True)
    return tuple(row)


@st.composite
def texts(draw: st.DrawFn, escape: str = "") -> tuple[RecordSchema, str]:
    """A table, and text that is CSV for it, nearly or not at all."""
    schema = draw(st.sampled_from(SCHEMAS))
    junk = [*JUNK, *ESCAPES] if escape else JUNK
    if draw(st.integers(0, 5)) == 0:
        return schema, draw(st.lists(st.sampled_from(junk), max_size=30).map("".join))
    lines = []
    good = draw(st.booleans())
    for _ in range(draw(st.integers(1, 8))):
        fields = []
        for column in schema.columns:
            value = draw(st.sampled_from([*VALUES[column.type][: 2 if good else None], ""]))
            needs = any(character in value for character in ',"\n\r')
            if needs or draw(st.booleans()):
                double = escape + '"' if escape and draw(st.booleans()) else '""'
                value = '"' + value.replace('"', double) + '"'
            fields.append(value)
        if not good and draw(st.integers(0, 6)) == 0:
            fields[draw(st.integers(0, len(fields) - 1))] += draw(st.sampled_from(junk))
        if escape and draw(st.integers(0, 3)) == 0:
            place = draw(st.integers(0, len(fields) - 1))
            at = draw(st.integers(0, len(fields[place])))
            fields[place] = fields[place][:at] + escape + fields[place][at:]
        lines.append(",".join(fields) + draw(st.sampled_from(["\n", "\n", "\r\n"])))
    text = "".join(lines)
    return schema, text.removesuffix("\n") if draw(st.booleans()) else text


@given(
    case=st.sampled_from(["", "\\"]).flatmap(lambda escape: st.tuples(texts(escape), st.just(escape))),
    cut=st.integers(0, 200),
    quote=st.sampled_from(['"', '"', "", "'"]),
)
def test_text_is_divided_where_a_machine_of_characters_divides_it(
    case: tuple[tuple[RecordSchema, str], str], cut: int, quote: str
) -> None:
    """In one go, and in two pieces cut anywhere; what is called regular has no malformed record."""
    (_, text), escape = case
    machine = Machine(text, ",", quote, escape)
    records = machine.records()
    ends = [len(text[:end].encode()) for end in machine.ends]
    framing = CsvFraming(b",", quote.encode(), escape.encode())
    whole = framing.whole_records(text.encode(), is_last=True)
    assert whole.ends.tolist() == ends
    assert not (whole.is_regular and None in records)
    first = framing.whole_records(text.encode()[:cut])
    rest = framing.whole_records(text.encode()[len(first.text) :], is_last=True)
    assert [*first.ends, *(rest.ends + len(first.text))] == ends
    assert not (first.is_regular and None in records[: first.count])
    assert not (rest.is_regular and None in records[first.count :])
    inner = [record.removesuffix(b"\n").count(b"\n") for record in _parts(text.encode(), ends)]
    found = whole.inner_newlines()
    assert (found.tolist() if found is not None else [0] * len(ends)) == list(itertools.accumulate(inner))
    assert (found is None) == (not any(inner))
    tail = text.encode()[len(first.text) :][: max(cut - len(first.text), 0)]
    assert framing.ends_in_quotes(tail) == ends_in_quotes(tail.decode("utf-8", "replace"), quote, escape)


def ends_in_quotes(text: str, quote: str, escape: str) -> bool:
    machine = Machine(text, ",", quote, escape)
    machine.records()
    return machine.is_open


def _parts(text: bytes, ends: list[int]) -> list[bytes]:
    return [text[start:end] for start, end in itertools.pairwise([0, *ends])]


@given(case=texts())
def test_the_machine_reads_what_pythons_csv_reads(case: tuple[RecordSchema, str]) -> None:
    """Python's csv ends a record at a lone carriage return, and drops empty lines."""
    text = case[1].replace("\r", "")
    records = Machine(text, ",", '"').records()
    if None in records:
        return
    found = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    assert found == [[value for value, _ in record or []] for record in records if record != [("", "")]]


@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    case=st.sampled_from(["", "\\"]).flatmap(lambda escape: st.tuples(texts(escape), st.just(escape))),
    nulls=st.sampled_from([[""], [""], [], ["NULL", "a", "\\N"]]),
    lenient=st.booleans(),
    skips=st.booleans(),
    block_bytes=st.sampled_from([20, 1 << 20]),
    has_header=st.booleans(),
    as_file=st.booleans(),
)
def test_one_record_is_one_row_with_the_oracles_values(
    case: tuple[tuple[RecordSchema, str], str],
    nulls: list[str],
    lenient: bool,
    skips: bool,
    block_bytes: int,
    has_header: bool,
    as_file: bool,
) -> None:
    (schema, text), escape = case
    records = Machine(text.removeprefix("\ufeff"), ",", '"', escape).records() if text else [[("", "")]]
    if not text and (has_header or as_file):
        records = []
    wanted = expected(records, lambda record: row_of(record, schema.columns, nulls, lenient=lenient))
    header = ",".join(column.name.upper() for column in schema.columns) + "\r\n" if has_header else ""
    if has_header:
        text = "\ufeff" + header + text.removeprefix("\ufeff")
    for _ in each_way(csv_blocks):
        writer = CsvWriter(
            header=has_header,
            escape=escape or None,
            null_values=nulls,
            missing_fields="null" if lenient else "fail",
            on_error="skip" if skips else "fail",
            block_bytes=block_bytes,
        )
        given_text = io.BytesIO(text.encode()) if as_file else text
        check(run(writer, schema, [given_text]), wanted, skips=skips)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_each_value_is_read_as_the_oracle_reads_it_quoted_and_not(schema: RecordSchema) -> None:
    """In a block that is clean otherwise, so that the fast path alone must see it."""
    line = [VALUES[column.type][0] for column in schema.columns]
    for place, column in enumerate(schema.columns):
        for value in [*VALUES[column.type], ""]:
            for written in (value, '"' + value.replace('"', '""') + '"'):
                odd = [*line[:place], written, *line[place + 1 :]]
                text = "".join(",".join(each) + "\n" for each in (line, odd, line, line))
                wanted = expected(
                    Machine(text, ",", '"').records(), lambda r: row_of(r, schema.columns, [""], lenient=False)
                )
                for _ in each_way(csv_blocks):
                    check(run(CsvWriter(header=False, on_error="skip"), schema, [text]), wanted, skips=True)


@given(
    arguments=st.lists(st.lists(st.sampled_from([*JUNK, *ESCAPES]), max_size=8).map("".join), max_size=5),
    escape=st.sampled_from(["", "\\"]),
)
def test_every_argument_and_every_item_is_separate(arguments: list[str], escape: str) -> None:
    schema = schema_of(a="string", b="string")
    nulls = [""]
    texts = [Machine(text.removeprefix("\ufeff") or "\n", ",", '"', escape).records() for text in arguments]
    by_argument = expected(
        [record for each in texts for record in each],
        lambda record: row_of(record, schema.columns, nulls, lenient=False),
    )
    items: list[Any] = []
    for text in arguments:
        found = Machine(text if text.endswith("\n") else text + "\n", ",", '"', escape).records()
        items.append(found[0] if len(found) == 1 else None)
    by_item = expected(items, lambda record: row_of(record, schema.columns, nulls, lenient=False))
    for _ in each_way(csv_blocks):
        writer = CsvWriter(header=False, escape=escape or None, on_error="skip")
        check(run(writer, schema, [text.encode() for text in arguments]), by_argument, skips=True)
        if arguments:
            check(run(writer, schema, [arguments]), by_item, skips=True)
