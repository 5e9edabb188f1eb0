"""Records parsed by a regular expression."""

from __future__ import annotations

import io

import pytest

from hive_ingest.errors import ConfigurationError, SerializationError, StreamingConnectionError, UnsupportedFeature
from hive_ingest.record_writer import StrictRegexWriter
from tests.unit.record_writer.writing import parse_all, rows_of, schema_of

ACCESS_LOG = r'(\S+) \S+ (\S+) \[([^\]]+)\] "([^"]*)" (\d+) (\S+)'
REQUEST = b'127.0.0.1 - - [10/Oct/2024:13:55:36 +0200] "GET /a?b=1 HTTP/1.0" 200 -'


def test_the_groups_are_the_columns_in_their_order():
    writer = StrictRegexWriter(
        regex=ACCESS_LOG, null_values=["-"], timestamp_formats=["dd/MMM/yyyy:HH:mm:ss Z"], timezone="Europe/Berlin"
    )
    schema = schema_of(host="string", name="string", at="timestamp", request="string", status="int", size="bigint")
    [row] = rows_of(writer, schema, REQUEST)
    assert str(row.pop("at")) == "2024-10-10 13:55:36"
    assert row == {"host": "127.0.0.1", "name": None, "request": "GET /a?b=1 HTTP/1.0", "status": 200, "size": None}


@pytest.mark.parametrize("form", ["(?P<B>[a-z]+) (?P<id>[0-9]+)", "(?<B>[a-z]+) (?<id>[0-9]+)"])
def test_named_groups_name_their_columns(form):
    assert rows_of(StrictRegexWriter(regex=form), schema_of(id="int", a="int", b="string"), b"x 1") == [
        {"id": 1, "a": None, "b": "x"}
    ]


def test_columns_name_the_columns_of_groups():
    writer = StrictRegexWriter(regex="(.)(.)", columns=["b", "a"])
    assert rows_of(writer, schema_of(a="string", b="string"), b"xy") == [{"a": "y", "b": "x"}]


def test_a_group_that_takes_no_part_is_null():
    assert rows_of(StrictRegexWriter(regex="(a)?(b)"), schema_of(a="string", b="string"), b"b") == [
        {"a": None, "b": "b"}
    ]


def test_a_record_that_does_not_match_as_a_whole_is_bad():
    schema = schema_of(a="string")
    with pytest.raises(SerializationError, match=r"record 1 \(at byte 2\): the record does not match regex"):
        rows_of(StrictRegexWriter(regex="(a)"), schema, b"a\nab\n")
    [parsed] = parse_all(StrictRegexWriter(regex="(a)", on_error="skip"), schema, b"a\nab\na\n")
    assert (parsed.batch.num_rows, parsed.skipped, parsed.bad_records[0].data) == (2, 1, b"ab")
    assert rows_of(StrictRegexWriter(regex="(a)", coerce="hive"), schema, b"ab") == [{"a": None}]


def test_values_follow_the_rules_of_text():
    with pytest.raises(SerializationError, match=r"column 'a': '7.0' is not a whole number"):
        rows_of(StrictRegexWriter(regex="(.*)"), schema_of(a="int"), b"7.0")
    assert rows_of(StrictRegexWriter(regex="(.*)", coerce="lossless"), schema_of(a="int"), b"7.0") == [{"a": 7}]
    with pytest.raises(SerializationError, match="not UTF-8"):
        rows_of(StrictRegexWriter(regex="(.*)"), schema_of(a="string"), b"\xff")


def test_a_record_may_have_newlines_and_case_may_be_ignored():
    writer = StrictRegexWriter(regex="(a.b)", case_insensitive=True)
    assert rows_of(writer, schema_of(v="string"), [b"A\nb"]) == [{"v": "A\nb"}]


def test_a_dynamic_partition_key_needs_a_group():
    schema = schema_of(partition={"p": "string"}, a="string")
    assert rows_of(StrictRegexWriter(regex="(.)(.)"), schema, b"xy") == [{"a": "x", "p": "y"}]
    with pytest.raises(StreamingConnectionError, match="leaves out the partition key 'p'"):
        StrictRegexWriter(regex="(.)", columns=["a"]).bind(schema)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"regex": "("}, "is not a regular expression"),
        ({"regex": "abc"}, "has no groups"),
        ({"regex": "(?P<a>.)(.)"}, "with and without names"),
        ({"regex": "(?P<a>.)", "columns": ["a"]}, "have names already"),
        ({"regex": "(.)", "null_values": "-"}, "give a list"),
        ({"regex": "(.)", "coerce": "loose"}, "coerce='loose'"),
    ],
)
def test_options_that_are_not_valid_are_refused(options, why):
    with pytest.raises(ConfigurationError, match=why):
        StrictRegexWriter(**options)


def test_schemas_that_it_cannot_fill_are_refused():
    with pytest.raises(StreamingConnectionError, match=r"1 group\(s\) for 2 column\(s\)"):
        StrictRegexWriter(regex="(.)").bind(schema_of(a="string", b="string"))
    with pytest.raises(StreamingConnectionError, match="no column nope"):
        StrictRegexWriter(regex="(?P<nope>.)").bind(schema_of(a="string"))
    with pytest.raises(UnsupportedFeature, match="column 'a': array<int>"):
        StrictRegexWriter(regex="(.)").bind(schema_of(a="array<int>"))


def test_records_of_several_lines_are_divided_by_a_pattern_and_read_by_another():
    text = "1 a\n  b\n2 c\n"
    writer = StrictRegexWriter(regex=r"(\d+) (.*?)\n?", line_delimiter_pattern=r"\n(?=\d)")
    for given in (text, io.StringIO(text)):
        assert rows_of(writer, schema_of(id="int", msg="string"), given) == [
            {"id": 1, "msg": "a\n  b"},
            {"id": 2, "msg": "c"},
        ]
