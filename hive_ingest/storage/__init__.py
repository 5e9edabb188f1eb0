"""File systems: stores, and locations in them. The only package that opens files."""

from hive_ingest.storage.append_file import AppendFile
from hive_ingest.storage.arrow_store import ArrowStore
from hive_ingest.storage.file_store import BytesLike, FileEntry, FileStore, OutputFile, io_errors, io_failure
from hive_ingest.storage.local_store import LocalStore
from hive_ingest.storage.location import Location, copy_file
from hive_ingest.storage.spill_folder import local_spill_folder

__all__ = [
    "AppendFile",
    "ArrowStore",
    "BytesLike",
    "FileEntry",
    "FileStore",
    "LocalStore",
    "Location",
    "OutputFile",
    "copy_file",
    "io_errors",
    "io_failure",
    "local_spill_folder",
]
