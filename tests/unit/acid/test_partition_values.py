"""A partition value has one text, in Hive's form, or is refused; what has a text can be read back."""

from __future__ import annotations

import datetime as dt
import decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.acid.partition_values import EXACT_KINDS, normalised_text, text_of_value
from hive_ingest.errors import ConfigurationError, UnsupportedFeature
from hive_ingest.model import DEFAULT_PARTITION_NAME, Column
from hive_ingest.reader.partitions import partition_value
from hive_ingest.schema import parse_type


@pytest.mark.parametrize(
    ("type_", "text", "wanted"),
    [
        ("int", "01", "1"),
        ("int", "+7", "7"),
        ("int", "-0", "0"),
        ("int", "-007", "-7"),
        ("tinyint", "-128", "-128"),
        ("bigint", "0" * 30 + "9223372036854775807", "9223372036854775807"),
        ("decimal(5,2)", "1.50", "1.5"),
        ("decimal(5,2)", "100", "100"),
        ("decimal(5,2)", "1e2", "100"),
        ("decimal(5,2)", "-0.00", "0"),
        ("decimal(38,0)", "9" * 38, "9" * 38),
        ("double", "1", "1.0"),
        ("double", "1e10", "1.0E10"),
        ("double", "0.00012", "1.2E-4"),
        ("double", "9999999", "9999999.0"),
        ("double", "-Infinity", "-Infinity"),
        ("float", "0.1", "0.1"),
        ("float", "16777217", "1.6777216E7"),
        ("boolean", "TRUE", "true"),
        ("date", "2024-02-29", "2024-02-29"),
        ("timestamp", "2024-02-29T23:59:59.500", "2024-02-29 23:59:59.5"),
        ("timestamp", "1969-12-31 23:59:59", "1969-12-31 23:59:59"),
        ("char(4)", "ab", "ab  "),
        ("char(4)", "ab        ", "ab  "),
        ("varchar(4)", "ab ", "ab "),
        ("string", " 01/ü=%", " 01/ü=%"),
        *((type_, text, text) for type_ in ("int", "char(2)", "date") for text in ("", DEFAULT_PARTITION_NAME)),
    ],
)
def test_a_text_is_normalised_to_the_form_that_hive_names_the_folder_by(type_, text, wanted):
    assert normalised_text(text, parse_type(type_)) == wanted
    assert normalised_text(wanted, parse_type(type_)) == wanted
    if wanted:
        partition_value(Column("k", type_), wanted)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        *(("int", text) for text in ("20x", "1.0", " 1", "1 ", "1e2", "0x1", "١", "2147483648", "-2147483649", "+")),
        ("tinyint", "128"),
        ("bigint", "9" * 30),
        *(("decimal(5,2)", text) for text in ("1.234", "1000", "x", "NaN", "1e400", "1e-400", "1,5")),
        *(("double", text) for text in ("", "x", "1e400", "nan", "inf", "1d")[1:]),
        ("float", "1e39"),
        *(("boolean", text) for text in ("1", "yes", "t")),
        *(("date", text) for text in ("2023-02-29", "2024-2-9", "20240209", "0000-01-01", "2024-01-01 00:00:00")),
        *(("timestamp", text) for text in ("2024-01-01", "2024-01-01 24:00:00", "2263-01-01 00:00:00")),
        ("char(2)", "abc"),
        ("varchar(2)", "ab "),
        ("string", "\udcff"),
    ],
)
def test_a_text_that_is_not_a_value_of_the_type_is_refused(type_, text):
    with pytest.raises(ConfigurationError, match="is not a value of type") as caught:
        normalised_text(text, parse_type(type_))
    assert ascii(text)[1:-1] in ascii(str(caught.value)) or repr(text) in str(caught.value)


@pytest.mark.parametrize("type_", ["binary", "array<int>", "map<int,int>", "struct<a:int>"])
def test_a_type_that_cannot_be_a_partition_key_is_refused(type_):
    with pytest.raises(UnsupportedFeature, match="partition key of type"):
        normalised_text("x", parse_type(type_))


VALUES = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-(2**7), 2**7 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "decimal(7,3)": st.decimals(-9999, 9999, places=3),
    "date": st.dates(),
    "string": st.text(st.characters(codec="utf-8")),
    "char(3)": st.text("aé ", max_size=3),
    "varchar(3)": st.text("aé ", max_size=3),
}


@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_the_text_of_a_rows_value_is_normalised_and_reads_as_the_value(data, type_):
    value = data.draw(VALUES[type_])
    text = text_of_value(value, parse_type(type_))
    assert normalised_text(text, parse_type(type_)) == text
    if text in ("", DEFAULT_PARTITION_NAME):
        return
    read = partition_value(Column("k", type_), text).as_py()
    if isinstance(value, str) and type_.startswith("char"):
        read, value = read.rstrip(" "), value.rstrip(" ")
    assert read == value


@given(st.floats(allow_nan=False))
def test_the_text_of_a_double_reads_as_the_same_double(value):
    text = normalised_text(repr(value).replace("inf", "Infinity"), parse_type("double"))
    assert partition_value(Column("k", "double"), text).as_py() == value


def test_each_kind_that_rows_are_routed_by_can_be_given_as_text():
    samples = {
        "boolean": True, "decimal": decimal.Decimal("1.50"), "date": dt.date(2024, 2, 29), "char": "a", "varchar": "a",
        "string": "a", "tinyint": 1, "smallint": 1, "int": 1, "bigint": 1,
    }  # fmt: skip
    assert samples.keys() == EXACT_KINDS
    for kind, value in samples.items():
        type_ = parse_type({"decimal": "decimal(5,2)", "char": "char(3)", "varchar": "varchar(3)"}.get(kind, kind))
        assert normalised_text(text_of_value(value, type_), type_) == text_of_value(value, type_)
