"""`coerce` changes no value that the strict rules accept, and all paths of the parsers agree on what it accepts."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hive_ingest.record_writer import (
    CsvWriter,
    StrictDelimitedInputWriter,
    StrictJsonWriter,
    StrictRegexWriter,
)
from hive_ingest.record_writer.csv import blocks as csv_blocks
from hive_ingest.record_writer.delimited import blocks as delimited_blocks
from hive_ingest.record_writer.json import blocks as json_blocks
from tests.property.record_writer import test_delimited_property as delimited
from tests.property.record_writer import test_json_property as json_lines
from tests.property.record_writer.parsing_support import each_way, run, schema_of

SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def rows_each_way(module: Any, make: Any, schema: Any, records: list[bytes]) -> list[tuple[Any, ...]]:
    """The rows without bad records, which must be the same on every path."""
    text = b"\n".join(records) + b"\n"
    found = [run(make(), schema, [text]) for _ in each_way(module)]
    assert found[0] == found[1] == found[2]
    return found[0].rows


def strict_rows_stay(make: Any, schema: Any, records: list[bytes], choice: str) -> None:
    for record in records:
        strict = run(make(coerce="strict"), schema, [[record]])
        if strict.rows:
            assert run(make(coerce=choice), schema, [[record]]).rows == strict.rows


@pytest.mark.parametrize("choice", ["lossless", "hive"])
@settings(max_examples=60, suppress_health_check=SLOW)
@given(data=st.data())
def test_json_values(choice: str, data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(json_lines.SCHEMAS[:4]))
    fields = [
        st.tuples(
            st.just(column.name),
            json_lines.plain[column.type]
            | st.sampled_from(json_lines.doubtful.get(column.type) or json_lines.doubtful["string"]),
        )
        for column in schema.columns
        if column.type in json_lines.plain
    ]
    record = st.tuples(*fields).map(
        lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}" if pairs else '{"id":1}'
    )
    lines = data.draw(st.lists(record, min_size=1, max_size=6))
    records = [line.encode("utf-8", "surrogatepass") for line in lines]

    def make(**options: Any) -> Any:
        return StrictJsonWriter(on_error="skip", **{"coerce": choice} | options)

    rows_each_way(json_blocks, make, schema, records)
    strict_rows_stay(make, schema, records, choice)


@pytest.mark.parametrize("choice", ["lossless", "hive"])
@settings(max_examples=60, suppress_health_check=SLOW)
@given(data=st.data())
def test_texts(choice: str, data: st.DataObject) -> None:
    """The writers of text agree with each other, too, on fields that need neither quotes nor escapes."""
    schema = data.draw(st.sampled_from(delimited.SCHEMAS))
    plain = [each for each in itertools.chain(*delimited.special.values()) if not set(each) & set(',"\n\r\\')]
    fields = [delimited.plain[column.type] | st.sampled_from(plain) for column in schema.columns]
    lines = data.draw(st.lists(st.tuples(*fields).map(",".join), min_size=1, max_size=6))
    records = [line.encode("utf-8", "surrogateescape") for line in lines]

    def make(kind: Any = StrictDelimitedInputWriter, **options: Any) -> Any:
        return kind(on_error="skip", **{"coerce": choice} | options)

    expected = rows_each_way(delimited_blocks, make, schema, records)
    strict_rows_stay(make, schema, records, choice)
    regex = ",".join(["([^,]*)"] * len(schema.columns))
    assert run(make(StrictRegexWriter, regex=regex), schema, [records]).rows == expected
    csv = {"header": False, "null_values": [], "quote": None}
    assert rows_each_way(csv_blocks, lambda: make(CsvWriter, **csv), schema, records) == expected


@pytest.mark.parametrize("choice", ["lossless", "hive"])
@pytest.mark.parametrize("odd", ["7", " 7 ", "7.0", "x", "", "128", "+1", "TRUE", "t", "NaN", "0x1p3", "1e2"])
def test_numbers_and_booleans_in_strings(choice: str, odd: str) -> None:
    schema = schema_of(t="tinyint", b="boolean", d="double", s="struct<f:float>", a="array<int>")
    form = b'{"t":"%d","b":"true","d":"0.5","s":{"f":"1.5"},"a":["1","2"]}'
    records = [form % number for number in range(8)]
    records[5] = json.dumps({"t": odd, "b": odd, "d": odd, "s": {"f": odd}, "a": [odd]}).encode()

    def make(**options: Any) -> Any:
        return StrictJsonWriter(on_error="skip", **{"coerce": choice} | options)

    assert len(rows_each_way(json_blocks, make, schema, records)) >= 7


def test_a_block_of_numbers_in_strings_is_parsed_at_once() -> None:
    writer = StrictJsonWriter(coerce="lossless")
    records = b"".join(b'{"id":"%d","x":"%d.5"}\n' % (number, number) for number in range(100))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StrictJsonWriter, "_parse_records", None)
        rows = run(writer, schema_of(id="int", x="double"), [records]).rows
    assert rows[99] == (99, "99.5")
