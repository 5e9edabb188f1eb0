"""Names of partitions, ACID folders and bucket files: parsed, formatted, escaped.

| Name                                   | Value                                               |
|----------------------------------------|-----------------------------------------------------|
| `delta_0000004_0000004_0000`           | `DeltaName(4, 4, statement_id=0)`                   |
| `delta_0000001_0000004_v0000012`       | `DeltaName(1, 4, visibility_txn_id=12)`             |
| `delete_delta_0000005_0000005_0000`    | `DeleteDeltaName(5, 5, statement_id=0)`             |
| `base_0000005`, `base_0000005_v0000012`| `BaseName(5)`, `BaseName(5, visibility_txn_id=12)`  |
| `bucket_00000`, `bucket_00000_1`       | `BucketFileName(0)`, `BucketFileName(0, attempt_id=1)` |
| `bucket_00000_flush_length`            | `FlushLengthName(BucketFileName(0))`                |
| `000000_0`, `000000_0_copy_1`          | `OriginalFileName(0, 0)`, `OriginalFileName(0, 0, copy=1)` |

Sources: `FileUtils.makePartName`, `Warehouse.makeSpecFromName`, `AcidUtils.ParsedDeltaLight`,
`AcidUtils.ParsedBaseLight`, `AcidUtils.BUCKET_PATTERN`, `OrcAcidUtils.getSideFile`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Self

from hive_ingest.errors import ConfigurationError, CorruptFile
from hive_ingest.model import DEFAULT_PARTITION_NAME, TxnId, WriteId

#: One byte, `2`, in every delta and base (Hive: `OrcAcidVersion.ACID_FORMAT`).
ACID_VERSION_FILE = "_orc_acid_version"
#: Marks a base of Hive 3.1 as a compactor's, not an INSERT OVERWRITE's (Hive: `AcidUtils.MetaDataFile`).
BASE_METADATA_FILE = "_metadata_acid"

_ESCAPED = "\"#%'*/:=?\\\x7f{[]^"
_ESCAPES = {code: f"%{code:02X}" for code in (*range(32), *map(ord, _ESCAPED))}
_ESCAPE_SEQUENCE = re.compile(r"%([0-9A-Fa-f]{2})")


# -- partitions ------------------------------------------------------------------------------------


def escape_path_name(text: str) -> str:
    """Escape a name like `"a/b"` to `"a%2Fb"`: only Hive's characters, not spaces or non-ASCII ones."""
    return text.translate(_ESCAPES)


def unescape_path_name(text: str) -> str:
    """The reverse of `escape_path_name`. A `%` without two hexadecimal digits is literal."""
    return _ESCAPE_SEQUENCE.sub(lambda match: chr(int(match[1], 16)), text)


def partition_name(keys: Sequence[str], values: Sequence[str | None]) -> str:
    """`"continent=Asia/country=India"`, escaped; null and empty values are `__HIVE_DEFAULT_PARTITION__`.

    Raises ConfigurationError if the numbers of values and keys differ, or a value is not text.
    """
    if isinstance(values, str):
        raise ConfigurationError(
            f"partition values {values!r} are a single text: pass a list with a value for each key"
        )
    if isinstance(values, Mapping):  # it would be read as a list of its keys
        raise ConfigurationError(f"partition values {values!r} are a dict: pass a list in the order of the keys")
    if len(keys) != len(values):
        raise ConfigurationError(f"{len(values)} values for the partition keys {list(keys)}: pass one for each key")
    parts = zip(keys, values, strict=True)
    return "/".join(f"{escape_path_name(key.lower())}={_escaped_value(value)}" for key, value in parts)


def _escaped_value(value: str | None) -> str:
    if value is not None and not isinstance(value, str):
        raise ConfigurationError(f"partition value {value!r} is a {type(value).__name__}: pass values as text")
    return escape_path_name(value) if value else DEFAULT_PARTITION_NAME


