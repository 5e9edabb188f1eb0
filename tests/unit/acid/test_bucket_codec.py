"""The bucket property as Hive's BucketCodec.V1 packs it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hive_ingest.acid.bucket_codec import MAX_BUCKET_ID, MAX_STATEMENT_ID, BucketProperty, decode_bucket, encode_bucket
from hive_ingest.errors import ConfigurationError, CorruptFile


def test_bucket_properties_are_encoded_as_hive_does():
    assert encode_bucket(0) == 536870912
    assert encode_bucket(1) == 536936448
    assert encode_bucket(0, 1) == 536870913
    assert encode_bucket(MAX_BUCKET_ID, MAX_STATEMENT_ID) == 0x2FFF0FFF


@given(st.integers(0, MAX_BUCKET_ID), st.integers(0, MAX_STATEMENT_ID))
def test_decode_reverses_encode(bucket, statement):
    assert decode_bucket(encode_bucket(bucket, statement)) == BucketProperty(bucket, statement)


@pytest.mark.parametrize(("bucket", "statement"), [(4096, 0), (-1, 0), (0, 4096), (0, -1)])
def test_a_number_of_more_than_12_bits_is_refused(bucket, statement):
    with pytest.raises(ConfigurationError, match="0 to 4095"):
        encode_bucket(bucket, statement)


@pytest.mark.parametrize("value", [0, 3, 2 << 29])
def test_another_version_is_refused(value):
    with pytest.raises(CorruptFile, match="version"):
        decode_bucket(value)
