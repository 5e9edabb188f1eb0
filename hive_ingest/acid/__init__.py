"""The table format, pure: names, write ids, folder selection, bucket hashes, partition values."""

from hive_ingest.acid.bucket_codec import MAX_BUCKET_ID, encode_bucket
from hive_ingest.acid.bucketing import bucket_ids, check_bucket_type
from hive_ingest.acid.directory import BEFORE_ALL_WRITE_IDS, AcidDirectory, ListedEntry, acid_directory
from hive_ingest.acid.names import (
    ACID_VERSION_FILE,
    BASE_METADATA_FILE,
    FLUSH_LENGTH_SUFFIX,
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
)
from hive_ingest.acid.partition_values import EXACT_KINDS, normalised_text, padded, text_of_value
from hive_ingest.acid.write_ids import RangeResponse, ValidTxnList, ValidWriteIdList

__all__ = [
    "ACID_VERSION_FILE",
    "BASE_METADATA_FILE",
    "BEFORE_ALL_WRITE_IDS",
    "EXACT_KINDS",
    "FLUSH_LENGTH_SUFFIX",
    "MAX_BUCKET_ID",
    "AcidDirectory",
    "BaseName",
    "BucketFileName",
    "DeleteDeltaName",
    "DeltaName",
    "FlushLengthName",
    "ListedEntry",
    "OriginalFileName",
    "RangeResponse",
    "ValidTxnList",
    "ValidWriteIdList",
    "acid_directory",
    "bucket_ids",
    "check_bucket_type",
    "encode_bucket",
    "escape_path_name",
    "is_hidden",
    "normalised_text",
    "padded",
    "parse_file_name",
    "parse_folder_name",
    "parse_partition_name",
    "partition_name",
    "text_of_value",
]