def parse_partition_name(name: str) -> dict[str, str]:
    """`"k=v/…"` as unescaped text values by key, in order; a null stays `__HIVE_DEFAULT_PARTITION__`.

    Raises ConfigurationError for a text that is not a partition name.
    """
    found: dict[str, str] = {}
    for part in name.split("/"):
        key, equals, value = part.rpartition("=")
        if not (key and equals and value):
            raise ConfigurationError(f"{name!r} is not a partition name: {part!r} should read 'key=value'")
        found[unescape_path_name(key)] = unescape_path_name(value)
    return found


def is_hidden(name: str) -> bool:
    """Whether Hive's readers and compactor ignore the name (Hive: `FileUtils.HIDDEN_FILES_PATH_FILTER`).

    A statement of Hive 4 lists its files in a folder with the prefix `-tmp.` while it runs (HIVE-21164).
    """
    return name.startswith(("_", ".", "-tmp."))


# -- folders ---------------------------------------------------------------------------------------

_VISIBILITY = r"(?:_v(?P<txn>\d+))?"
_DELTA = re.compile(rf"(?:delete_)?delta_(?P<low>\d+)_(?P<high>\d+)(?:_(?P<statement>\d+))?{_VISIBILITY}", re.ASCII)
_BASE = re.compile(rf"base_(?P<write_id>-?\d+){_VISIBILITY}", re.ASCII)


def _visibility_suffix(txn_id: TxnId | None) -> str:
    return f"_v{txn_id:07d}" if txn_id else ""


def _visibility(text: str | None) -> TxnId | None:
    # _v0 is the same as no suffix (AcidUtils.addVisibilitySuffix)
    return TxnId(int(text)) if text and int(text) else None


@dataclass(frozen=True, slots=True)
class DeltaName:
    """Rows written by the closed range of write ids.

    `statement_id` is None after a compaction and in deltas of Hive's streaming batches;
    `visibility_txn_id` is the compaction's transaction: the folder counts only once that has committed.
    """

    PREFIX: ClassVar[str] = "delta_"

    min_write_id: WriteId
    max_write_id: WriteId
    statement_id: int | None = None
    visibility_txn_id: TxnId | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.min_write_id <= self.max_write_id:
            raise ConfigurationError(f"write ids {self.min_write_id} to {self.max_write_id} are not a range")

    def __str__(self) -> str:
        statement = "" if self.statement_id is None else f"_{self.statement_id:04d}"
        suffix = statement + _visibility_suffix(self.visibility_txn_id)
        return f"{self.PREFIX}{self.min_write_id:07d}_{self.max_write_id:07d}{suffix}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Raises CorruptFile for any other name."""
        match = _DELTA.fullmatch(name)
        if match is None or not name.startswith(cls.PREFIX) or int(match["low"]) > int(match["high"]):
            raise _foreign(name, f"{cls.PREFIX}<write id>_<write id>[_<statement>][_v<transaction>]")
        statement = None if match["statement"] is None else int(match["statement"])
        low, high = WriteId(int(match["low"])), WriteId(int(match["high"]))
        return cls(low, high, statement, _visibility(match["txn"]))


@dataclass(frozen=True, slots=True)
class DeleteDeltaName(DeltaName):
    """Delete events written by the closed range of write ids."""

    PREFIX: ClassVar[str] = "delete_delta_"


@dataclass(frozen=True, slots=True)
class BaseName:
    """All rows up to a write id: a compactor's, or an INSERT OVERWRITE's (then never with a `_v` suffix).

    The write id is -2**63 when original files alone were compacted.
    """

    PREFIX: ClassVar[str] = "base_"

    write_id: WriteId
    visibility_txn_id: TxnId | None = None

    def __str__(self) -> str:
        return f"{self.PREFIX}{self.write_id:07d}{_visibility_suffix(self.visibility_txn_id)}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Raises CorruptFile for any other name."""
        match = _BASE.fullmatch(name)
        if match is None:
            raise _foreign(name, "base_<write id>[_v<transaction>]")
        return cls(WriteId(int(match["write_id"])), _visibility(match["txn"]))


