"""Names as Hive's FileUtils and AcidUtils give and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.acid.names import (
    BaseName,
    BucketFileName,
    DeleteDeltaName,
    DeltaName,
    FlushLengthName,
    OriginalFileName,
    escape_path_name,
    is_hidden,
    parse_file_name,
    parse_folder_name,
    parse_partition_name,
    partition_name,
    unescape_path_name,
)
from hive_ingest.errors import ConfigurationError, CorruptFile
from hive_ingest.model import TxnId, WriteId

FOLDERS = {
    "delta_0000002_0000003": DeltaName(WriteId(2), WriteId(3)),
    "delta_0000004_0000004_0000": DeltaName(WriteId(4), WriteId(4), 0),
    "delta_0000004_0000004_4095": DeltaName(WriteId(4), WriteId(4), 4095),
    "delta_0000001_0000004_v0000012": DeltaName(WriteId(1), WriteId(4), None, TxnId(12)),
    "delta_0000001_0000001_0003_v0000012": DeltaName(WriteId(1), WriteId(1), 3, TxnId(12)),
    "delta_12345678_123456789_v99999999": DeltaName(WriteId(12345678), WriteId(123456789), None, TxnId(99999999)),
    "delete_delta_0000005_0000005_0001": DeleteDeltaName(WriteId(5), WriteId(5), 1),
    "delete_delta_0000001_0000005_v0000008": DeleteDeltaName(WriteId(1), WriteId(5), None, TxnId(8)),
    "base_0000005": BaseName(WriteId(5)),
    "base_0000005_v0000012": BaseName(WriteId(5), TxnId(12)),
    "base_-9223372036854775808": BaseName(WriteId(-(2**63))),
}


@pytest.mark.parametrize(("text", "value"), FOLDERS.items())
def test_a_folder_name_is_the_same_in_both_directions(text, value):
    assert parse_folder_name(text) == value
    assert type(parse_folder_name(text)) is type(value)
    assert str(value) == text


@pytest.mark.parametrize(
    "text",
    [
        "delta_1",
        "delta_0000003_0000002",
        "delta_x_2",
        "delta_0000001_0000002_0000_0001",
        "delta_0000001_0000002_v",
        "delta_0000001_0000002_v0000001x",
        "delta_٠_٠",
        "base_",
        "base_5_6",
        "delete_delta_5",
    ],
)
def test_a_name_that_only_begins_like_hives_is_refused_by_name(text):
    with pytest.raises(CorruptFile) as error:
        parse_folder_name(text)
    assert text in str(error.value)


def test_a_folder_that_is_not_an_acid_folder_is_ignored():
    assert parse_folder_name("country=India") is None
    assert parse_folder_name("HIVE_UNION_SUBDIR_1") is None


def test_a_visibility_of_zero_adds_no_suffix():
    assert parse_folder_name("base_0000005_v0000000") == BaseName(WriteId(5))


def test_a_delta_does_not_read_a_delete_delta():
    with pytest.raises(CorruptFile):
        DeltaName.parse("delete_delta_0000005_0000005_0001")


def test_a_reversed_range_of_write_ids_has_no_name():
    with pytest.raises(ConfigurationError):
        DeltaName(WriteId(3), WriteId(2))


FILES = {
    "bucket_00000": BucketFileName(0),
    "bucket_04095": BucketFileName(4095),
    "bucket_123456": BucketFileName(123456),
    "bucket_00001_0": BucketFileName(1, 0),
    "bucket_00001_12": BucketFileName(1, 12),
    "bucket_00002_flush_length": FlushLengthName(BucketFileName(2)),
    "000000_0": OriginalFileName(0, 0),
    "000003_1_copy_2": OriginalFileName(3, 1, 2),
}


@pytest.mark.parametrize(("text", "value"), FILES.items())
def test_a_file_name_is_the_same_in_both_directions(text, value):
    assert parse_file_name(text) == value
    assert str(value) == text


@pytest.mark.parametrize("text", ["part-00000.orc", "bucket_", "bucket_1_2_3", "bucket_x_flush_length"])
def test_a_file_that_hive_does_not_make_is_refused_by_name(text):
    with pytest.raises(CorruptFile) as error:
        parse_file_name(text)
    assert text in str(error.value)


@pytest.mark.parametrize("kind", [BucketFileName, FlushLengthName, OriginalFileName, BaseName])
def test_every_kind_of_name_refuses_a_foreign_one(kind):
    with pytest.raises(CorruptFile):
        kind.parse("something_else")


def test_hidden_names_are_ignored():
    assert is_hidden("_orc_acid_version")
    assert is_hidden(".hive_ingest")
    assert is_hidden("-tmp.delta_0000047_0000047_0000")
    assert not is_hidden("bucket_00000")
    assert parse_file_name("_orc_acid_version") is None


def test_exactly_hives_characters_are_escaped():
    escaped = {chr(c) for c in range(0x250) if escape_path_name(chr(c)) != chr(c)}
    assert escaped == {chr(c) for c in range(32)} | set("\"#%'*/:=?\\\x7f{[]^")


def test_escapes_are_two_upper_case_hexadecimal_digits():
    assert escape_path_name("a/b:c\n\x7f") == "a%2Fb%3Ac%0A%7F"
    assert escape_path_name("São Paulo, 東京 }") == "São Paulo, 東京 }"


def test_a_percent_sign_without_two_digits_is_literal():
    assert unescape_path_name("100%") == "100%"
    assert unescape_path_name("%4") == "%4"
    assert unescape_path_name("%zz%2f") == "%zz/"


@given(st.text())
def test_unescape_reverses_escape(text):
    assert unescape_path_name(escape_path_name(text)) == text


def test_null_and_empty_partition_values_are_the_default_partition():
    name = partition_name(["Continent", "country"], [None, ""])
    assert name == "continent=__HIVE_DEFAULT_PARTITION__/country=__HIVE_DEFAULT_PARTITION__"
    assert parse_partition_name(name) == {
        "continent": "__HIVE_DEFAULT_PARTITION__",
        "country": "__HIVE_DEFAULT_PARTITION__",
    }


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_a_partition_name_is_the_same_in_both_directions(values):
    keys = [f"k{i}" for i in range(len(values))]
    assert parse_partition_name(partition_name(keys, values)) == dict(zip(keys, values, strict=True))


def test_there_are_as_many_values_as_keys():
    with pytest.raises(ConfigurationError):
        partition_name(["a", "b"], ["1"])


@pytest.mark.parametrize("text", ["", "a", "a=", "=b", "a=1/"])
def test_a_text_that_is_not_a_partition_name_is_refused(text):
    with pytest.raises(ConfigurationError):
        parse_partition_name(text)