FolderName = DeltaName | DeleteDeltaName | BaseName
_FOLDERS: tuple[type[FolderName], ...] = (DeleteDeltaName, DeltaName, BaseName)


@lru_cache(maxsize=8192)  # the same folders are listed for each snapshot of a table
def parse_folder_name(name: str) -> FolderName | None:
    """Parse by prefix. None for a folder that is not an ACID folder. Raises CorruptFile if only the prefix fits."""
    for kind in _FOLDERS:
        if name.startswith(kind.PREFIX):
            return kind.parse(name)
    return None


def _foreign(name: str, expected: str) -> CorruptFile:
    return CorruptFile(f"{name!r} is not a name that Hive uses: expected {expected}; move it out of the table's folder")


# -- files -----------------------------------------------------------------------------------------

FLUSH_LENGTH_SUFFIX = "_flush_length"
_BUCKET = re.compile(r"bucket_(?P<bucket>\d+)(?:_(?P<attempt>\d+))?", re.ASCII)
_ORIGINAL = re.compile(r"(?P<bucket>\d+)_(?P<attempt>\d+)(?:_copy_(?P<copy>\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BucketFileName:
    """A file of one bucket in an ACID folder; Hive 4 adds the attempt id of the task that wrote it."""

    bucket: int
    attempt_id: int | None = None

    def __str__(self) -> str:
        attempt = "" if self.attempt_id is None else f"_{self.attempt_id}"
        return f"bucket_{self.bucket:05d}{attempt}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Raises CorruptFile for any other name."""
        match = _BUCKET.fullmatch(name)
        if match is None:
            raise _foreign(name, "bucket_<number>[_<attempt>]")
        return cls(int(match["bucket"]), None if match["attempt"] is None else int(match["attempt"]))


@dataclass(frozen=True, slots=True)
class FlushLengthName:
    """The side file of a Hive streaming batch that is still open: the committed lengths of `file`, 8 bytes each."""

    file: BucketFileName

    def __str__(self) -> str:
        return f"{self.file}{FLUSH_LENGTH_SUFFIX}"

    @classmethod
    def parse(cls, name: str) -> Self:
        """Raises CorruptFile for any other name."""
        file = name.removesuffix(FLUSH_LENGTH_SUFFIX)
        if file == name or _BUCKET.fullmatch(file) is None:
            raise _foreign(name, f"bucket_<number>{FLUSH_LENGTH_SUFFIX}")
        return cls(BucketFileName.parse(file))


@dataclass(frozen=True, slots=True)
class OriginalFileName:
    """A file without the ACID columns: from before the table was transactional, LOAD DATA, or insert-only."""

    bucket: int
    attempt_id: int = 0
    copy: int | None = None

    def __str__(self) -> str:
        copy = "" if self.copy is None else f"_copy_{self.copy}"
        return f"{self.bucket:06d}_{self.attempt_id}{copy}"

    @staticmethod
    def matches(name: str) -> bool:
        """Whether `parse` takes the name."""
        return _ORIGINAL.fullmatch(name) is not None

    @classmethod
    def parse(cls, name: str) -> Self:
        """Raises CorruptFile for any other name."""
        match = _ORIGINAL.fullmatch(name)
        if match is None:
            raise _foreign(name, "<bucket>_<attempt>[_copy_<number>]")
        return cls(int(match["bucket"]), int(match["attempt"]), None if match["copy"] is None else int(match["copy"]))


FileName = BucketFileName | FlushLengthName | OriginalFileName


def parse_file_name(name: str) -> FileName | None:
    """A data file or its side file; None for hidden names. Raises CorruptFile for names that Hive does not use."""
    if is_hidden(name):
        return None
    if name.endswith(FLUSH_LENGTH_SUFFIX):
        return FlushLengthName.parse(name)
    if name.startswith("bucket_"):
        return BucketFileName.parse(name)
    return OriginalFileName.parse(name)
